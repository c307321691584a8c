package godtrace

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Capabilities that tracing needs, and what for. CAP_SYS_ADMIN stands for all
// but CAP_SYS_PTRACE.
var capabilities = []struct {
	name string
	bit  int
	why  string
}{
	{"CAP_BPF", unix.CAP_BPF, "to load programs and maps"},
	{"CAP_PERFMON", unix.CAP_PERFMON, "to attach to probes and to read memory"},
	{"CAP_SYS_RESOURCE", unix.CAP_SYS_RESOURCE, "to lock memory (kernels before 5.11)"},
	{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE, "to look into processes of other users"},
	{"CAP_SYSLOG", unix.CAP_SYSLOG, "to see kernel addresses in /proc/kallsyms"},
}

// A Capability is a right that tracing may need.
type Capability struct {
	Name string
	Why  string
	Have bool
	// Needed is set where no tracing is possible without.
	Needed bool
}

// Capabilities says which of the rights that tracing needs this process has.
func Capabilities() ([]Capability, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(b), "\nCapEff:")
	hex, _, _ := strings.Cut(rest, "\n")
	eff, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
	if err != nil {
		return nil, fmt.Errorf("/proc/self/status: CapEff: %w", err)
	}
	admin := eff&(1<<unix.CAP_SYS_ADMIN) != 0
	var out []Capability
	for i, c := range capabilities {
		have := eff&(1<<c.bit) != 0
		if admin && c.bit != unix.CAP_SYS_PTRACE && c.bit != unix.CAP_SYS_RESOURCE {
			have = true
		}
		out = append(out, Capability{Name: c.name, Why: c.why, Have: have, Needed: i < 2})
	}
	return out, nil
}

// lockdown is the kernel's lockdown mode: "none", "integrity" (tracing works,
// writing to memory does not) or "confidentiality" (nothing may be read); ""
// where the kernel has none.
func lockdown() string {
	b, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(b), "[")
	if !ok {
		return ""
	}
	m, _, _ := strings.Cut(rest, "]")
	return m
}

// hasBTF says whether the kernel describes its types: without, only untyped
// arguments are there.
func hasBTF() bool {
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	return err == nil
}

// keepCapabilities leaves this process, all threads, with those of caps that
// it is permitted, in effect, and none to inherit.
func keepCapabilities(caps uint64) error {
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := new([2]unix.CapUserData)
	if err := unix.Capget(hdr, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	for i := range data {
		keep := data[i].Permitted & uint32(caps>>(32*i))
		data[i] = unix.CapUserData{Effective: keep, Permitted: keep}
	}
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(hdr)), uintptr(unsafe.Pointer(data)), 0)
	runtime.KeepAlive(hdr)
	runtime.KeepAlive(data)
	if e != 0 {
		return fmt.Errorf("capset: %w", e)
	}
	return nil
}
