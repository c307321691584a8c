package cpp

import (
	"os/exec"
	"strings"
	"testing"
)

// The macros of either data model are those of a C compiler.
func TestModels(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("SKIP-FEATURE: no gcc")
	}
	names := strings.Fields(`__CHAR_BIT__ __SIZEOF_SHORT__ __SIZEOF_INT__ __SIZEOF_LONG__ __SIZEOF_LONG_LONG__ __SIZEOF_POINTER__
		__SIZEOF_SIZE_T__ __INT_MAX__ __LONG_MAX__ __LONG_LONG_MAX__ __WCHAR_MAX__ __SIZE_TYPE__ __PTRDIFF_TYPE__ __WCHAR_TYPE__
		__WINT_TYPE__ __i386 __i386__ __ILP32__ _ILP32 __amd64 __amd64__ __x86_64 __x86_64__ __LP64__ _LP64`)
	src := ""
	for _, n := range names {
		src += "#ifdef " + n + "\n<" + n + ">\n#else\nnone\n#endif\n"
	}
	words := func(b []byte) string {
		var out []string
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				out = append(out, line)
			}
		}
		return strings.Join(out, "\n")
	}
	for _, ilp32 := range []bool{false, true} {
		got, err := Process("m.d", []byte(src), Options{ILP32: ilp32})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(cc, map[bool]string{false: "-m64", true: "-m32"}[ilp32], "-E", "-P", "-x", "c", "-")
		cmd.Stdin = strings.NewReader(src)
		want, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if g, w := words(got), words(want); g != w {
			t.Errorf("ILP32 %v:\n%s\nwant:\n%s", ilp32, g, w)
		}
	}
}
