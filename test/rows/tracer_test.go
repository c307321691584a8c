//go:build amd64

package rows

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"godtrace/internal/testkernel"
)

// tracer is testkernel.Tracer in the words of these tests.
type tracer struct {
	*testkernel.Tracer
	cmd      *exec.Cmd
	out, err fmt.Stringer
}

func begin(t *testing.T, args ...string) *tracer {
	t.Helper()
	return wrap(testkernel.Begin(t, args...))
}

func start(t *testing.T, args ...string) *tracer {
	t.Helper()
	return wrap(testkernel.Start(t, args...))
}

func wrap(tr *testkernel.Tracer) *tracer { return &tracer{tr, tr.Cmd, tr.Out, tr.Err} }

func (tr *tracer) interrupt() (stdout, stderr string) { return tr.Interrupt() }
func (tr *tracer) end() (stdout, stderr string)       { return tr.End() }

// trace runs the tracer to its own end.
func trace(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	return start(t, args...).end()
}

func whole(t *testing.T, run func() (stdout, stderr string)) (stdout string) {
	t.Helper()
	return testkernel.Whole(t, run)
}

func lost(t *testing.T, stderr string) {
	t.Helper()
	testkernel.Lost(t, stderr)
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
