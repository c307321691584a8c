package godtrace

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"godtrace/internal/bpf"
	"godtrace/internal/kernel"
)

// What the kernel lacks is no error of godtrace's, though the verifier said it.
func TestHint(t *testing.T) {
	refused := &bpf.VerifierError{Program: "p", Err: syscall.EINVAL}
	if h := Hint(fmt.Errorf("could not: %w", refused)); !strings.Contains(h, "an error of godtrace's") {
		t.Errorf("refused program: %q", h)
	}
	if h := Hint(fmt.Errorf("program p: %w", syscall.EMFILE)); !strings.Contains(h, "ulimit -n") {
		t.Errorf("no descriptors: %q", h)
	}
	lacks := &kernel.FeatureError{Name: "helper", Since: "4.8", Workaround: "do without", Err: refused}
	if h := Hint(fmt.Errorf("could not: %w", lacks)); h != "" {
		t.Errorf("lacking feature: %q", h)
	}
}
