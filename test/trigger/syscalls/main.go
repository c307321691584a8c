// Syscalls makes system calls, or calls a function of its own, in a tight loop
// and says what they cost. It counts its own calls, so that a tracer's counts
// can be held against them.
//
//	syscalls [-call getppid|deep|read|nanosleep|hit] [-n CALLS] [-for DURATION [-rest DURATION]] [-rounds R] [-threads T] [-cpu N] [-preempt] [-wait]
//
// One line per thread and round:
//
//	thread 0 round 0 pid 4711 tid 4711 calls 1000000 ns/call 112.4 cpu-ns/call 112.1
//
// ns/call is by the clock on the wall, cpu-ns/call by the thread's CPU time,
// which leaves out what other programs took of the CPU. With -preempt every
// other thread has real-time priority and sleeps for some microseconds after
// each call, so that it interrupts the others wherever they are. With -wait it prints
// "ready", then waits for a line on standard input before each round.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	call := flag.String("call", "getppid", "which system call: getppid, deep (the same, below 30 calls), read (64 bytes of /dev/zero), nanosleep, hit (the function main.hit)")
	n := flag.Int("n", 1_000_000, "calls a round")
	length := flag.Duration("for", 0, "instead of -n: call for this long")
	rest := flag.Duration("rest", 0, "with -for: sleep so long after every hundred calls")
	rounds := flag.Int("rounds", 1, "rounds")
	threads := flag.Int("threads", 1, "threads")
	cpu := flag.Int("cpu", -1, "bind thread i to CPU (cpu+i); -1: do not bind")
	preempt := flag.Bool("preempt", false, "every other thread interrupts the others")
	wait := flag.Bool("wait", false, "wait for a line on standard input before each round")
	flag.Parse()

	one, err := caller(*call)
	if err != nil {
		fmt.Fprintln(os.Stderr, "syscalls:", err)
		os.Exit(2)
	}
	in := bufio.NewReader(os.Stdin)
	for r := range *rounds {
		if *wait {
			if r == 0 {
				fmt.Println("ready")
			}
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
		}
		var wg sync.WaitGroup
		lines := make([]string, *threads)
		for t := range *threads {
			wg.Go(func() {
				runtime.LockOSThread()
				if *cpu >= 0 {
					var set unix.CPUSet
					set.Set(*cpu + t)
					if err := unix.SchedSetaffinity(0, &set); err != nil {
						fmt.Fprintln(os.Stderr, "syscalls: bind:", err)
					}
				}
				one := one
				if *preempt && t%2 == 1 {
					var err error
					if one, err = interrupting(one); err != nil {
						fmt.Fprintln(os.Stderr, "syscalls: real-time priority:", err)
						os.Exit(2)
					}
				}
				calls, wall, busy := loop(one, *n, *length, *rest)
				lines[t] = fmt.Sprintf("thread %d round %d pid %d tid %d calls %d ns/call %.1f cpu-ns/call %.1f",
					t, r, os.Getpid(), unix.Gettid(), calls, float64(wall)/float64(calls), float64(busy)/float64(calls))
			})
		}
		wg.Wait()
		for _, l := range lines {
			fmt.Println(l)
		}
	}
}

// caller returns a function that makes the call n times, with nothing else in
// the loop: no entry into Go's scheduler.
func caller(name string) (func(n int), error) {
	switch name {
	case "getppid":
		return func(n int) {
			for i := range n { // numbered, for whoever looks at arguments
				unix.RawSyscallNoError(unix.SYS_GETPPID, uintptr(i), 0, 0)
			}
		}, nil
	case "read":
		fd, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		return func(n int) {
			var buf [64]byte
			for range n {
				rawRead(fd, &buf)
			}
		}, nil
	case "deep":
		return func(n int) { down(depth, n) }, nil
	case "nanosleep":
		return func(n int) {
			ts := unix.NsecToTimespec(1000)
			for range n {
				rawNanosleep(&ts)
			}
		}, nil
	case "hit":
		return func(n int) {
			for range n {
				hit()
			}
		}, nil
	}
	return nil, fmt.Errorf("no such call %q", name)
}

// depth is how deep in calls of its own the call "deep" is made.
const depth = 30

//go:noinline
func down(d, n int) int {
	if d > 0 {
		return down(d-1, n) + 1
	}
	for range n {
		unix.RawSyscallNoError(unix.SYS_GETPPID, 0, 0, 0)
	}
	return 0
}

var hits atomic.Int64

// hit is a place for user probes.
//
//go:noinline
func hit() { hits.Add(1) }

// interrupting gives this thread real-time priority and returns one with a
// sleep after each call, of 1 to 64 µs: the others are met at ever other places.
func interrupting(one func(n int)) (func(n int), error) {
	err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	return func(n int) {
		for i := range n {
			one(1)
			ts := unix.NsecToTimespec(int64(1000 * (1 + i%64)))
			rawNanosleep(&ts)
		}
	}, err
}

// loop calls one for n calls, or for a time, in batches of a thousand, or of a
// hundred with a rest after each.
func loop(one func(n int), n int, length, rest time.Duration) (calls int, wall, busy int64) {
	start, cpu := now(unix.CLOCK_MONOTONIC), now(unix.CLOCK_THREAD_CPUTIME_ID)
	if length == 0 {
		one(n)
		calls = n
	} else {
		batch := 1000
		if rest > 0 {
			batch = 100
		}
		for end := start + int64(length); now(unix.CLOCK_MONOTONIC) < end; calls += batch {
			one(batch)
			if rest > 0 {
				ts := unix.NsecToTimespec(int64(rest))
				rawNanosleep(&ts)
			}
		}
	}
	return calls, now(unix.CLOCK_MONOTONIC) - start, now(unix.CLOCK_THREAD_CPUTIME_ID) - cpu
}

func now(clock int32) int64 {
	var ts unix.Timespec
	unix.ClockGettime(clock, &ts)
	return ts.Nano()
}
