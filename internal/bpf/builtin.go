package bpf

import (
	"fmt"
	"math"

	"godtrace/internal/bpf/lib"
	"godtrace/internal/dif"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
)

// Offsets in struct pt_regs of x86-64, arch/x86/include/asm/ptrace.h.
const (
	regBP, regBX     = 32, 40
	regR10           = 56
	regR9, regR8     = 64, 72
	regAX, regCX     = 80, 88
	regDX, regSI     = 96, 104
	regDI, regOrigAX = 112, 120
	regIP, regCS     = 128, 136
	regFlags, regSP  = 144, 152
	numRegs          = 21
)

// The second word of thread_info, at the start of task_struct, is its status;
// TS_COMPAT there marks a 32-bit system call.
const threadStatus, tsCompat = 16, 2

var (
	sysArgs   = [6]int{regDI, regSI, regDX, regR10, regR8, regR9}
	sysArgs32 = [6]int{regBX, regCX, regDX, regSI, regDI, regBP}
	callArgs  = [6]int{regDI, regSI, regDX, regCX, regR8, regR9}
)

// threadRegs are the registers after those of pt_regs in uregs[]: members of
// struct thread_struct, saved when the thread was last switched out.
var threadRegs = []struct {
	name string
	size int
}{{"ds", 2}, {"es", 2}, {"fsbase", 8}, {"gsbase", 8}, {"trap_nr", 8}}

// offset is the offset of a member of a kernel struct.
func (p *plan) offset(in *dif.Ins, tag, path string) (int, error) {
	types := p.cfg.Types
	if types == nil {
		spec, err := p.kernelTypes()
		if err != nil {
			return 0, err
		}
		types = spec
	}
	off, err := types.MemberOffset(tag, path)
	if err != nil {
		return 0, fmt.Errorf("line %d: struct %s.%s: %w", in.Line, tag, path, err)
	}
	return int(off), nil
}

// taskWalk puts the value at the end of a chain of members into r0, beginning
// at the current task: kernel types are followed by plain loads, which read
// zero where a pointer is bad. The last member has n bytes.
func (f *fn) taskWalk(in *dif.Ins, n int, chain ...string) {
	c := f.c
	c.call(fnCurrentTaskBTF)
	end := c.newLabel()
	for i, m := range chain {
		var tag, path string
		for k := range m {
			if m[k] == '.' {
				tag, path = m[:k], m[k+1:]
				break
			}
		}
		off, err := f.p.offset(in, tag, path)
		if err != nil {
			f.err = err
			return
		}
		if i == len(chain)-1 {
			c.load(n, r0, r0, off)
			break
		}
		c.load(8, r0, r0, off)
		c.jmpImm(jEQ, r0, 0, end)
	}
	c.place(end)
	c.opaque(r0)
}

func (f *fn) unsupported(in *dif.Ins, what, why string) {
	if f.err == nil {
		f.err = &UnsupportedError{int(in.Line), what, why}
	}
}

// builtin puts the value of a built-in variable that is a number into its
// register, by way of r0.
func (f *fn) builtin(in *dif.Ins) {
	c := f.c
	switch id := dif.BuiltinID(in.Sym); id {
	case dif.BArg:
		i := int(f.index(in))
		switch {
		case f.gp.g.Kind != probe.KindTracepoint || f.inError:
			f.arg(i, r0)
		case i < f.fewestArgs():
			f.typedArg(in, i)
		default:
			c.imm(r0, 0)
		}
	case dif.BArgs:
		f.typedArg(in, int(in.Imm))
	case dif.BCPU:
		c.call(fnCPU)
	case dif.BCurThread:
		c.call(fnCurrentTask)
	case dif.BEpid:
		if e := f.probeOf(); e != nil {
			c.imm(r0, int64(e.Epid+f.in.pos))
			break
		}
		f.tableTo(r0, f.p.epidTab, 4, 0)
		if f.in.pos > 0 {
			c.aluImm(opAdd, r0, int32(f.in.pos))
		}
	case dif.BId:
		if e := f.probeOf(); e != nil {
			c.imm(r0, int64(e.Probe.ID))
			break
		}
		f.tableTo(r0, f.p.idTab, 4, 0)
	case dif.BErrno:
		c.imm(r0, 0)
		if f.gp.g.Kind == probe.KindSysExit && !f.inError {
			none := c.newLabel()
			c.load(8, r1, f.machine(pCtx, r1), 8)
			c.neg(r1)
			c.jmpImm(jEQ, r1, 0, none)
			c.jmpImm(jGT, r1, 4095, none)
			c.mov(r0, r1)
			c.place(none)
			c.opaque(r0)
		}
	case dif.BPid:
		c.call(fnPidTgid)
		c.aluImm(opRsh, r0, 32)
	case dif.BTid:
		c.call(fnPidTgid)
		c.mov32(r0, r0)
	case dif.BUid:
		c.call(fnUidGid)
		c.mov32(r0, r0)
	case dif.BGid:
		c.call(fnUidGid)
		c.aluImm(opRsh, r0, 32)
	case dif.BPpid:
		f.taskWalk(in, 4, "task_struct.real_parent", "task_struct.tgid")
	case dif.BTimestamp:
		f.time(r0)
	case dif.BWallTimestamp:
		// CLOCK_TAI needs no lock and no offset that user space keeps up to
		// date; the leap seconds between it and UTC are constant in a session.
		c.call(fnKtimeTAI)
		c.mapValue(r1, f.p.data, offTAI)
		c.load(8, r1, r1, 0)
		c.alu(opSub, r0, r1)
	case dif.BVTimestamp:
		// What the scheduler has charged so far, and what it has not yet.
		f.taskWalk(in, 8, "task_struct.se.exec_start")
		c.store(8, fp, buf2Off, r0)
		f.taskWalk(in, 8, "task_struct.se.sum_exec_runtime")
		c.store(8, fp, bufOff, r0)
		c.call(fnKtimeNS)
		c.load(8, r1, fp, buf2Off)
		c.alu(opSub, r0, r1)
		// exec_start is on the scheduler's clock of this CPU, which began at
		// another moment and leaves out interrupts: the sum is off by what lies
		// between the clocks, which is the same in both terms of a difference.
		c.load(8, r1, fp, bufOff)
		c.alu(opAdd, r0, r1)
	case dif.BCgroup:
		c.call(fnCgroupID)
	case dif.BGoid:
		f.goid(in)
	case dif.BUregs:
		i := f.index(in)
		if i >= numRegs && i < numRegs+int64(len(threadRegs)) {
			r := threadRegs[i-numRegs]
			f.taskWalk(in, r.size, "task_struct.thread."+r.name)
			break
		}
		if i < 0 || i >= numRegs {
			c.imm(r0, 0)
			break
		}
		c.call(fnCurrentTaskBTF)
		c.mov(r1, r0)
		c.call(fnTaskPtRegs)
		c.load(8, r0, r0, 8*int(i))
		if 8*i == regIP && f.behind() {
			c.store(8, fp, bufOff, r0)
			f.lag()
			c.load(8, r1, fp, bufOff)
			c.alu(opSub, r1, r0)
			c.mov(r0, r1)
		}
	case dif.BRegs:
		i := f.index(in)
		if i < 0 || i >= numRegs || !f.hasRegs() {
			c.imm(r0, 0)
			break
		}
		c.load(8, r0, f.machine(pCtx, r1), 8*int(i))
	case dif.BNmissed:
		c.mapValue(r1, f.p.data, offMissed)
		c.load(8, r0, r1, 0)
	case dif.BStackDepth:
		f.stackDepth(in, 0)
	case dif.BUStackDepth:
		f.stackDepth(in, 256)
	case dif.BIpl:
		f.interruptLevel(in)
	case dif.BCaller:
		f.callerFrame(in, 0)
	case dif.BUCaller:
		f.callerFrame(in, 256)
	default:
		f.unsupported(in, fmt.Sprintf("built-in variable %d", id), "")
	}
	f.put(in.Dst, r0)
}

// interruptLevel puts 0 into r0 in a thread, 1 in a soft interrupt, 2 in a hard
// one, 3 in an NMI: from the preemption count, a variable of each CPU.
func (f *fn) interruptLevel(in *dif.Ins) {
	c := f.c
	switch f.gp.g.Kind {
	case probe.KindManual, probe.KindSysEnter, probe.KindSysExit, probe.KindUprobe, probe.KindUretprobe, probe.KindUinstr:
		c.imm(r0, 0) // always a thread
		return
	}
	spec, err := f.p.kernelTypes()
	if err != nil {
		f.err = err
		return
	}
	off := 0
	id, _, ok := spec.Var("__preempt_count")
	if !ok { // 6.2 to 6.14
		if id, _, ok = spec.Var("pcpu_hot"); ok {
			if off, err = f.p.offset(in, "pcpu_hot", "preempt_count"); err != nil {
				f.err = err
				return
			}
		}
	}
	if !ok {
		f.unsupported(in, "ipl", "the kernel's BTF has no preemption count")
		return
	}
	const pseudoBTF, fnThisCPUPtr = 3, 154
	c.imm64(pseudoBTF, r1, uint64(uint32(id)))
	c.call(fnThisCPUPtr)
	c.load(4, r1, r0, off)
	c.imm(r0, 0)
	// Bits 8 is set while a soft interrupt is served, 16…19 in hard ones, 20…23 in NMIs.
	for level, mask := range []int32{1 << 8, 0xf << 16, 0xf << 20} {
		skip := c.newLabel()
		c.mov(r2, r1)
		c.aluImm(opAnd, r2, mask)
		c.jmpImm(jEQ, r2, 0, skip)
		c.imm(r0, int64(level+1))
		c.place(skip)
	}
	c.opaque(r0)
}

// index is the constant index of an array-like built-in.
func (f *fn) index(in *dif.Ins) int64 {
	k, ok := f.operand(in)
	if !ok {
		f.unsupported(in, "an index that is not constant", "")
	}
	return k
}

// hasRegs reports whether the context is struct pt_regs.
func (f *fn) hasRegs() bool {
	switch f.gp.g.Kind {
	case probe.KindPerf, probe.KindUprobe, probe.KindUretprobe, probe.KindKprobe, probe.KindKretprobe, probe.KindInstr, probe.KindUinstr:
		return !f.inError
	}
	return false
}

// callerFrame is the return address of the function the probe is in: the
// second frame of the stack, if the first is in that function.
func (f *fn) callerFrame(in *dif.Ins, flags int64) {
	c := f.c
	if f.noStack(flags) {
		c.imm(r0, 0)
		c.opaque(r0)
		return
	}
	none := c.newLabel()
	if f.p.byTables(in) {
		done := c.newLabel()
		f.walk(in, 16)
		defer c.place(done)
		guess := c.newLabel()
		c.jmpImm(jEQ, r0, 0, guess)
		c.mov(r1, r0)
		c.imm(r0, 0)
		c.jmpImm(jLT, r1, 2, done)
		c.load(8, r0, f.machine(pScratch, r1), f.p.bufOff+8)
		c.opaque(r0)
		c.jmp(done)
		c.place(guess)
	}
	c.mov(r1, f.machine(pCtx, r1))
	c.addr(r2, fp, buf2Off)
	c.imm(r3, 16)
	c.imm(r4, flags|f.skip(flags))
	c.call(fnGetStack)
	c.mov(r1, r0)
	c.imm(r0, 0)
	switch k := f.gp.g.Kind; {
	case flags == 0 && k == probe.KindKretprobe && !f.gp.g.Conds:
		// The function has returned: the stack begins with its caller.
		c.jmpImm(jSLT, r1, 8, none)
		c.load(8, r0, fp, buf2Off)
	case flags == 0 && (k == probe.KindFentry || k == probe.KindFexit):
		// So it does since 7.0 where both entry and return of a function are
		// probed: the unwinder loses the function that calls the trampoline.
		c.jmpImm(jSLT, r1, 16, none)
		c.mov(r1, f.machine(pCtx, r1))
		c.call(fnFuncIP)
		c.load(8, r1, fp, buf2Off)
		c.alu(opSub, r1, r0)
		c.load(8, r0, fp, buf2Off)
		c.jmpImm(jGE, r1, maxEntry, none)
		c.load(8, r0, fp, bufOff)
	default:
		c.jmpImm(jSLT, r1, 16, none)
		c.load(8, r0, fp, bufOff)
	}
	c.place(none)
	c.opaque(r0)
}

// maxEntry is farther into a function than the return address of its call of a
// trampoline, in bytes: behind endbr64 (4) and the call (5).
const maxEntry = 16

// noStack reports whether there is no kernel stack to show: BEGIN and END are in
// no function of the kernel's.
func (f *fn) noStack(flags int64) bool {
	return flags == 0 && f.gp.g.Kind == probe.KindManual
}

// skip is how many of the innermost kernel frames belong to the tracing itself.
// While the tracepoints of system calls ran with preemption disabled by hand
// (6.13 to 6.19), the function doing so was on the stack.
func (f *fn) skip(flags int64) int64 {
	if flags == 0 && f.gp.sys() && kernel.AtLeast(6, 13) && !kernel.AtLeast(7, 0) {
		return 1
	}
	switch f.gp.g.Kind {
	case probe.KindFentry, probe.KindFexit, probe.KindRawTP:
		// The program, and the trampoline or bpf_trace_runN; a clause that is a
		// function of its own is one more. Other kinds of programs have the
		// registers of the place that fired, where the kernel begins.
		switch {
		case flags != 0:
		case f.gp.inline:
			return 2
		default:
			return 3
		}
	}
	return 0
}

// arg puts argument n into r.
func (f *fn) arg(n int, r reg) {
	c := f.c
	ctx := func() reg { return f.machine(pCtx, r1) }
	zero := func() { c.imm(r, 0) }
	if f.inError {
		if n > 5 {
			zero()
			return
		}
		c.load(8, r, f.machine(pScratch, r1), scrArgs+8*n)
		return
	}
	if f.gp.g.Go != nil && (f.gp.g.Kind == probe.KindUprobe || n > 0) {
		f.goArg(n, r)
		return
	}
	switch f.gp.g.Kind {
	case probe.KindSysEnter:
		if n >= 6 {
			zero()
			return
		}
		if f.gp.compatLen == 0 {
			c.load(8, r, f.machine(pRegs, r1), sysArgs[n])
			return
		}
		// Not the code segment: 64-bit code can make a 32-bit call, too.
		narrow, done := c.newLabel(), c.newLabel()
		c.call(fnCurrentTaskBTF)
		c.load(4, r2, r0, threadStatus)
		regs := f.machine(pRegs, r1)
		c.jmpImm(jSet, r2, tsCompat, narrow)
		c.load(8, r, regs, sysArgs[n])
		c.jmp(done)
		c.place(narrow)
		c.load(4, r, regs, sysArgs32[n])
		c.place(done)
	case probe.KindSysExit:
		if n >= 2 {
			zero()
			return
		}
		c.load(8, r, ctx(), 8)
	case probe.KindRawTP:
		if words := f.gp.g.NArgs; n >= 12 || words > 0 && n >= words {
			zero()
			return
		}
		c.load(8, r, ctx(), 8*n)
	case probe.KindFentry:
		if n >= f.gp.g.NArgs {
			zero()
			return
		}
		c.load(8, r, ctx(), 8*n)
		c.opaque(r)
	case probe.KindFexit:
		switch {
		case n == 0: // the offset, which it cannot know
			c.imm(r, -1)
			return
		case n != 1, f.gp.g.Void:
			zero()
			return
		}
		c.load(8, r, ctx(), 8*f.gp.g.NArgs)
		c.opaque(r)
	case probe.KindPerf:
		if n >= 2 {
			zero()
			return
		}
		// The PC goes to arg0 in the kernel, to arg1 in a process.
		x := ctx()
		done := c.newLabel()
		c.load(8, r2, x, regCS)
		c.load(8, r3, x, regIP)
		c.aluImm(opAnd, r2, 3)
		c.mov(r, r3)
		op := uint8(jEQ)
		if n == 1 {
			op = jNE
		}
		c.jmpImm(op, r2, 0, done)
		c.imm(r, 0)
		c.place(done)
		c.opaque(r)
	case probe.KindUprobe, probe.KindKprobe:
		if f.gp.g.Stack32 {
			c.load(8, r3, ctx(), regSP)
			c.aluImm(opAdd, r3, int32(4*(n+1)))
			c.addr(r1, fp, bufOff)
			c.imm(r2, 4)
			c.call(f.readUser())
			c.load(4, r, fp, bufOff)
			return
		}
		if n < 6 {
			c.load(8, r, ctx(), callArgs[n])
			return
		}
		helper := f.readUser()
		if f.gp.g.Kind == probe.KindKprobe {
			helper = fnProbeReadKernel
		}
		c.load(8, r3, ctx(), regSP)
		c.aluImm(opAdd, r3, int32(8*(n-5)))
		c.addr(r1, fp, bufOff)
		c.imm(r2, 8)
		c.call(helper) // on failure the buffer is zero
		c.load(8, r, fp, bufOff)
	case probe.KindUretprobe, probe.KindKretprobe:
		switch {
		case n == 0 && (f.gp.g.Kind == probe.KindUretprobe || f.gp.g.Conds):
			// The probe is on the return instruction, and its cookie has the offset.
			c.mov(r1, ctx())
			c.call(fnAttachCookie)
			c.mov(r, r0)
			c.aluImm(opRsh, r, 32)
		case n == 0:
			c.imm(r, -1)
		case n == 1:
			c.load(8, r, ctx(), regAX)
		default:
			zero()
		}
	case probe.KindInstr, probe.KindUinstr:
		f.instrArg(n, r)
	default:
		zero()
	}
}

// instrArg puts argument n of a firing on an instruction into r: its address,
// whether it branches, and where to.
func (f *fn) instrArg(n int, r reg) {
	c := f.c
	ctx := func() reg { return f.machine(pCtx, r1) }
	address := func(dst reg) {
		c.load(8, dst, ctx(), regIP)
		if f.gp.g.Kind == probe.KindInstr {
			c.aluImm(opSub, dst, 1) // the kernel has stepped over the breakpoint
		}
	}
	done := c.newLabel()
	switch n {
	case 0:
		address(r)
	case 1:
		not := c.newLabel()
		c.condition(ctx, not, true)
		c.imm(r, 1)
		c.jmp(done)
		c.place(not)
		c.imm(r, 0)
		c.place(done)
	case 2:
		c.mov(r1, ctx())
		c.call(fnAttachCookie)
		c.aluImm(opArsh, r0, 32)
		c.mov(r, r0)
		c.jmpImm(jEQ, r, 0, done)
		address(r2)
		c.alu(opAdd, r, r2)
		c.place(done)
	default:
		c.imm(r, 0)
		return
	}
	c.opaque(r)
}

// fewestArgs is the number of arguments that all probes of the group have.
func (f *fn) fewestArgs() int {
	n := math.MaxInt
	for _, e := range f.gp.enabled {
		n = min(n, len(e.Probe.TypedArgs()))
	}
	return n
}

// typedArg puts the native value of args[i] into r0. Probes of one program may
// have it in different places (USDT): then the probe's index decides.
func (f *fn) typedArg(in *dif.Ins, i int) {
	c := f.c
	type place struct {
		loc  probe.Loc
		from int
	}
	of := func(e *Enabled) (place, bool) {
		args := e.Probe.TypedArgs()
		if i >= len(args) {
			return place{}, false
		}
		if l := args[i].Loc; l != nil {
			return place{*l, -1}, true
		}
		return place{from: args[i].From}, true
	}
	emit := func(pl place) {
		if pl.from >= 0 {
			f.arg(pl.from, r0)
			return
		}
		f.location(in, &pl.loc)
	}
	if f.inError {
		f.arg(i, r0)
		return
	}
	var all []*Enabled
	for _, e := range f.gp.enabled {
		for _, cl := range e.Clauses {
			if cl == f.cl {
				all = append(all, e)
				break
			}
		}
	}
	var places []place
	where := map[place][]*Enabled{}
	for _, e := range all {
		pl, ok := of(e)
		if !ok {
			f.unsupported(in, fmt.Sprintf("args[%d] of %s", i, e.Probe.Desc), "the probe has fewer arguments")
			return
		}
		if where[pl] == nil {
			places = append(places, pl)
		}
		where[pl] = append(where[pl], e)
	}
	if len(places) == 0 {
		c.imm(r0, 0)
		return
	}
	// The place most probes share is the one that needs no test.
	most := 0
	for k, pl := range places {
		if len(where[pl]) > len(where[places[most]]) {
			most = k
		}
	}
	done := c.newLabel()
	var bodies []func()
	if len(places) > 1 {
		f.probeTo(r2)
		for k, pl := range places {
			if k == most {
				continue
			}
			l := c.newLabel()
			for _, e := range where[pl] {
				c.jmpImm(jEQ, r2, int32(e.Index), l)
			}
			bodies = append(bodies, func() {
				c.place(l)
				emit(pl)
				c.jmp(done)
			})
		}
	}
	emit(places[most])
	if len(bodies) > 0 {
		c.jmp(done)
	}
	for _, b := range bodies {
		b()
	}
	c.place(done)
	c.opaque(r0)
}

// location puts the value at a place into r0.
func (f *fn) location(in *dif.Ins, l *probe.Loc) {
	c := f.c
	switch l.Kind {
	case probe.LocArg:
		f.arg(int(l.Off), r0)
	case probe.LocConst:
		c.imm(r0, l.Disp)
		c.opaque(r0)
		return
	case probe.LocCtxAddr:
		c.addr(r0, f.machine(pCtx, r1), int(l.Off))
		c.opaque(r0)
		return
	case probe.LocCtxData:
		c.load(4, r0, f.machine(pCtx, r1), int(l.Off))
		c.aluImm(opAnd, r0, 0xffff)
		c.mov(r2, f.machine(pCtx, r2))
		c.opaque(r2)
		c.alu(opAdd, r0, r2)
		c.aluImm(opAdd, r0, int32(l.Disp))
		return
	case probe.LocCtx, probe.LocReg:
		n := l.Size
		if n == 0 {
			n = 8
		}
		if l.Kind == probe.LocReg {
			c.load(8, r0, f.machine(pCtx, r1), int(l.Off))
		} else {
			c.load(n, r0, f.machine(pCtx, r1), int(l.Off))
		}
	case probe.LocMem:
		n := l.Size
		if n == 0 {
			n = 8
		}
		c.load(8, r3, f.machine(pCtx, r1), int(l.Off))
		if l.Disp != 0 {
			c.imm(r0, l.Disp)
			c.alu(opAdd, r3, r0)
		}
		c.addr(r1, fp, bufOff)
		c.imm(r2, int64(n))
		c.call(f.readUser()) // on failure the buffer is zero
		c.load(n, r0, fp, bufOff)
	default:
		f.unsupported(in, "this kind of argument", "")
		return
	}
	switch n := l.Size; {
	case n == 0 || n >= 8:
	case l.Signed:
		f.signExtend(r0, n)
	case n == 4:
		c.mov32(r0, r0)
	default:
		c.aluImm(opAnd, r0, 1<<(8*n)-1)
	}
}

// commLen is TASK_COMM_LEN.
const commLen = 16

// strBuiltin puts a string built-in at a place of Size bytes.
func (f *fn) strBuiltin(in *dif.Ins, ptr func(reg), mem func(tmp reg) (reg, int)) {
	c := f.c
	n := int(in.Size)
	switch id := dif.BuiltinID(in.Sym); id {
	case dif.BExecname:
		if in.Pad { // the helper did not always zero what it leaves
			b, off := mem(r1)
			f.zero(b, off, n)
		}
		ptr(r1)
		c.imm(r2, int64(min(n, commLen)))
		c.call(fnComm)
	case dif.BProbeProv, dif.BProbeMod, dif.BProbeFunc, dif.BProbeName:
		part := int(id - dif.BProbeProv)
		if e := f.probeOf(); e != nil {
			b, off := mem(r1)
			f.constStr(b, off, e.Probe.Desc.Part(part), n, in.Pad)
			return
		}
		if in.Pad {
			b, off := mem(r1)
			f.zero(b, off, n)
		}
		f.tableTo(r3, f.p.txtTable, 16, 4*part)
		c.mapValue(r1, f.p.ro, 0)
		c.opaque(r1)
		c.alu(opAdd, r3, r1)
		ptr(r1)
		c.imm(r2, int64(n))
		c.call(fnProbeReadKernStr)
	case dif.BZonename:
		b, off := mem(r1)
		f.constStr(b, off, "global", n, in.Pad)
	case dif.BCwd, dif.BRoot:
		which := int32(0)
		if id == dif.BRoot {
			which = 1
		}
		c.storeImm(8, f.machine(pScratch, r1), f.p.workOff+lib.Arg(0), which)
		f.enterRoutine(lib.CWD, f.p.bufOff, f.p.strSize())
		f.routineFault()
		f.copyBuf(in, ptr, mem, func() { c.load(8, r3, f.machine(pScratch, r3), f.p.workOff) })
	case dif.BExecargs:
		f.execargs(in)
		f.copyBuf(in, ptr, mem, func() {
			f.strBuf(r3)
			c.opaque(r3)
		})
	default:
		f.unsupported(in, fmt.Sprintf("string built-in %d", id), "")
	}
}

// copyBuf copies a string of our own to the place of a string built-in.
func (f *fn) copyBuf(in *dif.Ins, ptr func(reg), mem func(tmp reg) (reg, int), src func()) {
	c := f.c
	if in.Pad {
		b, off := mem(r1)
		f.zero(b, off, int(in.Size))
	}
	ptr(r1)
	c.imm(r2, int64(in.Size))
	src()
	c.call(fnProbeReadKernStr)
}

// execargsMax is the most of a process's arguments that execargs shows.
const execargsMax = 512

// execargs puts the arguments of the process, separated by blanks, into the
// level's buffer.
func (f *fn) execargs(in *dif.Ins) {
	c := f.c
	f.taskWalk(in, 8, "task_struct.mm", "mm_struct.arg_end")
	c.store(8, fp, bufOff, r0)
	f.taskWalk(in, 8, "task_struct.mm", "mm_struct.arg_start")
	if f.err != nil {
		return
	}
	done, fits := c.newLabel(), c.newLabel()
	f.strBuf(r1)
	c.storeImm(1, r1, 0, 0)
	c.mov(r3, r0)
	c.load(8, r2, fp, bufOff)
	c.alu(opSub, r2, r3)
	c.jmpImm(jEQ, r2, 0, done) // a kernel thread, or no arguments at all
	c.jmpImm(jLE, r2, execargsMax, fits)
	c.imm(r2, execargsMax)
	c.place(fits)
	c.store(8, fp, bufOff, r2)
	c.call(f.readUser())
	f.strBuf(r1)
	c.jmpImm(jNE, r0, 0, done) // paged out: zeroes, no arguments
	// Zero bytes become blanks, eight at a time: 0x80 is left where a byte was
	// zero, and 0x80>>2 is a blank.
	c.imm(r3, 0x7f7f7f7f7f7f7f7f)
	for at := 0; at < execargsMax; at += 8 {
		c.load(8, r2, r1, at)
		c.mov(r4, r2)
		c.alu(opAnd, r4, r3)
		c.alu(opAdd, r4, r3)
		c.alu(opOr, r4, r2)
		c.alu(opOr, r4, r3)
		c.aluImm(opXor, r4, -1)
		c.aluImm(opRsh, r4, 2)
		c.alu(opOr, r2, r4)
		c.store(8, r1, at, r2)
	}
	// The last byte is the last argument's NUL, or cuts them off.
	c.load(8, r2, fp, bufOff)
	c.aluImm(opSub, r2, 1)
	c.jmpImm(jGE, r2, execargsMax, done)
	c.alu(opAdd, r1, r2)
	c.storeImm(1, r1, 0, 0)
	c.place(done)
}

// maxFrames is PERF_MAX_STACK_DEPTH, the kernel's limit unless it was raised.
const maxFrames = 127

// maxFrames is the option maxframes.
func (p *plan) maxFrames() int {
	if n := p.cfg.MaxFrames; n > 0 {
		return n
	}
	return maxFrames
}

// stackDepth puts the number of frames into r0.
func (f *fn) stackDepth(in *dif.Ins, flags int64) {
	c := f.c
	if f.noStack(flags) {
		c.imm(r0, 0)
		c.opaque(r0)
		return
	}
	if f.p.byTables(in) {
		done := c.newLabel()
		f.walk(in, 8*f.p.maxFrames())
		c.jmpImm(jNE, r0, 0, done)
		defer c.place(done)
	}
	c.mov(r1, f.machine(pCtx, r1))
	f.strBuf(r2)
	c.imm(r3, int64(8*f.p.maxFrames()))
	c.imm(r4, flags|f.skip(flags))
	c.call(fnGetStack)
	some := c.newLabel()
	c.jmpImm(jSGE, r0, 0, some)
	c.imm(r0, 0)
	c.place(some)
	c.aluImm(opRsh, r0, 3)
	c.opaque(r0)
	if flags != 0 {
		f.untilZero()
	}
}

// untilZero takes the r0 frames in the buffer for those before the first zero,
// where ustack() ends: beyond it lies what a function without a frame pointer
// left in the register for it.
func (f *fn) untilZero() {
	c := f.c
	again, done := c.newLabel(), c.newLabel()
	f.strBuf(r2)
	c.imm(r3, 0)
	c.place(again)
	c.jmpReg(jGE, r3, r0, done)
	c.load(8, r4, r2, 0)
	c.jmpImm(jEQ, r4, 0, done)
	c.aluImm(opAdd, r2, 8)
	c.aluImm(opAdd, r3, 1)
	c.jmpImm(jLT, r3, int32(f.p.maxFrames()), again)
	c.place(done)
	c.mov(r0, r3)
	c.opaque(r0)
}

// stack puts stack frames at a place of Size bytes.
func (f *fn) stack(in *dif.Ins, ptr func(r reg, off int)) {
	c := f.c
	n := int(in.Size)
	off, flags := 0, int64(0)
	if in.Space == dif.SpaceUser {
		c.call(fnPidTgid)
		c.aluImm(opRsh, r0, 32)
		ptr(r1, 0)
		c.store(8, r1, 0, r0)
		off, flags, n = 8, 256, n-8
	}
	if n < 8 {
		return
	}
	if f.noStack(flags) {
		ptr(r1, off)
		f.zero(r1, 0, n&^7)
		return
	}
	done := c.newLabel()
	if f.p.byTables(in) {
		guess := c.newLabel()
		f.walk(in, n)
		c.jmpImm(jEQ, r0, 0, guess)
		ptr(r1, off)
		size := f.p.unwindSize(n)
		c.imm(r2, int64(size))
		f.strBuf(r3)
		c.call(fnProbeReadKernel)
		if rest := n&^7 - size; rest > 0 {
			ptr(r1, off+size)
			f.zeroes(r1, rest)
		}
		c.jmp(done)
		c.place(guess)
	}
	ptr(r2, off)
	c.mov(r1, f.machine(pCtx, r1))
	c.imm(r3, int64(n&^7))
	c.imm(r4, flags|f.skip(flags))
	c.call(fnGetStack) // fills what is left, or everything on failure, with zeroes
	c.place(done)
	if in.Space == dif.SpaceUser && f.behind() {
		none := c.newLabel()
		f.lag()
		ptr(r1, off)
		c.load(8, r2, r1, 0)
		c.jmpImm(jEQ, r2, 0, none)
		c.alu(opSub, r2, r0)
		c.store(8, r1, 0, r2)
		c.place(none)
	}
}

// maxUnwind is the most frames that a walk by unwind tables takes down, if
// maxframes is not less.
const maxUnwind = 512

// unwindSize is how many of n bytes for frames a walk by tables fills.
func (p *plan) unwindSize(n int) int { return min(n&^7, 8*p.maxFrames(), 8*maxUnwind) }

// zeroes clears at most zeroSize bytes at r1; r2 and r3 are lost.
func (f *fn) zeroes(to reg, n int) {
	c := f.c
	c.mov(r1, to)
	c.imm(r2, int64(n))
	c.mapValue(r3, f.p.data, f.p.zeroOff)
	c.call(fnProbeReadKernel)
}

// walk walks the user stack by unwind tables, for at most n bytes of frames.
// They are left in the level's buffer, their number, 0 where the process has no
// tables, in r0.
func (f *fn) walk(in *dif.Ins, n int) {
	c, p := f.c, f.p
	n = p.unwindSize(n)
	f.strBuf(r1)
	f.zeroes(r1, n)
	f.taskWalk(in, 8, "task_struct.mm", "mm_struct.start_stack")
	s := f.machine(pScratch, r1)
	c.store(8, s, p.workOff+lib.Arg(0), r0)
	guess := int32(0)
	if p.cfg.UStack == UStackAuto {
		guess = 1
	}
	c.storeImm(8, s, p.workOff+lib.Arg(1), guess)
	f.enterRoutine(lib.UStack, p.bufOff, n)
	c.load(8, r0, f.machine(pScratch, r1), p.workOff)
	if p.cfg.UStack != UStackUnwind {
		return
	}
	// No guess: where the process was is all there is to tell.
	some := c.newLabel()
	c.jmpImm(jNE, r0, 0, some)
	c.load(8, r1, f.machine(pScratch, r1), p.workOff+lib.Arg(0))
	c.jmpImm(jEQ, r1, 0, some) // a thread of the kernel was nowhere
	c.call(fnCurrentTaskBTF)
	c.mov(r1, r0)
	c.call(fnTaskPtRegs)
	c.load(8, r0, r0, regIP)
	f.strBuf(r1)
	c.store(8, r1, 0, r0)
	if n > 8 {
		c.imm(r0, -1)
		c.store(8, r1, 8, r0)
	}
	c.imm(r0, 1)
	c.place(some)
}

// behind reports whether the site may lie behind the probe's place.
func (f *fn) behind() bool { return f.gp.g.Behind && !f.inError }

// lag puts the distance from the probe's place to the site into r0.
func (f *fn) lag() {
	c := f.c
	c.mov(r1, f.machine(pCtx, r1))
	c.call(fnAttachCookie)
	c.aluImm(opRsh, r0, 32)
}
