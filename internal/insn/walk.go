package insn

import "fmt"

// At is an instruction and where it is.
type At struct {
	Insn
	Addr uint64
	Off  int // Addr minus the start of the code
}

// Next is the address behind the instruction.
func (a At) Next() uint64 { return a.Addr + uint64(a.Len) }

// Target is where a relative branch or call goes.
func (a At) Target() (uint64, bool) { return a.Insn.Target(a.Addr) }

// Error says where the bytes stopped making sense: data in the text, or the
// wrong place to begin.
type Error struct {
	Addr  uint64
	Off   int
	Bytes []byte // what is there, at most MaxLen
	Err   error  // ErrInvalid, ErrTruncated, ErrTooLong
}

func (e *Error) Error() string {
	return fmt.Sprintf("0x%x (offset 0x%x): % x: %v", e.Addr, e.Off, e.Bytes, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Walk visits the instructions of 64-bit code, which lies at addr, until visit
// returns false. The error is an *Error.
func Walk(code []byte, addr uint64, visit func(At) bool) error { return Mode64.Walk(code, addr, visit) }

// Walk is the function Walk for code of that mode.
func (m Mode) Walk(code []byte, addr uint64, visit func(At) bool) error {
	for off := 0; off < len(code); {
		in, err := decode(code[off:], m == Mode64)
		if err != nil {
			b := code[off:min(len(code), off+MaxLen)]
			return &Error{addr + uint64(off), off, b, err}
		}
		if !visit(At{in, addr + uint64(off), off}) {
			return nil
		}
		off += int(in.Len)
	}
	return nil
}

// Boundaries lists the offsets at which instructions begin.
func Boundaries(code []byte, addr uint64) ([]int, error) { return Mode64.Boundaries(code, addr) }

// Boundaries is the function Boundaries for code of that mode.
func (m Mode) Boundaries(code []byte, addr uint64) ([]int, error) {
	var out []int
	err := m.Walk(code, addr, func(a At) bool {
		out = append(out, a.Off)
		return true
	})
	return out, err
}

// Thunk is what a call or jump to some address stands for.
type Thunk uint8

const (
	NoThunk       Thunk = iota
	ReturnThunk         // a jump there is a return: __x86_return_thunk
	IndirectThunk       // a jump or call there is an indirect one: __x86_indirect_thunk_rax
)

// World answers what the code of a function alone does not tell. A nil
// function means "no" for every address.
type World struct {
	Mode  Mode // of the code
	Thunk func(target uint64) Thunk
	Part  func(target uint64) bool // another part of the same function: its .cold half
}

// ExitKind is how control leaves a function for its caller.
type ExitKind uint8

const (
	ExitRet      ExitKind = iota // ret
	ExitThunk                    // jump to a return thunk
	ExitTail                     // jump to another function, which returns in our stead
	ExitTailCond                 // the same by a conditional jump
	ExitTailInd                  // indirect jump that is no jump table
)

func (k ExitKind) String() string {
	return [...]string{"ret", "return thunk", "tail call", "conditional tail call", "indirect tail call"}[k]
}

// Exit is an instruction by which a function may return.
type Exit struct {
	At
	Kind ExitKind
}

// JumpKind is what an indirect jump is, as far as its neighbourhood tells.
type JumpKind uint8

const (
	JumpUnknown JumpKind = iota
	JumpTable            // a switch: stays in the function
	JumpTail             // through a fixed slot, as to an imported function: leaves it
)

// IndirectJump is a jump through a register or memory.
type IndirectJump struct {
	At
	Kind JumpKind
}

// Function is what a walk over a function finds.
type Function struct {
	Addr     uint64
	Size     int
	Count    int // instructions
	Exits    []Exit
	Indirect []IndirectJump // those of JumpTail are among Exits too
	Calls    []At
}

// window is how many instructions before an indirect jump are searched for the
// load of a table entry; compilers place it within a few.
const window = 12

// Analyze walks a function whose bytes are code. If they do not decode to the
// end the error is an *Error and the result holds what was found before it:
// places from there on are unknown, and the function should not be probed.
func Analyze(code []byte, addr uint64, w World) (Function, error) {
	f := Function{Addr: addr, Size: len(code)}
	thunk := func(t uint64) Thunk {
		if w.Thunk == nil {
			return NoThunk
		}
		return w.Thunk(t)
	}
	inside := func(t uint64) bool {
		return t-addr < uint64(len(code)) || w.Part != nil && w.Part(t)
	}
	var last [window]Insn
	err := w.Mode.Walk(code, addr, func(a At) bool {
		switch c := a.Class(); {
		case c == Ret, c == Iret, c == Sysret, c == Sysexit:
			f.Exits = append(f.Exits, Exit{a, ExitRet})
		case c == Call:
			f.Calls = append(f.Calls, a)
		case c == Jmp && a.Indirect():
			kind := jumpKind(a, last[:], f.Count)
			f.Indirect = append(f.Indirect, IndirectJump{a, kind})
			if kind == JumpTail {
				f.Exits = append(f.Exits, Exit{a, ExitTailInd})
			}
		case c == Jmp || c.Conditional():
			t, ok := a.Target()
			if !ok || inside(t) {
				break
			}
			switch thunk(t) {
			case ReturnThunk:
				f.Exits = append(f.Exits, Exit{a, ExitThunk})
			case IndirectThunk:
				f.Indirect = append(f.Indirect, IndirectJump{a, jumpKind(a, last[:], f.Count)})
			default:
				kind := ExitTail
				if c != Jmp {
					kind = ExitTailCond
				}
				f.Exits = append(f.Exits, Exit{a, kind})
			}
		}
		last[f.Count%window] = a.Insn
		f.Count++
		return true
	})
	return f, err
}

// LoadsEntry reports whether an instruction loads an entry of a table, as is done
// before a jump through one: movslq (table,index,4),reg of offsets or mov
// (table,index,8),reg of addresses, in 32-bit code mov (table,index,4),reg of
// either. m is its memory operand.
func (in *Insn) LoadsEntry() (m Mem, ok bool) {
	m, ok = in.Mem()
	if !ok || in.Map != Map1 || in.Vex != NoVex || m.Index == NoReg {
		return m, false
	}
	if !in.bits64 {
		return m, in.Op == 0x8b && m.Scale == 4
	}
	return m, in.Op == 0x63 && m.Scale == 4 || in.Op == 0x8b && m.Scale == 8
}

// AddsTo reports whether an instruction is an addition to a register, 0 to 7: the
// last step to the target of a switch in 32-bit position-independent code.
func (in *Insn) AddsTo(reg byte) bool {
	if in.Map != Map1 || in.Vex != NoVex {
		return false
	}
	return in.Op == 0x03 && in.ModRM>>3&7 == reg || in.Op == 0x01 && in.ModRM == 0xc0|in.ModRM&0x38|reg
}

// jumpKind guesses from the instructions before the jump, of which last holds
// the latest n%window.
func jumpKind(a At, last []Insn, n int) JumpKind {
	if a.Seg == 0x3e {
		return JumpTable // notrack: compilers mark the jumps of switches with it
	}
	if m, ok := a.Mem(); ok {
		switch {
		case m.RIP, !a.bits64 && m.Base == NoReg && m.Index == NoReg:
			return JumpTail
		case m.Index != NoReg && m.Scale >= 4:
			return JumpTable
		}
		return JumpUnknown // a function pointer in a structure, most likely
	}
	if n > 0 && last[(n-1)%len(last)].AddsTo(a.ModRM&7) && !a.bits64 {
		return JumpTable // by an offset
	}
	for i := 1; i <= min(n, len(last)); i++ {
		if _, ok := last[(n-i)%len(last)].LoadsEntry(); ok {
			return JumpTable
		}
	}
	return JumpUnknown
}

// Step is what the kernel does with the instruction under a uprobe.
type Step uint8

const (
	Stepped  Step = iota // executed out of line, with a second trap
	Emulated             // done by the kernel: about half the cost
	Refused              // the kernel will not place a probe here
)

// Uprobe tells how the kernel treats a uprobe on the instruction, by what
// Linux 6.18 answered for a probe on each opcode in turn. It refuses LOCK and
// the segment prefixes other than FS and GS, what traps or touches devices by
// itself, relative calls and jumps with an operand size, and vector
// instructions whose opcode, taken for one of the one-byte map, would be
// refused or does not exist there: vmovdqa among them. It emulates pushes of a
// register, no-operations, and relative jumps and calls.
func (in Insn) Uprobe() Step {
	if in.Prefix&Lock != 0 || in.Seg != 0 && in.Seg < 0x40 {
		return Refused
	}
	if in.Vex != NoVex {
		if refusedOneByte(in.Op) || mistaken(in.Op) || in.unknownVector() {
			return Refused
		}
		return Stepped
	}
	switch c := in.Class(); c {
	case Nop:
		if in.Op == 0x90 || in.Op == 0x1f {
			return Emulated
		}
	case Push:
		if in.Map == Map1 && in.Op&0xf8 == 0x50 && (in.Len == 1 || in.Len == 2 && in.Rex == RexB) {
			return Emulated
		}
	default:
		if in.RelLen > 0 && (c == Call || c == Jmp || c.Conditional()) {
			if in.Prefix&OpSize != 0 {
				return Refused
			}
			return Emulated
		}
	}
	if in.Map == Map1 && in.bits64 && refusedOneByte(in.Op) {
		return Refused
	}
	if c := in.Class(); in.Map == Map1 && (c == Int || c == Iret || c == HLT || c == CLI || c == STI || c == In || c == Out) {
		return Refused
	}
	return Stepped
}

// unknownVector reports the vector instructions that the kernel cannot decode:
// those that only some of AMD's processors had, XOP and FMA4.
func (in Insn) unknownVector() bool {
	if in.Vex == XOP {
		return true
	}
	op := in.Op
	return in.Vex == VEX && in.Map == Map3A && (op|1 == 0x49 || op&^3 == 0x5c || op&^7 == 0x68 || op&^7 == 0x78)
}

// mistaken lists the opcodes of vector instructions that the kernel would
// accept and then take for those of the one-byte map: it would emulate
// vpbroadcastb as a conditional jump and vpor as a jump, and not set the
// instruction pointer right behind vcmpps (arch/x86/kernel/uprobes.c looks at
// the opcode byte alone). The program would go astray.
func mistaken(op byte) bool {
	switch {
	case op&0xf0 == 0x70, op&0xf8 == 0x50: // jcc, push
		return true
	}
	switch op {
	case 0x90, 0xe8, 0xe9, 0xeb, // nop, call, jmp
		0xc2, 0xc3, 0xca, 0xcb, 0xff, // ret, call and jmp through a pointer
		0x9d: // popf
		return true
	}
	return false
}

// refusedOneByte lists the opcodes of the one-byte map that 64-bit mode lacks
// or user mode may not execute.
func refusedOneByte(op byte) bool {
	switch op {
	case 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x62, 0x82, 0x9a, 0xd4, 0xd5, 0xd6, 0xea, // not there
		0x6c, 0x6d, 0x6e, 0x6f, 0xe4, 0xe5, 0xe6, 0xe7, 0xec, 0xed, 0xee, 0xef, // in, out
		0xcc, 0xcd, 0xce, 0xcf, 0xf1, 0xf4, 0xfa, 0xfb:
		return true
	}
	return false
}

// Entry describes how a function begins.
type Entry struct {
	Endbr bool // begins with endbr64 (or endbr32)
	First Insn // the first instruction
	Body  Insn // the first behind endbr; First without it
	// Off is where a probe costs least and the registers and the stack are
	// still those of the entry: behind endbr if the next instruction is
	// emulated, else 0.
	Off int
}

// EntryOf classifies the beginning of a function of 64-bit code.
func EntryOf(code []byte) (Entry, error) { return Mode64.EntryOf(code) }

// EntryOf is the function EntryOf for code of that mode.
func (m Mode) EntryOf(code []byte) (Entry, error) {
	in, err := m.Decode(code)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{First: in, Body: in}
	if in.Class() == Endbr {
		e.Endbr = true
		if next, err := m.Decode(code[in.Len:]); err == nil {
			if e.Body = next; next.Uprobe() == Emulated {
				e.Off = int(in.Len)
			}
		}
	}
	return e, nil
}
