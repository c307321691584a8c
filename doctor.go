package godtrace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"godtrace/internal/kernel"
	"godtrace/internal/tracefs"
)

// A Finding is one thing that tracing depends on, and how it stands here.
type Finding struct {
	Area   string // "rights", "kernel", "feature"
	Name   string
	OK     bool
	Now    string // how it is here: a value or a version
	Since  string // for features: the version of Linux that brought it
	Remedy string // where not OK: what is done without, or what to do
}

// Doctor examines the kernel and the rights of this process. Nothing is
// changed; what is loaded to try it is unloaded again.
func Doctor() ([]Finding, error) {
	var out []Finding
	caps, err := Capabilities()
	if err != nil {
		return nil, err
	}
	for _, c := range caps {
		f := Finding{Area: "rights", Name: c.Name, OK: c.Have, Now: yesNo(c.Have)}
		if !c.Have {
			f.Remedy = "wanted " + c.Why
			if c.Needed {
				f.Remedy = "needed " + c.Why
			}
		}
		out = append(out, f)
	}
	out = append(out, kernelFindings(caps)...)
	return append(out, featureFindings()...), nil
}

// kernelFindings are what kernel and system allow a process with these rights.
func kernelFindings(caps []Capability) []Finding {
	var out []Finding
	add := func(name, now string, ok bool, remedy string) {
		if ok {
			remedy = ""
		}
		out = append(out, Finding{Area: "kernel", Name: name, OK: ok, Now: now, Remedy: remedy})
	}
	if r := kernel.Release(); r != "" {
		add("version", r, kernel.AtLeast(6, 1), "tested from 6.1 on; older kernels lack what tracing needs")
	}
	types := hasBTF()
	add("types (BTF)", yesNo(types), types, "no args[], no kernel structures, no fentry: a kernel built with CONFIG_DEBUG_INFO_BTF has them")
	if m := lockdown(); m != "" {
		add("lockdown", m, m != "confidentiality", "the kernel lets nobody read its memory; boot with lockdown=integrity or less")
	} else {
		add("lockdown", "?", false, "cannot tell: mount -t securityfs securityfs /sys/kernel/security")
	}
	syms, err := kernelSymbolsVisible()
	seen := yesNo(syms)
	if err != nil {
		seen = err.Error()
	}
	add("kernel symbols", seen, syms, "stacks and sym() print numbers: CAP_SYSLOG, or sysctl kernel.kptr_restrict=0")
	if syms {
		_, err := kernelAddr("", "jiffies")
		add("kernel variables", yesNo(err == nil), err == nil, "no addresses and values of kernel variables: a kernel built with CONFIG_KALLSYMS_ALL lists them")
	}
	now, ok := "no", false
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		_, err := os.Stat(dir + "/events")
		if err == nil {
			now, ok = dir, true
			break
		}
		if errors.Is(err, os.ErrPermission) {
			now, ok = "not readable", true
		}
	}
	if !ok {
		if _, err := tracefs.Root(); err == nil {
			now, ok = "not mounted: godtrace mounts it for itself", true
		}
	}
	add("tracefs", now, ok, "mount -t tracefs tracefs /sys/kernel/tracing")
	host := HostPIDs()
	add("PIDs of the host", yesNo(host), host, "pid, tid, ppid differ from $target and /proc: compare pidns_pid, or run in the host's PID namespace (docker --pid=host)")
	if s, err := sysctl("kernel/perf_event_paranoid"); err == nil {
		n, _ := strconv.Atoi(s)
		perfmon := slices.ContainsFunc(caps, func(c Capability) bool { return c.Name == "CAP_PERFMON" && c.Have })
		ok := n <= -1 || perfmon && n <= 2 || os.Geteuid() == 0
		add("perf_event_paranoid", s, ok, "perf events need CAP_PERFMON at this setting, and from 3 on (Debian) CAP_SYS_ADMIN")
	}
	return out
}

// HostPIDs reports whether this process is in the initial PID namespace, whose
// numbers the variables pid, tid and ppid have. In another, $target is not the
// pid of the process that it names.
func HostPIDs() bool {
	const initial = "pid:[4026531836]" // the kernel's PROC_PID_INIT_INO
	ns, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || ns == initial
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func sysctl(name string) (string, error) {
	b, err := os.ReadFile("/proc/sys/" + name)
	return strings.TrimSpace(string(b)), err
}

// kernelSymbolsVisible says whether /proc/kallsyms shows addresses.
func kernelSymbolsVisible() (bool, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, err := f.Read(b)
	if err != nil {
		return false, fmt.Errorf("/proc/kallsyms: %w", err)
	}
	for line := range strings.Lines(string(b[:n])) {
		if addr, _, ok := strings.Cut(line, " "); ok && strings.Trim(addr, "0") != "" {
			return true, nil
		}
	}
	return false, nil
}
