package bpf

import (
	"godtrace/internal/dif"
	"godtrace/internal/ring"
)

// Reserving and committing records: the writer's side of package ring.

// reserve reserves n bytes in this CPU's ring m. It leaves the record's
// address in r3 and its first word in r4, or goes to fail, the drop counted.
func reserve(c *code, p *plan, m *bpfMap, policy BufPolicy, n int, fail label) {
	drop, got, again := c.newLabel(), c.newLabel(), c.newLabel()
	geo := p.geometry(m)
	c.call(fnCPU)
	c.store(4, fp, bufOff, r0)
	c.mapPtr(r1, m)
	c.addr(r2, fp, bufOff)
	c.call(fnMapLookup)
	c.jmpImm(jEQ, r0, 0, fail)
	c.mov(r3, r0)
	switch policy {
	case BufFill:
		c.load(8, r1, r3, ring.OffFull)
		c.jmpImm(jNE, r1, 0, fail)
	case BufRing:
		// The oldest open reservation must not be lapped. The first to open
		// notes its place; those that nest in it find it.
		first := c.newLabel()
		c.imm(r1, 1)
		c.atomic(atAdd|atFetch, r3, ring.OffOpen, r1)
		c.jmpImm(jNE, r1, 0, first)
		c.load(8, r1, r3, ring.OffHead)
		c.store(8, r3, ring.OffPending, r1)
		c.place(first)
	}
	limit := ring.OffTail
	if policy == BufRing {
		limit = ring.OffPending
	}
	c.imm(r5, 5)
	c.place(again)
	c.load(8, r0, r3, ring.OffHead)
	c.load(8, r1, r3, limit)
	c.mov(r2, r0)
	c.aluImm(opAdd, r2, int32(n))
	c.mov(r4, r2)
	c.alu(opSub, r4, r1)
	c.jmpImm(jGT, r4, int32(geo.Cap), drop)
	c.mov(r4, r0)
	c.atomic(atCmpXchg, r3, ring.OffHead, r2)
	c.jmpReg(jEQ, r0, r4, got)
	c.aluImm(opSub, r5, 1) // a firing nested in this one was quicker
	c.jmpImm(jNE, r5, 0, again)
	c.place(drop)
	c.imm(r1, 1)
	if policy == BufFill {
		c.store(8, r3, ring.OffFull, r1)
	} else {
		c.atomic(atAdd, r3, ring.OffDrops, r1)
	}
	if policy == BufRing {
		c.imm(r1, -1)
		c.atomic(atAdd, r3, ring.OffOpen, r1)
	}
	c.jmp(fail)
	c.place(got)
	c.aluImm(opLsh, r4, 16)
	c.aluImm(opOr, r4, int32(n))
	c.aluImm(opAnd, r0, int32(geo.Size-1))
	c.alu(opAdd, r3, r0)
	c.aluImm(opAdd, r3, ring.OffData)
}

// geometry of a ring map.
func (p *plan) geometry(m *bpfMap) ring.Geometry {
	if m == p.specRing && m != nil {
		return p.specGeo
	}
	return p.ringGeo
}

// trailer is the size of the copy of the first word that ends a record under
// the policy ring.
func (p *plan) trailer(spec bool) int {
	if p.cfg.BufPolicy == BufRing && !spec {
		return 8
	}
	return 0
}

// specOverhead is what a record takes of a speculation's buffer beside its
// payload, for specsize to mean what it does in Oracle's DTrace. The rings
// themselves are larger: the consumer keeps each speculation within its size.
const specOverhead = 16

// recBegin reserves a record, of the principal ring or, with a speculation in A,
// of the speculative one, and writes its header but for the first word. Without
// room the clause ends.
func (f *fn) recBegin(in *dif.Ins) {
	c, p := f.c, f.p
	rec := p.obj.Records[in.Sym]
	spec := in.A != 0
	m, policy := p.ring, p.cfg.BufPolicy
	if spec {
		m, policy = p.specRing, BufSwitch
		f.getTo(in.A, r1)
		c.jmpImm(jEQ, r1, 0, f.end)
		c.jmpImm(jGT, r1, int32(p.specSlots), f.fault(dif.FltIllOp, 0, 0))
		c.aluImm(opLsh, r1, 3)
		c.mapValue(r2, p.data, p.specOff)
		c.alu(opAdd, r2, r1)
		c.load(8, r2, r2, 0)
		c.jmpImm(jNE, r2, specActive, f.end)
		if size := p.cfg.SpecSize; size > 0 && int64(rec.Size+specOverhead) > size {
			// Larger than the speculation's whole buffer.
			c.jmp(f.dropAt(dropSpec, f.end))
			f.state.reach = false
			return
		}
	}
	n := dif.HdrSize + align(rec.Size, 8) + p.trailer(spec)
	reserve(c, p, m, policy, n, f.end)
	f.putLoc(f.loc[f.pseudo(pRec)], r3)
	f.putLoc(f.loc[f.pseudo(pCommit)], r4)
	f.state.rec, f.state.recN, f.state.spec = true, n, spec
	f.time(r0)
	r := f.machine(pRec, r3)
	c.store(8, r, dif.HdrTime, r0)
	c.storeImm(2, r, dif.HdrRec, int32(rec.ID))
	if spec {
		f.getTo(in.A, r1)
		c.store(2, r, dif.HdrSpec, r1)
	} else {
		c.storeImm(2, r, dif.HdrSpec, 0)
	}
	if i, ok := f.probeIndex(); ok {
		c.storeImm(4, r, dif.HdrProbe, int32(i))
	} else {
		f.probeTo(r1)
		c.store(4, r, dif.HdrProbe, r1)
	}
	if rec.Size%8 != 0 { // descriptions say otherwise; never leave it to them
		c.storeImm(8, r, dif.HdrSize+rec.Size&^7, 0)
	}
}

// commit stores the open record's first word, in r0, and its copy at the end.
func (f *fn) commit(word reg) {
	c := f.c
	r := f.machine(pRec, r1)
	if f.p.trailer(f.state.spec) > 0 {
		c.store(8, r, f.state.recN-8, word)
	}
	c.store(8, r, 0, word)
	if f.p.trailer(f.state.spec) > 0 {
		f.c.closeRing(f.p)
	}
}

// closeRing counts a reservation of policy ring as done.
func (c *code) closeRing(p *plan) {
	none := c.newLabel()
	c.call(fnCPU)
	c.store(4, fp, bufOff, r0)
	c.mapPtr(r1, p.ring)
	c.addr(r2, fp, bufOff)
	c.call(fnMapLookup)
	c.jmpImm(jEQ, r0, 0, none)
	c.imm(r1, -1)
	c.atomic(atAdd, r0, ring.OffOpen, r1)
	c.place(none)
}

// time puts the firing's time stamp into r: the clause asks the clock once if
// it uses timestamp itself.
func (f *fn) time(r reg) {
	c := f.c
	if !f.used[pTime] {
		c.call(fnKtimeNS)
		c.mov(r, r0)
		return
	}
	l := f.loc[f.pseudo(pTime)]
	if !f.state.time {
		have := c.newLabel()
		c.jmpImm(jNE, f.getLoc(l, r1), 0, have)
		c.call(fnKtimeNS)
		f.putLoc(l, r0)
		c.place(have)
		f.state.time = true
	}
	c.mov(r, f.getLoc(l, r))
}

// faultRoutine is the subprogram that clauses call when they fault: it makes
// the fault's record and runs the clauses of ERROR. Arguments: context, scratch
// level, probe | line<<32 | kind<<56, instruction | place<<24 | clause<<40, address.
func (p *plan) faultRoutine(c *code, gp *groupPlan, errors []*fn) {
	const ctxOff, scrOff = -16, -24
	c.line = 0
	c.function(gp.faultLabel)
	c.mov(r6, r3)
	c.mov(r7, r4)
	c.mov(r8, r5)
	if len(errors) > 0 {
		c.store(8, fp, ctxOff, r1)
		c.store(8, fp, scrOff, r2)
	}
	done, end := c.newLabel(), c.newLabel()
	n := dif.HdrSize + 24 + p.trailer(false)
	reserve(c, p, p.ring, p.cfg.BufPolicy, n, done)
	c.mov(r9, r3)
	c.store(8, r9, dif.HdrSize+16, r8)
	c.store(4, r9, dif.HdrProbe, r6)
	c.store(8, r9, dif.HdrSize+8, r4) // the commit word waits where it is overwritten later
	c.call(fnKtimeNS)
	c.store(8, r9, dif.HdrTime, r0)
	c.storeImm(4, r9, dif.HdrRec, dif.RecFault)
	c.load(8, r4, r9, dif.HdrSize+8)
	c.mov(r1, r7)
	c.aluImm(opRsh, r1, 40)
	c.store(4, r9, dif.HdrSize, r1)
	c.mov(r1, r6)
	c.aluImm(opRsh, r1, 32)
	c.aluImm(opAnd, r1, 0xffffff)
	c.store(4, r9, dif.HdrSize+4, r1)
	c.mov(r1, r6)
	c.aluImm(opRsh, r1, 56)
	c.store(4, r9, dif.HdrSize+8, r1)
	c.mov(r1, r7)
	c.aluImm(opAnd, r1, 0xffffff)
	c.store(4, r9, dif.HdrSize+12, r1)
	if p.trailer(false) > 0 {
		c.store(8, r9, n-8, r4)
	}
	c.store(8, r9, 0, r4)
	if p.trailer(false) > 0 {
		c.closeRing(p)
	}
	c.place(done)
	if len(errors) > 0 {
		// ERROR's arguments: EPID, action, offset, kind, address.
		c.load(8, r9, fp, scrOff)
		c.mov32(r1, r6)
		c.aluImm(opAnd, r1, 1<<24-1) // bounded for the table below
		c.jmpImm(jGE, r1, int32(p.nprobes()), end)
		c.aluImm(opLsh, r1, 2)
		c.mapValue(r2, p.ro, p.epidTab)
		c.alu(opAdd, r2, r1)
		c.load(4, r1, r2, 0)
		c.mov(r2, r7)
		c.aluImm(opRsh, r2, 24)
		c.aluImm(opAnd, r2, 0xffff)
		c.alu(opAdd, r1, r2)
		c.storeImm(8, r9, scrArgs, 0)
		c.store(8, r9, scrArgs+8, r1)
		c.mov(r1, r7)
		c.aluImm(opRsh, r1, 40)
		c.store(8, r9, scrArgs+16, r1)
		c.mov(r1, r7)
		c.aluImm(opAnd, r1, 0xffffff)
		c.store(8, r9, scrArgs+24, r1)
		c.mov(r1, r6)
		c.aluImm(opRsh, r1, 56)
		c.store(8, r9, scrArgs+32, r1)
		c.store(8, r9, scrArgs+40, r8)
		for i, e := range errors {
			if i > 0 && exits(errors[i-1].cl) {
				c.activity(p, gp, end)
			}
			c.load(8, r1, fp, ctxOff)
			c.load(8, r2, fp, scrOff)
			c.imm(r3, 0)
			c.imm(r4, 0)
			c.callSub(e.entry)
		}
		c.place(end)
	}
	c.imm(r0, 0)
	c.exit()
}
