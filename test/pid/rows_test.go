package pid

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"godtrace/internal/testkernel"
)

// A created process is traced from its first instruction: each of many runs of a
// program that makes one such call shows it once.
func TestFromTheStart(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.18")
	prog := testkernel.Compile(t, source(t, "once.c", `
		__attribute__((noinline)) void unmap(void) {
			long r;
			__asm__ volatile("syscall" : "=a"(r) : "a"(11L), "D"(0x10000L), "S"(4096L) : "rcx", "r11", "memory"); /* munmap */
		}
		void _start(void) {
			unmap();
			__asm__ volatile("syscall" : : "a"(231L), "D"(0L) : "rcx", "r11", "memory"); /* exit_group */
		}`), "-O1", "-static", "-nostdlib", "-nostartfiles", "-fno-stack-protector")
	runs := 200
	if _, vm := testkernel.InVM(); vm {
		runs = 10
	}
	for i := range runs {
		d, want := `syscall::munmap:entry,syscall::munmap:return/pid==$target/{@[probename]=count()} END{printa("%s %@d;",@)}`, "entry 1;return 1;"
		if i%10 == 0 { // with a probe in the program as well
			d, want = d+` pid$target:a.out:unmap:entry{printf("start;")}`, "start;"+want
		}
		r := testkernel.Trace(t, "-qn", d, "-xaggsortkey", "-c", prog).OK(t)
		if strings.TrimSpace(r.Stdout) != want {
			t.Fatalf("run %d: %q, want %q\n%s", i, r.Stdout, want, r.Stderr)
		}
	}
}

// A debugger and the tracer work on one process at once, whoever came first.
func TestWithDebugger(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.19")
	if _, err := exec.LookPath("gdb"); err != nil {
		t.Skip("SKIP-FEATURE: gdb")
	}
	prog := testkernel.Compile(t, source(t, "victim.c", victim), "-O1", "-g")
	target := begin(t, prog)
	pid := strconv.Itoa(target.Process.Pid)
	count := "pid$target:a.out:work:return{@=count(); n++;} tick-50ms/n > 20/{exit(0);}"

	// The debugger first: the process stands still under it while probes are set.
	gdb := exec.Command("gdb", "-nx", "-q", "-p", pid)
	in, err := gdb.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := gdb.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	gdb.Stderr = gdb.Stdout
	if err := gdb.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { gdb.Process.Kill(); gdb.Wait() }()
	read := func(word string) string {
		t.Helper()
		var all []byte
		buf := make([]byte, 4096)
		for !strings.Contains(string(all), word) {
			n, err := out.Read(buf)
			all = append(all, buf[:n]...)
			if err != nil {
				t.Fatalf("gdb ended without %q:\n%s", word, all)
			}
		}
		return string(all)
	}
	fmt.Fprintf(in, "set pagination off\nset confirm off\necho ready to go\\n\n")
	read("ready to go")
	tr := testkernel.Begin(t, "-qn", count, "-p", pid)
	fmt.Fprintf(in, "continue 1\n")
	if r := tr.Wait(); r.Err != nil || strings.TrimSpace(r.Stdout) == "" {
		t.Errorf("under the debugger: %v\n%s%s", r.Err, r.Stdout, r.Stderr)
	}
	syscall.Kill(target.Process.Pid, syscall.SIGINT) // the debugger's to see
	fmt.Fprintf(in, "detach\nquit\n")
	rest, _ := io.ReadAll(out)
	if !strings.Contains(string(rest), "SIGINT") {
		t.Errorf("gdb saw no SIGINT:\n%s", rest)
	}

	// The tracer first: the debugger stops the process, looks, steps, and goes away.
	tr = testkernel.Begin(t, "-qn", "pid$target:a.out:work:entry,pid$target:a.out:work:return{@[probename]=count()}", "-p", pid)
	msg, err := exec.Command("gdb", "-nx", "-batch", "-p", pid, "-ex", "bt", "-ex", "stepi", "-ex", "stepi", "-ex", "detach").CombinedOutput()
	if err != nil || !strings.Contains(string(msg), " main (") || !strings.Contains(string(msg), "detached") {
		t.Errorf("gdb: %v\n%s", err, msg)
	}
	stdout, stderr := tr.Interrupt()
	m := regexp.MustCompile(`(?s)(entry|return) +(\d+)\n.*(entry|return) +(\d+)\n`).FindStringSubmatch(stdout)
	if m == nil {
		t.Fatalf("%s%s", stdout, stderr)
	}
	a, _ := strconv.Atoi(m[2])
	b, _ := strconv.Atoi(m[4])
	if a == 0 || b-a > 1 || a-b > 1 {
		t.Errorf("entries and returns: %q", stdout)
	}
	if err := target.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the target: %v", err)
	}
}

// Calls of a library counted by function: every name of a function, in ascending
// order of the counts, in the columns of dtrace(1).
func TestLibraryCounts(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "3.4")
	prog := testkernel.Compile(t, source(t, "frees.c", `
		#include <stdlib.h>
		int main(int c, char **v) { for (int i = atoi(v[1]); i > 0; i--) free(malloc(i)); return 0; }`), "-O1", "-fno-builtin")
	functions := ""
	if oneByOne() {
		functions = "*free*"
	}
	line := regexp.MustCompile(`^  (\S+) +(\d+)$`)
	free := map[string][]int{}
	for _, n := range []int{100, 300} {
		r := testkernel.Trace(t, "-qn", "pid$target:libc.so.6:"+functions+":entry { @[probefunc] = count(); }", "-c", fmt.Sprintf("%s %d", prog, n)).OK(t)
		last := 0
		for l := range strings.Lines(r.Stdout) {
			l = strings.TrimRight(l, "\n")
			m := line.FindStringSubmatch(l)
			if l == "" {
				continue
			}
			if m == nil || l != fmt.Sprintf("  %-50s %16s", m[1], m[2]) {
				t.Errorf("line %q", l)
				continue
			}
			k, _ := strconv.Atoi(m[2])
			if k < last {
				t.Errorf("%q after %d", l, last)
			}
			last = k
			if m[1] == "free" || m[1] == "__libc_free" {
				free[m[1]] = append(free[m[1]], k)
			}
		}
	}
	for _, name := range []string{"free", "__libc_free"} {
		if k := free[name]; len(k) != 2 || k[1]-k[0] != 200 {
			t.Errorf("%s: %v times for 100 and 300 calls", name, k)
		}
	}
}

// The provider may be a pattern that ends in the process.
func TestProviderPattern(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "one.c", `int main(void) { return 0; }`), "-O1")
	for _, p := range []string{"p*d$target", "pi?$target", "*$target"} {
		r := testkernel.Trace(t, "-qn", p+"::main:entry{printf(\"%s %s\", probemod, probefunc)}", "-c", prog).OK(t)
		if r.Stdout != "one main\n" && r.Stdout != "one main" {
			t.Errorf("%s: %q\n%s", p, r.Stdout, r.Stderr)
		}
	}
}
