package check

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Structs of the program are laid out as a C compiler does for either model.
func TestModels(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("SKIP-FEATURE: no gcc")
	}
	const decls = `struct a { char c; long l; };
struct b { char c; long long l; char d; };
struct c { char c; void *p; char **q; int (*f)(int); };
struct d { int n; unsigned long ul : 20; char c; double x; };
struct e { char c; struct b b[3]; short s; };
union u { long long l; char c[9]; };
struct f { char c; union u u; };
`
	var exprs []string
	for _, s := range []string{"struct a", "struct b", "struct c", "struct d", "struct e", "union u", "struct f",
		"long", "unsigned long", "long long", "void *", "char **", "struct a *", "int"} {
		exprs = append(exprs, "sizeof ("+s+")")
	}
	for _, m := range []string{"struct a, l", "struct b, l", "struct b, d", "struct c, p", "struct c, q", "struct c, f",
		"struct d, c", "struct d, x", "struct e, b", "struct e, s", "struct f, u"} {
		exprs = append(exprs, "offsetof("+m+")")
	}
	for _, ilp32 := range []bool{false, true} {
		src := "#define offsetof(t, m) __builtin_offsetof(t, m)\n" + decls
		for i, x := range exprs {
			_, p, e := checkText(t, decls+"BEGIN { trace("+x+"); }", func(o *Options, _ *fakeEnv) { o.ILP32 = ilp32 })
			if e != nil {
				t.Fatalf("%s: %v", x, e)
			}
			k := p.Clauses[0].Body[0].(*Action).Args[0].(*Const)
			src += fmt.Sprintf("_Static_assert(%s == %d, \"%s is not %d\"); int x%d;\n", x, k.Value, x, k.Value, i)
		}
		cmd := exec.Command(cc, map[bool]string{false: "-m64", true: "-m32"}[ilp32], "-fsyntax-only", "-x", "c", "-")
		cmd.Stdin = strings.NewReader(src)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("ILP32 %v: %v\n%s", ilp32, err, out)
		}
	}
}
