package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf/asm"
)

// The assembler. Programs are generated at every start, in their hundreds of
// instructions, so it is the plain one: 8-byte instructions in a slice, labels
// that are small integers, jumps patched at the end. (cilium/ebpf's spends
// most of its time on label strings, and encodes atomics that return a value
// as plain additions; it serves to print listings here.)

type reg uint8

const (
	r0 reg = iota
	r1
	r2
	r3
	r4
	r5
	r6
	r7
	r8
	r9
	fp // end of the frame: grows down
)

// insn is struct bpf_insn.
type insn struct {
	op   uint8
	regs uint8
	off  int16
	imm  int32
}

// Instruction classes, sizes and operations, from the kernel's
// Documentation/bpf/standardization/instruction-set.rst.
const (
	clLDX, clST, clSTX, clALU, clJMP, clJMP32, clALU64 = 1, 2, 3, 4, 5, 6, 7

	w32, w16, w8, w64 = 0x00, 0x08, 0x10, 0x18

	modeMem, modeAtomic = 0x60, 0xc0

	opAdd, opSub, opMul, opDiv  = 0x00, 0x10, 0x20, 0x30
	opOr, opAnd, opLsh, opRsh   = 0x40, 0x50, 0x60, 0x70
	opNeg, opMod, opXor, opMov  = 0x80, 0x90, 0xa0, 0xb0
	opArsh, opEnd               = 0xc0, 0xd0
	jA, jEQ, jGT, jGE, jSet     = 0x00, 0x10, 0x20, 0x30, 0x40
	jNE, jSGT, jSGE             = 0x50, 0x60, 0x70
	jLT, jLE, jSLT, jSLE        = 0xa0, 0xb0, 0xc0, 0xd0
	opCall, opExit              = 0x85, 0x95
	atFetch                     = 0x01
	atAdd, atXchg, atCmpXchg    = 0x00, 0xe0 | atFetch, 0xf0 | atFetch
	pseudoMapFD, pseudoMapValue = 1, 2
	pseudoCall, pseudoKfunc     = 1, 2
)

// Helpers, numbered in the kernel's include/uapi/linux/bpf.h.
const (
	fnMapLookup        = 1
	fnMapUpdate        = 2
	fnMapDelete        = 3
	fnKtimeNS          = 5
	fnPrandom          = 7
	fnCPU              = 8
	fnPidTgid          = 14
	fnUidGid           = 15
	fnComm             = 16
	fnCurrentTask      = 35
	fnProbeWriteUser   = 36
	fnOverrideReturn   = 58
	fnGetStack         = 67
	fnCgroupID         = 80
	fnSendSignal       = 109
	fnProbeReadUser    = 112
	fnProbeReadKernel  = 113
	fnProbeReadUserStr = 114
	fnProbeReadKernStr = 115
	fnSendSignalThread = 117
	fnCopyFromUser     = 148
	fnTaskStorageGet   = 156
	fnCurrentTaskBTF   = 158
	fnFuncIP           = 173
	fnAttachCookie     = 174
	fnTaskPtRegs       = 175
	fnLoop             = 181
	fnStrncmp          = 182
	fnKtimeTAI         = 208
)

type label int32

// code is a program being written.
type code struct {
	ins   []insn
	lines []int32 // D line of each instruction, 0 for none
	line  int32   // of what is written next
	fixes []fix
	funcs []int32 // where functions begin
	// funcInfo: the kernel wants to be told of them (bpf_loop).
	funcInfo bool
	labels   []int32 // instruction each label stands before, -1 while unknown
	named    []bool  // labels that something jumps to
}

type fix struct {
	at   int32
	to   label
	call bool
}

func (c *code) raw(op uint8, dst, src reg, off int16, imm int32) {
	c.ins = append(c.ins, insn{op, uint8(src)<<4 | uint8(dst), off, imm})
	c.lines = append(c.lines, c.line)
}

func (c *code) newLabel() label {
	c.labels = append(c.labels, -1)
	c.named = append(c.named, false)
	return label(len(c.labels) - 1)
}

func (c *code) place(l label) { c.labels[l] = int32(len(c.ins)) }

// function begins a function.
func (c *code) function(l label) {
	c.place(l)
	c.funcs = append(c.funcs, int32(len(c.ins)))
}

func (c *code) alu(op uint8, dst, src reg)        { c.raw(clALU64|0x08|op, dst, src, 0, 0) }
func (c *code) aluImm(op uint8, dst reg, k int32) { c.raw(clALU64|op, dst, 0, 0, k) }
func (c *code) neg(dst reg)                       { c.raw(clALU64|opNeg, dst, 0, 0, 0) }

func (c *code) mov(dst, src reg) {
	if dst != src {
		c.alu(opMov, dst, src)
	}
}

// mov32 keeps the low half, zero-extended.
func (c *code) mov32(dst, src reg) { c.raw(clALU|0x08|opMov, dst, src, 0, 0) }

func (c *code) imm(dst reg, k int64) {
	if k == int64(int32(k)) {
		c.aluImm(opMov, dst, int32(k))
		return
	}
	c.imm64(0, dst, uint64(k))
}

func (c *code) imm64(pseudo reg, dst reg, k uint64) {
	c.raw(0x18, dst, pseudo, 0, int32(uint32(k)))
	c.raw(0, 0, 0, 0, int32(uint32(k>>32)))
}

// opaque makes the verifier forget what it knows of a register, and makes a
// number of a pointer: converting to little endian is no instruction at all on
// a little-endian machine. (Byte order is the only ALU operation whose result
// no kernel tracks.)
func (c *code) opaque(dst reg) { c.raw(clALU|opEnd, dst, 0, 0, 64) }

// bswap reverses the low bits (16, 32, 64) and zero-extends.
func (c *code) bswap(dst reg, bits int32) { c.raw(clALU|opEnd|0x08, dst, 0, 0, bits) }

func width(n int) uint8 {
	switch n {
	case 1:
		return w8
	case 2:
		return w16
	case 4:
		return w32
	case 8:
		return w64
	}
	panic(fmt.Sprintf("bpf: access of %d bytes", n))
}

// near makes an access to base+off of one to base, where off does not fit the 16
// bits an instruction has for it.
func (c *code) near(base reg, off int, access func(off int16)) {
	if off == int(int16(off)) {
		access(int16(off))
		return
	}
	c.aluImm(opAdd, base, int32(off))
	access(0)
	c.aluImm(opSub, base, int32(off))
}

func (c *code) load(n int, dst, base reg, off int) {
	if off != int(int16(off)) {
		c.addr(dst, base, off)
		base, off = dst, 0
	}
	c.raw(clLDX|modeMem|width(n), dst, base, int16(off), 0)
}
func (c *code) store(n int, base reg, off int, src reg) {
	c.near(base, off, func(off int16) { c.raw(clSTX|modeMem|width(n), base, src, off, 0) })
}
func (c *code) storeImm(n int, base reg, off int, k int32) {
	c.near(base, off, func(off int16) { c.raw(clST|modeMem|width(n), base, 0, off, k) })
}

// atomic is *(u64 *)(base+off) op= src; with atFetch src gets the old value
// (r0 for atCmpXchg, which compares with r0).
func (c *code) atomic(op int32, base reg, off int, src reg) {
	c.near(base, off, func(off int16) { c.raw(clSTX|modeAtomic|w64, base, src, off, op) })
}

// jump notes that the next instruction jumps to a label.
func (c *code) jump(to label) {
	c.fixes = append(c.fixes, fix{int32(len(c.ins)), to, false})
	c.named[to] = true
}

func (c *code) jmp(to label) {
	c.jump(to)
	c.raw(clJMP|jA, 0, 0, 0, 0)
}

// mayGoto goes to a label when the kernel thinks a loop has run long enough.
func (c *code) mayGoto(to label) {
	c.jump(to)
	c.raw(0xe5, 0, 0, 0, 0)
}

func (c *code) jmpReg(op uint8, a, b reg, to label) {
	c.jump(to)
	c.raw(clJMP|0x08|op, a, b, 0, 0)
}
func (c *code) jmpImm(op uint8, a reg, k int32, to label) {
	c.jump(to)
	c.raw(clJMP|op, a, 0, 0, k)
}

func (c *code) call(helper int32) { c.raw(opCall, 0, 0, 0, helper) }

// kfunc calls a kernel function by its BTF number.
func (c *code) kfunc(id int32) { c.raw(opCall, 0, pseudoKfunc, 0, id) }
func (c *code) callSub(to label) {
	c.fixes = append(c.fixes, fix{int32(len(c.ins)), to, true})
	c.raw(opCall, 0, pseudoCall, 0, 0)
}
func (c *code) exit() { c.raw(opExit, 0, 0, 0, 0) }

func (c *code) mapPtr(dst reg, m *bpfMap) { c.imm64(pseudoMapFD, dst, uint64(uint32(m.fd))) }

// mapValue is the address of byte off of a one-element array's value.
func (c *code) mapValue(dst reg, m *bpfMap, off int) {
	c.imm64(pseudoMapValue, dst, uint64(uint32(m.fd))|uint64(off)<<32)
}

// addr is base+off.
func (c *code) addr(dst, base reg, off int) {
	c.mov(dst, base)
	if off != 0 {
		c.aluImm(opAdd, dst, int32(off))
	}
}

// link patches all jumps and calls.
func (c *code) link() error {
	for _, f := range c.fixes {
		to := c.labels[f.to]
		if to < 0 {
			return fmt.Errorf("internal error: label %d of instruction %d stands nowhere", f.to, f.at)
		}
		d := to - f.at - 1
		if f.call {
			c.ins[f.at].imm = d
			continue
		}
		if d != int32(int16(d)) {
			return &TooComplexError{Line: c.lineNear(int(f.at)), Reason: "the code of a clause is longer than the 32767 instructions eBPF jumps over: make several clauses of it"}
		}
		c.ins[f.at].off = int16(d)
	}
	c.fixes = nil
	return nil
}

// lineNear is the line of D of instruction at, or of the next that has one.
func (c *code) lineNear(at int) int {
	for _, line := range c.lines[at:] {
		if line > 0 {
			return int(line)
		}
	}
	return 0
}

func (c *code) bytes() []byte {
	if len(c.ins) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&c.ins[0])), 8*len(c.ins))
}

// listing prints the program as the eBPF tools do, with the D lines.
func (c *code) listing() string {
	list, err := asm.AppendInstructions(nil, bytes.NewReader(c.bytes()), binary.LittleEndian, "linux")
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	last := int32(0)
	for it := list.Iterate(); it.Next(); {
		if line := c.lines[it.Offset]; line != last {
			last = line
			fmt.Fprintf(&b, "; line %d\n", line)
		}
		fmt.Fprintf(&b, "%5d: %v\n", it.Offset, it.Ins)
	}
	return b.String()
}
