//go:build amd64

package agree_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"godtrace/internal/bpf"
	"godtrace/internal/compile"
	"godtrace/internal/testkernel"
	"godtrace/test/meaning"
)

// TestManyClauses loads a program of 500 clauses, of different kinds, on one
// probe, and says how long it took.
func TestManyClauses(t *testing.T) {
	testkernel.RequireRoot(t)
	for name, body := range map[string]string{
		"assign":    "g[%[1]d] = %[1]d; x = x * 31 + %[1]d;",
		"aggregate": "@[%[1]d %% 7, probename] = sum(%[1]d);",
		"record":    "printf(\"%[1]d %%d\\n\", x + %[1]d);",
		"string":    "s = strjoin(substr(s, 1), lltostr(%[1]d)); self->n = strlen(s);",
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString("int x;\nint g[int];\nstring s;\n")
			n := 500
			if _, guest := testkernel.InVM(); guest { // emulation verifies slowly
				n = 100
				if name == "string" {
					n = 50
				}
			}
			for i := range n {
				fmt.Fprintf(&b, "BEGIN /x != %d/ { %s }\n", -i-1, fmt.Sprintf(body, i))
			}
			b.WriteString("END { printf(\"%d %d [%s]\\n\", x, g[77], s); }\n")
			start := time.Now()
			p, err := meaning.Compile(b.String(), meaning.NewEnv(), compile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			compiled := time.Since(start)
			want, err := interpret(p, 1, true)
			if err != nil {
				t.Fatal(err)
			}
			start = time.Now()
			rt, err := bpf.Load(config(p))
			if err != nil {
				t.Fatalf("%v%s", err, logTail(err))
			}
			loaded := time.Since(start)
			rt.Close()
			got, err := execute(p, 1, true)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, name, got, want)
			t.Logf("%d clauses: compiled in %v, loaded in %v", n, compiled.Round(time.Millisecond), loaded.Round(time.Millisecond))
		})
	}
}
