package tables

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// nobody is a user without rights.
const nobody = 65534

// Who is not root but has CAP_BPF and CAP_PERFMON may trace; who lacks one of
// them is told which.
func TestPrivileges(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.34", "2.12")
	// A copy where everybody may go.
	dir, err := os.MkdirTemp("", "godtrace-nobody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bin, err := os.ReadFile(testkernel.Godtrace(t))
	if err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(dir, "dtrace")
	if err := errors.Join(os.WriteFile(command, bin, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	const denied = `^dtrace: could not enable tracing: no permission to load BPF programs`
	calls := []string{"-qn", `syscall::write:entry /pid == $target/ { n++; } END { printf("%d of %d", n, uid); }`, "-c", "dd if=/dev/zero of=/dev/null bs=7 count=30"}
	for _, c := range []struct {
		name     string
		caps     []uintptr
		args     []string
		out, err string
		status   int
	}{
		{"system calls", []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}, calls, `\A3[0-9] of 65534\n\z`, ``, 0},
		{"profile", []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}, []string{"-qn", `profile-997 { n++; } profile-997 /n > 3/ { printf("fired"); exit(0); }`}, `\Afired\n\z`, ``, 0},
		{"destructive", []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}, []string{"-wqn", `BEGIN { system("id -u"); exit(0); }`}, `^65534$`, ``, 0},
		{"without CAP_PERFMON", []uintptr{unix.CAP_BPF}, calls, ``, denied + `[^\n]*\ndtrace: hint: missing CAP_PERFMON \(`, 1},
		{"without CAP_BPF", []uintptr{unix.CAP_PERFMON}, calls, ``, denied + `[^\n]*\ndtrace: hint: missing CAP_BPF \(`, 1},
		{"without any", nil, calls, ``, denied + `[^\n]*\ndtrace: hint: missing CAP_BPF \(.*\) and CAP_PERFMON \(`, 1},
		{"compiling needs none", nil, []string{"-en", `BEGIN { trace(1); }`}, `\A\z`, ``, 0},
		{"listing needs none", nil, []string{"-ln", `BEGIN`}, ` BEGIN$`, ``, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); c.name == "profile" && strings.TrimSpace(string(s)) == "3" {
				c.out, c.err, c.status = ``, `kernel\.perf_event_paranoid forbids`, 1 // as Debian has it
			}
			cmd := exec.CommandContext(t.Context(), command, c.args...)
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: c.caps}
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(`(?m)` + c.out).Match(out.Bytes()) {
				t.Errorf("output %q, want %s", out.String(), c.out)
			}
			if !regexp.MustCompile(`(?m)` + c.err).Match(errs.Bytes()) {
				t.Errorf("messages %s, want %s", errs.String(), c.err)
			}
			if n := cmd.ProcessState.ExitCode(); n != c.status {
				t.Errorf("status %d, want %d: %s", n, c.status, errs.String())
			}
		})
	}
}
