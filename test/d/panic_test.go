package d_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// panic() asks the kernel for a crash. Here another file lies over the one it
// asks by, for the tracer alone; that this is so is made sure of first.
func TestPanic(t *testing.T) {
	testkernel.RequireRoot(t)
	cmd := testkernel.Godtrace(t)
	trigger := filepath.Join(t.TempDir(), "trigger")
	if err := os.WriteFile(trigger, []byte("not the kernel's"), 0o600); err != nil {
		t.Fatal(err)
	}
	const program = `BEGIN { printf("before"); panic(); } BEGIN { printf(" after"); exit(0); }`
	if _, err := os.Stat("/proc/sysrq-trigger"); errors.Is(err, os.ErrNotExist) {
		out, err := exec.CommandContext(t.Context(), cmd, "-w", "-qn", program).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "this kernel has no magic system requests (since CONFIG_MAGIC_SYSRQ)") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	const guarded = `mount --bind "$1" /proc/sysrq-trigger && [ "$(cat /proc/sysrq-trigger)" = "not the kernel's" ] || exit 99; shift; exec "$@"`
	run := func(args ...string) string {
		c := exec.CommandContext(t.Context(), "unshare", append([]string{"-m", "sh", "-c", guarded, "sh", trigger, cmd}, args...)...)
		out, err := c.CombinedOutput()
		if c.ProcessState.ExitCode() == 99 {
			t.Skipf("SKIP-FEATURE: mount namespaces: %v", err)
		}
		return string(out)
	}
	if out := run("-qn", program); !strings.Contains(out, "Destructive actions not allowed") {
		t.Errorf("without -w: %s", out)
	}
	if b, err := os.ReadFile(trigger); err != nil || string(b) != "not the kernel's" {
		t.Errorf("without -w the kernel was told %q, %v", b, err)
	}
	if out := run("-w", "-qn", program); out != "before after\n" {
		t.Errorf("with -w: %q", out)
	}
	if b, err := os.ReadFile(trigger); err != nil || string(b) != "c" {
		t.Errorf("the kernel was told %q, %v", b, err)
	}
}
