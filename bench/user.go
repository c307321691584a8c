package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"godtrace/internal/insn"
	"godtrace/internal/symbol"
)

// userProgram is the program whose functions are traced: it speaks as
// test/trigger/syscalls does. Its functions begin with the instructions that
// make a difference: one that the kernel emulates, one it single-steps, and a
// no-operation of five bytes, which newer kernels make a call.
const userProgram = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
__asm__(".text\n"
	".type push, @function\n push: push %rbp\n pop %rbp\n ret\n .size push, .-push\n"
	".type step, @function\n step: mov %rdi, %rax\n ret\n .size step, .-step\n"
	".balign 16\n .type nop5, @function\n nop5: .byte 0x0f,0x1f,0x44,0,0\n ret\n .size nop5, .-nop5\n"
	".type many, @function\n many: .rept 10000\n nop\n .endr\n ret\n .size many, .-many\n");
extern long push(long), step(long), nop5(long), many(long);
static double now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char **argv) {
	long (*f)(long) = push, n = 1000, rounds = 1;
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], "-call")) f = !strcmp(argv[i+1], "step") ? step : !strcmp(argv[i+1], "nop5") ? nop5 : !strcmp(argv[i+1], "many") ? many : push;
		else if (!strcmp(argv[i], "-n")) n = atol(argv[i+1]);
		else if (!strcmp(argv[i], "-rounds")) rounds = atol(argv[i+1]);
	puts("ready"); fflush(stdout);
	for (char line[99]; rounds-- > 0 && fgets(line, sizeof line, stdin);) {
		double t = now();
		for (long i = 0; i < n; i++) f(i);
		printf("calls %ld cpu-ns/call %.1f\n", n, (now() - t) / n); fflush(stdout);
	}
	return 0;
}
`

// userFirings are what a probe adds to a call of a function. PROG stands for
// the program's path.
var userFirings = []firing{
	{name: "user function, emulated", call: "push", counted: true,
		d: `uprobe:PROG:push:entry { @ = count(); }`, bpftrace: `uprobe:PROG:push { @ = count(); }`},
	{name: "user function, no-operation", call: "nop5", counted: true,
		d: `uprobe:PROG:nop5:entry { @ = count(); }`, bpftrace: `uprobe:PROG:nop5 { @ = count(); }`},
	{name: "user function, single-stepped", call: "step", counted: true,
		d: `uprobe:PROG:step:entry { @ = count(); }`, bpftrace: `uprobe:PROG:step { @ = count(); }`},
	{name: "user function, its argument", call: "push", counted: true,
		d: `uprobe:PROG:push:entry { @ = quantize(arg0); }`, bpftrace: `uprobe:PROG:push { @ = hist(arg0); }`},
	{name: "user function, by thread", call: "push", counted: true,
		d: `uprobe:PROG:push:entry { @[tid] = count(); }`, bpftrace: `uprobe:PROG:push { @[tid] = count(); }`},
}

func init() {
	for _, f := range userFirings {
		minimals[f.name] = func(m *minimal) error { return m.userFunction(f) }
	}
}

var userPath string // of the program, once built

// buildUser compiles the traced program; peers see it by the same path.
func buildUser(dir string) error {
	src := filepath.Join(dir, "user.c")
	userPath = filepath.Join(dir, "user")
	if err := os.WriteFile(src, []byte(userProgram), 0o644); err != nil {
		return err
	}
	if out, err := exec.Command("gcc", "-O1", "-o", userPath, src).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w: %s", err, firstLine(string(out)))
	}
	return nil
}

// userFunction attaches a counting program to one function.
func (m *minimal) userFunction(f firing) error {
	o, err := symbol.Open(userPath)
	if err != nil {
		return err
	}
	s, ok := o.Named(f.call)
	if !ok {
		return fmt.Errorf("%s: no function %s", userPath, f.call)
	}
	off, _ := o.Offset(s.Value)
	a, err := m.array(64)
	if err != nil {
		return err
	}
	count := join(asm.Instructions{asm.LoadMapValue(asm.R1, a.FD(), 0)}, increment(), out())
	if strings.Contains(f.d, "quantize") {
		count = join(asm.Instructions{asm.LoadMem(asm.R2, asm.R1, regDI, word)}, bucket(),
			asm.Instructions{asm.LoadMapValue(asm.R1, a.FD(), 0), asm.Add.Reg(asm.R1, asm.R3)}, increment(), out())
	}
	return m.uprobes(userPath, []uint64{off}, 0, count)
}

// uprobes attaches a program to places of a file by one link: the least that
// the kernel asks for.
func (m *minimal) uprobes(path string, offs []uint64, pid int, ins asm.Instructions) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "minimal", Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: "GPL", Instructions: ins})
	if err != nil {
		return err
	}
	m.progs = append(m.progs, p)
	ex, err := link.OpenExecutable(path)
	if err != nil {
		return err
	}
	cookies := make([]uint64, len(offs))
	l, err := ex.UprobeMulti(nil, p, &link.UprobeMultiOptions{Addresses: offs, Cookies: cookies, PID: uint32(pid)})
	if err != nil {
		return fmt.Errorf("uprobes on %s: %w", path, err)
	}
	m.links = append(m.links, l)
	return nil
}

// A bulk is many probes in one process: how long they take to attach and to go.
type bulk struct {
	name     string
	lib      bool // of libc, else of the program
	plain    bool // as on a machine without packages of debugging symbols
	d        string
	bpftrace string
	sites    func(o *symbol.Object) []uint64 // the same places for the bare link, nil for none
}

var bulks = []bulk{
	{name: "all functions of libc", lib: true, d: `pid$target:libc.so.6::entry { @ = count(); }`, bpftrace: `uprobe:LIBC:* { @ = count(); }`, sites: entries},
	{name: "exported functions of libc", lib: true, plain: true, d: `pid$target:libc.so.6::entry { @ = count(); }`},
	{name: "10000 instructions", d: `pid$target:a.out:many: { @ = count(); }`, sites: func(o *symbol.Object) []uint64 {
		s, _ := o.Named("many")
		off, _ := o.Offset(s.Value)
		var at []uint64
		for i := range uint64(10000) {
			at = append(at, off+i)
		}
		return at
	}},
}

// entries are where the functions of an object begin, for a probe: by every name.
func entries(o *symbol.Object) (offs []uint64) {
	head := make([]byte, 2*insn.MaxLen)
	for _, f := range o.Functions() {
		if f.Size == 0 || o.ReadAt(head, f.Value) != nil {
			continue
		}
		if e, err := insn.EntryOf(head); err == nil && e.First.Uprobe() != insn.Refused {
			offs = append(offs, f.Off+uint64(e.Off))
		}
	}
	return offs
}

// userProbes are all benchmarks of probes in programs.
func (b *bench) userProbes(calls int) {
	wanted := b.match.MatchString("bulk")
	for _, f := range userFirings {
		wanted = wanted || b.match.MatchString(f.name)
	}
	if !wanted {
		return
	}
	dir, err := os.MkdirTemp("", "bench-user")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: user functions:", err)
		return
	}
	defer os.RemoveAll(dir)
	if err := buildUser(dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench: user functions:", err)
		return
	}
	trigger := b.trigger
	b.trigger = userPath
	for _, f := range userFirings {
		f.d = strings.ReplaceAll(f.d, "PROG", userPath)
		f.bpftrace = strings.ReplaceAll(f.bpftrace, "PROG", userPath)
		n := calls
		if f.call == "step" {
			n /= 10
		}
		b.firing(f, n)
	}
	b.trigger = trigger
	if !b.match.MatchString("bulk") {
		return
	}
	fmt.Fprintln(os.Stderr, "bench: bulk")
	for round := range b.rounds {
		for _, k := range bulks {
			for _, w := range b.order(round, "minimal", "godtrace", "bpftrace") {
				if err := b.bulk(round, k, w); err != nil {
					b.fail(k.name, w, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
	}
}

var (
	linked   = regexp.MustCompile(`link \S+: (\d+) probes: ok, (\d+) µs`)
	unlinked = regexp.MustCompile(`unlink \d+: ok, (\d+) µs`)
)

// command is a command that sees no debugging symbols of packages if it is not
// to. It mounts nothing that others see.
func (k *bulk) command(name string, args ...string) *exec.Cmd {
	if !k.plain {
		return exec.Command(name, args...)
	}
	const hide = `mount -t tmpfs none /usr/lib/debug && exec "$0" "$@"`
	return exec.Command("unshare", append([]string{"--mount", "sh", "-c", hide, name}, args...)...)
}

// bulk has one contestant attach to a process that waits, and detach.
func (b *bench) bulk(round int, k bulk, who string) error {
	target := k.command(userPath)
	in, err := target.StdinPipe()
	if err != nil {
		return err
	}
	out, err := target.StdoutPipe()
	if err != nil {
		return err
	}
	if err := target.Start(); err != nil {
		return err
	}
	defer func() { in.Close(); target.Wait() }()
	if _, err := out.Read(make([]byte, 16)); err != nil {
		return err
	}
	pid := target.Process.Pid
	path := userPath
	if k.lib {
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		m := regexp.MustCompile(`(?m) (/\S*/libc\.so\.6)$`).FindStringSubmatch(string(maps))
		if m == nil {
			return fmt.Errorf("no libc.so.6 in %s", userPath)
		}
		path = m[1]
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	switch who {
	case "minimal":
		if k.sites == nil {
			return nil
		}
		o, err := symbol.Open(path)
		if err != nil {
			return err
		}
		sites := k.sites(o)
		m := new(minimal)
		defer m.close()
		start := time.Now()
		if err := m.uprobes(path, sites, pid, out0()); err != nil {
			return err
		}
		attached := time.Now()
		m.links[0].Close()
		note := fmt.Sprintf("%d sites", len(sites))
		b.add(k.name+", attach", who, "ms", round, ms(attached.Sub(start)), note)
		b.add(k.name+", detach", who, "ms", round, ms(time.Since(attached)), note)
	case "godtrace":
		cmd := k.command(b.godtrace, "-qn", k.d+` BEGIN { exit(0); }`, "-p", strconv.Itoa(pid))
		cmd.Env = append(os.Environ(), "DTRACE_DEBUG=1")
		var errb bytes.Buffer
		cmd.Stderr = &errb
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w: %s", err, firstLine(errb.String()))
		}
		wall := time.Since(start)
		var probes, link, unlink int
		for _, m := range linked.FindAllStringSubmatch(errb.String(), -1) {
			n, _ := strconv.Atoi(m[1])
			us, _ := strconv.Atoi(m[2])
			probes, link = probes+n, link+us
		}
		if m := unlinked.FindStringSubmatch(errb.String()); m != nil {
			unlink, _ = strconv.Atoi(m[1])
		}
		if probes == 0 || unlink == 0 {
			return fmt.Errorf("it does not say what took how long: %s", firstLine(errb.String()))
		}
		note := fmt.Sprintf("%d sites", probes)
		b.add(k.name+", attach", who, "ms", round, float64(link)/1000, note)
		b.add(k.name+", detach", who, "ms", round, float64(unlink)/1000, note)
		b.add(k.name+", from nothing to traced", who, "ms", round, ms(wall)-float64(unlink)/1000, note)
		b.add(k.name+", the whole run", who, "ms", round, ms(wall), note)
	case "bpftrace":
		if k.bpftrace == "" {
			return nil
		}
		args, root, err := b.argv(who, "", strings.ReplaceAll(k.bpftrace, "LIBC", fmt.Sprintf("/proc/%d/root%s", pid, path))+` BEGIN { exit(); }`)
		if err != nil {
			return err
		}
		cmd := exec.Command(args[0], append(args[1:], "-p", strconv.Itoa(pid))...)
		cmd.Env = append(os.Environ(), "BPFTRACE_MAX_PROBES=100000", "BPFTRACE_MAX_BPF_PROGS=100000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		cmd.Dir = "/"
		start := time.Now()
		if msg, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, firstLine(string(msg)))
		}
		b.add(k.name+", the whole run", who, "ms", round, ms(time.Since(start)), "")
	}
	return nil
}

// out0 is the program that does nothing.
func out0() asm.Instructions { return asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()} }
