package rows

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// tracer is a running command under test.
type tracer struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// patience is for what takes well under a second on hardware; emulation may
// take a hundred times as long where every kernel function is traced.
var patience = func() time.Duration {
	if _, ok := testkernel.InVM(); ok {
		return 100 * time.Second
	}
	return 30 * time.Second
}()

// begin starts the tracer and returns when it is tracing. For this the program
// gets a BEGIN clause that prints a line; it is not in the output returned by
// end.
func begin(t *testing.T, args ...string) *tracer {
	t.Helper()
	const ready = "the tracer is ready\n"
	args = append([]string{"-x", "switchrate=20ms", "-n", `dtrace:::BEGIN { printf("` + strings.TrimSpace(ready) + `\n"); }`}, args...)
	tr := start(t, args...)
	end := time.Now().Add(patience)
	for !strings.Contains(tr.out.String(), ready) {
		if time.Now().After(end) {
			tr.cmd.Process.Kill()
			t.Fatalf("no BEGIN after %v\nstdout:\n%s\nstderr:\n%s", patience, &tr.out, &tr.err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	tr.out.mu.Lock()
	text := tr.out.b.String()
	tr.out.b.Reset()
	tr.out.b.WriteString(strings.Replace(text, ready, "", 1))
	tr.out.mu.Unlock()
	return tr
}

func start(t *testing.T, args ...string) *tracer {
	t.Helper()
	tr := &tracer{t: t, cmd: exec.Command(testkernel.Godtrace(t), args...)}
	tr.cmd.Stdout, tr.cmd.Stderr = &tr.out, &tr.err
	if err := tr.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if tr.cmd.ProcessState == nil {
			tr.cmd.Process.Kill()
			tr.cmd.Wait()
		}
	})
	return tr
}

// interrupt is Ctrl-C; it waits for the end and wants status 0.
func (tr *tracer) interrupt() (stdout, stderr string) {
	tr.t.Helper()
	if err := tr.cmd.Process.Signal(unix.SIGINT); err != nil {
		tr.t.Fatal(err)
	}
	return tr.end()
}

// end waits for the end of the tracer and wants status 0.
func (tr *tracer) end() (stdout, stderr string) {
	tr.t.Helper()
	hung := time.AfterFunc(patience, func() { tr.cmd.Process.Signal(unix.SIGQUIT) })
	defer hung.Stop()
	if err := tr.cmd.Wait(); err != nil {
		tr.t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", err, &tr.out, &tr.err)
	}
	return tr.out.String(), tr.err.String()
}

// trace runs the tracer to its own end.
func trace(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	return start(t, args...).end()
}

// run runs a program that must succeed.
func run(t *testing.T, path string, args ...string) *os.ProcessState {
	t.Helper()
	cmd := exec.Command(path, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
	return cmd.ProcessState
}

// match is the submatches of a pattern, one row a match.
func match(pattern, text string) [][]string {
	return regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
}

// whole runs the tracer until it has seen everything. Since 7.0 a firing may be
// preempted, and the kernel skips what fires on its CPU meanwhile; the tracer
// says so, and the run is of no use. Any other loss fails the test.
func whole(t *testing.T, run func() (stdout, stderr string)) (stdout string) {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	preempts := u.Release[0] >= '7' || u.Release[1] != '.'
	for range 20 {
		stdout, stderr := run()
		if preempts && match(`(?m)^dtrace: \d+ firings? skipped by the kernel`, stderr) != nil {
			continue
		}
		lost(t, stderr)
		return stdout
	}
	t.Fatal("the kernel skipped firings in each of 20 runs")
	return ""
}

// lost fails the test if the tracer says that it lost data.
func lost(t *testing.T, stderr string) {
	t.Helper()
	if m := match(`(?m)^dtrace: \d+ .*(?:drop|skipped).*$`, stderr); m != nil {
		t.Fatalf("data was lost: %q", m)
	}
}
