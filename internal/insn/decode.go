// Package insn decodes x86 instructions as far as tracing needs it: their
// lengths, what class they belong to, where branches go, what memory they
// name, and where a function returns. It does not disassemble.
//
// Encodings follow the Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2, appendix A (opcode maps), and AMD's manual, volume 6, for
// XOP and 3DNow!.
package insn

import (
	"encoding/binary"
	"errors"
)

// MaxLen is the length no instruction may exceed, in bytes.
const MaxLen = 15

var (
	ErrTruncated = errors.New("instruction is cut short")
	ErrInvalid   = errors.New("not an instruction")
	ErrTooLong   = errors.New("instruction is longer than 15 bytes")
)

// Map is the opcode map an opcode belongs to.
type Map uint8

const (
	Map1  Map = iota // one byte
	Map0F            // 0f xx, and VEX and EVEX map 1
	Map38            // 0f 38 xx, map 2
	Map3A            // 0f 3a xx, map 3
	MapX             // maps of VEX, EVEX and XOP beyond these; see Insn.VexMap
)

// Vex is the kind of extended encoding.
type Vex uint8

const (
	NoVex Vex = iota
	VEX       // c4, c5
	EVEX      // 62
	XOP       // 8f
)

// Prefix is a set of legacy prefixes.
type Prefix uint8

const (
	Lock   Prefix = 1 << iota // f0
	Rep                       // f3
	Repne                     // f2
	OpSize                    // 66
	AdSize                    // 67
)

// REX bits, as in the low half of the prefix; those of VEX and EVEX as well.
const (
	RexB = 1 << iota
	RexX
	RexR
	RexW
)

// Insn is one decoded instruction.
type Insn struct {
	Len      uint8
	Map      Map
	Op       byte // the opcode, the last byte of it
	Prefix   Prefix
	Seg      byte // segment prefix in force: 26 2e 36 3e 64 65, or 0
	Rex      byte // RexB … of REX, VEX or EVEX
	Vex      Vex
	VexMap   uint8
	HasModRM bool
	ModRM    byte
	SIB      byte // valid if ModRM says so
	Disp     int32
	ImmLen   uint8
	RelLen   uint8 // length of a branch displacement: 1, 2, 4, or 0
	Imm      int64 // immediate, sign-extended; or the branch displacement
	bits64   bool
}

// Opcode attributes, one character an opcode:
//
//	.  nothing follows          m  ModRM            c  ModRM, always registers
//	b  imm8                     B  ModRM, imm8      w  imm16
//	z  imm16/32                 Z  ModRM, imm16/32  v  imm16/32/64
//	j  rel8                     J  rel32            o  address
//	g  group f6                 G  group f7         q  0f 78
//	f  far pointer              e  imm16, imm8
//	p  prefix                   r  REX              x  escape   -  invalid
const oneByte = "" +
	"mmmmbz--mmmmbz-x" + // 00
	"mmmmbz--mmmmbz--" +
	"mmmmbzp-mmmmbzp-" +
	"mmmmbzp-mmmmbzp-" +
	"rrrrrrrrrrrrrrrr" + // 40
	"................" +
	"--xmppppzZbB...." +
	"jjjjjjjjjjjjjjjj" +
	"BZ-Bmmmmmmmmmmmx" + // 80
	"..........-....." +
	"oooo....bz......" +
	"bbbbbbbbvvvvvvvv" +
	"BBw.xxBZe.w..b-." + // c0
	"mmmm---.mmmmmmmm" +
	"jjjjbbbbJJ-j...." +
	"p.pp..gG......mm"

const twoByte = "" +
	"mmmm-.....-.-m.B" + // 0f 00
	"mmmmmmmmmmmmmmmm" +
	"cccc----mmmmmmmm" +
	"......-.x-x-----" +
	"mmmmmmmmmmmmmmmm" + // 40
	"mmmmmmmmmmmmmmmm" +
	"mmmmmmmmmmmmmmmm" +
	"BBBBmmm.qm--mmmm" +
	"JJJJJJJJJJJJJJJJ" + // 80
	"mmmmmmmmmmmmmmmm" +
	"...mBmmm...mBmmm" +
	"mmmmmmmmmmBmmmmm" +
	"mmBmBBBm........" + // c0
	"mmmmmmmmmmmmmmmm" +
	"mmmmmmmmmmmmmmmm" +
	"mmmmmmmmmmmmmmmm"

// What 32-bit mode has where 64-bit mode has something else.
var oneByte32 = func() string {
	t := []byte(oneByte)
	for c, ops := range map[byte][]byte{
		'.': {0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0xce, 0xd6},
		'B': {0x82},
		'b': {0xd4, 0xd5},
		'f': {0x9a, 0xea},
	} {
		for _, op := range ops {
			t[op] = c
		}
	}
	for op := 0x40; op < 0x50; op++ {
		t[op] = '.'
	}
	return string(t)
}()

// Mode is how wide the code is.
type Mode uint8

const (
	Mode64 Mode = iota
	Mode32
)

// Decode decodes the first instruction of code.
func (m Mode) Decode(code []byte) (Insn, error) { return decode(code, m == Mode64) }

// Decode decodes the first instruction of code in 64-bit mode.
func Decode(code []byte) (Insn, error) { return decode(code, true) }

// Decode32 decodes the first instruction of code in 32-bit mode.
func Decode32(code []byte) (Insn, error) { return decode(code, false) }

// decode decodes the instruction at the start of code. The error is ErrTruncated
// where code ends first, ErrTooLong where no instruction is that long.
func decode(code []byte, bits64 bool) (Insn, error) {
	in := Insn{bits64: bits64}
	limit := ErrTruncated
	if len(code) > MaxLen {
		code, limit = code[:MaxLen], ErrTooLong
	}
	table := oneByte
	if !bits64 {
		table = oneByte32
	}
	p := 0
	kind := byte('-')
	var op byte
prefixes:
	for {
		if p >= len(code) {
			return Insn{}, limit
		}
		op = code[p]
		p++
		kind = table[op]
		switch kind {
		case 'p':
			in.Rex = 0 // REX counts only right before the opcode
			switch op {
			case 0xf0:
				in.Prefix |= Lock
			case 0xf3:
				in.Prefix = in.Prefix&^Repne | Rep // the last of these counts
			case 0xf2:
				in.Prefix = in.Prefix&^Rep | Repne
			case 0x66:
				in.Prefix |= OpSize
			case 0x67:
				in.Prefix |= AdSize
			default:
				in.Seg = op
			}
		case 'r':
			in.Rex = op & 15
			// A REX that something else follows than an opcode is void, and
			// bit 6 tells "none" from 40.
			in.Rex |= 0x40
		default:
			break prefixes
		}
	}
	if kind == 'x' {
		var err error
		if kind, p, err = in.escape(code, p, op); err != nil {
			if err == ErrTruncated {
				err = limit
			}
			return Insn{}, err
		}
	} else {
		in.Op = op
	}
	in.Rex &= 15

	switch kind {
	case '-':
		return Insn{}, ErrInvalid
	case 'm', 'c', 'B', 'Z', 'g', 'G', 'q':
		n, err := in.modRM(code[p:], kind == 'c')
		if err != nil {
			return Insn{}, limit
		}
		p += n
	}
	n, rel := 0, false
	switch kind {
	case 'b', 'B':
		n = 1
	case 'w':
		n = 2
	case 'e':
		n = 3
	case 'z', 'Z':
		n = in.immZ()
	case 'v':
		if n = in.immZ(); in.Rex&RexW != 0 {
			n = 8
		}
	case 'j':
		n, rel = 1, true
	case 'J':
		// Intel's processors ignore the operand size here in 64-bit mode.
		if n, rel = 4, true; !bits64 {
			n = in.immZ()
		}
	case 'o':
		switch n = 4; {
		case bits64 && in.Prefix&AdSize == 0:
			n = 8
		case !bits64 && in.Prefix&AdSize != 0:
			n = 2
		}
	case 'f':
		n = in.immZ() + 2
	case 'g':
		if in.Reg() < 2 {
			n = 1
		}
	case 'G':
		if in.Reg() < 2 {
			n = in.immZ()
		}
	case 'q':
		if in.Prefix&(OpSize|Repne) != 0 {
			n = 2 // extrq, insertq
		}
	case 'd':
		n = 4
	}
	if p+n > len(code) {
		return Insn{}, limit
	}
	in.Imm = signed(code[p : p+n])
	if rel {
		in.RelLen = uint8(n)
	} else {
		in.ImmLen = uint8(n)
	}
	in.Len = uint8(p + n)
	if !in.groupValid() {
		return Insn{}, ErrInvalid
	}
	return in, nil
}

// escape reads what follows an escape byte up to the opcode, and returns the
// kind of the opcode and where its operands begin.
func (in *Insn) escape(code []byte, p int, op byte) (kind byte, next int, err error) {
	need := func(n int) bool { return p+n <= len(code) }
	if !need(1) {
		return 0, 0, ErrTruncated
	}
	switch op {
	case 0x0f:
		in.Map, in.Op = Map0F, code[p]
		p++
		switch in.Op {
		case 0x38, 0x3a:
			in.Map, kind = Map38, 'm'
			if in.Op == 0x3a {
				in.Map, kind = Map3A, 'B'
			}
			if !need(1) {
				return 0, 0, ErrTruncated
			}
			in.Op = code[p]
			return kind, p + 1, nil
		}
		return twoByte[in.Op], p, nil
	case 0x8f:
		// pop has reg 0; as a map number that would be below 8.
		if code[p]&0x1f < 8 {
			in.Op = op
			return 'm', p, nil
		}
		if !need(3) {
			return 0, 0, ErrTruncated
		}
		in.Vex, in.VexMap, in.Map = XOP, code[p]&0x1f, MapX
		in.Rex = ^code[p]>>5&7 | code[p+1]>>7<<3
		in.Op = code[p+2]
		switch in.VexMap {
		case 8:
			kind = 'B'
		case 9:
			kind = 'm'
		case 10:
			kind = 'D'
		default:
			kind = '-'
		}
		p += 3
	case 0xc4, 0xc5, 0x62:
		if !in.bits64 && code[p] < 0xc0 {
			in.Op = op // les, lds, bound
			return 'm', p, nil
		}
		if in.Prefix&^AdSize != 0 || in.Rex != 0 {
			return 0, 0, ErrInvalid // these prefixes have no place before VEX
		}
		switch op {
		case 0xc5:
			if !need(2) {
				return 0, 0, ErrTruncated
			}
			in.Vex, in.VexMap = VEX, 1
			in.Rex = ^code[p] >> 5 & 4
			in.Op = code[p+1]
			p += 2
		case 0xc4:
			if !need(3) {
				return 0, 0, ErrTruncated
			}
			in.Vex, in.VexMap = VEX, code[p]&0x1f
			in.Rex = ^code[p]>>5&7 | code[p+1]>>7<<3
			in.Op = code[p+2]
			p += 3
		case 0x62:
			if !need(4) {
				return 0, 0, ErrTruncated
			}
			if code[p]&8 != 0 || code[p+1]&4 == 0 {
				return 0, 0, ErrInvalid
			}
			in.Vex, in.VexMap = EVEX, code[p]&7
			in.Rex = ^code[p]>>5&7 | code[p+1]>>7<<3
			in.Op = code[p+3]
			p += 4
		}
		if !in.bits64 {
			in.Rex = 0
		}
		in.Map = Map(in.VexMap)
		switch in.VexMap {
		case 1:
			switch in.Op {
			case 0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6:
				kind = 'B'
			case 0x77:
				kind = '.' // vzeroupper, vzeroall
			default:
				kind = 'm'
			}
		case 2:
			kind = 'm'
		case 3:
			kind = 'B'
		case 5, 6: // half precision
			in.Map, kind = MapX, 'm'
		case 7:
			in.Map, kind = MapX, 'D' // urdmsr, uwrmsr
		default:
			kind = '-'
		}
	default:
		return 0, 0, ErrInvalid
	}
	if kind == 'D' { // ModRM and four bytes, whatever the operand size
		n, err := in.modRM(code[min(p, len(code)):], false)
		if err != nil {
			return 0, 0, err
		}
		return 'd', p + n, nil
	}
	return kind, p, nil
}

// immZ is the length of an immediate of operand size, at most 32 bits.
func (in *Insn) immZ() int {
	if in.Prefix&OpSize != 0 && in.Rex&RexW == 0 {
		return 2
	}
	return 4
}

// modRM reads ModRM, SIB and displacement and returns their length.
func (in *Insn) modRM(code []byte, regs bool) (int, error) {
	if len(code) == 0 {
		return 0, ErrTruncated
	}
	in.HasModRM, in.ModRM = true, code[0]
	n, disp := 1, 0
	mod, rm := in.ModRM>>6, in.ModRM&7
	switch {
	case mod == 3 || regs:
	case !in.bits64 && in.Prefix&AdSize != 0: // 16-bit addresses
		if mod == 1 {
			disp = 1
		} else if mod == 2 || rm == 6 {
			disp = 2
		}
	default:
		if rm == 4 {
			if len(code) < 2 {
				return 0, ErrTruncated
			}
			in.SIB = code[1]
			n, rm = 2, in.SIB&7
		}
		if mod == 1 {
			disp = 1
		} else if mod == 2 || rm == 5 {
			disp = 4
		}
	}
	if n+disp > len(code) {
		return 0, ErrTruncated
	}
	in.Disp = int32(signed(code[n : n+disp]))
	return n + disp, nil
}

// groupValid rejects group members that do not exist.
func (in *Insn) groupValid() bool {
	if in.Map != Map1 || in.Vex != NoVex {
		return true
	}
	switch in.Op {
	case 0xfe:
		return in.Reg() < 2
	case 0xff:
		r := in.Reg()
		return r != 7 && (r != 3 && r != 5 || in.IsMem()) // far pointers lie in memory
	case 0xc6, 0xc7:
		return in.Reg() == 0 || in.ModRM == 0xf8 // xabort, xbegin
	case 0x8f:
		return in.Reg() == 0
	}
	return true
}

func signed(b []byte) int64 {
	switch len(b) {
	case 0:
		return 0
	case 1:
		return int64(int8(b[0]))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case 8:
		return int64(binary.LittleEndian.Uint64(b))
	}
	v := int64(0)
	for i, c := range b {
		v |= int64(c) << (8 * i)
	}
	return v
}

// Reg is the reg field of ModRM without its extension: which member of an
// opcode group the instruction is.
func (in Insn) Reg() byte { return in.ModRM >> 3 & 7 }

// IsMem reports whether ModRM names memory.
func (in Insn) IsMem() bool {
	return in.HasModRM && in.ModRM < 0xc0 && !(in.Map == Map0F && in.Vex == NoVex && in.Op >= 0x20 && in.Op < 0x24)
}

// NoReg stands for a register a memory operand does not use.
const NoReg = 0xff

// Mem is a memory operand: [Base + Index*Scale + Disp] in segment Seg.
type Mem struct {
	Base, Index byte // numbers of general registers, 0 to 15 (rax rcx rdx rbx rsp rbp rsi rdi r8 …), or NoReg
	Scale       byte // 1, 2, 4, 8
	RIP         bool // Base is the address of the next instruction
	Seg         byte // as Insn.Seg
	Disp        int64
}

// Mem returns the memory operand that ModRM describes. Displacements of one
// byte under EVEX come unscaled, index registers of gathers are vectors, and
// 16-bit addresses are not described.
func (in Insn) Mem() (Mem, bool) {
	if !in.IsMem() || !in.bits64 && in.Prefix&AdSize != 0 {
		return Mem{}, false
	}
	m := Mem{Base: NoReg, Index: NoReg, Scale: 1, Seg: in.Seg, Disp: int64(in.Disp)}
	mod, rm := in.ModRM>>6, in.ModRM&7
	switch {
	case rm == 4:
		if i := in.SIB>>3&7 | in.Rex&RexX<<2; i != 4 {
			m.Index, m.Scale = i, 1<<(in.SIB>>6)
		}
		if in.SIB&7 != 5 || mod != 0 {
			m.Base = in.SIB&7 | in.Rex&RexB<<3
		}
	case rm == 5 && mod == 0:
		m.RIP = in.bits64
	default:
		m.Base = rm | in.Rex&RexB<<3
	}
	return m, true
}

// RIPTarget is the address that a RIP-relative memory operand names in the
// instruction at addr.
func (in Insn) RIPTarget(addr uint64) (uint64, bool) {
	if m, ok := in.Mem(); !ok || !m.RIP {
		return 0, false
	}
	return addr + uint64(in.Len) + uint64(int64(in.Disp)), true
}

// Target is where a relative branch or call at addr goes.
func (in Insn) Target(addr uint64) (uint64, bool) {
	if in.RelLen == 0 {
		return 0, false
	}
	t := addr + uint64(in.Len) + uint64(in.Imm)
	if !in.bits64 {
		t = uint64(uint32(t))
	}
	return t, true
}
