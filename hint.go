package godtrace

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"godtrace/internal/bpf"
)

// Hint is what the user can do about an error of this package, or "".
func Hint(err error) string {
	if e, ok := errors.AsType[*CompileError](err); ok {
		return e.Hint
	}
	if _, ok := errors.AsType[*bpf.VerifierError](err); ok && !errors.Is(err, syscall.EPERM) {
		return "the kernel's verifier did not accept what the program was compiled to: an error of godtrace's; " +
			bpf.VerifierLogEnv + "=FILE keeps the verifier's log"
	}
	if e, ok := errors.AsType[*PolicyError](err); ok {
		return e.File + " is for root to change: see doc/policy.md"
	}
	if _, ok := errors.AsType[*bpf.PrivilegeError](err); ok || errors.Is(err, syscall.EPERM) {
		return privilegeHint()
	}
	return ""
}

// privilegeHint says which right is missing.
func privilegeHint() string {
	caps, err := Capabilities()
	if err != nil {
		return ""
	}
	var missing []string
	for _, c := range caps {
		if c.Needed && !c.Have {
			missing = append(missing, c.Name+" ("+c.Why+")")
		}
	}
	if len(missing) > 0 {
		self, err := os.Executable()
		if err != nil {
			self = "godtrace"
		}
		return "missing " + strings.Join(missing, " and ") + "; run it as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog=ep " + self
	}
	if Lockdown() == "confidentiality" {
		return "the kernel is locked down (confidentiality): it lets nobody read its memory; boot with lockdown=integrity to trace"
	}
	return "no capability is missing: a container's seccomp filter, a security module or a locked-down kernel may forbid it; see godtrace doctor"
}
