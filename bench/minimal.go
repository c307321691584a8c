package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A minimal program is what a patient person would assemble by hand for one
// benchmark, and no more: the mark that a compiler's output is held against.
// It hangs on the BTF form of the raw system call tracepoints, the cheapest
// that the kernel has.
type minimal struct {
	maps  []*ebpf.Map
	progs []*ebpf.Program
	links []link.Link
	count func() (uint64, error) // firings it has counted
	stop  chan struct{}
	wg    sync.WaitGroup
}

func (m *minimal) close() {
	for _, l := range m.links {
		l.Close()
	}
	if m.stop != nil {
		close(m.stop)
		m.wg.Wait()
	}
	for _, p := range m.progs {
		p.Close()
	}
	for _, x := range m.maps {
		x.Close()
	}
}

func (m *minimal) newMap(spec *ebpf.MapSpec) (*ebpf.Map, error) {
	x, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("%s map: %w", spec.Type, err)
	}
	m.maps = append(m.maps, x)
	return x, nil
}

// attach loads a program on sys_enter or sys_exit.
func (m *minimal) attach(to string, ins asm.Instructions) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "minimal", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: to,
		License: "GPL", Instructions: ins,
	})
	if err != nil {
		return fmt.Errorf("%s: %+v", to, err)
	}
	m.progs = append(m.progs, p)
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return fmt.Errorf("attach %s: %w", to, err)
	}
	m.links = append(m.links, l)
	return nil
}

// Offsets in x86-64's struct pt_regs, and system call numbers.
const (
	regDX, regSI, regDI, regOrigAX = 96, 104, 112, 120
	sysRead, sysGetppid            = unix.SYS_READ, unix.SYS_GETPPID
)

const word = asm.DWord

// entryOf begins a program on sys_enter that leaves unless the call is id:
// R6 is the context, R7 the number.
func entryOf(id int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 8, word),
		asm.JNE.Imm(asm.R7, id, "out"),
	}
}

func out() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return()}
}

// increment adds one at the address in R1.
func increment() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R2, 1), asm.AddAtomic.Mem(asm.R1, asm.R2, word, 0)}
}

// bucket turns the value in R2 into 8 times its power of two, in R3.
func bucket() asm.Instructions {
	ins := asm.Instructions{asm.Mov.Imm(asm.R3, 0)}
	for bits := int32(32); bits >= 1; bits /= 2 {
		next := fmt.Sprintf("below%d", bits)
		ins = append(ins,
			asm.Mov.Reg(asm.R4, asm.R2),
			asm.RSh.Imm(asm.R4, bits),
			asm.JEq.Imm(asm.R4, 0, next),
			asm.Mov.Reg(asm.R2, asm.R4),
			asm.Add.Imm(asm.R3, bits),
			asm.Mov.Reg(asm.R3, asm.R3).WithSymbol(next),
		)
	}
	return append(ins, asm.And.Imm(asm.R3, 63), asm.LSh.Imm(asm.R3, 3))
}

func join(parts ...asm.Instructions) (all asm.Instructions) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// array is a one-entry array of n counters, at an address the program knows.
func (m *minimal) array(n int) (*ebpf.Map, error) {
	a, err := m.newMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(8 * n), MaxEntries: 1})
	if err != nil {
		return nil, err
	}
	m.count = func() (sum uint64, err error) {
		value, err := a.LookupBytes(uint32(0))
		for i := 0; i+8 <= len(value); i += 8 {
			sum += binary.NativeEndian.Uint64(value[i:])
		}
		return sum, err
	}
	return a, nil
}

// start attaches the minimal program of that name.
func startMinimal(name string) (*minimal, error) {
	begin, ok := minimals[name]
	if !ok {
		return nil, fmt.Errorf("no minimal program for %s", name)
	}
	m := new(minimal)
	if err := begin(m); err != nil {
		m.close()
		return nil, fmt.Errorf("minimal %s: %w", name, err)
	}
	return m, nil
}

// frames20 has the kernel's helper walk along frame pointers, leaves what it
// finds behind a counter, and counts the walks that found 20.
func frames20(m *minimal) error {
	a, err := m.newMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8 + 160, MaxEntries: 1})
	if err != nil {
		return err
	}
	m.count = func() (uint64, error) {
		value, err := a.LookupBytes(uint32(0))
		if err != nil {
			return 0, err
		}
		return binary.NativeEndian.Uint64(value), nil
	}
	return m.attach("sys_enter", join(entryOf(sysGetppid), asm.Instructions{
		asm.LoadMapValue(asm.R2, a.FD(), 8), asm.Mov.Imm(asm.R3, 160), asm.Mov.Imm(asm.R4, 256), asm.FnGetStack.Call(),
		asm.JNE.Imm(asm.R0, 160, "out"), asm.LoadMapValue(asm.R1, a.FD(), 0),
	}, increment(), out()))
}

var minimals = map[string]func(m *minimal) error{
	"20 frames, frame pointers": frames20,
	"20 frames, tables":         frames20,
	"count": func(m *minimal) error {
		a, err := m.array(1)
		if err != nil {
			return err
		}
		return m.attach("sys_enter", join(entryOf(sysGetppid),
			asm.Instructions{asm.LoadMapValue(asm.R1, a.FD(), 0)}, increment(), out()))
	},
	"execname": func(m *minimal) error {
		h, err := m.newMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 16, ValueSize: 8, MaxEntries: 10240})
		if err != nil {
			return err
		}
		m.count = func() (sum uint64, err error) {
			var key [16]byte
			var value uint64
			it := h.Iterate()
			for it.Next(&key, &value) {
				sum += value
			}
			return sum, it.Err()
		}
		return m.attach("sys_enter", join(entryOf(sysGetppid), asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -16), asm.Mov.Imm(asm.R2, 16), asm.FnGetCurrentComm.Call(),
			asm.LoadMapPtr(asm.R1, h.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -16), asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "new"),
			asm.Mov.Reg(asm.R1, asm.R0)}, increment(), asm.Instructions{
			asm.Ja.Label("out"),
			asm.Mov.Imm(asm.R1, 1).WithSymbol("new"), asm.StoreMem(asm.RFP, -24, asm.R1, word),
			asm.LoadMapPtr(asm.R1, h.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -16),
			asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -24), asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call(),
		}, out()))
	},
	"probefunc": func(m *minimal) error {
		a, err := m.array(512)
		if err != nil {
			return err
		}
		return m.attach("sys_enter", join(asm.Instructions{
			asm.LoadMem(asm.R3, asm.R1, 8, word), asm.And.Imm(asm.R3, 511), asm.LSh.Imm(asm.R3, 3),
			asm.LoadMapValue(asm.R1, a.FD(), 0), asm.Add.Reg(asm.R1, asm.R3)}, increment(), out()))
	},
	"quantize": func(m *minimal) error {
		a, err := m.array(64)
		if err != nil {
			return err
		}
		return m.attach("sys_enter", join(entryOf(sysRead), asm.Instructions{
			asm.LoadMem(asm.R2, asm.R6, 0, word), asm.LoadMem(asm.R2, asm.R2, regDX, word)}, bucket(), asm.Instructions{
			asm.LoadMapValue(asm.R1, a.FD(), 0), asm.Add.Reg(asm.R1, asm.R3)}, increment(), out()))
	},
	"false predicate": func(m *minimal) error {
		a, err := m.array(1)
		if err != nil {
			return err
		}
		return m.attach("sys_enter", join(entryOf(sysGetppid), asm.Instructions{
			asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32), asm.JNE.Imm(asm.R0, 1, "out"),
			asm.LoadMapValue(asm.R1, a.FD(), 0)}, increment(), out()))
	},
	"latency": func(m *minimal) error {
		h, err := m.newMap(taskStorage())
		if err != nil {
			return err
		}
		a, err := m.array(64)
		if err != nil {
			return err
		}
		storage := func(flags int32) asm.Instructions {
			return asm.Instructions{asm.FnGetCurrentTaskBtf.Call(),
				asm.LoadMapPtr(asm.R1, h.FD()), asm.Mov.Reg(asm.R2, asm.R0), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, flags),
				asm.FnTaskStorageGet.Call(), asm.JEq.Imm(asm.R0, 0, "out"), asm.Mov.Reg(asm.R8, asm.R0)}
		}
		const create = 1 // BPF_LOCAL_STORAGE_GET_F_CREATE
		if err := m.attach("sys_enter", join(entryOf(sysRead), storage(create), asm.Instructions{
			asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.R8, 0, asm.R0, word)}, out())); err != nil {
			return err
		}
		return m.attach("sys_exit", join(asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, 0, word), asm.LoadMem(asm.R2, asm.R2, regOrigAX, word), asm.JNE.Imm(asm.R2, sysRead, "out")},
			storage(0), asm.Instructions{
				asm.LoadMem(asm.R9, asm.R8, 0, word), asm.JEq.Imm(asm.R9, 0, "out"),
				asm.FnKtimeGetNs.Call(), asm.Mov.Reg(asm.R2, asm.R0), asm.Sub.Reg(asm.R2, asm.R9),
				asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R8, 0, asm.R1, word)}, bucket(), asm.Instructions{
				asm.LoadMapValue(asm.R1, a.FD(), 0), asm.Add.Reg(asm.R1, asm.R3)}, increment(), out()))
	},
	"printf 64 bytes": func(m *minimal) error { return m.ring() },
}

// A ring of the "printf 64 bytes" program is one value of a mapped array:
//
//	0     head, bytes ever reserved (by the program)
//	64    tail, bytes ever read (by us)
//	128   records dropped
//	4096  data, ringSize bytes, and a page behind for a record across the end
const (
	ringSize   = 4 << 20
	ringValue  = 4096 + ringSize + 4096
	recordSize = 8 + 64 // a header, eight values
)

func (m *minimal) ring() error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	a, err := m.newMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: ringValue, MaxEntries: uint32(cpus), Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		return err
	}
	mem, err := unix.Mmap(a.FD(), 0, cpus*ringValue, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the ring: %w", err)
	}
	at := func(cpu, off int) uint64 { return binary.NativeEndian.Uint64(mem[cpu*ringValue+off:]) }
	m.stop = make(chan struct{})
	m.wg.Go(func() { // the reader: it only says that all has been read
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-m.stop:
				unix.Munmap(mem)
				return
			case <-tick.C:
				for cpu := range cpus {
					binary.NativeEndian.PutUint64(mem[cpu*ringValue+64:], at(cpu, 0))
				}
			}
		}
	})
	m.count = func() (n uint64, err error) {
		for cpu := range cpus {
			n += at(cpu, 0)/recordSize + at(cpu, 128)
			if at(cpu, 128) > 0 {
				err = errors.New("records dropped")
			}
		}
		return n, err
	}
	fetchAdd := asm.FetchAdd.Mem(asm.R0, asm.R5, word, 0)
	fetchAdd.Constant = int64(asm.FetchAdd >> 8) // the library encodes a plain add otherwise
	ins := join(entryOf(sysRead), asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(), asm.Mov.Reg(asm.R8, asm.R0),
		asm.FnKtimeGetNs.Call(), asm.Mov.Reg(asm.R9, asm.R0),
		asm.FnGetSmpProcessorId.Call(), asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, a.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4), asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R4, asm.R0, 0, word), asm.LoadMem(asm.R3, asm.R0, 64, word), asm.Sub.Reg(asm.R4, asm.R3),
		asm.JGT.Imm(asm.R4, ringSize-8192, "drop"),
		asm.Mov.Imm(asm.R5, recordSize), fetchAdd,
		asm.Mov.Reg(asm.R7, asm.R5), // the position, for the header
		asm.And.Imm(asm.R5, ringSize-1), asm.Mov.Reg(asm.R1, asm.R0), asm.Add.Reg(asm.R1, asm.R5), asm.Add.Imm(asm.R1, 4096),
		asm.Mov.Reg(asm.R2, asm.R8), asm.RSh.Imm(asm.R2, 32), asm.StoreMem(asm.R1, 8, asm.R2, word),
		asm.StoreMem(asm.R1, 16, asm.R8, word), asm.StoreMem(asm.R1, 24, asm.R9, word),
		asm.LoadMem(asm.R3, asm.R6, 0, word),
	})
	for i, reg := range []int16{regDI, regSI, regDX, regDI, regDX} {
		ins = append(ins, asm.LoadMem(asm.R2, asm.R3, reg, word), asm.StoreMem(asm.R1, int16(32+8*i), asm.R2, word))
	}
	ins = append(ins,
		asm.LSh.Imm(asm.R7, 16), asm.Or.Imm(asm.R7, recordSize), asm.StoreMem(asm.R1, 0, asm.R7, word),
		asm.Ja.Label("out"),
		asm.Mov.Imm(asm.R2, 1).WithSymbol("drop"), asm.AddAtomic.Mem(asm.R0, asm.R2, word, 128))
	return m.attach("sys_enter", join(ins, out()))
}

func init() {
	if os.Getpagesize() != 4096 {
		panic("bench: the ring of the minimal program is laid out for pages of 4096 bytes")
	}
}
