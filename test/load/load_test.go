// Package load holds the tests of what must hold under load: counts that are
// exact or tell what is missing, BEGIN first and END last, nothing after
// exit(), nothing left behind by a tracer that was killed.
//
// The numbers that counts are held against come from the workload, which
// counts its own system calls (test/trigger/syscalls).
//
// GODTRACE_LOAD=long makes every test run for as long as a release wants it.
package load

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"godtrace/internal/testkernel"
)

// size picks how much of a test is run; an emulated machine does a fifth of the
// short measure.
func size[T int | time.Duration](short, long T) T {
	if os.Getenv("GODTRACE_LOAD") == "long" {
		return long
	}
	if _, vm := testkernel.InVM(); vm {
		return short / 5
	}
	return short
}

// result is testkernel.Result with what these tests ask of it.
type result struct{ testkernel.Result }

func trace(t *testing.T, args ...string) result {
	t.Helper()
	return result{testkernel.Trace(t, args...)}
}

func (r result) ok(t *testing.T) result {
	t.Helper()
	r.OK(t)
	return r
}

var dropLine = regexp.MustCompile(`(?m)^dtrace: (\d+) (?:\[\w+\] )?((?:\w+ )*?)(?:drops?|firings?)\b`)

// drops adds up everything the tracer said it lost.
func (r result) drops() (n int64) {
	for _, m := range dropLine.FindAllStringSubmatch(r.Stderr, -1) {
		v, _ := strconv.ParseInt(m[1], 10, 64)
		n += v
	}
	return n
}

// accounts fails the test unless every call the workload made is in the result
// or in a drop. Some drops are of other firings than the workload's (of the
// profile provider, of other system calls in a program that the kernel
// skipped), so there may be more of them than calls are missing.
func (r result) accounts(t *testing.T, what string, got, want int64) {
	t.Helper()
	d := r.drops()
	if got > want || got+d < want {
		t.Errorf("%s %d, dropped %d; the workload called %d times\n%s", what, got, d, want, r.Stderr)
	}
	t.Logf("%s %d of %d calls, drops %d", what, got, want, d)
}

var callsLine = regexp.MustCompile(`(?m)^thread \d+ round \d+ .* calls (\d+) `)

// calls adds up what the threads of the workload say they called.
func calls(t *testing.T, out string) (n int64) {
	t.Helper()
	ms := callsLine.FindAllStringSubmatch(out, -1)
	if ms == nil {
		t.Fatalf("the workload said nothing:\n%s", out)
	}
	for _, m := range ms {
		v, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n += v
	}
	return n
}

// sumOf adds the numbers after a word at the start of a line.
func sumOf(out, word string) (n int64) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == word {
			v, _ := strconv.ParseInt(f[1], 10, 64)
			n += v
		}
	}
	return n
}

// Every call is counted, on both CPUs, while the profile provider interrupts.
func TestCountsAreExact(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckMachine(t)
	n := size(300_000, 5_000_000)
	r := trace(t, "-qn", `syscall::getppid:entry /pid == $target/ { @c = count(); @e[execname, tid] = count(); @q = quantize(arg0); }
		profile-4999 { @p[cpu, execname] = count(); }
		END { printa("total %@d\n", @c); printa("byname %s %d %@d\n", @e); clear(@q); trunc(@p); }`,
		"-c", fmt.Sprintf("%s -call getppid -n %d -threads 2", testkernel.Trigger(t, "syscalls"), n)).ok(t)
	want := calls(t, r.Stdout)
	r.accounts(t, "counted", sumOf(r.Stdout, "total"), want)
	var byName int64
	for line := range strings.Lines(r.Stdout) {
		var name string
		var tid int
		var c int64
		if n, _ := fmt.Sscanf(line, "byname %s %d %d", &name, &tid, &c); n == 3 {
			byName += c
		}
	}
	r.accounts(t, "counted by name", byName, want)
}

// Records from both CPUs with strings in them, interrupted by the profile
// provider, which records strings as well: each is whole or counted as a drop.
func TestRecordsAreWhole(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckMachine(t)
	n := size(200_000, 5_000_000)
	// Apart from what the workload says, which goes to the same pipe.
	file := filepath.Join(t.TempDir(), "records")
	r := trace(t, "-o", file, "-q", "-x", "bufsize=8m", "-n", `
		syscall::getppid:entry /pid == $target/ { this->s = strjoin(execname, "/"); printf("rec %s%s%s %d end\n", this->s, probefunc, probename, tid); }
		profile-4999 { printf("pro %s %d end\n", strjoin(execname, probename), cpu); }`,
		"-c", fmt.Sprintf("%s -call getppid -n %d -threads 2", testkernel.Trigger(t, "syscalls"), n)).ok(t)
	want := calls(t, r.Stdout)
	var recs int64
	rec := regexp.MustCompile(`^rec syscalls/getppidentry \d+ end$`)
	pro := regexp.MustCompile(`^pro .*profile-4999 \d+ end$`)
	records, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(records)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "rec"):
			if !rec.MatchString(line) {
				t.Fatalf("corrupt record: %q", line)
			}
			recs++
		case strings.HasPrefix(line, "pro"):
			if !pro.MatchString(line) {
				t.Fatalf("corrupt record: %q", line)
			}
		case line != "":
			t.Fatalf("corrupt record: %q", line)
		}
	}
	r.accounts(t, "recorded", recs, want)
}

// What printa() prints and clear() takes away every 100 ms, and what is left
// at the end, add up to what the workload counted.
func TestPrintaClearAddsUp(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckMachine(t)
	d := size(5*time.Second, time.Minute)
	r := trace(t, "-qn", `syscall::getppid:entry /pid == $target/ { @ = count(); }
		tick-100ms { printa("part %@d\n", @); clear(@); }
		END { printa("part %@d\n", @); }`,
		"-c", fmt.Sprintf("%s -call getppid -for %s -threads 2", testkernel.Trigger(t, "syscalls"), d)).ok(t)
	want := calls(t, r.Stdout)
	r.accounts(t, "parts add up to", sumOf(r.Stdout, "part"), want)
	if parts := strings.Count(r.Stdout, "part "); parts < int(d/(200*time.Millisecond)) {
		t.Errorf("only %d parts in %v", parts, d)
	}
}

// BEGIN is first, END is last, and nothing comes after exit(), however the
// end falls.
func TestOrderOfBeginAndEnd(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckMachine(t)
	stop := background(t, "-call", "getppid", "-for", "1h", "-threads", "2")
	defer stop()
	prog := `BEGIN { n = 0; done = 0; printf("B\n"); }
		syscall::getppid:entry /!done/ { n++; printf("x\n"); }
		syscall::getppid:entry /!done && n >= 50/ { done = 1; exit(3); }
		END { printf("E %d\n", n); }`
	for range size(100, 1000) {
		r := trace(t, "-qn", prog)
		if e, ok := r.Err.(*exec.ExitError); !ok || e.ExitCode() != 3 {
			t.Fatalf("exit(3) gave %v\n%s", r.Err, r.Stderr)
		}
		lines := strings.Fields(strings.ReplaceAll(r.Stdout, "E ", "E"))
		if len(lines) < 3 || lines[0] != "B" || !strings.HasPrefix(lines[len(lines)-1], "E") {
			t.Fatalf("order:\n%s", r.Stdout)
		}
		for _, l := range lines[1 : len(lines)-1] {
			if l != "x" {
				t.Fatalf("between BEGIN and END: %q in\n%s", l, r.Stdout)
			}
		}
	}
}

// background starts the workload and returns what stops it.
func background(t *testing.T, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(testkernel.Trigger(t, "syscalls"), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
}

// A tracer killed at any moment leaves no program, map or link, and the
// system calls it traced go on.
func TestKill(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckMachine(t)
	stop := background(t, "-call", "getppid", "-for", "1h", "-threads", "2")
	defer stop()
	rng := rand.New(rand.NewPCG(1, 2))
	for range size(40, 200) {
		cmd := exec.Command(testkernel.Godtrace(t), "-qn", `syscall:::entry { @[execname, probefunc] = count(); self->t = timestamp; }
			syscall:::return /self->t/ { printf("%d", timestamp - self->t); self->t = 0; } tick-10ms { printa(@); }`)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.IntN(120)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
	}
}

// A grabbed process whose tracer is killed runs on, untraced and unstopped.
func TestKillLeavesTargetRunning(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckMachine(t)
	target := exec.Command(testkernel.Trigger(t, "syscalls"), "-call", "getppid", "-for", "1h")
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { target.Process.Kill(); target.Wait() }()
	for range size(5, 20) {
		cmd := exec.Command(testkernel.Godtrace(t), "-qn", `syscall:::entry /pid == $target/ { @[probefunc] = count(); }`,
			"-p", strconv.Itoa(target.Process.Pid))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		// On a busy machine its turn may be some time away.
		before := ticks(t, target.Process.Pid)
		deadline := time.Now().Add(10 * time.Second)
		for ticks(t, target.Process.Pid) <= before {
			if time.Now().After(deadline) {
				t.Fatalf("the target stands still at %d ticks of CPU time", before)
			}
			time.Sleep(10 * time.Millisecond)
		}
		st, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", target.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(st, []byte("TracerPid:\t0\n")) || bytes.Contains(st, []byte("State:\tT")) {
			t.Fatalf("the target is held:\n%s", st)
		}
	}
}

// ticks is the CPU time of a process, fields 14 and 15 of /proc/PID/stat.
func ticks(t *testing.T, pid int) (n int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	for _, s := range f[11:13] {
		v, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		n += v
	}
	return n
}
