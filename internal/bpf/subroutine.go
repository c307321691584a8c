package bpf

import (
	"fmt"

	"godtrace/internal/bpf/lib"
	"godtrace/internal/dif"
	"godtrace/internal/kernel"
)

// Subroutines that take a few instructions are written out here; the others
// are routines of the library.

// subroutine emits a call of one of D's subroutines.
func (f *fn) subroutine(in *dif.Ins) {
	c := f.c
	arg := func(i int) dif.Reg {
		if i < len(in.Args) {
			return in.Args[i]
		}
		return 0
	}
	switch s := dif.Subr(in.Sym); s {
	case dif.SAlloca:
		f.alloca(in, arg(0))
		f.put(in.Dst, r0)
	case dif.SCopyin:
		f.alloca(in, arg(1))
		f.copyAlloc(in, arg(0), arg(1), true, func() { c.load(8, r1, fp, buf2Off) })
		c.load(8, r0, fp, buf2Off)
		f.put(in.Dst, r0)
	case dif.SCopyinto:
		f.copyAlloc(in, arg(0), arg(1), true, func() { f.getTo(arg(2), r1) })
	case dif.SBcopy:
		f.copyAlloc(in, arg(0), arg(2), false, func() { f.getTo(arg(1), r1) })
	case dif.SCopyinstr:
		f.copyinstr(in, arg(0), arg(1))
	case dif.SStrlen:
		// A probe read of the string into the clause's temporary counts it.
		f.strlen(in, arg(0))
	case dif.SStrcmp:
		f.strcmp(in, arg(0), arg(1))
	case dif.SStrjoin:
		f.strjoin(in, arg(0), arg(1))
	case dif.SHtons, dif.SNtohs:
		f.swap(in, arg(0), 16)
	case dif.SHtonl, dif.SNtohl:
		f.swap(in, arg(0), 32)
	case dif.SHtonll, dif.SNtohll:
		f.swap(in, arg(0), 64)
	case dif.SRand:
		c.call(fnPrandom)
		f.put(in.Dst, r0)
	case dif.SGetmajor: // dev_t of the kernel: 12 bits of major over 20 of minor
		f.getTo(arg(0), r0)
		c.aluImm(opRsh, r0, 20)
		f.put(in.Dst, r0)
	case dif.SGetminor:
		f.getTo(arg(0), r0)
		c.aluImm(opAnd, r0, 1<<20-1)
		f.put(in.Dst, r0)
	case dif.SMutexTypeAdaptive, dif.SMutexTypeSpin:
		// Linux's struct mutex always spins for a while and then sleeps.
		c.imm(r0, 0)
		if s == dif.SMutexTypeAdaptive {
			c.imm(r0, 1)
		}
		f.put(in.Dst, r0)
	case dif.SSpeculation:
		f.speculation()
		f.put(in.Dst, r0)
	case dif.SProgenyof:
		f.progenyof(in, arg(0))
		f.put(in.Dst, r0)
	default:
		if rt := routine(in); rt != nil {
			f.callRoutine(in, rt)
			return
		}
		f.unsupported(in, fmt.Sprintf("subroutine %v", s), "not yet written for eBPF")
	}
}

// routine is the library's routine for a call, nil where the code is written
// out here.
func routine(in *dif.Ins) *lib.Routine {
	if in.Op != dif.Call {
		return nil
	}
	switch s := dif.Subr(in.Sym); s {
	case dif.SStrlen, dif.SStrcmp, dif.SStrjoin, dif.SProgenyof:
		return nil
	default:
		return lib.Routines[s]
	}
}

// callRoutine calls a routine of the library by its convention (package lib).
func (f *fn) callRoutine(in *dif.Ins, rt *lib.Routine) {
	c, p := f.c, f.p
	s := f.machine(pScratch, r1)
	n := len(in.Args)
	for i := range 4 {
		at := p.workOff + lib.Arg(i)
		switch {
		case i < n:
			f.storeReg(8, s, at, in.Args[i])
		case rt.Defaults != nil && i >= rt.First && i < rt.First+len(rt.Defaults):
			c.imm(r2, rt.Defaults[i-rt.First])
			c.store(8, s, at, r2)
		}
	}
	dst := p.workOff
	if in.Temp != 0 {
		dst = f.temps[in.Temp-1].off + int(in.Imm)
	}
	f.enterRoutine(rt, dst, max(int(in.Size), 8))
	if canFault(in) {
		f.routineFault()
	}
	if in.Dst != 0 {
		c.load(8, r0, f.machine(pScratch, r1), p.workOff)
		f.put(in.Dst, r0)
	}
}

// enterRoutine calls a routine whose arguments are in the work area.
func (f *fn) enterRoutine(rt *lib.Routine, dst, dsize int) {
	c, p := f.c, f.p
	s := f.machine(pScratch, r2)
	c.addr(r1, s, p.workOff)
	c.addr(r2, f.machine(pScratch, r2), dst)
	c.imm(r3, int64(dsize))
	c.imm(r4, int64(p.strSize()))
	switch {
	case rt.State:
		c.addr(r5, f.machine(pScratch, r5), p.stateOff)
	case rt.Members != nil:
		c.mapValue(r5, p.ro, p.memberOff[rt])
	default:
		c.imm(r5, 0)
	}
	l, ok := f.gp.routines[rt.Func]
	if !ok {
		l = c.newLabel()
		f.gp.routines[rt.Func] = l
	}
	c.callSub(l)
}

// routineFault faults if a routine says so.
func (f *fn) routineFault() {
	c := f.c
	good := c.newLabel()
	c.jmpImm(jEQ, r0, 0, good)
	c.aluImm(opAnd, r0, 0xff)
	c.store(8, fp, bufOff, r0)
	c.load(8, r0, f.machine(pScratch, r1), f.p.workOff+8)
	c.store(8, fp, buf2Off, r0)
	bad := f.fault(0, 0, 0)
	site := &f.faults[len(f.faults)-1]
	site.inBuf, site.kindInBuf = true, true
	c.jmp(bad)
	c.place(good)
}

func (f *fn) swap(in *dif.Ins, v dif.Reg, bits int32) {
	f.getTo(v, r0)
	f.c.bswap(r0, bits)
	f.put(in.Dst, r0)
}

// alloca takes n bytes of the firing's scratch: the address is left in r0 and
// in the frame's second buffer.
func (f *fn) alloca(in *dif.Ins, n dif.Reg) {
	c := f.c
	none := f.fault(dif.FltNoScratch, 0, 0)
	f.getTo(n, r1)
	c.jmpImm(jGT, r1, int32(f.p.allocSize), none)
	s := f.machine(pScratch, r2)
	c.load(8, r3, s, scrAlloc)
	c.mov(r4, r3)
	c.alu(opAdd, r4, r1)
	c.aluImm(opAdd, r4, 7)
	c.aluImm(opAnd, r4, ^7)
	c.jmpImm(jGT, r4, int32(f.p.allocSize), none)
	c.store(8, s, scrAlloc, r4)
	c.addr(r0, s, f.p.allocOff)
	c.opaque(r0)
	c.alu(opAdd, r0, r3)
	c.store(8, fp, buf2Off, r0)
}

// copyAlloc copies n bytes from src to alloca'd memory, whose address dst puts
// into r1.
func (f *fn) copyAlloc(in *dif.Ins, src, n dif.Reg, user bool, dst func()) {
	c := f.c
	dst()
	c.store(8, fp, buf2Off, r1)
	bad := f.fault(dif.FltBadAddr, 0, 0)
	f.faults[len(f.faults)-1].inBuf = true
	if f.p.allocSize == 0 {
		c.jmp(bad)
		f.state.reach = false
		return
	}
	f.allocOffset(r1, r2)
	c.jmpImm(jGT, r1, int32(f.p.allocSize), bad)
	f.getTo(n, r2)
	large := f.fault(dif.FltBadSize, n, 0)
	c.jmpImm(jGT, r2, int32(f.p.allocSize), large)
	c.load(8, r4, f.machine(pScratch, r4), scrAlloc)
	c.jmpReg(jGE, r1, r4, bad) // not alloca'd
	c.mov(r3, r1)
	c.alu(opAdd, r3, r2)
	c.jmpReg(jGT, r3, r4, large) // more than was
	c.load(8, r0, f.machine(pScratch, r0), scrAlloc)
	c.jmpReg(jGT, r3, r0, bad)
	none := c.newLabel()
	c.jmpImm(jEQ, r2, 0, none)
	c.addr(r3, f.machine(pScratch, r3), f.p.allocOff)
	c.alu(opAdd, r1, r3)
	f.getTo(src, r3)
	helper := int32(fnProbeReadKernel)
	if user {
		helper = f.readUser()
	}
	c.call(helper)
	c.jmpImm(jNE, r0, 0, f.fault(dif.FltBadAddr, src, 0))
	c.place(none)
}

// copyinstr copies a string of the process into the temporary.
func (f *fn) copyinstr(in *dif.Ins, src, limit dif.Reg) {
	c := f.c
	if in.Pad {
		b, off := f.tempMem(in.Temp, int(in.Imm), r1)
		f.zero(b, off, int(in.Size))
	}
	n := int64(in.Size)
	if k, ok := f.constant(limit); limit != 0 && ok {
		n = int64(min(uint64(n), uint64(k)))
		limit = 0
	}
	f.tempPtr(r1, in.Temp, int(in.Imm))
	c.storeImm(1, r1, 0, 0) // with a limit of 0 nothing is read
	if limit == 0 {
		c.imm(r2, n)
	} else {
		// The limit counts the NUL.
		small := c.newLabel()
		f.getTo(limit, r2)
		c.jmpImm(jLT, r2, int32(n), small)
		c.imm(r2, n)
		c.place(small)
	}
	f.getTo(src, r3)
	f.readUserStr()
	c.jmpImm(jSLT, r0, 0, f.fault(dif.FltBadAddr, src, 0))
	f.resultAddr(in)
}

// resultAddr makes the address of the temporary the result.
func (f *fn) resultAddr(in *dif.Ins) {
	if in.Dst == 0 {
		return
	}
	f.tempPtr(r0, in.Temp, int(in.Imm))
	f.c.opaque(r0)
	f.put(in.Dst, r0)
}

// strBuf is the offset in the level of a buffer of the string size that
// routines without a temporary of their own use.
func (f *fn) strBuf(r reg) { f.c.addr(r, f.machine(pScratch, r), f.p.bufOff) }

func (f *fn) strlen(in *dif.Ins, s dif.Reg) {
	c := f.c
	if text, ok := f.constString(s); ok {
		c.imm(r0, int64(min(len(text), f.p.strSize()-1)))
		c.opaque(r0)
		f.put(in.Dst, r0)
		return
	}
	f.strBuf(r1)
	c.imm(r2, int64(f.p.strSize()))
	f.getTo(s, r3)
	c.call(fnProbeReadKernStr)
	c.jmpImm(jSLT, r0, 0, f.fault(dif.FltBadAddr, s, 0))
	c.mov(r1, r0)
	c.neg(r1)
	c.aluImm(opRsh, r1, 63)
	c.alu(opSub, r0, r1)
	f.put(in.Dst, r0)
}

// strcmp with a constant compares words; otherwise a loop of words over copies
// whose tails are zero.
func (f *fn) strcmp(in *dif.Ins, a, b dif.Reg) {
	c := f.c
	text, isK := f.constString(b)
	swapped := false
	if !isK {
		if text, isK = f.constString(a); isK {
			a, b, swapped = b, a, true
		}
	}
	if !isK {
		f.strcmpLoop(in, a, b)
		return
	}
	text = text[:min(len(text), f.p.strSize()-1)]
	n := len(text) + 1
	base, off := r1, 0
	if f.own(a, n) {
		base, off = f.ownBytes(a)
	} else {
		// One byte more than the constant has shows a longer string.
		f.strBuf(r1)
		c.imm(r2, int64(min(n+1, f.p.strSize())))
		f.getTo(a, r3)
		c.call(fnProbeReadKernStr)
		c.jmpImm(jSLT, r0, 0, f.fault(dif.FltBadAddr, a, 0))
		f.strBuf(r1)
	}
	done := c.newLabel()
	c.mov(r5, base)
	b8 := make([]byte, n)
	copy(b8, text)
	differ := make([]label, 0)
	for i := 0; i < n; {
		w := 8
		for w > n-i || (off+i)%w != 0 {
			w /= 2
		}
		var v uint64
		for k := w - 1; k >= 0; k-- {
			v = v<<8 | uint64(b8[i+k])
		}
		c.load(w, r0, r5, off+i)
		l := c.newLabel()
		differ = append(differ, l)
		if int64(v) == int64(int32(v)) {
			c.jmpImm(jNE, r0, int32(v), l)
		} else {
			c.imm(r1, int64(v))
			c.jmpReg(jNE, r0, r1, l)
		}
		i += w
	}
	c.imm(r0, 0)
	c.jmp(done)
	i := 0
	for _, l := range differ {
		w := 8
		for w > n-i || (off+i)%w != 0 {
			w /= 2
		}
		var v uint64
		for k := 0; k < w; k++ {
			v = v<<8 | uint64(b8[i+k])
		}
		c.place(l)
		if w > 1 {
			c.bswap(r0, int32(8*w))
		}
		c.imm(r1, int64(v))
		less := c.newLabel()
		lt, gt := int64(-1), int64(1)
		if swapped {
			lt, gt = gt, lt
		}
		c.jmpReg(jLT, r0, r1, less)
		c.imm(r0, gt)
		c.jmp(done)
		c.place(less)
		c.imm(r0, lt)
		c.jmp(done)
		i += w
	}
	c.place(done)
	c.opaque(r0)
	f.put(in.Dst, r0)
}

// own reports whether the address a is that of n bytes of a temporary or a
// global.
func (f *fn) own(a dif.Reg, n int) bool {
	m := f.remat[a]
	if m == nil {
		return false
	}
	switch m.Op {
	case dif.TempAddr:
		return int(m.Imm)+n <= f.temps[m.Temp-1].size && (!f.temps[m.Temp-1].stack || f.padded(m.Temp))
	case dif.VarAddr:
		return n <= f.p.vars[m.Sym].slot
	}
	return false
}

// ownBytes is the place of such bytes.
func (f *fn) ownBytes(a dif.Reg) (reg, int) {
	m := f.remat[a]
	if m.Op == dif.TempAddr {
		return f.tempMem(m.Temp, int(m.Imm), r5)
	}
	f.c.mapValue(r5, f.p.data, f.p.vars[m.Sym].off)
	return r5, 0
}

// needsBuf reports whether a routine works on copies in the level's buffer.
func (f *fn) needsBuf(in *dif.Ins) bool {
	switch dif.Subr(in.Sym) {
	case dif.SStrlen:
		_, ok := f.constString(in.Args[0])
		return !ok
	case dif.SStrcmp:
		for i, a := range in.Args {
			if s, ok := f.constString(a); ok && f.own(in.Args[1-i], min(len(s)+1, f.p.strSize())) {
				return false
			}
		}
		return true
	}
	return false
}

// padded reports whether every byte of a temporary is written before it is
// read, as the verifier of old kernels demands of the frame.
func (f *fn) padded(temp int32) bool {
	for i := range f.cl.Code {
		in := &f.cl.Code[i]
		if in.Temp != temp {
			continue
		}
		switch in.Op {
		case dif.TBuiltin:
			if dif.BuiltinID(in.Sym) == dif.BExecname && (in.Pad || int(in.Size) <= commLen) {
				return true
			}
			return in.Pad
		case dif.TStr, dif.TZero:
			return in.Pad || in.Op == dif.TZero
		}
	}
	return false
}

// strcmpLoop compares byte by byte with bounded steps.
func (f *fn) strcmpLoop(in *dif.Ins, a, b dif.Reg) {
	c := f.c
	n := f.p.strSize()
	// Two zeroed copies, side by side.
	for k, s := range []dif.Reg{a, b} {
		f.strBuf(r1)
		if k == 1 {
			c.aluImm(opAdd, r1, int32(align(n, 8)))
		}
		f.zero(r1, 0, align(n, 8))
		c.imm(r2, int64(n))
		f.getTo(s, r3)
		c.call(fnProbeReadKernStr)
		c.jmpImm(jSLT, r0, 0, f.fault(dif.FltBadAddr, s, 0))
	}
	f.strBuf(r5)
	differ, done := c.newLabel(), c.newLabel()
	for i := 0; i < align(n, 8); i += 8 {
		c.load(8, r0, r5, i)
		c.load(8, r1, r5, align(n, 8)+i)
		c.jmpReg(jNE, r0, r1, differ)
	}
	c.imm(r0, 0)
	c.jmp(done)
	c.place(differ)
	c.bswap(r0, 64)
	c.bswap(r1, 64)
	less := c.newLabel()
	c.jmpReg(jLT, r0, r1, less)
	c.imm(r0, 1)
	c.jmp(done)
	c.place(less)
	c.imm(r0, -1)
	c.place(done)
	c.opaque(r0)
	f.put(in.Dst, r0)
}

// strjoin reads the second string to where the first one's NUL is.
func (f *fn) strjoin(in *dif.Ins, a, b dif.Reg) {
	c := f.c
	n := int32(in.Size)
	if in.Pad {
		m, off := f.tempMem(in.Temp, int(in.Imm), r1)
		f.zero(m, off, int(n))
	}
	f.tempPtr(r1, in.Temp, int(in.Imm))
	c.imm(r2, int64(n))
	f.getTo(a, r3)
	c.call(fnProbeReadKernStr)
	c.jmpImm(jSLT, r0, 0, f.fault(dif.FltBadAddr, a, 0))
	done, full := c.newLabel(), c.newLabel()
	bad := f.fault(dif.FltBadAddr, b, 0)
	c.aluImm(opSub, r0, 1)
	c.jmpImm(jGE, r0, n-1, full)
	f.tempPtr(r1, in.Temp, int(in.Imm))
	c.alu(opAdd, r1, r0)
	c.imm(r2, int64(n))
	c.alu(opSub, r2, r0)
	f.getTo(b, r3)
	c.call(fnProbeReadKernStr)
	c.jmpImm(jSLT, r0, 0, bad)
	c.jmp(done)
	c.place(full) // no room for more, but a bad address is one
	c.addr(r1, fp, bufOff)
	c.imm(r2, 1)
	f.getTo(b, r3)
	c.call(fnProbeReadKernel)
	c.jmpImm(jNE, r0, 0, bad)
	c.place(done)
	f.resultAddr(in)
}

// speculation puts the number of a free speculation, now active, into r0, or 0.
func (f *fn) speculation() {
	c, p := f.c, f.p
	got, done, none, again, over := c.newLabel(), c.newLabel(), c.newLabel(), c.newLabel(), c.newLabel()
	c.mapValue(r2, p.data, p.specOff)
	c.mov(r1, r2) // the count of active ones
	c.imm(r0, 1)
	c.atomic(atAdd|atFetch, r1, 0, r0)
	c.jmpImm(jGE, r0, int32(p.nspec), over)
	c.imm(r3, 1)
	c.place(again)
	c.aluImm(opAdd, r2, 8)
	c.imm(r0, specFree)
	c.imm(r4, specActive)
	c.atomic(atCmpXchg, r2, 0, r4)
	c.jmpImm(jEQ, r0, specFree, got)
	c.aluImm(opAdd, r3, 1)
	c.jmpImm(jGT, r3, int32(p.specSlots), none)
	c.jmp(again)
	c.place(none)
	c.imm(r0, -1)
	c.atomic(atAdd, r1, 0, r0)
	c.jmp(f.dropAt(dropSpecBusy, done))
	c.place(over)
	c.imm(r0, -1)
	c.atomic(atAdd, r1, 0, r0)
	c.jmp(f.dropAt(dropSpecUnavail, done))
	c.place(done)
	c.imm(r3, 0)
	c.place(got)
	c.mov(r0, r3)
	c.opaque(r0)
}

// maxAncestors bounds the walk of progenyof.
const maxAncestors = 64

// progenyof tells whether the current process descends from pid, or is it.
func (f *fn) progenyof(in *dif.Ins, pid dif.Reg) {
	c := f.c
	parent, err := f.p.offset(in, "task_struct", "real_parent")
	if err == nil {
		var tgid int
		if tgid, err = f.p.offset(in, "task_struct", "tgid"); err == nil {
			yes, no, done, again := c.newLabel(), c.newLabel(), c.newLabel(), c.newLabel()
			f.getTo(pid, r1)
			c.mov32(r1, r1)
			c.store(8, fp, bufOff, r1)
			c.call(fnCurrentTaskBTF)
			c.load(8, r1, fp, bufOff)
			c.imm(r2, maxAncestors)
			c.place(again)
			c.load(4, r3, r0, tgid)
			c.jmpReg(jEQ, r3, r1, yes)
			c.jmpImm(jLE, r3, 1, no)
			c.load(8, r0, r0, parent)
			c.jmpImm(jEQ, r0, 0, no)
			c.aluImm(opSub, r2, 1)
			c.jmpImm(jNE, r2, 0, again)
			c.place(no)
			c.imm(r0, 0)
			c.jmp(done)
			c.place(yes)
			c.imm(r0, 1)
			c.place(done)
			c.opaque(r0)
			return
		}
	}
	f.err = err
}

// Actions with an effect at the time of the firing.

// action emits what an action does at the time of the firing.
func (f *fn) action(in *dif.Ins) {
	c, p := f.c, f.p
	var a0 dif.Reg
	if len(in.Args) > 0 {
		a0 = in.Args[0]
	}
	switch op := dif.ActOp(in.Sym); op {
	case dif.OpExit:
		// The first exit() wins, wherever it is called.
		done := c.newLabel()
		if a0 != 0 {
			f.getTo(a0, r1)
		} else {
			c.imm(r1, 0)
		}
		c.aluImm(opLsh, r1, 32)
		c.aluImm(opOr, r1, int32(Draining))
		c.mapValue(r2, p.data, offActivity)
		for _, from := range []Activity{Active, WarmUp} {
			c.imm(r0, int64(from))
			c.atomic(atCmpXchg, r2, 0, r1)
			c.jmpImm(jEQ, r0, int32(from), done)
		}
		c.place(done)
	case dif.OpCommit, dif.OpDiscard:
		done := c.newLabel()
		f.getTo(a0, r1)
		c.jmpImm(jEQ, r1, 0, done)
		c.jmpImm(jGT, r1, int32(p.specSlots), f.fault(dif.FltIllOp, 0, 0))
		c.aluImm(opLsh, r1, 3)
		c.mapValue(r2, p.data, p.specOff)
		c.mov(r3, r2)
		c.alu(opAdd, r2, r1)
		c.imm(r0, specActive)
		to := int64(specCommitting)
		if op == dif.OpDiscard {
			to = specDiscarding
		}
		c.imm(r1, to)
		c.atomic(atCmpXchg, r2, 0, r1)
		c.jmpImm(jNE, r0, specActive, done)
		c.imm(r1, -1)
		c.atomic(atAdd, r3, 0, r1)
		c.place(done)
	case dif.OpRaise:
		f.getTo(a0, r1)
		c.call(fnSendSignalThread)
	case dif.OpStop:
		c.imm(r1, 19)
		c.call(fnSendSignal)
	case dif.OpReturn:
		c.mov(r1, f.machine(pCtx, r1))
		f.getTo(a0, r2)
		c.call(fnOverrideReturn)
	case dif.OpCopyout:
		f.copyout(in, in.Args[0], in.Args[1], in.Args[2])
	case dif.OpCopyoutstr:
		f.copyoutstr(in, in.Args[0], in.Args[1], in.Args[2])
	case dif.OpChill:
		f.chill(in, a0)
	default:
		f.unsupported(in, fmt.Sprintf("action %d", op), "")
	}
}

// copyout copies n bytes by way of the level's buffer.
func (f *fn) copyout(in *dif.Ins, src, to, n dif.Reg) {
	c := f.c
	f.getTo(n, r2)
	bad := f.fault(dif.FltBadSize, n, 0)
	done := c.newLabel()
	c.jmpImm(jEQ, r2, 0, done)
	c.jmpImm(jGT, r2, int32(f.p.bufSize), bad)
	f.strBuf(r1)
	f.getTo(src, r3)
	c.call(fnProbeReadKernel)
	c.jmpImm(jNE, r0, 0, f.fault(dif.FltBadAddr, src, 0))
	f.getTo(to, r1)
	f.strBuf(r2)
	f.getTo(n, r3)
	c.jmpImm(jEQ, r3, 0, done)
	c.jmpImm(jGT, r3, int32(f.p.bufSize), bad)
	c.call(fnProbeWriteUser)
	c.jmpImm(jNE, r0, 0, f.fault(dif.FltBadAddr, to, 0))
	c.place(done)
}

// copyoutstr copies a string of at most n bytes with its NUL.
func (f *fn) copyoutstr(in *dif.Ins, src, to, n dif.Reg) {
	c := f.c
	done, fits := c.newLabel(), c.newLabel()
	f.getTo(n, r2)
	c.jmpImm(jEQ, r2, 0, done)
	c.jmpImm(jLE, r2, int32(f.p.strSize()), fits)
	c.imm(r2, int64(f.p.strSize()))
	c.place(fits)
	f.strBuf(r1)
	f.getTo(src, r3)
	c.call(fnProbeReadKernStr)
	c.jmpImm(jSLT, r0, 0, f.fault(dif.FltBadAddr, src, 0))
	c.jmpImm(jEQ, r0, 0, done)
	c.jmpImm(jGT, r0, int32(f.p.strSize()), done)
	c.mov(r3, r0)
	f.getTo(to, r1)
	f.strBuf(r2)
	c.call(fnProbeWriteUser)
	c.jmpImm(jNE, r0, 0, f.fault(dif.FltBadAddr, to, 0))
	c.place(done)
}

// maxChill is the longest chill() in one go, ns: DTrace's limit in any second.
const maxChill = 500_000_000

// chill spins. The kernel ends any loop of a program after 250 ms or eight
// million rounds.
func (f *fn) chill(in *dif.Ins, ns dif.Reg) {
	c := f.c
	if !kernel.AtLeast(6, 9) {
		f.err = &kernel.FeatureError{Name: "may_goto", Since: "6.9", Workaround: "chill() needs it; there is no way round"}
		return
	}
	f.getTo(ns, r1)
	c.jmpImm(jGT, r1, maxChill, f.fault(dif.FltIllOp, ns, 0))
	c.call(fnKtimeNS)
	c.store(8, fp, buf2Off, r0)
	again, done := c.newLabel(), c.newLabel()
	c.place(again)
	c.call(fnKtimeNS)
	c.load(8, r1, fp, buf2Off)
	c.alu(opSub, r0, r1)
	f.getTo(ns, r1)
	c.jmpReg(jGE, r0, r1, done)
	c.mayGoto(done)
	c.jmp(again)
	c.place(done)
}
