package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"godtrace/internal/bpf/lib"
	"godtrace/internal/btf"
	"godtrace/internal/dif"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
)

// Load makes the maps and loads one program for each group. Nothing fires yet:
// the activity is WarmUp. Errors that are the D program's are *TooComplexError
// or *UnsupportedError; what the kernel lacks is a type with FeatureMissing.
func Load(cfg Config) (*Runtime, error) {
	ncpu, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	p, err := newPlan(&cfg, ncpu)
	if err != nil {
		return nil, err
	}
	r := &Runtime{cfg: cfg, ncpu: ncpu, plan: p}
	p.cfg = &r.cfg
	if err := r.makeMaps(); err != nil {
		r.Close()
		return nil, err
	}
	r.progs = make([]*ebpf.Program, len(p.groups))
	r.insns = make([]int, len(p.groups))
	for i, gp := range p.groups {
		if r.progs[i], r.insns[i], err = r.loadGroup(p, gp); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

// Program and attach types, numbered in the kernel's include/uapi/linux/bpf.h.
const (
	progKprobe        = 2
	progTracepoint    = 5
	progPerfEvent     = 7
	progRawTracepoint = 17
	progTracing       = 26

	attachFentry      = 24
	attachFexit       = 25
	attachUprobeMulti = 48

	flagSleepable = 1 << 4
)

// spec is what the kind of a group's attachment demands of the load.
func (p *plan) spec(gp *groupPlan) (progSpec, error) {
	g := gp.g
	var s progSpec
	switch g.Kind {
	case probe.KindManual, probe.KindSysEnter, probe.KindSysExit, probe.KindRawTP:
		s.typ = progRawTracepoint
	case probe.KindPerf:
		s.typ = progPerfEvent
	case probe.KindUprobe, probe.KindUretprobe, probe.KindUinstr:
		s.typ = progKprobe
		if kernel.AtLeast(6, 6) {
			s.attachType = attachUprobeMulti
		}
		switch g.AttachType {
		case 0:
		case probe.AttachPlain:
			s.attachType = 0
		default:
			s.attachType = g.AttachType
		}
	case probe.KindKprobe, probe.KindKretprobe, probe.KindInstr:
		s.typ = progKprobe
		s.attachType = g.AttachType
	case probe.KindTracepoint:
		s.typ = progTracepoint
	case probe.KindFentry, probe.KindFexit:
		s.typ = progTracing
		s.attachType = attachFentry
		if g.Kind == probe.KindFexit {
			s.attachType = attachFexit
		}
		if g.AttachBTF != 0 {
			s.btfID, s.btfObj = g.AttachBTF, g.AttachObj
			break
		}
		set, err := btf.Kernel()
		if err != nil {
			return s, errNoBTF(err)
		}
		defer set.Close()
		id, ok := set.VMLinux.FuncID(g.AttachTo)
		if !ok {
			return s, fmt.Errorf("group %s: function %s is not in the kernel's BTF", g.Name, g.AttachTo)
		}
		s.btfID = uint32(id)
	default:
		return s, fmt.Errorf("group %s: kind %d is unknown", g.Name, g.Kind)
	}
	if gp.sleepable {
		s.flags |= flagSleepable
	}
	return s, nil
}

// loadGroup writes and loads the program of a group; it returns its number of
// instructions too.
func (r *Runtime) loadGroup(p *plan, gp *groupPlan) (*ebpf.Program, int, error) {
	c := &code{}
	if err := p.program(c, gp); err != nil {
		return nil, 0, err
	}
	if err := c.link(); err != nil {
		return nil, 0, err
	}
	if r.cfg.Dump != nil {
		r.cfg.Dump(gp.g.Name, c.listing())
	}
	s, err := p.spec(gp)
	if err != nil {
		return nil, 0, err
	}
	if r.cfg.Log != nil {
		size := r.cfg.LogSize
		if size <= 0 {
			size = 16 << 20
		}
		s.log = make([]byte, size)
	}
	start := time.Now()
	fd, err := loadProg(gp.g.Name, s, c)
	if r.cfg.Log != nil && err == nil {
		text, _, _ := bytes.Cut(s.log, []byte{0})
		r.cfg.Log(gp.g.Name, string(text))
	}
	if r.cfg.Trace != nil {
		r.cfg.Trace("program %s: type %d, %d instructions: %v, %d µs", gp.g.Name, s.typ, len(c.ins), result(err), time.Since(start).Microseconds())
	}
	if err != nil {
		return nil, 0, err
	}
	prog, err := ebpf.NewProgramFromFD(fd)
	if err != nil {
		return nil, 0, err
	}
	return prog, len(c.ins), nil
}

// program writes a group's program: main, the clauses, the fault routine.
func (p *plan) program(c *code, gp *groupPlan) error {
	gp.faultLabel = c.newLabel()
	gp.routines = map[string]label{}
	m := &mainFn{p: p, gp: gp, c: c}
	c.function(c.newLabel())
	m.emit()
	if m.err != nil {
		return m.err
	}
	for _, s := range m.subs {
		c.function(s.entry)
		if err := p.subprogram(c, gp, s); err != nil {
			return err
		}
	}
	// What the verifier finds unreachable it refuses.
	if !gp.faulted {
		return p.linkRoutines(c, gp)
	}
	for _, e := range gp.errors {
		e.entry = c.newLabel()
	}
	p.faultRoutine(c, gp, gp.errors)
	for _, e := range gp.errors {
		c.function(e.entry)
		if err := p.subprogram(c, gp, &sub{fns: []*fn{e}}); err != nil {
			return err
		}
	}
	return p.linkRoutines(c, gp)
}

// linkRoutines appends the library functions that were called, and theirs.
func (p *plan) linkRoutines(c *code, gp *groupPlan) error {
	if len(gp.routines) == 0 {
		return nil
	}
	v := lib.MayGoto
	if !kernel.AtLeast(6, 9) {
		v = lib.BPFLoop
		c.funcInfo = true
	}
	l, err := lib.Load(v)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(gp.routines))
	funcs, err := l.Closure(names...)
	if err != nil {
		return err
	}
	c.line = 0
	for _, f := range funcs {
		if _, ok := gp.routines[f.Name]; !ok {
			gp.routines[f.Name] = c.newLabel()
		}
	}
	for _, f := range funcs {
		c.function(gp.routines[f.Name])
		for _, r := range f.Refs {
			if r.Map {
				continue
			}
			c.fixes = append(c.fixes, fix{int32(len(c.ins) + r.At), gp.routines[r.Name], true})
		}
		for _, w := range f.Code {
			c.raw(uint8(w), reg(w>>8&15), reg(w>>12&15), int16(w>>16), int32(w>>32))
		}
		for _, r := range f.Refs {
			if r.Map {
				m, pseudo := p.unwind.mapNamed(r.Name)
				at := &c.ins[len(c.ins)-len(f.Code)+r.At]
				at.regs |= uint8(pseudo) << 4
				at.imm = int32(m.fd)
			}
		}
	}
	return nil
}

// sub is a subprogram: one clause, or, where there are more clauses than
// subprograms, several in a row.
type sub struct {
	fns   []*fn
	entry label
}

// subprogram writes the clauses of s as a function of context, scratch level,
// probe and user registers, in r1 to r4.
func (p *plan) subprogram(c *code, gp *groupPlan, s *sub) error {
	out := c.newLabel()
	if len(s.fns) > 1 {
		for i := range 4 {
			c.store(8, fp, packOff-8*i, r1+reg(i))
		}
	}
	for i, f := range s.fns {
		if i > 0 && p.mayExit(s.fns[i-1]) {
			c.activity(p, gp, out)
		}
		if len(s.fns) > 1 {
			for i := range 4 {
				c.load(8, r1+reg(i), fp, packOff-8*i)
			}
		}
		f.emit(c)
		if f.err != nil {
			return f.err
		}
	}
	c.place(out)
	c.line = 0
	c.imm(r0, 0)
	c.exit()
	return nil
}

// packOff is where a subprogram of several clauses keeps its arguments.
const packOff = -24

// mainFn is the part of a program that decides whether and for which probe it
// fires. It keeps the context in r6, the probe's index in r7, the scratch level
// in r8 and, in system calls, the user's registers in r9.
type mainFn struct {
	p     *plan
	gp    *groupPlan
	c     *code
	subs  []*sub
	entry map[*instance]*sub
	err   error
}

// emit writes the main function of a program: is it time for it to fire, whose
// probe is it, a scratch level, then the clauses one after the other.
func (m *mainFn) emit() {
	p, gp, c := m.p, m.gp, m.c
	out := c.newLabel()
	c.mov(r6, r1)
	c.activity(p, gp, out)
	if p.cfg.CPU >= 0 && gp.g.Kind != probe.KindManual {
		c.call(fnCPU)
		c.jmpImm(jNE, r0, int32(p.cfg.CPU), out)
	}
	if gp.g.Conds {
		c.condition(func() reg { return r6 }, out, false)
	}
	dispatch := m.dispatch(out)
	leave := out // every way out from here on gives back what was taken
	if gp.sleepable {
		leave = c.newLabel()
		m.enterSleeper()
	}
	release := leave
	if gp.needScratch {
		release = c.newLabel()
		m.claim(leave)
	} else if !gp.inline {
		c.imm(r8, 0)
	}
	if !gp.inline {
		if !gp.needProbe {
			c.imm(r7, 0)
		}
		if !gp.needRegs {
			c.imm(r9, 0)
		}
	}
	if gp.needState {
		c.storeImm(8, r8, p.stateOff, 0)
	}
	if gp.needThis && p.thisSize > 0 {
		for off := 0; off < p.thisSize; off += 8 {
			c.storeImm(8, r8, scrThis+off, 0)
		}
	}
	if gp.inline {
		for i, need := range gp.kept() {
			if need {
				c.store(8, fp, packOff-8*i, r6+[4]reg{0, 2, 1, 3}[i])
			}
		}
	} else {
		m.pack()
	}
	if len(gp.sets) == 1 || !dispatch {
		m.calls(gp.sets[0], release)
	} else {
		m.choose(0, len(gp.sets), release)
	}
	if gp.needScratch {
		c.place(release)
		if gp.inline {
			c.load(8, r8, fp, packOff-8)
		}
		c.storeImm(8, r8, scrBusy, 0)
	}
	if gp.sleepable {
		c.place(leave)
		m.leaveSleeper()
	}
	c.place(out)
	c.line = 0
	c.imm(r0, 0)
	c.exit()
}

// kept tells which of context, scratch, probe and user registers main keeps in
// its frame for clauses that are written into it.
func (gp *groupPlan) kept() [4]bool {
	return [4]bool{true, gp.needScratch, gp.needProbe, gp.needRegs}
}

// maxInline is how many clauses are written into main. A call costs as much as
// a helper where returns are hardened (10 ns), but more clauses in one function
// make it dear to verify.
const maxInline = 4

// activity leaves unless the session is in the state in which the group fires.
func (c *code) activity(p *plan, gp *groupPlan, out label) {
	want := Active
	if gp.g.Kind == probe.KindManual {
		want = WarmUp
		if gp.g.Probes[0].Desc.Name == "END" {
			want = Draining
		}
	}
	c.mapValue(r1, p.data, offActivity)
	c.load(4, r1, r1, 0)
	c.jmpImm(jNE, r1, int32(want), out)
}

// condition leaves if the program sits on a jump that will not be taken: see
// probe.Cond, which this evaluates as its method Holds does, byCount those of
// jumps by RCX too. Registers 0 to 3 are lost; ctx gives the one that holds the
// context.
func (c *code) condition(ctx func() reg, out label, byCount bool) {
	taken := c.newLabel()
	c.mov(r1, ctx())
	c.call(fnAttachCookie)
	c.aluImm(opRsh, r0, probe.CondShift)
	c.aluImm(opAnd, r0, 0xfff)
	c.jmpImm(jEQ, r0, 0, taken)
	if byCount {
		narrow, wide, empty, count, flags := c.newLabel(), c.newLabel(), c.newLabel(), c.newLabel(), c.newLabel()
		c.load(8, r1, ctx(), regCX)
		c.jmpImm(jSet, r0, probe.CondNarrow, narrow)
		c.jmp(wide)
		c.place(narrow)
		c.mov32(r1, r1)
		c.place(wide)
		c.jmpImm(jSet, r0, probe.CondCount, count)
		c.jmpImm(jSet, r0, probe.CondEmpty, empty)
		c.jmp(flags)
		c.place(empty)
		c.jmpImm(jEQ, r1, 0, taken)
		c.jmp(out)
		c.place(count)
		c.jmpImm(jEQ, r1, 1, out)
		c.place(flags)
		c.aluImm(opAnd, r0, 0xfff&^(probe.CondCount|probe.CondNarrow))
		c.jmpImm(jEQ, r0, 0, taken)
	}
	c.load(8, r1, ctx(), regFlags)
	c.mov(r2, r1)
	c.aluImm(opRsh, r2, 7-1) // SF to bit 1
	c.mov(r3, r1)
	c.aluImm(opRsh, r3, 11-1) // OF to bit 1
	c.alu(opXor, r2, r3)
	c.aluImm(opAnd, r2, probe.CondLess)
	c.aluImm(opAnd, r1, 0xfff&^(probe.CondLess|probe.CondNot))
	c.alu(opOr, r1, r2)
	c.alu(opAnd, r1, r0)
	not := c.newLabel()
	c.aluImm(opAnd, r0, probe.CondNot)
	c.jmpImm(jNE, r0, 0, not)
	c.jmpImm(jEQ, r1, 0, out)
	c.jmp(taken)
	c.place(not)
	c.jmpImm(jNE, r1, 0, out)
	c.place(taken)
}

// dispatch finds the probe's index (r7) and the number of its set of clauses
// (r0, kept in the frame), and reports whether there is a choice of sets.
func (m *mainFn) dispatch(out label) bool {
	p, gp, c := m.p, m.gp, m.c
	g := gp.g
	if g.Keys == nil {
		if gp.needRegs {
			m.userRegs()
		}
		return false
	}
	switch {
	case gp.sys():
		compat, have := c.newLabel(), c.newLabel()
		if g.Kind == probe.KindSysEnter {
			c.load(8, r7, r6, 8)
			m.most(r7, out)
		}
		// A number means one thing in a 32-bit call and another in a 64-bit one.
		c.call(fnCurrentTaskBTF)
		c.load(4, r8, r0, threadStatus)
		if gp.needRegs {
			m.userRegs()
		}
		if g.Kind == probe.KindSysExit {
			c.load(4, r7, r9, regOrigAX)
			m.most(r7, out)
		}
		c.mov(r2, r7)
		narrow := compat
		if gp.compatLen == 0 {
			narrow = out
		}
		c.jmpImm(jSet, r8, tsCompat, narrow)
		if gp.tableLen == 0 {
			c.jmp(out)
		} else {
			c.jmpImm(jGE, r2, int32(gp.tableLen), out)
		}
		if gp.compatLen > 0 {
			if gp.tableLen > 0 {
				c.jmp(have)
			}
			c.place(compat)
			c.jmpImm(jGE, r2, int32(gp.compatLen), out)
			c.aluImm(opAdd, r2, int32(gp.tableLen))
		}
		c.place(have)
	case gp.tableLen == 0 && !gp.identity, gp.identity && !gp.needProbe:
		// One probe, or nothing asks which it is.
		return false
	default:
		c.mov(r1, r6)
		c.call(fnAttachCookie)
		switch {
		case g.Conds, g.Behind, g.Kind == probe.KindInstr, g.Kind == probe.KindUinstr:
			c.aluImm(opAnd, r0, probe.KeyMask)
		case g.Kind == probe.KindUretprobe:
			c.mov32(r0, r0)
		}
		if gp.identity {
			c.jmpImm(jGE, r0, int32(p.nprobes()), out)
			c.mov(r7, r0)
			return false
		}
		c.jmpImm(jGE, r0, int32(gp.tableLen), out)
		c.mov(r2, r0)
	}
	c.aluImm(opLsh, r2, 3)
	c.mapValue(r1, p.ro, gp.table)
	c.alu(opAdd, r1, r2)
	c.load(8, r0, r1, 0)
	c.jmpImm(jEQ, r0, 0, out)
	if gp.needProbe {
		c.mov32(r7, r0)
		c.aluImm(opSub, r7, 1)
		c.jmpImm(jGE, r7, int32(p.nprobes()), out)
	}
	if len(gp.sets) == 1 {
		return false
	}
	c.aluImm(opRsh, r0, 32)
	c.store(8, fp, setOff, r0)
	return true
}

// most leaves for numbers that no table has.
func (m *mainFn) most(nr reg, out label) {
	m.c.jmpImm(jGE, nr, int32(max(m.gp.tableLen, m.gp.compatLen)), out)
}

// userRegs puts the registers at the system call's entry into r9, typed, so
// that plain loads read them: by a cast that costs nothing, or by a helper.
func (m *mainFn) userRegs() {
	p, c := m.p, m.c
	if cast, regs := p.castIDs(); cast != 0 {
		c.load(8, r1, r6, 0)
		c.imm(r2, int64(regs))
		c.kfunc(cast)
	} else {
		c.call(fnCurrentTaskBTF)
		c.mov(r1, r0)
		c.call(fnTaskPtRegs)
	}
	c.mov(r9, r0)
}

// The frame of main.
const (
	keyOff     = -8
	setOff     = -16
	sleeperOff = -72
)

// preemptible reports whether another firing that is not nested in this one
// may run on the CPU before it ends.
func (m *mainFn) preemptible() bool {
	switch m.gp.g.Kind {
	case probe.KindUprobe, probe.KindUretprobe, probe.KindUinstr, probe.KindFentry, probe.KindFexit:
		return true
	case probe.KindRawTP, probe.KindSysEnter, probe.KindSysExit, probe.KindKprobe, probe.KindKretprobe, probe.KindInstr:
		// Since 7.0 tracepoints no longer disable preemption.
		return kernel.AtLeast(7, 0)
	}
	return false
}

// claim takes a scratch level of this CPU. Where firings nest strictly, what
// interrupts between the load and the store has given its level back by then.
func (m *mainFn) claim(out label) {
	p, c := m.p, m.c
	got, none := c.newLabel(), c.newLabel()
	c.call(fnCPU)
	c.aluImm(opMul, r0, levels)
	c.store(4, fp, keyOff, r0)
	for level := range levels {
		next := c.newLabel()
		if level > 0 {
			c.load(4, r0, fp, keyOff)
			c.aluImm(opAdd, r0, 1)
			c.store(4, fp, keyOff, r0)
		}
		c.mapPtr(r1, p.scratch)
		c.addr(r2, fp, keyOff)
		c.call(fnMapLookup)
		c.jmpImm(jEQ, r0, 0, none)
		if m.preemptible() {
			c.imm(r1, 1)
			c.atomic(atXchg, r0, scrBusy, r1)
			c.jmpImm(jEQ, r1, 0, got)
		} else {
			c.load(8, r1, r0, scrBusy)
			c.jmpImm(jNE, r1, 0, next)
			c.storeImm(8, r0, scrBusy, 1)
			c.jmp(got)
		}
		c.place(next)
	}
	c.place(none)
	drop(c, p, dropNested)
	c.jmp(out)
	c.place(got)
	c.mov(r8, r0)
}

// pack arranges the clauses into subprograms.
func (m *mainFn) pack() {
	m.entry = map[*instance]*sub{}
	n := len(m.gp.instances)
	if n <= maxSubprogs {
		for _, in := range m.gp.instances {
			s := &sub{fns: []*fn{in.fn}, entry: m.c.newLabel()}
			m.subs = append(m.subs, s)
			m.entry[in] = s
		}
		return
	}
	// A subprogram of several clauses is called for all of them, so they must
	// come together in every set: runs of one set are, if no other set has
	// part of them.
	in := map[*instance]int{}
	for _, set := range m.gp.sets {
		for _, i := range set {
			in[i]++
		}
	}
	size := (n + maxSubprogs - 1) / maxSubprogs
	for _, set := range m.gp.sets {
		var s *sub
		for _, i := range set {
			if m.entry[i] != nil {
				s = nil
				continue
			}
			if s == nil || in[i] > 1 || len(s.fns) >= size+1 || exits(s.fns[len(s.fns)-1].cl) {
				s = &sub{entry: m.c.newLabel()}
				m.subs = append(m.subs, s)
			}
			s.fns = append(s.fns, i.fn)
			m.entry[i] = s
			if in[i] > 1 {
				s = nil
			}
		}
	}
}

// calls runs a set of clauses in order. A clause that calls exit() ends the
// firing, as does an exit() elsewhere meanwhile.
func (m *mainFn) calls(set []*instance, end label) {
	c := m.c
	for i, in := range set {
		if m.gp.inline {
			for k, need := range m.gp.kept() {
				switch {
				case need && i == 0:
					c.mov(r1+reg(k), r6+[4]reg{0, 2, 1, 3}[k])
				case need:
					c.load(8, r1+reg(k), fp, packOff-8*k)
				}
			}
			in.fn.emit(c)
			if in.fn.err != nil {
				m.err = in.fn.err
				return
			}
			if i+1 < len(set) && m.p.mayExit(in.fn) {
				c.activity(m.p, m.gp, end)
			}
			continue
		}
		if i > 0 && m.entry[in] == m.entry[set[i-1]] {
			continue // part of the subprogram just called
		}
		c.mov(r1, r6)
		c.mov(r2, r8)
		c.mov(r3, r7)
		c.mov(r4, r9)
		c.callSub(m.entry[in].entry)
		if i+1 < len(set) && slices.ContainsFunc(m.entry[in].fns, m.p.mayExit) {
			c.activity(m.p, m.gp, end)
		}
	}
}

// mayExit reports whether a clause may end tracing: by itself, or by a fault if
// dtrace:::ERROR does.
func (p *plan) mayExit(f *fn) bool {
	return exits(f.cl) || f.canFault && slices.ContainsFunc(p.errorClauses(), exits)
}

func exits(cl *dif.Clause) bool {
	for i := range cl.Code {
		if in := &cl.Code[i]; in.Op == dif.Act && dif.ActOp(in.Sym) == dif.OpExit {
			return true
		}
	}
	return false
}

// choose runs the set whose number is in the frame, of those from lo to hi.
func (m *mainFn) choose(lo, hi int, end label) {
	c := m.c
	if hi-lo == 1 {
		m.calls(m.gp.sets[lo], end)
		c.jmp(end)
		return
	}
	mid := (lo + hi) / 2
	upper := c.newLabel()
	c.load(8, r0, fp, setOff)
	c.jmpImm(jGE, r0, int32(mid), upper)
	m.choose(lo, mid, end)
	c.place(upper)
	m.choose(mid, hi, end)
}

// enterSleeper and leaveSleeper count sleepable firings, which a grace period
// does not wait for, in the epoch they began in.
func (m *mainFn) enterSleeper() {
	p, c := m.p, m.c
	c.call(fnCPU)
	c.mapValue(r1, p.data, offEpochKey)
	c.load(8, r1, r1, 0)
	c.aluImm(opRsh, r1, 13)
	c.aluImm(opAnd, r1, 8)
	c.aluImm(opAnd, r0, int32(p.cpuSlots()-1))
	c.aluImm(opMul, r0, dropStride)
	c.mapValue(r2, p.data, offDrops+sleepers)
	c.alu(opAdd, r2, r0)
	c.alu(opAdd, r2, r1)
	c.imm(r1, 1)
	c.atomic(atAdd, r2, 0, r1)
	c.store(8, fp, sleeperOff, r2)
}

func (m *mainFn) leaveSleeper() {
	c := m.c
	c.load(8, r2, fp, sleeperOff)
	c.imm(r1, -1)
	c.atomic(atAdd, r2, 0, r1)
}

// waitSleepers waits for the sleepable firings that are running: each CPU's
// count must be seen at zero, for firings of either epoch.
func (r *Runtime) waitSleepers() error {
	some := false
	for _, gp := range r.plan.groups {
		some = some || gp.sleepable
	}
	if !some {
		return nil
	}
	deadline := time.Now().Add(5 * time.Second)
	for cpu := range r.ncpu {
		for epoch := range 2 {
			w := r.word(offDrops + cpu*dropStride + sleepers + 8*epoch)
			for w.Load() != 0 {
				if time.Now().After(deadline) {
					return errors.New("a firing in a sleepable probe does not end")
				}
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
	return nil
}
