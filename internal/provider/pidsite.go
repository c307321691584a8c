package provider

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"godtrace/internal/insn"
	"godtrace/internal/probe"
	"godtrace/internal/symbol"
)

// maxUserFunc bounds the size of a function that is read: sizes in damaged files
// mean nothing.
const maxUserFunc = 16 << 20

// exitKind is what a place in a function is to a probe.
type exitKind uint8

const (
	kindInsn exitKind = iota // the instruction itself
	kindEntry
	kindRet
	kindTail
	kindTailCond
	kindAddress // the return address, replaced when the function is called
)

// exit is a place in a function where a probe fires: its entry, an
// instruction, or one by which it is left.
type exit struct {
	off   uint64 // in the file
	fnOff uint32 // from the start of the function
	cond  probe.Cond
	rel   int32 // where a branch leads, less where it is; 0: the instruction does not tell
	kind  exitKind
	step  insn.Step
}

func (e exit) String() string {
	s := map[exitKind]string{
		kindInsn: "an instruction", kindEntry: "the first instruction", kindRet: "a return instruction",
		kindTail: "a jump out", kindTailCond: "a conditional jump out",
		kindAddress: "the return address",
	}[e.kind]
	if e.kind == kindEntry && e.fnOff > 0 {
		s = "an instruction behind the first"
	}
	if e.step == insn.Emulated {
		return s + ", emulated"
	}
	return s + ", single-stepped"
}

// code returns the bytes of a function, not to be changed.
func (u *userFile) code(f symbol.Func) ([]byte, error) {
	if f.Size > maxUserFunc {
		return nil, fmt.Errorf("its size, %d bytes, cannot be", f.Size)
	}
	if i := f.Value - u.textAt; i < uint64(len(u.text)) && f.Size <= uint64(len(u.text))-i {
		return u.text[i : i+f.Size], nil
	}
	b := make([]byte, f.Size)
	return b, u.obj.ReadAt(b, f.Value)
}

// maxText bounds the text that is read as a whole.
const maxText = 64 << 20

// readText reads all functions at once, for requests that look at many.
func (u *userFile) readText() {
	if u.text != nil || len(u.funcs) == 0 {
		return
	}
	first, last := u.funcs[0], u.funcs[len(u.funcs)-1]
	if n := last.Value + last.Size - first.Value; n < maxText {
		b := make([]byte, n)
		if u.obj.ReadAt(b, first.Value) == nil {
			u.text, u.textAt = b, first.Value
		}
	}
}

// head returns up to 64 bytes of the beginning of a function.
func (u *userFile) head(f symbol.Func) ([]byte, error) {
	const most = 64
	if f.Size == 0 || f.Size > most {
		f.Size = most
	}
	for ; f.Size > 0; f.Size /= 2 { // a function of unknown size may end sooner
		if b, err := u.code(f); err == nil {
			return b, nil
		}
	}
	return nil, errors.New("it is not in the file")
}

var errNotX86 = errors.New("only x86 code can be searched for it")

// mode is how wide the code of the file is.
func (u *userFile) mode() insn.Mode {
	if u.obj.Machine == elf.EM_386 {
		return insn.Mode32
	}
	return insn.Mode64
}

// isX86 reports whether the instructions of the file can be told.
func (u *userFile) isX86() bool { return u.obj.Machine == elf.EM_X86_64 || u.obj.Machine == elf.EM_386 }

// entry is where to probe the call of a function: its first instruction, or
// the second where the first leaves the registers of arguments and the stack
// as they are and the second serves better: behind an endbr64 if the kernel
// can emulate that instruction, at a twentieth of the cost; and behind a
// vector instruction that the kernel refuses. No jump may lead there. Of Go it
// is the instruction behind the check of the stack.
func (u *userFile) entry(f *function) (exit, error) {
	e := exit{off: f.Off, kind: kindEntry, step: insn.Stepped}
	if !u.isX86() {
		return e, nil
	}
	head, err := u.head(f.Func)
	if err != nil {
		return e, err
	}
	in, err := u.mode().EntryOf(head)
	if err != nil {
		return e, err
	}
	first := in.First
	e.step = first.Uprobe()
	second := 0
	if u.isGo() {
		if n := behindStackCheck(head, u.mode()); n > 0 {
			if next, err := u.mode().Decode(head[n:]); err == nil && next.Uprobe() != insn.Refused {
				e.off += uint64(n)
				e.fnOff, e.step = uint32(n), next.Uprobe()
				return e, nil
			}
		}
	}
	switch {
	case in.Off > 0:
		second = in.Off
	case e.step == insn.Refused && vectorOnly(first):
		second = int(first.Len)
	}
	if second > 0 && second < len(head) && !u.jumpsTo(f.Func, f.Value+uint64(second)) {
		if next, err := u.mode().Decode(head[second:]); err == nil && next.Uprobe() != insn.Refused {
			e.off += uint64(second)
			e.fnOff, e.step = uint32(second), next.Uprobe()
		}
	}
	if e.step == insn.Refused {
		return e, &refusedError{"its first instruction, " + describe(first)}
	}
	return e, nil
}

// refusedError is about an instruction that the kernel admits no probe on.
type refusedError struct{ what string }

func (e *refusedError) Error() string { return "the kernel does not put probes on " + e.what }

// behindStackCheck is the length of the code by which a Go function begins that
// asks whether the stack suffices; 0 without it. Where it does not, the
// function begins anew on a larger stack, so that its first instruction runs
// twice in one call. The check leaves the registers of arguments alone.
func behindStackCheck(head []byte, mode insn.Mode) int {
	// The goroutine's member stackguard0, behind two words, and the register with
	// its address; in 32-bit code it is loaded before.
	guard, base := int64(0x10), byte(14)
	if mode == insn.Mode32 {
		guard, base = 8, 1
	}
	compared := false
	end := 0
	mode.Walk(head, 0, func(a insn.At) bool {
		if m, ok := a.Mem(); ok && a.Map == insn.Map1 && a.Op == 0x3b && m.Base == base && m.Disp == guard {
			compared = true
		} else if c := a.Class(); c.Conditional() {
			if compared {
				end = a.Off + int(a.Len)
				return false
			}
		} else if c == insn.Call || c == insn.Ret || c == insn.Jmp || c == insn.Push {
			return false
		}
		return true
	})
	if end >= len(head) {
		return 0
	}
	return end
}

// jumpsTo reports whether an instruction of a function leads to an address; yes
// if that cannot be known.
func (u *userFile) jumpsTo(f symbol.Func, target uint64) bool {
	code, err := u.code(f)
	if err != nil || f.Size == 0 {
		return true
	}
	found := false
	err = u.mode().Walk(code, f.Value, func(a insn.At) bool {
		if t, ok := a.Target(); ok && t == target {
			found = true
		}
		return !found
	})
	return found || err != nil
}

// vectorOnly reports whether an instruction is known to write nothing but a
// vector register: moves, broadcasts and logic such as string functions begin
// with.
func vectorOnly(in insn.Insn) bool {
	if in.Vex != insn.VEX && in.Vex != insn.EVEX {
		return false
	}
	switch in.Map {
	case insn.Map0F:
		switch in.Op {
		case 0x6e, 0x6f, 0x74, 0x75, 0x76, 0xeb, 0xef: // vmov, vpcmpeq, vpor, vpxor
			return true
		}
	case insn.Map38:
		switch in.Op {
		case 0x58, 0x59, 0x5a, 0x78, 0x79, 0x7a, 0x7b, 0x7c: // vpbroadcast
			return true
		}
	}
	return false
}

// describe names an instruction as well as its class does.
func describe(in insn.Insn) string {
	if in.Vex != insn.NoVex && in.Class() == insn.Other {
		return "a vector instruction"
	}
	return strconv.Quote(in.String())
}

// leaving is where a function may be left, or why that cannot be told.
type leaving struct {
	at  []exit
	err error
}

// leftKey are functions whose code is the same: aliases.
type leftKey struct{ value, size, cold uint64 }

func keyOf(f *function) leftKey {
	k := leftKey{value: f.Value, size: f.Size}
	if len(f.cold) > 0 {
		k.cold = f.cold[0].Value
	}
	return k
}

// exits lists where a function may be left for its caller; it looks once at
// each. The result is not to be changed.
func (u *userFile) exits(f *function) ([]exit, error) {
	k := keyOf(f)
	l, ok := u.left[k]
	if !ok {
		l.at, l.err = u.searchExits(f)
		if u.left == nil {
			u.left = map[leftKey]leaving{}
		}
		u.left[k] = l
	}
	return l.at, l.err
}

// findExits looks for the exits of many functions side by side.
func (u *userFile) findExits(want func(name string) bool) {
	var fs []*function
	seen := make(map[leftKey]bool, len(u.funcs))
	for i := range u.funcs {
		f := &u.funcs[i]
		k := keyOf(f)
		if _, ok := u.left[k]; !ok && !seen[k] && f.Size > 0 && want(f.Name) {
			seen[k] = true
			fs = append(fs, f)
		}
	}
	const few = 64
	if len(fs) < few {
		return
	}
	u.obj.Row(0) // reads the unwind table, once for all
	found := make([]leaving, len(fs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				from := int(next.Add(few)) - few
				if from >= len(fs) {
					return
				}
				for i := from; i < min(from+few, len(fs)); i++ {
					found[i].at, found[i].err = u.searchExits(fs[i])
				}
			}
		})
	}
	wg.Wait()
	if u.left == nil {
		u.left = make(map[leftKey]leaving, len(fs))
	}
	for i, f := range fs {
		u.left[keyOf(f)] = found[i]
	}
}

// searchExits lists where a function may be left for its caller: its return
// instructions and the jumps to other functions, which return in its stead.
//
// A jump is one of the latter only if the frame is gone by then, and the code
// it leads to expects none: a jump to a part split off keeps the frame.
func (u *userFile) searchExits(f *function) ([]exit, error) {
	if !u.isX86() {
		return nil, errNotX86
	}
	if f.Size == 0 {
		return nil, errors.New("its size is not known")
	}
	parts := append([]symbol.Func{f.Func}, f.cold...)
	part := u.obj.Part(f.Name)
	world := insn.World{Mode: u.mode(), Part: func(t uint64) bool {
		for _, s := range parts {
			if t-s.Value < s.Size {
				return true
			}
		}
		return part(t)
	}}
	described := u.obj.Row(f.Value).CFA != symbol.CFANone
	var out []exit
	for _, s := range parts {
		code, err := u.code(s)
		if err != nil {
			return nil, err
		}
		fn, err := insn.Analyze(code, s.Value, world)
		if err != nil {
			return nil, err
		}
		add := func(a insn.At, kind exitKind) error {
			e := exit{off: s.Off + uint64(a.Off), fnOff: uint32(a.Addr - f.Value), kind: kind, step: a.Uprobe()}
			if e.step == insn.Refused {
				return &refusedError{fmt.Sprintf("the instruction %s at 0x%x", describe(a.Insn), e.fnOff)}
			}
			if kind == kindTailCond {
				cc, ok := a.Cond()
				if !ok {
					return fmt.Errorf("it is left by the instruction %q at 0x%x", a.Insn.String(), e.fnOff)
				}
				e.cond = probe.CondOf(cc)
			}
			out = append(out, e)
			return nil
		}
		for _, x := range fn.Exits {
			kind := kindRet
			switch x.Kind {
			case insn.ExitTail, insn.ExitTailCond, insn.ExitTailInd:
				kind = kindTail
				if x.Kind == insn.ExitTailCond {
					kind = kindTailCond
				}
				if !u.frameless(x.Addr, true) {
					continue
				}
				if t, ok := x.Target(); ok && !u.frameless(t, true) {
					continue
				}
			}
			if err := add(x.At, kind); err != nil {
				return nil, err
			}
		}
		for _, j := range fn.Indirect {
			if (j.Kind == insn.JumpUnknown || u.callsTable(code, j)) && u.frameless(j.Addr, !described) {
				if err := add(j.At, kindTail); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// callsTable reports whether a jump through a table of addresses would be one
// to another function. A table whose place is known tells by what it holds.
// Otherwise: compilers of position-independent C make their switches with
// tables of offsets, Go does not.
func (u *userFile) callsTable(code []byte, j insn.IndirectJump) bool {
	if j.Kind != insn.JumpTable || j.Seg == notrack {
		return false
	}
	size := 8
	if u.mode() == insn.Mode32 {
		size = 4
	}
	m, ok := j.Mem()
	if !ok {
		// Through a register: the entry was loaded a few instructions before.
		const near = 12
		n, last, offsets := 0, -near, false
		u.mode().Walk(code[:j.Off], j.Addr-uint64(j.Off), func(a insn.At) bool {
			if x, ok := a.LoadsEntry(); ok {
				m, last = x, n
			}
			offsets = size == 4 && a.AddsTo(j.ModRM&7)
			n++
			return true
		})
		if n-last > near || offsets {
			return false
		}
	}
	if int(m.Scale) != size || m.RIP {
		return false
	}
	if m.Base != insn.NoReg {
		return !u.isGo()
	}
	var entry [8]byte
	at := uint64(m.Disp)
	if size == 4 {
		at = uint64(uint32(at))
	}
	if u.obj.ReadAt(entry[:size], at) != nil {
		return false
	}
	begin := j.Addr - uint64(j.Off)
	return binary.LittleEndian.Uint64(entry[:])-begin >= uint64(len(code))
}

// notrack is the prefix by which compilers mark the jumps of switches.
const notrack = 0x3e

func (u *userFile) isGo() bool { return u.goProgram }

// frameless reports whether nothing but the return address lies on the stack
// at an instruction: what the unwind tables say, or unknown where they are
// silent.
func (u *userFile) frameless(value uint64, unknown bool) bool {
	switch row := u.obj.Row(value); row.CFA {
	case symbol.CFARSP:
		return row.CFAOff == 8
	case symbol.CFANone, symbol.CFAUnknown, symbol.CFAPLT:
		return unknown
	}
	return false
}
