package insn

import (
	"fmt"
	"slices"
	"strings"
)

// Class is what kind of instruction one is. Its name is the mnemonic, as the
// instr provider shows it; LOCK and REP are classes of their own that an
// instruction has besides its class.
type Class uint8

// The conditional jumps JO … JG follow the order of condition codes.
const (
	Other Class = iota
	Call
	Jmp
	JO
	JNO
	JB
	JAE
	JE
	JNE
	JBE
	JA
	JS
	JNS
	JP
	JNP
	JL
	JGE
	JLE
	JG
	JCXZ
	Loop
	Ret
	Iret
	Nop
	LockClass
	RepClass
	CLI
	STI
	HLT
	Inc
	Dec
	Add
	Sub
	Xchg
	Xadd
	Cmpxchg
	RDTSC
	RDTSCP
	RDMSR
	WRMSR
	LIDT
	LGDT
	SIDT
	SGDT
	LTR
	MovCR0
	MovCR2
	MovCR3
	MovCR4
	MovCR8
	MovDR
	Int
	UD2
	UD1
	Pause
	LFENCE
	MFENCE
	SFENCE
	CLFLUSH
	CLFLUSHOPT
	CLWB
	Endbr
	Syscall
	Sysret
	Sysenter
	Sysexit
	Swapgs
	CPUID
	WBINVD
	INVLPG
	In
	Out
	STAC
	CLAC
	Push
	Pop
	Leave
	Pushf
	Popf
	XSAVE
	XRSTOR
	Monitor
	MWAIT
	RDPMC
	numClasses
)

var classNames = [numClasses]string{
	"other", "call", "jmp",
	"jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg",
	"jcxz", "loop", "ret", "iret", "nop", "lock", "rep", "cli", "sti", "hlt",
	"inc", "dec", "add", "sub", "xchg", "xadd", "cmpxchg",
	"rdtsc", "rdtscp", "rdmsr", "wrmsr", "lidt", "lgdt", "sidt", "sgdt", "ltr",
	"mov-cr0", "mov-cr2", "mov-cr3", "mov-cr4", "mov-cr8", "mov-dr",
	"int", "ud2", "ud1", "pause", "lfence", "mfence", "sfence", "clflush", "clflushopt", "clwb",
	"endbr", "syscall", "sysret", "sysenter", "sysexit", "swapgs", "cpuid", "wbinvd", "invlpg",
	"in", "out", "stac", "clac", "push", "pop", "leave", "pushf", "popf",
	"xsave", "xrstor", "monitor", "mwait", "rdpmc",
}

// Other names of the conditional jumps.
var classAliases = map[string]Class{
	"jc": JB, "jnae": JB, "jnc": JAE, "jnb": JAE, "jz": JE, "jnz": JNE, "jna": JBE, "jnbe": JA,
	"jpe": JP, "jpo": JNP, "jnge": JL, "jnl": JGE, "jng": JLE, "jnle": JG, "jecxz": JCXZ, "jrcxz": JCXZ,
	"int3": Int,
}

func (c Class) String() string {
	if c < numClasses {
		return classNames[c]
	}
	return fmt.Sprintf("class %d", c)
}

// ParseClass finds a class by its name or another common name of it.
func ParseClass(name string) (Class, bool) {
	if c, ok := classAliases[name]; ok {
		return c, true
	}
	i := slices.Index(classNames[1:], name)
	return Class(i + 1), i >= 0
}

// Classes lists all classes but Other.
func Classes() []Class {
	out := make([]Class, 0, numClasses-1)
	for c := Call; c < numClasses; c++ {
		out = append(out, c)
	}
	return out
}

// Conditional reports whether c is a jump that depends on the flags.
func (c Class) Conditional() bool { return c >= JO && c <= JG }

// Is reports whether the instruction belongs to a class: the one Class
// returns, or lock or rep by its prefix.
func (in Insn) Is(c Class) bool {
	switch c {
	case LockClass:
		return in.Prefix&Lock != 0
	case RepClass:
		return in.isRep()
	}
	return in.Class() == c
}

// String names the classes: "lock cmpxchg", "jne".
func (in Insn) String() string {
	var s []string
	if in.Is(LockClass) {
		s = append(s, "lock")
	}
	if in.Is(RepClass) {
		s = append(s, "rep")
	}
	return strings.Join(append(s, in.Class().String()), " ")
}

// isRep reports a repeated string instruction; elsewhere the prefixes are part
// of the opcode, or mean bnd, or nothing.
func (in Insn) isRep() bool {
	if in.Prefix&(Rep|Repne) == 0 || in.Map != Map1 || in.Vex != NoVex {
		return false
	}
	return in.Op >= 0x6c && in.Op <= 0x6f || in.Op >= 0xa4 && in.Op <= 0xaf && in.Op != 0xa8 && in.Op != 0xa9
}

// Class is the class of the instruction, its LOCK and REP prefixes apart.
func (in Insn) Class() Class {
	if in.Vex != NoVex {
		return Other
	}
	switch in.Map {
	case Map1:
		return in.class1()
	case Map0F:
		return in.class0F()
	}
	return Other
}

// class1 is the class of a one-byte opcode.
func (in Insn) class1() Class {
	switch op := in.Op; {
	case op < 6:
		return Add
	case op >= 0x28 && op < 0x2e:
		return Sub
	case op >= 0x40 && op < 0x48:
		return Inc
	case op >= 0x48 && op < 0x50:
		return Dec
	case op >= 0x50 && op < 0x58, op == 0x68, op == 0x6a, op == 0x06, op == 0x0e, op == 0x16, op == 0x1e, op == 0x60:
		return Push
	case op >= 0x58 && op < 0x60, op == 0x8f, op == 0x07, op == 0x17, op == 0x1f, op == 0x61:
		return Pop
	case op >= 0x70 && op < 0x80:
		return JO + Class(op&15)
	case op >= 0x80 && op < 0x84:
		switch in.Reg() {
		case 0:
			return Add
		case 5:
			return Sub
		}
	case op == 0x90:
		switch {
		case in.Rex&RexB != 0:
			return Xchg
		case in.Prefix&Rep != 0:
			return Pause
		}
		return Nop
	case op > 0x90 && op < 0x98, op == 0x86, op == 0x87:
		return Xchg
	}
	switch in.Op {
	case 0x9a, 0xe8:
		return Call
	case 0xe9, 0xea, 0xeb:
		return Jmp
	case 0xc2, 0xc3, 0xca, 0xcb:
		return Ret
	case 0xcf:
		return Iret
	case 0xcc, 0xcd, 0xce, 0xf1:
		return Int
	case 0xe0, 0xe1, 0xe2:
		return Loop
	case 0xe3:
		return JCXZ
	case 0xe4, 0xe5, 0xec, 0xed, 0x6c, 0x6d:
		return In
	case 0xe6, 0xe7, 0xee, 0xef, 0x6e, 0x6f:
		return Out
	case 0xf4:
		return HLT
	case 0xfa:
		return CLI
	case 0xfb:
		return STI
	case 0x9c:
		return Pushf
	case 0x9d:
		return Popf
	case 0xc9:
		return Leave
	case 0xfe, 0xff:
		switch in.Reg() {
		case 0:
			return Inc
		case 1:
			return Dec
		case 2, 3:
			return Call
		case 4, 5:
			return Jmp
		case 6:
			return Push
		}
	}
	return Other
}

// class0F is the class of an opcode after 0F.
func (in Insn) class0F() Class {
	switch op := in.Op; {
	case op >= 0x80 && op < 0x90:
		return JO + Class(op&15)
	case op >= 0x18 && op < 0x20:
		return in.hint()
	}
	switch in.Op {
	case 0x00:
		if in.Reg() == 3 {
			return LTR
		}
	case 0x01:
		return in.class0F01()
	case 0x05:
		return Syscall
	case 0x07:
		return Sysret
	case 0x09:
		return WBINVD
	case 0x0b:
		return UD2
	case 0xb9, 0xff:
		return UD1
	case 0x20, 0x22:
		switch in.Reg() | in.Rex&RexR<<1 {
		case 0:
			return MovCR0
		case 2:
			return MovCR2
		case 3:
			return MovCR3
		case 4:
			return MovCR4
		case 8:
			return MovCR8
		}
	case 0x21, 0x23:
		return MovDR
	case 0x30:
		return WRMSR
	case 0x31:
		return RDTSC
	case 0x32:
		return RDMSR
	case 0x33:
		return RDPMC
	case 0x34:
		return Sysenter
	case 0x35:
		return Sysexit
	case 0xa0, 0xa8:
		return Push
	case 0xa1, 0xa9:
		return Pop
	case 0xa2:
		return CPUID
	case 0xae:
		return in.class0FAE()
	case 0xb0, 0xb1:
		return Cmpxchg
	case 0xc0, 0xc1:
		return Xadd
	case 0xc7:
		if in.Reg() == 1 && in.IsMem() {
			return Cmpxchg // cmpxchg8b, cmpxchg16b
		}
		if in.Reg() == 4 && in.IsMem() {
			return XSAVE // xsavec
		}
		if in.IsMem() && in.Reg() == 5 {
			return XSAVE // xsaves
		}
		if in.IsMem() && in.Reg() == 3 {
			return XRSTOR // xrstors
		}
	}
	return Other
}

// hint tells apart the opcodes reserved for hints, all no-operations to a
// processor that does not know better.
func (in Insn) hint() Class {
	switch {
	case in.Op == 0x18 && in.Reg() < 4 && in.IsMem():
		return Other // prefetch
	case in.Op == 0x1e && in.Prefix&Rep != 0:
		if in.ModRM == 0xfa || in.ModRM == 0xfb {
			return Endbr
		}
		if in.Reg() == 1 && !in.IsMem() {
			return Other // rdssp
		}
	case in.Op == 0x1a, in.Op == 0x1b:
		return Other // MPX: what objdump calls bndldx and so on
	case in.Op == 0x1c && in.Reg() == 0 && in.IsMem():
		return Other // cldemote
	}
	return Nop
}

// class0F01 is the class within the group 0F 01, of system instructions.
func (in Insn) class0F01() Class {
	if in.IsMem() {
		switch in.Reg() {
		case 0:
			return SGDT
		case 1:
			return SIDT
		case 2:
			return LGDT
		case 3:
			return LIDT
		case 7:
			return INVLPG
		}
		return Other
	}
	switch in.ModRM {
	case 0xc8:
		return Monitor
	case 0xc9:
		return MWAIT
	case 0xca:
		return CLAC
	case 0xcb:
		return STAC
	case 0xf8:
		return Swapgs
	case 0xf9:
		return RDTSCP
	}
	return Other
}

// class0FAE is the class within the group 0F AE, of state and fences.
func (in Insn) class0FAE() Class {
	if !in.IsMem() {
		if in.Prefix&(Rep|Repne|OpSize) == 0 {
			switch in.Reg() {
			case 5:
				return LFENCE
			case 6:
				return MFENCE
			case 7:
				return SFENCE
			}
		}
		return Other
	}
	switch plain := in.Prefix&(Rep|Repne|OpSize) == 0; in.Reg() {
	case 4:
		if plain {
			return XSAVE
		}
	case 5:
		if plain {
			return XRSTOR
		}
	case 6:
		if plain {
			return XSAVE // xsaveopt
		}
		if in.Prefix&OpSize != 0 {
			return CLWB
		}
	case 7:
		if plain {
			return CLFLUSH
		}
		if in.Prefix&OpSize != 0 {
			return CLFLUSHOPT
		}
	}
	return Other
}

// Indirect reports a call or jump through a register or memory.
func (in Insn) Indirect() bool {
	if in.Map != Map1 || in.Vex != NoVex || in.Op != 0xff {
		return false
	}
	r := in.Reg()
	return r >= 2 && r <= 5
}

// Flags of RFLAGS that conditions read.
const (
	flagCF = 1 << 0
	flagPF = 1 << 2
	flagZF = 1 << 6
	flagSF = 1 << 7
	flagOF = 1 << 11
)

// Holds evaluates a condition code, 0 (o) to 15 (g), on RFLAGS.
func Holds(cc byte, rflags uint64) bool {
	cf, pf, zf := rflags&flagCF != 0, rflags&flagPF != 0, rflags&flagZF != 0
	sf, of := rflags&flagSF != 0, rflags&flagOF != 0
	var r bool
	switch cc >> 1 & 7 {
	case 0:
		r = of
	case 1:
		r = cf
	case 2:
		r = zf
	case 3:
		r = cf || zf
	case 4:
		r = sf
	case 5:
		r = pf
	case 6:
		r = sf != of
	case 7:
		r = zf || sf != of
	}
	return r != (cc&1 != 0)
}

// Cond is the condition code of a jump that depends on flags.
func (in Insn) Cond() (byte, bool) {
	if c := in.Class(); c.Conditional() {
		return byte(c - JO), true
	}
	return 0, false
}

// Taken tells whether a branch with these registers will be taken: calls,
// jumps and returns always, jcc by RFLAGS, jcxz and loop by RCX too; ok is
// false for what is no branch.
func (in Insn) Taken(rflags, rcx uint64) (taken, ok bool) {
	switch c := in.Class(); {
	case c.Conditional():
		return Holds(byte(c-JO), rflags), true
	case c == JCXZ, c == Loop:
		// The address size says how much of the register counts.
		switch {
		case in.bits64 && in.Prefix&AdSize == 0:
		case !in.bits64 && in.Prefix&AdSize != 0:
			rcx &= 0xffff
		default:
			rcx &= 0xffffffff
		}
		if c == JCXZ {
			return rcx == 0, true
		}
		zf := rflags&flagZF != 0
		return rcx != 1 && (in.Op == 0xe2 || zf == (in.Op == 0xe1)), true
	case c == Call, c == Jmp, c == Ret, c == Iret:
		return true, true
	}
	return false, false
}
