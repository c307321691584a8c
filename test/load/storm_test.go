package load

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// A storm of interrupts: timers, and packets over the loopback device, which
// are received in soft interrupts.
type storm struct {
	expired atomic.Int64 // by timers, as their owners counted
	packets atomic.Int64
	stop    chan struct{}
	wg      sync.WaitGroup
}

func newStorm(t *testing.T, timers int) *storm {
	t.Helper()
	s := &storm{stop: make(chan struct{})}
	for i := range timers {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		// An interval is armed again by the read: one read, one interrupt.
		every := unix.NsecToTimespec(int64(150_000 + 7_000*i))
		if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
			t.Fatal(err)
		}
		s.wg.Go(func() {
			defer unix.Close(fd)
			var b [8]byte
			for !s.stopped() {
				if n, err := unix.Read(fd, b[:]); n != 8 || err != nil || binary.NativeEndian.Uint64(b[:]) == 0 {
					continue
				}
				s.expired.Add(1)
			}
		})
	}
	from, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.wg.Go(func() {
		buf := make([]byte, 1000)
		for !s.stopped() {
			if _, err := from.WriteTo(buf, from.LocalAddr()); err == nil {
				from.SetReadDeadline(time.Now().Add(time.Second))
				if _, _, err := from.ReadFrom(buf); err == nil {
					s.packets.Add(1)
				}
			}
		}
		from.Close()
	})
	return s
}

func (s *storm) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

func (s *storm) end() {
	close(s.stop)
	s.wg.Wait()
}

// Records of half a kilobyte, full of strings, are interrupted by timers, soft
// interrupts and the profile provider, which record and count as well. Every
// record is whole, and what is missing is told, by what the workload, the
// timers and the sender of packets counted themselves.
func TestInterruptStorm(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckMachine(t)
	if _, err := os.Stat("/sys/kernel/tracing/events/irq/softirq_entry"); err != nil {
		t.Skip("SKIP-FEATURE: tracefs:", err)
	}
	const timers = 16
	tmr := address(t, "timerfd_tmrproc")
	pad := strings.Repeat("0123456789abcdef", 12)
	// Timers of this process only: known by the hrtimer's address.
	prog := fmt.Sprintf(`
		syscall::getppid:entry /execname == "syscalls"/ {
			this->s = strjoin(strjoin(execname, "/%[1]s/"), strjoin("%[1]s", probefunc));
			printf("rec %%s %%s %%d end\n", this->s, strjoin(this->s, probename), tid); }
		syscall::getppid:entry /execname == "syscalls"/ { @all["calls"] = count(); }
		sdt:timer::hrtimer_start /pid == %[2]d && args[1] == (void *)0x%[3]x/ { mine[args[0]] = 1; }
		sdt:timer::hrtimer_expire_entry /mine[args[0]]/ { printf("tmr %%s end\n", strjoin(probename, "%[1]s")); }
		sdt:timer::hrtimer_expire_entry /mine[args[0]]/ { @all["timers"] = count(); }
		sdt:irq::softirq_entry, sdt:irq::softirq_exit, sdt:irq::irq_handler_entry, sdt:irq_vectors::local_timer_entry {
			printf("irq %%s end\n", strjoin(probename, "%[1]s")); }
		sdt:net::netif_receive_skb /pid == %[2]d || substr(execname, 0, 10) == "ksoftirqd/"/ { @all["packets"] = count(); }
		profile-4999 { printf("pro %%s end\n", strjoin(probename, "%[1]s")); }
		sdt:irq::softirq_entry, sdt:irq::softirq_exit, sdt:irq::irq_handler_entry, sdt:irq_vectors::local_timer_entry,
		profile-4999 { @irq[probename] = count(); }
		`, pad, os.Getpid(), tmr)
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe"); err == nil {
		prog += `fbt::timerfd_tmrproc:entry /mine[args[0]]/ { @all["functions"] = count(); }
			fbt::timerfd_tmrproc:return { @all["returns"] = count(); }`
	}
	prog += ` END { printa("all %s %@d\n", @all); printa("irq %s %@d\n", @irq); }`
	tr := testkernel.Begin(t, "-q", "-x", "bufsize=16m", "-x", "strsize=512", "-x", "dynvarsize=4m", "-n", prog)
	s := newStorm(t, timers)
	out := run(t, testkernel.Trigger(t, "syscalls"), "-call", "getppid", "-n", strconv.Itoa(size(20_000, 1_000_000)), "-threads", "2")
	s.end()
	var res result
	res.Stdout, res.Stderr = tr.Interrupt()
	want := calls(t, out)
	long := "syscalls/" + pad + "/" + pad + "getppid"
	whole := map[string]*regexp.Regexp{
		"rec": regexp.MustCompile("^rec " + long + " " + long + `entry \d+ end$`),
		"tmr": regexp.MustCompile("^tmr hrtimer_expire_entry" + pad + " end$"),
		"irq": regexp.MustCompile("^irq (?:softirq_entry|softirq_exit|irq_handler_entry|local_timer_entry)" + pad + " end$"),
		"pro": regexp.MustCompile("^pro profile-4999" + pad + " end$"),
	}
	got, counted := map[string]int64{}, map[string]int64{}
	for line := range strings.Lines(res.Stdout) {
		line = strings.TrimSuffix(line, "\n")
		f := strings.Fields(line)
		switch {
		case line == "":
		case (f[0] == "all" || f[0] == "irq") && len(f) == 3 && f[2] != "end":
			n, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil {
				t.Fatalf("corrupt: %q", line)
			}
			counted[f[1]] += n
			if f[0] == "irq" {
				counted["irq"] += n
			}
		case whole[f[0]] != nil && whole[f[0]].MatchString(line):
			got[f[0]]++
		default:
			t.Fatalf("corrupt record: %q", line)
		}
	}
	// A firing counts in a clause of its own, which a full buffer cannot stop.
	var full int64
	for _, m := range regexp.MustCompile(`(?m)^dtrace: (\d+) drops? on CPU`).FindAllStringSubmatch(res.Stderr, -1) {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		full += n
	}
	skipped := res.drops() - full
	t.Logf("records %v, counted %v, full %d, skipped %d; %d calls, %d timers, %d packets",
		got, counted, full, skipped, want, s.expired.Load(), s.packets.Load())
	res.accounts(t, "calls recorded", got["rec"], want)
	records := got["rec"] + got["tmr"] + got["irq"] + got["pro"]
	if fired := counted["calls"] + counted["timers"] + counted["irq"]; records+full != fired {
		t.Errorf("%d records and %d drops of %d firings", records, full, fired)
	}
	// What the workload counted, and how many more there may be: the last
	// expiration of each timer may not have been read.
	for what, made := range map[string][2]int64{
		"calls": {want, 0}, "timers": {s.expired.Load(), timers}, "functions": {s.expired.Load(), timers},
		"packets": {s.packets.Load(), math.MaxInt32}, // those of others as well
	} {
		n, traced := counted[what]
		if what == "functions" && !traced {
			continue // the kernel's text cannot be patched
		}
		if n > made[0]+made[1] || n+skipped < made[0] {
			t.Errorf("%d %s counted, %d firings skipped; by their own count %d\n%s", n, what, skipped, made[0], res.Stderr)
		}
	}
	if s.expired.Load() == 0 || counted["softirq_entry"] == 0 || got["pro"] == 0 {
		t.Error("there was no storm")
	}
}

// run runs a program that must succeed and returns what it said.
func run(t *testing.T, path string, args ...string) string {
	t.Helper()
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
	return string(out)
}

// address is where the kernel has a symbol.
func address(t *testing.T, name string) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == name {
			a, err := strconv.ParseUint(f[0], 16, 64)
			if err != nil || a == 0 {
				t.Fatalf("%q: %v", line, err)
			}
			return a
		}
	}
	t.Skipf("SKIP-FEATURE: the kernel's function %s", name)
	return 0
}
