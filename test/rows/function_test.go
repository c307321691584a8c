//go:build amd64

package rows

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"godtrace/internal/insn"
	"godtrace/internal/provider"
	"godtrace/internal/symbol"
	"godtrace/internal/testkernel"
)

// The kernel's allocator by a pattern of names, without the tracer itself.
func TestAllocations(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "3.3")
	if os.Getpid() == 1 {
		t.Fatal("the tracer cannot be told from the test")
	}
	// More than 8 of struct iovec (16 bytes) are copied to the heap.
	prog := binaryFile(t, "vector", append([]call{{unix.SYS_OPEN, "/dev/zero", 0}},
		times(30, call{unix.SYS_READV, 3, strings.Repeat("\x00", 20*16), 20})...)...)
	var self string
	out := whole(t, func() (string, string) {
		tr := begin(t, "-n", `fbt::__kmalloc*:entry /pid != $pid/ { printf("%s %d\n", execname, arg0); }`)
		self = filepath.Base(tr.cmd.Path)
		run(t, prog)
		return tr.interrupt()
	})
	if match(`(?m)^CPU +ID +FUNCTION:NAME *$`, out) == nil {
		t.Errorf("no header in\n%.1000s", out)
	}
	if n := len(match(`(?m)^ +\d+ +\d+ +__kmalloc\w*:entry vector 320$`, out)); n != 30 {
		t.Errorf("%d allocations of 320 bytes, want 30:\n%.3000s", n, out)
	}
	if match(`(?m):entry `+regexp.QuoteMeta(self)+` \d+$`, out) != nil {
		t.Errorf("%s itself is in the output", self)
	}
}

// What the kernel executes when a probe is put into a program: its own stack
// and that of the program which asked for it.
func TestStacksOfEnabling(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "3.24")
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIP-FEATURE: gcc")
	}
	pmu, err := os.ReadFile("/sys/bus/event_source/devices/uprobe/type")
	if err != nil {
		t.Skip("SKIP-FEATURE: uprobes (since 4.17 with CONFIG_UPROBE_EVENTS):", err)
	}
	// perf_event_open(2) of a uprobe in this program's own file: the first page
	// of its text begins with an instruction.
	dir := t.TempDir()
	source := filepath.Join(dir, "enabler.c")
	text := `
		__asm__(".globl _start\n.type _start, @function\n_start:\n.cfi_startproc\n.cfi_undefined rip\n xor %ebp, %ebp\n call go\n mov $231, %eax\n mov $0, %edi\n syscall\n.cfi_endproc\n.size _start, .-_start\n");
		static char attr[128];
		__attribute__((noinline)) long enable(char *path) {
			long n = 298, group = -1;
			register long r10 __asm__("r10") = group;
			register long r8 __asm__("r8") = 0;
			*(unsigned *)attr = TYPE;
			*(unsigned *)(attr + 4) = 128;
			*(char **)(attr + 56) = path;
			*(long *)(attr + 64) = 0x1000;
			__asm__ volatile ("syscall" : "+a"(n) : "D"(attr), "S"(-1L), "d"(0L), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
			__asm__ volatile ("" :: "r"(attr));
			return n;
		}
		void go(void) { enable("/proc/self/exe"); __asm__ volatile (""); }
	`
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	prog := filepath.Join(dir, "enabler")
	if out, err := exec.Command("gcc", "-O1", "-fno-omit-frame-pointer", "-fcf-protection=none", "-fno-stack-protector", "-fno-optimize-sibling-calls", "-ffreestanding", "-nostdlib", "-static",
		"-DTYPE="+strings.TrimSpace(string(pmu)), "-o", prog, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, _ := trace(t, "-n", `fbt::uprobe_register*:entry /pid == $target/ { stack(); ustack(); exit(0); }`, "-c", prog)
	m := regexp.MustCompile(`(?s)^CPU +ID +FUNCTION:NAME *\n +\d+ +\d+ +uprobe_register\w*:entry *\n(.*?)\n\n(.*)$`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no line of the probe, two stacks after it and a blank line between them:\n%s", out)
	}
	for i, line := range strings.Split(m[1], "\n") {
		if !regexp.MustCompile("^ +\\w+`[\\w.]+\\+0x[0-9a-f]+$").MatchString(line) {
			t.Errorf("line %d of the kernel's stack: %q", i, line)
		}
	}
	if !strings.Contains(m[1], "perf_event_open+0x") {
		t.Errorf("not from perf_event_open:\n%s", m[1])
	}
	user := strings.Fields(m[2])
	for i, f := range []string{"enable", "go", "_start"} {
		if i >= len(user) || !regexp.MustCompile("^enabler`"+f+`\+0x[0-9a-f]+$`).MatchString(user[i]) {
			t.Fatalf("frame %d: want %s in\n%s", i, f, m[2])
		}
	}
	if len(user) != 3 {
		t.Errorf("%d frames, want 3:\n%s", len(user), m[2])
	}
}

// Every address of a kernel stack but the first is where a call returns to:
// none is a guess.
func TestKernelFrames(t *testing.T) {
	needKprobes(t)
	testkernel.Shows(t, "0.16")
	if _, err := os.Stat("/proc/kcore"); err != nil {
		t.Skip("SKIP-FEATURE: /proc/kcore")
	}
	prog := binaryFile(t, "mapper", append(times(20, call{unix.SYS_OPEN, "/dev/zero", 0}),
		times(20, call{unix.SYS_MMAP, 0, 4096, 1, 0x22, -1, 0})...)...)
	kernel, err := symbol.KernelSymbols()
	if err != nil {
		t.Fatal(err)
	}
	tr := begin(t, "-q", "-n", `fbt::kmem_cache_alloc*:entry, fbt::vfs_open:entry, fbt::do_mmap:entry /execname == "mapper"/ { @[stack()] = count(); }`)
	run(t, prog)
	out, _ := tr.interrupt()
	stacks, frames := 0, 0
	for _, stack := range regexp.MustCompile(`(?m)^ +\d+$`).Split(out, -1) {
		lines := strings.Fields(stack)
		if len(lines) == 0 {
			continue
		}
		stacks++
		for i, line := range lines[1:] {
			frames++
			m := match("^(\\w+)`([\\w.]+)\\+0x([0-9a-f]+)$", line)
			if m == nil {
				t.Fatalf("frame %q", line)
			}
			off, _ := strconv.ParseUint(m[0][3], 16, 64)
			// An exception did not return there, but interrupted it.
			interrupted := strings.HasPrefix(lines[i], "vmlinux`asm_")
			// Several functions may share the name.
			if !slices.ContainsFunc(kernel.Named(m[0][1], m[0][2]), func(s symbol.KSym) bool {
				return followsCall(t, s.Addr+off) || interrupted && startsInstruction(t, s.Addr, off)
			}) {
				t.Errorf("%s is not behind a call, in\n%s", line, stack)
			}
		}
	}
	t.Logf("%d stacks, %d frames", stacks, frames)
	if stacks < 3 || frames < 20 {
		t.Errorf("too few of them:\n%.2000s", out)
	}
}

// followsCall reports whether a call instruction of the kernel's text ends at
// the address.
func followsCall(t *testing.T, addr uint64) bool {
	t.Helper()
	const longest = 7 // call through memory, without prefixes
	code, err := provider.KernelText(addr-longest, longest)
	if err != nil {
		t.Fatal(err)
	}
	for i := range longest - 1 {
		if in, err := insn.Decode(code[i:]); err == nil && int(in.Len) == longest-i && in.Is(insn.Call) {
			return true
		}
	}
	return false
}

// startsInstruction reports whether an instruction of the function at addr
// begins at that offset.
func startsInstruction(t *testing.T, addr, off uint64) bool {
	t.Helper()
	code, err := provider.KernelText(addr, int(off)+insn.MaxLen)
	if err != nil {
		t.Fatal(err)
	}
	offs, _ := insn.Boundaries(code, addr) // what is behind off may be cut
	return slices.Contains(offs, int(off))
}

// perfCounter counts an event where a filter holds, as perf stat does; end is the
// count, and ends it.
func perfCounter(t *testing.T, id uint64, filter string) (end func() uint64) {
	t.Helper()
	var fds []int
	for cpu := range runtime.NumCPU() {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitDisabled}
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.IoctlSetString(fd, unix.PERF_EVENT_IOC_SET_FILTER, filter); err != nil {
			t.Fatal(err)
		}
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	return func() (sum uint64) {
		for _, fd := range fds {
			var b [8]byte
			if _, err := unix.Read(fd, b[:]); err != nil {
				t.Fatal(err)
			}
			sum += binary.NativeEndian.Uint64(b[:])
			unix.Close(fd)
		}
		return sum
	}
}

// bpftrace starts a program of that tracer, if GODTRACE_BPFTRACE says how it is
// called, and returns when it is attached; end interrupts it and is what it
// printed.
func bpftrace(t *testing.T, program string) (end func() string) {
	t.Helper()
	argv := strings.Fields(os.Getenv("GODTRACE_BPFTRACE"))
	if len(argv) == 0 {
		return nil
	}
	cmd := exec.Command(argv[0], append(argv[1:], "-q", "-e", program)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	for end := time.Now().Add(testkernel.Patience()); ; time.Sleep(50 * time.Millisecond) {
		held, err := testkernel.HeldBy(cmd.Process.Pid)
		if err != nil || time.Now().After(end) {
			t.Fatalf("bpftrace did not attach: %v", err)
		}
		attached := false
		for o := range held {
			attached = attached || o.Kind == "link"
		}
		if attached {
			break
		}
	}
	return func() string {
		cmd.Process.Signal(unix.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("bpftrace: %v", err)
		}
		return fmt.Sprint(&out)
	}
}
