// Package goprog holds the tests of the provider go on running programs, above
// all test/trigger/goroutines. What was called with what, and in what goroutines,
// the program says itself.
package goprog

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// shapes prints what the functions were called with and what they returned.
const shapes = `
go$target:main:words:entry { printf("got words %s|%s|%s|%d\n", args[0], stringof(args[1]), args[2], args[0].len); }
go$target:main:words:return { printf("got words.ret %s|%d\n", args[1], args[2]); }
go$target:main:slices:entry { printf("got slices %s %d %d %s %d %d\n", stringof(args[0]), args[0]->len, args[1].len, args[1].ptr[1], args[1]->cap, args[2]); }
go$target:main:slices:return { printf("got slices.ret %d %s\n", args[1].len, args[1]->ptr[2]); }
go$target:main:onStack:entry { printf("got onStack %d %s %d %d\n", args[0].A[2], args[0].B, args[1], args[3]); }
go$target:main:onStack:return { printf("got onStack.ret %d %s %d\n", args[1].A[0], args[1].B, args[2]); }
go$target:main:floats:entry { printf("got floats %s %d %d\n", args[0].Name, args[0]->N, args[2]); }
go$target:main:floats:return { printf("got floats.ret %d\n", args[1]); }
go$target:main:many:entry { printf("got many %s %s %s %s %s %d\n", args[0], args[3], args[4], args[5], args[7], args[8]); }
go$target:main:many:return { printf("got many.ret %s\n", args[1]); }
go$target:main:structs:entry { printf("got structs %d %d %s %d %d %s %d\n", args[0].X, args[0].Y, args[0].Name, args[1]->X, args[1].Y, args[1]->Name, args[2].tab != 0); }
go$target:main:structs:return { printf("got structs.ret %d %d %s %d\n", args[1].X, args[1].Y, args[1].Name, args[2].tab != 0); }
go$target:main:(*point).move:entry { self->p = args[0]; printf("got move %s %d %d\n", args[0]->Name, args[1], args[2]); }
go$target:main:(*point).move:return { printf("got move.ret %d %d\n", args[1], self->p->Y); }
go$target:main:mapped[...]:entry { printf("got mapped %d\n", args[0].len); }
go$target:main:mapped[...]:return { printf("got mapped.ret %d %s\n", args[1].len, args[1].ptr[2]); }
go$target:main:(*list[...]).push:entry { printf("got push %d\n", args[1]); }
go$target:main:(*list[...]).push:return { printf("got push.ret %d\n", args[1]); }
go$target:main:assembled:entry { printf("got assembled %d %s %d\n", arg0, gostr(arg1, arg2), (int)arg3); }
go$target:main:deferred:entry { printf("got deferred %d\n", args[0]); }
go$target:main:deferred:return { printf("got deferred.ret %d\n", args[1]); }
go$target:path/filepath:Match:entry { printf("got match %s %s\n", args[0], args[1]); }
go$target:path/filepath:Match:return { printf("got match.ret %d %d\n", args[1], args[2].tab != 0); }
`

// lines are those that begin with a word, without it, in order of the alphabet.
func lines(out, word string) []string {
	var l []string
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			l = append(l, strings.TrimSpace(rest))
		}
	}
	slices.Sort(l)
	return l
}

// whole traces a program to its end, without a loss.
func whole(t *testing.T, args ...string) string {
	t.Helper()
	return testkernel.Whole(t, func() (string, string) {
		r := testkernel.Trace(t, args...).OK(t)
		return r.Stdout, r.Stderr
	})
}

// Arguments and results of functions of all shapes: in registers, on the stack,
// in several registers, more than there are registers for, of generic functions,
// of methods, of assembly.
func TestArguments(t *testing.T) {
	testkernel.RequireRoot(t)
	checkShapes(t, testkernel.Trigger(t, "goroutines"))
}

func checkShapes(t *testing.T, prog string) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "shapes.d")
	if err := os.WriteFile(script, []byte(shapes), 0o644); err != nil {
		t.Fatal(err)
	}
	out := whole(t, "-qs", script, "-c", prog+" calls")
	want, got := lines(out, "want"), lines(out, "got")
	want = slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, "assembled.ret") }) // ABI0 returns on the stack
	if !slices.Equal(got, want) || len(want) < 20 {
		for _, l := range want {
			if !slices.Contains(got, l) {
				t.Errorf("not seen: %s", l)
			}
		}
		for _, l := range got {
			if !slices.Contains(want, l) {
				t.Errorf("seen:     %s", l)
			}
		}
		t.Logf("%s", out)
	}
}

// A goroutine that sleeps goes on on another thread: self-> goes with it, in
// the probes of system calls too, and what is measured between entry and return
// is the call's time, which the program measures inside and outside of it.
func TestGoroutines(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Trigger(t, "goroutines")
	g, m := 50, 40
	if _, vm := testkernel.InVM(); vm {
		g, m = 20, 12
	}
	out := whole(t, "-qn", `
		go$target:main:work:entry {
			self->ts = timestamp; self->n = arg0; self->thread = tid; self->of[1] = arg0; self->goid = goid;
			@calls[goid] = count(); @sum = sum(args[0]);
		}
		syscall::getppid:entry /self->n/ { self->sys++; @astray = sum(goid != self->goid); }
		go$target:main:work:return /self->ts/ {
			@time = sum(timestamp - self->ts); @n = count(); @results = sum(args[1]);
			@moved = sum(self->thread != tid);
			@wrong = sum(self->goid != goid || self->of[1] != self->n || arg1 < self->n * 7 || arg1 > self->n * 7 + 4);
			@sys = sum(self->sys);
			self->ts = 0; self->n = 0; self->thread = 0; self->of[1] = 0; self->goid = 0; self->sys = 0;
		}
		go$target:main:work:return { @returns = count(); }
		END {
			printa("calls %d %@d\n", @calls);
			printa("seen %@d %@d %@d %@d %@d %@d %@d %@d %@d\n", @sum, @results, @time, @sys, @n, @returns, @moved, @wrong, @astray);
		}`, "-c", fmt.Sprintf("%s migrate %d %d", prog, g, m))
	var want []string
	for _, id := range lines(out, "goroutine") {
		want = append(want, fmt.Sprintf("%s %d", id, m))
	}
	slices.Sort(want)
	if got := lines(out, "calls"); !slices.Equal(got, want) || len(want) != g {
		t.Errorf("calls by goroutine\n%q, want\n%q", got, want)
	}
	numbers := func(word string) []int64 {
		l := lines(out, word)
		if len(l) != 1 {
			t.Fatalf("%d lines of %q:\n%s", len(l), word, out)
		}
		var ns []int64
		for _, f := range strings.Fields(l[0]) {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			ns = append(ns, n)
		}
		return ns
	}
	own, seen := numbers("sum"), numbers("seen")
	calls := int64(g * m)
	if seen[0] != own[0] || seen[1] != own[1] {
		t.Errorf("sums of arguments and results %d, want %d", seen[:2], own[:2])
	}
	if seen[2] < own[2] || seen[2] > own[3] {
		t.Errorf("time in the calls %d ns, want it between %d and %d", seen[2], own[2], own[3])
	}
	if seen[3] != own[4] {
		t.Errorf("%d system calls by self->, want %d", seen[3], own[4])
	}
	if seen[4] != calls || seen[5] != calls {
		t.Errorf("%d returns with self->, %d in all, want %d", seen[4], seen[5], calls)
	}
	if seen[6] == 0 {
		t.Error("no goroutine went to another thread: nothing was tested")
	}
	if seen[7] != 0 || seen[8] != 0 {
		t.Errorf("%d calls with another's self->, %d system calls", seen[7], seen[8])
	}
}

// A program whose stacks grow, move and are collected all the time comes to no
// harm: the same output, the same status, every call and return counted.
func TestGrowth(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "4.14")
	prog := testkernel.Trigger(t, "goroutines")
	g, depth := 100, 10_000
	if _, vm := testkernel.InVM(); vm {
		g, depth = 8, 1000
	}
	cmd := []string{"grow", strconv.Itoa(g), strconv.Itoa(depth)}
	alone, err := exec.Command(prog, cmd...).Output()
	if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 7 {
		t.Fatalf("untraced: %v", err)
	}
	out := whole(t, "-qn", `go$target:main:grow:entry { @e = count(); self->n = arg0 + 1; }
		go$target:main:grow:return { @r = count(); @lost = sum(self->n == 0); }
		END { printa("seen %@d %@d %@d\n", @e, @r, @lost); }`, "-c", prog+" "+strings.Join(cmd, " "))
	grown := func(s string) string { return strings.Join(lines(s, "grown"), ",") }
	if grown(out) != grown(string(alone)) || grown(out) == "" {
		t.Errorf("it prints %q, untraced %q", grown(out), grown(string(alone)))
	}
	calls := g * (depth + 1)
	if got, want := lines(out, "seen"), fmt.Sprintf("%d %d 0", calls, calls); len(got) != 1 || got[0] != want {
		t.Errorf("entries, returns, returns without self-> %q, want %q", got, want)
	}
}

// Return probes by address kill Go programs, as the pid provider refuses.
func TestNoReturnAddress(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Trigger(t, "goroutines")
	out := whole(t, "-x", "pidreturn=address", "-qn", `go$target:main:words:return { printf("got %d\n", args[2]); }`, "-c", prog+" calls")
	if got := lines(out, "got"); len(got) != 1 || got[0] != "12" {
		t.Errorf("%q", got)
	}
}

// In every process of a file, by its path and as one of all Go programs; frames
// of stacks have Go's names.
func TestEverywhere(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Trigger(t, "goroutines")
	tr := testkernel.Begin(t, "-qn", `go:`+prog+`:main.words:entry { printf("got %s\n", args[0]); ustack(3); @[probemod, probefunc, probename] = count(); }`)
	for range 2 {
		if out, err := exec.Command(prog, "calls").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	out, _ := tr.Interrupt()
	if got := lines(out, "got"); !slices.Equal(got, []string{"hello, world", "hello, world"}) {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{`main\.words\n.*main\.calls\+0x`, regexp.QuoteMeta(prog) + `\s+main\.words\s+entry\s+2`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}

	sleeper := exec.Command(prog, "migrate", "1", "100000000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sleeper.Process.Kill(); sleeper.Wait() }()
	all := testkernel.Trace(t, "-qn", `go*:main:work:entry /pid == $1/ { printf("got %d %d %s\n", args[0] > 0, goid > 0, execname); exit(0); }`, strconv.Itoa(sleeper.Process.Pid)).OK(t)
	if got := lines(all.Stdout, "got"); len(got) != 1 || got[0] != "1 1 goroutines" {
		t.Errorf("go*: %q", all.Stdout)
	}
	one := testkernel.Trace(t, "-qn", fmt.Sprintf(`go%d:main:wor?:return { printf("got %%s\n", probefunc); exit(0); }`, sleeper.Process.Pid)).OK(t)
	if got := lines(one.Stdout, "got"); len(got) != 1 || got[0] != "work" {
		t.Errorf("go%d: %q", sleeper.Process.Pid, one.Stdout)
	}
}

// Listings show packages, functions and the types of arguments.
func TestListing(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Trigger(t, "goroutines")
	r := testkernel.Trace(t, "-lvn", "go$target:main:words:entry, go$target:main:(*point).move:return", "-c", prog+" calls").OK(t)
	for _, want := range []string{
		`go\d+\s+main\s+words entry`, `go\d+\s+main\s+\(\*point\)\.move return`,
		`args\[0\]: .*string`, `args\[2\]: .*string`, `args\[0\]: unsigned long`, `args\[1\]: int32`, "mechanism: uprobe on",
	} {
		if !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("no %s in\n%s", want, r.Stdout)
		}
	}
	all := testkernel.Trace(t, "-ln", "go$target:path/f*::", "-c", prog+" calls").OK(t)
	for line := range strings.Lines(all.Stdout) {
		if f := strings.Fields(line); f[0] != "ID" && !strings.HasPrefix(f[2], "path/") {
			t.Errorf("not of a package path/f*: %s", line)
		}
	}
	if !strings.Contains(all.Stdout, "Match entry") {
		t.Errorf("no filepath.Match:\n%s", all.Stdout)
	}
}

// Messages say what is wrong and what would be right.
func TestErrors(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Trigger(t, "goroutines") + " calls"
	ls, err := exec.LookPath("ls")
	if err != nil {
		t.Skip("SKIP-FEATURE: ls")
	}
	for _, c := range []struct{ prog, d, want string }{
		{prog, `go$target:main:worsd:entry`, `failed to lookup 'worsd' in package 'main'\n.*did you mean words\?`},
		{prog, `go$target:main:move:entry`, `did you mean \(\*point\)\.move\?`},
		{prog, `go$target:main:mapped:entry`, `did you mean mapped\[\.\.\.\]\?`},
		{prog, `go$target:mian:words:entry`, `there is no package 'mian' in goroutines\n.*did you mean main\?`},
		{prog, `go$target:filepath:Match:entry`, `did you mean path/filepath\?`},
		{prog, `go$target:main:words:1c`, `'1c' is an invalid probe name; expected entry or return \(for instructions: pid\d+:a.out:PACKAGE.FUNCTION:OFFSET\)`},
		{prog, `go$target:main:onStack:entry { trace(args[2]); }`, `args\[2\] of .* has no value: .* vector register`},
		{prog, `go$target:main:floats:entry { print(args[0]); }`, `has no value: .* vector register`},
		{prog, `go$target:main:floats:entry { print(args[0].X); }`, `has no value: .* vector register`},
		{prog, `go$target:main:floats:entry { trace(args[1]); }`, `args\[1\] of .* has no value: .* vector register`},
		{prog, `go$target:main:assembled:entry { trace(args[0]); }`, `has no typed arguments: it is written in assembly`},
		{prog, `go$target:main:goid:entry { trace(args[7]); }`, `index 7 is out of range`},
		{ls, `go$target:main:words:entry`, `process \d+ \(.*\) is not a Go program: it has no section \.gopclntab`},
		{prog, `go:` + ls + `:main.words:entry`, `is not a Go program: it has no section \.gopclntab`},
		{prog, `go:main:words:entry`, `'main': expected the path of a Go program`},
		{prog, `BEGIN { trace(goid); }`, `goid is not supported: no probe of the provider go is enabled`},
	} {
		r := testkernel.Trace(t, "-qn", c.d, "-c", c.prog)
		if r.Err == nil || !regexp.MustCompile(c.want).MatchString(r.Stderr) {
			t.Errorf("%s: %v, want %s\n%s", c.d, r.Err, c.want, r.Stderr)
		}
	}
	r := testkernel.Trace(t, "-qn", `go2147483646:main:words:entry`)
	if r.Err == nil || !strings.Contains(r.Stderr, "failed to grab process 2147483646: no such process") {
		t.Errorf("%v\n%s", r.Err, r.Stderr)
	}
}

// build builds the trigger anew; without the toolchain the test is skipped.
func build(t *testing.T, toolchain string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIP-FEATURE: go")
	}
	cgo := "0"
	if strings.Contains(strings.Join(flags, " "), "external") {
		cgo = "1"
	}
	env := append(os.Environ(), "CGO_ENABLED="+cgo, "GOTOOLCHAIN="+toolchain, "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if toolchain != "local" {
		cmd := exec.Command("go", "version")
		cmd.Env, cmd.Dir = env, t.TempDir()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("SKIP-FEATURE: %s: %s", toolchain, out)
		}
	}
	dir := t.TempDir()
	src := "../trigger/goroutines"
	names, err := os.ReadDir(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(src, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, n.Name()), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module goroutines\n\ngo 1.21\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	prog := filepath.Join(dir, "goroutines")
	cmd := exec.Command("go", append(append([]string{"build", "-o", prog}, flags...), ".")...)
	cmd.Env, cmd.Dir = env, dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return prog
}

// Stripped programs have names and raw registers, and say what they lack; those
// that a linker for C has put together, too.
func TestStripped(t *testing.T) {
	testkernel.RequireRoot(t)
	for _, b := range [][]string{
		{"local", "-ldflags=-s -w"},
		{"local", "-ldflags=-s -w -linkmode=external"},
		{"local", "-buildmode=pie", "-ldflags=-s -w -linkmode=external"},
		{"go1.21.13", "-buildmode=pie", "-ldflags=-s -w -linkmode=external"},
	} {
		t.Run(strings.Join(b, " "), func(t *testing.T) {
			if _, err := exec.LookPath("gcc"); err != nil && strings.Contains(b[len(b)-1], "external") {
				t.Skip("SKIP-FEATURE: gcc")
			}
			checkStripped(t, build(t, b[0], b[1:]...))
		})
	}
}

func checkStripped(t *testing.T, prog string) {
	out := whole(t, "-qn", `
		go$target:main:words:entry { printf("got %s %d %s %d goid %d\n", gostr(arg0, arg1), arg1, gostr(arg2, arg3), arg5, goid > 0); self->x = 1; }
		go$target:main:words:return /self->x/ { printf("got %s %d %d\n", gostr(arg1, arg2), arg2, arg3); }
		go$target:main:(*list[...]).push:entry { printf("got push %d\n", arg1 == 41 || arg2 == 41); }
		go$target:main:assembled:entry { printf("got assembled %d %d goid %d\n", arg0, arg2, goid > 0); }`, "-c", prog+" calls")
	want := []string{"assembled 5 4 goid 1", "hello, world 12 label 0 goid 1", "hello, worldlabel 17 12", "push 1"}
	if got := lines(out, "got"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	r := testkernel.Trace(t, "-qn", `go$target:main:words:entry { trace(args[0]); }`, "-c", prog+" calls")
	if r.Err == nil || !strings.Contains(r.Stderr, "has no typed arguments: the program has no debugging information") {
		t.Errorf("%v\n%s", r.Err, r.Stderr)
	}
}

// Programs as they are built for debugging, as position-independent ones, and
// by compilers of other years.
func TestBuilds(t *testing.T) {
	testkernel.RequireRoot(t)
	for _, b := range [][]string{{"local", "-gcflags=all=-N -l"}, {"local", "-buildmode=pie"},
		{"go1.21.13"}, {"go1.23.12"}, {"go1.24.11"}, {"go1.25.5"}} {
		t.Run(strings.Join(b, " "), func(t *testing.T) {
			checkShapes(t, build(t, b[0], b[1:]...))
		})
	}
}
