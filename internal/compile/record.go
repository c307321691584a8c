package compile

import (
	"godtrace/internal/check"
	"godtrace/internal/dif"
	"godtrace/internal/types"
)

// begin opens a record, into the speculation in register spec if that is not 0.
func (f *fn) begin(spec dif.Reg) {
	f.rec = &dif.Record{ID: len(f.c.obj.Records), Clause: f.cl.ID, Speculative: spec != 0}
	f.c.obj.Records = append(f.c.obj.Records, f.rec)
	f.emit(dif.Ins{Op: dif.RecBegin, Sym: int32(f.rec.ID), A: spec})
}

func (f *fn) commit() {
	f.rec.Size = roundUp(f.rec.Size, 8)
	f.emit(dif.Ins{Op: dif.RecCommit, Sym: int32(f.rec.ID)})
	f.rec = nil
}

// field gives fl its place in the open record.
func (f *fn) field(fl dif.Field) dif.Field {
	align := 8
	switch {
	case fl.Size == 0:
		align = 1
	case fl.Kind == dif.FInt && fl.Size < 8:
		align = fl.Size
	}
	fl.Off = roundUp(f.rec.Size, align)
	f.rec.Size = fl.Off + fl.Size
	return fl
}

// record evaluates e and stores it in the open record.
func (f *fn) record(e check.Expr) dif.Field {
	if p := e.Pos(); p.Line != 0 {
		f.pos = p
	}
	switch e := e.(type) {
	case *check.StackExpr:
		return f.recordStack(e.Kind, e.Frames, e.StrSize)
	case *check.SymExpr:
		return f.recordSym(e.Kind, e.X)
	}
	v := f.expr(e)
	t := e.Type()
	switch {
	case v.kind == vBuiltin && v.id >= dif.BProbeProv && v.id <= dif.BProbeName:
		return f.field(dif.Field{Kind: dif.FProbe, Type: t, Builtin: v.id, StrSize: v.bound})
	case v.kind == vBuiltin:
		fl := f.field(dif.Field{Kind: dif.FString, Size: v.bound, Type: t})
		f.emit(dif.Ins{Op: dif.RecBuiltin, Sym: int32(v.id), Imm: int64(fl.Off), Size: int32(fl.Size), Comment: builtinName(v.id)})
		return fl
	case types.IsString(t):
		fl := f.field(dif.Field{Kind: dif.FString, Size: v.bound, Type: t})
		f.emit(dif.Ins{Op: dif.RecStr, A: f.in(v), Space: v.space, Imm: int64(fl.Off), Size: int32(fl.Size)})
		return fl
	case types.IsStack(t):
		fl := f.recordMem(v, f.c.sizeof(t), t)
		return stackValue(fl)
	case byRef(t):
		return f.recordMem(v, f.c.sizeof(t), t)
	case types.IsVoid(t) || types.IsDynamic(t) || v.kind == vNone:
		f.fail("D_UNKNOWN", "an expression of type %s has no value to record", t)
	}
	n, signed := width(t)
	return f.recordInt(v, n, signed, t)
}

// stackValue describes a stack that was a variable's value.
func stackValue(fl dif.Field) dif.Field {
	fl.Kind, fl.Sym, fl.Frames, fl.Sized = dif.FStack, dif.ActStack, (fl.Size-types.StackFrames)/8, true
	if types.IsUStack(fl.Type) {
		fl.Kind, fl.Sym = dif.FUStack, dif.ActUStack
	}
	return fl
}

func (f *fn) recordInt(v val, n int, signed bool, t types.Type) dif.Field {
	r := f.in(v)
	kind := dif.FInt
	if types.IsFloat(t) {
		kind = dif.FFloat
	}
	fl := f.field(dif.Field{Kind: kind, Size: n, Signed: signed, Type: t})
	f.emit(dif.Ins{Op: dif.RecStore, A: r, Imm: int64(fl.Off), Size: int32(n)})
	return fl
}

func (f *fn) recordMem(v val, n int, t types.Type) dif.Field {
	if n <= 0 {
		f.fail("D_UNKNOWN", "a value of type %s has no size", t)
	}
	fl := f.field(dif.Field{Kind: dif.FBytes, Size: n, Type: t})
	f.emit(dif.Ins{Op: dif.RecMem, A: f.in(v), Space: v.space, Imm: int64(fl.Off), Size: int32(n)})
	return fl
}

func (f *fn) recordStack(kind dif.ActKind, n, strsize int) dif.Field {
	fl := f.field(f.stackField(kind, n, strsize))
	i := dif.Ins{Op: dif.RecStack, Imm: int64(fl.Off), Size: int32(fl.Size)}
	if fl.Kind == dif.FUStack {
		i.Space = dif.SpaceUser
	}
	f.emit(i)
	return fl
}

func (f *fn) recordSym(kind dif.ActKind, x check.Expr) dif.Field {
	r := f.scalar(x)
	fl := f.field(symField(kind))
	off := int64(fl.Off)
	if fl.Kind == dif.FUSym {
		pid := f.reg()
		f.emit(dif.Ins{Op: dif.Builtin, Dst: pid, Sym: int32(dif.BPid), Comment: "pid"})
		f.emit(dif.Ins{Op: dif.RecStore, A: pid, Imm: off, Size: 8})
		off += 8
	}
	f.emit(dif.Ins{Op: dif.RecStore, A: r, Imm: off, Size: 8})
	return fl
}

// action compiles an action: what it records, and what it does at once.
func (f *fn) action(s *check.Action) {
	if s.Kind == dif.ActNone || s.Kind == dif.ActRaise {
		f.op(s.Op, s.Args)
		return
	}
	a := dif.Action{Kind: s.Kind, Line: s.Pos().Line, Format: s.Format, Strs: s.Strs, Type: s.Type}
	for _, g := range s.Aggs {
		a.Aggs = append(a.Aggs, f.c.agg(g))
	}
	switch s.Kind {
	case dif.ActSpeculate:
		if f.rec != nil {
			f.fail("D_SPEC_DREC", "speculate( ) may not follow data-recording action(s)")
		}
		f.cl.Speculative = true
		f.begin(f.scalar(s.Args[0]))
	case dif.ActExit:
		v := f.expr(s.Args[0])
		n, signed := width(s.Args[0].Type())
		r := f.in(v)
		a.Fields = []dif.Field{f.recordInt(inReg(r), n, signed, s.Args[0].Type())}
		// At once, as in DTrace: the rest of the firing still runs, other
		// CPUs see it now.
		f.emit(dif.Ins{Op: dif.Act, Sym: int32(dif.OpExit), Args: []dif.Reg{r}, Comment: "exit"})
	case dif.ActCommit, dif.ActDiscard:
		op := dif.OpCommit
		if s.Kind == dif.ActDiscard {
			op = dif.OpDiscard
		}
		r := f.scalar(s.Args[0])
		n, signed := width(s.Args[0].Type())
		a.Fields = []dif.Field{f.recordInt(inReg(r), n, signed, s.Args[0].Type())}
		f.emit(dif.Ins{Op: dif.Act, Sym: int32(op), Args: []dif.Reg{r}, Comment: op.String()})
	case dif.ActTracemem:
		v := f.address(s.Args[0])
		a.Fields = []dif.Field{f.recordMem(v, int(s.N), s.Args[0].Type())}
		for _, x := range s.Args[1:] {
			a.Fields = append(a.Fields, f.record(x))
		}
	case dif.ActPrint:
		a.Fields = f.print(s)
	case dif.ActStack, dif.ActUStack, dif.ActJStack:
		a.Fields = []dif.Field{f.recordStack(s.Kind, int(s.N), int(s.N2))}
	case dif.ActSym, dif.ActFunc, dif.ActMod, dif.ActUSym, dif.ActUFunc, dif.ActUMod, dif.ActUAddr:
		a.Fields = []dif.Field{f.recordSym(s.Kind, s.Args[0])}
	case dif.ActPcap:
		a.Fields = f.pcap(s)
	default:
		for _, x := range s.Args {
			a.Fields = append(a.Fields, f.record(x))
		}
	}
	f.rec.Actions = append(f.rec.Actions, a)
}

// pcap records a packet: its protocol, its length, how many bytes of it there
// are, and the bytes.
func (f *fn) pcap(s *check.Action) []dif.Field {
	f.lets[int(s.N2)] = inReg(f.scalar(s.Args[0]))
	proto := f.record(s.Args[1])
	length, rest, n := f.scalar(s.Args[2]), f.scalar(s.Args[3]), f.reg()
	f.emit(dif.Ins{Op: dif.Sub, Dst: n, A: length, B: rest})
	fits := f.label()
	f.emit(dif.Ins{Op: dif.Br, Cond: dif.ULE, A: n, Imm: s.N, Target: fits})
	f.emit(dif.Ins{Op: dif.Imm, Dst: n, Imm: s.N})
	f.place(fits)
	fields := []dif.Field{proto,
		f.recordInt(inReg(length), 4, false, types.TUint32),
		f.recordInt(inReg(n), 4, false, types.TUint32)}
	fl := f.field(dif.Field{Kind: dif.FBytes, Size: int(s.N), Type: types.TVoidPtr})
	f.emit(dif.Ins{Op: dif.RecMem, A: f.scalar(s.Args[4]), B: n, Imm: int64(fl.Off), Size: int32(fl.Size)})
	return append(fields, fl)
}

// address is the address that e stands for: the value of a pointer or
// integer, or where a by-reference value is.
func (f *fn) address(e check.Expr) val {
	v := f.expr(e)
	if byRef(e.Type()) {
		if types.IsString(e.Type()) {
			return inReg(f.local(v))
		}
		return v
	}
	v = inReg(f.in(v))
	if types.IsUser(e.Type()) {
		v.space = dif.SpaceUser
	}
	return v
}

// print records an address and the object there; a number has address 0.
func (f *fn) print(s *check.Action) []dif.Field {
	x := s.Args[0]
	if !byRef(x.Type()) && !types.IsPointer(x.Type()) {
		addr := f.recordInt(konst(0), 8, false, types.TUint64)
		return []dif.Field{addr, f.record(x)}
	}
	v := f.address(x)
	t := s.Type
	if t == nil {
		t = types.Elem(x.Type())
		if byRef(x.Type()) {
			t = x.Type()
		}
	}
	n := int(s.N)
	if n <= 0 {
		n = f.c.sizeof(t)
	}
	at := inReg(v.reg)
	if b, ok := x.(*check.Builtin); ok && b.Parts != nil {
		at = konst(0) // put together from registers
	}
	addr := f.recordInt(at, 8, false, types.TUint64)
	return []dif.Field{addr, f.recordMem(v, n, t)}
}
