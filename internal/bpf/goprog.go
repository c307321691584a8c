package bpf

import (
	"godtrace/internal/dif"
	"godtrace/internal/probe"
)

// Functions of Go programs: arguments by Go's calling convention, and
// thread-local variables that belong to the goroutine, which may run on one
// thread now and on another later.

// regR14 is where struct pt_regs has R14, which in Go's code holds the address
// of struct g, the goroutine.
const regR14 = 8

// goRegs are the registers of arguments and results, as offsets in pt_regs.
var goRegs = [...]int{regAX, regBX, regCX, regDI, regSI, regR8, regR9, regR10, 48 /* R11 */}

// goArg puts argument n of a Go function into r: a register, or a word of the
// stack above the return address.
func (f *fn) goArg(n int, r reg) {
	c := f.c
	ctx := func() reg { return f.machine(pCtx, r1) }
	stack := f.gp.g.Go.Stack
	ret := f.gp.g.Kind == probe.KindUretprobe
	if ret {
		n-- // arg1 is the first result
	}
	switch {
	case !stack && n < len(goRegs):
		c.load(8, r, ctx(), goRegs[n])
		return
	case ret:
		c.imm(r, 0)
		return
	case !stack:
		n -= len(goRegs)
	}
	c.load(8, r3, ctx(), regSP)
	c.aluImm(opAdd, r3, int32(8*(n+1)))
	c.addr(r1, fp, bufOff)
	c.imm(r2, 8)
	c.call(f.readUser()) // on failure the buffer is zero
	c.load(8, r, fp, bufOff)
}

// goOf is how the goroutine of a firing is found; nil where probes are not in Go
// functions.
func (f *fn) goOf() *probe.GoABI { return f.gp.g.Go }

// goroutine puts the goroutine's number into r0: 0 for the runtime's own stacks,
// which have none. The buffers of the frame are lost.
func (f *fn) goroutine(in *dif.Ins, abi *probe.GoABI) {
	c := f.c
	read := func() {
		c.addr(r1, fp, bufOff)
		c.imm(r2, 8)
		c.call(f.readUser()) // on failure the buffer is zero
	}
	if abi.Stack || f.inError {
		// R14 is what it is; the thread's storage has the address as well.
		f.taskWalk(in, 8, "task_struct.thread.fsbase")
		c.mov(r3, r0)
		c.aluImm(opAdd, r3, int32(abi.TLS))
		read()
		c.load(8, r3, fp, bufOff)
	} else {
		c.load(8, r3, f.machine(pCtx, r1), regR14)
	}
	c.aluImm(opAdd, r3, int32(abi.Goid))
	read()
	c.load(8, r0, fp, bufOff)
}

// goid puts the number of the goroutine into r0.
func (f *fn) goid(in *dif.Ins) {
	abi := f.goOf()
	switch {
	case abi == nil:
		f.unsupported(in, "goid", "the probe is not one of the provider go")
		return
	case abi.Goid < 0:
		f.unsupported(in, "goid", "where this version of Go has the number is not known, and the program has no debugging information")
		return
	}
	f.goroutine(in, abi)
	f.c.opaque(r0)
}

// goKeySize is the size of the key of a goroutine's variables: its number, and
// the process. The runtime's own stacks are told apart by the thread; a bit of
// the second word marks them.
const goKeySize = 16

const goThread = 1 << 32

// goKey makes the key in the frame's buffers.
func (f *fn) goKey(in *dif.Ins, abi *probe.GoABI) {
	c := f.c
	if abi.Goid >= 0 {
		f.goroutine(in, abi)
	} else {
		c.imm(r0, 0)
		c.opaque(r0)
	}
	numbered := c.newLabel()
	c.store(8, fp, buf2Off, r0)
	c.call(fnPidTgid)
	c.mov(r1, r0)
	c.aluImm(opRsh, r1, 32)
	c.load(8, r2, fp, buf2Off)
	c.jmpImm(jNE, r2, 0, numbered)
	c.mov32(r0, r0)
	c.store(8, fp, buf2Off, r0)
	c.imm(r2, goThread)
	c.alu(opOr, r1, r2)
	c.place(numbered)
	c.store(8, fp, bufOff, r1)
}

// goSelf puts the address of the goroutine's variables into r0, 0 if it has none.
func (f *fn) goSelf(in *dif.Ins, abi *probe.GoABI, create bool) {
	c := f.c
	lookup := func() {
		c.mapPtr(r1, f.p.goroutines)
		c.addr(r2, fp, buf2Off)
		c.call(fnMapLookup)
	}
	f.goKey(in, abi)
	lookup()
	if !create {
		return
	}
	have := c.newLabel()
	c.jmpImm(jNE, r0, 0, have)
	const noExist = 1
	c.mapPtr(r1, f.p.goroutines)
	c.addr(r2, fp, buf2Off)
	c.mapValue(r3, f.p.data, f.p.zeroOff)
	c.imm(r4, noExist)
	c.call(fnMapUpdate)
	lookup()
	c.place(have)
}

// goForget gives up the variables of a goroutine at s that are all zero. That is
// how they are freed: nobody says when a goroutine ends.
func (f *fn) goForget(in *dif.Ins, abi *probe.GoABI, s reg) {
	c := f.c
	const most = 32 // words worth looking at
	if f.p.storageSize > 8*most {
		return
	}
	some := c.newLabel()
	for off := 0; off < f.p.storageSize; off += 8 {
		c.load(8, r2, s, off)
		c.jmpImm(jNE, r2, 0, some)
	}
	f.goKey(in, abi)
	c.mapPtr(r1, f.p.goroutines)
	c.addr(r2, fp, buf2Off)
	c.call(fnMapDelete)
	c.imm(r0, 0)
	f.putLoc(f.loc[f.pseudo(pSelf)], r0)
	c.place(some)
	f.state.self = selfPerhaps
}

// usesGo reports whether thread-local variables may be a goroutine's.
func (p *plan) usesGo() bool {
	for _, g := range p.cfg.Groups {
		if g.Go != nil {
			return true
		}
	}
	return false
}
