package compile

import (
	"strconv"

	"godtrace/internal/check"
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// val is the value of an expression while its clause is compiled: a constant,
// a register, or a string that is not in memory yet.
type val struct {
	kind  valKind
	imm   int64 // constant
	reg   dif.Reg
	space dif.Space // by-reference values: where the address points
	bound int       // strings: bytes at most, with the NUL
	id    dif.BuiltinID
	// user marks a copyinstr() that has not been done: the string is copied to
	// where it is wanted, once.
	user bool
	// null marks strings that may be NULL (what strtok, strchr and their kin
	// give where there is nothing): their address may be 0.
	null bool
	// wide: the number may not fit into its type.
	wide bool
}

type valKind uint8

const (
	vNone    valKind = iota // void
	vConst                  // imm
	vReg                    // reg: a number, or the address of a by-reference value
	vLit                    // string constant number imm
	vBuiltin                // string built-in id
)

func konst(n int64) val     { return val{kind: vConst, imm: n} }
func inReg(r dif.Reg) val   { return val{kind: vReg, reg: r} }
func (v val) isConst() bool { return v.kind == vConst }

// in gives the value in a register: a number, or the address of a
// by-reference value in whatever space it is.
func (f *fn) in(v val) dif.Reg {
	switch v.kind {
	case vReg:
		return v.reg
	case vConst, vNone:
		d := f.reg()
		f.emit(dif.Ins{Op: dif.Imm, Dst: d, Imm: v.imm})
		return d
	case vLit:
		d := f.reg()
		f.emit(dif.Ins{Op: dif.StrAddr, Dst: d, Sym: int32(v.imm), Comment: f.c.obj.Strings[v.imm]})
		return d
	}
	return f.local(v)
}

// local gives the address of the string v in kernel memory, copying it there
// where it is not.
func (f *fn) local(v val) dif.Reg {
	switch {
	case v.kind == vBuiltin:
		t := f.temp(v.bound, builtinName(v.id))
		f.emit(dif.Ins{Op: dif.TBuiltin, Temp: t, Sym: int32(v.id), Size: int32(v.bound), Comment: builtinName(v.id)})
		return f.tempAddr(t)
	case v.kind == vReg && v.space == dif.SpaceUser:
		t := f.temp(v.bound, "string")
		f.emit(dif.Ins{Op: dif.TStr, Temp: t, A: v.reg, Space: v.space, Size: int32(v.bound)})
		return f.tempAddr(t)
	}
	return f.in(v)
}

func (f *fn) tempAddr(t int32) dif.Reg {
	d := f.reg()
	f.emit(dif.Ins{Op: dif.TempAddr, Dst: d, Temp: t})
	return d
}

// localMem gives the address in kernel memory of the n bytes at v.
func (f *fn) localMem(v val, n int) dif.Reg {
	if v.kind != vReg || v.space == dif.SpaceKernel {
		return f.in(v)
	}
	t := f.temp(n, "bytes")
	f.emit(dif.Ins{Op: dif.TMem, Temp: t, A: v.reg, Space: v.space, Size: int32(n)})
	return f.tempAddr(t)
}

// set assigns v to register d, for values that come along several paths.
func (f *fn) set(d dif.Reg, v val) {
	if v.isConst() {
		f.emit(dif.Ins{Op: dif.Imm, Dst: d, Imm: v.imm})
		return
	}
	f.emit(dif.Ins{Op: dif.Mov, Dst: d, A: f.in(v)})
}

// scalar evaluates e into a register.
func (f *fn) scalar(e check.Expr) dif.Reg { return f.in(f.expr(e)) }

// rhs puts v in the place of b of an instruction: a register or the constant.
func (f *fn) rhs(i dif.Ins, v val) dif.Ins {
	if v.isConst() {
		i.B, i.Imm = 0, v.imm
	} else {
		i.B = f.in(v)
	}
	return i
}

// width of a scalar type in bytes and its sign, for Ext.
func width(t types.Type) (n int, signed bool) {
	n = int(t.Size())
	if n <= 0 || n > 8 {
		n = 8
	}
	return n, types.IsSigned(t)
}

func isBool(t types.Type) bool {
	b, ok := types.Underlying(t).(*types.Basic)
	return ok && b.Kind == types.Bool
}

// extend is n as a value of n bytes and sign.
func extend(v int64, n int, signed bool) int64 {
	if n >= 8 {
		return v
	}
	s := 64 - 8*n
	if signed {
		return v << s >> s
	}
	return int64(uint64(v) << s >> s)
}

// norm makes the result of arithmetic a value of type t again.
func (f *fn) norm(r dif.Reg, t types.Type) dif.Reg {
	n, signed := width(t)
	if n == 8 {
		return r
	}
	d := f.reg()
	f.emit(dif.Ins{Op: dif.Ext, Dst: d, A: r, Size: int32(n), Signed: signed})
	return d
}

func (f *fn) expr(e check.Expr) val {
	save := f.pos
	if p := e.Pos(); p.Line != 0 {
		f.pos = p
	}
	v := f.value(e)
	f.pos = save
	if types.IsString(e.Type()) && v.bound == 0 {
		v.bound = f.c.bound(e.Type())
	}
	return v
}

// value compiles an expression by its kind.
func (f *fn) value(e check.Expr) val {
	switch e := e.(type) {
	case *check.Const:
		return konst(e.Value)
	case *check.String:
		return f.literal(e.Value)
	case *check.Builtin:
		return f.builtin(e)
	case *check.VarRef:
		return f.load(f.place1(e))
	case *check.KSym:
		d := f.reg()
		f.emit(dif.Ins{Op: dif.KSymAddr, Dst: d, Sym: f.c.ksym(dif.KSym{Module: e.Module, Name: e.Name}), Comment: e.Name})
		return inReg(d)
	case *check.Mem:
		return f.load(f.place1(e))
	case *check.AddrOf:
		return f.addrOf(e)
	case *check.Conv:
		return f.conv(e)
	case *check.Unary:
		return f.unary(e)
	case *check.Binary:
		return f.binary(e)
	case *check.Logical:
		return f.truth(e)
	case *check.CondExpr:
		return f.cond(e)
	case *check.XlateStruct:
		return f.xlate(e)
	case *check.Assign:
		return f.assign(e, true)
	case *check.IncDec:
		return f.incDec(e)
	case *check.Comma:
		f.expr(e.X)
		return f.expr(e.Y)
	case *check.Call:
		return f.call(e)
	case *check.Index:
		r, within := f.in(f.expr(e.X)), f.label()
		f.emit(dif.Ins{Op: dif.Br, Cond: dif.ULT, A: r, Imm: e.N, Target: within})
		f.emit(dif.Ins{Op: dif.Fault, A: r, Imm: int64(dif.FltBadIndex)})
		f.place(within)
		return inReg(r)
	case *check.Let:
		f.lets[e.Slot] = f.bind(e.X)
		return f.expr(e.Body)
	case *check.LetRef:
		v, ok := f.lets[e.Slot]
		if !ok {
			f.fail("D_UNKNOWN", "internal error: value %d is used outside of its Let", e.Slot)
		}
		return v
	case *check.OpExpr:
		return f.op(e.Op, e.Args)
	case *check.StackExpr:
		return f.stack(e)
	case *check.SymExpr:
		if symField(e.Kind).Size > 8 {
			f.fail("D_UNKNOWN", "the value of %s( ) can only be printed or be an aggregation key", e.Kind)
		}
		return f.expr(e.X)
	}
	f.fail("D_UNKNOWN", "internal error: expression %T", e)
	return val{}
}

// stack takes a stack as a value: see types.TStack. Frames beyond those asked
// for are zero.
func (f *fn) stack(e *check.StackExpr) val {
	size := f.c.sizeof(e.T)
	fl := f.stackField(e.Kind, e.Frames, e.StrSize)
	most := min(size-types.StackFrames, 8*fl.Frames)
	t := f.temp(size, "stack")
	f.emit(dif.Ins{Op: dif.TZero, Temp: t, Size: int32(size)})
	depth := &check.Builtin{E: check.E{T: types.TUint32, P: e.P}, ID: dif.BStackDepth}
	i := dif.Ins{Op: dif.TStack, Temp: t, Imm: types.StackFrames, Size: int32(most)}
	if fl.Kind == dif.FUStack { // writes the pid before the frames
		i.Imm, i.Size, i.Space = 0, int32(types.StackFrames+most), dif.SpaceUser
		depth.ID = dif.BUStackDepth
	}
	f.emit(i)
	n, fits := f.reg(), f.label()
	f.set(n, f.expr(depth))
	f.emit(dif.Ins{Op: dif.Br, Cond: dif.LE, A: n, Imm: int64(most / 8), Target: fits})
	f.emit(dif.Ins{Op: dif.Imm, Dst: n, Imm: int64(most / 8)})
	f.place(fits)
	f.emit(dif.Ins{Op: dif.TStore, Temp: t, Imm: types.StackDepth, A: n, Size: 4})
	return inReg(f.tempAddr(t))
}

// bind evaluates X once, for a Let. Strings in user memory stay where they are:
// their address is what is evaluated.
func (f *fn) bind(e check.Expr) val { return f.expr(e) }

func (f *fn) literal(s string) val {
	n := len(s) + 1
	if n > f.c.opt.StrSize {
		s = s[:f.c.opt.StrSize-1]
		n = f.c.opt.StrSize
	}
	return val{kind: vLit, imm: int64(f.c.str(s)), bound: n}
}

// execnameSize is the size of a task's comm, TASK_COMM_LEN.
const execnameSize = 16

func (f *fn) builtin(e *check.Builtin) val {
	if types.IsString(e.T) {
		n := f.c.opt.StrSize
		if e.ID == dif.BExecname {
			n = min(n, execnameSize)
		}
		return val{kind: vBuiltin, id: e.ID, bound: n}
	}
	if byRef(e.T) && (e.Parts != nil || e.Loc != nil && e.Loc.Kind == probe.LocMem) {
		return f.object(e)
	}
	i := dif.Ins{Op: dif.Builtin, Sym: int32(e.ID), Imm: int64(e.N), Comment: e.Name}
	if e.Index != nil {
		i = f.rhs(i, f.expr(e.Index))
	}
	if i.Comment == "" {
		i.Comment = builtinName(e.ID)
	}
	i.Dst = f.reg()
	f.emit(i)
	if (e.ID == dif.BArgs || e.ID == dif.BArg) && !byRef(e.T) {
		// The raw argument is a whole register, whatever its type.
		return inReg(f.norm(i.Dst, e.T))
	}
	v := inReg(i.Dst)
	if byRef(e.T) && e.Loc != nil && e.Loc.User {
		v.space = dif.SpaceUser
	}
	return v
}

// object is an argument that is larger than a register: on the stack of the
// process, or put together from registers.
func (f *fn) object(e *check.Builtin) val {
	ureg := func(n int) dif.Reg {
		d := f.reg()
		f.emit(dif.Ins{Op: dif.Builtin, Dst: d, Sym: int32(dif.BUregs), Imm: int64(n), Comment: e.Name})
		return d
	}
	if e.Parts == nil {
		d := f.reg()
		f.emit(dif.Ins{Op: dif.Add, Dst: d, A: ureg(int(e.Loc.Off / 8)), Imm: e.Loc.Disp})
		return val{kind: vReg, reg: d, space: dif.SpaceUser}
	}
	size := f.c.sizeof(e.T)
	t := f.temp(size, e.Name)
	f.emit(dif.Ins{Op: dif.TZero, Temp: t, Size: int32(size)})
	for _, p := range e.Parts {
		if p.Reg < 0 {
			continue // nothing asks for it
		}
		r := ureg(p.Reg)
		// Stores are of 8, 4, 2 and 1 bytes.
		for off, n := p.Off, p.Size; n > 0; {
			k := 8
			for k > n {
				k /= 2
			}
			f.emit(dif.Ins{Op: dif.TStore, Temp: t, Imm: int64(off), Size: int32(k), A: r})
			if off, n = off+k, n-k; n > 0 {
				d := f.reg()
				f.emit(dif.Ins{Op: dif.Shr, Dst: d, A: r, Imm: int64(8 * k)})
				r = d
			}
		}
	}
	return inReg(f.tempAddr(t))
}

func builtinName(id dif.BuiltinID) string { return id.String() }

func (f *fn) addrOf(e *check.AddrOf) val {
	switch x := e.X.(type) {
	case *check.Mem:
		p := f.place1(x)
		if p.off == 0 {
			return inReg(p.addr)
		}
		d := f.reg()
		f.emit(dif.Ins{Op: dif.Add, Dst: d, A: p.addr, Imm: p.off})
		return inReg(d)
	case *check.Builtin:
		if byRef(x.T) {
			return f.builtin(x)
		}
	case *check.VarRef:
		if byRef(x.T) {
			return inReg(f.in(f.load(f.place1(x))))
		}
	}
	f.fail("D_ADDROF_VAR", "cannot take the address of this value: it is not in memory")
	return val{}
}

// conv converts between integers, pointers and strings.
func (f *fn) conv(e *check.Conv) val {
	from, to := e.X.Type(), e.T
	if types.IsVoid(to) {
		f.expr(e.X)
		return val{}
	}
	v := f.expr(e.X)
	switch {
	case types.IsString(to):
		v.bound = min(max(v.bound, 0), f.c.bound(to))
		if v.bound == 0 || v.kind == vReg && !v.user && !types.IsString(from) {
			v.bound = f.c.bound(to)
		}
		if v.kind == vConst || v.kind == vReg && types.IsUser(from) {
			v = val{kind: vReg, reg: f.in(v), bound: v.bound}
			if types.IsUser(from) {
				v.space = dif.SpaceUser
			}
		}
		return v
	case byRef(to):
		return v
	case byRef(from):
		// The address of a string or array as a pointer. A string that is
		// still in user memory has one only after it was copied.
		if v.kind == vBuiltin || v.user {
			return inReg(f.local(v))
		}
		if ref, ok := e.X.(*check.VarRef); ok && types.IsString(ref.T) {
			return inReg(f.orNull(v))
		}
		return inReg(f.in(v))
	}
	return f.convert(v, from, to)
}

// orNull gives the address of a string variable as a pointer: NULL where the
// string is empty. A variable never set, freed, or assigned the NULL of
// strtok() holds no address but an empty string, and programs compare it with
// NULL.
func (f *fn) orNull(v val) dif.Reg {
	d, c, set := f.reg(), f.reg(), f.label()
	f.emit(dif.Ins{Op: dif.Mov, Dst: d, A: v.reg})
	if v.null {
		f.emit(dif.Ins{Op: dif.Br, Cond: dif.EQ, A: d, Target: set})
	}
	f.emit(dif.Ins{Op: dif.Load, Dst: c, A: d, Size: 1})
	f.emit(dif.Ins{Op: dif.Br, Cond: dif.NE, A: c, Target: set})
	f.emit(dif.Ins{Op: dif.Imm, Dst: d})
	f.place(set)
	return d
}

// convert converts a scalar by C's rules.
func (f *fn) convert(v val, from, to types.Type) val {
	if isBool(to) && !isBool(from) {
		if v.isConst() {
			return konst(b2i(v.imm != 0))
		}
		return f.compare(dif.NE, v, konst(0))
	}
	wt, st := width(to)
	if v.isConst() {
		return konst(extend(v.imm, wt, st))
	}
	ws, ss := width(from)
	switch {
	case wt == 8, ws < wt && (!ss || st), ws == wt && ss == st:
		return v
	}
	return inReg(f.norm(f.in(v), to))
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (f *fn) unary(e *check.Unary) val {
	if e.Op == syntax.LNot {
		return f.truth(e)
	}
	v := f.expr(e.X)
	n, signed := width(e.T)
	if v.isConst() {
		switch e.Op {
		case syntax.Sub:
			return konst(extend(-v.imm, n, signed))
		case syntax.Not:
			return konst(extend(^v.imm, n, signed))
		}
	}
	d := f.reg()
	switch e.Op {
	case syntax.Add:
		return v
	case syntax.Sub:
		f.emit(dif.Ins{Op: dif.Neg, Dst: d, A: f.in(v)})
		return inReg(f.norm(d, e.T))
	case syntax.Not:
		f.emit(dif.Ins{Op: dif.Not, Dst: d, A: f.in(v)})
		if signed {
			return inReg(d)
		}
		return inReg(f.norm(d, e.T))
	}
	f.fail("D_UNKNOWN", "internal error: unary operator %v", e.Op)
	return val{}
}

var conds = map[syntax.Token][2]dif.Cond{ // unsigned, signed
	syntax.Eq: {dif.EQ, dif.EQ},
	syntax.Ne: {dif.NE, dif.NE},
	syntax.Lt: {dif.ULT, dif.LT},
	syntax.Le: {dif.ULE, dif.LE},
	syntax.Gt: {dif.UGT, dif.GT},
	syntax.Ge: {dif.UGE, dif.GE},
}

func (f *fn) binary(e *check.Binary) val {
	if _, ok := conds[e.Op]; ok {
		return f.truth(e)
	}
	return f.cut(f.wide(e, e.T), e.T)
}

// wide evaluates an operand of arithmetic in type t. DTrace computes in 64 bits
// and cuts what it keeps: signed numbers that overflow t (in C, that is
// undefined) are not cut within an expression.
func (f *fn) wide(e check.Expr, t types.Type) val {
	b, ok := e.(*check.Binary)
	if !ok || !types.Identical(b.T, t) {
		return f.expr(e)
	}
	if _, cond := conds[b.Op]; cond {
		return f.expr(e)
	}
	save := f.pos
	if p := e.Pos(); p.Line != 0 {
		f.pos = p
	}
	defer func() { f.pos = save }()
	if _, signed := width(t); !signed {
		return f.arith(b.Op, t, f.expr(b.X), f.expr(b.Y))
	}
	x := f.wide(b.X, t)
	return f.arithWide(b.Op, t, x, f.wide(b.Y, t))
}

// cut makes v a value of type t again.
func (f *fn) cut(v val, t types.Type) val {
	if v.wide {
		return inReg(f.norm(v.reg, t))
	}
	return v
}

// arith is x op y in type t.
func (f *fn) arith(op syntax.Token, t types.Type, x, y val) val {
	return f.cut(f.arithWide(op, t, x, y), t)
}

// arithWide is that not yet cut to t.
func (f *fn) arithWide(op syntax.Token, t types.Type, x, y val) val {
	n, signed := width(t)
	if x.isConst() && y.isConst() {
		if r, ok := fold(op, x.imm, y.imm, signed); ok {
			return konst(extend(r, n, signed))
		}
	}
	i := dif.Ins{Signed: signed}
	exact := false // the result is a value of t as it is
	switch op {
	case syntax.Add:
		i.Op = dif.Add
	case syntax.Sub:
		i.Op = dif.Sub
	case syntax.Mul:
		i.Op = dif.Mul
	case syntax.Div:
		i.Op = dif.Div
		exact = !signed
	case syntax.Mod:
		i.Op = dif.Mod
		exact = true
	case syntax.And:
		i.Op = dif.And
		exact = true
	case syntax.Or:
		i.Op = dif.Or
		exact = true
	case syntax.Xor:
		i.Op = dif.Xor
		exact = true
	case syntax.Shl:
		i.Op = dif.Shl
	case syntax.Shr:
		i.Op = dif.Shr
		if signed {
			i.Op = dif.Sar
		}
		exact = true
	default:
		f.fail("D_UNKNOWN", "internal error: binary operator %v", op)
	}
	if x.isConst() && !y.isConst() {
		switch i.Op {
		case dif.Add, dif.Mul, dif.And, dif.Or, dif.Xor:
			x, y = y, x
		}
	}
	i.A = f.in(x)
	i = f.rhs(i, y)
	i.Dst = f.reg()
	f.emit(i)
	return val{kind: vReg, reg: i.Dst, wide: !exact || x.wide || y.wide}
}

// fold computes x op y; not a division by zero, which is a fault.
func fold(op syntax.Token, x, y int64, signed bool) (int64, bool) {
	switch op {
	case syntax.Add:
		return x + y, true
	case syntax.Sub:
		return x - y, true
	case syntax.Mul:
		return x * y, true
	case syntax.And:
		return x & y, true
	case syntax.Or:
		return x | y, true
	case syntax.Xor:
		return x ^ y, true
	case syntax.Shl:
		return x << (uint64(y) & 63), true
	case syntax.Shr:
		if signed {
			return x >> (uint64(y) & 63), true
		}
		return int64(uint64(x) >> (uint64(y) & 63)), true
	case syntax.Div, syntax.Mod:
		switch {
		case y == 0:
			return 0, false
		case op == syntax.Div && signed:
			return x / y, true
		case op == syntax.Div:
			return int64(uint64(x) / uint64(y)), true
		case signed:
			return x % y, true
		}
		return int64(uint64(x) % uint64(y)), true
	}
	return 0, false
}

// compare gives 1 where x c y, else 0.
func (f *fn) compare(c dif.Cond, x, y val) val {
	if x.isConst() && y.isConst() {
		return konst(b2i(dif.Compare(c, x.imm, y.imm)))
	}
	if x.isConst() {
		x, y, c = y, x, c.Swap()
	}
	i := f.rhs(dif.Ins{Op: dif.Set, Cond: c, A: f.in(x)}, y)
	i.Dst = f.reg()
	f.emit(i)
	return inReg(i.Dst)
}

// truth is the value, 0 or 1, of a condition.
func (f *fn) truth(e check.Expr) val {
	switch x := e.(type) {
	case *check.Binary:
		if !types.IsString(x.X.Type()) {
			c := conds[x.Op][b2i(types.IsSigned(x.X.Type()))]
			a := f.expr(x.X)
			return f.compare(c, a, f.expr(x.Y))
		}
	case *check.Unary:
		if !logical(x.X) && !types.IsString(x.X.Type()) {
			return f.compare(dif.EQ, f.expr(x.X), konst(0))
		}
	case *check.Logical:
		if x.Op == syntax.LXor {
			a := f.bool(x.X)
			b := f.bool(x.Y)
			return f.compare(dif.NE, a, b)
		}
	}
	d, end := f.reg(), f.label()
	f.emit(dif.Ins{Op: dif.Imm, Dst: d, Imm: 0})
	f.branch(e, false, end)
	f.emit(dif.Ins{Op: dif.Imm, Dst: d, Imm: 1})
	f.place(end)
	return inReg(d)
}

// logical reports expressions that are 0 or 1 by themselves.
func logical(e check.Expr) bool {
	switch e := e.(type) {
	case *check.Logical:
		return true
	case *check.Unary:
		return e.Op == syntax.LNot
	case *check.Binary:
		_, ok := conds[e.Op]
		return ok
	}
	return false
}

// bool is whether e is not zero, as 0 or 1.
func (f *fn) bool(e check.Expr) val {
	if logical(e) {
		return f.expr(e)
	}
	v := f.expr(e)
	if types.IsString(e.Type()) || byRef(e.Type()) {
		return konst(1)
	}
	return f.compare(dif.NE, v, konst(0))
}

// branch jumps to l if e is true (want) or false (!want), else falls through.
func (f *fn) branch(e check.Expr, want bool, l dif.Label) {
	save := f.pos
	if p := e.Pos(); p.Line != 0 {
		f.pos = p
	}
	defer func() { f.pos = save }()
	switch x := e.(type) {
	case *check.Const:
		if (x.Value != 0) == want {
			f.jump(l)
		}
		return
	case *check.Unary:
		if x.Op == syntax.LNot {
			f.branch(x.X, !want, l)
			return
		}
	case *check.Conv:
		// Widening changes no truth.
		if logical(x.X) && types.IsInteger(x.T) {
			f.branch(x.X, want, l)
			return
		}
	case *check.Binary:
		c, ok := conds[x.Op]
		if !ok {
			break
		}
		if types.IsString(x.X.Type()) {
			f.branchString(x, want, l)
			return
		}
		a := f.expr(x.X)
		b := f.expr(x.Y)
		f.branchCond(c[b2i(types.IsSigned(x.X.Type()))], a, b, want, l)
		return
	case *check.Logical:
		switch {
		case x.Op == syntax.LAnd && want, x.Op == syntax.LOr && !want:
			skip := f.label()
			f.branch(x.X, !want, skip)
			f.branch(x.Y, want, l)
			f.place(skip)
			return
		case x.Op == syntax.LAnd, x.Op == syntax.LOr:
			f.branch(x.X, want, l)
			f.branch(x.Y, want, l)
			return
		}
	}
	v := f.expr(e)
	if types.IsString(e.Type()) || byRef(e.Type()) {
		v = konst(1)
	}
	f.branchCond(dif.NE, v, konst(0), want, l)
}

func (f *fn) branchCond(c dif.Cond, x, y val, want bool, l dif.Label) {
	if !want {
		c = c.Negate()
	}
	if x.isConst() && y.isConst() {
		if dif.Compare(c, x.imm, y.imm) {
			f.jump(l)
		}
		return
	}
	if x.isConst() {
		x, y, c = y, x, c.Swap()
	}
	f.emit(f.rhs(dif.Ins{Op: dif.Br, Cond: c, A: f.in(x), Target: l}, y))
}

// branchString compares two strings.
func (f *fn) branchString(e *check.Binary, want bool, l dif.Label) {
	x, y := f.expr(e.X), f.expr(e.Y)
	if f.branchExecname(e.Op, x, y, want, l) || f.branchExecname(e.Op, y, x, want, l) {
		return
	}
	d := f.reg()
	a, b := f.text(x), f.text(y)
	f.emit(dif.Ins{Op: dif.Call, Sym: int32(dif.SStrcmp), Dst: d, Args: []dif.Reg{a, b}, Comment: "strcmp"})
	f.branchCond(conds[e.Op][1], inReg(d), konst(0), want, l)
}

// text is the address of a string to compare, NULL being the empty one.
func (f *fn) text(v val) dif.Reg {
	r := f.local(v)
	if v.null {
		return f.orEmpty(r)
	}
	return r
}

// branchExecname compares execname with a constant word by word: it is 16
// bytes, zero-filled. It is by far the most frequent predicate.
func (f *fn) branchExecname(op syntax.Token, x, y val, want bool, l dif.Label) bool {
	if op != syntax.Eq && op != syntax.Ne || x.kind != vBuiltin || x.id != dif.BExecname || y.kind != vLit || f.c.opt.StrSize < execnameSize {
		return false
	}
	s := f.c.obj.Strings[y.imm]
	equal := (op == syntax.Eq) == want // jump to l where they are equal
	if len(s) >= execnameSize {
		if !equal {
			f.jump(l)
		}
		return true
	}
	differ := l
	if equal {
		differ = f.label()
	}
	var b [execnameSize]byte
	copy(b[:], s)
	t := f.temp(execnameSize, "execname")
	f.emit(dif.Ins{Op: dif.TBuiltin, Temp: t, Sym: int32(dif.BExecname), Size: execnameSize, Pad: true, Comment: "execname"})
	// A NUL within the first word ends the comparison there.
	for off := 0; off < len(s)+1; off += 8 {
		w := int64(le64(b[off:]))
		r := f.reg()
		n := 8
		if rest := len(s) + 1 - off; rest < 8 {
			n = map[int]int{1: 1, 2: 2, 3: 4, 4: 4}[rest]
			if n == 0 {
				n = 8
			}
		}
		w = extend(w, n, false)
		i := dif.Ins{Op: dif.TLoad, Dst: r, Temp: t, Imm: int64(off), Size: int32(n)}
		if off == 0 {
			i.Comment = strconv.Quote(s)
		}
		f.emit(i)
		f.emit(f.rhs(dif.Ins{Op: dif.Br, Cond: dif.NE, A: r, Target: differ}, konst(w)))
	}
	if equal {
		f.jump(l)
		f.place(differ)
	}
	return true
}

func le64(b []byte) (v uint64) {
	for i := 7; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// cond is C ? X : Y.
func (f *fn) cond(e *check.CondExpr) val {
	if k, ok := e.C.(*check.Const); ok {
		if k.Value != 0 {
			return f.expr(e.X)
		}
		return f.expr(e.Y)
	}
	els, end := f.label(), f.label()
	void := types.IsVoid(e.T) || types.IsDynamic(e.T)
	ref := byRef(e.T)
	var d dif.Reg
	if !void {
		d = f.reg()
	}
	out := val{kind: vReg, reg: d}
	arm := func(x check.Expr) {
		v := f.expr(x)
		switch {
		case void:
		case types.IsString(e.T):
			out.bound = max(out.bound, v.bound)
			out.null = out.null || v.null
			f.set(d, inReg(f.local(v)))
		case ref:
			f.set(d, inReg(f.localMem(v, f.c.sizeof(e.T))))
		default:
			f.set(d, v)
		}
	}
	f.branch(e.C, false, els)
	arm(e.X)
	f.jump(end)
	f.place(els)
	arm(e.Y)
	f.place(end)
	if void {
		return val{}
	}
	return out
}

// xlate makes a translated struct in a temporary.
func (f *fn) xlate(e *check.XlateStruct) val {
	size := f.c.sizeof(e.T)
	t := f.temp(size, "translated")
	f.emit(dif.Ins{Op: dif.TZero, Temp: t, Size: int32(size)})
	for _, m := range e.Fields {
		v := f.expr(m.X)
		mt := m.X.Type()
		i := dif.Ins{Temp: t, Imm: m.Off}
		switch {
		case m.Bits > 0:
			f.xlateBits(t, m, v)
			continue
		case types.IsString(mt) && v.kind == vBuiltin:
			i.Op, i.Sym, i.Size, i.Comment = dif.TBuiltin, int32(v.id), int32(v.bound), builtinName(v.id)
		case types.IsString(mt):
			i.Op, i.A, i.Space, i.Size = dif.TStr, f.in(v), v.space, int32(v.bound)
		case byRef(mt):
			i.Op, i.A, i.Space, i.Size = dif.TMem, f.in(v), v.space, int32(f.c.sizeof(mt))
		default:
			n, _ := width(mt)
			i.Op, i.A, i.Size = dif.TStore, f.in(v), int32(n)
		}
		i.Size = min(i.Size, int32(size)-int32(m.Off))
		f.emit(i)
	}
	return inReg(f.tempAddr(t))
}

// xlateBits sets a bit-field of a translated struct, in the word of the
// member's type that holds it.
func (f *fn) xlateBits(t int32, m check.XlateField, v val) {
	n := int64(max(m.X.Type().Size(), 1))
	at := m.BitOff / (8 * n) * n
	shift := m.BitOff - 8*at
	if shift+m.Bits > 8*n {
		f.fail("D_UNKNOWN", "bit-field spans more than one %d-byte word", n)
	}
	mask := int64(uint64(1)<<m.Bits - 1)
	if m.Bits == 64 {
		mask = -1
	}
	old, low, up, word := f.reg(), f.reg(), f.reg(), f.reg()
	f.emit(dif.Ins{Op: dif.TLoad, Dst: old, Temp: t, Imm: at, Size: int32(n)})
	f.emit(dif.Ins{Op: dif.And, Dst: low, A: f.in(v), Imm: mask})
	f.emit(dif.Ins{Op: dif.Shl, Dst: up, A: low, Imm: shift})
	f.emit(dif.Ins{Op: dif.Or, Dst: word, A: old, B: up})
	f.emit(dif.Ins{Op: dif.TStore, Temp: t, Imm: at, Size: int32(n), A: word})
}

// unwrap takes conversions that change no address off e.
func unwrap(e check.Expr) check.Expr {
	for {
		c, ok := e.(*check.Conv)
		if !ok || c.T.Size() != 8 || !types.IsPointer(c.T) && !types.IsInteger(c.T) {
			return e
		}
		e = c.X
	}
}

// call is a subroutine.
func (f *fn) call(e *check.Call) val {
	if e.Sub == dif.SCopyinstr {
		if v, ok := f.copyinstr(e); ok {
			return v
		}
	}
	if e.Sub == dif.SStrlen && len(e.Args) == 1 {
		v := f.expr(e.Args[0])
		switch {
		case v.kind == vLit:
			return konst(int64(len(f.c.obj.Strings[v.imm])))
		case v.kind == vReg && v.space == dif.SpaceUser:
			d := f.reg()
			f.emit(dif.Ins{Op: dif.TStr, Dst: d, Temp: f.temp(v.bound, "string"), A: v.reg, Space: v.space, Size: int32(v.bound)})
			return inReg(d)
		}
		return f.subr(e, []dif.Reg{f.local(v)})
	}
	args := make([]dif.Reg, len(e.Args))
	for i, a := range e.Args {
		v := f.expr(a)
		switch {
		case types.IsString(a.Type()):
			args[i] = f.local(v)
		case byRef(a.Type()):
			args[i] = f.localMem(v, f.c.sizeof(a.Type()))
		case types.IsUser(a.Type()):
			args[i] = f.fromUser(e, i, v)
		default:
			args[i] = f.in(v)
		}
	}
	return f.subr(e, args)
}

// fromUser is an argument that points into the traced process. Subroutines
// that look at what is there get a copy; for copyin and its kin the address
// is what is wanted.
func (f *fn) fromUser(e *check.Call, i int, v val) dif.Reg {
	n := 0
	switch e.Sub {
	case dif.SInetNtoa:
		n = 4
	case dif.SInetNtoa6:
		n = 16
	case dif.SInetNtop:
		n = 4
		if k, ok := e.Args[0].(*check.Const); !ok || k.Value != 2 {
			n = 16
		}
	case dif.SLinkNtop:
		n = 20
		if k, ok := e.Args[0].(*check.Const); ok && k.Value == 1 {
			n = 6
		}
	case dif.SBcopy:
		k, ok := e.Args[2].(*check.Const)
		if i != 0 {
			break
		}
		if !ok {
			f.fail("D_PROTO_ARG", "bcopy( ) from user memory needs a constant size; use copyinto( )")
		}
		n = int(k.Value)
	}
	if n == 0 {
		return f.in(v)
	}
	return f.localMem(val{kind: vReg, reg: f.in(v), space: dif.SpaceUser}, n)
}

func (f *fn) subr(e *check.Call, args []dif.Reg) val {
	i := dif.Ins{Op: dif.Call, Sym: int32(e.Sub), Args: args, Dst: f.reg(), Comment: e.Sub.String()}
	v := inReg(i.Dst)
	if types.IsString(e.T) {
		n := f.c.bound(e.T)
		i.Temp, i.Size = f.temp(n, e.Sub.String()), int32(n)
		v.bound = n
		switch e.Sub {
		case dif.SStrtok, dif.SStrchr, dif.SStrrchr, dif.SStrstr, dif.SJSON:
			v.null = true
		}
	}
	f.emit(i)
	return v
}

// copyinstr with a constant limit, or none, is done where the string goes.
func (f *fn) copyinstr(e *check.Call) (val, bool) {
	n := f.c.bound(e.T)
	if len(e.Args) > 1 {
		k, ok := e.Args[1].(*check.Const)
		if c, isConv := e.Args[1].(*check.Conv); isConv && !ok {
			k, ok = c.X.(*check.Const)
		}
		if !ok || k.Value <= 0 {
			return val{}, false
		}
		n = int(min(int64(n), k.Value))
	}
	return val{kind: vReg, reg: f.scalar(e.Args[0]), space: dif.SpaceUser, bound: n, user: true}, true
}

// op is an action whose effect takes place at once.
func (f *fn) op(op dif.ActOp, args []check.Expr) val {
	i := dif.Ins{Op: dif.Act, Sym: int32(op), Comment: op.String()}
	for _, a := range args {
		v := f.expr(a)
		if types.IsString(a.Type()) {
			i.Args = append(i.Args, f.local(v))
		} else {
			i.Args = append(i.Args, f.in(v))
		}
	}
	f.emit(i)
	return konst(0)
}
