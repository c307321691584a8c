package bpf

import (
	"math"

	"godtrace/internal/dif"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
)

// state is what is known at a point of the code.
type state struct {
	reach bool
	self  uint8
	time  bool // pTime is set
	rec   bool // a record is open
	recN  int  // its total bytes
	spec  bool
}

// What is known of pSelf.
const (
	selfNo      = iota // not looked for: 0
	selfPerhaps        // 0 may mean anything
	selfLooked         // looked for: 0 means there is none
	selfHave           // not 0
)

func (s *state) merge(o *state) {
	switch {
	case !o.reach:
		return
	case !s.reach:
		*s = *o
		return
	}
	if s.self != o.self {
		if s.self >= selfLooked && o.self >= selfLooked {
			s.self = selfLooked
		} else {
			s.self = selfPerhaps
		}
	}
	s.time = s.time && o.time
}

type faultSite struct {
	at   label
	kind dif.FaultKind
	addr dif.Reg // 0: the address is off alone
	off  int64
	idx  int
	line int32
	st   state
	// inBuf: the address was left in the frame's second buffer.
	inBuf bool
	// kindInBuf: and the kind in the first.
	kindInBuf bool
}

type dropSite struct {
	at   label
	kind int
	to   label
}

// emit writes the clause. It is entered with the context, scratch level, probe
// index and user registers in r1…r4, as far as the clause uses them, and
// goes to f.end when it is done.
func (f *fn) emit(c *code) {
	f.c = c
	f.end = c.newLabel()
	f.labels = make([]label, f.cl.NLabels+1)
	for i := range f.labels {
		f.labels[i] = c.newLabel()
	}
	f.at = map[dif.Label]*state{}
	f.state = state{reach: true}
	f.faults, f.drops = nil, nil
	c.line = int32(f.cl.Line)
	for i, k := range []int{pCtx, pScratch, pProbe, pRegs} {
		if f.used[k] || k == pScratch && f.loc[f.pseudo(k)].kind != locNone {
			f.putLoc(f.loc[f.pseudo(k)], r1+reg(i))
		}
	}
	for _, k := range []int{pSelf, pTime} {
		if f.used[k] {
			switch l := f.loc[f.pseudo(k)]; l.kind {
			case locReg:
				c.aluImm(opMov, l.r, 0)
			case locStack:
				c.storeImm(8, fp, l.off, 0)
			}
		}
	}
	if f.usesAlloca() {
		c.storeImm(8, f.machine(pScratch, r1), scrAlloc, 0)
	}
	for i := range f.cl.Code {
		in := &f.cl.Code[i]
		f.idx = i
		if in.Line > 0 {
			c.line = in.Line
		}
		if in.Op == dif.LabelOp {
			if s := f.at[in.Target]; s != nil {
				f.state.merge(s)
			}
			c.place(f.labels[in.Target])
			continue
		}
		if !f.state.reach {
			continue // the verifier refuses code that nothing reaches
		}
		f.ins(in)
		if f.err != nil {
			return
		}
	}
	if f.state.reach {
		c.jmp(f.end)
	}
	f.stubs()
	// Labels nothing jumps to stand at the end.
	c.place(f.end)
}

// jumpTo notes a jump to a label of the clause.
func (f *fn) jumpTo(l dif.Label) label {
	if int(l) >= len(f.labels) {
		f.err = &UnsupportedError{What: "a label out of range"}
		return f.end
	}
	s := f.at[l]
	if s == nil {
		s = &state{}
		f.at[l] = s
	}
	s.merge(&f.state)
	return f.labels[l]
}

func (f *fn) usesAlloca() bool {
	for i := range f.cl.Code {
		in := &f.cl.Code[i]
		if in.Op == dif.Call && (dif.Subr(in.Sym) == dif.SAlloca || dif.Subr(in.Sym) == dif.SCopyin) {
			return true
		}
	}
	return false
}

// Registers.

func (f *fn) constant(v dif.Reg) (int64, bool) {
	if m := f.remat[v]; m != nil && m.Op == dif.Imm {
		return m.Imm, true
	}
	return 0, false
}

// operand is the constant value of B/Imm, if it is one.
func (f *fn) operand(in *dif.Ins) (int64, bool) {
	if in.B == 0 {
		return in.Imm, true
	}
	return f.constant(in.B)
}

func (f *fn) getLoc(l loc, tmp reg) reg {
	switch l.kind {
	case locReg:
		return l.r
	case locStack:
		f.c.load(8, tmp, fp, l.off)
	case locScr:
		s := f.machine(pScratch, tmp)
		f.c.load(8, tmp, s, l.off)
	default:
		f.c.imm(tmp, 0)
	}
	return tmp
}

// get is the register that holds v: its own, or tmp, loaded.
func (f *fn) get(v dif.Reg, tmp reg) reg {
	if m := f.remat[v]; m != nil {
		f.rematerialize(m, tmp)
		return tmp
	}
	return f.getLoc(f.loc[v], tmp)
}

// getTo puts v into r.
func (f *fn) getTo(v dif.Reg, r reg) { f.c.mov(r, f.get(v, r)) }

// operandTo puts B or Imm into r.
func (f *fn) operandTo(in *dif.Ins, r reg) {
	if in.B == 0 {
		f.c.imm(r, in.Imm)
		return
	}
	f.getTo(in.B, r)
}

func (f *fn) rematerialize(m *dif.Ins, r reg) {
	switch m.Op {
	case dif.Imm:
		f.c.imm(r, m.Imm)
	case dif.TempAddr:
		f.tempPtr(r, m.Temp, int(m.Imm))
		f.c.opaque(r)
	case dif.StrAddr:
		f.c.mapValue(r, f.p.ro, f.p.strOff[m.Sym])
		f.c.opaque(r)
	case dif.VarAddr:
		f.c.mapValue(r, f.p.data, f.p.vars[m.Sym].off)
		f.c.opaque(r)
	case dif.KSymAddr:
		f.c.imm(r, int64(f.ksym(m)))
	}
}

func (f *fn) ksym(in *dif.Ins) uint64 {
	s := f.p.obj.KSyms[in.Sym]
	if f.p.cfg.KSym == nil {
		f.err = &UnsupportedError{int(in.Line), "kernel symbol " + s.Name, "no symbol table"}
		return 0
	}
	a, err := f.p.cfg.KSym(s.Module, s.Name)
	if err != nil && f.err == nil {
		f.err = err
	}
	return a
}

// machine is the register that holds a register of the machine.
func (f *fn) machine(k int, tmp reg) reg { return f.getLoc(f.loc[f.pseudo(k)], tmp) }

// out is where a result may be computed: its register, or r0.
func (f *fn) out(v dif.Reg) reg {
	if v != 0 && f.remat[v] == nil {
		if l := f.loc[v]; l.kind == locReg {
			return l.r
		}
	}
	return r0
}

func (f *fn) putLoc(l loc, src reg) {
	switch l.kind {
	case locReg:
		f.c.mov(l.r, src)
	case locStack:
		f.c.store(8, fp, l.off, src)
	case locScr:
		tmp := r1
		if src == r1 {
			tmp = r2
		}
		f.c.store(8, f.machine(pScratch, tmp), l.off, src)
	}
}

// put stores a result; r1 and r2 may be used.
func (f *fn) put(v dif.Reg, src reg) {
	if v == 0 || f.remat[v] != nil {
		return
	}
	f.putLoc(f.loc[v], src)
}

// probeTo puts the probe's index into r.
func (f *fn) probeTo(r reg) {
	if i, ok := f.probeIndex(); ok {
		f.c.imm(r, int64(i))
		return
	}
	f.c.mov(r, f.machine(pProbe, r))
}

// probeIndex is the index of the probe where that is one.
func (f *fn) probeIndex() (int, bool) {
	switch {
	case f.inError:
		return f.p.cfg.Error.Index, true
	case f.gp.single:
		return f.gp.enabled[0].Index, true
	}
	return 0, false
}

func (f *fn) probeOf() *Enabled {
	switch {
	case f.inError:
		return f.p.cfg.Error
	case f.gp.single:
		return f.gp.enabled[0]
	}
	return nil
}

// Temporaries.

// tempMem is temporary temp (index+1) at off as base register and offset.
func (f *fn) tempMem(temp int32, off int, tmp reg) (reg, int) {
	t := &f.temps[temp-1]
	if t.stack {
		return fp, t.off + off
	}
	s := f.machine(pScratch, tmp)
	if at := t.off + off; at <= math.MaxInt16-8 {
		return s, at
	}
	f.c.addr(tmp, s, t.off+off)
	return tmp, 0
}

// tempPtr puts the address of a temporary, as the verifier understands it, into r.
func (f *fn) tempPtr(r reg, temp int32, off int) {
	t := &f.temps[temp-1]
	if t.stack {
		f.c.addr(r, fp, t.off+off)
		return
	}
	f.c.addr(r, f.machine(pScratch, r), t.off+off)
}

// zero clears n bytes at base+off.
func (f *fn) zero(base reg, off, n int) {
	for n > 0 {
		w := 8
		for w > n || off%w != 0 {
			w /= 2
		}
		f.c.storeImm(w, base, off, 0)
		off += w
		n -= w
	}
}

// constStr stores a constant string with its NUL in at most n bytes, and
// zeroes up to n if pad.
func (f *fn) constStr(base reg, off int, s string, n int, pad bool) {
	if len(s) >= n {
		s = s[:n-1]
	}
	b := make([]byte, n)
	copy(b, s)
	if !pad {
		b = b[:len(s)+1]
	}
	for i := 0; i < len(b); {
		w := 8
		for w > len(b)-i || (off+i)%w != 0 {
			w /= 2
		}
		var v uint64
		for k := w - 1; k >= 0; k-- {
			v = v<<8 | uint64(b[i+k])
		}
		if w == 8 && int64(v) != int64(int32(v)) {
			f.c.imm(r0, int64(v))
			f.c.store(8, base, off+i, r0)
		} else {
			f.c.storeImm(w, base, off+i, int32(v))
		}
		i += w
	}
}

// extend sign-extends the low n bytes of r.
func (f *fn) signExtend(r reg, n int) {
	if n < 8 {
		f.c.aluImm(opLsh, r, int32(64-8*n))
		f.c.aluImm(opArsh, r, int32(64-8*n))
	}
}

// fault is a label that faults, with the address in register addr plus off.
func (f *fn) fault(kind dif.FaultKind, addr dif.Reg, off int64) label {
	l := f.c.newLabel()
	f.faults = append(f.faults, faultSite{at: l, kind: kind, addr: addr, off: off, idx: f.idx, line: f.c.line, st: f.state})
	return l
}

// drop counts a drop of a kind on this CPU; r0…r5 are lost.
func drop(c *code, p *plan, kind int) {
	c.call(fnCPU)
	c.aluImm(opAnd, r0, int32(p.cpuSlots()-1))
	c.aluImm(opMul, r0, dropStride)
	c.mapValue(r1, p.data, offDrops+kind)
	c.alu(opAdd, r1, r0)
	c.imm(r2, 1)
	c.atomic(atAdd, r1, 0, r2)
}

// dropAt is a label that counts a drop and goes on at to.
func (f *fn) dropAt(kind int, to label) label {
	l := f.c.newLabel()
	f.drops = append(f.drops, dropSite{l, kind, to})
	return l
}

// stubs writes the code faults and drops lead to.
func (f *fn) stubs() {
	c := f.c
	for _, d := range f.drops {
		if !c.named[d.at] {
			continue // the verifier refuses code that nothing reaches
		}
		c.place(d.at)
		drop(c, f.p, d.kind)
		c.jmp(d.to)
	}
	for i := range f.faults {
		s := &f.faults[i]
		if !c.named[s.at] {
			continue
		}
		c.place(s.at)
		c.line = s.line
		f.state = s.st
		if f.state.rec {
			f.withdraw()
		}
		if s.inBuf {
			c.load(8, r5, fp, buf2Off)
		} else if s.addr != 0 {
			f.getTo(s.addr, r5)
			if s.off != 0 {
				c.imm(r0, s.off)
				c.alu(opAdd, r5, r0)
			}
		} else {
			c.imm(r5, s.off)
		}
		if f.inError {
			drop(c, f.p, dropErrorInError)
			c.jmp(f.end)
			continue
		}
		f.probeTo(r3)
		c.imm(r4, int64(uint64(s.kind)<<56|uint64(s.line&0xffffff)<<32))
		c.alu(opOr, r3, r4)
		if s.kindInBuf {
			c.load(8, r4, fp, bufOff)
			c.aluImm(opLsh, r4, 56)
			c.alu(opOr, r3, r4)
		}
		c.imm(r4, int64(uint64(f.cl.ID)<<40|uint64(f.in.pos&0xffff)<<24|uint64(s.idx&0xffffff)))
		if f.p.hasErr {
			c.mov(r1, f.machine(pCtx, r1))
			c.mov(r2, f.machine(pScratch, r2))
		}
		f.gp.faulted = true
		c.callSub(f.gp.faultLabel)
		c.jmp(f.end)
	}
}

// withdraw closes the open record without meaning.
func (f *fn) withdraw() {
	f.c.mov(r0, f.machine(pCommit, r0))
	f.c.aluImm(opOr, r0, 1)
	f.commit(r0)
}

var condJump = map[dif.Cond]uint8{
	dif.EQ: jEQ, dif.NE: jNE, dif.LT: jSLT, dif.LE: jSLE, dif.GT: jSGT, dif.GE: jSGE,
	dif.ULT: jLT, dif.ULE: jLE, dif.UGT: jGT, dif.UGE: jGE,
}

var aluOps = map[dif.Op]uint8{
	dif.Add: opAdd, dif.Sub: opSub, dif.Mul: opMul, dif.And: opAnd, dif.Or: opOr, dif.Xor: opXor,
	dif.Shl: opLsh, dif.Shr: opRsh, dif.Sar: opArsh,
}

// ins emits one instruction of DIF.
func (f *fn) ins(in *dif.Ins) {
	c := f.c
	switch in.Op {
	case dif.Nop:
	case dif.Jmp:
		c.jmp(f.jumpTo(in.Target))
		f.state.reach = false
	case dif.Br:
		a := f.get(in.A, r1)
		if k, ok := f.operand(in); ok && k == int64(int32(k)) {
			c.jmpImm(condJump[in.Cond], a, int32(k), f.jumpTo(in.Target))
			return
		}
		f.operandTo(in, r2)
		c.jmpReg(condJump[in.Cond], a, r2, f.jumpTo(in.Target))
	case dif.Ret:
		c.jmp(f.end)
		f.state.reach = false
	case dif.Fault:
		c.jmp(f.fault(dif.FaultKind(in.Imm), in.A, 0))
		f.state.reach = false

	case dif.Imm:
		if f.remat[in.Dst] == nil {
			// The register has other definitions: where they meet, the
			// verifier would follow each constant on its own.
			c.imm(r0, in.Imm)
			c.opaque(r0)
			f.put(in.Dst, r0)
		}
	case dif.Mov:
		f.put(in.Dst, f.get(in.A, r0))
	case dif.Add, dif.Sub, dif.Mul, dif.And, dif.Or, dif.Xor, dif.Shl, dif.Shr, dif.Sar:
		f.binary(in)
	case dif.Div, dif.Mod:
		f.divide(in)
	case dif.Neg, dif.Not:
		o := f.out(in.Dst)
		f.getTo(in.A, o)
		if in.Op == dif.Neg {
			c.neg(o)
		} else {
			c.aluImm(opXor, o, -1)
		}
		f.put(in.Dst, o)
	case dif.Ext:
		o := f.out(in.Dst)
		a := f.get(in.A, o)
		switch {
		case in.Size >= 8:
			c.mov(o, a)
		case in.Signed:
			c.mov(o, a)
			f.signExtend(o, int(in.Size))
		case in.Size == 4:
			c.mov32(o, a)
		default:
			c.mov(o, a)
			c.aluImm(opAnd, o, 1<<(8*in.Size)-1)
		}
		f.put(in.Dst, o)
	case dif.Set:
		f.set(in)
	case dif.KSymAddr, dif.StrAddr:
		if f.remat[in.Dst] == nil {
			f.rematerialize(in, r0)
			f.put(in.Dst, r0)
		}

	case dif.Load:
		f.loadIns(in)
	case dif.Store:
		f.storeIns(in)

	case dif.TempAddr:
		if f.remat[in.Dst] == nil {
			f.tempPtr(r0, in.Temp, int(in.Imm))
			c.opaque(r0)
			f.put(in.Dst, r0)
		}
	case dif.TLoad:
		b, off := f.tempMem(in.Temp, int(in.Imm), r1)
		o := f.out(in.Dst)
		c.load(int(in.Size), o, b, off)
		if in.Signed {
			f.signExtend(o, int(in.Size))
		}
		f.put(in.Dst, o)
	case dif.TStore:
		if f.temps[in.Temp-1].dead {
			return
		}
		b, off := f.tempMem(in.Temp, int(in.Imm), r1)
		f.storeReg(int(in.Size), b, off, in.A)
	case dif.TZero:
		if f.temps[in.Temp-1].dead {
			return
		}
		b, off := f.tempMem(in.Temp, int(in.Imm), r1)
		f.zero(b, off, int(in.Size))
	case dif.TStr:
		if s, ok := f.constString(in.A); ok && int(in.Size) <= 128 {
			b, off := f.tempMem(in.Temp, int(in.Imm), r1)
			f.constStr(b, off, s, int(in.Size), in.Pad)
			if in.Dst != 0 {
				c.imm(r0, int64(min(len(s), int(in.Size)-1)))
				c.opaque(r0)
				f.put(in.Dst, r0)
			}
			return
		}
		if in.Pad {
			b, off := f.tempMem(in.Temp, int(in.Imm), r1)
			f.zero(b, off, int(in.Size))
		}
		f.tempPtr(r1, in.Temp, int(in.Imm))
		f.readStr(in, int(in.Size))
	case dif.TMem:
		f.tempPtr(r1, in.Temp, int(in.Imm))
		f.readMem(in, int(in.Size))
	case dif.TBuiltin:
		f.strBuiltin(in, func(r reg) { f.tempPtr(r, in.Temp, int(in.Imm)) },
			func(tmp reg) (reg, int) { return f.tempMem(in.Temp, int(in.Imm), tmp) })
	case dif.TProbeStr:
		if f.temps[in.Temp-1].dead {
			return
		}
		part := int(dif.BuiltinID(in.Sym) - dif.BProbeProv)
		if e := f.probeOf(); e != nil {
			b, off := f.tempMem(in.Temp, int(in.Imm), r1)
			c.storeImm(4, b, off, int32(f.p.strs.of(e.Probe.Desc.Part(part))))
			return
		}
		f.tableTo(r0, f.p.numTable, 16, 4*part)
		b, off := f.tempMem(in.Temp, int(in.Imm), r1)
		c.store(4, b, off, r0)
	case dif.TStack:
		if t := &f.temps[in.Temp-1]; t.stack && !kernel.AtLeast(6, 3) {
			// bpf_get_stack() of raw tracepoints wants memory that was written to.
			f.zero(fp, t.off+int(in.Imm), int(in.Size))
		}
		f.stack(in, func(r reg, off int) { f.tempPtr(r, in.Temp, int(in.Imm)+off) })
	case dif.TVar:
		f.tvar(in)

	case dif.Builtin:
		f.builtin(in)

	case dif.VarGet, dif.VarSet, dif.VarAddr, dif.VarStr, dif.VarMem:
		f.variable(in)
	case dif.DynGet, dif.DynSet, dif.DynAddr, dif.DynStr, dif.DynMem, dif.DynDel:
		f.dynamic(in)
	case dif.Call:
		f.subroutine(in)
	case dif.AggUpdate:
		f.aggregate(in)
	case dif.RecBegin:
		f.recBegin(in)
	case dif.RecStore:
		f.storeReg(int(in.Size), f.machine(pRec, r1), dif.HdrSize+int(in.Imm), in.A)
	case dif.RecStr:
		if s, ok := f.constString(in.A); ok && int(in.Size) <= 128 {
			f.constStr(f.machine(pRec, r1), dif.HdrSize+int(in.Imm), s, int(in.Size), false)
			return
		}
		c.addr(r1, f.machine(pRec, r1), dif.HdrSize+int(in.Imm))
		f.readStr(in, int(in.Size))
	case dif.RecMem:
		c.addr(r1, f.machine(pRec, r1), dif.HdrSize+int(in.Imm))
		f.readMem(in, int(in.Size))
	case dif.RecBuiltin:
		f.strBuiltin(in, func(r reg) { c.addr(r, f.machine(pRec, r), dif.HdrSize+int(in.Imm)) },
			func(tmp reg) (reg, int) { return f.machine(pRec, tmp), dif.HdrSize + int(in.Imm) })
	case dif.RecStack:
		f.stack(in, func(r reg, off int) { c.addr(r, f.machine(pRec, r), dif.HdrSize+int(in.Imm)+off) })
	case dif.RecCommit:
		c.mov(r0, f.machine(pCommit, r0))
		f.commit(r0)
		f.state.rec = false
	case dif.Act:
		f.action(in)
	default:
		f.fail(in, "unknown operation %d", in.Op)
	}
}

// storeReg stores the low n bytes of a register.
func (f *fn) storeReg(n int, base reg, off int, v dif.Reg) {
	if k, ok := f.constant(v); ok && (n < 8 || k == int64(int32(k))) {
		f.c.storeImm(n, base, off, int32(k))
		return
	}
	f.c.store(n, base, off, f.get(v, r2))
}

// binary emits an operation of two operands, in the result's own register where
// that can be.
func (f *fn) binary(in *dif.Ins) {
	c := f.c
	op := aluOps[in.Op]
	o := f.out(in.Dst)
	k, isK := f.operand(in)
	if isK && op != opLsh && op != opRsh && op != opArsh && k != int64(int32(k)) {
		isK = false
	}
	if isK {
		f.getTo(in.A, o)
		if op == opLsh || op == opRsh || op == opArsh {
			k &= 63
		}
		c.aluImm(op, o, int32(k))
		f.put(in.Dst, o)
		return
	}
	if in.B != 0 && f.remat[in.B] == nil {
		if l := f.loc[in.B]; l.kind == locReg && l.r == o {
			o = r0 // the result takes over b's register
		}
	}
	f.getTo(in.A, o)
	var b reg
	if in.B == 0 {
		c.imm(r1, in.Imm)
		b = r1
	} else {
		b = f.get(in.B, r1)
	}
	c.alu(op, o, b)
	f.put(in.Dst, o)
}

// divide: eBPF divides unsigned (signed since 6.6), and by zero gives zero.
func (f *fn) divide(in *dif.Ins) {
	c := f.c
	op := uint8(opDiv)
	if in.Op == dif.Mod {
		op = opMod
	}
	k, isK := f.operand(in)
	if isK && k == 0 {
		c.jmp(f.fault(dif.FltDivZero, 0, 0))
		f.state.reach = false
		return
	}
	f.getTo(in.A, r0)
	if !isK {
		f.getTo(in.B, r1)
		c.jmpImm(jEQ, r1, 0, f.fault(dif.FltDivZero, 0, 0))
	} else {
		c.imm(r1, k)
	}
	if in.Signed {
		// |a| op |b|, then the sign: that of a/b, or of a.
		c.mov(r2, r0)
		c.aluImm(opArsh, r2, 63)
		c.alu(opXor, r0, r2)
		c.alu(opSub, r0, r2)
		c.mov(r3, r1)
		c.aluImm(opArsh, r3, 63)
		c.alu(opXor, r1, r3)
		c.alu(opSub, r1, r3)
		c.alu(op, r0, r1)
		if op == opDiv {
			c.alu(opXor, r2, r3)
		}
		c.alu(opXor, r0, r2)
		c.alu(opSub, r0, r2)
	} else if isK && k == int64(int32(k)) && k > 0 {
		if k&(k-1) == 0 {
			n := int32(0)
			for 1<<n < k {
				n++
			}
			if op == opDiv {
				c.aluImm(opRsh, r0, n)
			} else {
				c.aluImm(opAnd, r0, int32(k-1))
			}
		} else {
			c.aluImm(op, r0, int32(k))
		}
	} else {
		c.alu(op, r0, r1)
	}
	f.put(in.Dst, r0)
}

// set computes a comparison without a branch, so that the verifier need not
// follow both outcomes to the end of the clause.
func (f *fn) set(in *dif.Ins) {
	c := f.c
	f.getTo(in.A, r0)
	f.operandTo(in, r1)
	cond := in.Cond
	flip := false
	switch cond {
	case dif.NE:
	case dif.EQ:
		flip = true
	case dif.LT, dif.ULT:
	case dif.GE:
		cond, flip = dif.LT, true
	case dif.UGE:
		cond, flip = dif.ULT, true
	case dif.GT, dif.LE: // b < a, and its contrary
		c.mov(r2, r0)
		c.mov(r0, r1)
		c.mov(r1, r2)
		cond, flip = dif.LT, cond == dif.LE
	case dif.UGT, dif.ULE:
		c.mov(r2, r0)
		c.mov(r0, r1)
		c.mov(r1, r2)
		cond, flip = dif.ULT, cond == dif.ULE
	}
	switch cond {
	case dif.EQ, dif.NE: // sign of x|-x, x = a^b
		c.alu(opXor, r0, r1)
		c.mov(r1, r0)
		c.neg(r1)
		c.alu(opOr, r0, r1)
	case dif.LT: // sign of (a-b) ^ ((a^b) & ((a-b)^a))
		c.mov(r2, r0)
		c.alu(opSub, r2, r1) // a-b
		c.mov(r3, r2)
		c.alu(opXor, r3, r0)
		c.alu(opXor, r0, r1)
		c.alu(opAnd, r0, r3)
		c.alu(opXor, r0, r2)
	case dif.ULT: // sign of (^a & b) | ((^a | b) & (a-b))
		c.mov(r2, r0)
		c.alu(opSub, r2, r1)
		c.aluImm(opXor, r0, -1)
		c.mov(r3, r0)
		c.alu(opOr, r3, r1)
		c.alu(opAnd, r3, r2)
		c.alu(opAnd, r0, r1)
		c.alu(opOr, r0, r3)
	}
	c.aluImm(opRsh, r0, 63)
	if flip {
		c.aluImm(opXor, r0, 1)
	}
	c.opaque(r0)
	f.put(in.Dst, r0)
}

// direct tells whether an address is one of the machine's own memory that
// needs no probe read, n bytes at offset off, and gives it as base and offset.
func (f *fn) direct(v dif.Reg, off int64, n int, tmp reg) (base reg, at int, ok bool) {
	m := f.remat[v]
	if m == nil || off < 0 {
		return 0, 0, false
	}
	switch m.Op {
	case dif.TempAddr:
		if m.Imm+off+int64(n) > int64(f.temps[m.Temp-1].size) || (m.Imm+off)%int64(n) != 0 {
			return 0, 0, false
		}
		base, at = f.tempMem(m.Temp, int(m.Imm+off), tmp)
		return base, at, true
	case dif.VarAddr:
		vp := &f.p.vars[m.Sym]
		if off+int64(n) > int64(vp.slot) || off%int64(n) != 0 {
			return 0, 0, false
		}
		f.c.mapValue(tmp, f.p.data, vp.off+int(off))
		return tmp, 0, true
	}
	return 0, 0, false
}

func (f *fn) loadIns(in *dif.Ins) {
	c := f.c
	n := int(in.Size)
	if b, at, ok := f.direct(in.A, in.Imm, n, r1); ok {
		c.load(n, r0, b, at)
	} else {
		f.addrTo(r3, in.A, in.Imm)
		if in.Space == dif.SpaceKernel && f.usesAlloca() {
			f.checkAlloc(r3, n, f.fault(dif.FltBadAddr, in.A, in.Imm))
		}
		c.addr(r1, fp, bufOff)
		c.imm(r2, int64(n))
		helper := int32(fnProbeReadKernel)
		if in.Space == dif.SpaceUser {
			helper = f.readUser()
		}
		c.call(helper)
		c.jmpImm(jNE, r0, 0, f.fault(dif.FltBadAddr, in.A, in.Imm))
		c.load(n, r0, fp, bufOff)
	}
	if in.Signed {
		f.signExtend(r0, n)
	}
	f.put(in.Dst, r0)
}

// redZone is how many bytes before the memory for alloca() nobody uses, so that
// a negative index is a bad address.
const redZone = 64

// checkAlloc goes to bad if n bytes at the address in a touch the memory for
// alloca(), or the red zone, where none was handed out; r1, r2 and r4 are lost.
func (f *fn) checkAlloc(a reg, n int, bad label) {
	c := f.c
	elsewhere := c.newLabel()
	c.mov(r1, a)
	f.allocOffset(r1, r2)
	c.addr(r2, r1, redZone)
	c.jmpImm(jGE, r2, int32(f.p.allocSize+redZone), elsewhere)
	c.load(8, r4, f.machine(pScratch, r4), scrAlloc)
	c.aluImm(opSub, r4, int32(n))
	c.jmpImm(jSLT, r4, 0, bad)
	c.jmpReg(jGT, r1, r4, bad)
	c.place(elsewhere)
}

// addrTo puts a+off into r.
func (f *fn) addrTo(r reg, a dif.Reg, off int64) {
	f.getTo(a, r)
	if off != 0 {
		if off == int64(int32(off)) {
			f.c.aluImm(opAdd, r, int32(off))
			return
		}
		tmp := r0
		if r == r0 {
			tmp = r5
		}
		f.c.imm(tmp, off)
		f.c.alu(opAdd, r, tmp)
	}
}

// storeIns writes alloca'd memory, the only memory a program may write.
func (f *fn) storeIns(in *dif.Ins) {
	c := f.c
	n := int(in.Size)
	bad := f.fault(dif.FltBadAddr, in.A, in.Imm)
	if f.p.allocSize < n {
		c.jmp(bad)
		f.state.reach = false
		return
	}
	f.addrTo(r1, in.A, in.Imm)
	f.allocOffset(r1, r2)
	c.jmpImm(jGT, r1, int32(f.p.allocSize-n), bad) // for the verifier
	s := f.machine(pScratch, r3)
	c.load(8, r3, s, scrAlloc)
	c.addr(r2, r1, n)
	c.jmpReg(jGT, r2, r3, bad)
	c.addr(r2, f.machine(pScratch, r2), f.p.allocOff)
	c.alu(opAdd, r2, r1)
	f.c.store(n, r2, 0, f.get(in.B, r3))
}

// allocOffset turns an address in r into an offset into the alloca area,
// wrapped to something huge for addresses before it.
func (f *fn) allocOffset(r, tmp reg) {
	f.c.addr(tmp, f.machine(pScratch, tmp), f.p.allocOff)
	f.c.opaque(tmp)
	f.c.alu(opSub, r, tmp)
	// By way of memory: following a bound of the difference back to the two
	// addresses, the verifier gives up and takes every number for precise;
	// that of Linux 6.18 then trips over its own feet (EFAULT).
	s := f.machine(pScratch, tmp)
	f.c.store(8, s, scrTmp, r)
	f.c.load(8, r, s, scrTmp)
}

// constString is the text of a register that is the address of a constant.
func (f *fn) constString(v dif.Reg) (string, bool) {
	if m := f.remat[v]; v != 0 && m != nil && m.Op == dif.StrAddr {
		return f.p.obj.Strings[m.Sym], true
	}
	return "", false
}

// readStr copies the string at A into r1, at most n bytes.
func (f *fn) readStr(in *dif.Ins, n int) {
	c := f.c
	f.getTo(in.A, r3)
	c.imm(r2, int64(n))
	if in.Space == dif.SpaceUser {
		f.readUserStr()
	} else {
		c.call(fnProbeReadKernStr)
	}
	c.jmpImm(jSLT, r0, 0, f.fault(dif.FltBadAddr, in.A, 0))
	if in.Dst != 0 {
		// An empty read gives 0.
		c.mov(r1, r0)
		c.neg(r1)
		c.aluImm(opRsh, r1, 63)
		c.alu(opSub, r0, r1)
		f.put(in.Dst, r0)
	}
}

// readMem copies n bytes at A into r1.
func (f *fn) readMem(in *dif.Ins, n int) {
	c := f.c
	f.getTo(in.A, r3)
	if in.Op == dif.RecMem && in.B != 0 {
		fits := c.newLabel()
		f.getTo(in.B, r2)
		c.jmpImm(jLE, r2, int32(n), fits)
		c.imm(r2, int64(n))
		c.place(fits)
	} else {
		c.imm(r2, int64(n))
	}
	helper := int32(fnProbeReadKernel)
	if in.Space == dif.SpaceUser {
		helper = f.readUser()
	}
	c.call(helper)
	c.jmpImm(jNE, r0, 0, f.fault(dif.FltBadAddr, in.A, 0))
}

// tableTo loads the u32 at off in the probe's row of a table of constants.
func (f *fn) tableTo(r reg, table, row, off int) {
	c := f.c
	f.probeTo(r1)
	c.aluImm(opMul, r1, int32(row))
	c.mapValue(r2, f.p.ro, table+off)
	c.alu(opAdd, r2, r1)
	c.load(4, r, r2, 0)
}

// sys reports whether the group is a system call's side.
func (gp *groupPlan) sys() bool {
	return gp.g.Kind == probe.KindSysEnter || gp.g.Kind == probe.KindSysExit
}

// readUser is the helper that reads memory of the process: where the program may
// sleep, one that has pages read in.
func (f *fn) readUser() int32 {
	if f.gp.sleepable {
		return fnCopyFromUser
	}
	return fnProbeReadUser
}

// readUserStr reads a string of the process: at most r2 bytes at r3 to r1. Where
// the program may sleep and the string is not in memory, its page and the next
// are read in, and it is tried again.
func (f *fn) readUserStr() {
	c := f.c
	if !f.gp.sleepable {
		c.call(fnProbeReadUserStr)
		return
	}
	done := c.newLabel()
	c.store(8, fp, bufOff, r1)
	c.store(8, fp, buf2Off, r2)
	c.store(8, fp, buf3Off, r3)
	c.call(fnProbeReadUserStr)
	c.jmpImm(jSGE, r0, 0, done)
	for _, next := range []bool{false, true} {
		c.addr(r1, fp, buf3Off+8)
		c.imm(r2, 1)
		c.load(8, r3, fp, buf3Off)
		if next {
			c.aluImm(opOr, r3, 4095)
			c.aluImm(opAdd, r3, 1)
		}
		c.call(fnCopyFromUser)
	}
	c.load(8, r1, fp, bufOff)
	c.load(8, r2, fp, buf2Off)
	c.load(8, r3, fp, buf3Off)
	c.call(fnProbeReadUserStr)
	c.place(done)
}
