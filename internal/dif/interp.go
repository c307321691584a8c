package dif

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"godtrace/internal/probe"
	"godtrace/internal/types"
)

// World is what a program sees of the machine it observes. The interpreter
// itself knows nothing but the program: tests, recorded traces and the
// comparison with eBPF each bring a World of their own.
type World interface {
	// A FaultKind of 0 (FltUnknown) below means that all went well.

	// Builtin is the value of a numeric built-in; index is that of arg, args,
	// uregs, regs and cpc. Identity (id, epid, probe…) never gets here.
	Builtin(id BuiltinID, index int64) (int64, FaultKind)
	// BuiltinString is the value of a string built-in, execname among them.
	BuiltinString(id BuiltinID) string
	// Read fills p from address addr and reports whether all of it could be read.
	Read(s Space, addr uint64, p []byte) bool
	// WriteUser writes memory of the current process: copyout().
	WriteUser(addr uint64, p []byte) bool
	// KSym is the address of a kernel symbol.
	KSym(s KSym) (addr uint64, ok bool)
	// Stack is the return addresses of the kernel or the current process, innermost first.
	Stack(s Space) []uint64
	// Subr answers subroutines that ask the kernel something: progenyof, getf,
	// d_path, rand, the locks. str is the result of those that give a string.
	Subr(s Subr, args []int64) (n int64, str string, f FaultKind)
	// Act is told of actions on processes and the system: raise, stop, chill, ….
	Act(op ActOp, args []int64) FaultKind
}

// Firing is one firing of an enabled probe.
type Firing struct {
	Index   uint32 // index into the session's enabled probes, for record headers
	ID      int    // built-in id
	Epid    int    // epid of the first clause
	Desc    probe.Desc
	Clauses []*Clause
}

// Machine executes the clauses of an Object and keeps what lasts from one
// firing to the next: variables, aggregations, speculations.
type Machine struct {
	Obj   *Object
	World World
	// Emit gets each record, header and payload, as it is committed. The slice
	// is the receiver's.
	Emit func(rec []byte)
	// Error is dtrace:::ERROR, fired in the context of a fault; nil if not enabled.
	Error *Firing
	// Scratch is the bytes a firing may alloca(); 0 means 16 KiB.
	Scratch int
	// NSpec is the number of speculations, option nspec; 0 means 1.
	NSpec int
	// Room, if not nil, is asked before a record of n bytes is begun.
	Room func(n int) bool

	// Exited is set by exit(), Status its argument.
	Exited bool
	Status int64
	Drops  struct{ Records, Speculative, ErrorInError int }

	global  []cell
	self    map[int64][]cell
	this    []cell
	threads map[int64]bool // those that ever set a variable
	dyn     map[dynKey]*cell
	aggs    []map[string][]int64
	regions map[uint32]*region
	nregion uint32
	consts  []uint64 // addresses of Obj.Strings
	zeros   map[int]uint64
	probes  map[string]uint32 // strings of probes by number
	ksyms   map[int32]uint64
	specs   []bool // active
	pos     uint64 // bytes emitted
	strtok  string
	tokOK   bool
	fire    []uint32 // regions of this firing
	scratch int
	inError bool
}

type cell struct {
	n    int64
	addr uint64 // by-reference: where the bytes are; 0 never set
}

type dynKey struct {
	sym int32
	tid int64
	key string
}

// The machine's own memory has addresses that no kernel or process has:
// 0xffdd, number of the region, offset in it.
const (
	ownBase  = 0xffdd << 48
	offBits  = 24
	maxBytes = 1 << offBits
)

type region struct {
	b        []byte
	writable bool // by D stores: alloca and copyin
}

// fault abandons a clause.
type fault struct {
	kind FaultKind
	addr uint64
}

// dropped ends a clause whose record finds no room.
type dropped struct{}

// NewMachine prepares the execution of o's clauses. More may be compiled into
// o later on.
func NewMachine(o *Object, w World) *Machine {
	return &Machine{
		Obj: o, World: w,
		self:    make(map[int64][]cell),
		threads: make(map[int64]bool),
		dyn:     make(map[dynKey]*cell),
		regions: make(map[uint32]*region),
		zeros:   make(map[int]uint64),
		probes:  make(map[string]uint32),
		ksyms:   make(map[int32]uint64),
	}
}

// Fire runs the clauses of f in order. After exit() only END fires.
func (m *Machine) Fire(f *Firing) {
	m.this = make([]cell, len(m.Obj.Vars))
	m.tokOK = false
	end := f.Desc.Provider == "dtrace" && f.Desc.Name == "END"
	for n, cl := range f.Clauses {
		if m.Exited && !end {
			break // exit() ends tracing at once, but for the clause it is in
		}
		m.scratch = m.Scratch
		if m.scratch == 0 {
			m.scratch = 16 << 10
		}
		x := exec{m: m, f: f, cl: cl, epid: f.Epid + n}
		x.run()
	}
	for _, r := range m.fire {
		delete(m.regions, r)
	}
	m.fire = m.fire[:0]
}

// ProbeString is the string whose number a key holds, see FProbe.
func (m *Machine) ProbeString(n uint32) string {
	for s, k := range m.probes {
		if k == n {
			return s
		}
	}
	return ""
}

// Aggregation calls fn for every key of the form, in no order; key and words
// are the machine's.
func (m *Machine) Aggregation(form int, fn func(key []byte, words []int64)) {
	if form < len(m.aggs) {
		for k, w := range m.aggs[form] {
			fn([]byte(k), w)
		}
	}
}

// TakeAggregations is Aggregation for all forms in turn, in the order of the
// keys' bytes, and leaves nothing aggregated: what a drain of maps does.
func (m *Machine) TakeAggregations(fn func(form int, key []byte, words []int64) error) error {
	for form, values := range m.aggs {
		for _, k := range slices.Sorted(maps.Keys(values)) {
			if err := fn(form, []byte(k), values[k]); err != nil {
				return err
			}
		}
		clear(values)
	}
	return nil
}

// Global is the value of a scalar global variable, for tests.
func (m *Machine) Global(sym int) int64 {
	if sym < len(m.global) {
		return m.global[sym].n
	}
	return 0
}

func (m *Machine) alloc(n int, writable, lasting bool) uint64 {
	m.nregion++
	m.regions[m.nregion] = &region{make([]byte, n), writable}
	if !lasting {
		m.fire = append(m.fire, m.nregion)
	}
	return ownBase | uint64(m.nregion)<<offBits
}

// own is the machine's memory at addr, n bytes or what is left of the region;
// ok is false where addr is not the machine's.
func (m *Machine) own(addr uint64, n int) (b []byte, writable, ok bool) {
	if addr>>48 != ownBase>>48 {
		return nil, false, false
	}
	r := m.regions[uint32(addr&^(ownBase)>>offBits)]
	off := int(addr & (maxBytes - 1))
	if r == nil || off > len(r.b) {
		return nil, false, true
	}
	b = r.b[off:]
	if len(b) > n {
		b = b[:n]
	}
	return b, r.writable, true
}

func (m *Machine) read(s Space, addr uint64, p []byte) {
	if s == SpaceKernel {
		if b, _, ok := m.own(addr, len(p)); ok {
			if len(b) < len(p) {
				panic(fault{FltBadAddr, addr})
			}
			copy(p, b)
			return
		}
	}
	if !m.World.Read(s, addr, p) {
		panic(fault{FltBadAddr, addr})
	}
}

// str reads a string of at most max-1 bytes.
func (m *Machine) str(s Space, addr uint64, max int) []byte {
	if max <= 0 {
		return nil
	}
	var out []byte
	if s == SpaceKernel {
		if b, _, ok := m.own(addr, max-1); ok {
			for i, c := range b {
				if c == 0 {
					return b[:i]
				}
			}
			if len(b) < max-1 {
				panic(fault{FltBadAddr, addr + uint64(len(b))})
			}
			return b
		}
	}
	for len(out) < max-1 {
		// Up to the end of a page at once: what follows may not be mapped.
		n := min(max-1-len(out), 4096-int(addr&4095))
		chunk := make([]byte, min(n, 64))
		if !m.World.Read(s, addr, chunk) {
			chunk = chunk[:1]
			if !m.World.Read(s, addr, chunk) {
				panic(fault{FltBadAddr, addr})
			}
		}
		for i, c := range chunk {
			if c == 0 {
				return append(out, chunk[:i]...)
			}
		}
		out = append(out, chunk...)
		addr += uint64(len(chunk))
	}
	return out
}

// putStr writes s with its NUL into dst, cut to fit; with pad the rest is zeroed.
func putStr(dst, s []byte, pad bool) int {
	n := copy(dst[:len(dst)-1], s)
	if pad {
		clear(dst[n:])
	}
	dst[n] = 0
	return n
}

// exec is the execution of one clause in one firing.
type exec struct {
	m     *Machine
	f     *Firing
	cl    *Clause
	epid  int
	args  []int64 // of dtrace:::ERROR
	regs  []int64
	temps []uint64
	// The open record: header and payload.
	rec   []byte
	recID int32
	pc    int
}

func (x *exec) run() {
	x.regs = make([]int64, x.cl.NRegs+1)
	x.temps = make([]uint64, len(x.cl.Temps))
	for i, t := range x.cl.Temps {
		x.temps[i] = x.m.alloc(t.Size, false, false)
		// Temporaries are not zeroed: whoever relies on it is found out.
		b, _, _ := x.m.own(x.temps[i], t.Size)
		for k := range b {
			b[k] = 0xa5
		}
	}
	defer func() {
		switch r := recover().(type) {
		case nil, dropped:
		case fault:
			x.fault(r)
		default:
			panic(r)
		}
	}()
	x.code()
}

func (x *exec) code() {
	labels := make(map[Label]int)
	for k, i := range x.cl.Code {
		if i.Op == LabelOp {
			labels[i.Target] = k
		}
	}
	for x.pc = 0; x.pc < len(x.cl.Code); x.pc++ {
		i := &x.cl.Code[x.pc]
		switch i.Op {
		case Jmp:
			x.pc = labels[i.Target]
		case Br:
			if Compare(i.Cond, x.regs[i.A], x.b(i)) {
				x.pc = labels[i.Target]
			}
		case Ret:
			return
		default:
			x.ins(i)
		}
	}
}

// b is the second operand: a register or the constant.
func (x *exec) b(i *Ins) int64 {
	if i.B != 0 {
		return x.regs[i.B]
	}
	return i.Imm
}

func (x *exec) fault(f fault) {
	m := x.m
	x.rec = nil
	line := 0
	if x.pc < len(x.cl.Code) {
		line = int(x.cl.Code[x.pc].Line)
	}
	if m.inError {
		m.Drops.ErrorInError++
		return
	}
	rec := m.header(24, RecFault, 0, x.f.Index)
	p := rec[HdrSize:]
	le := binary.LittleEndian
	le.PutUint32(p[0:], uint32(x.cl.ID))
	le.PutUint32(p[4:], uint32(line))
	le.PutUint32(p[8:], uint32(f.kind))
	le.PutUint32(p[12:], uint32(x.pc))
	le.PutUint64(p[16:], f.addr)
	m.emit(rec)
	if m.Error == nil {
		return
	}
	m.inError = true
	defer func() { m.inError = false }()
	args := []int64{0, int64(x.epid), int64(x.cl.ID), int64(x.pc), int64(f.kind), int64(f.addr)}
	for n, cl := range m.Error.Clauses {
		e := exec{m: m, f: m.Error, cl: cl, epid: m.Error.Epid + n, args: args}
		e.run()
	}
}

func (m *Machine) header(payload int, id uint16, spec uint16, probe uint32) []byte {
	b := make([]byte, HdrSize+payload)
	now, _ := m.World.Builtin(BTimestamp, 0)
	le := binary.LittleEndian
	le.PutUint64(b[HdrTime:], uint64(now))
	le.PutUint16(b[HdrRec:], id)
	le.PutUint16(b[HdrSpec:], spec)
	le.PutUint32(b[HdrProbe:], probe)
	return b
}

// emit hands rec over; the commit word is written last, as in a ring.
func (m *Machine) emit(rec []byte) {
	binary.LittleEndian.PutUint64(rec, m.pos<<16|uint64(len(rec)))
	m.pos += uint64(len(rec))
	if m.Emit != nil {
		m.Emit(rec)
	}
}

func bad(kind FaultKind, addr int64) { panic(fault{kind, uint64(addr)}) }

// extend is the low n bytes of v, sign- or zero-extended.
func extend(v int64, n int32, signed bool) int64 {
	if n >= 8 {
		return v
	}
	s := 64 - 8*n
	if signed {
		return v << s >> s
	}
	return int64(uint64(v) << s >> s)
}

func putInt(b []byte, v int64) {
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], uint64(v))
	copy(b, w[:])
}

func getInt(b []byte, signed bool) int64 {
	var w [8]byte
	copy(w[:], b)
	return extend(int64(binary.LittleEndian.Uint64(w[:])), int32(len(b)), signed)
}

// temp is n bytes of the instruction's temporary from byte off on.
func (x *exec) temp(i *Ins, off, n int) []byte {
	b, _, _ := x.m.own(x.temps[i.Temp-1]+uint64(off), n)
	if len(b) < n {
		panic(fmt.Sprintf("dif: %s, instruction %d: temporary too small", x.cl.Name, x.pc))
	}
	return b
}

// ins executes one instruction.
func (x *exec) ins(i *Ins) {
	m, r := x.m, x.regs
	n := int(i.Size)
	switch i.Op {
	case Nop, LabelOp:
	case Fault:
		a := int64(0)
		if i.A != 0 {
			a = r[i.A]
		}
		bad(FaultKind(i.Imm), a)
	case Imm:
		r[i.Dst] = i.Imm
	case Mov:
		r[i.Dst] = r[i.A]
	case Add, Sub, Mul, Div, Mod, And, Or, Xor, Shl, Shr, Sar:
		v, ok := Arith(i.Op, r[i.A], x.b(i), i.Signed)
		if !ok {
			bad(FltDivZero, 0)
		}
		r[i.Dst] = v
	case Neg:
		r[i.Dst] = -r[i.A]
	case Not:
		r[i.Dst] = ^r[i.A]
	case Ext:
		r[i.Dst] = extend(r[i.A], i.Size, i.Signed)
	case Set:
		v := int64(0) // Dst may be A or B
		if Compare(i.Cond, r[i.A], x.b(i)) {
			v = 1
		}
		r[i.Dst] = v
	case KSymAddr:
		r[i.Dst] = int64(x.ksym(i.Sym))
	case Load:
		var w [8]byte
		m.read(i.Space, uint64(r[i.A]+i.Imm), w[:n])
		r[i.Dst] = getInt(w[:n], i.Signed)
	case Store:
		putInt(m.writable(uint64(r[i.A]+i.Imm), n), r[i.B])
	case TempAddr:
		r[i.Dst] = int64(x.temps[i.Temp-1]) + i.Imm
	case TLoad:
		r[i.Dst] = getInt(x.temp(i, int(i.Imm), n), i.Signed)
	case TStore:
		putInt(x.temp(i, int(i.Imm), n), r[i.A])
	case TZero:
		clear(x.temp(i, int(i.Imm), n))
	case TStr:
		s := m.str(i.Space, uint64(r[i.A]), n)
		k := putStr(x.temp(i, int(i.Imm), n), s, i.Pad)
		if i.Dst != 0 {
			r[i.Dst] = int64(k)
		}
	case TMem:
		b := make([]byte, n)
		m.read(i.Space, uint64(r[i.A]), b)
		copy(x.temp(i, int(i.Imm), n), b)
	case TBuiltin:
		putStr(x.temp(i, int(i.Imm), n), []byte(x.builtinString(BuiltinID(i.Sym))), i.Pad)
	case TProbeStr:
		s := x.builtinString(BuiltinID(i.Sym))
		id, ok := m.probes[s]
		if !ok {
			id = uint32(len(m.probes) + 1)
			m.probes[s] = id
		}
		putInt(x.temp(i, int(i.Imm), 4), int64(id))
	case TStack:
		x.stack(i.Space, x.temp(i, int(i.Imm), n))
	case TVar:
		c := x.cell(i)
		b := x.temp(i, int(i.Imm), n)
		if c.addr == 0 {
			clear(b)
			break
		}
		m.read(SpaceKernel, c.addr, b)
	case StrAddr:
		r[i.Dst] = int64(m.constant(i.Sym))
	case Builtin:
		r[i.Dst] = x.builtin(BuiltinID(i.Sym), x.b(i))
	case VarGet:
		r[i.Dst] = x.cell(i).n
	case VarSet:
		x.store(i)
		x.cell(i).n = r[i.A]
	case VarAddr:
		r[i.Dst] = int64(x.addr(i, x.cell(i)))
	case VarStr, VarMem:
		x.store(i)
		x.setRef(i, x.cell(i), i.Op == VarStr)
	case DynGet, DynSet, DynAddr, DynStr, DynMem, DynDel:
		x.dynamic(i)
	case Call:
		x.call(i)
	case AggUpdate:
		x.aggregate(i)
	case RecBegin:
		x.begin(i)
	case RecStore:
		putInt(x.payload(i), r[i.A])
	case RecStr:
		putStr(x.payload(i), m.str(i.Space, uint64(r[i.A]), n), false)
	case RecMem:
		b := x.payload(i)
		if i.B != 0 {
			b = b[:min(uint64(len(b)), uint64(r[i.B]))]
		}
		m.read(i.Space, uint64(r[i.A]), b)
	case RecBuiltin:
		putStr(x.payload(i), []byte(x.builtinString(BuiltinID(i.Sym))), false)
	case RecStack:
		x.stack(i.Space, x.payload(i))
	case RecCommit:
		rec := x.rec
		x.rec = nil
		m.emit(rec)
	case Act:
		x.act(i)
	default:
		panic(fmt.Sprintf("dif: no such operation %d", i.Op))
	}
}

// Arith is the integer arithmetic of op; ok is false for a division by zero.
// The quotient of the smallest number and -1 wraps round; shifts take their
// amount modulo 64.
func Arith(op Op, a, b int64, signed bool) (v int64, ok bool) {
	switch op {
	case Add:
		return a + b, true
	case Sub:
		return a - b, true
	case Mul:
		return a * b, true
	case Div, Mod:
		if b == 0 {
			return 0, false
		}
		switch {
		case op == Div && signed:
			return a / b, true
		case op == Div:
			return int64(uint64(a) / uint64(b)), true
		case signed:
			return a % b, true
		}
		return int64(uint64(a) % uint64(b)), true
	case And:
		return a & b, true
	case Or:
		return a | b, true
	case Xor:
		return a ^ b, true
	case Shl:
		return a << (uint64(b) & 63), true
	case Shr:
		return int64(uint64(a) >> (uint64(b) & 63)), true
	case Sar:
		return a >> (uint64(b) & 63), true
	}
	return 0, false
}

func (x *exec) ksym(n int32) uint64 {
	if a, ok := x.m.ksyms[n]; ok {
		return a
	}
	a, ok := x.m.World.KSym(x.m.Obj.KSyms[n])
	if !ok {
		bad(FltBadAddr, 0)
	}
	x.m.ksyms[n] = a
	return a
}

func (m *Machine) constant(n int32) uint64 {
	for len(m.consts) <= int(n) {
		s := m.Obj.Strings[len(m.consts)]
		a := m.alloc(len(s)+1, false, true)
		b, _, _ := m.own(a, len(s))
		copy(b, s)
		m.consts = append(m.consts, a)
	}
	return m.consts[n]
}

// writable is n bytes of allocated memory at addr; anything else is a fault.
func (m *Machine) writable(addr uint64, n int) []byte {
	b, w, _ := m.own(addr, n)
	if !w || len(b) < n {
		panic(fault{FltBadAddr, addr})
	}
	return b
}

func (x *exec) builtin(id BuiltinID, index int64) int64 {
	switch id {
	case BArg, BArgs:
		if x.args != nil {
			if index < 0 || index >= int64(len(x.args)) {
				return 0
			}
			return x.args[index]
		}
	case BId:
		return int64(x.f.ID)
	case BEpid:
		return int64(x.epid)
	}
	v, f := x.m.World.Builtin(id, index)
	if f != FltUnknown {
		bad(f, index)
	}
	return v
}

func (x *exec) builtinString(id BuiltinID) string {
	switch id {
	case BProbeProv:
		return x.f.Desc.Provider
	case BProbeMod:
		return x.f.Desc.Module
	case BProbeFunc:
		return x.f.Desc.Func
	case BProbeName:
		return x.f.Desc.Name
	}
	return x.m.World.BuiltinString(id)
}

// stack fills b with return addresses, 8 bytes each; for a user stack the
// first word is the pid.
func (x *exec) stack(s Space, b []byte) {
	clear(b)
	if s == SpaceUser {
		putInt(b[:8], x.builtin(BPid, 0))
		b = b[8:]
	}
	for _, pc := range x.m.World.Stack(s) {
		if len(b) < 8 {
			break
		}
		putInt(b[:8], int64(pc))
		b = b[8:]
	}
}

func (x *exec) tid() int64 { return x.builtin(BTid, 0) }

// cell is the storage of variable i.Sym.
func (x *exec) cell(i *Ins) *cell {
	m := x.m
	grow := func(c []cell) []cell {
		for len(c) < len(m.Obj.Vars) {
			c = append(c, cell{})
		}
		return c
	}
	switch m.Obj.Vars[i.Sym].Class {
	case Self:
		t := x.tid()
		c := grow(m.self[t])
		m.self[t] = c
		return &c[i.Sym]
	case This:
		m.this = grow(m.this)
		return &m.this[i.Sym]
	}
	m.global = grow(m.global)
	return &m.global[i.Sym]
}

// addr is the address of the by-reference variable held by c; of an element
// that is absent and of a thread that has no variables, that of zeroes.
func (x *exec) addr(i *Ins, c *cell) uint64 {
	if c != nil && c.addr != 0 {
		return c.addr
	}
	v := x.m.Obj.Vars[i.Sym]
	n := v.Size
	if i.Op == VarAddr && (v.Class != Self || x.m.threads[x.tid()]) {
		c.addr = x.m.alloc(n, false, v.Class != This)
		return c.addr
	}
	a, ok := x.m.zeros[n]
	if !ok {
		a = x.m.alloc(n, false, true)
		x.m.zeros[n] = a
	}
	return a
}

// store notes that the thread has variables, if i sets one of its.
func (x *exec) store(i *Ins) {
	if x.m.Obj.Vars[i.Sym].Class == Self {
		x.m.threads[x.tid()] = true
	}
}

// setRef copies the value at register A into the variable held by c.
func (x *exec) setRef(i *Ins, c *cell, str bool) {
	m := x.m
	v := m.Obj.Vars[i.Sym]
	var b []byte
	if str {
		b = append(b, m.str(SpaceKernel, uint64(x.regs[i.A]), int(i.Size))...)
	} else {
		b = make([]byte, i.Size)
		m.read(SpaceKernel, uint64(x.regs[i.A]), b)
	}
	if c.addr == 0 {
		c.addr = m.alloc(v.Size, false, v.Class != This)
	}
	dst, _, _ := m.own(c.addr, v.Size)
	if str {
		putStr(dst[:i.Size], b, false)
	} else {
		copy(dst, b)
	}
}

// dynamic is an access to an element of an array.
func (x *exec) dynamic(i *Ins) {
	m, v := x.m, x.m.Obj.Vars[i.Sym]
	k := dynKey{sym: i.Sym}
	if v.KeySize > 0 {
		k.key = string(x.temp(i, 0, v.KeySize))
	}
	if v.Class == Self {
		k.tid = x.tid()
	}
	c := m.dyn[k]
	switch i.Op {
	case DynGet:
		x.regs[i.Dst] = 0
		if c != nil {
			x.regs[i.Dst] = c.n
		}
	case DynAddr:
		if c == nil && types.IsString(v.Type) {
			x.regs[i.Dst] = 0
			return
		}
		x.regs[i.Dst] = int64(x.addr(i, c))
	case DynDel:
		delete(m.dyn, k)
	case DynSet:
		x.store(i)
		if x.regs[i.A] == 0 {
			delete(m.dyn, k)
			return
		}
		m.dyn[k] = &cell{n: x.regs[i.A]}
	case DynStr, DynMem:
		x.store(i)
		if c == nil {
			c = &cell{}
		}
		x.setRef(i, c, i.Op == DynStr)
		m.dyn[k] = c
	}
}

func (x *exec) aggregate(i *Ins) {
	m := x.m
	for len(m.aggs) < len(m.Obj.Forms) {
		m.aggs = append(m.aggs, make(map[string][]int64))
	}
	form := m.Obj.Forms[i.Sym]
	key := ""
	if form.KeySize > 0 {
		key = string(x.temp(i, 0, form.KeySize))
	}
	spec := m.Obj.Aggs[form.Agg].Spec
	w := m.aggs[i.Sym][key]
	if w == nil {
		w = make([]int64, spec.Words())
		m.aggs[i.Sym][key] = w
	}
	v, incr := int64(0), int64(1)
	if i.A != 0 {
		v = x.regs[i.A]
	}
	if i.B != 0 {
		incr = x.regs[i.B]
	}
	spec.Update(w, v, incr)
}

func (x *exec) begin(i *Ins) {
	m := x.m
	d := m.Obj.Records[i.Sym]
	spec := int64(0)
	if i.A != 0 {
		spec = x.regs[i.A]
		if spec <= 0 || spec > int64(len(m.specs)) || !m.specs[spec-1] {
			panic(dropped{})
		}
	}
	if m.Room != nil && !m.Room(HdrSize+d.Size) {
		if spec != 0 {
			m.Drops.Speculative++
		} else {
			m.Drops.Records++
		}
		panic(dropped{})
	}
	x.rec = m.header(d.Size, uint16(d.ID), uint16(spec), x.f.Index)
	x.recID = i.Sym
}

func (x *exec) payload(i *Ins) []byte {
	return x.rec[HdrSize:][i.Imm : i.Imm+int64(i.Size)]
}

// act is an action that takes effect at the time of the firing.
func (x *exec) act(i *Ins) {
	m := x.m
	args := make([]int64, len(i.Args))
	for k, a := range i.Args {
		args[k] = x.regs[a]
	}
	set := func(v int64) {
		if i.Dst != 0 {
			x.regs[i.Dst] = v
		}
	}
	set(0)
	switch op := ActOp(i.Sym); op {
	case OpExit:
		if !m.Exited {
			m.Exited, m.Status = true, args[0]
		}
	case OpCommit, OpDiscard:
		// What the records of the speculation become is the reader's business.
		switch id := args[0]; {
		case uint64(id) > uint64(len(m.specs)):
			bad(FltIllOp, 0)
		case id > 0:
			m.specs[id-1] = false
		}
	case OpCopyout:
		b := make([]byte, x.size(args[2]))
		m.read(SpaceKernel, uint64(args[0]), b)
		if !m.World.WriteUser(uint64(args[1]), b) {
			bad(FltBadAddr, args[1])
		}
	case OpCopyoutstr:
		b := append(m.str(SpaceKernel, uint64(args[0]), min(x.size(args[2]), m.Obj.StrSize)+1), 0)
		if n := x.size(args[2]); len(b) > n {
			b = b[:n]
		}
		if !m.World.WriteUser(uint64(args[1]), b) {
			bad(FltBadAddr, args[1])
		}
	default:
		if f := m.World.Act(op, args); f != FltUnknown {
			bad(f, 0)
		}
	}
}

// size is an argument that counts bytes.
func (x *exec) size(n int64) int {
	if n < 0 || n >= maxBytes {
		bad(FltBadSize, n)
	}
	return int(n)
}
