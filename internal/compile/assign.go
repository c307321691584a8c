package compile

import (
	"godtrace/internal/check"
	"godtrace/internal/dif"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// lvalue is a place a value can be read from and written to, its address or
// key computed.
type lvalue struct {
	t types.Type
	// Variables.
	isVar bool
	sym   int32
	name  string
	key   int32 // temporary with the tuple, 0 for none
	// Memory: addr+off.
	addr  dif.Reg
	off   int64
	space dif.Space
	// Bit-field within the word of t at addr+off.
	bits, shift int64
	size        int
	// Part of a by-reference variable: at byte base of root, and index bytes on
	// (0: none) where it is not constant. addr is set as well, for reading.
	root  *lvalue
	base  int64
	index dif.Reg
}

// place1 evaluates the address or key of e, once.
func (f *fn) place1(e check.Expr) lvalue {
	switch e := e.(type) {
	case *check.VarRef:
		l := lvalue{t: e.Var.Type, isVar: true, sym: f.c.variable(e.Var), name: varName(e.Var)}
		if len(e.Keys) > 0 {
			l.key = f.varKey(e)
		}
		return l
	case *check.Mem:
		if l, ok := f.part(e); ok {
			return l
		}
		return f.mem(e)
	}
	f.fail("D_OP_LVAL", "operator requires modifiable lvalue as an operand")
	return lvalue{}
}

// part evaluates e if it is a member or element of a by-reference variable.
// The memory of variables is not written at addresses: a store replaces the
// whole variable (see storeInto).
func (f *fn) part(e *check.Mem) (lvalue, bool) {
	ref, base, index, ok := variablePart(e.Addr)
	if !ok || e.User {
		return lvalue{}, false
	}
	root := f.place1(ref)
	v := f.load(root)
	l := f.shape(e)
	l.root, l.base = &root, base+l.off
	l.addr = f.in(v)
	for _, x := range index {
		n := f.scalar(x.x)
		if x.minus {
			neg := f.reg()
			f.emit(dif.Ins{Op: dif.Neg, Dst: neg, A: n})
			n = neg
		}
		if l.index != 0 {
			sum := f.reg()
			f.emit(dif.Ins{Op: dif.Add, Dst: sum, A: l.index, B: n})
			n = sum
		}
		l.index = n
	}
	if l.index != 0 {
		at := f.reg()
		f.emit(dif.Ins{Op: dif.Add, Dst: at, A: l.addr, B: l.index})
		l.addr = at
	}
	l.off = l.base
	return l, true
}

// term is a summand of an address that is not constant.
type term struct {
	x     check.Expr
	minus bool
}

// variablePart takes an address apart that lies in a by-reference variable.
func variablePart(e check.Expr) (ref *check.VarRef, base int64, index []term, ok bool) {
	switch e := e.(type) {
	case *check.AddrOf:
		return partOf(e.X)
	case *check.Conv:
		if !types.IsPointer(e.T) {
			return nil, 0, nil, false
		}
		if byRef(e.X.Type()) && !types.IsString(e.X.Type()) {
			return partOf(e.X)
		}
		return variablePart(e.X)
	case *check.Binary:
		if ref, base, index, ok = variablePart(e.X); !ok {
			return nil, 0, nil, false
		}
		if k, isConst := e.Y.(*check.Const); isConst {
			if e.Op == syntax.Sub {
				return ref, base - k.Value, index, true
			}
			return ref, base + k.Value, index, true
		}
		return ref, base, append(index, term{e.Y, e.Op == syntax.Sub}), true
	}
	return nil, 0, nil, false
}

// partOf does so for an object.
func partOf(e check.Expr) (ref *check.VarRef, base int64, index []term, ok bool) {
	switch e := e.(type) {
	case *check.VarRef:
		return e, 0, nil, byRef(e.Var.Type)
	case *check.Mem:
		if ref, base, index, ok = variablePart(e.Addr); ok && !e.User {
			return ref, base + e.Off, index, true
		}
	}
	return nil, 0, nil, false
}

// storeInto writes v to a part of a variable: it takes a copy of the whole,
// changes that, and writes it back. Where the place is not constant the copy
// lies in scratch memory, so that an index outside the variable faults.
func (f *fn) storeInto(l lvalue, v val) {
	n := f.c.sizeof(l.root.t)
	whole := f.in(f.load(*l.root))
	if l.index == 0 {
		if l.base < 0 || l.base+int64(f.c.sizeof(l.t)) > int64(n) {
			f.fail("D_ARR_BOUNDS", "index outside array bounds: byte %d of %d", l.base, n)
		}
		t := f.temp(n, "whole")
		f.emit(dif.Ins{Op: dif.TMem, Temp: t, A: whole, Size: int32(n)})
		switch {
		case types.IsString(l.t):
			f.emit(dif.Ins{Op: dif.TStr, Temp: t, Imm: l.base, A: f.local(v), Size: int32(f.c.sizeof(l.t)), Pad: true})
		case byRef(l.t):
			size := f.c.sizeof(l.t)
			f.emit(dif.Ins{Op: dif.TMem, Temp: t, Imm: l.base, A: f.localMem(v, size), Size: int32(size)})
		default:
			f.emit(dif.Ins{Op: dif.TStore, Temp: t, Imm: l.base, A: f.in(v), Size: int32(l.size)})
		}
		f.store(*l.root, inReg(f.tempAddr(t)))
		return
	}
	size := f.in(konst(int64(n)))
	copy := f.reg()
	f.emit(dif.Ins{Op: dif.Call, Sym: int32(dif.SAlloca), Dst: copy, Args: []dif.Reg{size}, Comment: "alloca"})
	f.emit(dif.Ins{Op: dif.Call, Sym: int32(dif.SBcopy), Dst: f.reg(), Args: []dif.Reg{whole, copy, size}, Comment: "bcopy"})
	at := f.reg()
	f.emit(dif.Ins{Op: dif.Add, Dst: at, A: copy, B: l.index})
	in := lvalue{t: l.t, addr: at, off: l.base, size: l.size}
	f.store(in, v)
	f.store(*l.root, inReg(copy))
}

func varName(v *check.Var) string {
	switch v.Class {
	case dif.Self:
		return "self->" + v.Name
	case dif.This:
		return "this->" + v.Name
	}
	return v.Name
}

func (f *fn) mem(e *check.Mem) lvalue {
	l := f.shape(e)
	// *(T *)copyin(a, n) reads user memory in place.
	if c, ok := unwrap(e.Addr).(*check.Call); ok && c.Sub == dif.SCopyin && len(c.Args) == 2 {
		n, ok := c.Args[1].(*check.Const)
		if cv, isConv := c.Args[1].(*check.Conv); isConv && !ok {
			n, ok = cv.X.(*check.Const)
		}
		if ok && e.Off >= 0 && e.Off+e.T.Size() <= n.Value && e.Bits == 0 {
			l.addr, l.space = f.scalar(c.Args[0]), dif.SpaceUser
			return l
		}
	}
	v := f.expr(e.Addr)
	if byRef(e.Addr.Type()) && v.space == dif.SpaceUser {
		l.space = dif.SpaceUser
	}
	l.addr = f.in(v)
	return l
}

// shape is the shape of e: its type, offset and bits, without the address.
func (f *fn) shape(e *check.Mem) lvalue {
	l := lvalue{t: e.T, off: e.Off, size: int(e.T.Size())}
	if e.User {
		l.space = dif.SpaceUser
	}
	if e.Bits > 0 {
		l.bits = e.Bits
		unit := int64(max(l.size, 1))
		at := e.BitOff / (8 * unit) * unit
		if e.BitOff-8*at+e.Bits > 8*unit {
			// A packed bit-field: the smallest word that holds it.
			at = e.BitOff / 8
			for unit = 1; e.BitOff-8*at+e.Bits > 8*unit; unit *= 2 {
			}
			if unit > 8 {
				f.fail("D_UNKNOWN", "bit-field spans more than eight bytes")
			}
		}
		l.off += at
		l.shift = e.BitOff - 8*at
		l.size = int(unit)
	}
	return l
}

// load reads the value at l; that of a by-reference type is its address.
func (f *fn) load(l lvalue) val {
	if l.isVar {
		i := dif.Ins{Op: dif.VarGet, Dst: f.reg(), Sym: l.sym, Temp: l.key, Comment: l.name}
		switch {
		case byRef(l.t) && l.key != 0:
			i.Op = dif.DynAddr
		case byRef(l.t):
			i.Op = dif.VarAddr
		case l.key != 0:
			i.Op = dif.DynGet
		}
		f.emit(i)
		v := inReg(i.Dst)
		if types.IsString(l.t) {
			v.bound = f.c.bound(l.t)
			v.null = l.key != 0
		}
		return v
	}
	if byRef(l.t) {
		v := inReg(l.addr)
		if l.off != 0 {
			v.reg = f.reg()
			f.emit(dif.Ins{Op: dif.Add, Dst: v.reg, A: l.addr, Imm: l.off})
		}
		v.space = l.space
		if types.IsString(l.t) {
			v.bound = f.c.bound(l.t)
		}
		return v
	}
	d := f.reg()
	if l.bits == 0 {
		n, signed := width(l.t)
		f.emit(dif.Ins{Op: dif.Load, Dst: d, A: l.addr, Imm: l.off, Size: int32(n), Signed: signed, Space: l.space})
		return inReg(d)
	}
	f.emit(dif.Ins{Op: dif.Load, Dst: d, A: l.addr, Imm: l.off, Size: int32(l.size), Space: l.space})
	_, signed := width(l.t)
	up, out := f.reg(), f.reg()
	f.emit(dif.Ins{Op: dif.Shl, Dst: up, A: d, Imm: 64 - l.shift - l.bits})
	op := dif.Shr
	if signed {
		op = dif.Sar
	}
	f.emit(dif.Ins{Op: op, Dst: out, A: up, Imm: 64 - l.bits})
	return inReg(out)
}

// store writes v, a value of type l.t, and gives what is then read from l.
func (f *fn) store(l lvalue, v val) val {
	switch {
	case l.isVar && types.IsString(l.t):
		r := f.local(v)
		if v.null {
			r = f.orEmpty(r)
		}
		i := dif.Ins{Op: dif.VarStr, Sym: l.sym, Temp: l.key, A: r, Size: int32(f.c.bound(l.t)), Comment: l.name}
		if l.key != 0 {
			i.Op = dif.DynStr
		}
		f.emit(i)
		return v
	case l.isVar && byRef(l.t):
		n := f.c.sizeof(l.t)
		i := dif.Ins{Op: dif.VarMem, Sym: l.sym, Temp: l.key, A: f.localMem(v, n), Size: int32(n), Comment: l.name}
		if l.key != 0 {
			i.Op = dif.DynMem
		}
		f.emit(i)
		return v
	case l.isVar:
		r := f.in(v)
		i := dif.Ins{Op: dif.VarSet, Sym: l.sym, Temp: l.key, A: r, Comment: l.name}
		if l.key != 0 {
			i.Op = dif.DynSet
		}
		f.emit(i)
		return v
	case l.root != nil && l.bits == 0:
		f.storeInto(l, v)
		return v
	case l.space == dif.SpaceUser:
		f.fail("D_OP_LVAL", "memory of a process is changed with copyout( ), not by assignment")
	case byRef(l.t):
		f.storeBytes(l, v)
		return v
	case l.bits != 0:
		return f.storeBits(l, v)
	}
	i := dif.Ins{Op: dif.Store, A: l.addr, Imm: l.off, Size: int32(l.size), B: f.in(v)}
	f.emit(i)
	return v
}

// stored is the value of assigning the string v to the variable l: what the
// variable holds now. v may have lain in the variable itself (s = strstr(s, t)).
func (f *fn) stored(l lvalue, v val) val {
	now := f.load(l)
	if !v.null {
		return now
	}
	d, null := f.reg(), f.label()
	f.emit(dif.Ins{Op: dif.Mov, Dst: d, A: f.in(v)})
	f.emit(dif.Ins{Op: dif.Br, Cond: dif.EQ, A: d, Target: null})
	f.emit(dif.Ins{Op: dif.Mov, Dst: d, A: f.in(now)})
	f.place(null)
	now.reg, now.null = d, true
	return now
}

// orEmpty replaces NULL by the empty string: what a variable holds of it.
func (f *fn) orEmpty(r dif.Reg) dif.Reg {
	d, set := f.reg(), f.label()
	f.emit(dif.Ins{Op: dif.Mov, Dst: d, A: r})
	f.emit(dif.Ins{Op: dif.Br, Cond: dif.NE, A: r, Target: set})
	f.emit(dif.Ins{Op: dif.StrAddr, Dst: d, Sym: f.c.str("")})
	f.place(set)
	return d
}

// storeBytes copies a by-reference value into allocated memory.
func (f *fn) storeBytes(l lvalue, v val) {
	n := f.c.sizeof(l.t)
	dst := l.addr
	if l.off != 0 {
		dst = f.reg()
		f.emit(dif.Ins{Op: dif.Add, Dst: dst, A: l.addr, Imm: l.off})
	}
	src := f.localMem(v, n)
	if types.IsString(l.t) {
		src = f.local(v)
		t := f.temp(n, "string")
		f.emit(dif.Ins{Op: dif.TStr, Temp: t, A: src, Size: int32(n), Pad: true})
		src = f.tempAddr(t)
	}
	size := f.in(konst(int64(n)))
	f.emit(dif.Ins{Op: dif.Call, Sym: int32(dif.SBcopy), Dst: f.reg(), Args: []dif.Reg{src, dst, size}, Comment: "bcopy"})
}

func (f *fn) storeBits(l lvalue, v val) val {
	mask := int64(uint64(1)<<l.bits - 1)
	if l.bits == 64 {
		mask = -1
	}
	old, clear, low, at, word := f.reg(), f.reg(), f.reg(), f.reg(), f.reg()
	f.emit(dif.Ins{Op: dif.Load, Dst: old, A: l.addr, Imm: l.off, Size: int32(l.size)})
	f.emit(dif.Ins{Op: dif.And, Dst: clear, A: old, Imm: ^(mask << l.shift)})
	f.emit(dif.Ins{Op: dif.And, Dst: low, A: f.in(v), Imm: mask})
	f.emit(dif.Ins{Op: dif.Shl, Dst: at, A: low, Imm: l.shift})
	f.emit(dif.Ins{Op: dif.Or, Dst: word, A: clear, B: at})
	whole := l
	whole.bits, whole.t = 0, unitType(l.size)
	f.store(whole, inReg(word))
	_, signed := width(l.t)
	if !signed {
		return inReg(low)
	}
	up, out := f.reg(), f.reg()
	f.emit(dif.Ins{Op: dif.Shl, Dst: up, A: low, Imm: 64 - l.bits})
	f.emit(dif.Ins{Op: dif.Sar, Dst: out, A: up, Imm: 64 - l.bits})
	return inReg(out)
}

// isZero reports the integer constant 0, which frees a by-reference variable.
func isZero(e check.Expr) bool {
	for {
		c, ok := e.(*check.Conv)
		if !ok {
			break
		}
		e = c.X
	}
	k, ok := e.(*check.Const)
	return ok && k.Value == 0
}

// assign assigns; the value is of no use where used is false.
func (f *fn) assign(e *check.Assign, used bool) val {
	if e.Op == syntax.Assign_ {
		if byRef(e.LHS.Type()) && isZero(e.RHS) {
			return f.release(f.place1(e.LHS))
		}
		v := f.expr(e.RHS)
		l := f.place1(e.LHS)
		v = f.store(l, v)
		if used && l.isVar && types.IsString(l.t) {
			return f.stored(l, v)
		}
		return v
	}
	l := f.place1(e.LHS)
	// The old value is read after the right side was evaluated, as in DTrace:
	// x += (x = 1) sees the new one.
	y := f.expr(e.RHS)
	old := f.load(l)
	t := e.OpType
	if t == nil {
		t = l.t
	}
	x := f.convert(old, l.t, t)
	if e.Op != syntax.Shl && e.Op != syntax.Shr {
		y = f.convert(y, e.RHS.Type(), t)
	}
	return f.store(l, f.convert(f.arith(e.Op, t, x, y), t, l.t))
}

// release assigns 0 to a by-reference variable.
func (f *fn) release(l lvalue) val {
	switch {
	case l.isVar && l.key != 0:
		f.emit(dif.Ins{Op: dif.DynDel, Sym: l.sym, Temp: l.key, Comment: l.name})
		return konst(0)
	case types.IsString(l.t):
		return f.store(l, f.literal(""))
	}
	n := f.c.sizeof(l.t)
	t := f.temp(n, "zero")
	f.emit(dif.Ins{Op: dif.TZero, Temp: t, Size: int32(n)})
	f.store(l, inReg(f.tempAddr(t)))
	return konst(0)
}

func (f *fn) incDec(e *check.IncDec) val {
	l := f.place1(e.LHS)
	old := f.load(l)
	d := f.reg()
	f.emit(dif.Ins{Op: dif.Add, Dst: d, A: f.in(old), Imm: e.Delta})
	new := f.store(l, inReg(f.norm(d, l.t)))
	if e.Post {
		return old
	}
	return new
}

// unitType is the unsigned integer of size bytes.
func unitType(size int) types.Type {
	switch size {
	case 1:
		return types.TUChar
	case 2:
		return types.TUShort
	case 4:
		return types.TUInt
	}
	return types.TULong
}
