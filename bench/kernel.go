package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"godtrace/internal/testkernel"
)

// The function that a getppid enters, and nothing else does.
const function = "__do_sys_getppid"

// Firings on kernel functions, by each of the kernel's ways into one. They need
// a kernel whose text can be patched: see the flag -vm.
var functionFirings = func() (all []firing) {
	for _, way := range []struct{ name, entry, exit string }{
		{"fentry", "fentry:vmlinux:" + function, "fexit:vmlinux:" + function},
		// bpftrace makes a multi link of a pattern, and a perf event of a name.
		{"multi", "kprobe:" + function[:len(function)-1] + "*", "kretprobe:" + function[:len(function)-1] + "*"},
		{"kprobe", "kprobe:" + function, "kretprobe:" + function},
	} {
		const d, b = ` { @ = count(); }`, ` { @ = count(); }`
		entry, exit := "fbt::"+function+":entry"+d, "fbt::"+function+":return"+d
		for _, f := range []firing{
			{name: "entry", d: entry, bpftrace: way.entry + b},
			{name: "return", d: exit, bpftrace: way.exit + b},
			{name: "both", d: entry + " " + exit, bpftrace: way.entry + b + " " + way.exit + b},
		} {
			f.name = "fbt " + f.name + ", " + way.name
			f.call, f.counted, f.patches = "getppid", true, true
			f.options = []string{"-x", "fbt=" + way.name}
			all = append(all, f)
			if f.name == "fbt both, multi" {
				f.name = "fbt both, session" // one link for both, where the kernel has it
				all = append(all, f)
			}
		}
	}
	return all
}()

// patchable reports whether this kernel's functions can be probed.
func patchable() bool {
	_, err := os.Stat("/sys/bus/event_source/devices/kprobe")
	return err == nil
}

func init() {
	for _, f := range functionFirings {
		_, rest, _ := strings.Cut(f.name, "fbt ")
		side, way, _ := strings.Cut(rest, ", ")
		minimals[f.name] = func(m *minimal) error { return m.function(side, way) }
	}
}

// function counts entries, returns or both of the function.
func (m *minimal) function(side, way string) error {
	a, err := m.array(1)
	if err != nil {
		return err
	}
	for _, exit := range []bool{false, true} {
		if way == "session" && exit {
			break // the first is both
		}
		if side == "entry" && exit || side == "return" && !exit {
			continue
		}
		if err := m.probe(a, way, exit); err != nil {
			return fmt.Errorf("%s of %s: %w", way, function, err)
		}
	}
	return nil
}

func counting(a *ebpf.Map) asm.Instructions {
	return join(asm.Instructions{asm.LoadMapValue(asm.R1, a.FD(), 0)}, increment(), out())
}

func (m *minimal) probe(a *ebpf.Map, way string, exit bool) error {
	spec := &ebpf.ProgramSpec{Name: "minimal", Type: ebpf.Kprobe, License: "GPL", Instructions: counting(a)}
	switch way {
	case "fentry":
		spec.Type, spec.AttachType, spec.AttachTo = ebpf.Tracing, ebpf.AttachTraceFEntry, function
		if exit {
			spec.AttachType = ebpf.AttachTraceFExit
		}
	case "multi":
		spec.AttachType = ebpf.AttachTraceKprobeMulti
	case "session":
		spec.AttachType = ebpf.AttachTraceKprobeSession
	}
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return err
	}
	m.progs = append(m.progs, p)
	symbols := link.KprobeMultiOptions{Symbols: []string{function}, Session: way == "session"}
	var l link.Link
	switch {
	case way == "fentry":
		l, err = link.AttachTracing(link.TracingOptions{Program: p})
	case way == "multi" && exit:
		l, err = link.KretprobeMulti(p, symbols)
	case way == "multi", way == "session":
		l, err = link.KprobeMulti(p, symbols)
	case exit:
		l, err = link.Kretprobe(function, p, nil)
	default:
		l, err = link.Kprobe(function, p, nil)
	}
	if err != nil {
		return err
	}
	m.links = append(m.links, l)
	return nil
}

// every is the benchmark of how long it takes to attach to the entry of every
// function, and to detach.
const (
	everyName     = "fbt:::entry"
	everyD        = `fbt:::entry { @ = count(); }`
	everyBpftrace = `kprobe:* { @ = count(); }`
)

// bare asks this program to be the engine and nothing around it.
const bare = "GODTRACE_BENCH_BARE"

// bareTracer counts the entries of every function that the kernel lists, by one
// multi link, until it is interrupted.
func bareTracer() error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	f, err := os.Open("/sys/kernel/tracing/available_filter_functions_addrs")
	if err != nil {
		return err
	}
	var addrs []uintptr
	for in := bufio.NewScanner(f); in.Scan(); {
		addr, name, _ := strings.Cut(in.Text(), " ")
		a, err := strconv.ParseUint(addr, 16, 64)
		if err != nil {
			return fmt.Errorf("%q: %w", in.Text(), err)
		}
		name, _, module := strings.Cut(name, " ")
		if !module && !leftOut[name] && !strings.HasPrefix(name, "__ftrace_invalid_address__") {
			addrs = append(addrs, uintptr(a))
		}
	}
	f.Close()
	m := new(minimal)
	defer m.close()
	a, err := m.array(1)
	if err != nil {
		return err
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "minimal", Type: ebpf.Kprobe, License: "GPL",
		AttachType: ebpf.AttachTraceKprobeMulti, Instructions: counting(a)})
	if err != nil {
		return err
	}
	m.progs = append(m.progs, p)
	start := time.Now()
	l, err := link.KprobeMulti(p, link.KprobeMultiOptions{Addresses: addrs})
	if err != nil {
		return err
	}
	m.links = append(m.links, l)
	took := time.Since(start)
	<-stop
	n, err := m.count()
	fmt.Printf("%d functions in %v: %d\n", len(addrs), took, n)
	return err
}

// leftOut are functions that the engine itself runs in every firing: with them
// the machine does little else.
var leftOut = map[string]bool{"__rcu_read_lock": true, "__rcu_read_unlock": true, "migrate_disable": true, "migrate_enable": true}

// every measures attaching to every function and detaching: from the start of
// the program to the link, and from the interrupt to its end.
func (b *bench) every() {
	if !patchable() || !b.match.MatchString(everyName) {
		return
	}
	fmt.Fprintln(os.Stderr, "bench:", everyName)
	for round := range b.rounds {
		for _, w := range b.order(round, "minimal", "godtrace", "bpftrace") {
			if b.failures[everyName+"|"+w] != "" || b.failures["start|"+w] != "" {
				continue
			}
			up, down, note, err := b.everyRound(w)
			if err != nil {
				b.fail(everyName, w, err)
				continue
			}
			b.add(everyName+", start to attached", w, "ms", round, float64(up)/1e6, note)
			b.add(everyName+", interrupt to end", w, "ms", round, float64(down)/1e6, "")
		}
	}
}

func (t *tools) everyRound(who string) (up, down time.Duration, note string, err error) {
	var cmd *exec.Cmd
	if who == "minimal" {
		cmd = exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), bare+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	} else {
		args, root, err := t.argv(who, everyD, everyBpftrace)
		if err != nil {
			return 0, 0, "", err
		}
		cmd = exec.Command(args[0], args[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
		if root != "" {
			cmd.Dir = "/"
			cmd.Env = append(os.Environ(), "BPFTRACE_MAX_PROBES=1000000")
		}
	}
	s := &started{cmd: cmd}
	cmd.Stdout, cmd.Stderr = &s.stdout, &s.stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, "", err
	}
	for end := start.Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if s.exited() || time.Now().After(end) {
			cmd.Process.Kill()
			cmd.Wait()
			return 0, 0, "", fmt.Errorf("did not attach: %s", firstLine(s.stderr.String()+s.stdout.String()))
		}
		if n, err := multiLinks(cmd.Process.Pid); err == nil && n > 0 {
			up = time.Since(start)
			break
		}
	}
	time.Sleep(200 * time.Millisecond)
	start = time.Now()
	cmd.Process.Signal(os.Interrupt)
	kill := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil {
		return 0, 0, "", fmt.Errorf("%w: %s", err, firstLine(s.stderr.String()))
	}
	down = time.Since(start)
	if sumCounts(s.stdout.String()) == 0 {
		return 0, 0, "", errors.New("counted nothing")
	}
	return up, down, firstLine(s.stdout.String() + s.stderr.String()), nil
}

// multiLinks counts the multi links of kprobes that a process holds.
func multiLinks(pid int) (n int, err error) {
	held, err := testkernel.HeldBy(pid)
	if err != nil {
		return 0, err
	}
	for o := range held {
		if o.Kind != "link" {
			continue
		}
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), "kprobe_multi") {
				n++
			}
		}
		return n, nil
	}
	return 0, nil
}
