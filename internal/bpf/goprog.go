package bpf

import (
	"slices"

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

// goProgram is a process, or the processes of a program, that the session has
// probes of the provider go in.
type goProgram struct {
	probe.GoProgram
	tls, goid int64
}

// programs lists them, so that other probes in them find the goroutine too.
func (p *plan) programs() []goProgram {
	out := p.goPrograms
	for _, g := range p.cfg.Groups {
		if g.Go == nil || g.Go.TLS == 0 {
			continue
		}
		for _, in := range g.GoIn {
			if pr := (goProgram{in, g.Go.TLS, g.Go.Goid}); !slices.Contains(out, pr) {
				out = append(out, pr)
			}
		}
	}
	return out
}

// inGo emits code for firings in Go programs, by how the goroutine is found
// there, and for all others.
func (f *fn) inGo(in *dif.Ins, there func(*probe.GoABI), elsewhere func()) {
	if abi := f.goOf(); abi != nil {
		there(abi)
		return
	}
	c := f.c
	var abis []*probe.GoABI
	var at []label
	done := c.newLabel()
	to := func(pr goProgram) label {
		for i, a := range abis {
			if a.TLS == pr.tls && a.Goid == pr.goid {
				return at[i]
			}
		}
		abis, at = append(abis, &probe.GoABI{TLS: pr.tls, Goid: pr.goid}), append(at, c.newLabel())
		return at[len(at)-1]
	}
	var pids, files []goProgram
	for _, pr := range f.p.programs() {
		if pr.Pid > 0 {
			pids = append(pids, pr)
		} else {
			files = append(files, pr)
		}
	}
	if len(pids) > 0 {
		c.call(fnPidTgid)
		c.aluImm(opRsh, r0, 32)
		for _, pr := range pids {
			c.jmpImm(jEQ, r0, int32(pr.Pid), to(pr))
		}
	}
	if len(files) > 0 {
		f.taskWalk(in, 8, "task_struct.mm", "mm_struct.exe_file", "file.f_inode", "inode.i_ino")
		for _, pr := range files {
			c.imm(r1, int64(pr.Ino))
			c.jmpReg(jEQ, r0, r1, to(pr))
		}
	}
	elsewhere()
	if len(abis) == 0 {
		return
	}
	for i, abi := range abis {
		c.jmp(done)
		c.place(at[i])
		there(abi)
	}
	c.place(done)
}

// goroutine puts the goroutine's number into r0: 0 for the runtime's own stacks,
// which have none. The buffers of the frame are lost.
func (f *fn) goroutine(in *dif.Ins, abi *probe.GoABI) {
	c := f.c
	read := func() {
		c.addr(r1, fp, bufOff)
		c.imm(r2, 8)
		c.call(f.readUser()) // on failure the buffer is zero
	}
	if f.goOf() == nil || abi.Stack || abi.Asm || f.inError {
		// R14 may be anything; the thread's storage has the address as well.
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

// goid puts the number of the goroutine into r0, 0 in processes that are not
// those of a probe of the provider go.
func (f *fn) goid(in *dif.Ins) {
	if f.goOf() == nil && len(f.p.programs()) == 0 {
		f.unsupported(in, "goid", "no probe of the provider go is enabled, which would tell in what programs there are goroutines")
		return
	}
	f.inGo(in, func(abi *probe.GoABI) {
		if abi.Goid < 0 {
			f.unsupported(in, "goid", "where this version of Go has the number is not known, and the program has no debugging information")
			return
		}
		f.goroutine(in, abi)
	}, func() { f.c.imm(r0, 0) })
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
func (f *fn) goForget(in *dif.Ins, s reg) {
	c := f.c
	const most = 32 // words worth looking at
	if f.p.storageSize > 8*most || !f.maybeGo() {
		return
	}
	some := c.newLabel()
	for off := 0; off < f.p.storageSize; off += 8 {
		c.load(8, r2, s, off)
		c.jmpImm(jNE, r2, 0, some)
	}
	f.inGo(in, func(abi *probe.GoABI) {
		f.goKey(in, abi)
		c.mapPtr(r1, f.p.goroutines)
		c.addr(r2, fp, buf2Off)
		c.call(fnMapDelete)
		c.imm(r0, 0)
		f.putLoc(f.loc[f.pseudo(pSelf)], r0)
	}, func() {})
	c.place(some)
	f.state.self = selfPerhaps
}

// maybeGo reports whether thread-local variables may be a goroutine's.
func (f *fn) maybeGo() bool { return f.goOf() != nil || len(f.p.programs()) > 0 }
