package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"godtrace/internal/agg"
	"godtrace/internal/bpf/lib"
	"godtrace/internal/btf"
	"godtrace/internal/dif"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/ring"
)

// The value of the map "data", one mapped array element of everything the
// programs and the session share: control words, counters of each CPU, states
// of speculations, global variables, zeroes.
const (
	offActivity = 0  // u32 Activity, then s32 argument of exit()
	offEpochIdx = 8  // u64: epoch*ncpu
	offEpochKey = 16 // u64: epoch<<16
	offThreads  = 24 // u64: threads numbered so far
	offTAI      = 32 // s64: CLOCK_TAI - CLOCK_REALTIME, ns
	offMissed   = 40 // u64: firings the kernel has left out, as the session last saw
	offDrops    = 128

	dropStride       = 128 // a line for each CPU
	dropAgg          = 0
	dropNested       = 8
	dropDynamic      = 16
	dropSpecBusy     = 24
	dropSpecUnavail  = 32
	dropErrorInError = 40
	dropSpec         = 48
	sleepers         = 64 // two words: sleepable firings now running, by epoch
)

// spareSpecs is how many speculations may wait for the consumer to print or
// forget them. Only active ones count towards nspec: one that is discarded can
// be had again at once.
const spareSpecs = 255

// States of a speculation.
const (
	specFree = iota
	specActive
	specCommitting
	specDiscarding
)

// The first bytes of a scratch level.
const (
	scrBusy  = 0  // u64: taken
	scrArgs  = 8  // six u64: arg0… of ERROR
	scrAlloc = 56 // u64: bytes alloca'd
	scrTmp   = 64 // u64: a number the verifier is to forget the origin of
	scrThis  = 72
)

// levels is how deep firings may nest on a CPU before they are dropped: task,
// soft interrupt, interrupt, NMI.
const levels = 4

// maxSubprogs is below the kernel's 256 for main, fault and library routines.
const maxSubprogs = 200

// plan is everything decided before a map is made or an instruction emitted.
type plan struct {
	cfg    *Config
	obj    *dif.Object
	ncpu   int
	hasErr bool

	data, ro, scratch, scalars, ring, specRing, storage *bpfMap
	goroutines                                          *bpfMap     // what storage is for threads, for goroutines
	goPrograms                                          []goProgram // of the load that this one adds to

	unwind     *Unwind // tables for user stacks, nil without needUnwind
	needUnwind bool

	groups []*groupPlan
	forms  []formPlan
	vars   []varPlan

	// map data
	specOff, nspec    int
	specSlots         int // numbers that speculations have: nspec, and some for those being committed or discarded
	zeroOff, zeroSize int
	dataSize          int
	// task storage
	storageSize int
	// scratch level
	thisSize                  int
	tempOff                   int // temps and spilled registers of the clauses, on top of one another
	allocOff                  int
	allocSize                 int
	scratchSize               int
	needScratch, asynchronous bool
	// scalars
	scalarSize int
	// constants
	roData   []byte
	strOff   []int
	strs     interner
	numTable int // u32 string numbers, four of each probe
	txtTable int // u32 offsets of the texts, likewise
	epidTab  int // u32 first EPID of each probe
	idTab    int // u32 ID of each probe

	needNum, needTxt, needEpid, needID bool // whether those tables are there
	// records
	largest         int
	largestLine     int // of the clause with the largest record
	needRing        bool
	needSpec        bool
	needStates      bool // of speculations
	needTAI         bool
	bufSize, bufOff int // a level's buffer for copies that a routine works on
	memberOff       map[*lib.Routine]int
	// what library routines work with
	workSize, workOff   int
	stateSize, stateOff int
	slack               int

	types     *btf.Spec
	castKnown bool
	castID    int32
	regsID    uint32
	ringGeo   ring.Geometry
	specGeo   ring.Geometry
}

// interner gives strings numbers: equal strings, equal numbers.
type interner struct {
	list []string
	num  map[string]uint32
}

func (in *interner) of(s string) uint32 {
	if n, ok := in.num[s]; ok {
		return n
	}
	if in.num == nil {
		in.num = map[string]uint32{}
	}
	n := uint32(len(in.list))
	in.num[s] = n
	in.list = append(in.list, s)
	return n
}

// formKind is how the values of an aggregation form are kept.
type formKind uint8

const (
	formUnused formKind = iota
	formScalar          // no key: part of an element of the map scalars
	formProbe           // key made of the probe's name: array by epoch, CPU and probe
	formHash
)

type formPlan struct {
	kind  formKind
	spec  agg.Spec
	words int
	touch bool // one word more says that the value exists: all its words may be zero
	off   int  // formScalar
	m     *bpfMap
	key   int // formHash: bytes of a key, with what goes before the tuple
}

func (fm *formPlan) size() int {
	if fm.touch {
		return 8 * (fm.words + 1)
	}
	return 8 * fm.words
}

type varPlan struct {
	used   bool
	off    int // in data, the thread's storage, or the this area
	dyn    *bpfMap
	prefix int // bytes before the tuple: 8 for the thread's number
	slot   int // bytes of a value
}

// instance is a clause as part of a program.
type instance struct {
	cl  *dif.Clause
	pos int // in its enabling's clauses, for the EPID
	fn  *fn
}

// groupPlan is one program to be.
type groupPlan struct {
	g         *probe.Group
	index     int
	enabled   []*Enabled // by place in g.Probes
	sets      [][]*instance
	setOf     []int // by place in g.Probes
	instances []*instance
	single    bool // one probe: its index is a constant
	identity  bool // the cookie is the probe's index
	table     int  // offset in ro of the dispatch table, u64 set<<32 | index+1
	tableLen  int
	compat    int // the same for 32-bit system calls
	compatLen int

	needProbe   bool
	needScratch bool
	needThis    bool
	sleepable   bool // user memory is to be read in
	needState   bool
	needRegs    bool // user registers of the system call
	inline      bool // clauses are part of main
	base        int  // bytes of the clauses' frames that are taken
	canFault    bool
	faulted     bool // the fault routine is called from somewhere

	errors     []*fn // the clauses of ERROR, as compiled into this program
	faultLabel label
	routines   map[string]label // library functions called
}

func align(n, a int) int { return (n + a - 1) &^ (a - 1) }

// newPlan decides everything about a load. It makes nothing: maps come after it,
// then programs.
func newPlan(cfg *Config, ncpu int) (*plan, error) {
	p := &plan{cfg: cfg, obj: cfg.Object, ncpu: ncpu, hasErr: cfg.Error != nil && len(cfg.Error.Clauses) > 0}
	if p.obj == nil {
		p.obj = &dif.Object{StrSize: 256}
	}
	p.strs = cfg.names
	p.asynchronous = len(cfg.Later) > 0
	p.roData = make([]byte, 8)
	p.forms = make([]formPlan, len(p.obj.Forms))
	p.vars = make([]varPlan, len(p.obj.Vars))
	of := make(map[*probe.Probe]*Enabled, len(cfg.Enabled))
	for _, e := range cfg.Enabled {
		of[e.Probe] = e
	}
	for i, g := range cfg.Groups {
		gp := &groupPlan{g: g, index: i, single: len(g.Probes) == 1}
		if g.Kind != probe.KindManual {
			p.asynchronous = true
		}
		if g.Keys != nil && len(g.Keys) != len(g.Probes) {
			return nil, fmt.Errorf("group %s: %d probes, %d keys", g.Name, len(g.Probes), len(g.Keys))
		}
		if g.Keys == nil && len(g.Probes) != 1 {
			return nil, fmt.Errorf("group %s: %d probes and no keys to tell them apart", g.Name, len(g.Probes))
		}
		for _, pr := range g.Probes {
			e := of[pr]
			if e == nil {
				return nil, fmt.Errorf("group %s: probe %s is not enabled", g.Name, pr.Desc)
			}
			gp.enabled = append(gp.enabled, e)
		}
		p.sets(gp)
		p.groups = append(p.groups, gp)
	}
	if err := p.scan(); err != nil {
		return nil, err
	}
	p.layout()
	for _, gp := range p.groups {
		if err := p.prepare(gp); err != nil {
			return nil, err
		}
	}
	p.finish()
	for _, gp := range p.groups {
		if err := p.dispatch(gp); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// sets finds the different lists of clauses among the probes of a group.
func (p *plan) sets(gp *groupPlan) {
	type key struct {
		cl  *dif.Clause
		pos int
	}
	have := map[key]*instance{}
	bySet := map[string]int{}
	for _, e := range gp.enabled {
		var sig []byte
		var set []*instance
		for pos, cl := range e.Clauses {
			k := key{cl: cl}
			if p.hasErr || usesEpid(cl) {
				k.pos = pos
			}
			in := have[k]
			if in == nil {
				in = &instance{cl: cl, pos: pos}
				have[k] = in
				gp.instances = append(gp.instances, in)
			}
			set = append(set, in)
			sig = binary.LittleEndian.AppendUint32(sig, uint32(cl.ID))
			sig = binary.LittleEndian.AppendUint32(sig, uint32(k.pos))
		}
		n, ok := bySet[string(sig)]
		if !ok {
			n = len(gp.sets)
			bySet[string(sig)] = n
			gp.sets = append(gp.sets, set)
		}
		gp.setOf = append(gp.setOf, n)
	}
}

// readsUser reports whether a clause reads memory of the process.
func readsUser(cl *dif.Clause) bool {
	for i := range cl.Code {
		in := &cl.Code[i]
		switch in.Op {
		case dif.Load, dif.TStr, dif.TMem, dif.RecStr, dif.RecMem:
			if in.Space == dif.SpaceUser {
				return true
			}
		case dif.Call:
			switch dif.Subr(in.Sym) {
			case dif.SCopyin, dif.SCopyinstr, dif.SCopyinto:
				return true
			}
		}
	}
	return false
}

func usesEpid(cl *dif.Clause) bool {
	for i := range cl.Code {
		if in := &cl.Code[i]; in.Op == dif.Builtin && dif.BuiltinID(in.Sym) == dif.BEpid {
			return true
		}
	}
	return false
}

// errorClauses are the clauses of dtrace:::ERROR.
func (p *plan) errorClauses() []*dif.Clause {
	if !p.hasErr {
		return nil
	}
	return p.cfg.Error.Clauses
}

// clauses calls f for every clause that is part of a program.
func (p *plan) clauses(f func(cl *dif.Clause)) {
	seen := map[*dif.Clause]bool{}
	visit := func(cl *dif.Clause) {
		if !seen[cl] {
			seen[cl] = true
			f(cl)
		}
	}
	for _, gp := range p.groups {
		for _, in := range gp.instances {
			visit(in.cl)
		}
	}
	for _, cl := range p.cfg.Later {
		visit(cl)
	}
	for _, cl := range p.errorClauses() {
		visit(cl)
	}
}

// scan finds out what the clauses use, and puts together the constants.
func (p *plan) scan() error {
	p.needEpid = p.hasErr
	var err error
	p.clauses(func(cl *dif.Clause) {
		for i := range cl.Code {
			err = errors.Join(err, p.use(&cl.Code[i]))
		}
	})
	if p.largest > 0xfff8 {
		return &TooComplexError{Line: p.largestLine, Reason: fmt.Sprintf("a record of %d bytes, the most for a clause is %d", p.largest-dif.HdrSize-8, 0xfff8-dif.HdrSize-8)}
	}
	p.constants()
	return err
}

// use notes what one instruction needs.
func (p *plan) use(in *dif.Ins) error {
	if canFault(in) {
		p.needRing = true
		p.largest = max(p.largest, dif.HdrSize+24+8)
	}
	switch in.Op {
	case dif.VarGet, dif.VarSet, dif.VarAddr, dif.VarStr, dif.VarMem, dif.TVar,
		dif.DynGet, dif.DynSet, dif.DynAddr, dif.DynStr, dif.DynMem, dif.DynDel:
		p.vars[in.Sym].used = true
		p.zeroSize = max(p.zeroSize, p.obj.Vars[in.Sym].Size)
	case dif.AggUpdate:
		f := &p.forms[in.Sym]
		form := p.obj.Forms[in.Sym]
		f.spec = p.obj.Aggs[form.Agg].Spec
		f.words = f.spec.Words()
		f.touch = f.touch || f.spec.Func == agg.Sum || f.spec.Func == agg.Min || f.spec.Func == agg.Max || f.spec.Func.IsHistogram() && (in.B != 0 || in.Imm != 0)
		f.kind = formHash
		if len(form.Keys) == 0 {
			f.kind = formScalar
		} else if probeKeys(form) {
			f.kind = formProbe
		}
	case dif.RecBegin:
		p.needRing = true
		if in.A != 0 {
			p.needSpec, p.needStates = true, true
		}
		if n := dif.HdrSize + p.obj.Records[in.Sym].Size + 8; n > p.largest {
			p.largest, p.largestLine = n, int(in.Line)
		}
	case dif.TProbeStr:
		p.needNum = true
	case dif.TBuiltin, dif.RecBuiltin:
		switch dif.BuiltinID(in.Sym) {
		case dif.BProbeProv, dif.BProbeMod, dif.BProbeFunc, dif.BProbeName:
			p.needTxt = true
		case dif.BCwd, dif.BRoot:
			p.workSize = max(p.workSize, lib.CWD.Work(p.strSize()))
			p.slack = max(p.slack, lib.Slack(int(in.Size), p.strSize()))
			p.bufSize = max(p.bufSize, align(p.strSize(), 8))
			return p.members(in, lib.CWD)
		case dif.BExecargs:
			p.bufSize = max(p.bufSize, execargsMax)
		}
	case dif.TStack, dif.RecStack:
		if p.byTables(in) {
			p.needTables(int(in.Size) - 8)
		}
	case dif.Builtin:
		if p.byTables(in) {
			p.needTables(8 * p.maxFrames())
		}
		switch dif.BuiltinID(in.Sym) {
		case dif.BStackDepth, dif.BUStackDepth:
			p.bufSize = max(p.bufSize, 8*p.maxFrames())
		case dif.BEpid:
			p.needEpid = true
		case dif.BId:
			p.needID = true
		case dif.BWallTimestamp:
			p.needTAI = true
		}
	case dif.Act:
		switch dif.ActOp(in.Sym) {
		case dif.OpCommit, dif.OpDiscard:
			p.needStates = true
		case dif.OpCopyout, dif.OpCopyoutstr:
			p.bufSize = max(p.bufSize, align(p.strSize(), 8), align(int(p.cfg.ScratchSize), 8))
		}
	case dif.Call:
		if rt := routine(in); rt != nil {
			p.workSize = max(p.workSize, rt.Work(p.strSize()))
			if rt.State {
				p.stateSize = lib.State(p.strSize())
			}
			p.slack = max(p.slack, lib.Slack(int(in.Size), p.strSize()))
			if err := p.members(in, rt); err != nil {
				return err
			}
		}
		switch dif.Subr(in.Sym) {
		case dif.SStrlen, dif.SStrcmp:
			p.bufSize = max(p.bufSize, 2*align(p.strSize(), 8))
		case dif.SSpeculation:
			p.needStates = true
		case dif.SAlloca, dif.SCopyin:
			p.allocSize = int(p.cfg.ScratchSize)
			if p.allocSize <= 0 {
				p.allocSize = 256
			}
			p.allocSize = align(p.allocSize, 8)
		}
	}
	return nil
}

// constants lays out the map "const": the program's strings and tables of what
// is known of the probes. Offset 0 is never a string or table.
func (p *plan) constants() {
	text := func(s string) int {
		off := len(p.roData)
		p.roData = append(p.roData, s...)
		p.roData = append(p.roData, make([]byte, 8-len(s)%8)...)
		return off
	}
	p.strOff = make([]int, len(p.obj.Strings))
	for i, s := range p.obj.Strings {
		p.strOff[i] = text(s[:min(len(s), p.strSize()-1)]) // what any use would read
	}
	all := p.enabled()
	n := p.nprobes()
	table := func(width int, f func(e *Enabled, i int) uint32) int {
		off := len(p.roData)
		p.roData = append(p.roData, make([]byte, align(4*width*n, 8))...)
		for _, e := range all {
			for i := range width {
				binary.LittleEndian.PutUint32(p.roData[off+4*(width*e.Index+i):], f(e, i))
			}
		}
		return off
	}
	for _, e := range all {
		for i := range 4 {
			p.strs.of(e.Probe.Desc.Part(i))
		}
	}
	if p.needNum {
		p.numTable = table(4, func(e *Enabled, i int) uint32 { return p.strs.of(e.Probe.Desc.Part(i)) })
	}
	if p.needTxt {
		at := make([]uint32, len(p.strs.list))
		for i, s := range p.strs.list {
			at[i] = uint32(text(s))
		}
		p.txtTable = table(4, func(e *Enabled, i int) uint32 { return at[p.strs.of(e.Probe.Desc.Part(i))] })
	}
	if p.needEpid {
		p.epidTab = table(1, func(e *Enabled, _ int) uint32 { return uint32(e.Epid) })
	}
	if p.needID {
		p.idTab = table(1, func(e *Enabled, _ int) uint32 { return uint32(e.Probe.ID) })
	}
}

// byTables reports whether an instruction walks a user stack by unwind tables.
func (p *plan) byTables(in *dif.Ins) bool {
	if p.cfg.UStack == UStackFP {
		return false
	}
	switch in.Op {
	case dif.TStack, dif.RecStack:
		return in.Space == dif.SpaceUser && in.Size >= 16
	case dif.Builtin:
		id := dif.BuiltinID(in.Sym)
		return id == dif.BUStackDepth || id == dif.BUCaller
	}
	return false
}

// needTables has room for a walk of n bytes of frames.
func (p *plan) needTables(n int) {
	p.zeroSize = max(p.zeroSize, n)
	n = p.unwindSize(n)
	p.needUnwind = true
	p.bufSize = max(p.bufSize, n)
	p.workSize = max(p.workSize, lib.UStack.Work(p.strSize()))
	p.slack = max(p.slack, lib.Slack(n, p.strSize()))
}

// members puts the offsets of the kernel structures a routine goes through
// among the constants.
func (p *plan) members(in *dif.Ins, rt *lib.Routine) error {
	if rt.Members == nil || p.memberOff[rt] != 0 {
		return nil
	}
	if p.memberOff == nil {
		p.memberOff = map[*lib.Routine]int{}
	}
	p.memberOff[rt] = len(p.roData)
	for _, m := range rt.Members {
		off, err := p.offset(in, m.Tag, m.Path)
		if err != nil {
			return err
		}
		p.roData = binary.LittleEndian.AppendUint64(p.roData, uint64(off))
	}
	return nil
}

// probeKeys reports whether a form's key is a function of the probe alone.
func probeKeys(f *dif.AggForm) bool {
	for _, k := range f.Keys {
		if k.Kind != dif.FProbe {
			return false
		}
	}
	return true
}

// enabled are the enabled probes, that of ERROR among them.
func (p *plan) enabled() []*Enabled {
	all := p.cfg.Enabled
	if p.hasErr && !slices.Contains(all, p.cfg.Error) {
		all = append(all[:len(all):len(all)], p.cfg.Error)
	}
	return all
}

// nprobes is the number of probe indexes.
func (p *plan) nprobes() int {
	n := 0
	for _, e := range p.enabled() {
		n = max(n, e.Index+1)
	}
	return n
}

// maxProbeArray is the most memory of an aggregation that is an array by probe.
const maxProbeArray = 16 << 20

// maxProbeArrays is how many there may be of them: each is a map, and a program
// may use 64.
const maxProbeArrays = 16

// layout places the variables and aggregations.
func (p *plan) layout() {
	off := offDrops + p.cpuSlots()*dropStride
	p.nspec = 0
	if p.needStates {
		p.nspec = max(p.cfg.NSpec, 1)
		p.specSlots = max(p.nspec, min(p.nspec+spareSpecs, math.MaxUint16))
		p.specOff = off
		off += 8 * (p.specSlots + 1) // the first word counts the active ones
	}
	p.storageSize = 8
	for i, v := range p.obj.Vars {
		vp := &p.vars[i]
		if !vp.used {
			continue
		}
		vp.slot = 8
		if v.ByRef {
			vp.slot = align(v.Size, 8)
		}
		if v.Keys != nil {
			if v.Class == dif.Self {
				vp.prefix = 8
			}
			continue
		}
		switch v.Class {
		case dif.Global:
			vp.off = off
			off += vp.slot
		case dif.Self:
			vp.off = p.storageSize
			p.storageSize += vp.slot
		case dif.This:
			vp.off = scrThis + p.thisSize
			p.thisSize += vp.slot
		}
	}
	arrays := 0
	for i := range p.forms {
		f := &p.forms[i]
		if f.kind == formProbe {
			arrays++
			if len(p.cfg.Later) > 0 || 2*p.ncpu*p.nprobes()*f.size() > maxProbeArray || arrays > maxProbeArrays {
				f.kind = formHash
			}
		}
		switch f.kind {
		case formScalar:
			f.off = p.scalarSize
			p.scalarSize += f.size()
		case formHash:
			f.key = 8 + align(p.obj.Forms[i].KeySize, 8)
			p.zeroSize = max(p.zeroSize, f.size())
		}
	}
	p.zeroSize = align(max(p.zeroSize, p.storageSize, 64), 8) // goroutines' variables begin as zeroes, too
	p.zeroOff = off
	p.dataSize = off + p.zeroSize
	p.tempOff = scrThis + p.thisSize
	if p.workSize > 0 {
		p.stateOff = p.tempOff
		p.workOff = align(p.stateOff+p.stateSize, 8)
		p.tempOff = p.workOff + align(p.workSize, 8)
	}
	if p.bufSize > 0 {
		p.bufOff = p.tempOff
		p.tempOff += p.bufSize
	}
}

// strSize is the option strsize.
func (p *plan) strSize() int {
	if p.obj.StrSize > 0 {
		return p.obj.StrSize
	}
	return 256
}

// cpuSlots is the number of CPUs rounded up to a power of two, so that a mask
// bounds the CPU number for the verifier.
func (p *plan) cpuSlots() int {
	n := 1
	for n < p.ncpu {
		n *= 2
	}
	return n
}

// rows is the number of rows of a table by epoch and CPU, rounded up to a power
// of two so that a mask bounds it.
func (p *plan) rows() int {
	n := 1
	for n < 2*p.ncpu {
		n *= 2
	}
	return n
}

// prepare allocates registers and memory for the clauses of a group.
func (p *plan) prepare(gp *groupPlan) error {
	gp.sleepable = gp.g.Sleepable
	if k := gp.g.Kind; (k == probe.KindUprobe || k == probe.KindUretprobe || k == probe.KindUinstr) && kernel.AtLeast(6, 0) {
		// Sleepable uprobes exist since 6.0.
		for _, in := range gp.instances {
			gp.sleepable = gp.sleepable || readsUser(in.cl)
		}
	}
	gp.inline = len(gp.instances) <= maxInline
	count := 0
	for _, s := range gp.sets {
		count += len(s)
	}
	gp.inline = gp.inline && count == len(gp.instances)
	if gp.inline || len(gp.instances) > maxSubprogs {
		gp.base = -packOff + 24
	}
	for _, in := range gp.instances {
		f, err := newFn(p, gp, in, false)
		if err != nil {
			return err
		}
		in.fn = f
		gp.take(f)
		p.allocOff = max(p.allocOff, p.tempOff+f.scratchUse)
	}
	if gp.canFault && p.hasErr {
		for pos, cl := range p.errorClauses() {
			f, err := newFn(p, gp, &instance{cl: cl, pos: pos}, true)
			if err != nil {
				return err
			}
			gp.take(f)
			gp.errors = append(gp.errors, f)
			p.allocOff = max(p.allocOff, p.tempOff+f.scratchUse)
		}
		gp.needScratch = true
		gp.needProbe = true
	}
	if len(gp.sets) == 1 && gp.single {
		gp.needProbe = false
	}
	if gp.g.Kind == probe.KindSysExit && gp.g.Keys != nil {
		gp.needRegs = true
	}
	p.needScratch = p.needScratch || gp.needScratch
	return nil
}

func (gp *groupPlan) take(f *fn) {
	gp.canFault = gp.canFault || f.canFault
	gp.needProbe = gp.needProbe || f.used[pProbe]
	gp.needScratch = gp.needScratch || f.used[pScratch]
	gp.needThis = gp.needThis || f.usesThis
	gp.needRegs = gp.needRegs || f.used[pRegs]
	for i := range f.cl.Code {
		rt := routine(&f.cl.Code[i])
		gp.needState = gp.needState || rt != nil && rt.State
	}
}

// finish sizes the scratch level. Helpers write at an offset they compute, of
// at most the bytes left: the verifier sees offset and length apart, so the
// level ends in as much slack as either can be.
func (p *plan) finish() {
	p.allocOff = align(max(p.allocOff, p.tempOff), 8)
	if p.allocSize > 0 {
		p.allocOff += redZone
	}
	slack := max(p.allocSize, p.strSize(), p.slack, p.bufSize)
	p.scratchSize = align(p.allocOff+p.allocSize+slack, 64)
}

// kernelTypes is the kernel's BTF.
func (p *plan) kernelTypes() (*btf.Spec, error) {
	if p.types == nil {
		if s, ok := p.cfg.Types.(*btf.Spec); ok {
			p.types = s
			return s, nil
		}
		set, err := btf.Kernel()
		if err != nil {
			return nil, errNoBTF(err)
		}
		p.types = set.VMLinux
	}
	return p.types, nil
}

// castIDs are the BTF numbers of bpf_rdonly_cast and of struct pt_regs; 0
// before Linux 6.2.
func (p *plan) castIDs() (cast int32, regs uint32) {
	if !p.castKnown {
		p.castKnown = true
		if !kernel.AtLeast(6, 2) {
			return 0, 0
		}
		if spec, err := p.kernelTypes(); err == nil {
			id, ok := spec.FuncID("bpf_rdonly_cast")
			r, ok2 := spec.TypeID(btf.KindStruct, "pt_regs")
			if ok && ok2 {
				p.castID, p.regsID = int32(id), uint32(r)
			}
		}
	}
	return p.castID, p.regsID
}

// dispatch makes the tables from which a firing learns its probe.
func (p *plan) dispatch(gp *groupPlan) error {
	if gp.g.Keys == nil {
		return nil
	}
	const compatBit = 1 << 32
	sys := gp.g.Kind == probe.KindSysEnter || gp.g.Kind == probe.KindSysExit
	if !sys {
		gp.identity = len(gp.sets) == 1
		for i, k := range gp.g.Keys {
			if k != uint64(gp.enabled[i].Index) {
				gp.identity = false
			}
		}
		if gp.identity || len(gp.g.Keys) == 1 && gp.g.Keys[0] == 0 {
			return nil
		}
	}
	for _, k := range gp.g.Keys {
		n := &gp.tableLen
		if sys && k&compatBit != 0 {
			n = &gp.compatLen
			k &^= compatBit
		}
		if k >= 1<<20 {
			return fmt.Errorf("group %s: key %d is too large for a table", gp.g.Name, k)
		}
		*n = max(*n, int(k)+1)
	}
	gp.table = len(p.roData)
	gp.compat = gp.table + 8*gp.tableLen
	p.roData = append(p.roData, make([]byte, 8*(gp.tableLen+gp.compatLen))...)
	for i, k := range gp.g.Keys {
		off := gp.table
		if sys && k&compatBit != 0 {
			off = gp.compat
			k &^= compatBit
		}
		v := uint64(gp.setOf[i])<<32 | uint64(gp.enabled[i].Index+1)
		binary.LittleEndian.PutUint64(p.roData[off+8*int(k):], v)
	}
	return nil
}
