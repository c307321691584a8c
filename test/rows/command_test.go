//go:build amd64

package rows

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// The system calls of a command, with the default action: a line for each
// firing under the heading, the last ones those with which it ends.
func TestCommandsCalls(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.20", "3.11")
	prog := binaryFile(t, "sleeper",
		call{unix.SYS_GETPPID},
		// struct timespec: 10 ms.
		call{unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, "\x00\x00\x00\x00\x00\x00\x00\x00\x80\x96\x98\x00\x00\x00\x00\x00", 0})
	out := whole(t, func() (string, string) {
		return trace(t, "-n", "syscall:::/pid == $target/{}", "-c", prog)
	})
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if want := "CPU     ID                    FUNCTION:NAME"; lines[0] != want {
		t.Errorf("heading %q, want %q", lines[0], want)
	}
	var got []string
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("line %q", line)
		}
		// dtrace(1): "%3d %6d %32s ", function and name joined by a colon.
		if want := fmt.Sprintf("%3s %6s %32s ", f[0], f[1], f[2]); line != want {
			t.Errorf("line %q, want %q", line, want)
		}
		got = append(got, f[2])
	}
	// Nothing comes before the exec.
	want := []string{"execve:entry", "execve:return", "getppid:entry", "getppid:return", "clock_nanosleep:entry", "clock_nanosleep:return", "exit_group:entry"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// On Ctrl-C a created process is killed; a grabbed one runs on.
func TestInterruptedTarget(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.20")
	// struct timespec: 1000 s.
	sleep := call{unix.SYS_NANOSLEEP, "\xe8\x03" + strings.Repeat("\x00", 14), 0}
	prog := binaryFile(t, "sleeper", sleep)
	const script = `syscall::nanosleep:entry/pid == $target/{ printf("%d asleep\n", pid); } tick-50ms{ printf("%d there\n", $target); }`

	tr := begin(t, "-q", "-n", script, "-c", prog)
	var pid int
	for pid == 0 {
		if m := match(`(?m)^(\d+) asleep$`, tr.out.String()); m != nil {
			fmt.Sscan(m[0][1], &pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
	tr.interrupt()
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("the created process after the end: %v, want %v", err, unix.ESRCH)
	}

	grabbed := exec.Command(prog)
	if err := grabbed.Start(); err != nil {
		t.Fatal(err)
	}
	defer grabbed.Wait()
	defer grabbed.Process.Kill()
	tr = begin(t, "-q", "-n", script, "-p", fmt.Sprint(grabbed.Process.Pid))
	for !strings.Contains(tr.out.String(), fmt.Sprintf("%d there", grabbed.Process.Pid)) {
		time.Sleep(5 * time.Millisecond)
	}
	tr.interrupt()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", grabbed.Process.Pid))
	if err != nil || !strings.Contains(string(stat), ") S ") {
		t.Errorf("the grabbed process is not asleep: %s %v", stat, err)
	}
}

// The kinds of instrumentation are listed with their probes.
func TestProviders(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "3.7")
	out, stderr := trace(t, "-l")
	if stderr != "" {
		t.Errorf("said %q", stderr)
	}
	found := map[string]int{}
	for i, line := range strings.Split(strings.TrimRight(out, "\n"), "\n") {
		if i == 0 {
			if want := "   ID   PROVIDER            MODULE                          FUNCTION NAME"; line != want {
				t.Errorf("heading %q, want %q", line, want)
			}
			continue
		}
		found[strings.Fields(line)[1]]++
	}
	for _, p := range []string{"dtrace", "syscall", "profile", "sdt", "rawtp"} {
		if found[p] == 0 {
			t.Errorf("no probes of %s", p)
		}
	}
	if found["dtrace"] != 3 {
		t.Errorf("%d probes of dtrace, want BEGIN, END and ERROR", found["dtrace"])
	}
	if !missing(t, "-e", "-n", "fbt::vfs_read:entry") && found["fbt"] < 10_000 {
		t.Errorf("%d probes of fbt", found["fbt"])
	}
}

// Quiet by the option, by a pragma, by setopt(): what the program prints and
// nothing else.
func TestQuiet(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "3.28")
	script := filepath.Join(t.TempDir(), "quiet.d")
	text := "#pragma D option quiet\n\ndtrace:::BEGIN\n{\n\tprintf(\"just this\\n\");\n\texit(0);\n}\n"
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-s", script},
		{"-q", "-n", `BEGIN{printf("just this\n");exit(0);}`},
		{"-x", "quiet", "-n", `BEGIN{printf("just this\n");exit(0);}`},
	} {
		if out, stderr := trace(t, args...); out != "just this\n" && out != "just this\n\n" || stderr != "" {
			t.Errorf("%q printed %q and %q", args, out, stderr)
		}
	}
}

// Arguments are printed by their types: members by name with their types,
// characters as such, pointers in hexadecimal, zeros left out.
func TestTypedPrint(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "2.12")
	prog := binaryFile(t, "typed", call{unix.SYS_PRCTL, unix.PR_SET_NAME, "new name"})
	out := whole(t, func() (string, string) {
		tr := begin(t, "-q", "-n", `rawtp:task::task_rename/stringof(args[1]) == "new name"/{
			print(&args[0]->comm); print(&args[0]->group_leader); print(&args[0]->se.load);
			printf("leader %p weight %d\n", args[0]->group_leader, args[0]->se.load.weight); }`)
		run(t, prog)
		return tr.interrupt()
	})
	var chars strings.Builder
	for _, m := range match(`\(char\)'(.)',\n`, out) {
		chars.WriteString(m[1])
	}
	if chars.String() != "typed" {
		t.Errorf("the name is %q in\n%s", &chars, out)
	}
	m := match(`(?m)^leader ([0-9a-f]+) weight (\d+)$`, out)
	if m == nil {
		t.Fatal(out)
	}
	for _, want := range []string{"(char [16]) [\n", "(struct task_struct *)0x" + m[0][1] + "\n", "(struct load_weight) {\n", ".weight = (long unsigned int)" + m[0][2] + ",\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// The values of single CPUs are those of the machine, not of the CPUs that the
// tracer itself may run on.
func TestAggregationsPerCPU(t *testing.T) {
	testkernel.RequireRoot(t)
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(online)) != "0-1" {
		t.Skipf("SKIP-HERE: the test knows CPUs 0-1, here they are %s", online)
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.SchedSetaffinity(0, &unix.CPUSet{1}); err != nil {
		t.Fatal(err)
	}
	out, _ := trace(t, "-q", "-x", "aggpercpu", "-n", `profile-997{@=count();} tick-500ms{exit(0);}`)
	m := match(`^\s*(\d+)\n +\[CPU 0\] +(\d+)\n +\[CPU 1\] +(\d+)\s*$`, out)
	if m == nil {
		t.Fatalf("not a number, and one for each of two CPUs:\n%s", out)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(m[0][i+1])
	}
	if n[0] != n[1]+n[2] || n[1] == 0 || n[2] == 0 {
		t.Errorf("%d firings, of them %d on CPU 0 and %d on CPU 1", n[0], n[1], n[2])
	}
}
