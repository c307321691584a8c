package insn

import "encoding/binary"

// Kind is what an instruction does to the flow of control: what probes on
// boundaries of functions need, on any processor.
type Kind uint8

const (
	KindPlain     Kind = iota
	KindCall           // saves where to return
	KindJump           // always, which may leave the function: a tail call
	KindCondJump       //
	KindReturn         //
	KindTrap           // breakpoints, and what is never executed
	KindNop            //
	KindExclusive      // between a load and a store that must not be separated: no probes there
)

// Site is an instruction of any architecture.
type Site struct {
	Addr   uint64
	Off    int // in the code that was walked
	Len    int
	Kind   Kind
	Target uint64 // of a call or jump; 0 if it is not in the instruction
}

// An Arch is what differs from one processor architecture to another.
type Arch interface {
	// Walk visits the instructions of code, which lies at addr, until visit
	// returns false. It ends with an *Error where code cannot be decoded.
	Walk(code []byte, addr uint64, visit func(Site) bool) error
	// Breakpoint is what the kernel puts in the place of a probed instruction.
	Breakpoint() []byte
	// Registers are the names of struct pt_regs, 8 bytes each, in its order.
	Registers() []string
}

// ArchOf finds an architecture by Go's name for it.
func ArchOf(goarch string) (Arch, bool) {
	a, ok := map[string]Arch{"amd64": amd64{}, "arm64": arm64{}}[goarch]
	return a, ok
}

type amd64 struct{}

func (amd64) Breakpoint() []byte { return []byte{0xcc} }

// arch/x86/include/asm/ptrace.h
func (amd64) Registers() []string {
	return []string{
		"r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
		"orig_rax", "rip", "cs", "rflags", "rsp", "ss",
	}
}

func (amd64) Walk(code []byte, addr uint64, visit func(Site) bool) error {
	return Walk(code, addr, func(a At) bool {
		s := Site{Addr: a.Addr, Off: a.Off, Len: int(a.Len)}
		s.Target, _ = a.Target()
		switch c := a.Class(); {
		case c == Call:
			s.Kind = KindCall
		case c == Jmp:
			s.Kind = KindJump
		case c.Conditional(), c == JCXZ, c == Loop:
			s.Kind = KindCondJump
		case c == Ret, c == Iret:
			s.Kind = KindReturn
		case c == Int, c == UD1, c == UD2:
			s.Kind = KindTrap
		case c == Nop:
			s.Kind = KindNop
		}
		return visit(s)
	})
}

// arm64 is AArch64 with the instruction set A64: each instruction is a word of
// four bytes. Encodings are those of the Arm Architecture Reference Manual for
// A-profile, C4.1 and C6.2.
type arm64 struct{}

func (arm64) Breakpoint() []byte { return []byte{0x80, 0x00, 0x20, 0xd4} } // brk #4: KPROBES_BRK_IMM

// arch/arm64/include/asm/ptrace.h
func (arm64) Registers() []string {
	return []string{
		"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
		"x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30",
		"sp", "pc", "pstate",
	}
}

func (arm64) Walk(code []byte, addr uint64, visit func(Site) bool) error {
	for off := 0; off < len(code); off += 4 {
		if off+4 > len(code) {
			return &Error{Off: off, Addr: addr + uint64(off), Err: ErrTruncated}
		}
		s := Site{Addr: addr + uint64(off), Off: off, Len: 4}
		var rel int64
		s.Kind, rel = a64(binary.LittleEndian.Uint32(code[off:]))
		if rel != 0 || s.Kind == KindCall || s.Kind == KindJump || s.Kind == KindCondJump {
			s.Target = s.Addr + uint64(rel)
		}
		if rel == indirect {
			s.Target = 0
		}
		if !visit(s) {
			return nil
		}
	}
	return nil
}

// indirect stands for a target in a register: no displacement is odd.
const indirect = 1

// a64 classifies a word; rel is the displacement of a call's or jump's target.
func a64(w uint32) (k Kind, rel int64) {
	// field is the signed displacement of n bits at bit at, in words.
	field := func(at, n int) int64 { return int64(int32(w<<(32-at-n))>>(32-n)) * 4 }
	switch {
	case w>>16 == 0: // udf
		return KindTrap, 0
	case w&0xfc000000 == 0x14000000: // b
		return KindJump, field(0, 26)
	case w&0xfc000000 == 0x94000000: // bl
		return KindCall, field(0, 26)
	case w&0xff000000 == 0x54000000: // b.cond, bc.cond
		if w&0xe == 0xe {
			return KindJump, field(5, 19) // condition "always"
		}
		return KindCondJump, field(5, 19)
	case w&0x7e000000 == 0x34000000: // cbz, cbnz
		return KindCondJump, field(5, 19)
	case w&0x7e000000 == 0x36000000: // tbz, tbnz
		return KindCondJump, field(5, 14)
	case w&0xfe1f0000 == 0xd61f0000: // by register, with and without authentication
		switch w >> 21 & 0xf {
		case 0, 8:
			return KindJump, indirect // br, braa…
		case 1, 9:
			return KindCall, indirect // blr, blraa…
		case 2, 4, 5:
			return KindReturn, 0 // ret, retaa…, eret, drps
		}
	case w&0xff000000 == 0xd4000000: // exceptions
		switch w >> 21 & 7 {
		case 1, 2: // brk, hlt
			return KindTrap, 0
		}
	case w == 0xd503201f:
		return KindNop, 0
	case w&0x3f800000 == 0x08000000 && (w>>21&1 == 0 || w>>31 == 1): // ldxr, stxr, ldxp, stxp…; casp has bits 21 and not 31
		return KindExclusive, 0
	}
	return KindPlain, 0
}
