package pid

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"godtrace/internal/symbol"
	"godtrace/internal/testkernel"
)

const victim = `
#include <stdlib.h>
#include <unistd.h>
#include <stdio.h>
__asm__(".text\n.type locked, @function\nlocked: lock decl (%rdi)\n ret\n.size locked, .-locked\n");
extern void locked(int *);
__attribute__((noinline)) long work(long x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
int main(int argc, char **argv) {
	/* works for so many rounds, or for ever; tells that it has begun */
	long rounds = argc > 1 ? atol(argv[1]) : -1;
	int n = 1;
	locked(&n);
	write(1, ".", 1);
	for (long i = 0; i != rounds; i = work(i))
		if (i % 50 == 0) usleep(500);
	return 0;
}`

// oneByOne reports whether the kernel has no links of many probes: each costs a
// grace period, which takes its time where the machine is emulated.
func oneByOne() bool {
	kernel, vm := testkernel.InVM()
	return vm && kernel == "6.1"
}

// begin starts a program and waits until it has.
func begin(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// What cannot be traced is refused with a reason, status 1 and no trace of Go's.
func TestBadTargets(t *testing.T) {
	testkernel.RequireRoot(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	os.WriteFile(text, []byte("\x7fELF but for the rest of it\n"), 0o755)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Skip("SKIP-FEATURE: true")
	}
	pid := strconv.Itoa(gone.Process.Pid)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-n", "pid$target:::entry", "-p", "4194304"}, "no such process"},
		{[]string{"-n", "pid$target:::entry", "-p", pid}, "no such process"},
		{[]string{"-n", "pid" + pid + ":libc.so.6:malloc:entry"}, "failed to grab process " + pid},
		{[]string{"-n", "BEGIN", "-p", "self"}, "invalid pid: self"},
		{[]string{"-n", "BEGIN", "-p", "0"}, "pid"},
		{[]string{"-n", "BEGIN", "-c", "/no/such/file"}, "failed to execute /no/such/file"},
		{[]string{"-n", "BEGIN", "-c", dir}, "failed to execute " + dir},
		{[]string{"-n", "pid$target:::entry", "-c", text}, text + ": unknown ELF class"},
		{[]string{"-n", "uprobe:" + text + "::entry"}, "failed to read " + text},
		{[]string{"-n", "uprobe:" + dir + "::entry"}, "failed to"},
		{[]string{"-n", "uprobe:/dev/null::entry"}, "failed to"},
		{[]string{"-n", "uinstr$target:::call"}, "target"},
	} {
		r := testkernel.Trace(t, c.args...)
		if exitCode(r.Err) != 1 || !strings.Contains(strings.ToLower(r.Stderr), strings.ToLower(c.want)) || strings.Contains(r.Stderr, "goroutine ") {
			t.Errorf("%q: %v, want status 1 and %q:\n%s", c.args, r.Err, c.want, r.Stderr)
		}
	}
}

// A target that ends while it is looked at, attached to, or detached from ends
// tracing, whatever the moment.
func TestDyingTarget(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "victim.c", victim), "-O1")
	rounds := 10
	if _, vm := testkernel.InVM(); vm {
		rounds = 4
	}
	library, all := "pid$target:libc.so.6::entry", "pid$target:::entry,pid$target:::return"
	if oneByOne() {
		library, all = "pid$target:libc.so.6:*alloc*:entry", "pid$target:a.out::entry,pid$target:libc.so.6:f*:return"
	}
	ended := map[string]int{}
	for i := range rounds {
		// It lives for 0 to some 500 ms.
		target := begin(t, prog, strconv.Itoa(1+2500*i))
		reaped := make(chan error, 1)
		go func() { reaped <- target.Wait() }()
		tr := testkernel.Start(t, "-qn", library+",pid$target:a.out::entry,pid$target:a.out::return{@=count()}", "-p", strconv.Itoa(target.Process.Pid))
		r := tr.Wait()
		switch {
		case r.Err == nil:
			ended["while traced"]++
		case exitCode(r.Err) == 1 && regexp.MustCompile(`(?i)no such process|has exited|failed to grab|does not match any probes`).MatchString(r.Stderr) && !strings.Contains(r.Stderr, "goroutine "):
			ended["before"]++
		default:
			t.Errorf("round %d: %v\n%s", i, r.Err, r.Stderr)
		}
		if err := <-reaped; err != nil {
			t.Errorf("round %d: the target: %v", i, err)
		}
	}
	t.Log(ended)
	// Created ones that are over at once, or killed.
	for _, cmd := range []string{prog + " 0", "false"} {
		if r := testkernel.Trace(t, "-Zqn", all+"{@=count()}", "-c", cmd); r.Err != nil {
			t.Errorf("%s: %v\n%s", cmd, r.Err, r.Stderr)
		}
	}
	tr := testkernel.Begin(t, "-Zqn", all+"{@=count()}", "-c", prog)
	syscall.Kill(childOf(t, tr.Cmd.Process.Pid), syscall.SIGKILL)
	if r := tr.Wait(); r.Err != nil {
		t.Errorf("killed: %v\n%s", r.Err, r.Stderr)
	}
}

// Programs without symbols are traced by address; programs whose files have been
// deleted or replaced as ever.
func TestWithoutFile(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "victim.c", victim), "-O1")
	for _, tool := range []string{"strip", "nm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIP-FEATURE: %s", tool)
		}
	}
	stripped := filepath.Join(t.TempDir(), "stripped")
	if out, err := exec.Command("strip", "-o", stripped, prog).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v\n%s", err, out)
	}
	r := testkernel.Trace(t, "-n", "pid$target:a.out:work:entry", "-c", stripped+" 100")
	if exitCode(r.Err) != 1 || !strings.Contains(r.Stderr, "failed to lookup 'work'") || !strings.Contains(r.Stderr, "the file has no symbols") {
		t.Errorf("stripped: %v\n%s", r.Err, r.Stderr)
	}
	out, err := exec.Command("nm", prog).Output()
	m := regexp.MustCompile(`(?m)^0*([0-9a-f]+) \S work$`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("nm: %v\n%s", err, out)
	}
	r = testkernel.Trace(t, "-qn", "pid$target:a.out:-:"+string(m[1])+"{@=count()}", "-c", stripped+" 100").OK(t)
	if strings.TrimSpace(strings.TrimPrefix(r.Stdout, ".")) != "100" {
		t.Errorf("stripped, by address: %q, want 100", r.Stdout)
	}
	for _, replace := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "once")
		b, err := os.ReadFile(prog)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, 0o755); err != nil {
			t.Fatal(err)
		}
		target := begin(t, file)
		os.Remove(file)
		if replace { // by another program of the name
			os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755)
		}
		r := testkernel.Trace(t, "-qn", "pid$target:a.out:work:entry,pid$target:once:work:return{@[probename]=count()} pid$target:a.out:work:entry/i++==99/{ustack();exit(0);}", "-p", strconv.Itoa(target.Process.Pid)).OK(t)
		want := regexp.MustCompile("once`work\n +once`main\\+0x[0-9a-f]+\n(?s:.*)entry +\\d{2,}\n +return +\\d{2,}\n|return +\\d{2,}\n +entry +\\d{2,}\n")
		if !want.MatchString(r.Stdout) {
			t.Errorf("deleted: replaced %v:\n%s%s", replace, r.Stdout, r.Stderr)
		}
	}
}

// Who may not trace is told what it takes.
func TestNotPermitted(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "victim.c", victim), "-O1")
	dir, err := os.MkdirTemp("/tmp", "pid")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	tracer, mine := filepath.Join(dir, "dtrace"), filepath.Join(dir, "victim")
	for to, from := range map[string]string{tracer: testkernel.Godtrace(t), mine: prog} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	target := begin(t, prog)
	for _, args := range [][]string{
		{"-n", "pid$target:a.out:work:entry", "-c", mine + " 10"},
		{"-n", "pid$target:a.out:work:entry", "-p", strconv.Itoa(target.Process.Pid)},
		{"-n", "uprobe:" + mine + ":work:entry"},
	} {
		cmd := exec.Command(tracer, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if exitCode(err) != 1 || !regexp.MustCompile("(?i)permission denied|privilege|capabilit").Match(out) || bytes.Contains(out, []byte("goroutine ")) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if err := target.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the target: %v", err)
	}
}

// A function that the kernel admits no probe on is named; the others that the
// pattern means are traced.
func TestRefusedSite(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "victim.c", victim), "-O1", "-fcf-protection=none")
	r := testkernel.Trace(t, "-n", "pid$target:a.out:[lw]o*k*:entry,pid$target:a.out:lock*:return{@[probefunc,probename]=count()}", "-c", prog+" 70").OK(t)
	for _, want := range []string{"victim: no entry probe for locked: the kernel refuses the instruction\n"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("no %q:\n%s", want, r.Stderr)
		}
	}
	for _, want := range []string{`work +entry +70\n`, `locked +return +1\n`} {
		if !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("no %q:\n%s", want, r.Stdout)
		}
	}
	if strings.Contains(r.Stdout, "locked                                             entry") {
		t.Errorf("it fired:\n%s", r.Stdout)
	}
}

// A program runs whose sections have been cut off or damaged: its instructions
// and its libraries are traced all the same.
func TestWithoutSections(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckLeaks(t)
	prog := testkernel.Compile(t, source(t, "sectionless.c", `
		#include <stdlib.h>
		__attribute__((noinline)) int work(int n) { __asm__ volatile(""); return n + 1; }
		int main(void) { int n = 0; while (n < 7) n = work(n); exit(n == 7 ? 0 : 1); }`), "-O1", "-no-pie", "-fno-pie")
	o, err := symbol.Open(prog)
	if err != nil {
		t.Fatal(err)
	}
	work, ok := o.Named("work")
	if !ok {
		t.Fatal("no work")
	}
	whole, err := os.ReadFile(prog)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	cut := bytes.Clone(whole)[:le.Uint64(whole[0x28:])]
	wild := bytes.Clone(whole)
	le.PutUint32(wild[0x28:], 0xffffffff)
	for i, b := range [][]byte{cut, wild} {
		name := filepath.Join(t.TempDir(), "sectionless")
		if err := os.WriteFile(name, b, 0o755); err != nil {
			t.Fatal(err)
		}
		r := testkernel.Trace(t, "-qn", fmt.Sprintf(`pid$target:a.out:-:%x{@w=count()} pid$target:libc.so.6:exit:entry{@e=count()}
			END{printa("%%@d ", @w); printa("%%@d", @e)}`, work.Value), "-c", name).OK(t)
		if got := strings.TrimSpace(r.Stdout); got != "7 1" {
			t.Errorf("%d: %q, want 7 calls of work and one of exit\n%s", i, got, r.Stderr)
		}
	}
}

// Files whose bytes have been damaged are read or refused, never fallen over.
func TestDamagedFile(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "victim.c", victim), "-O1")
	whole, err := os.ReadFile(prog)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	var names []string
	add := func(b []byte) {
		name := filepath.Join(dir, fmt.Sprint(len(names)))
		if err := os.WriteFile(name, b, 0o755); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	lengths, damaged := []int{0, 3, 4, 16, 63, 64, 65, 500, len(whole) / 2, len(whole) - 1}, 40
	if _, vm := testkernel.InVM(); vm {
		lengths, damaged = lengths[6:], 4 // emulated, each run takes its time
	}
	for _, n := range lengths {
		add(whole[:n])
	}
	for range damaged {
		b := bytes.Clone(whole)
		for range 1 + rng.IntN(8) {
			at := rng.IntN(64) // the header
			if rng.IntN(3) > 0 {
				at = len(b) - 1 - rng.IntN(4000) // the table of sections, names, symbols
			} else if rng.IntN(2) > 0 {
				at = 64 + rng.IntN(13*56) // the table of segments
			}
			b[at] = byte(rng.Uint32())
		}
		add(b)
	}
	for _, name := range names {
		for _, d := range []string{"uprobe:" + name + "::", "uprobe:" + name + ":work:return"} {
			r := testkernel.Trace(t, "-ln", d)
			if code := exitCode(r.Err); code != 0 && code != 1 || strings.Contains(r.Stderr, "goroutine ") {
				t.Errorf("%s: %v\n%s", d, r.Err, r.Stderr)
			}
		}
	}
}

// A tracer of everything that is killed leaves no breakpoint in any of the
// target's objects.
func TestKillEverything(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.14")
	if oneByOne() {
		return
	}
	prog := testkernel.Compile(t, source(t, "victim.c", victim), "-O1")
	target := begin(t, prog)
	pid := target.Process.Pid
	objects := regexp.MustCompile(`(?m)^[0-9a-f]+-[0-9a-f]+ r-xp [0-9a-f]+ \S+ \d+ +(/.*)$`)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	tr := testkernel.Begin(t, "-qn", "pid$target:::entry,pid$target:::return{@=count()}", "-p", strconv.Itoa(pid))
	patched := 0
	for _, m := range objects.FindAllStringSubmatch(string(maps), -1) {
		if !sameText(t, pid, m[1]) {
			patched++
		}
	}
	if patched < 2 {
		t.Errorf("%d objects with breakpoints: the comparison is void\n%s", patched, maps)
	}
	tr.Cmd.Process.Kill()
	tr.Cmd.Wait()
	for _, m := range objects.FindAllStringSubmatch(string(maps), -1) {
		same := false
		for end := time.Now().Add(testkernel.Patience()); !same && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			same = sameText(t, pid, m[1])
		}
		if !same {
			t.Errorf("the text of %s differs from its file", m[1])
		}
	}
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	b, _ := io.ReadAll(status)
	if !bytes.Contains(b, []byte("TracerPid:\t0\n")) || regexp.MustCompile(`State:\t[Tt]`).Match(b) {
		t.Errorf("status:\n%s", b)
	}
}
