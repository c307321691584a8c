//go:build amd64

package rows

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
	"godtrace/internal/tracefs"
)

// needKprobes skips where the kernel's text cannot be patched.
func needKprobes(t *testing.T) {
	t.Helper()
	testkernel.RequireRoot(t)
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe"); err != nil {
		t.Skip("SKIP-FEATURE: kprobes (since 4.17 with CONFIG_KPROBE_EVENTS)")
	}
}

// reader reads n times.
func reader(t *testing.T, name string, n int) string {
	return binaryFile(t, name, append([]call{{unix.SYS_OPEN, "/dev/zero", 0}}, times(n, call{unix.SYS_READ, 3, 0x400000, 1})...)...)
}

// seeker seeks good times with success and bad times without: two ways through
// ksys_lseek.
func seeker(t *testing.T, name string, good, bad int) string {
	calls := []call{{unix.SYS_OPEN, "/dev/zero", 0}}
	calls = append(calls, times(good, call{unix.SYS_LSEEK, 3, 0, 0})...)
	calls = append(calls, times(bad, call{unix.SYS_LSEEK, 99, 0, 0})...)
	return binaryFile(t, name, calls...)
}

func taint(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/kernel/tainted")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// A kernel function fires in the process that enters it, as often as it does,
// however it is attached.
func TestKernelFunction(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "0.6", "0.8")
	before := taint(t)
	for _, engine := range []string{"auto", "fentry", "multi", "kprobe"} {
		t.Run(engine, func(t *testing.T) {
			prog := reader(t, "reader", 500)
			probe := `fbt::vfs_read:entry/execname=="reader"/{@["entry"]=count(); @size["size"]=sum(args[2]);}
				fbt::vfs_read:return/execname=="reader"/{@["return"]=count(); @size["read"]=sum(args[1]);}
				syscall::read:entry/execname=="reader"/{@["call"]=count();}`
			if engine == "multi" && missing(t, "-x", "fbt=multi", "-n", "fbt::vfs_read:entry{}") {
				t.Skip("SKIP-FEATURE: multi links of kprobes (since 5.18 with CONFIG_FPROBE)")
			}
			out := whole(t, func() (string, string) {
				tr := begin(t, "-q", "-x", "fbt="+engine, "-n", probe)
				run(t, prog)
				return tr.interrupt()
			})
			for _, key := range []string{"entry", "return", "call", "size", "read"} {
				want := []string{fmt.Sprintf("%s *500\n", key)}
				if match(`(?m)^ *`+want[0], out) == nil {
					t.Errorf("%s: no 500 of %s in\n%s", engine, key, out)
				}
			}
		})
	}
	if after := taint(t); after != before {
		t.Errorf("the kernel's taint was %s and is %s", before, after)
	}
}

// The caller of a function is what the call left on the stack, at its entry and
// when it has returned, whatever the kernel's walk begins with.
func TestCaller(t *testing.T) {
	needKprobes(t)
	prog := reader(t, "reader", 200)
	const both = `kinst::vfs_read:0x0/execname=="reader"/{self->from = *(uint64_t *)regs[R_RSP];}
		fbt::vfs_read:entry/execname=="reader"/{@["entry", caller == self->from] = count();}
		fbt::vfs_read:return/self->from/{@["return", caller == self->from] = count();}`
	for _, engine := range []string{"fentry", "multi", "kprobe", "insn"} {
		flags := []string{"-x", "fbt=" + engine}
		if engine == "insn" {
			flags = []string{"-x", "fbtreturn=insn"}
		}
		if engine == "multi" && missing(t, "-x", "fbt=multi", "-n", "fbt::vfs_read:entry{}") {
			continue // TestKernelFunction says so
		}
		for _, side := range []string{"both", "return"} {
			t.Run(engine+" "+side, func(t *testing.T) {
				d, sides := both, []string{"entry", "return"}
				if side == "return" {
					d, sides = strings.Replace(both, "fbt::vfs_read:entry", "syscall::read:entry", 1), sides[1:]
				}
				out := whole(t, func() (string, string) {
					tr := begin(t, append(flags, "-q", "-n", d)...)
					run(t, prog)
					return tr.interrupt()
				})
				for _, s := range sides {
					if match(`(?m)^ *`+s+` +1 +200$`, out) == nil {
						t.Errorf("%s: not 200 times the caller:\n%s", s, out)
					}
				}
			})
		}
	}
}

// missing reports whether the command says that the kernel lacks something.
func missing(t *testing.T, args ...string) bool {
	t.Helper()
	tr := start(t, append([]string{"-n", "BEGIN{exit(0);}"}, args...)...)
	tr.cmd.Wait()
	return strings.Contains(tr.err.String(), "this kernel has no ")
}

func TestMechanism(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "0.8")
	for engine, want := range map[string]string{"fentry": "fentry fexit", "kprobe": "kprobe kretprobe"} {
		out, _ := trace(t, "-x", "fbt="+engine, "-lvn", "fbt:vmlinux:vfs_read:")
		var got []string
		for _, m := range match(`(?m)^\tmechanism: (.*)$`, out) {
			got = append(got, m[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", engine, got, want)
		}
	}
}

// Returns by instruction: both ways out of a function, each with its offset.
func TestReturnOffsets(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "0.9", "4.14")
	// do_prlimit leaves early where there is no such limit.
	prog := binaryFile(t, "limiter", append(times(40, call{unix.SYS_PRLIMIT64, 0, unix.RLIMIT_FSIZE, 0, 0x400000}),
		times(30, call{unix.SYS_PRLIMIT64, 0, 99, 0, 0})...)...)
	out := whole(t, func() (string, string) {
		tr := begin(t, "-q", "-x", "fbtreturn=insn", "-n",
			`fbt::do_prlimit:return/execname=="limiter"/{@[arg0, args[1]]=count();}`)
		run(t, prog)
		return tr.interrupt()
	})
	at := map[string]string{} // result and count → offset
	for _, m := range match(`(?m)^ +(\d+) +(-?\d+) +(\d+)$`, out) {
		at[m[2]+" "+m[3]] = m[1]
	}
	good, bad := at["0 40"], at["-22 30"] // -EINVAL
	if good == "" || bad == "" || good == bad || good == "0" || bad == "0" {
		t.Errorf("want 40 returns of 0 and 30 of -22, each at an offset of its own:\n%s", out)
	}
}

// A tail call is no return: the user is told.
func TestTailCall(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "4.14")
	tr := begin(t, "-x", "fbtreturn=insn", "-n", `fbt::vfs_kern_mount:return{}`)
	_, stderr := tr.interrupt()
	if !strings.Contains(stderr, "tail call at +0x") {
		t.Skipf("no tail call in vfs_kern_mount of this kernel: %s", stderr)
	}
}

func TestInstructions(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "1.21", "1.24", "1.27", "1.29")
	prog := seeker(t, "seeker", 40, 30)
	out := whole(t, func() (string, string) {
		tr := begin(t, "-q", "-n", `instr::ksys_lseek-j*:/execname=="seeker"/{@[probename, arg1]=count(); @at[probename, arg0, arg2]=count();}`)
		run(t, prog)
		return tr.interrupt()
	})
	// Per address: not taken and taken.
	sites := map[string][2]int{}
	for _, m := range match(`(?m)^ +(0x[0-9a-f]+) +([01]) +(\d+)$`, out) {
		n, _ := strconv.Atoi(m[3])
		s := sites[m[1]]
		s[m[2][0]-'0'] += n
		sites[m[1]] = s
	}
	// The jump on the result of looking up the descriptor runs in every call.
	every := 0
	for _, s := range sites {
		if s[0]+s[1] == 70 {
			every++
		}
		if s[0]+s[1] > 70 {
			t.Errorf("%d executions of one jump, want at most 70", s[0]+s[1])
		}
	}
	split := slices.ContainsFunc(values(sites), func(s [2]int) bool { return s == [2]int{40, 30} || s == [2]int{30, 40} })
	if every == 0 || !split {
		t.Errorf("no jump was executed 70 times, once each way 40 and 30 times:\n%s", out)
	}
	for _, m := range match(`(?m)^ +(0x[0-9a-f]+) +(-\d+) +(-?\d+) +\d+$`, out) {
		addr, _ := strconv.ParseUint(m[1], 0, 64)
		arg0, _ := strconv.ParseInt(m[2], 10, 64)
		target, _ := strconv.ParseInt(m[3], 10, 64)
		if uint64(arg0) != addr || target == 0 || uint64(target)-addr+1<<20 > 1<<21 {
			t.Errorf("jump at %s: arg0 %x, arg2 %x", m[1], uint64(arg0), uint64(target))
		}
	}

	out, _ = trace(t, "-n", `instr::ksys_lseek-call*:{exit(0);}`, "-c", seeker(t, "again", 1, 0))
	if match(`(?m)^ +\d+ +\d+ +ksys_lseek-call:0x[0-9a-f]{16} *$`, out) == nil {
		t.Errorf("the default action printed\n%s", out)
	}
}

func values[K comparable, V any](m map[K]V) (out []V) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// At the first byte of a function the word on top of the stack is the address
// that it returns to.
func TestInstructionRegisters(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "1.36")
	prog := reader(t, "reader", 20)
	out := whole(t, func() (string, string) {
		tr := begin(t, "-q", "-n", `kinst::vfs_read:0x0/execname=="reader"/{@[*(uint64_t *)regs[R_RSP] == caller]=count(); @who[func(*(uintptr_t *)regs[R_RSP])]=count();}`)
		run(t, prog)
		return tr.interrupt()
	})
	if match(`(?m)^ +1 +20$`, out) == nil || match("vmlinux`\\w*read\\w* +20", out) == nil {
		t.Errorf("the word at the stack pointer is not the caller:\n%s", out)
	}
	out = startAndFail(t, "-n", "kinst::vfs_read:0x1{}")
	if !strings.Contains(out, "no instruction begins at offset 0x1") {
		t.Errorf("an offset within an instruction: %s", out)
	}
}

// startAndFail runs a tracer that must not succeed and returns its complaint.
func startAndFail(t *testing.T, args ...string) string {
	t.Helper()
	tr := start(t, args...)
	if err := tr.cmd.Wait(); err == nil {
		t.Errorf("%q: succeeded", args)
	}
	return tr.err.String()
}

// Every function of the kernel, with work going on.
func TestAllFunctions(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "0.13", "0.15", "1.22", "1.23", "3.18")
	if missing(t, "-x", "fbt=multi", "-n", "fbt::vfs_read:entry{}") {
		t.Skip("SKIP-FEATURE: multi links of kprobes (since 5.18 with CONFIG_FPROBE)")
	}
	before := taint(t)
	tr := begin(t, "-n", `fbt:::entry{@=count();} END{printf("the end\n");}`)
	run(t, reader(t, "reader", 200))
	out, stderr := tr.interrupt()
	m := match(`(?m)^dtrace: description 'fbt:::entry' matched (\d+) probes$`, stderr)
	if len(m) != 1 || len(m[0][1]) < 5 {
		t.Errorf("no count of ten thousands of probes in %q", stderr)
	}
	if n := strings.Count(out, "the end"); n != 1 {
		t.Errorf("END fired %d times", n)
	}
	sum := match(`(?m)^ +(\d+)$`, out)
	if len(sum) != 1 || len(sum[0][1]) < 4 {
		t.Errorf("no sum of thousands in\n%s", out)
	}
	if after := taint(t); after != before {
		t.Errorf("the kernel's taint was %s and is %s", before, after)
	}
	left(t)
}

// left fails the test if probes are left on kernel functions.
func left(t *testing.T) {
	t.Helper()
	for _, f := range []string{"/sys/kernel/tracing/enabled_functions", "/sys/kernel/debug/kprobes/list"} {
		if b, err := os.ReadFile(f); err == nil && len(b) > 0 {
			t.Errorf("%s: %s", f, b)
		}
	}
}

// All tracers on one function: two of ours, the function tracer, a kprobe event
// in the trace and counted by perf, and bpftrace where there is one.
func TestTogether(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "0.14", "4.12")
	testkernel.CheckKernel(t)
	root := "/sys/kernel/tracing"
	inst := filepath.Join(root, "instances", "godtrace_rows")
	if err := os.Mkdir(inst, 0o755); err != nil {
		t.Skip("SKIP-FEATURE: instances of tracefs:", err)
	}
	put := func(file, text string) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	defer os.Remove(inst)
	put(root+"/kprobe_events", "p:godtrace_rows/reads vfs_read\n")
	defer func() {
		put(inst+"/events/godtrace_rows/reads/enable", "0")
		put(inst+"/current_tracer", "nop")
		put(root+"/kprobe_events", "-:godtrace_rows/reads\n")
	}()
	put(inst+"/set_ftrace_filter", "vfs_read\n")
	put(inst+"/current_tracer", "function")
	put(inst+"/events/godtrace_rows/reads/enable", "1")
	prog := reader(t, "reader", 50)
	text := `fbt::vfs_read:entry/execname=="reader"/{@=count();}`
	b, err := os.ReadFile(inst + "/events/godtrace_rows/reads/id")
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	perf := perfCounter(t, id, `comm == "reader"`)
	other := bpftrace(t, `fentry:vmlinux:vfs_read /comm == "reader"/ { @ = count(); }`)
	one := begin(t, "-q", "-x", "fbt=fentry", "-n", text)
	two := begin(t, "-q", "-x", "fbt=kprobe", "-n", text)
	run(t, prog)
	if n := perf(); n != 50 {
		t.Errorf("perf counted %d, want 50", n)
	}
	if other != nil {
		if out := other(); match(`(?m)^@: 50$`, out) == nil {
			t.Errorf("bpftrace: not 50 in\n%s", out)
		}
	}
	for _, tr := range []*tracer{one, two} {
		out, _ := tr.interrupt()
		if match(`(?m)^ +50$`, out) == nil {
			t.Errorf("not 50 in\n%s", out)
		}
	}
	put(inst+"/tracing_on", "0") // reading calls vfs_read
	if b, err = os.ReadFile(inst + "/trace"); err != nil {
		t.Fatal(err)
	}
	calls, events := 0, 0
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "reader-") {
			if strings.Contains(line, "reads:") {
				events++
			} else if strings.Contains(line, "vfs_read <-") {
				calls++
			}
		}
	}
	if calls != 50 || events != 50 {
		t.Errorf("the function tracer saw %d calls, the event %d; want 50", calls, events)
	}
}

// On and off again, with the function being called all the time.
func TestFbtRounds(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "0.18", "1.12")
	rounds := 20
	if _, vm := testkernel.InVM(); vm {
		rounds = 5
	}
	for range rounds {
		prog := reader(t, "reader", 100)
		out := whole(t, func() (string, string) {
			return trace(t, "-q", "-n", `fbt::vfs_read:entry/pid==$target/{@a=count();} syscall::read:entry/pid==$target/{@b=count();} END{printa("%@d %@d\n",@a,@b);}`, "-c", prog)
		})
		if !strings.HasPrefix(strings.TrimSpace(out), "100 100") {
			t.Fatalf("want 100 and 100:\n%s", out)
		}
	}
	left(t)
}

// The fields of a tracepoint's record are its arguments; those of the raw one
// are the kernel's own.
func TestTracepointArguments(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.4", "1.8")
	if _, err := tracefs.Events("task"); err != nil {
		t.Skip("SKIP-FEATURE: tracefs:", err)
	}
	prog := binaryFile(t, "namer", times(7, call{unix.SYS_PRCTL, unix.PR_SET_NAME, "another name"})...)
	out := whole(t, func() (string, string) {
		tr := begin(t, "-q", "-n", `
		sdt:task::task_rename/stringof(args[2]) == "another name"/{@["sdt", execname, args[0] == pid && arg0 == pid && arg9 == 0]=count();}
		rawtp:task::task_rename/stringof(args[1]) == "another name"/{@["rawtp", execname, args[0]->pid == pid]=count();}`)
		run(t, prog)
		return tr.interrupt()
	})
	for _, p := range []string{"sdt", "rawtp"} {
		// The first time it has its old name.
		if match(`(?m)^ +`+p+` +namer +1 +1$`, out) == nil || match(`(?m)^ +`+p+` +another name +1 +6$`, out) == nil {
			t.Errorf("%s: not once from namer and 6 times from its new name:\n%s", p, out)
		}
	}
}

// Where a return is remembered in a pool, many sleepers in one function empty
// it: what is missed is told. A trampoline has no pool.
func TestMissedReturns(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "4.13")
	// struct timespec: 1 s.
	prog := binaryFile(t, "sleeper", call{unix.SYS_NANOSLEEP, "\x01" + strings.Repeat("\x00", 15), 0})
	const n = 40
	for _, engine := range []string{"fentry", "multi", "kprobe"} {
		if engine == "multi" && missing(t, "-x", "fbt=multi", "-n", "fbt::vfs_read:entry{}") {
			continue
		}
		tr := begin(t, "-q", "-x", "fbt="+engine, "-n", `fbt::hrtimer_nanosleep:return/execname=="sleeper"/{@["returns"]=count();}`)
		var all []*exec.Cmd
		for range n {
			cmd := exec.Command(prog)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			all = append(all, cmd)
		}
		for _, cmd := range all {
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
		out, stderr := tr.interrupt()
		seen, missed := 0, 0
		if m := match(`returns +(\d+)`, out); m != nil {
			seen, _ = strconv.Atoi(m[0][1])
		}
		for _, m := range match(`(?m)^dtrace: (\d+) returns? missed by the kernel`, stderr) {
			k, _ := strconv.Atoi(m[1])
			missed += k
		}
		t.Logf("%s: %d returns seen, %d missed", engine, seen, missed)
		// Since 7.0 programs are preempted, and the kernel skips and counts what
		// fires meanwhile.
		skipped := 0
		for _, m := range match(`(?m)^dtrace: (\d+) firings? skipped by the kernel`, stderr) {
			k, _ := strconv.Atoi(m[1])
			skipped += k
		}
		if engine == "fentry" && (seen != n && skipped == 0 || missed != 0) {
			t.Errorf("%s: want %d and none", engine, n)
		}
		// Before 6.7 the kernel does not tell.
		if old := match(`^[0-5]\.|^6\.[0-6]\.`, release(t)) != nil; !old && seen+missed+skipped < n {
			t.Errorf("%s: %d returns are not accounted for", engine, n-seen-missed-skipped)
		}
	}
}

func release(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Probing what probes are made of: nothing hangs, and what is skipped is told.
func TestOwnFunctions(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "3.18")
	tr := begin(t, "-n", `fbt::bpf_map_*:entry{@[probefunc]=count();} syscall::getpid:entry{@own["getpid"]=count();}`)
	run(t, binaryFile(t, "pids", times(50, call{unix.SYS_GETPID})...))
	out, stderr := tr.interrupt()
	if match(`(?m)^ +getpid +\d+$`, out) == nil {
		t.Errorf("the tracer saw nothing else:\n%s%s", out, stderr)
	}
}

// A module that is loaded while tracing goes on is traced, can be unloaded
// meanwhile, and loaded again.
func TestModuleComesAndGoes(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "0.11")
	if _, ok := testkernel.InVM(); !ok {
		t.Skip("SKIP-HERE: loads and unloads a module: in the matrix only")
	}
	if b, err := os.ReadFile("/proc/modules"); err != nil || !strings.Contains(string(b), "dummy ") {
		t.Skip("SKIP-FEATURE: the module dummy")
	}
	defer exec.Command("modprobe", "dummy").Run()
	run(t, "/bin/rmmod", "dummy")
	// The symbol table is read before the module is there.
	tr := begin(t, "-Z", "-x", "switchrate=20ms", "-n", "BEGIN{sym((uintptr_t)&`init_task);} fbt:dummy::entry{@[probefunc]=count();} fbt:dummy:dummy_get_stats64:entry{stack(1);}")
	for range 2 {
		run(t, "/bin/modprobe", "dummy")
		// Reading the list of devices asks the driver for its counters.
		fired := func() int { return strings.Count(tr.out.String(), "dummy_get_stats64:entry") }
		before := fired()
		for end := time.Now().Add(30 * time.Second); fired() < before+10; time.Sleep(20 * time.Millisecond) {
			if b, err := os.ReadFile("/proc/net/dev"); err != nil || !strings.Contains(string(b), "dummy0") {
				t.Fatalf("no device dummy0: %v\n%s", err, b)
			}
			if time.Now().After(end) {
				t.Fatalf("not traced:\n%s%s", tr.out, tr.err)
			}
		}
		// While a probe is being attached the kernel holds the module.
		var out []byte
		err := errors.New("not tried")
		for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			out, err = exec.Command("/bin/rmmod", "dummy").CombinedOutput()
		}
		if err != nil {
			t.Fatalf("rmmod: %v: %s", err, out)
		}
		time.Sleep(time.Second) // all that fired is printed
	}
	out, stderr := tr.interrupt()
	n := 0
	for _, m := range match(`(?m)^ +dummy_get_stats64 +(\d+)$`, out) {
		k, _ := strconv.Atoi(m[1])
		n += k
	}
	if frames := match("dummy`dummy_get_stats64", out); len(frames) != n {
		t.Errorf("of %d stacks %d have a name\n%s", n, len(frames), out)
	}
	if n < 20 {
		t.Errorf("dummy_get_stats64 fired %d times, was called 20 times and more\n%s%s", n, out, stderr)
	}
}

// A probe changes the function it is on, and nothing is left of it.
func TestSelfcheck(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "3.21")
	if _, err := os.Stat("/proc/kcore"); err != nil {
		t.Skip("SKIP-FEATURE: /proc/kcore")
	}
	out, err := exec.Command(testkernel.Godtrace(t), "selfcheck", "--text", "vfs_read").CombinedOutput()
	if err != nil || match(`(?m)^fentry +\+0x[0-9a-f]+: .* -> `, string(out)) == nil || strings.Contains(string(out), "NOT") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The places that count a variable fire as often as it counts.
func TestCounter(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "1.11")
	forks := func() int {
		b, err := os.ReadFile("/proc/stat")
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(match(`(?m)^processes (\d+)$`, string(b))[0][1])
		return n
	}
	prog := binaryFile(t, "idle")
	tr := begin(t, "-q", "-n", "counter::total_forks:{@=count();}")
	first := forks()
	for range 20 {
		run(t, prog)
	}
	least := forks() - first
	out, stderr := tr.interrupt()
	most := forks() - first
	lost(t, stderr)
	m := match(`(?m)^ +(\d+)$`, out)
	if len(m) != 1 {
		t.Fatalf("no count in %q", out)
	}
	if n, _ := strconv.Atoi(m[0][1]); n < least || n > most || least < 20 {
		t.Errorf("total_forks counted %d times, by /proc/stat %d to %d", n, least, most)
	}
}

// Where another tracer has put breakpoints the function is still what it is:
// its instructions are the same, and its returns are found.
func TestBreakpointsOfOthers(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "0.10", "0.14")
	testkernel.CheckKernel(t)
	list := []string{"-ln", "kinst::ksys_read:"}
	before, _ := trace(t, list...)
	text := `fbt::ksys_read:return/execname=="reader"/{@=count();}`
	prog := reader(t, "reader", 50)
	var some []string
	for i, m := range match(`ksys_read (0x[0-9a-f]+)\n`, before) {
		if i%8 == 3 {
			some = append(some, "kinst::ksys_read:"+m[1])
		}
	}
	if len(some) == 0 {
		t.Fatalf("no instructions in\n%s", before)
	}
	tracers := []*tracer{begin(t, "-q", "-n", strings.Join(some, ",")+"{@=count();}")}
	for range 2 {
		tracers = append(tracers, begin(t, "-q", "-x", "fbt=kprobe", "-x", "fbtreturn=insn", "-n", text))
	}
	during, _ := trace(t, list...)
	if during != before {
		t.Errorf("with breakpoints on it:\n%s\nwithout:\n%s", during, before)
	}
	run(t, prog)
	for i, tr := range tracers {
		out, _ := tr.interrupt()
		if i > 0 && match(`(?m)^ +50$`, out) == nil {
			t.Errorf("tracer %d: not 50 in\n%s", i, out)
		}
	}
}

// Of a function that has no probe it is said what could be meant, or why.
func TestFunctionHints(t *testing.T) {
	needKprobes(t)
	want := map[string]string{
		"fbt::vfs_raed:entry":         "did you mean vfs_read?",
		"fbt::no_body_calls_it:entry": "may have inlined it",
	}
	b, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range match(`(?m)^[0-9a-f]+ t ((\w+)\.isra\.0)$`, string(b)) {
		if match(`(?m) [tT] `+m[2]+`(\t.*)?$`, string(b)) == nil {
			want["fbt::"+m[2]+":return"] = "the compiler made " + m[2] + "."
			break
		}
	}
	for desc, hint := range want {
		r := testkernel.Trace(t, "-n", desc)
		if r.Err == nil || !strings.Contains(r.Stderr, "hint: ") || !strings.Contains(r.Stderr, hint) {
			t.Errorf("%s: %v, want %q in\n%s", desc, r.Err, hint, r.Stderr)
		}
	}
}

// The bytes at a probe are those of the function.
func TestOpcode(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "1.28")
	out, _ := trace(t, "-x", "opcode", "-lvn", "kinst:vmlinux:vfs_read:0x0")
	m := match(`(?m)^\topcode: ([0-9a-f ]+)$`, out)
	if len(m) != 1 {
		t.Fatalf("no opcode in\n%s", out)
	}
	// endbr64 where the kernel is built for indirect branch tracking, what boot
	// makes of it where nothing calls the function by a pointer, or the function
	// tracer's place.
	if !slices.Contains([]string{"f3 0f 1e fa", "66 0f 1f 00", "0f 1f 40 d6", "0f 1f 44 00 00"}, m[0][1]) {
		t.Errorf("the first instruction of vfs_read is %s", m[0][1])
	}
	other, _ := trace(t, "-x", "opcode", "-lvn", "fbt:vmlinux:vfs_read:entry")
	if n := match(`(?m)^\topcode: ([0-9a-f ]+)$`, other); len(n) != 1 || n[0][1] != m[0][1] {
		t.Errorf("fbt: %v, kinst: %s", n, m[0][1])
	}
}

// ERROR has its own arguments, whatever probe the fault was in.
func TestFaultInTracepoint(t *testing.T) {
	testkernel.RequireRoot(t)
	if _, err := tracefs.Events("task"); err != nil {
		t.Skip("SKIP-FEATURE: tracefs:", err)
	}
	tr := begin(t, "-q", "-n", `
	sdt:task::task_rename/execname == "faulter"/{trace(args[0] + *(int *)8);}
	ERROR{printf("fault %d at %x\n", arg4, arg5); exit(0);}`)
	run(t, binaryFile(t, "faulter", call{unix.SYS_PRCTL, unix.PR_SET_NAME, "another name"}))
	if r := tr.Wait(); !strings.Contains(r.Stdout, "fault 1 at 8\n") { // DTRACEFLT_BADADDR
		t.Errorf("no fault 1 (invalid address) at 8:\n%s%s", r.Stdout, r.Stderr)
	}
}
