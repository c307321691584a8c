package godtrace

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// The consumer runs ahead of what it traces: on a machine whose CPUs are all
// busy it would else wait for its turn and then get the share of one more
// program, and records that are made faster than they are printed would be
// lost. It takes what it needs and sleeps again.
const consumerNice = -20

// hurry raises the priority of the calling goroutine until the function it
// returns is called. Without the right to (CAP_SYS_NICE) nothing changes.
func hurry() (relax func()) {
	runtime.LockOSThread()
	tid := unix.Gettid()
	// The raw call gives 20-nice, so that it is never negative.
	old, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	if err != nil || unix.Setpriority(unix.PRIO_PROCESS, tid, consumerNice) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		// Should this fail, the thread must not serve others as it is: it
		// stays locked, and ends with the goroutine.
		if unix.Setpriority(unix.PRIO_PROCESS, tid, 20-old) == nil {
			runtime.UnlockOSThread()
		}
	}
}
