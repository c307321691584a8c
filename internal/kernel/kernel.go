// Package kernel is what several packages ask of the running kernel itself:
// how old it is, which CPUs and kinds of perf events it has, and bpf(2), for
// what cilium/ebpf has no field for.
package kernel

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// FeatureError is something that the running kernel lacks.
type FeatureError struct {
	Name       string // what
	Since      string // the Linux version that has it, or the configuration
	Workaround string // what to do, or what is done, without; may be ""
	Err        error  // how it came out; may be nil
}

// Error implements error.
func (e *FeatureError) Error() string {
	s := fmt.Sprintf("this kernel has no %s (since %s)", e.Name, e.Since)
	if e.Workaround != "" {
		s += ": " + e.Workaround
	}
	if e.Err != nil {
		s += fmt.Sprintf(" (%v)", e.Err)
	}
	return s
}

// Unwrap is Err.
func (e *FeatureError) Unwrap() error { return e.Err }

// FeatureMissing marks the error for tests, which skip on it.
func (e *FeatureError) FeatureMissing() (name, since, workaround string) {
	return e.Name, e.Since, e.Workaround
}

// Release is the running kernel's, as uname(2) tells it: "6.12.38-amd64"; ""
// if it does not.
var Release = sync.OnceValue(func() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
})

var version = sync.OnceValue(func() int { return versionOf(Release()) })

// Version is a version of Linux as a number that compares: for 6.12
// Version(6, 12).
func Version(major, minor int) int { return major<<16 | minor }

// versionOf reads the version a release begins with; 0 if there is none.
func versionOf(release string) int {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 {
		return 0
	}
	return Version(major, minor)
}

// AtLeast reports whether the running kernel is of that version or a later one.
func AtLeast(major, minor int) bool { return version() >= Version(major, minor) }

// OnlineCPUs are the numbers of the CPUs that are in use, ascending.
func OnlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs reads a list such as "0-3,5".
func parseCPUs(list string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || a > b || b > 1<<16 {
			return nil, fmt.Errorf("list of CPUs %q: expected numbers and ranges", list)
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out, nil
}

// EventSource is the type of the perf events of a source in sysfs ("kprobe",
// "uprobe"); 0: there is none.
func EventSource(name string) uint32 {
	b, err := os.ReadFile("/sys/bus/event_source/devices/" + name + "/type")
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	return uint32(n)
}
