package provider

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/symbol"
)

// Program, attach and flag numbers of include/uapi/linux/bpf.h.
const (
	typeUprobeMulti   = 48
	uprobeMultiReturn = 1 // BPF_F_UPROBE_MULTI_RETURN
)

// errNotSupp is the kernel's ENOTSUPP: how it refuses an instruction.
const errNotSupp = unix.Errno(524)

// uprobeSite is one instruction of a file to put a probe on.
type uprobeSite struct {
	off    uint64 // in the file
	sem    uint64 // place of a semaphore in the file, to be counted up while attached; 0: none
	cookie uint64
	probe  *probe.Probe
}

// uprobeSet are sites of one file.
type uprobeSet struct {
	file  *os.File
	name  string // of the file, for messages
	pid   int    // the process they fire in; 0: in all
	ret   bool   // the kernel's own return probes, by the return address
	sites []uprobeSite
}

// haveUprobeMulti reports whether one link can hold many uprobes and filter
// them by process. Linux has such links since 6.6, but before 6.10 their
// filter let only the process's first thread fire.
func haveUprobeMulti() bool { return kernel.AtLeast(6, 10) }

// uprobeAttachType is the expected attach type for programs to be attached by
// attachUprobes.
func uprobeAttachType() uint32 {
	if haveUprobeMulti() {
		return typeUprobeMulti
	}
	return probe.AttachPlain
}

// attachUprobes attaches prog to all sites. Sites that the kernel does not
// admit are returned as refused; it is an error if no site is left.
func attachUprobes(prog *ebpf.Program, sets []uprobeSet) (io.Closer, []Refusal, error) {
	var cs closers
	var refused []Refusal
	n := 0
	for i := range sets {
		c, r, err := attachUprobeSet(prog, &sets[i], sets[i].sites)
		if err != nil {
			cs.Close()
			return nil, nil, err
		}
		n += len(sets[i].sites)
		cs = append(cs, c...)
		refused = append(refused, r...)
	}
	if n > 0 && len(cs) == 0 {
		return nil, nil, refused[0].Err
	}
	return cs, refused, nil
}

func attachUprobeSet(prog *ebpf.Program, set *uprobeSet, sites []uprobeSite) (closers, []Refusal, error) {
	if !haveUprobeMulti() {
		return attachUprobePerf(prog, set, sites)
	}
	if len(sites) == 0 {
		return nil, nil, nil
	}
	fd, err := uprobeMultiLink(prog, set, sites)
	switch {
	case err == nil:
		return closers{fdCloser(fd)}, nil, nil
	case !refusesSite(err):
		return nil, nil, fmt.Errorf("uprobes on %s: %w", set.name, uprobeError(err))
	case len(sites) == 1:
		return nil, []Refusal{{sites[0].probe, fmt.Errorf("%s: the kernel refuses the instruction at offset 0x%x: %w", set.name, sites[0].off, err)}}, nil
	}
	// One bad site fails the link: find it by halving.
	half := len(sites) / 2
	a, ra, err := attachUprobeSet(prog, set, sites[:half])
	if err != nil {
		return nil, nil, err
	}
	b, rb, err := attachUprobeSet(prog, set, sites[half:])
	if err != nil {
		a.Close()
		return nil, nil, err
	}
	return append(a, b...), append(ra, rb...), nil
}

// refusesSite tells a complaint about an instruction from one about the whole.
func refusesSite(err error) bool {
	return errors.Is(err, errNotSupp) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EILSEQ) || errors.Is(err, unix.EIO) ||
		errors.Is(err, unix.ENOEXEC) // what the kernel cannot decode
}

func uprobeError(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return errors.New("the process has exited")
	}
	return err
}

// uprobeMultiLink is BPF_LINK_CREATE for many uprobes.
func uprobeMultiLink(prog *ebpf.Program, set *uprobeSet, sites []uprobeSite) (int, error) {
	path, err := unix.BytePtrFromString(fdPath(set.file))
	if err != nil {
		return -1, err
	}
	offs := make([]uint64, len(sites))
	cookies := make([]uint64, len(sites))
	var sems []uint64
	for i, s := range sites {
		offs[i], cookies[i] = s.off, s.cookie
		if s.sem != 0 && sems == nil {
			sems = make([]uint64, len(sites))
		}
		if s.sem != 0 {
			sems[i] = s.sem
		}
	}
	attr := struct {
		prog, target, typ, flags    uint32
		path                        *byte
		offs, sems, cookies         *uint64
		cnt, multiFlags, pid, spare uint32
	}{
		prog: uint32(prog.FD()), typ: typeUprobeMulti,
		path: path, offs: &offs[0], cookies: &cookies[0],
		cnt: uint32(len(sites)), pid: uint32(set.pid),
	}
	if sems != nil {
		attr.sems = &sems[0]
	}
	if set.ret {
		attr.multiFlags = uprobeMultiReturn
	}
	fd, err := kernel.BPF(unix.BPF_LINK_CREATE, &attr)
	runtime.KeepAlive(prog)
	runtime.KeepAlive(set.file)
	return fd, err
}

// fdPath names the very file that is open, whatever has become of its name and
// whatever mount namespace it is in.
func fdPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// uprobePMU is the perf event type of uprobes; 0: there is none.
var uprobePMU = sync.OnceValue(func() uint32 { return kernel.EventSource("uprobe") })

// uprobeRefCtrShift is where the semaphore's place goes in config: format/ref_ctr_offset.
const uprobeRefCtrShift = 32

// attachUprobePerf attaches site by site. The kernel filters them by address
// space, so that all threads of the process fire.
func attachUprobePerf(prog *ebpf.Program, set *uprobeSet, sites []uprobeSite) (closers, []Refusal, error) {
	if uprobePMU() == 0 {
		return nil, nil, &kernel.FeatureError{Name: "uprobes", Since: "Linux 4.17 with CONFIG_UPROBE_EVENTS", Workaround: "a kernel built with it"}
	}
	path, err := unix.BytePtrFromString(fdPath(set.file))
	if err != nil {
		return nil, nil, err
	}
	allowFiles(2 * len(sites))
	var cs closers
	var refused []Refusal
	for _, s := range sites {
		attr := unix.PerfEventAttr{
			Type: uprobePMU(), Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Config: s.sem << uprobeRefCtrShift,
			Ext1:   uint64(uintptr(unsafe.Pointer(path))), Ext2: s.off,
		}
		if set.ret {
			attr.Config |= 1 // format/retprobe: config:0
		}
		pid, cpu := set.pid, -1
		if pid == 0 {
			pid, cpu = -1, 0
		}
		ev, err := unix.PerfEventOpen(&attr, pid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		var c io.Closer
		if err == nil {
			c, err = attachPerf(prog, ev, s.cookie)
		}
		switch {
		case err == nil:
			cs = append(cs, c)
		case refusesSite(err):
			refused = append(refused, Refusal{s.probe, fmt.Errorf("%s: the kernel refuses the instruction at offset 0x%x: %w", set.name, s.off, err)})
		default:
			cs.Close()
			return nil, nil, fmt.Errorf("uprobe on %s: %w", set.name, uprobeError(err))
		}
	}
	runtime.KeepAlive(path)
	runtime.KeepAlive(set.file)
	return cs, refused, nil
}

// A Trap counts how often a process comes by some places of a file, and may
// stop it there as SIGSTOP does.
type Trap struct {
	count *uint64
	mem   []byte
	links io.Closer
	prog  *ebpf.Program
}

// When a trap stops the process: never, every time, or at the time of that
// number, from 1.
const (
	StopNever  = 0
	StopAlways = -1
)

// SetTrap sets a trap at offsets of a file.
func SetTrap(pid int, file *os.File, offs []uint64, stop int) (*Trap, error) {
	attach := uint32(0)
	if haveUprobeMulti() {
		attach = typeUprobeMulti
	}
	t := new(Trap)
	counter, err := ebpf.NewMap(&ebpf.MapSpec{Name: "dt_trap", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("it takes root, or the capabilities bpf and perfmon: %w", os.ErrPermission)
	}
	if err != nil {
		return nil, fmt.Errorf("trap in process %d: %w", pid, err)
	}
	defer counter.Close() // the program and the mapping hold it
	fd, err := loadTrap(attach, counter.FD(), stop)
	if err != nil {
		return nil, fmt.Errorf("trap in process %d: %w", pid, err)
	}
	if t.prog, err = ebpf.NewProgramFromFD(fd); err != nil {
		return nil, err
	}
	t.mem, err = unix.Mmap(counter.FD(), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.prog.Close()
		return nil, fmt.Errorf("trap in process %d: %w", pid, err)
	}
	t.count = (*uint64)(unsafe.Pointer(&t.mem[0]))
	set := uprobeSet{file: file, name: file.Name(), pid: pid}
	for _, off := range offs {
		set.sites = append(set.sites, uprobeSite{off: off})
	}
	cs, refused, err := attachUprobeSet(t.prog, &set, set.sites)
	t.links = cs
	if err == nil && len(refused) > 0 {
		err = refused[0].Err
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Count is how often the process has come by.
func (t *Trap) Count() uint64 { return atomic.LoadUint64(t.count) }

// Close takes the trap away. That waits for a grace period. Count must not be
// called any more.
func (t *Trap) Close() error {
	err := t.links.Close()
	unix.Munmap(t.mem)
	return errors.Join(err, t.prog.Close())
}

// loadTrap loads a program that counts in a map. Before it counts a time at
// which it is to stop it sends SIGSTOP to the current process, so that whoever
// sees the count may send SIGCONT.
func loadTrap(attach uint32, counter, stop int) (int, error) {
	const sigstop, sendSignal, mapValue = 19, 109, 2
	insns := []uint64{
		0x18 | 6<<8 | mapValue<<12 | uint64(counter)<<32, 0, // r6 = &counter
	}
	if stop > 0 {
		insns = append(insns,
			0x79|2<<8|6<<12,                    // r2 = *(u64 *)r6
			0x55|2<<8|2<<16|uint64(stop-1)<<32) // if r2 != stop-1 goto +2
	}
	if stop != StopNever {
		insns = append(insns,
			0xb7|1<<8|sigstop<<32, // r1 = SIGSTOP
			0x85|sendSignal<<32)   // call bpf_send_signal
	}
	insns = append(insns,
		0xb7|2<<8|1<<32, // r2 = 1
		0xdb|6<<8|2<<12, // lock *(u64 *)r6 += r2
		0xb7, 0x95)      // return 0
	return kernel.LoadProgram(insns, &kernel.ProgAttr{Type: progKprobe, AttachType: attach, Name: kernel.ObjName("dt_trap")})
}

// A Host is what providers of user probes ask of the session.
type Host struct {
	// Procs is what is known of the processes traced.
	Procs *symbol.Processes
	// Ready is called before the objects of a process are looked at: a process
	// that has not begun yet runs up to where its libraries are mapped.
	Ready func(pid int) error
	// Notice tells the user something beside the output.
	Notice func(format string, args ...any)
	// Debug gets what only matters to who looks for faults.
	Debug func(format string, args ...any)
	// Option is the value of a session option.
	Option func(name string) int64
}

// A Grower is a provider whose descriptions may match more while tracing goes on.
type Grower interface {
	// Grows returns the process in which a description may match more than it
	// does, once more libraries are loaded; KernelModules if that is so once
	// modules are; 0 if there is none. matched is how many probes it matches now.
	Grows(d probe.Desc, matched int) int
	// Loaded says that a process has loaded or dropped libraries, or the kernel
	// modules.
	Loaded(pid int)
}

// A User is a provider of probes in user programs.
type User interface {
	Grower
	// SetHost gives it the session.
	SetHost(*Host)
}
