package main

import (
	"errors"
	"os"
	"strings"

	"godtrace"
)

// hint is what the user can do about an error, or "".
func hint(err error) string {
	if e, ok := errors.AsType[*godtrace.CompileError](err); ok {
		return e.Hint
	}
	if errors.Is(err, os.ErrPermission) {
		return privilegeHint()
	}
	return ""
}

// privilegeHint says which right is missing.
func privilegeHint() string {
	caps, err := godtrace.Capabilities()
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
		return "missing " + strings.Join(missing, " and ") + "; run it as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog=ep " + self()
	}
	if m := godtrace.Lockdown(); m == "confidentiality" {
		return "the kernel is locked down (confidentiality): it lets nobody read its memory; boot with lockdown=integrity or without Secure Boot to trace"
	}
	return "no capability is missing here: a container's seccomp filter or a security module may forbid bpf(2) or perf_event_open(2)"
}

func self() string {
	p, err := os.Executable()
	if err != nil {
		return "godtrace"
	}
	return p
}
