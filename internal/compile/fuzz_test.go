package compile

import (
	"testing"

	"godtrace/internal/check"
	"godtrace/internal/dif"
	"godtrace/internal/syntax"
)

// FuzzCompile: whatever the checker lets through compiles to code that
// verifies, or is refused with an error for its author; and it runs.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`trace(arg0 && arg1 || !arg2 ^^ 1 ? strjoin(execname, "x") : probefunc);`,
		`self->a[pid, execname] = copyinstr(arg3); @[self->a[pid, execname], stack(3)] = lquantize(arg0, 0, 100, 10, arg1);`,
		`this->t = (struct thing *)arg0; trace(this->t->next->level++); this->u = *this->t; print(this->t);`,
		`if (arg0) { printf("%d", arg0 / arg1); } else { x = arg2 << 3; if (x) exit(x); }`,
		`this->p = (char *)alloca(arg0); this->p[3] += 5; tracemem(this->p, 8, arg1);`,
		`speculate(speculation()); trace((short)arg0); a[1] = 0; a[1]++;`,
		`this->s = stack(); trace(this->s); trace(strtok(copyinstr(arg3, 9), "/")); discard(1);`,
		"trace(`jiffies - 3 > 0 ? 1 : 2); trace(index(execname, \"s\", -1)); raise(3);",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		ck := check.New(env{}, check.Options{})
		file, err := syntax.Parse("", []byte("t:m:f:n { "+src+"\n}"), syntax.Options{IsType: ck.IsType})
		if err != nil {
			return
		}
		prog, err := ck.File(file)
		if err != nil {
			return
		}
		c := New(Options{StrSize: 64})
		w := newWorld()
		var cls []*dif.Clause
		for _, cl := range prog.Clauses {
			d, err := c.Clause(cl)
			if err != nil {
				if e, ok := err.(*syntax.Error); !ok || len(e.Msg) > 8 && e.Msg[:8] == "internal" {
					t.Fatalf("%s: %v", src, err)
				}
				return
			}
			cls = append(cls, d)
			dif.Print(c.Object(), d)
			if err := dif.Disassemble(discard{}, c.Object(), d); err != nil {
				t.Fatal(err)
			}
		}
		m := dif.NewMachine(c.Object(), w)
		m.Fire(&dif.Firing{ID: 2, Clauses: cls, Desc: probes[1].Desc})
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
