//go:build amd64

package rows

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// times is the same call n times.
func times(n int, c call) []call {
	return slices.Repeat([]call{c}, n)
}

// The tracer needs no target: who opens files, by name, of all processes.
func TestWholeSystem(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.4")
	want := map[string]int{"worker-a": 30, "worker-b": 50, "worker-c": 70}
	out := whole(t, func() (string, string) {
		tr := begin(t, "-n", `syscall::openat:entry{@[execname]=count();}`)
		for name, n := range want {
			path := binaryFile(t, name, times(n, call{unix.SYS_OPENAT, unix.AT_FDCWD, "/no/such/file", 0})...)
			if strace, err := exec.LookPath("strace"); err == nil && name == "worker-c" {
				// Another tracer on the same process does no harm.
				run(t, strace, "-o", "/dev/null", path)
				continue
			}
			run(t, path)
		}
		return tr.interrupt()
	})
	for name, n := range want {
		if !strings.Contains(out, fmt.Sprintf("\n  %-50s %16d\n", name, n)) {
			t.Errorf("no line of %s with %d calls in\n%s", name, n, out)
		}
	}
}

// Who makes this call: one line with the name, the process and the path.
func TestWhoCalls(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.5")
	victim := filepath.Join(t.TempDir(), "x")
	rm := binaryFile(t, "rm", call{unix.SYS_UNLINKAT, unix.AT_FDCWD, victim, 0})
	var pid int
	out := whole(t, func() (string, string) {
		if err := os.WriteFile(victim, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		tr := begin(t, "-qn", `syscall::unlinkat:entry{printf("%s %d %s\n",execname,pid,copyinstr(arg1));}`)
		pid = run(t, rm).Pid()
		if _, err := os.Lstat(victim); err == nil {
			t.Fatal("the file is still there")
		}
		return tr.interrupt()
	})
	want := fmt.Sprintf("rm %d %s", pid, victim)
	if n := len(match(`(?m)^`+want+`$`, out)); n != 1 {
		t.Errorf("%d lines %q in\n%s", n, want, out)
	}
	if n := len(match(`(?m)^.*`+victim+`.*$`, out)); n != 1 {
		t.Errorf("%d lines with %s in\n%s", n, victim, out)
	}
}

// One line for each call, NAME SYSCALL, and the calls of a process in their
// order, although it moves from CPU to CPU.
func TestCallsInOrder(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "3.1")
	var calls []call
	var want []string
	add := func(name string, c ...any) {
		calls = append(calls, c)
		want = append(want, name)
	}
	for i := range 40 {
		add("getpid", unix.SYS_GETPID)
		add("openat", unix.SYS_OPENAT, unix.AT_FDCWD, "/dev/zero", 0)
		add("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, 0, 8, string([]byte{1 << (i % 2), 0, 0, 0, 0, 0, 0, 0}))
		add("newfstatat", unix.SYS_NEWFSTATAT, unix.AT_FDCWD, "/", buffer, 0)
		add("getppid", unix.SYS_GETPPID)
	}
	want = append(want, "exit_group")
	path := binaryFile(t, "in-order", calls...)
	if strace, err := exec.LookPath("strace"); err == nil {
		log := filepath.Join(t.TempDir(), "log")
		run(t, strace, "-o", log, path)
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range match(`(?m)^(\w+)\(`, string(text)) {
			names = append(names, m[1])
		}
		if names = names[1:]; !slices.Equal(names, want) { // execve of the program itself
			t.Fatalf("strace sees %q, the test means %q", names, want)
		}
	}
	out := whole(t, func() (string, string) {
		tr := begin(t, "-qn", `syscall:::entry { printf("%s %s\n", execname, probefunc); }`)
		run(t, path)
		return tr.interrupt()
	})
	var got []string
	for line := range strings.Lines(out) {
		m := match(`^(.+) (\w+)\n$`, line)
		if m == nil {
			if line == "\n" {
				continue // of ^C
			}
			t.Fatalf("not NAME SYSCALL: %q", line)
		}
		if m[0][1] == "in-order" {
			got = append(got, m[0][2])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls:\n%q\nwant\n%q", got, want)
	}
}

// The table of reads of sshd in Deri's notes on dtrace, ftrace and strace:
// values by powers of two.
const sshdTable = `
           value  ------------- Distribution ------------- count    
              -1 |                                         0        
               0 |@@@@@                                    23       
               1 |@@@@@@@@@@                               41       
               2 |                                         1        
               4 |@@@@                                     19       
               8 |@                                        4        
              16 |                                         2        
              32 |@                                        6        
              64 |@@                                       9        
             128 |@@@                                      12       
             256 |@@@@@                                    20       
             512 |@@                                       9        
            1024 |@@@                                      12       
            2048 |@                                        4        
            4096 |@                                        4        
            8192 |@                                        3        
           16384 |                                         0        
`

func TestReadSizes(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "3.2")
	calls := []call{{unix.SYS_OPENAT, unix.AT_FDCWD, "/dev/zero", 0}} // becomes 3, closed as it is on exec
	total := 0
	for _, m := range match(`(?m)^ +(\d+) \|@* +(\d+)`, sshdTable) {
		size, _ := strconv.Atoi(m[1])
		n, _ := strconv.Atoi(m[2])
		total += n
		for i := range n {
			// Anywhere in the row: from its value to below the next's.
			calls = append(calls, call{unix.SYS_READ, 3, buffer, size + i%max(size, 1)})
		}
	}
	if total != 169 {
		t.Fatalf("%d values, the document has 169", total)
	}
	sshd := binaryFile(t, "sshd", calls...)
	out := whole(t, func() (string, string) {
		tr := begin(t, "-qn", `syscall::read:return /execname == "sshd"/ { @ = quantize(arg0); }`)
		run(t, sshd)
		return tr.interrupt()
	})
	if got := strings.TrimLeft(out, "\n"); strings.TrimRight(got, "\n") != strings.Trim(sshdTable, "\n") {
		t.Errorf("table:\n%s\nwant\n%s", got, sshdTable)
	}
}

// Clauses of one probe run in the order of the program; each is an enabling of
// its own.
func TestEnablings(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "3.10")
	path := binaryFile(t, "twice", times(3, call{unix.SYS_GETPPID})...)
	out := whole(t, func() (string, string) {
		return trace(t, "-qn", `
		syscall::getppid:entry /pid == $target/ { printf("first %d %d\n", epid, id); n++; }
		syscall::getppid:entry /pid == $target && n == 2/ { printf("second %d %d\n", epid, id); }
		syscall::getppid:entry /pid == $target/ { printf("third %d %d\n", epid, id); }`, "-c", path)
	})
	lines := match(`(?m)^(\w+) (\d+) (\d+)$`, out)
	var order []string
	epids, ids := map[string]map[string]bool{}, map[string]bool{}
	for _, l := range lines {
		order = append(order, l[1])
		if epids[l[1]] == nil {
			epids[l[1]] = map[string]bool{}
		}
		epids[l[1]][l[2]] = true
		ids[l[3]] = true
	}
	if want := strings.Fields("first third first second third first third"); !slices.Equal(order, want) {
		t.Fatalf("order %q, want %q\n%s", order, want, out)
	}
	distinct := map[string]bool{}
	for name, e := range epids {
		if len(e) != 1 {
			t.Errorf("clause %s has the enablings %v", name, e)
		}
		for id := range e {
			distinct[id] = true
		}
	}
	if len(distinct) != 3 || len(ids) != 1 {
		t.Errorf("%d enablings of three clauses, %d probes of one\n%s", len(distinct), len(ids), out)
	}
	list, _ := trace(t, "-ln", "syscall::getppid:entry")
	for id := range ids {
		if len(match(`(?m)^ *`+id+` +syscall +\w* +getppid +entry$`, list)) != 1 {
			t.Errorf("the probe is %s in the program, but in the list\n%s", id, list)
		}
	}
}

// Every action on the kernel has a line: as many maps, programs and links as
// the process holds, and what is read from the rings.
func TestDebugLog(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "3.15")
	t.Setenv("DTRACE_DEBUG", "1")
	kinds := map[string]int{}
	var log string
	noted := binaryFile(t, "noted", append(times(5, call{unix.SYS_GETPPID}),
		call{unix.SYS_NANOSLEEP, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x65\xcd\x1d\x00\x00\x00\x00", 0})...) // 500 ms
	whole(t, func() (string, string) {
		tr := begin(t, "-qn", `syscall::getppid:entry /pid == $target/ { @[execname] = count(); self->t = 1; printf("%s", execname); }
			profile-97, tick-50ms { @p = count(); } ERROR { @e = count(); } syscall::getppid:entry /pid == $target/ { trace(*(int *)0); }`,
			"-c", noted)
		held, err := testkernel.HeldBy(tr.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		clear(kinds)
		for o := range held {
			kinds[o.Kind]++
		}
		out, errs := tr.end()
		log = errs
		return out, errs
	})
	const done = `: ok, \d+ µs$`
	maps := match(`(?m)^libdtrace DEBUG \d+: map \w+: type \d+, key \d+, value \d+, \d+ entries`+done, log)
	progs := match(`(?m)^libdtrace DEBUG \d+: program \w+: type \d+, \d+ instructions`+done, log)
	links := match(`(?m)^libdtrace DEBUG \d+: link \w+: \d+ probes`+done, log)
	if len(maps) != kinds["map"] || len(progs) != kinds["prog"] {
		t.Errorf("%d maps and %d programs in the log, the process holds %v", len(maps), len(progs), kinds)
	}
	if kinds["link"]+kinds["perf"] == 0 || len(links) == 0 {
		t.Errorf("%d links in the log, the process holds %v", len(links), kinds)
	}
	records, drops, faults := 0, 0, 0
	for _, m := range match(`(?m)^libdtrace DEBUG \d+: read records of CPU \d+: (\d+) records, \d+ bytes, drops (\d+), errors (\d+)`+done, log) {
		n, _ := strconv.Atoi(m[1])
		records += n
		drops, _ = strconv.Atoi(m[2])
		faults, _ = strconv.Atoi(m[3])
	}
	// BEGIN, and for each call a printf and a fault.
	if records != 1+5+5 || drops != 0 || faults != 5 {
		t.Errorf("%d records, %d drops, %d errors were read, not 11, 0 and 5", records, drops, faults)
	}
	for _, what := range []string{`read 3 aggregations`, `run BEGIN`, `unlink \d+`} {
		if match(`(?m)^libdtrace DEBUG \d+: `+what+done, log) == nil {
			t.Errorf("no line of %s", what)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}

// Ctrl-C runs END once, prints the aggregations and takes all probes away. A
// second one, while the first takes effect, changes nothing.
func TestInterrupt(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.23")
	for _, tt := range []struct {
		name, program string
		signals       int
	}{
		{"syscall", `syscall::: { @[probefunc] = count(); } END { printf("END\n"); }`, 1},
		{"profile", `profile-997 { @[execname] = count(); } profile-97 { printf("p\n"); } END { printf("END\n"); }`, 1},
		{"twice", `syscall:::return { @[execname] = count(); } END { printf("END\n"); }`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 5 {
				tr := begin(t, "-qn", tt.program)
				run(t, binaryFile(t, "busy", times(100, call{unix.SYS_GETPPID})...))
				held, err := testkernel.HeldBy(tr.cmd.Process.Pid)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for range tt.signals - 1 {
					tr.cmd.Process.Signal(unix.SIGINT)
				}
				out, _ := tr.interrupt()
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				if n := len(match(`(?m)^END$`, out)); n != 1 && tt.signals == 1 || n > 1 {
					t.Errorf("END ran %d times\n%s", n, out)
				}
				if tt.signals == 1 && len(match(`(?m)^END\n+  \S+ +\d+$`, out)) != 1 {
					t.Errorf("the aggregation does not follow END:\n%s", out)
				}
				left := gone(t, held)
				if len(left) > 0 {
					t.Errorf("left in the kernel: %v", left)
				}
			}
		})
	}
}

// gone is what of a process's objects the kernel still has a while after it
// ended.
func gone(t *testing.T, held map[testkernel.Object]bool) (left []testkernel.Object) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		all, err := testkernel.Loaded()
		if err != nil {
			t.Fatal(err)
		}
		left = left[:0]
		for o := range held {
			if _, ok := all[o]; ok {
				left = append(left, o)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// -x stats says of each program how often it ran and for how long, as the
// kernel itself does.
func TestStats(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.31")
	work := append([]call{{unix.SYS_NANOSLEEP, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\xe1\xf5\x05\x00\x00\x00\x00", 0}}, // 100 ms
		times(5000, call{unix.SYS_GETPPID})...)
	tr := begin(t, "-x", "stats", "-qn", `syscall::getppid:entry /pid == $target/ { @ = count(); @q = quantize(timestamp); }
		syscall::getppid:return /pid == $target/ { @r[execname] = count(); }`, "-c", binaryFile(t, "counted", work...))
	held, err := testkernel.HeldBy(tr.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	var progs []*ebpf.Program
	for o := range held {
		if o.Kind != "prog" {
			continue
		}
		// Ours keeps it, and its counts, beyond the end of the tracer.
		p, err := ebpf.NewProgramFromID(ebpf.ProgramID(o.ID))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		progs = append(progs, p)
	}
	if len(progs) == 0 {
		t.Fatal("the tracer holds no program")
	}
	_, stderr := tr.end()
	rows := match(`(?m)^(\w+) +(\d+) +(\d+) +(\d+) +\d+ +(\d+)$`, stderr)
	if len(rows) != len(progs)+1 {
		t.Fatalf("%d rows for %d programs and their sum:\n%s", len(rows), len(progs), stderr)
	}
	total := rows[len(rows)-1]
	runs, _ := strconv.ParseFloat(total[3], 64)
	nanos, _ := strconv.ParseFloat(total[4], 64)
	skipped, _ := strconv.ParseFloat(total[5], 64)
	var kernelRuns, kernelNanos float64
	for _, p := range progs {
		s, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		kernelRuns += float64(s.RunCount)
		kernelNanos += float64(s.Runtime.Nanoseconds())
	}
	if runs+skipped < 10000 {
		t.Errorf("%v runs, %v skipped, the workload alone made 10000 firings\n%s", runs, skipped, stderr)
	}
	near := func(a, b float64) bool { return a >= 0.8*b && a <= 1.2*b }
	if total[1] != "total" || !near(runs, kernelRuns) || !near(nanos, kernelNanos) {
		t.Errorf("%v runs and %v ns, the kernel says %v and %v\n%s", runs, nanos, kernelRuns, kernelNanos, stderr)
	}
}

// Tracing leaves no mark on the kernel: no module, no warning.
func TestTaint(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.15")
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) { // no modules in this kernel
			t.Fatal(err)
		}
		return string(b)
	}
	before, modules := read("/proc/sys/kernel/tainted"), read("/proc/modules")
	names := func(list string) (names []string) {
		for l := range strings.Lines(list) {
			names = append(names, strings.Fields(l)[0])
		}
		slices.Sort(names)
		return names
	}
	work := binaryFile(t, "work", append(times(200, call{unix.SYS_GETPPID}), call{unix.SYS_OPENAT, unix.AT_FDCWD, "/dev/null", 0})...)
	for _, program := range []string{
		`BEGIN { exit(0); }`,
		`syscall::: { @[execname, probefunc] = count(); }`,
		`syscall:::entry { self->t = timestamp; } syscall:::return /self->t/ { @[probefunc] = quantize(timestamp - self->t); self->t = 0; }`,
		`syscall::openat:entry { printf("%s", copyinstr(arg1)); }`,
		`profile-997 { @[stack()] = count(); @u[ustack()] = count(); }`,
		`rawtp:::sched_* { @[probename] = count(); }`,
		`BEGIN { trace(*(int *)0); }`,
		`syscall::getppid:entry { self->s = speculation(); speculate(self->s); trace(pid); }
			syscall::getppid:return /self->s/ { commit(self->s); self->s = 0; }`,
	} {
		tr := start(t, "-qn", program, "-x", "statusrate=100ms", "-c", work)
		tr.end()
	}
	if after := read("/proc/sys/kernel/tainted"); after != before {
		t.Errorf("tainted: %s before, %s after", strings.TrimSpace(before), strings.TrimSpace(after))
	}
	if after := names(read("/proc/modules")); !slices.Equal(after, names(modules)) {
		t.Errorf("modules: %q before, %q after", names(modules), after)
	}
}
