package testkernel

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// complaint is what the kernel's log says when something is wrong with it.
var complaint = regexp.MustCompile(`WARNING: |BUG: |Oops|Kernel panic|rcu: INFO|soft lockup|hung_task|blocked for more than|ftrace failed to modify|ftrace faulted`)

// CheckKernel fails the test if, when it ends, the kernel has complained in its
// log or is tainted by something that it was not tainted by now, or if probes
// are left on its functions.
func CheckKernel(t testing.TB) {
	t.Helper()
	taint := read(t, "/proc/sys/kernel/tainted")
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Seek(fd, 0, 2) // SEEK_END: behind what was said before
	}
	if err != nil {
		t.Fatalf("/dev/kmsg: %v", err)
	}
	t.Cleanup(func() {
		defer unix.Close(fd)
		buf := make([]byte, 8192)
		for {
			n, err := unix.Read(fd, buf)
			if errors.Is(err, unix.EPIPE) {
				t.Log("the kernel's log was written over in part")
				continue // the oldest records were overwritten
			}
			if err != nil {
				break
			}
			// priority,number,time,flags;TEXT
			if _, text, _ := strings.Cut(string(buf[:n]), ";"); complaint.MatchString(text) {
				t.Errorf("the kernel says: %s", strings.TrimSpace(text))
			}
		}
		if now := read(t, "/proc/sys/kernel/tainted"); now != taint {
			t.Errorf("the kernel's taint was %s and is %s", taint, now)
		}
		for _, f := range []string{"/sys/kernel/tracing/enabled_functions", "/sys/kernel/debug/kprobes/list"} {
			var left string
			wait(func() bool {
				b, err := os.ReadFile(f)
				left = string(b)
				return err != nil || left == ""
			})
			if left != "" {
				t.Errorf("left in %s:\n%.2000s", f, left)
			}
		}
	})
}

func read(t testing.TB, file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(b))
}
