package pid

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// The first process of a system or container must not be harmed: all of its own
// functions are traced while it works, and so are those of the C library; the tracer
// is interrupted, and killed; it goes on, untouched, and ends with its own status.
func TestInit(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.32")
	prog := testkernel.Compile(t, source(t, "init.c", `
		#include <stdio.h>
		#include <stdlib.h>
		#include <unistd.h>
		__attribute__((noinline)) long work(long n) { void *p = malloc(n + 1); __asm__ volatile("" : : "r"(p) : "memory"); free(p); return n + 1; }
		int main(void) {
			char c;
			long n = 0;
			printf("pid %d\n", getpid());
			for (fflush(stdout); read(0, &c, 1) == 1; fflush(stdout))
				printf("%ld\n", n = work(n));
			return 7;
		}`), "-O1")
	target := exec.Command(prog)
	target.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	in, err := target.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := target.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Start(); err != nil {
		t.Skipf("SKIP-FEATURE: a pid namespace: %v", err)
	}
	defer func() { target.Process.Kill(); target.Wait() }()
	pid := target.Process.Pid
	lines := bufio.NewReader(out)
	if s, err := lines.ReadString('\n'); s != "pid 1\n" {
		t.Fatalf("it is %q (%v), want pid 1", s, err)
	}
	n := 0
	ask := func() {
		t.Helper()
		for range 5 {
			if _, err := in.Write([]byte{'x'}); err != nil {
				t.Fatal(err)
			}
			n++
			if s, err := lines.ReadString('\n'); strings.TrimSpace(s) != strconv.Itoa(n) {
				t.Fatalf("it answers %q (%v), want %d", s, err, n)
			}
		}
	}
	library := ""
	if oneByOne() {
		library = "*alloc"
	}
	d := fmt.Sprintf(`pid%d:a.out::entry, pid%d:libc.so.6:%s:entry { @[probefunc] = count(); } END { printa("N %%s %%@d\n", @); }`, pid, pid, library)
	tr := testkernel.Begin(t, "-q", "-p", strconv.Itoa(pid), "-n", d)
	ask()
	stdout, _ := tr.Interrupt()
	for _, want := range []string{"N work 5", "N malloc 5"} {
		if !strings.Contains(stdout, want+"\n") {
			t.Errorf("no %q:\n%s", want, stdout)
		}
	}
	ask()
	killed := testkernel.Begin(t, "-q", "-p", strconv.Itoa(pid), "-n", d)
	ask()
	killed.Cmd.Process.Kill()
	killed.Cmd.Wait()
	// The kernel takes the probes away in its own time.
	for end := time.Now().Add(testkernel.Patience()); !sameText(t, pid, prog); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its text differs from its file")
		}
	}
	ask()
	in.Close()
	if err := target.Wait(); exitCode(err) != 7 {
		t.Errorf("it ended with %v, want status 7", err)
	}
}
