package meaning

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godtrace/internal/check"
	"godtrace/internal/dif"
	"godtrace/internal/syntax"
)

func load(t *testing.T) []*Test {
	t.Helper()
	all, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// norm leaves trailing newlines out of a comparison: a program need not end
// its output with one, a section of a table does.
func norm(s string) string { return strings.TrimRight(s, "\n") }

func TestMeaning(t *testing.T) {
	t.Attr("rows", "2.3,2.4,2.5") // as testkernel.Shows, which is of the kernel half
	for _, mt := range load(t) {
		t.Run(mt.Name(), func(t *testing.T) {
			r, err := mt.Run()
			if err != nil {
				t.Fatalf("%s: %v", mt.Where, err)
			}
			for _, c := range []struct{ what, got, want string }{
				{"output", r.Output, mt.Output}, {"errors", r.Faults, mt.Errors}, {"acts", r.Acts, mt.Acts},
			} {
				if norm(c.got) != norm(c.want) {
					t.Errorf("%s: %s:\n%s\nwant (%s):\n%s", mt.Where, c.what, c.got, mt.From, c.want)
				}
			}
		})
	}
}

// TestC compiles the C twins of the tests and compares what they print with
// the expected output: it proves the tables, not the program.
func TestC(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("SKIP-FEATURE: no gcc")
	}
	var src, body strings.Builder
	src.WriteString("#include <stdio.h>\n#include <stdint.h>\n#include <stddef.h>\n#include <string.h>\n#include <stdlib.h>\n" +
		"#include <ctype.h>\n#include <libgen.h>\n#include <arpa/inet.h>\n#include <sys/types.h>\n")
	var twins []*Test
	for _, mt := range load(t) {
		if mt.C == "" {
			if mt.From == "C" {
				t.Errorf("%s: no section c", mt.Where)
			}
			continue
		}
		fmt.Fprintf(&src, "static void t%d(void) {\n#line 1 \"%s\"\n%s\n}\n", len(twins), mt.Where, mt.C)
		fmt.Fprintf(&body, "t%d(); printf(\"\\n\\1\");\n", len(twins))
		twins = append(twins, mt)
	}
	fmt.Fprintf(&src, "int main(void) {\n%s return 0; }\n", body.String())
	dir := t.TempDir()
	file, prog := filepath.Join(dir, "twins.c"), filepath.Join(dir, "twins")
	if err := os.WriteFile(file, []byte(src.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-fwrapv", "-w", "-o", prog, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(prog).Output()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(out), "\n\x01")
	for i, mt := range twins {
		if norm(parts[i]) != norm(mt.Output) {
			t.Errorf("%s: C prints:\n%s\nthe table says:\n%s", mt.Where, parts[i], mt.Output)
		}
	}
}

// operators are those of the language that are no tokens of the binary kind.
var operators = []string{
	"unary +", "unary -", "unary *", "unary &", "?:", "()", "[]", "->", ".", "`",
	"sizeof", "offsetof", "stringof", "xlate", "cast",
}

// TestCoverage insists on a test for everything D has: every name it
// predefines, every operator and every compound assignment.
func TestCoverage(t *testing.T) {
	names := map[string]bool{}
	var want []string
	for _, id := range check.Identifiers() {
		names[id.Name] = true
		switch {
		case id.Kind == "refused":
		default:
			want = append(want, id.Name)
		}
	}
	have := map[string]int{}
	for _, mt := range load(t) {
		have[mt.Subject]++
		if mt.From == "" {
			t.Errorf("%s: it does not say where the expected output is from", mt.Where)
		}
		if norm(mt.Output) == "" && mt.Errors == "" && mt.Acts == "" {
			t.Errorf("%s: it expects nothing", mt.Where)
		}
		p, err := Compile(mt.Program, NewEnv(), mt.Options)
		if err != nil {
			continue // TestMeaning says so
		}
		if !mentions(p.File, mt.Subject, names[mt.Subject]) {
			t.Errorf("%s: the program does not use %s", mt.Where, mt.Subject)
		}
	}
	for s := dif.SNone + 1; s < dif.NumSubrs; s++ {
		switch s {
		case dif.SStrcmp: // the comparison operators of strings
			want = append(want, "strings compare")
		default:
			want = append(want, s.String())
		}
	}
	for op := syntax.Add; op <= syntax.Dec; op++ {
		want = append(want, "operator "+op.String())
		switch op {
		case syntax.Add, syntax.Sub, syntax.Mul, syntax.Div, syntax.Mod, syntax.And, syntax.Or, syntax.Xor, syntax.Shl, syntax.Shr:
			want = append(want, "operator "+op.String()+"=")
		}
	}
	for _, op := range operators {
		want = append(want, "operator "+op)
	}
	for _, w := range want {
		if have[w] == 0 {
			t.Errorf("no meaning test of %s", w)
		}
	}
}

// mentions reports whether the program has what the subject names. Subjects
// that are neither names that D predefines nor operators are not looked for.
func mentions(f *syntax.File, subject string, isName bool) bool {
	op, isOp := strings.CutPrefix(subject, "operator ")
	if !isOp && !isName {
		return true
	}
	found := false
	hit := func(b bool) { found = found || b }
	syntax.Inspect(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Name:
			hit(!isOp && n.Name == subject)
			hit(op == "`" && n.Scoped)
		case *syntax.Call:
			hit(!isOp && n.Fun.Name == subject)
		case *syntax.Unary:
			hit(isOp && (n.Op.String() == op || "unary "+n.Op.String() == op))
		case *syntax.Postfix:
			hit(isOp && n.Op.String() == op)
		case *syntax.Binary:
			hit(isOp && n.Op.String() == op)
		case *syntax.Assign:
			hit(isOp && (n.Op.String() == op || n.Op.String()+"=" == op))
		case *syntax.Cond:
			hit(op == "?:")
		case *syntax.Paren:
			hit(op == "()")
		case *syntax.Index:
			hit(op == "[]" || subject == "args")
		case *syntax.Member:
			hit(isOp && (op == "->") == n.Arrow && (op == "." || op == "->"))
		case *syntax.Sizeof:
			hit(op == "sizeof")
		case *syntax.Offsetof:
			hit(op == "offsetof")
		case *syntax.Stringof:
			hit(op == "stringof")
		case *syntax.Xlate:
			hit(op == "xlate")
		case *syntax.Cast:
			hit(op == "cast")
		}
		return true
	})
	return found
}
