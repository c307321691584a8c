package bpf

import (
	"fmt"
	"sort"

	"godtrace/internal/dif"
)

// fn is a clause on its way to eBPF: where its registers and temporaries are,
// and the state of the emitter.
//
// Code goes forward only, so a register's life is the stretch from its first
// definition to its last use, and one linear scan gives the busiest of them
// r6…r9, the registers that survive calls, and the others a place in the frame
// or, when that is full, in scratch. r0…r5 are free within one instruction.
//
// Besides the clause's own there are registers of the machine (the context, the
// scratch level, the open record …) that are allocated the same way.
type fn struct {
	p       *plan
	gp      *groupPlan
	in      *instance
	cl      *dif.Clause
	inError bool // a clause of ERROR

	nregs    int
	loc      []loc
	remat    []*dif.Ins // registers that are made anew at each use: constants, addresses
	temps    []tempLoc
	used     [numPseudo]bool
	frame    int // bytes of frame in use
	frameMax int

	scratchUse int // bytes of the clause's part of the level
	canFault   bool
	usesThis   bool

	// emitter
	c      *code
	labels []label
	state  state
	at     map[dif.Label]*state
	end    label
	entry  label
	faults []faultSite
	drops  []dropSite
	err    error
	idx    int
}

// Registers of the machine.
const (
	pCtx     = iota // the BPF context
	pScratch        // the scratch level
	pProbe          // index of the probe
	pRegs           // user registers, in system calls
	pSelf           // the thread's storage: 0 until looked for, or if there is none
	pTime           // timestamp, 0 until asked for
	pRec            // the open record
	pCommit         // its first word
	numPseudo
)

type locKind uint8

const (
	locNone  locKind = iota
	locReg           // r6…r9
	locStack         // fp+off
	locScr           // scratch+off
)

type loc struct {
	kind locKind
	r    reg
	off  int
}

type tempLoc struct {
	stack  bool
	off    int // from fp, or from scratch
	dead   bool
	prefix bool // the 8 bytes before belong to it: a map key's first word
	size   int
}

// A frame holds at most this much. The kernel allows 512 bytes over main,
// clause, fault routine, a clause of ERROR and its fault routine together.
const (
	frameAlone = 320
	frameInErr = 128
	stackTemp  = 64 // largest temporary kept in the frame
)

// buf is the part of the frame for what helpers read and write.
const (
	bufOff  = -8
	buf2Off = -16
	buf3Off = -64 // two words, in sleepable programs
)

func newFn(p *plan, gp *groupPlan, in *instance, inError bool) (*fn, error) {
	f := &fn{p: p, gp: gp, in: in, cl: in.cl, inError: inError, nregs: in.cl.NRegs, frame: 16, frameMax: frameAlone}
	if gp.sleepable {
		f.frame = -sleeperOff
	}
	if p.hasErr {
		f.frameMax = 192
	}
	if inError {
		f.frameMax = frameInErr
	}
	for i := range in.cl.Code {
		if callsLibrary(&in.cl.Code[i]) || p.byTables(&in.cl.Code[i]) {
			f.frameMax = min(f.frameMax, frameInErr) // leave room for the library's
		}
	}
	f.frame = max(f.frame, gp.base)
	f.placeTemps()
	f.findRemat()
	f.scanRegs()
	if f.err != nil {
		return nil, f.err
	}
	return f, nil
}

// placeTemps puts small temporaries into the frame and the others into scratch,
// one after another.
func (f *fn) placeTemps() {
	cl := f.cl
	f.temps = make([]tempLoc, len(cl.Temps))
	big := make([]bool, len(cl.Temps))
	onlyKey := make([]bool, len(cl.Temps))
	for i := range onlyKey {
		onlyKey[i] = true
	}
	for i := range cl.Code {
		in := &cl.Code[i]
		if in.Temp == 0 {
			continue
		}
		t := in.Temp - 1
		switch in.Op {
		case dif.AggUpdate:
			if f.p.forms[in.Sym].kind == formHash {
				f.temps[t].prefix = true
				onlyKey[t] = false
			}
		case dif.DynGet, dif.DynSet, dif.DynAddr, dif.DynStr, dif.DynMem, dif.DynDel:
			f.temps[t].prefix = true
			onlyKey[t] = false
		case dif.Call:
			big[t] = true // results are written at computed places
			onlyKey[t] = false
		case dif.TProbeStr, dif.TZero:
		default:
			onlyKey[t] = false
		}
	}
	for t := range cl.Temps {
		tl := &f.temps[t]
		tl.size = align(cl.Temps[t].Size, 8)
		if onlyKey[t] {
			tl.dead = true
			continue
		}
		need := tl.size
		if tl.prefix {
			need += 8
		}
		if !big[t] && need <= stackTemp+8 && f.frame+need <= f.frameMax*2/3 {
			f.frame += need
			tl.stack = true
			tl.off = -f.frame
		} else {
			tl.off = f.p.tempOff + f.scratchUse
			f.scratchUse += need
		}
		if tl.prefix {
			tl.off += 8
		}
	}
}

// findRemat finds the registers that are set once, to something cheap to make
// again.
func (f *fn) findRemat() {
	n := f.nregs + 1
	f.remat = make([]*dif.Ins, n)
	defs := make([]int, n)
	for i := range f.cl.Code {
		in := &f.cl.Code[i]
		if in.Dst == 0 {
			continue
		}
		if int(in.Dst) >= n {
			f.fail(in, "register %d of %d", in.Dst, f.nregs)
			return
		}
		defs[in.Dst]++
		switch in.Op {
		case dif.Imm, dif.TempAddr, dif.StrAddr, dif.KSymAddr:
			f.remat[in.Dst] = in
		case dif.VarAddr:
			if f.p.obj.Vars[in.Sym].Class == dif.Global {
				f.remat[in.Dst] = in
			}
		}
	}
	for r := range defs {
		if defs[r] > 1 {
			f.remat[r] = nil
		}
	}
	f.loc = make([]loc, n+numPseudo)
}

func (f *fn) fail(in *dif.Ins, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("line %d: internal error: clause %s: %s", in.Line, f.cl.Name, fmt.Sprintf(format, args...))
	}
}

// life of a register: instructions count in twos, uses even, definitions odd,
// so that a result may take over the register of an operand.
type life struct {
	v          int
	start, end int
	weight     int
}

func (f *fn) pseudo(k int) int { return f.nregs + 1 + k }

// scanRegs gives registers, or places in memory, to the clause's registers and
// to those of the machine (linear scan).
func (f *fn) scanRegs() { f.assign(f.lives()) }

// lives are the lives of all registers: those that are used, sorted by start.
func (f *fn) lives() []*life {
	n := f.nregs + 1 + numPseudo
	lives := make([]life, n)
	for i := range lives {
		lives[i] = life{v: i, start: -2, end: -2}
	}
	touch := func(v, at int) {
		l := &lives[v]
		if l.start == -2 {
			l.start = at
		}
		l.end = max(l.end, at)
		l.weight++
	}
	use := func(at int, k ...int) {
		for _, k := range k {
			f.used[k] = true
			touch(f.pseudo(k), at)
		}
	}
	reguse := func(in *dif.Ins, at int, r dif.Reg) {
		if r == 0 {
			return
		}
		if int(r) > f.nregs {
			f.fail(in, "register %d of %d", r, f.nregs)
			return
		}
		if m := f.remat[r]; m != nil {
			if m.Op == dif.TempAddr && !f.temps[m.Temp-1].stack {
				use(at, pScratch)
			}
			return
		}
		touch(int(r), at)
	}
	rec := false
	for i := range f.cl.Code {
		in := &f.cl.Code[i]
		at := 2 * i
		reguse(in, at, in.A)
		reguse(in, at, in.B)
		for _, a := range in.Args {
			reguse(in, at, a)
		}
		f.machineUses(in, func(k ...int) { use(at, k...) })
		switch in.Op {
		case dif.RecBegin:
			rec = true
			use(at+1, pRec, pCommit)
			// The header is stored after the record has been reserved.
			use(at+1, pProbe)
			reguse(in, at+1, in.A)
		case dif.RecStore, dif.RecStr, dif.RecMem, dif.RecBuiltin, dif.RecStack:
			use(at, pRec)
		case dif.RecCommit:
			use(at, pRec, pCommit)
			rec = false
		}
		if canFault(in) {
			f.canFault = true
			use(at, pProbe)
			if rec {
				use(at, pRec, pCommit)
			}
			if f.p.hasErr && !f.inError {
				use(at, pCtx, pScratch)
			}
		}
		if in.Dst != 0 && f.remat[in.Dst] == nil {
			touch(int(in.Dst), at+1)
		}
	}
	if f.gp.single || f.inError {
		f.used[pProbe] = false
		lives[f.pseudo(pProbe)].start = -2
	}
	// What the caller hands over, or the prologue sets, lives from the start.
	for _, k := range []int{pCtx, pScratch, pProbe, pRegs, pSelf, pTime} {
		if f.used[k] {
			lives[f.pseudo(k)].start = -1
		}
	}
	var order []*life
	for i := range lives {
		if lives[i].start != -2 {
			order = append(order, &lives[i])
		}
	}
	sort.Slice(order, func(i, j int) bool {
		if order[i].start != order[j].start {
			return order[i].start < order[j].start
		}
		return order[i].v < order[j].v
	})
	return order
}

// assign gives the machine's four lasting registers to those that are used the
// most, and spills the others: to the frame, and numbers for which there is no
// room to the scratch level.
func (f *fn) assign(order []*life) {
	var active [4]*life
	type slot struct{ off, until int }
	var slots []slot
	spill := func(l *life) {
		machine := l.v > f.nregs
		for i := range slots {
			if slots[i].until < l.start {
				slots[i].until = l.end
				f.loc[l.v] = loc{kind: locStack, off: slots[i].off}
				return
			}
		}
		if machine || f.frame+8 <= f.frameMax-40 {
			f.frame += 8
			slots = append(slots, slot{-f.frame, l.end})
			f.loc[l.v] = loc{kind: locStack, off: -f.frame}
			return
		}
		// Only numbers may leave the frame: the verifier loses track of
		// pointers there.
		f.loc[l.v] = loc{kind: locScr, off: f.p.tempOff + f.scratchUse}
		f.scratchUse += 8
		f.used[pScratch] = true
	}
	needScr := f.used[pScratch]
	for _, l := range order {
		free, least := -1, -1
		for k, a := range active {
			if a == nil || a.end < l.start {
				active[k] = nil
				free = k
			} else if least < 0 || a.weight < active[least].weight {
				least = k
			}
		}
		if free >= 0 {
			active[free] = l
			f.loc[l.v] = loc{kind: locReg, r: r6 + reg(free)}
			continue
		}
		if active[least].weight < l.weight {
			out := active[least]
			active[least] = l
			f.loc[l.v] = f.loc[out.v]
			// The slot must be free from the beginning of out's life.
			spillFrom := *out
			spill(&spillFrom)
			continue
		}
		spill(l)
	}
	if f.used[pScratch] && !needScr {
		// Spilling into scratch was not foreseen: the level's address must
		// live throughout.
		f.frame += 8
		f.loc[f.pseudo(pScratch)] = loc{kind: locStack, off: -f.frame}
	} else if f.used[pScratch] {
		for i := range f.loc {
			if f.loc[i].kind == locScr {
				// The level's address may be needed past its last use known here.
				f.frame += 8
				f.loc[f.pseudo(pScratch)] = loc{kind: locStack, off: -f.frame}
				break
			}
		}
	}
}

// machineUses tells which registers of the machine an instruction reads, those
// of records and faults aside.
func (f *fn) machineUses(in *dif.Ins, use func(k ...int)) {
	if in.Temp != 0 && in.Op != dif.TempAddr {
		if t := &f.temps[in.Temp-1]; !t.stack && !t.dead {
			use(pScratch)
		}
	}
	variable := func() {
		switch v := f.p.obj.Vars[in.Sym]; v.Class {
		case dif.Self:
			use(pSelf)
			if f.goOf() != nil && !f.inError {
				use(pCtx)
			}
		case dif.This:
			f.usesThis = true
			if v.Keys == nil {
				use(pScratch)
			}
		}
	}
	switch in.Op {
	case dif.TempAddr:
		if in.Dst != 0 && f.remat[in.Dst] == nil && !f.temps[in.Temp-1].stack {
			use(pScratch)
		}
	case dif.Store:
		use(pScratch)
	case dif.Load:
		if f.usesAlloca() {
			use(pScratch)
		}
	case dif.TBuiltin, dif.RecBuiltin:
		switch dif.BuiltinID(in.Sym) {
		case dif.BProbeProv, dif.BProbeMod, dif.BProbeFunc, dif.BProbeName:
			use(pProbe)
		case dif.BCwd, dif.BRoot, dif.BExecargs:
			use(pScratch)
		}
	case dif.TProbeStr:
		if !f.temps[in.Temp-1].dead {
			use(pProbe)
		}
	case dif.TStack, dif.RecStack:
		use(pCtx)
		if f.p.byTables(in) {
			use(pScratch)
		}
	case dif.Builtin:
		switch dif.BuiltinID(in.Sym) {
		case dif.BArg, dif.BArgs:
			switch {
			case f.inError:
				use(pScratch)
			default:
				if f.gp.sys() {
					use(pRegs)
				}
				use(pCtx)
			}
			use(pProbe)
		case dif.BStackDepth, dif.BUStackDepth:
			use(pCtx, pScratch)
		case dif.BGoid:
			if !f.inError {
				use(pCtx)
			}
		case dif.BRegs, dif.BErrno, dif.BCaller, dif.BUCaller:
			use(pCtx)
			if f.p.byTables(in) {
				use(pScratch)
			}
		case dif.BUregs:
			if f.behind() {
				use(pCtx)
			}
		case dif.BEpid, dif.BId:
			use(pProbe)
		case dif.BTimestamp:
			use(pTime)
		}
	case dif.VarGet, dif.VarSet, dif.VarAddr, dif.VarStr, dif.VarMem, dif.TVar,
		dif.DynGet, dif.DynSet, dif.DynAddr, dif.DynStr, dif.DynMem, dif.DynDel:
		variable()
	case dif.Call:
		switch dif.Subr(in.Sym) {
		case dif.SAlloca, dif.SCopyin, dif.SCopyinto, dif.SBcopy:
			use(pScratch)
		default:
			if f.needsBuf(in) || routine(in) != nil {
				use(pScratch)
			}
		}
	case dif.AggUpdate:
		if f.p.forms[in.Sym].kind == formProbe {
			use(pProbe)
		}
	case dif.RecBegin:
		use(pProbe)
	case dif.Act:
		switch dif.ActOp(in.Sym) {
		case dif.OpReturn:
			use(pCtx)
		case dif.OpCopyout, dif.OpCopyoutstr:
			use(pScratch)
		}
	}
}

// callsLibrary reports whether an instruction becomes a call of a library
// routine.
func callsLibrary(in *dif.Ins) bool {
	if in.Op == dif.TBuiltin || in.Op == dif.RecBuiltin {
		id := dif.BuiltinID(in.Sym)
		return id == dif.BCwd || id == dif.BRoot
	}
	return routine(in) != nil
}

// canFault reports whether an instruction may abandon the clause.
func canFault(in *dif.Ins) bool {
	switch in.Op {
	case dif.Load, dif.Store, dif.Fault, dif.TStr, dif.TMem, dif.VarStr, dif.VarMem,
		dif.DynStr, dif.DynMem, dif.RecStr, dif.RecMem:
		return true
	case dif.Act:
		switch dif.ActOp(in.Sym) {
		case dif.OpCopyout, dif.OpCopyoutstr, dif.OpChill, dif.OpCommit, dif.OpDiscard:
			return true
		}
	case dif.RecBegin:
		return in.A != 0 // a number that no speculation has
	case dif.Div, dif.Mod:
		return in.B != 0 || in.Imm == 0
	case dif.TBuiltin, dif.RecBuiltin:
		switch dif.BuiltinID(in.Sym) {
		case dif.BCwd, dif.BRoot:
			return true
		}
	case dif.Call:
		switch dif.Subr(in.Sym) {
		case dif.SRand, dif.SHtons, dif.SHtonl, dif.SHtonll, dif.SNtohs, dif.SNtohl, dif.SNtohll,
			dif.SGetmajor, dif.SGetminor, dif.SSpeculation, dif.SProgenyof:
			return false
		}
		return true
	}
	return false
}
