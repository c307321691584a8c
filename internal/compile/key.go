package compile

import (
	"slices"

	"godtrace/internal/check"
	"godtrace/internal/dif"
	"godtrace/internal/types"
)

// tuple lays out the parts of a key: each is aligned to its size, those by
// reference to 8, and the whole is a multiple of 8.
type tuple struct {
	fields []dif.Field
	end    int
}

func (t *tuple) add(fl dif.Field) dif.Field {
	align := fl.Size
	switch align {
	case 1, 2, 4, 8:
		if fl.Kind != dif.FInt && fl.Kind != dif.FProbe {
			align = 8
		}
	default:
		align = 8
	}
	fl.Off = roundUp(t.end, align)
	t.end = fl.Off + fl.Size
	t.fields = append(t.fields, fl)
	return fl
}

func (t *tuple) size() int { return roundUp(t.end, 8) }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// keyField is the part of an associative array's key that holds a value of
// type t.
func (c *Compiler) keyField(t types.Type) dif.Field {
	switch {
	case types.IsString(t):
		return dif.Field{Kind: dif.FString, Size: roundUp(c.bound(t), 8), Type: t}
	case types.IsStack(t):
		return stackValue(dif.Field{Size: c.sizeof(t), Type: t})
	case byRef(t):
		return dif.Field{Kind: dif.FBytes, Size: int(t.Size()), Type: t}
	}
	n, signed := width(t)
	return dif.Field{Kind: dif.FInt, Size: n, Signed: signed, Type: t}
}

// varKey evaluates the tuple of an element of an associative array.
func (f *fn) varKey(e *check.VarRef) int32 {
	v := f.c.obj.Vars[f.c.variable(e.Var)]
	if len(v.Keys) != len(e.Keys) {
		f.fail("D_PROTO_LEN", "%s[ ] prototype mismatch: %d keys passed, %d expected", v.Name, len(e.Keys), len(v.Keys))
	}
	t := f.tuple(v.KeySize, v.Name)
	for i, k := range e.Keys {
		t.store(v.Keys[i], f.expr(k))
	}
	return t.done(v.KeySize)
}

// key is a tuple under construction in a temporary. Parts are stored as soon
// as they are evaluated: a part that itself uses an element of an associative
// array has that key in another temporary.
type key struct {
	f   *fn
	t   int32
	end int
}

func (f *fn) tuple(size int, name string) *key { return &key{f: f, t: f.temp(size, name)} }

func (k *key) gap(to int) {
	if to > k.end {
		k.f.emit(dif.Ins{Op: dif.TZero, Temp: k.t, Imm: int64(k.end), Size: int32(to - k.end)})
	}
}

// store puts v in its place, padding before it zeroed.
func (k *key) store(fl dif.Field, v val) {
	// The temporary may have been taken before the size of the key was known.
	tmp := &k.f.cl.Temps[k.t-1]
	tmp.Size = max(tmp.Size, roundUp(fl.Off+fl.Size, 8))
	k.gap(fl.Off)
	k.f.storePart(k.t, fl, v)
	k.end = fl.Off + fl.Size
}

func (k *key) done(size int) int32 {
	k.gap(size)
	return k.t
}

// storePart stores a part of a tuple in the temporary t.
func (f *fn) storePart(t int32, fl dif.Field, v val) {
	i := dif.Ins{Temp: t, Imm: int64(fl.Off), Size: int32(fl.Size)}
	switch fl.Kind {
	case dif.FInt:
		i.Op = dif.TStore
		i.A = f.in(v)
	case dif.FSym:
		i.Op = dif.TStore
		i.A = f.in(v)
	case dif.FUSym:
		pid := f.reg()
		f.emit(dif.Ins{Op: dif.Builtin, Dst: pid, Sym: int32(dif.BPid), Comment: "pid"})
		f.emit(dif.Ins{Op: dif.TStore, Temp: t, Imm: i.Imm, Size: 8, A: pid})
		i.Op, i.Imm, i.Size = dif.TStore, i.Imm+8, 8
		i.A = f.in(v)
	case dif.FProbe:
		i.Op = dif.TProbeStr
		i.Sym = int32(fl.Builtin)
		i.Comment = builtinName(fl.Builtin)
	case dif.FString:
		i.Pad = true
		if v.kind == vBuiltin {
			i.Op, i.Sym, i.Comment = dif.TBuiltin, int32(v.id), builtinName(v.id)
			break
		}
		i.Op, i.A, i.Space = dif.TStr, f.in(v), v.space
		if rest := v.bound; rest > 0 && rest < fl.Size {
			// The value is bounded more tightly than the part.
			end := roundUp(rest, 8)
			if end < fl.Size {
				f.emit(dif.Ins{Op: dif.TZero, Temp: t, Imm: i.Imm + int64(end), Size: int32(fl.Size - end)})
			}
			i.Size = int32(end)
			if end > rest && v.user {
				f.emit(dif.Ins{Op: dif.TZero, Temp: t, Imm: i.Imm + int64(rest), Size: int32(end - rest)})
				i.Size = int32(rest)
			}
		}
	case dif.FBytes:
		i.Op, i.A, i.Space = dif.TMem, f.in(v), v.space
	case dif.FStack, dif.FUStack:
		if v.kind == vReg { // a variable's value
			i.Op, i.A = dif.TMem, v.reg
			break
		}
		i.Op = dif.TStack
		if fl.Kind == dif.FUStack {
			i.Space = dif.SpaceUser
		}
	}
	f.emit(i)
}

// aggStmt is @name[keys] = func(arg, incr).
func (f *fn) aggStmt(s *check.AggStmt) {
	a := f.c.agg(s.Agg)
	var t tuple
	var key *key
	if len(s.Keys) > 0 {
		key = f.tuple(8*len(s.Keys), "@"+s.Agg.Name)
	}
	for _, k := range s.Keys {
		fl, v := f.aggPart(k)
		key.store(t.add(fl), v)
	}
	if d := f.c.obj.Aggs[a]; d.Keys == nil && len(t.fields) > 0 {
		d.Keys = slices.Clone(t.fields)
	}
	i := dif.Ins{Op: dif.AggUpdate, Sym: f.c.form(a, &t), Comment: "@" + s.Agg.Name}
	if key != nil {
		i.Temp = key.done(t.size())
	}
	if s.Arg != nil {
		i.A = f.scalar(s.Arg)
	}
	if s.Incr != nil {
		i.B = f.scalar(s.Incr)
	}
	f.emit(i)
}

// aggPart is how a part of an aggregation's key is held, and its value.
func (f *fn) aggPart(e check.Expr) (dif.Field, val) {
	switch e := e.(type) {
	case *check.StackExpr:
		return f.stackField(e.Kind, e.Frames, e.StrSize), val{}
	case *check.SymExpr:
		return symField(e.Kind), f.expr(e.X)
	}
	v := f.expr(e)
	fl := f.c.keyField(e.Type())
	switch {
	case v.kind == vBuiltin && v.id >= dif.BProbeProv && v.id <= dif.BProbeName:
		fl = dif.Field{Kind: dif.FProbe, Size: 4, Type: e.Type(), Builtin: v.id, StrSize: v.bound}
	case types.IsString(e.Type()):
		fl.Size = roundUp(v.bound, 8)
	case byRef(e.Type()) && fl.Size == 0:
		f.fail("D_KEY_TYPE", "aggregation key of type %s has no size", e.Type())
	}
	return fl, v
}

// form is the index of the form of aggregation a whose key is laid out as t.
func (c *Compiler) form(a int, t *tuple) int32 {
	same := func(x, y dif.Field) bool {
		return x.Kind == y.Kind && x.Off == y.Off && x.Size == y.Size && x.Signed == y.Signed &&
			x.Builtin == y.Builtin && x.Sym == y.Sym && x.Frames == y.Frames && x.Sized == y.Sized && x.StrSize == y.StrSize
	}
	for i, fm := range c.obj.Forms {
		if fm.Agg == a && slices.EqualFunc(fm.Keys, t.fields, same) {
			return int32(i)
		}
	}
	c.obj.Forms = append(c.obj.Forms, &dif.AggForm{Agg: a, Keys: slices.Clone(t.fields), KeySize: t.size()})
	return int32(len(c.obj.Forms) - 1)
}

func symField(kind dif.ActKind) dif.Field {
	switch kind {
	case dif.ActSym, dif.ActFunc, dif.ActMod:
		return dif.Field{Kind: dif.FSym, Size: 8, Sym: kind, Type: types.TSymAddr}
	}
	return dif.Field{Kind: dif.FUSym, Size: 16, Sym: kind, Type: types.TUSymAddr}
}

// stackField is a stack of n frames; 0: as the options say.
func (f *fn) stackField(kind dif.ActKind, n, strsize int) dif.Field {
	o := f.c.opt
	def := map[dif.ActKind]int{dif.ActStack: o.StackFrames, dif.ActUStack: o.UStackFrames, dif.ActJStack: o.JStackFrames}[kind]
	if n <= 0 {
		n = def
	}
	if kind == dif.ActStack {
		return dif.Field{Kind: dif.FStack, Size: 8 * n, Sym: kind, Frames: n, Type: types.TStack}
	}
	if kind == dif.ActJStack && strsize <= 0 {
		strsize = o.JStackStrSize
	}
	return dif.Field{Kind: dif.FUStack, Size: 8 + 8*n, Sym: kind, Frames: n, StrSize: strsize, Type: types.TUStack}
}
