package dif

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"godtrace/internal/types"
)

// Disassemble writes the clause as DTrace would show it (option -S): its DIF,
// one DIFO for the predicate and for each value recorded, key part or
// statement, in the instruction words, mnemonics and columns of DTrace's own
// machine. It is a view: what runs is the code of the clause (see Print). DIF
// has no tests-and-branches on constants, no word-wise string comparison and
// no record stores, so one of our instructions may be several of DIF's, or none.
func Disassemble(w io.Writer, o *Object, cl *Clause) error {
	d := &dis{o: o, cl: cl}
	d.split()
	for n, s := range d.segs {
		f := &difo{d: d, vars: make(map[int]bool), temps: make(map[int32]int), keys: make(map[int32][]push)}
		f.build(s)
		if len(f.text) == 0 {
			continue
		}
		if err := f.print(w, cl.ID<<8|n); err != nil {
			return err
		}
	}
	return nil
}

// DIF's operations by number, as in <sys/dtrace.h> of illumos.
var difNames = strings.Fields(`- or xor and sll srl sub add mul sdiv udiv srem urem not mov cmp tst ba be bne bg bgu bge bgeu
bl blu ble bleu ldsb ldsh ldsw ldub lduh lduw ldx ret nop setx sets scmp ldga ldgs stgs ldta ldts stts sra call pushtr
pushtv popts flushts ldgaa ldtaa stgaa sttaa ldls stls allocs copys stb sth stw stx uldsb uldsh uldsw uldub ulduh ulduw
uldx rldsb rldsh rldsw rldub rlduh rlduw rldx xlate xlarg`)

func difOp(name string) uint32 {
	for n, s := range difNames {
		if s == name {
			return uint32(n)
		}
	}
	panic("dif: no DIF operation " + name)
}

// DIF's numbers of built-in variables. Those that DTrace does not have are
// numbered from 0x200.
var difVars = map[BuiltinID]int{
	BArgs: 0x000, BRegs: 0x001, BUregs: 0x002, BCurThread: 0x100, BTimestamp: 0x101, BVTimestamp: 0x102,
	BIpl: 0x103, BEpid: 0x104, BId: 0x105, BArg: 0x106, BStackDepth: 0x110, BCaller: 0x111, BProbeProv: 0x112,
	BProbeMod: 0x113, BProbeFunc: 0x114, BProbeName: 0x115, BPid: 0x116, BTid: 0x117, BExecname: 0x118,
	BZonename: 0x119, BWallTimestamp: 0x11a, BUStackDepth: 0x11b, BUCaller: 0x11c, BPpid: 0x11d, BUid: 0x11e,
	BGid: 0x11f, BErrno: 0x120, BCPU: 0x200, BExecargs: 0x201, BCwd: 0x202, BRoot: 0x203, BCgroup: 0x204, BNmissed: 0x205, BGoid: 0x206,
}

// difUser is the number of the first variable of a program.
const difUser = 0x500

// DIF's numbers of subroutines; ours from 0x40 on.
var difSubrs = map[Subr]int{
	SRand: 0, SMutexOwned: 1, SMutexOwner: 2, SMutexTypeAdaptive: 3, SMutexTypeSpin: 4, SRWReadHeld: 5,
	SRWWriteHeld: 6, SRWIsWriter: 7, SCopyin: 8, SCopyinstr: 9, SSpeculation: 10, SProgenyof: 11, SStrlen: 12,
	SAlloca: 15, SBcopy: 16, SCopyinto: 17, SGetmajor: 20, SGetminor: 21,
	SDdiPathname: 22, SStrjoin: 23, SLltostr: 24, SBasename: 25, SDirname: 26, SCleanpath: 27, SStrchr: 28,
	SStrrchr: 29, SStrstr: 30, SStrtok: 31, SSubstr: 32, SIndex: 33, SRindex: 34, SHtons: 35, SHtonl: 36,
	SHtonll: 37, SNtohs: 38, SNtohl: 39, SNtohll: 40, SInetNtop: 41, SInetNtoa: 42, SInetNtoa6: 43,
	SToUpper: 44, SToLower: 45, SGetf: 46, SJSON: 47, SStrtoll: 48, SLinkNtop: 0x40, SDPath: 0x41,
}

// difActs are the actions that are subroutines to DIF.
var difActs = map[ActOp]int{OpCopyout: 13, OpCopyoutstr: 14}

// dis is the disassembly of one clause.
type dis struct {
	o    *Object
	cl   *Clause
	segs []segment
	key  map[int]bool // indexes of instructions that store a part of an aggregation's key
}

// segment is the part of the code from index at on that is one DIFO.
type segment struct {
	at   int
	code []Ins
}

// split cuts the code where DTrace has one DIFO and then another: after the
// predicate, and after each effect that leaves no register to what follows.
func (d *dis) split() {
	code := d.cl.Code
	d.key = make(map[int]bool)
	agg := int32(0)
	for k := len(code) - 1; k >= 0; k-- {
		i := &code[k]
		switch {
		case i.Op == AggUpdate:
			agg = i.Temp
		case fills(i) && agg != 0 && i.Temp == agg:
			d.key[k] = true
			if i.Imm == 0 { // the first part
				agg = 0
			}
		}
	}
	last := make(map[Reg]int)
	reach := make(map[Label]int)
	for k := range code {
		code[k].Uses(func(r *Reg) { last[*r] = k })
		if code[k].Op == LabelOp {
			reach[code[k].Target] = k
		}
	}
	pred := 0
	if d.cl.HasPred && len(code) >= 2 && code[len(code)-2].Op == LabelOp {
		end := code[len(code)-2].Target
		for k, i := range code {
			if (i.Op == Br || i.Op == Jmp) && i.Target == end {
				pred = k + 1
			}
		}
		for pred > 0 && pred < len(code) && code[pred].Op == LabelOp && code[pred].Target != end {
			pred++
		}
	}
	start, until := 0, -1
	cut := func(k int) {
		if k > start {
			d.segs = append(d.segs, segment{start, code[start:k]})
		}
		start = k
	}
	for k := range code {
		i := &code[k]
		if k == pred && pred > 0 {
			cut(k)
			until = -1
		}
		if r := i.Def(); r != 0 {
			until = max(until, last[r])
		}
		if (i.Op == Br || i.Op == Jmp) && k >= pred {
			until = max(until, reach[i.Target])
		}
		root := d.key[k]
		switch i.Op {
		case VarSet, VarStr, VarMem, DynSet, DynStr, DynMem, DynDel, Store, Act, RecStore, RecStr, RecMem, RecBuiltin, RecStack, AggUpdate, RecCommit, RecBegin:
			root = true
		}
		if root && until <= k && k >= pred {
			cut(k + 1)
		}
	}
	cut(len(code))
}

// fills reports instructions that store a value in a temporary.
func fills(i *Ins) bool {
	switch i.Op {
	case TStore, TStr, TMem, TBuiltin, TProbeStr, TStack:
		return true
	}
	return false
}

// push is a part of a tuple that has been evaluated.
type push struct {
	reg int
	ref bool
}

// difo is one DIFO under construction.
type difo struct {
	d     *dis
	text  []uint32
	notes []string
	ints  []int64
	strs  []string
	vars  map[int]bool // numbers of variables; true: written
	order []int
	ret   string // type of the result
	regs  map[Reg]int
	busy  [256]bool
	held  [256]bool        // parts of tuples that wait for their push
	temps map[int32]int    // strings in temporaries: the register with their address
	keys  map[int32][]push // tuples of associative arrays
	fixes []fix
	seg   []Ins
	at    int
	scmp  Reg // the result of a string comparison
}

// fix is a branch whose target is not known yet: label 0 is the end.
type fix struct {
	at    int
	label Label
}

func (f *difo) emit(op string, r1, r2, rd int, note string) {
	f.text = append(f.text, difOp(op)<<24|uint32(r1)<<16|uint32(r2)<<8|uint32(rd))
	f.notes = append(f.notes, note)
}

// wide emits an instruction with a 16-bit operand.
func (f *difo) wide(op string, n, r int, note string) {
	f.text = append(f.text, difOp(op)<<24|uint32(n)<<8|uint32(r))
	f.notes = append(f.notes, note)
}

func (f *difo) branch(op string, l Label) {
	f.fixes = append(f.fixes, fix{len(f.text), l})
	f.wide(op, 0, 0, "")
}

func (f *difo) alloc() int {
	for r := 1; r < len(f.busy); r++ {
		if !f.busy[r] {
			f.busy[r] = true
			return r
		}
	}
	return 255
}

func (f *difo) setx(v int64) int {
	r := f.alloc()
	f.setxTo(v, r)
	return r
}

func (f *difo) setxTo(v int64, r int) {
	n := -1
	for k, x := range f.ints {
		if x == v {
			n = k
		}
	}
	if n < 0 {
		n = len(f.ints)
		f.ints = append(f.ints, v)
	}
	f.wide("setx", n, r, fmt.Sprintf("\t\t! 0x%x", uint64(v)))
}

func (f *difo) sets(s string, r int) {
	n := -1
	for k, x := range f.strs {
		if x == s {
			n = k
		}
	}
	if n < 0 {
		n = len(f.strs)
		f.strs = append(f.strs, s)
	}
	// The operand is the offset in the table of strings, which begins with a NUL.
	off := 1
	for _, x := range f.strs[:n] {
		off += len(x) + 1
	}
	f.wide("sets", off, r, fmt.Sprintf("\t! %q", s))
}

func (f *difo) use(r Reg) int {
	if n, ok := f.regs[r]; ok {
		return n
	}
	return 0
}

func (f *difo) def(r Reg) int {
	if n, ok := f.regs[r]; ok && n != 0 {
		return n
	}
	n := f.alloc()
	f.regs[r] = n
	return n
}

func (f *difo) variable(id int, write bool) {
	if _, ok := f.vars[id]; !ok {
		f.order = append(f.order, id)
	}
	f.vars[id] = f.vars[id] || write
}

func (f *difo) varName(id int) string {
	if id >= difUser {
		return f.d.o.Vars[id-difUser].Name
	}
	if id >= difVars[BArg] && id < difVars[BArg]+10 {
		return fmt.Sprintf("arg%d", id-difVars[BArg])
	}
	for b, n := range difVars {
		if n == id {
			return b.String()
		}
	}
	return ""
}

func (f *difo) varNote(id int) string { return fmt.Sprintf("\t\t! DT_VAR(%d) = %q", id, f.varName(id)) }

// ldv loads a scalar variable, or the address of one by reference.
func (f *difo) ldv(op string, id, r int) {
	f.variable(id, false)
	f.wide(op, id, r, f.varNote(id))
}

// build translates a segment of a clause into DIF as DTrace has it.
func (f *difo) build(s segment) {
	seg := slices.Clone(s.code)
	f.seg, f.at = seg, s.at
	f.regs = make(map[Reg]int)
	last := make(map[Reg]int)
	for k := range seg {
		seg[k].Uses(func(r *Reg) { last[*r] = k })
	}
	labels := make(map[Label]int)
	pred := true // nothing but conditions so far
	for k := range seg {
		i := &seg[k]
		if i.Op == LabelOp {
			labels[i.Target] = len(f.text)
			continue
		}
		switch i.Op {
		case RecBegin, RecCommit, RecStore, RecStr, RecMem, RecBuiltin, AggUpdate, Act, VarSet, VarStr, VarMem, DynSet, DynStr, DynMem:
			pred = false
		}
		skip := f.ins(i, k)
		for r, n := range f.regs {
			if last[r] <= k && n != 0 {
				f.busy[n] = f.held[n]
				delete(f.regs, r)
			}
		}
		if skip {
			break
		}
	}
	outside := false
	for _, x := range f.fixes {
		if _, ok := labels[x.label]; !ok {
			outside = true
		}
	}
	end := len(f.text)
	if outside && pred && len(f.text) > 0 {
		// The predicate: a branch out of it is false.
		f.ret = "D type (integer) (size 4)"
		f.setxTo(1, 1)
		f.emit("ret", 0, 0, 1, "")
		end = len(f.text)
		f.emit("ret", 0, 0, 0, "")
	} else if len(f.text) > 0 && f.text[len(f.text)-1]>>24 != difOp("ret") {
		f.emit("ret", 0, 0, 0, "")
	}
	for _, x := range f.fixes {
		to, ok := labels[x.label]
		if !ok || to >= len(f.text) {
			to = end
		}
		f.text[x.at] = f.text[x.at]&^0xffffff | uint32(to)
	}
	if f.ret == "" {
		f.ret = "D type (integer) (size 8)"
	}
}

var difArith = map[Op]string{Add: "add", Sub: "sub", Mul: "mul", And: "and", Or: "or", Xor: "xor", Shl: "sll", Shr: "srl", Sar: "sra"}

var difBranch = map[Cond]string{EQ: "be", NE: "bne", LT: "bl", LE: "ble", GT: "bg", GE: "bge", ULT: "blu", ULE: "bleu", UGT: "bgu", UGE: "bgeu"}

var scopes = map[VarClass]byte{Global: 'g', Self: 't', This: 'l'}

func (f *difo) compare(i *Ins) {
	if i.A == f.scmp && i.A != 0 {
		return // scmp has set the condition codes
	}
	if i.B == 0 && i.Imm == 0 && (i.Cond == EQ || i.Cond == NE) {
		f.emit("tst", f.use(i.A), 0, 0, "")
		return
	}
	b, tmp := f.operand(i)
	f.emit("cmp", f.use(i.A), b, 0, "")
	f.release(tmp)
}

// operand is the second operand in a register; tmp is to be released.
func (f *difo) operand(i *Ins) (r, tmp int) {
	if i.B != 0 {
		return f.use(i.B), 0
	}
	r = f.setx(i.Imm)
	return r, r
}

func (f *difo) release(r int) {
	if r != 0 {
		f.busy[r] = false
	}
}

func (f *difo) result(r int, t string) {
	f.emit("ret", 0, 0, r, "")
	f.ret = t
}

func sized(kind string, n int32, ref bool) string {
	if ref {
		return fmt.Sprintf("%s by ref (size %d)", kind, n)
	}
	return fmt.Sprintf("%s (size %d)", kind, n)
}

const (
	tInt    = "D type (integer)"
	tString = "string (unknown)"
	tStruct = "D type (struct)"
)

// ins renders one instruction; true ends the DIFO.
func (f *difo) ins(i *Ins, k int) bool {
	o := f.d.o
	switch i.Op {
	case Imm:
		f.setxTo(i.Imm, f.def(i.Dst))
	case Mov:
		f.emit("mov", f.use(i.A), 0, f.def(i.Dst), "")
	case Add, Sub, Mul, And, Or, Xor, Shl, Shr, Sar:
		b, tmp := f.operand(i)
		f.emit(difArith[i.Op], f.use(i.A), b, f.def(i.Dst), "")
		f.release(tmp)
	case Div, Mod:
		op := map[bool]map[Op]string{true: {Div: "sdiv", Mod: "srem"}, false: {Div: "udiv", Mod: "urem"}}[i.Signed][i.Op]
		b, tmp := f.operand(i)
		f.emit(op, f.use(i.A), b, f.def(i.Dst), "")
		f.release(tmp)
	case Neg:
		f.emit("sub", 0, f.use(i.A), f.def(i.Dst), "")
	case Not:
		f.emit("not", f.use(i.A), 0, f.def(i.Dst), "")
	case Ext:
		n := f.setx(int64(64 - 8*i.Size))
		d := f.def(i.Dst)
		f.emit("sll", f.use(i.A), n, d, "")
		op := "srl"
		if i.Signed {
			op = "sra"
		}
		f.emit(op, d, n, d, "")
		f.release(n)
	case Set:
		f.compare(i)
		d := f.def(i.Dst)
		at := len(f.text)
		f.wide(difBranch[i.Cond], 0, at+3, "")
		f.emit("mov", 0, 0, d, "")
		f.wide("ba", 0, at+4, "")
		f.setxTo(1, d)
	case Br:
		f.compare(i)
		f.branch(difBranch[i.Cond], i.Target)
	case Jmp:
		f.branch("ba", i.Target)
	case KSymAddr:
		s := o.KSyms[i.Sym]
		r := f.def(i.Dst)
		f.setxTo(0, r)
		f.notes[len(f.notes)-1] = fmt.Sprintf("\t\t! %s`%s", s.Module, s.Name)
	case Load:
		f.load(i)
	case Store:
		a, tmp := f.address(i)
		f.emit(map[int32]string{1: "stb", 2: "sth", 4: "stw", 8: "stx"}[i.Size], f.use(i.B), 0, a, "")
		f.release(tmp)
	case StrAddr:
		f.sets(o.Strings[i.Sym], f.def(i.Dst))
	case Builtin:
		f.builtin(i)
	case TBuiltin, TProbeStr:
		return f.strBuiltin(i, k)
	case TStr, TMem:
		return f.copy(i, k)
	case TStore:
		if f.d.key[f.at+k] {
			f.result(f.use(i.A), sized(tInt, i.Size, false))
			return true
		}
		f.keys[i.Temp] = append(f.keys[i.Temp], push{f.hold(i.A), false})
	case TempAddr:
		if r, ok := f.temps[i.Temp]; ok {
			f.regs[i.Dst] = r
			f.busy[r] = true
			delete(f.temps, i.Temp)
			break
		}
		f.def(i.Dst)
	case TLoad:
		f.def(i.Dst)
	case VarGet, VarAddr:
		f.ldv("ld"+string(scopes[o.Vars[i.Sym].Class])+"s", difUser+int(i.Sym), f.def(i.Dst))
	case VarSet, VarStr, VarMem:
		id := difUser + int(i.Sym)
		f.variable(id, true)
		f.wide("st"+string(scopes[o.Vars[i.Sym].Class])+"s", id, f.use(i.A), f.varNote(id))
		f.last(i, k)
	case DynGet, DynAddr, DynSet, DynStr, DynMem, DynDel:
		f.dynamic(i, k)
	case Call:
		n, ok := difSubrs[Subr(i.Sym)]
		if Subr(i.Sym) != SStrcmp {
			f.push(i.Args)
		} else {
			f.emit("scmp", f.use(i.Args[0]), f.use(i.Args[1]), 0, "")
			f.def(i.Dst)
			f.scmp = i.Dst
			break
		}
		if !ok {
			n = 0x80 + int(i.Sym) // none of DTrace's
		}
		r := 0
		if i.Dst != 0 {
			r = f.def(i.Dst)
		}
		f.wide("call", n, r, "\t\t! "+Subr(i.Sym).String())
	case Act:
		if n, ok := difActs[ActOp(i.Sym)]; ok {
			f.push(i.Args)
			f.wide("call", n, f.alloc(), "\t\t! "+ActOp(i.Sym).String())
			break
		}
		if len(i.Args) > 0 && len(f.text) > 0 {
			f.result(f.use(i.Args[0]), sized(tInt, 8, false))
			return true
		}
	case RecStore:
		f.result(f.use(i.A), sized(tInt, i.Size, false))
		return true
	case RecStr:
		r := f.use(i.A)
		if i.Space == SpaceUser {
			r = f.copyinstr(r)
		}
		f.result(r, sized(tString, i.Size, true))
		return true
	case RecMem:
		if i.B != 0 {
			f.use(i.B)
		}
		f.result(f.use(i.A), sized(tStruct, i.Size, true))
		return true
	case RecBuiltin:
		r := f.alloc()
		f.ldv("ldgs", difVars[BuiltinID(i.Sym)], r)
		f.result(r, sized(tString, int32(o.StrSize), true))
		return true
	case AggUpdate:
		if i.A != 0 {
			f.result(f.use(i.A), sized(tInt, 8, false))
			return true
		}
	}
	return false
}

// last ends the DIFO of an expression statement with its value.
func (f *difo) last(i *Ins, k int) {
	if k == len(f.seg)-1 {
		v := f.d.o.Vars[i.Sym]
		f.result(f.use(i.A), typeText(v.Type, v.Size, v.ByRef))
	}
}

// hold keeps the register of a tuple's part until the tuple is pushed.
func (f *difo) hold(r Reg) int {
	n := f.use(r)
	f.held[n] = true
	return n
}

func (f *difo) address(i *Ins) (r, tmp int) {
	if i.Imm == 0 {
		return f.use(i.A), 0
	}
	n := f.setx(i.Imm)
	f.emit("add", f.use(i.A), n, n, "")
	return n, n
}

func (f *difo) load(i *Ins) {
	a, tmp := f.address(i)
	op := "ldx"
	if i.Size < 8 {
		op = "ld" + map[bool]string{true: "s", false: "u"}[i.Signed] + map[int32]string{1: "b", 2: "h", 4: "w"}[i.Size]
	}
	if i.Space == SpaceUser {
		op = "u" + op
	}
	f.emit(op, a, 0, f.def(i.Dst), "")
	f.release(tmp)
}

func (f *difo) builtin(i *Ins) {
	id := BuiltinID(i.Sym)
	switch id {
	case BArg:
		f.ldv("ldgs", difVars[BArg]+int(i.Imm), f.def(i.Dst))
		return
	case BArgs, BUregs, BRegs:
		b, tmp := f.operand(i)
		f.variable(difVars[id], false)
		f.emit("ldga", difVars[id], b, f.def(i.Dst), f.varNote(difVars[id]))
		f.release(tmp)
		return
	}
	f.ldv("ldgs", difVars[id], f.def(i.Dst))
}

func (f *difo) strBuiltin(i *Ins, k int) bool {
	r := f.alloc()
	f.ldv("ldgs", difVars[BuiltinID(i.Sym)], r)
	if f.d.key[f.at+k] {
		f.result(r, sized(tString, int32(f.d.o.StrSize), true))
		return true
	}
	if k+2 < len(f.seg) && f.seg[k+1].Op == TLoad && f.seg[k+1].Comment != "" {
		// A comparison with a constant, word by word.
		s := f.alloc()
		text, _ := strconv.Unquote(f.seg[k+1].Comment)
		f.sets(text, s)
		f.emit("scmp", r, s, 0, "")
		f.release(r)
		f.release(s)
		target := f.seg[k+2].Target
		f.branch("bne", target)
		for j := k + 1; j+1 < len(f.seg) && f.seg[j].Op == TLoad && f.seg[j].Temp == i.Temp; j += 2 {
			f.seg[j].Op, f.seg[j+1].Op = Nop, Nop
		}
		return false
	}
	if f.dynTemp(i.Temp, k) {
		f.keys[i.Temp] = append(f.keys[i.Temp], push{r, true})
		return false
	}
	f.temps[i.Temp] = r
	return false
}

// dynTemp reports whether what instruction k stores is part of the key of an
// associative array.
func (f *difo) dynTemp(t int32, k int) bool {
	for k++; k < len(f.seg); k++ {
		i := &f.seg[k]
		switch {
		case i.Temp != t:
		case i.Op >= DynGet && i.Op <= DynDel:
			return true
		case fills(i) && i.Imm == 0:
			return false
		}
	}
	return false
}

func (f *difo) copyinstr(a int) int {
	f.emit("flushts", 0, 0, 0, "")
	f.emit("pushtv", 0, 0, a, "\t! DT_TYPE(0) = D type")
	r := f.alloc()
	f.wide("call", difSubrs[SCopyinstr], r, "\t\t! copyinstr")
	return r
}

func (f *difo) copy(i *Ins, k int) bool {
	r := f.use(i.A)
	if i.Op == TStr && i.Space == SpaceUser {
		r = f.copyinstr(r)
	}
	switch {
	case f.d.key[f.at+k]:
		kind := tStruct
		if i.Op == TStr {
			kind = tString
		}
		f.result(r, sized(kind, i.Size, true))
		return true
	case f.dynTemp(i.Temp, k):
		f.keys[i.Temp] = append(f.keys[i.Temp], push{r, true})
	default:
		f.temps[i.Temp] = r
	}
	return false
}

func (f *difo) dynamic(i *Ins, k int) {
	f.emit("flushts", 0, 0, 0, "")
	for _, p := range f.keys[i.Temp] {
		if p.ref {
			f.emit("pushtr", 1, 0, p.reg, "\t! DT_TYPE(1) = string")
		} else {
			f.emit("pushtv", 0, 0, p.reg, "\t! DT_TYPE(0) = D type")
		}
		f.held[p.reg], f.busy[p.reg] = false, false
	}
	delete(f.keys, i.Temp)
	id := difUser + int(i.Sym)
	scope := "ga"
	if f.d.o.Vars[i.Sym].Class == Self {
		scope = "ta"
	}
	switch i.Op {
	case DynGet, DynAddr:
		f.ldv("ld"+scope+"a", id, f.def(i.Dst))
	case DynDel:
		f.variable(id, true)
		f.wide("st"+scope+"a", id, 0, f.varNote(id))
	default:
		f.variable(id, true)
		f.wide("st"+scope+"a", id, f.use(i.A), f.varNote(id))
		f.last(i, k)
	}
}

func (f *difo) push(args []Reg) {
	if len(args) > 0 {
		f.emit("flushts", 0, 0, 0, "")
	}
	for _, r := range args {
		f.emit("pushtv", 0, 0, f.use(r), "\t! DT_TYPE(0) = D type")
	}
}

func typeText(t types.Type, size int, ref bool) string {
	kind := tInt
	switch u := types.Underlying(t).(type) {
	case *types.Pointer:
		kind = "D type (pointer)"
	case *types.Struct:
		kind = tStruct
		if u.Union {
			kind = "D type (union)"
		}
	case *types.Array:
		kind = "D type (array)"
	case *types.Enum:
		kind = "D type (enum)"
	}
	if types.IsString(t) {
		kind = tString
	}
	return sized(kind, int32(size), ref)
}

// print writes the listing in the form of dtrace -S: text, then the variables.
func (f *difo) print(w io.Writer, id int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nDIFO 0x%x returns %s\n", id, f.ret)
	fmt.Fprintf(&b, "%-3s %-8s    %s\n", "OFF", "OPCODE", "INSTRUCTION")
	for k, in := range f.text {
		fmt.Fprintf(&b, "%02d: %08x    %s%s\n", k, in, difText(in), f.notes[k])
	}
	if len(f.order) > 0 {
		fmt.Fprintf(&b, "\n%-16s %-4s %-3s %-3s %-4s %s\n", "NAME", "ID", "KND", "SCP", "FLAG", "TYPE")
	}
	for _, id := range f.order {
		kind, scope, flags := "scl", "glb", "r"
		typ := sized(tInt, 8, false)
		if id >= difUser {
			v := f.d.o.Vars[id-difUser]
			scope = map[VarClass]string{Global: "glb", Self: "tls", This: "loc"}[v.Class]
			if len(v.Keys) > 0 {
				kind = "arr"
			}
			typ = typeText(v.Type, v.Size, v.ByRef)
		} else {
			switch f.varName(id) {
			case "args", "uregs", "regs":
				kind = "arr"
			case "execname", "probeprov", "probemod", "probefunc", "probename", "cwd", "root", "cgroup", "zonename", "execargs":
				typ = sized(tString, int32(f.d.o.StrSize), true)
			}
		}
		if f.vars[id] {
			flags = "w"
		}
		fmt.Fprintf(&b, "%-16s %-4x %-3s %-3s %-4s %s\n", f.varName(id), id, kind, scope, flags, typ)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// difText is an instruction in DTrace's assembly.
func difText(in uint32) string {
	op, r1, r2, rd := int(in>>24), in>>16&0xff, in>>8&0xff, in&0xff
	if op >= len(difNames) {
		return fmt.Sprintf("%08x", in)
	}
	name := difNames[op]
	n := in >> 8 & 0xffff
	switch name {
	case "or", "xor", "and", "sll", "srl", "sra", "sub", "add", "mul", "sdiv", "udiv", "srem", "urem", "copys":
		return fmt.Sprintf("%-4s %%r%d, %%r%d, %%r%d", name, r1, r2, rd)
	case "not", "mov", "allocs":
		return fmt.Sprintf("%-4s %%r%d, %%r%d", name, r1, rd)
	case "cmp", "scmp":
		return fmt.Sprintf("%-4s %%r%d, %%r%d", name, r1, r2)
	case "tst":
		return fmt.Sprintf("%-4s %%r%d", name, r1)
	case "ret":
		return fmt.Sprintf("%-4s %%r%d", name, rd)
	case "nop", "popts", "flushts":
		return name
	case "setx":
		return fmt.Sprintf("%-4s DT_INTEGER[%d], %%r%d", name, n, rd)
	case "sets":
		return fmt.Sprintf("%-4s DT_STRING[%d], %%r%d", name, n, rd)
	case "call":
		return fmt.Sprintf("%-4s DIF_SUBR(%d), %%r%d", name, n, rd)
	case "pushtv":
		return fmt.Sprintf("%-4s DT_TYPE(%d), %%r%d", name, r1, rd)
	case "pushtr":
		return fmt.Sprintf("%-4s DT_TYPE(%d), %%r%d, %%r%d", name, r1, r2, rd)
	case "ldga", "ldta":
		return fmt.Sprintf("%-4s DT_VAR(%d), %%r%d, %%r%d", name, r1, r2, rd)
	case "ldgs", "ldts", "ldls", "ldgaa", "ldtaa":
		return fmt.Sprintf("%-4s DT_VAR(%d), %%r%d", name, n, rd)
	case "stgs", "stts", "stls", "stgaa", "sttaa":
		return fmt.Sprintf("%-4s %%r%d, DT_VAR(%d)", name, rd, n)
	case "stb", "sth", "stw", "stx":
		return fmt.Sprintf("%-4s %%r%d, [%%r%d]", name, r1, rd)
	}
	if name[0] == 'b' {
		return fmt.Sprintf("%-4s %d", name, in&0xffffff)
	}
	return fmt.Sprintf("%-4s [%%r%d], %%r%d", name, r1, rd)
}
