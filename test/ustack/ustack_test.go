//go:build amd64

// Package ustack holds the tests of user stacks: programs of several languages,
// built without frame pointers, whose frames are held against gdb's, against
// their own source, and against what a stack of them can be at all.
package ustack

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"godtrace/internal/symbol"
	"godtrace/internal/testkernel"
)

// build compiles a program of testdata, or one in Go of test/trigger; without
// the compiler the test is skipped.
func build(t *testing.T, source string, flags ...string) string {
	t.Helper()
	if filepath.Ext(source) != "" {
		return testkernel.Compile(t, filepath.Join("testdata", source), flags...)
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIP-FEATURE: go")
	}
	out := filepath.Join(t.TempDir(), source)
	if msg, err := exec.Command("go", append(append([]string{"build", "-o", out}, flags...), "../trigger/"+source)...).CombinedOutput(); err != nil {
		t.Skipf("SKIP-FEATURE: go build %s: %v\n%s", strings.Join(flags, " "), err, msg)
	}
	return out
}

// stacks splits output into stacks, each a list of lines without blanks around.
func stacks(out string) [][]string {
	var all [][]string
	var one []string
	for line := range strings.Lines(out + "\n\n") {
		line = strings.TrimSpace(line)
		if line != "" {
			one = append(one, line)
			continue
		}
		if len(one) > 0 {
			all = append(all, one)
		}
		one = nil
	}
	return all
}

// bare is a frame without its offset: module`function.
func bare(frame string) string {
	name, _, _ := strings.Cut(frame, "+0x")
	return name
}

func bares(stack []string) []string {
	var out []string
	for _, f := range stack {
		out = append(out, bare(f))
	}
	return out
}

const whole = "chain`c chain`b chain`a chain`main"

// An optimized program without frame pointers, whose frames libc begins, which
// has none either: the whole chain, in every mode that goes by tables.
func TestOmitFramePointer(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.16", "1.1")
	builds := []string{"-O2 -fomit-frame-pointer", "-O2 -fomit-frame-pointer -static", "-O2 -fno-omit-frame-pointer", "-O2 -no-pie -fcf-protection=full", "-O1 -s"}
	if _, vm := testkernel.InVM(); vm {
		builds = builds[:2] // emulated, it takes its time
	}
	for _, flags := range builds {
		prog := build(t, "chain.c", strings.Fields(flags)...)
		for _, mode := range []string{"auto", "unwind"} {
			r := testkernel.Trace(t, "-x", "ustackmode="+mode, "-x", "stats", "-qn",
				`syscall::write:entry/pid == $target/{ ustack(); printf("depth %d\n", ustackdepth); }`, "-c", prog+" 3").OK(t)
			n := 0
			for _, s := range stacks(strings.ReplaceAll(r.Stdout, "x\n", "")) {
				n++
				got := strings.Join(bares(s[1:len(s)-1]), " ")
				if strings.HasSuffix(flags, " -s") {
					// Stripped: the number of frames, and who begins and ends them.
					if len(s) != 9 || !strings.HasPrefix(s[0], "libc.so.6`") {
						t.Errorf("%s, %s: %q", flags, mode, s)
					}
				} else if !strings.HasPrefix(got, whole) || bare(s[len(s)-2]) != "chain`_start" {
					t.Errorf("%s, %s: %q", flags, mode, s)
				}
				if want := fmt.Sprintf("depth %d", len(s)-1); s[len(s)-1] != want {
					t.Errorf("%s, %s: %s, want %s of %q", flags, mode, s[len(s)-1], want, s)
				}
			}
			if n != 3 {
				t.Errorf("%s, %s: %d stacks\n%s", flags, mode, n, r.Stdout)
			}
			if !regexp.MustCompile(`(?m)^user stacks: 6 by unwind tables, 0 of them not to the end; `).MatchString(r.Stderr) {
				t.Errorf("%s, %s: no line of the method in\n%s", flags, mode, r.Stderr)
			}
		}
	}
}

// Names as C++ and Rust write them, by what binutils make of the symbols.
func TestDemangled(t *testing.T) {
	testkernel.RequireRoot(t)
	for _, c := range []struct{ src, flags string }{{"throw.cc", "-O1"}, {"deep.rs", "-O -Cstrip=debuginfo"}} {
		prog := build(t, c.src, strings.Fields(c.flags)...)
		frames := func(flags ...string) (out []string) {
			// Without input they end deep within.
			args := append(flags, "-qn", `syscall::exit_group:entry/pid == $target/{ ustack(); }`, "-c", prog)
			r := testkernel.Trace(t, args...).OK(t)
			for line := range strings.Lines(r.Stdout) {
				if module, name, ok := strings.Cut(strings.TrimSpace(line), "`"); ok && module != "" {
					out = append(out, name)
				}
			}
			return out
		}
		plain, shown := frames("-x", "demangle=off"), frames()
		filt := exec.Command("c++filt")
		filt.Stdin = strings.NewReader(strings.Join(plain, "\n"))
		b, err := filt.Output()
		if err != nil {
			t.Skip("SKIP-FEATURE: c++filt")
		}
		// Rust's hashes are of use to linkers alone; and an underscore at the
		// beginning of an old symbol's name is lost on the way.
		want := regexp.MustCompile(`::h[0-9a-f]{16}\b|\[[0-9a-f]{8,16}\]`).ReplaceAllString(string(b), "")
		want = strings.ReplaceAll(want, "__rust_", "_rust_")
		if got := strings.Join(shown, "\n"); got != strings.TrimRight(want, "\n") || !strings.Contains(got, "::") || strings.Contains(got, "_ZN") {
			t.Errorf("%s:\n%s\nc++filt:\n%s", c.src, got, want)
		}
	}
}

// The built-in functions of V8 have no tables, and lie where two symbols say.
// Elsewhere in an object that has tables such code is not walked.
func TestEngine(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.16")
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"-O2", "-fomit-frame-pointer", "-DENGINE"}, "engine`native engine`leave engine`start engine`main"},
		{[]string{"-O2", "-fomit-frame-pointer"}, "engine`native engine`leave [...]"},
	} {
		prog := build(t, "engine.c", c.flags...)
		r := testkernel.Trace(t, "-qn", `syscall::write:entry/pid == $target/{ ustack(); }`, "-c", prog).OK(t)
		all := stacks(strings.ReplaceAll(r.Stdout, "x\n", ""))
		if len(all) != 1 {
			t.Fatalf("%q", all)
		}
		got := strings.Join(bares(all[0][1:]), " ")
		if !strings.HasPrefix(got, c.want) || strings.HasSuffix(c.want, "main") && bare(all[0][len(all[0])-1]) != "engine`_start" {
			t.Errorf("%q: %s, want %s", c.flags, got, c.want)
		}
	}
}

// Along frame pointers there is no more to see of that program than where it is,
// and nothing is made up.
func TestFramePointersOnly(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := build(t, "chain.c", "-O2", "-fomit-frame-pointer")
	r := testkernel.Trace(t, "-x", "ustackmode=fp", "-x", "stats", "-qn", `syscall::write:entry/pid == $target/{ ustack(); }`, "-c", prog).OK(t)
	all := stacks(strings.ReplaceAll(r.Stdout, "x\n", ""))
	if len(all) != 1 || strings.Contains(r.Stderr, "user stacks:") {
		t.Fatalf("%q\n%s", all, r.Stderr)
	}
	for _, f := range bares(all[0]) {
		if !slices.Contains(append(strings.Fields(whole), "[...]"), f) && !strings.HasPrefix(f, "libc.so.6`") {
			t.Errorf("frame %s of %q", f, all[0])
		}
	}
}

// Wherever in a function a probe is, from its first instruction to its last, its
// caller is the one.
func TestEveryInstruction(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.16", "1.17")
	builds := []string{"-O2 -fomit-frame-pointer", "-O0", "-O2 -fcf-protection=full -fstack-protector-all"}
	if _, vm := testkernel.InVM(); vm {
		builds = builds[:1]
	}
	for _, flags := range builds {
		prog := build(t, "chain.c", strings.Fields(flags)...)
		r := testkernel.Trace(t, "-x", "bufsize=16m", "-qn",
			`pid$target:a.out:a:,pid$target:a.out:b:,pid$target:a.out:c: { printf("at %s %s", probefunc, probename); ustack(); printf("caller %A\n\n", ucaller); }`,
			"-c", prog+" 2").OK(t)
		testkernel.Lost(t, r.Stderr)
		at := map[string]int{}
		for _, s := range stacks(strings.ReplaceAll(r.Stdout, "x\n", "")) {
			f := strings.Fields(s[0])
			if len(f) != 3 || f[0] != "at" || len(s) < 6 {
				t.Fatalf("%s: %q", flags, s)
			}
			at[f[1]]++
			_, chain, _ := strings.Cut(whole, "chain`"+f[1])
			got := strings.Join(bares(s[1:len(s)-1]), " ")
			if !strings.HasPrefix(got, "chain`"+f[1]+chain+" ") || bare(s[len(s)-2]) != "chain`_start" {
				t.Errorf("%s: %q", flags, s)
			}
			if s[len(s)-1] != "caller "+s[2] {
				t.Errorf("%s: %s, the frame is %s", flags, s[len(s)-1], s[2])
			}
		}
		for _, f := range []string{"a", "b", "c"} {
			if at[f] < 10 {
				t.Errorf("%s: %d stacks in %s", flags, at[f], f)
			}
		}
	}
}

// waiter is a running program that writes a dot before each read.
type waiter struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, prog string, args ...string) *waiter {
	t.Helper()
	w := &waiter{cmd: exec.Command(prog, args...)}
	w.in, _ = w.cmd.StdinPipe()
	out, _ := w.cmd.StdoutPipe()
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.cmd.Process.Kill()
		w.cmd.Wait()
	})
	return w
}

// reads waits until some thread of the program is in read(), and says which.
func (w *waiter) reads(t *testing.T) (tid string) {
	t.Helper()
	if _, err := w.out.ReadByte(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(testkernel.Patience()); time.Now().Before(end); time.Sleep(time.Millisecond) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", w.cmd.Process.Pid))
		for _, f := range tasks {
			// Number 0, read; its first argument, the standard input.
			if b, err := os.ReadFile(f); err == nil && bytes.HasPrefix(b, []byte("0 0x0 ")) {
				return filepath.Base(filepath.Dir(f))
			}
		}
	}
	t.Fatal("no thread reads")
	return ""
}

var gdbFrame = regexp.MustCompile(`(?m)^FRAME ([0-9a-f]+) ([0-9a-f]+)$`)

// gdbStack is the stack of a thread as gdb sees it, with no debugging information
// of the system's: it would have gdb make frames of tail calls.
func gdbStack(t *testing.T, w *waiter, tid string) []uint64 {
	t.Helper()
	const frames = `frame apply all -q printf "FRAME %lx %lx\n", (long)$pc, (long)$sp`
	// gdb numbers the threads: the first is the one the process began with.
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", w.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off",
		"-iex", "set debug-file-directory /nonexistent", "-iex", "set print thread-events off",
		"-p", strconv.Itoa(w.cmd.Process.Pid), "-ex", "set backtrace past-main on", "-ex", "set backtrace past-entry on", "-ex", "set language c"}
	for i := range threads {
		args = append(args, "-ex", fmt.Sprintf("thread %d", i+1), "-ex", frames, "-ex", "bt")
	}
	b, err := exec.Command("gdb", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("gdb: %v\n%s", err, b)
	}
	ours := ""
	for _, part := range strings.Split(string(b), "[Switching to thread ") {
		line, _, _ := strings.Cut(part, "\n")
		if strings.Contains(line, "LWP "+tid+")") || strings.Contains(line, "process "+tid+")") {
			ours = part
		}
	}
	if ours == "" {
		t.Fatalf("gdb does not tell of thread %s\n%s", tid, b)
	}
	var pcs []uint64
	last := ""
	for _, m := range gdbFrame.FindAllStringSubmatch(ours, -1) {
		// A function that was inlined is at the place of the one it is in.
		if pc, _ := strconv.ParseUint(m[1], 16, 64); m[0] != last && pc != 0 {
			pcs = append(pcs, pc)
		}
		last = m[0]
	}
	t.Logf("gdb: thread %s", ours)
	return pcs
}

// The stacks of programs of several languages, frame by frame as gdb has them.
func TestAgainstGDB(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.16", "1.1")
	if _, err := exec.LookPath("gdb"); err != nil {
		t.Skip("SKIP-FEATURE: gdb")
	}
	for _, p := range []struct {
		name, source string
		flags        string
		stops        int    // reads looked at
		last         string // what the stacks must reach
	}{
		{"C", "deep.c", "-O2 -fomit-frame-pointer", 4, "_start|__clone3?|clone3?"},
		{"C, plain", "deep.c", "-O0", 2, "_start|__clone3?|clone3?"},
		{"C, static", "deep.c", "-O2 -fomit-frame-pointer -static", 2, "_start|__clone3?|clone3?"},
		{"C++", "throw.cc", "-O2", 6, "_start|__clone3?|clone3?"},
		{"Rust", "deep.rs", "-O -Cstrip=debuginfo", 4, "_start|__clone3?|clone3?"},
		{"Go", "stacks", "", 3, `runtime\.goexit(\.abi0)?`},
	} {
		t.Run(p.name, func(t *testing.T) {
			w := start(t, build(t, p.source, strings.Fields(p.flags)...))
			for range p.stops {
				oneStop(t, w, p.last, p.source == "stacks")
			}
		})
	}
}

// oneStop compares the stack of the thread that reads.
func oneStop(t *testing.T, w *waiter, last string, isGo bool) {
	t.Helper()
	tid := w.reads(t)
	want := gdbStack(t, w, tid)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	maps, err := symbol.ParseMaps(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	prog := `syscall::read:return/pid == $target && tid == ` + tid + `/{ ustack(); exit(0); }`
	tr := testkernel.Begin(t, "-p", strconv.Itoa(w.cmd.Process.Pid), "-qn", prog)
	names := testkernel.Begin(t, "-p", strconv.Itoa(w.cmd.Process.Pid), "-x", "noresolve", "-qn", prog)
	if _, err := w.in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	out, _ := tr.End()
	named := stacks(out)
	out, _ = names.End()
	raw := stacks(out)
	if len(named) != 1 || len(raw) != 1 || len(named[0]) != len(raw[0]) {
		t.Fatalf("stacks %q, %q", named, raw)
	}
	var places []string
	for _, pc := range want {
		i := slices.IndexFunc(maps, func(m symbol.Mapping) bool { return m.Start <= pc && pc < m.End })
		if i < 0 {
			break // gdb went on where there is nothing
		}
		places = append(places, fmt.Sprintf("%s:0x%x", maps[i].Module(), pc-maps[i].Start+maps[i].Off))
	}
	got := raw[0]
	if isGo && len(places) > len(got) {
		places = places[:len(got)] // gdb does not know where goroutines begin
	}
	if !slices.Equal(got, places) {
		t.Errorf("got\n%s\ngdb has\n%s\nnamed\n%s", strings.Join(got, "\n"), strings.Join(places, "\n"), strings.Join(named[0], "\n"))
	}
	end := bare(named[0][len(named[0])-1])
	if _, f, _ := strings.Cut(end, "`"); !regexp.MustCompile(`^(` + last + `)$`).MatchString(f) {
		t.Errorf("the last frame is %s\n%s", end, strings.Join(named[0], "\n"))
	}
}

// callers are what may call what in spin.c; what is in libraries is called from
// libraries or as listed. A name that ends in a back-quote is all of that module:
// few systems have the names of libc's inner functions.
var callers = map[string]string{
	"spin`leaf": "spin`c spin`cmp", "spin`c": "spin`b", "spin`b": "spin`a", "spin`a": "spin`main",
	"spin`main": "libc.so.6`",
	"spin`cmp":  "libc.so.6`",
}

// Hundreds of samples of a program without frame pointers: each is a chain of
// calls that its source allows, up to _start.
func TestSamples(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.16")
	prog := build(t, "spin.c", "-O2", "-fomit-frame-pointer")
	least := 500
	if _, vm := testkernel.InVM(); vm {
		least = 50 // a timer of a CPU that is emulated is late
	}
	r := testkernel.Trace(t, "-x", "stats", "-qn", `profile-997/pid == $target && arg1/{ @[ustack()] = count(); }`, "-c", prog+" 1000").OK(t)
	testkernel.Lost(t, r.Stderr)
	total, cut := 0, 0
	for _, s := range stacks(r.Stdout) {
		n, err := strconv.Atoi(s[len(s)-1])
		if err != nil {
			t.Fatalf("%q", s)
		}
		total += n
		s = bares(s[:len(s)-1])
		if !slices.Contains(s, "spin`main") {
			continue // it has not begun, or is on its way out
		}
		if s[len(s)-1] == "[...]" {
			cut += n
			s = s[:len(s)-1]
		} else if s[len(s)-1] != "spin`_start" {
			t.Errorf("%d: ends in %s: %q", n, s[len(s)-1], s)
		}
		for i, f := range s {
			if i+1 == len(s) {
				break
			}
			want, ours := callers[f]
			by := s[i+1]
			allowed := slices.ContainsFunc(strings.Fields(want), func(w string) bool {
				return by == w || strings.HasSuffix(w, "`") && strings.HasPrefix(by, w)
			})
			switch {
			case ours && !allowed:
				t.Errorf("%d: %s called by %s: %q", n, f, by, s)
			case !ours && strings.HasPrefix(by, "spin`") && by != "spin`_start" && by != "spin`main" && by != "spin`a":
				t.Errorf("%d: %s called by %s: %q", n, f, by, s)
			}
		}
	}
	t.Logf("%d samples, %d cut\n%s", total, cut, r.Stderr)
	if total < least {
		t.Errorf("%d samples, want %d", total, least)
	}
	if cut > total/50 {
		t.Errorf("%d of %d samples end early", cut, total)
	}
}

// Where the stack cannot be read any more the walk ends with a mark.
func TestUnreadablePage(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.16")
	prog := build(t, "hole.c", "-O2", "-fomit-frame-pointer")
	for _, mode := range []string{"auto", "unwind"} {
		r := testkernel.Trace(t, "-x", "ustackmode="+mode, "-x", "stats", "-x", "oformat=ndjson", "-qn", `syscall::write:entry/pid == $target/{ ustack(); }`, "-c", prog).OK(t)
		if !strings.Contains(r.Stdout, `{"symbol": "[...]"}]`) {
			t.Errorf("%s: no mark in %s", mode, r.Stdout)
		}
		r = testkernel.Trace(t, "-x", "ustackmode="+mode, "-x", "stats", "-qn", `syscall::write:entry/pid == $target/{ ustack(); @[ustack()] = count(); printf("depth %d\n", ustackdepth); }`, "-c", prog).OK(t)
		all := stacks(strings.ReplaceAll(r.Stdout, "x\n", ""))
		if len(all) != 2 {
			t.Fatalf("%s: %q", mode, all)
		}
		for i, s := range all {
			got := strings.Join(bares(s[:len(s)-1]), " ")
			if got != "libc.so.6`write hole`inner hole`outer [...]" {
				t.Errorf("%s: stack %d is %q", mode, i, s)
			}
		}
		if last := all[0][len(all[0])-1]; last != "depth 3" {
			t.Errorf("%s: %s", mode, last)
		}
		if !strings.Contains(r.Stderr, "user stacks: 3 by unwind tables, 3 of them not to the end;") {
			t.Errorf("%s:\n%s", mode, r.Stderr)
		}
	}
}

// Processes that no option names: their tables are there soon after the first
// stack, those of the children they fork and of what these execute too.
func TestOtherProcesses(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.16")
	prog := build(t, "chain.c", "-O2", "-fomit-frame-pointer")
	other := exec.Command(prog, "1000000000", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	for _, mode := range []string{"auto", "unwind"} {
		tr := testkernel.Start(t, "-x", "ustackmode="+mode, "-x", "switchrate=20ms", "-qn",
			fmt.Sprintf(`syscall::write:entry/pid == %d && ustackdepth == 8/{ ustack(); exit(0); }`, other.Process.Pid))
		out, _ := tr.End()
		if s := stacks(out); len(s) != 1 || !strings.HasPrefix(strings.Join(bares(s[0]), " "), "libc.so.6`write "+whole) {
			t.Errorf("%s: %q", mode, s)
		}
	}
	// A shell's children, with their tables in place at the latest when they have
	// run for a while.
	tr := testkernel.Start(t, "-x", "switchrate=20ms", "-qn",
		`syscall::write:entry/ppid == $target && execname == "chain" && ustackdepth == 8/{ ustack(); exit(0); }`,
		"-c", "/bin/sh "+script(t, fmt.Sprintf("%s 10000 1000 >/dev/null 2>&1 &\nwait\n", prog)))
	out, _ := tr.End()
	if s := stacks(out); len(s) != 1 || !strings.HasPrefix(strings.Join(bares(s[0]), " "), "libc.so.6`write "+whole) {
		t.Errorf("%q", s)
	}
}

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// A Go program without symbols and debugging information has the same stacks:
// Go's own table has what is needed.
func TestGoStripped(t *testing.T) {
	testkernel.RequireRoot(t)
	var want []string
	for _, flags := range []string{"", "-ldflags=-s -w"} {
		var args []string
		if flags != "" {
			args = []string{flags}
		}
		w := start(t, build(t, "stacks", args...))
		tid := w.reads(t)
		tr := testkernel.Begin(t, "-p", strconv.Itoa(w.cmd.Process.Pid), "-qn", `syscall::read:return/pid == $target && tid == `+tid+`/{ ustack(); exit(0); }`)
		if _, err := w.in.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		out, _ := tr.End()
		all := stacks(out)
		if len(all) != 1 {
			t.Fatalf("%q", all)
		}
		got := bares(all[0])
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], ".abi0") // the linker's, of symbols alone
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) || len(got) < 15 || got[len(got)-1] != "stacks`runtime.goexit" || !slices.Contains(got, "stacks`main.waitForByte") {
			t.Errorf("%q:\n%q, with symbols\n%q", flags, got, want)
		}
	}
}

// Samples of a Go program at work, garbage collection, profiling signals and
// all, end where a goroutine or a thread begins, or where the runtime goes to
// another stack for good.
func TestGoSamples(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Trigger(t, "stacks")
	r := testkernel.Trace(t, "-x", "stats", "-x", "ustackframes=127", "-qn", `profile-997/pid == $target && arg1/{ @[ustack()] = count(); }`, "-c", prog+" 1500").OK(t)
	testkernel.Lost(t, r.Stderr)
	total, cut := 0, 0
	for _, s := range stacks(r.Stdout) {
		n, err := strconv.Atoi(s[len(s)-1])
		if err != nil {
			t.Fatalf("%q", s)
		}
		s = bares(s[:len(s)-1])
		total += n
		end := strings.TrimSuffix(s[len(s)-1], ".abi0")
		switch end {
		case "stacks`runtime.goexit", "stacks`runtime.mstart", "stacks`runtime.rt0_go", "stacks`runtime.mcall", "stacks`runtime.morestack", "stacks`_rt0_amd64_linux":
		case "[...]":
			cut += n
			t.Logf("%d: %q", n, s)
		default:
			if len(s) < 127 {
				t.Errorf("%d: %q", n, s)
			}
		}
	}
	t.Logf("%d samples, %d cut\n%s", total, cut, r.Stderr)
	if total < 20 || cut > total/50 {
		t.Errorf("%d samples, %d of them not to the end", total, cut)
	}
}

// A library function called for the first time: the linker binds it, in frames
// of its own kind.
func TestLazyBinding(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := build(t, "chain.c", "-O2", "-fomit-frame-pointer", "-Wl,-z,lazy")
	r := testkernel.Trace(t, "-x", "ustackmode=unwind", "-qn",
		`pid$target:ld-linux-x86-64.so.2:_dl_fixup:entry,pid$target:ld-linux-x86-64.so.2:_dl_lookup_symbol_x:entry { printf("at %s", probefunc); ustack(); printf("\n"); }`,
		"-c", prog+" 1 1")
	if r.Err != nil && strings.Contains(r.Stderr, "failed to lookup '_dl_fixup'") {
		t.Skip("SKIP-FEATURE: symbols of the dynamic linker")
	}
	r.OK(t)
	seen := map[string]bool{}
	for _, s := range stacks(strings.ReplaceAll(r.Stdout, "x\n", "")) {
		if len(s) < 3 || !strings.HasPrefix(s[0], "at ") {
			t.Fatalf("%q", s)
		}
		names := bares(s[1:])
		i := slices.IndexFunc(names, func(f string) bool { return strings.Contains(f, "_dl_runtime_resolve") })
		if i < 0 {
			continue // not from a call
		}
		seen[names[0]] = true
		if end := names[len(names)-1]; end != "chain`_start" {
			t.Errorf("%q ends in %s", names, end)
		}
		if caller := names[i+1]; caller != "chain`main" && caller != "chain`c" && !strings.HasPrefix(caller, "libc.so.6`") {
			t.Errorf("%s was bound for %s: %q", names[0], caller, names)
		}
	}
	if len(seen) == 0 {
		t.Errorf("nothing was bound\n%s", r.Stdout)
	}
}
