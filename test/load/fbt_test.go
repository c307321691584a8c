package load

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

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

// Probes on a function go on and off while it is being called all the time by
// others: every round counts what its own program counted, by each engine, and
// nothing comes after END.
func TestFunctionRounds(t *testing.T) {
	needFunctions(t)
	testkernel.Shows(t, "0.18")
	testkernel.CheckMachine(t)
	testkernel.CheckKernel(t)
	engines := []string{"fentry", "kprobe"}
	if haveMulti(t) {
		engines = append(engines, "multi")
	}
	stop := background(t, "-call", "getppid", "-for", "1h", "-threads", "2")
	defer stop()
	workload := testkernel.Trigger(t, "syscalls") + " -call getppid -n 500"
	for i := range rounds(len(engines), 1000) {
		engine := engines[i%len(engines)]
		r := trace(t, "-q", "-x", "fbt="+engine, "-n", `
			fbt::__do_sys_getppid:entry /pid == $target/ { @e = count(); }
			fbt::__do_sys_getppid:return /pid == $target/ { @r = count(); }
			END { printa("entries %@d\n", @e); printa("returns %@d\n", @r); printf("END\n"); }`, "-c", workload).ok(t)
		want := calls(t, r.Stdout)
		r.accounts(t, engine+": entries", sumOf(r.Stdout, "entries"), want)
		r.accounts(t, engine+": returns", sumOf(r.Stdout, "returns"), want)
		if !strings.HasSuffix(strings.TrimSpace(r.Stdout), "\nEND") {
			t.Errorf("%s: not the end:\n%s", engine, r.Stdout)
		}
	}
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
	for i := range rounds(1, 50) {
		// The first time for long.
		length := time.Second
		if i == 0 {
			length = size(5*time.Second, time.Minute)
		}
		tr := testkernel.Begin(t, "-q", "-n", fmt.Sprintf(`fbt::%[1]s:entry { @e = count(); } fbt::%[1]s:return { @r = count(); }
			END { printa("entries %%@d\n", @e); printa("returns %%@d\n", @r); printf("END\n"); }`, functions))
		stop := background(t, "-call", "read", "-for", "1h", "-threads", "2")
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
	stop := background(t, "-call", "read", "-for", "1h", "-threads", "2")
	defer stop()
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range rounds(3, 200) {
		desc := []string{"fbt::vfs_read:", "fbt::vfs_*:", "fbt:::"}[i%3]
		if desc == "fbt:::" && !multi {
			continue
		}
		cmd := exec.Command(testkernel.Godtrace(t), "-qn", desc+` { @[probefunc, execname] = count(); } tick-10ms { printa(@); }`)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		most := 300
		if _, vm := testkernel.InVM(); vm {
			most = 3000
		}
		time.Sleep(time.Duration(rng.IntN(most)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
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
