package godtrace

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"

	"godtrace/internal/bpf"
	"godtrace/internal/kernel"
	"godtrace/internal/provider"
	"godtrace/internal/syntax"
)

// Hint is what the user can do about an error of this package, or "".
func Hint(err error) string {
	if e, ok := errors.AsType[*CompileError](err); ok {
		return e.Hint
	}
	if _, ok := errors.AsType[*kernel.FeatureError](err); ok {
		return "" // it says itself what to do without
	}
	if _, ok := errors.AsType[*bpf.VerifierError](err); ok && !errors.Is(err, syscall.EPERM) {
		return "the kernel's verifier did not accept what the program was compiled to: an error of godtrace's; " +
			bpf.VerifierLogEnv + "=FILE keeps the verifier's log"
	}
	if errors.Is(err, syscall.EMFILE) {
		return "programs, maps and probes take a descriptor each: ulimit -n allows too few"
	}
	if e, ok := errors.AsType[*PolicyError](err); ok {
		return e.File + " is for root to change: see doc/policy.md"
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok && e.Syscall == "perf_event_open" && e.Err == syscall.EACCES {
		return "kernel.perf_event_paranoid forbids perf events to others than root (3 is Debian's, and asks for CAP_SYS_ADMIN): sysctl kernel.perf_event_paranoid=2, or run it as root"
	}
	if _, ok := errors.AsType[*bpf.PrivilegeError](err); ok || errors.Is(err, syscall.EPERM) {
		return privilegeHint()
	}
	return ""
}

// toCome are DTrace's providers that godtrace has not got yet, and what serves
// meanwhile.
var toCome = map[string]string{
	"proc":      "sdt:sched::sched_process_exec, sched_process_fork and sched_process_exit, syscall::execve:",
	"sched":     "sdt:sched::sched_switch and sched_wakeup",
	"io":        "sdt:block::block_rq_issue and block_rq_complete",
	"ip":        "sdt:net::net_dev_xmit and netif_receive_skb",
	"tcp":       "sdt:sock::inet_sock_set_state, sdt:tcp::",
	"udp":       "syscall::sendto: and syscall::recvfrom:",
	"lockstat":  "sdt:lock::contention_begin and contention_end",
	"plockstat": "pid$target:libc.so.6:pthread_mutex_*:",
	"vminfo":    "sdt:exceptions::page_fault_user, sdt:vmscan::",
	"sysinfo":   "syscall:::",
	"mib":       "sdt:tcp::",
}

var noMatch = regexp.MustCompile(`^probe description ((\w+?)[\d*]*:.*) does not match any probes$`)

// providerHint is the error's own hint or a better one: what the provider knows
// of a description that matches nothing, or of a provider nobody has.
func (s *Session) providerHint(e *syntax.Error) string {
	m := noMatch.FindStringSubmatch(e.Msg)
	if e.Tag != "D_PDESC_ZERO" || m == nil {
		return e.Hint
	}
	var names []string
	for _, p := range s.env.providers {
		if p.Name() == m[2] {
			if h, ok := p.(provider.Hinter); ok {
				return h.Hint(m[1], e.Hint)
			}
			return e.Hint
		}
		names = append(names, p.Name())
	}
	if instead, ok := toCome[m[2]]; ok {
		return fmt.Sprintf("the provider %s is still to come; near to it: %s", m[2], instead)
	}
	if n := syntax.Nearest(m[2], names); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return e.Hint
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
	if lockdown() == "confidentiality" {
		return "the kernel is locked down (confidentiality): it lets nobody read its memory; boot with lockdown=integrity to trace"
	}
	return "no capability is missing: a container's seccomp filter, a security module or a locked-down kernel may forbid it; see godtrace doctor"
}
