package testkernel

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"godtrace/internal/kernel"

	"golang.org/x/sys/unix"
)

// Result is what a run of the command left.
type Result struct {
	Stdout, Stderr string
	Err            error
}

// Trace runs the command under test to its end.
func Trace(t testing.TB, args ...string) Result {
	t.Helper()
	cmd := exec.Command(Godtrace(t), args...)
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	err := cmd.Run()
	return Result{out.String(), errb.String(), err}
}

// OK wants status 0.
func (r Result) OK(t testing.TB) Result {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", r.Err, r.Stdout, r.Stderr)
	}
	return r
}

// Tracer is a running command under test. Out and Err are what it has written
// so far.
type Tracer struct {
	Cmd      *exec.Cmd
	Out, Err fmt.Stringer
	t        testing.TB
}

// locked is a buffer that is read while a command writes to it.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Patience is for what takes well under a second on hardware; emulation may
// take a hundred times as long where every kernel function is traced, and where
// that is done for long other guests may be running.
func Patience() time.Duration {
	if _, ok := InVM(); ok {
		if os.Getenv("GODTRACE_LOAD") == "long" {
			return 10 * time.Minute
		}
		return 100 * time.Second
	}
	return 30 * time.Second
}

// Start starts the command; the test's end kills it.
func Start(t testing.TB, args ...string) *Tracer {
	t.Helper()
	out, errb := new(locked), new(locked)
	tr := &Tracer{t: t, Cmd: exec.Command(Godtrace(t), args...), Out: out, Err: errb}
	tr.Cmd.Stdout, tr.Cmd.Stderr = out, errb
	if err := tr.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if tr.Cmd.ProcessState == nil {
			tr.Cmd.Process.Kill()
			tr.Cmd.Wait()
		}
	})
	return tr
}

// Begin starts the command and returns when it is tracing. For this its program
// gets a BEGIN clause that prints a line, which is not in the output that End
// returns.
func Begin(t testing.TB, args ...string) *Tracer {
	t.Helper()
	const ready = "the tracer is ready\n"
	tr := Start(t, append([]string{"-x", "switchrate=20ms", "-n", `dtrace:::BEGIN { printf("` + strings.TrimSpace(ready) + `\n"); }`}, args...)...)
	end := time.Now().Add(Patience())
	for !strings.Contains(tr.Out.String(), ready) {
		if time.Now().After(end) {
			tr.Cmd.Process.Kill()
			t.Fatalf("no BEGIN after %v\nstdout:\n%s\nstderr:\n%s", Patience(), tr.Out, tr.Err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	out := tr.Out.(*locked)
	out.mu.Lock()
	defer out.mu.Unlock()
	text := out.b.String()
	out.b.Reset()
	out.b.WriteString(strings.Replace(text, ready, "", 1))
	return tr
}

// Interrupt is Ctrl-C; it waits for the end and wants status 0.
func (tr *Tracer) Interrupt() (stdout, stderr string) {
	tr.t.Helper()
	if err := tr.Cmd.Process.Signal(unix.SIGINT); err != nil {
		tr.t.Fatal(err)
	}
	return tr.End()
}

// End waits for the end of the command and wants status 0.
func (tr *Tracer) End() (stdout, stderr string) {
	tr.t.Helper()
	r := tr.Wait().OK(tr.t)
	return r.Stdout, r.Stderr
}

// Wait waits for the end of the command, whatever its status.
func (tr *Tracer) Wait() Result {
	hung := time.AfterFunc(Patience(), func() { tr.Cmd.Process.Signal(unix.SIGQUIT) })
	defer hung.Stop()
	err := tr.Cmd.Wait()
	return Result{tr.Out.String(), tr.Err.String(), err}
}

var lossLine = regexp.MustCompile(`(?m)^dtrace: \d+ .*(?:drop|skipped).*$`)

// Lost fails the test if the command said that it lost data.
func Lost(t testing.TB, stderr string) {
	t.Helper()
	if m := lossLine.FindAllString(stderr, -1); m != nil {
		t.Fatalf("data was lost: %q", m)
	}
}

// Whole runs the command until it has seen everything. Since 7.0 a firing may
// be preempted, and the kernel skips what fires on its CPU meanwhile; the
// command says so, and the run is of no use. Any other loss fails the test.
func Whole(t testing.TB, run func() (stdout, stderr string)) (stdout string) {
	t.Helper()
	preempts := kernel.AtLeast(7, 0)
	for range 20 {
		stdout, stderr := run()
		if preempts && skippedLine.MatchString(stderr) {
			continue
		}
		Lost(t, stderr)
		return stdout
	}
	t.Fatal("the kernel skipped firings in each of 20 runs")
	return ""
}

var skippedLine = regexp.MustCompile(`(?m)^dtrace: \d+ firings? skipped by the kernel`)
