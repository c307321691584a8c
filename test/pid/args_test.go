package pid

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// said are the lines "WORD …" of an output, in order, without the word.
func said(out, word string) (lines []string) {
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), word+" "); ok {
			lines = append(lines, rest)
		}
	}
	slices.Sort(lines)
	return lines
}

// agree holds what D printed ("D …") against what the program printed ("P …").
func agree(t *testing.T, r testkernel.Result) {
	t.Helper()
	d, p := said(r.Stdout, "D"), said(r.Stdout, "P")
	if !slices.Equal(d, p) || len(d) == 0 {
		t.Errorf("typed arguments:\n%s\nthe program says:\n%s\n%s", strings.Join(d, "\n"), strings.Join(p, "\n"), r.Stderr)
	}
}

const argsC = `
pid$target:a.out:visit:entry
{
	printf("D visit %s %d %d %d %s %d %d %d\n", stringof(args[0]->name), args[1], args[2], args[3], copyinstr(args[4]), args[5], args[6], args[7]);
	printf("D visit-> %d %d %d %c %d %d %s\n", args[0]->n, args[0]->lo, args[0]->hi, args[0]->part[1], args[0]->p[1].y, args[0]->state, args[0]->text);
	this->c = args[0];
	self->copy = *args[0];
	printf("D visit->-> %s %d\n", stringof(this->c->next->name), (*(this->c->next)).n);
}
pid$target:a.out:local:entry { printf("D local %d %s %d %d\n", args[0], stringof(args[1]->name), args[2], args[3]); }
pid$target:a.out:visit:return { printf("R %s %d %d\n", stringof(args[1]->name), args[1]->n, self->copy.p[1].y); }
pid$target:a.out:byvalue:entry { printf("D byvalue %d %d %d %s %d\n", args[0].a, args[0].b, args[1].v[3], args[1].s, args[2]); this->p = args[0].b; }
pid$target:a.out:byvalue:return { printf("B %d\n", args[1]); }
pid$target:a.out:swapped:return { printf("D swapped %d %d\n", args[1].a, args[1].b); }
pid$target:a.out:real:entry { printf("D real %d\n", args[1]); }
`

// Parameters by their types: pointers into the program are followed, members
// found, bit-fields taken apart, strings and structs copied; past the
// sixth they are on the stack, structs in two registers or on the stack. It is the
// same whatever version the debugging information has and wherever it is.
func TestTypedArgs(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "2.12")
	builds := []string{"-O0", "-O2", "-O1 -gdwarf-4 -gz", "-O2 -fcf-protection=full -gdwarf-5 -gz=zlib-gnu", "split"}
	if _, vm := testkernel.InVM(); vm {
		builds = []string{"-O0", "split"} // emulated, it takes its time
	}
	for _, flags := range builds {
		t.Run(flags, func(t *testing.T) {
			split := flags == "split"
			if split {
				flags = "-O2"
			}
			prog := testkernel.Compile(t, "testdata/args.c", append(strings.Fields(flags), "-g")...)
			if split {
				separate(t, prog)
			}
			r := testkernel.Trace(t, "-qn", argsC, "-c", prog).OK(t)
			agree(t, r)
			if got, want := said(r.Stdout, "R"), []string{"second -5 -300", "second -5 -300", "second -5 -300"}; !slices.Equal(got, want) {
				t.Errorf("visit returned %q, want %q", got, want)
			}
			if got, want := said(r.Stdout, "B"), []string{"-5", "-5", "-5"}; !slices.Equal(got, want) {
				t.Errorf("byvalue returned %q, want %q", got, want)
			}
		})
	}
}

// separate moves a program's symbols and debugging information into a file of
// their own.
func separate(t *testing.T, prog string) {
	t.Helper()
	for _, args := range [][]string{
		{"objcopy", "--only-keep-debug", prog, prog + ".debug"},
		{"strip", prog},
		{"objcopy", "--add-gnu-debuglink=" + prog + ".debug", prog},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("SKIP-FEATURE: %v: %v\n%s", args, err, out)
		}
	}
}

// The arguments of 32-bit programs are on the stack, their pointers have 4 bytes.
func TestTypedArgs32(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.30")
	prog := testkernel.Compile(t, "testdata/args.c", "-m32", "-g", "-O2")
	d, _, _ := strings.Cut(argsC, "pid$target:a.out:visit:return")
	r := testkernel.Trace(t, "-qn", d+`pid$target:a.out:byvalue:entry { printf("D byvalue %d %d %d %s %d\n", args[0].a, args[0].b, args[1].v[3], args[1].s, args[2]); }
		pid$target:a.out:real:entry { printf("D real %d\n", args[1]); }`, "-c", prog).OK(t)
	// The results are not looked at.
	r.Stdout = strings.ReplaceAll(r.Stdout, "P swapped", "- swapped")
	agree(t, r)
}

func TestTypedArgsCPP(t *testing.T) {
	testkernel.RequireRoot(t)
	for _, opt := range []string{"-O0", "-O2"} {
		t.Run(opt, func(t *testing.T) {
			prog := testkernel.Compile(t, "testdata/args.cc", "-g", opt)
			r := testkernel.Trace(t, "-qn", `
				pid$target:a.out:*Conn4send*:entry
				{
					printf("D send %d %d %s %s %d\n", args[0]->id, args[0]->mixed, stringof(args[0]->name._M_dataplus._M_p),
					    stringof(args[1]->name._M_dataplus._M_p), *args[2]);
				}
				pid$target:a.out:_ZN3net4takeENS_4ConnEi:entry { printf("D take %d %d\n", args[0].id, args[1]); }`, "-c", prog).OK(t)
			agree(t, r)
		})
	}
}

func TestTypedArgsRust(t *testing.T) {
	testkernel.RequireRoot(t)
	if _, err := exec.LookPath("rustc"); err != nil {
		t.Skip("SKIP-FEATURE: rustc")
	}
	for _, opt := range []string{"0", "2"} {
		t.Run(opt, func(t *testing.T) {
			prog := filepath.Join(t.TempDir(), "args")
			if out, err := exec.Command("rustc", "-g", "-C", "opt-level="+opt, "-o", prog, "testdata/args.rs").CombinedOutput(); err != nil {
				t.Skipf("SKIP-FEATURE: rustc: %v\n%s", err, out)
			}
			r := testkernel.Trace(t, "-qn", `
				pid$target:a.out:greet:entry
				{
					printf("D greet %d %s %s %d %d %d %d\n", args[0]->n,
					    copyinstr((uintptr_t)args[0]->name.vec.buf.inner.ptr.pointer.pointer, args[0]->name.vec.len + 1),
					    copyinstr((uintptr_t)args[1].data_ptr, args[1].length + 1), args[2], args[3].length, args[3].data_ptr[1],
					    args[0]->state.Busy.__0);
				}
				pid$target:a.out:maybe:entry { printf("D maybe %d %d %d %d\n", args[0].Some.__0, args[1][4], args[2].__0, args[2].__1); }
				pid$target:a.out:maybe:return { printf("R %d\n", args[1].Some.__0); }`, "-c", prog).OK(t)
			agree(t, r)
			if got, want := said(r.Stdout, "R"), []string{"1", "2", "3"}; !slices.Equal(got, want) {
				t.Errorf("maybe returned %q, want %q", got, want)
			}
		})
	}
}

// print() shows the object a pointer leads to, by its type.
func TestTypedPrint(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "2.12")
	prog := testkernel.Compile(t, "testdata/args.c", "-g", "-O2")
	want := []string{
		"(struct conn) {", ".n = (int)41,", ".lo = (unsigned int)5,", ".hi = (unsigned int)21,", ".y = (short int)-300,",
		".state = (enum state)BUSY,", "(char)'e',",
	}
	for _, x := range []string{"args[0]", "*args[0]"} {
		r := testkernel.Trace(t, "-qn", "pid$target:a.out:visit:entry { print("+x+"); exit(0); }", "-c", prog).OK(t)
		for _, w := range want {
			if !strings.Contains(r.Stdout, w) {
				t.Errorf("print(%s) lacks %q:\n%s", x, w, r.Stdout)
			}
		}
	}
}

// -lv lists the types, and what cannot be had is said with the reason.
func TestTypedRefusals(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "2.12")
	prog := testkernel.Compile(t, "testdata/args.c", "-g", "-O2")
	r := testkernel.Trace(t, "-lvn", "pid$target:a.out:visit:entry, pid$target:a.out:visit:return, pid$target:a.out:real:entry", "-c", prog).OK(t)
	for _, w := range []string{"args[0]: struct conn *", "args[3]: unsigned char", "args[4]: const char *", "args[7]: char",
		"args[1]: struct conn *", "args[0]: double"} {
		if !strings.Contains(r.Stdout, "\t\t"+w+"\n") {
			t.Errorf("-lv lacks %q:\n%s", w, r.Stdout)
		}
	}
	plain := testkernel.Compile(t, "testdata/args.c", "-O0")
	for _, c := range []struct{ prog, d, want string }{
		{prog, "pid$target:a.out:real:entry { trace(args[0]); }", "%xmm0"},
		{prog, "pid$target:a.out:visit:entry { trace(args[8]); }", "index 8 is out of range"},
		{prog, "pid$target:a.out:visit:entry { trace(args[0]->nothing); }", "nothing is not a member of struct conn"},
		{prog, "pid$target:a.out:inlined:entry { trace(args[0]); }", "inlined into its callers"},
		{prog, "pid$target:a.out:visit:0 { trace(args[0]); }", "args[ ]"},
		{plain, "pid$target:a.out:visit:entry { trace(args[0]); }", "no debugging information"},
	} {
		if r := testkernel.Trace(t, "-qn", c.d, "-c", c.prog); r.Err == nil || !strings.Contains(r.Stderr, c.want) {
			t.Errorf("%s: %v, want %q in\n%s", c.d, r.Err, c.want, r.Stderr)
		}
	}
	// A pointer that leads nowhere is a fault of that firing, no more.
	r = testkernel.Trace(t, "-qn", `pid$target:a.out:visit:entry { trace(args[0]->next->next->n); } ERROR { printf("E %d\n", arg4); }`, "-c", prog).OK(t)
	if got := said(r.Stdout, "E"); len(got) != 3 {
		t.Errorf("%d faults, want 3:\n%s%s", len(got), r.Stdout, r.Stderr)
	}
}

// A file named by its path has types as well.
func TestTypedPath(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, "testdata/args.c", "-g", "-O2")
	r := testkernel.Trace(t, "-qn", fmt.Sprintf(`uprobe:%s:visit:entry { printf("D %%d\n", args[0]->n); }`, prog), "-c", prog).OK(t)
	if got, want := said(r.Stdout, "D"), []string{"41", "42", "43"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// D finds the program's types by their tags and the constants of its enums;
// variables may be declared with them before any probe is known.
func TestTypedNames(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, "testdata/args.c", "-g", "-O1")
	r := testkernel.Trace(t, "-qn", `
		this struct conn *c;
		self struct conn *d;
		pid$target:a.out:visit:entry /args[0]->state == BUSY/
		{
			this->c = args[0];
			self->d = (struct conn *)arg0;
			printf("D %s %s %d %d\n", stringof(this->c->name), stringof(self->d->next->name), ((struct args`+"`"+`point *)((uintptr_t)&self->d->p[1]))->y,
			    ((struct point *)copyin((uintptr_t)&this->c->p[1], sizeof(struct point)))->y);
		}`, "-c", prog).OK(t)
	want := "first second -300 -300"
	if got := said(r.Stdout, "D"); !slices.Equal(got, []string{want, want, want}) {
		t.Errorf("%q, want three times %q\n%s", got, want, r.Stderr)
	}
}
