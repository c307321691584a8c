package load

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"godtrace"
	"godtrace/internal/testkernel"
)

// needFunctions skips where the kernel's functions cannot be probed.
func needFunctions(t *testing.T) {
	t.Helper()
	testkernel.RequireRoot(t)
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe"); err != nil {
		t.Skip("SKIP-FEATURE: kprobes (since 4.17 with CONFIG_KPROBE_EVENTS)")
	}
}

// haveMulti reports whether the kernel attaches many functions at once.
func haveMulti(t *testing.T) bool {
	t.Helper()
	r := trace(t, "-x", "fbt=multi", "-n", "BEGIN { exit(0); } fbt::vfs_read:entry {}")
	return !strings.Contains(r.Stderr, "this kernel has no ")
}

// rounds picks a number of rounds, each of which starts the tracer.
func rounds(short, long int) int {
	if os.Getenv("GODTRACE_LOAD") == "long" {
		return long
	}
	return short
}

// busy are the words for a load of calls on both CPUs. The CPUs of an emulated
// machine take turns of 100 ms unless they fall idle; a tracer that changes the
// kernel's text waits for every CPU again and again, so there they rest.
func busy(call string) []string {
	args := []string{"-call", call, "-for", "1h", "-threads", "2"}
	if _, vm := testkernel.InVM(); vm {
		args = append(args, "-rest", "10ms")
	}
	return args
}

// ways are the options for each way of probing a function that the kernel has.
func ways(t *testing.T) []string {
	w := []string{"fbt=fentry", "fbt=kprobe", "fbt=kprobe fbtreturn=insn"}
	if haveMulti(t) {
		w = append(w, "fbt=multi")
	}
	return w
}

// getppid is the function of the kernel that the system call of that name is.
const getppid = "__do_sys_getppid"

// onBusyFunction has getppid called all the time until the test ends, after
// which nothing of what was on it may be left. The result is the ways to it.
func onBusyFunction(t *testing.T) []string {
	t.Helper()
	needFunctions(t)
	testkernel.Shows(t, "0.18")
	testkernel.CheckMachine(t)
	testkernel.CheckKernel(t)
	ways := ways(t)
	t.Cleanup(background(t, busy("getppid")...))
	return ways
}

// Probes on a function go on and off while it is being called all the time by
// others: every round counts what its own program counted, in each way, and
// nothing comes after END.
func TestFunctionRounds(t *testing.T) {
	ways := onBusyFunction(t)
	workload := testkernel.Trigger(t, "syscalls") + " -call getppid -n 500"
	for i := range rounds(len(ways), 40) {
		way := ways[i%len(ways)]
		args := []string{"-q", "-c", workload, "-n", fmt.Sprintf(`
			fbt::%[1]s:entry /pid == $target/ { @e = count(); }
			fbt::%[1]s:return /pid == $target/ { @r = count(); }
			END { printa("entries %%@d\n", @e); printa("returns %%@d\n", @r); printf("END\n"); }`, getppid)}
		for o := range strings.FieldsSeq(way) {
			args = append(args, "-x", o)
		}
		r := trace(t, args...).ok(t)
		want := calls(t, r.Stdout)
		r.accounts(t, way+": entries", sumOf(r.Stdout, "entries"), want)
		r.accounts(t, way+": returns", sumOf(r.Stdout, "returns"), want)
		if !strings.HasSuffix(strings.TrimSpace(r.Stdout), "\nEND") {
			t.Errorf("%s: not the end:\n%s", way, r.Stdout)
		}
	}
}

// The same with many sessions of one process, two at a time, some with probes of
// other kinds on other functions; in the second half the kernel's function
// tracer and an event of its own are on the function as well.
func TestSessionRounds(t *testing.T) {
	ways := onBusyFunction(t)
	beside := []string{
		"",
		"fbt::ksys_read: { n++; }",
		"rawfbt::vfs_read: { n++; }",
		"kinst::vfs_read:0, kinst::vfs_write:0 { n++; }",
		"rawtp:sched:: { n++; } sdt:sched::sched_switch { n += args[1]; }",
	}
	half := rounds(len(ways), 1000) / 2
	var done, entries, returns, drops atomic.Int64
	for h := range 2 {
		if h == 1 {
			alsoTraced(t, getppid)
		}
		var wg sync.WaitGroup
		for w := range 2 {
			wg.Go(func() {
				for i := h*half + w; i < (h+1)*half; i += 2 {
					way := ways[i%len(ways)]
					e, r, d, err := sessionRound(way, beside[i%len(beside)])
					if err != nil {
						t.Errorf("round %d, %s: %v", i, way, err)
						continue
					}
					if e > 500 || r > 500 || e+d < 500 || r+d < 500 {
						t.Errorf("round %d, %s: %d entries, %d returns, %d drops; 500 calls were made", i, way, e, r, d)
					}
					entries.Add(e)
					returns.Add(r)
					drops.Add(d)
					if n := done.Add(1); n%50 == 0 || int(n) == 2*half {
						t.Logf("%d rounds of 500 calls: %d entries, %d returns, %d drops", n, entries.Load(), returns.Load(), drops.Load())
					}
				}
			})
		}
		wg.Wait()
	}
}

// sessionRound makes 500 calls under a session's eyes.
func sessionRound(way, beside string) (entries, returns, drops int64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := godtrace.Open()
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var out bytes.Buffer
	s.Output = &out
	s.Handlers.Drop = func(d godtrace.Drop) error { drops += int64(d.Count); return nil }
	for o := range strings.FieldsSeq("quiet=1 bufsize=64k aggsize=64k " + way) {
		name, value, _ := strings.Cut(o, "=")
		if err := s.SetOption(name, value); err != nil {
			return 0, 0, 0, err
		}
	}
	p, err := s.Compile(fmt.Sprintf(`
		fbt::%[1]s:entry /tid == %[2]d/ { @e = count(); }
		fbt::%[1]s:return /tid == %[2]d/ { @r = count(); }
		%[3]s
		END { printa("entries %%@d\n", @e); printa("returns %%@d\n", @r); }`, getppid, unix.Gettid(), beside), godtrace.CompileOptions{})
	if err != nil {
		return 0, 0, 0, err
	}
	if _, err := s.Exec(p); err != nil {
		return 0, 0, 0, err
	}
	if err := s.Go(); err != nil {
		return 0, 0, 0, err
	}
	for range 500 {
		unix.RawSyscallNoError(unix.SYS_GETPPID, 0, 0, 0)
	}
	s.Stop()
	for {
		st, err := s.Work()
		if err != nil {
			return 0, 0, 0, err
		}
		if st == godtrace.Done {
			return sumOf(out.String(), "entries"), sumOf(out.String(), "returns"), drops, nil
		}
	}
}

// alsoTraced has the kernel's function tracer and an event of its own on a
// function until the test ends.
func alsoTraced(t *testing.T, function string) {
	t.Helper()
	const root, inst = "/sys/kernel/tracing", "/sys/kernel/tracing/instances/godtrace_load"
	put := func(file, text string) {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString(text)
			f.Close()
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := os.Mkdir(inst, 0o755); err != nil {
		t.Fatal(err)
	}
	put(root+"/kprobe_events", "p:godtrace_load/call "+function+"\n")
	put(inst+"/set_ftrace_filter", function+"\n")
	put(inst+"/current_tracer", "function")
	put(inst+"/events/godtrace_load/call/enable", "1")
	t.Cleanup(func() {
		put(inst+"/events/godtrace_load/call/enable", "0")
		put(inst+"/current_tracer", "nop")
		put(root+"/kprobe_events", "-:godtrace_load/call\n")
		if err := os.Remove(inst); err != nil {
			t.Error(err)
		}
	})
}

// The entry and the return of every function of the kernel, or of a part of
// them where they have to be attached one by one, while programs run and files
// are written; then the machine is as it was.
func TestEveryFunction(t *testing.T) {
	needFunctions(t)
	functions := ""
	if haveMulti(t) {
		testkernel.Shows(t, "0.13", "1.12", "1.22")
	} else {
		functions = "vfs_*"
	}
	testkernel.CheckMachine(t)
	testkernel.CheckKernel(t)
	for i := range rounds(1, 5) {
		// The first time for long.
		length := time.Second
		if i == 0 {
			length = size(5*time.Second, time.Minute)
		}
		tr := testkernel.Begin(t, "-q", "-n", fmt.Sprintf(`fbt::%[1]s:entry { @e = count(); } fbt::%[1]s:return { @r = count(); }
			END { printa("entries %%@d\n", @e); printa("returns %%@d\n", @r); printf("END\n"); }`, functions))
		stop := background(t, busy("read")...)
		n := 0
		for end := time.Now().Add(length); time.Now().Before(end); n++ {
			if out, err := exec.Command(testkernel.Trigger(t, "syscalls"), "-n", "10").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			file := t.TempDir() + "/written"
			if err := os.WriteFile(file, make([]byte, 1<<16), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		out, stderr := tr.Interrupt()
		e, r := sumOf(out, "entries"), sumOf(out, "returns")
		if e < int64(5*n) || r < int64(5*n) || strings.Count(out, "END\n") != 1 {
			t.Errorf("%d programs were run under it\n%s%s", n, out, stderr)
		}
		t.Logf("%d entries, %d returns, %d programs run\n%s", e, r, n, stderr)
	}
}

// A tracer of kernel functions is killed at any moment: nothing is left of it.
func TestKillFunctions(t *testing.T) {
	needFunctions(t)
	testkernel.Shows(t, "1.12")
	testkernel.CheckMachine(t)
	testkernel.CheckKernel(t)
	multi := haveMulti(t)
	stop := background(t, busy("read")...)
	defer stop()
	rng := rand.New(rand.NewPCG(3, 4))
	descs := []string{"fbt::vfs_read:", "fbt::vfs_*:"}
	if multi {
		descs = append(descs, "fbt:::")
	}
	// As long as each takes to be killed anywhere between its start and work.
	until := make([]time.Duration, len(descs))
	for i, desc := range descs {
		begun := time.Now()
		testkernel.Begin(t, "-qn", desc+" { @[probefunc, execname] = count(); }").Interrupt()
		until[i] = time.Since(begun)
	}
	t.Log("from start to end: ", until)
	for i := range rounds(len(descs), 200) {
		which := 0 // mostly; those with many functions take long
		switch {
		case i%10 == 1:
			which = 1
		case i%40 == 2:
			which = len(descs) - 1
		}
		cmd := exec.Command(testkernel.Godtrace(t), "-qn", descs[which]+` { @[probefunc, execname] = count(); } tick-10ms { printa(@); }`)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(until[which]))))
		cmd.Process.Kill()
		cmd.Wait()
		if (i+1)%50 == 0 {
			t.Logf("%d kills", i+1)
		}
	}
	// What it was on works.
	out, err := exec.Command(testkernel.Trigger(t, "syscalls"), "-call", "read", "-n", "1000").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "calls 1000 ") {
		t.Errorf("%v: %s", err, out)
	}
}

// Tracers that come and go without a probe of the kernel's text.
func TestStarts(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.12")
	testkernel.CheckMachine(t)
	before := available(t)
	n := rounds(10, 300)
	for i := range n {
		if out := trace(t, "-qn", fmt.Sprintf("BEGIN { trace(%d); exit(0); }", i)).ok(t).Stdout; strings.TrimSpace(out) != fmt.Sprint(i) {
			t.Fatalf("round %d: %q", i, out)
		}
	}
	// Each holds 8 MB of buffers, and more.
	if lost := before - available(t); n >= 100 && lost > 400<<10 {
		t.Errorf("%d KiB less memory available after %d rounds", lost, n)
	}
}

// available is the machine's memory for new programs, in KiB.
func available(t *testing.T) (kb int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "MemAvailable: %d", &kb); err == nil {
			return kb
		}
	}
	t.Fatal("/proc/meminfo has no MemAvailable")
	return 0
}
