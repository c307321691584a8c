package check

import (
	"errors"
	"math"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/format"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// flags say what a clause has done so far: what may follow depends on it.
type flags struct{ spec, commit, drec, agg bool }

func (f flags) or(g flags) flags {
	return flags{f.spec || g.spec, f.commit || g.commit, f.drec || g.drec, f.agg || g.agg}
}

func (c *Checker) stmts(list []syntax.Stmt) []Stmt {
	var out []Stmt
	for _, s := range list {
		out = append(out, c.stmt(s)...)
	}
	return out
}

func (c *Checker) stmt(s syntax.Stmt) []Stmt {
	switch s := s.(type) {
	case *syntax.Block:
		return c.stmts(s.Stmts)
	case *syntax.If:
		v := c.read(s.Cond)
		if v.x == nil || !types.IsScalar(v.typ()) {
			fail(s.Cond.Pos(), "D_PRED_SCALAR", "predicate result must be of scalar type")
		}
		before := c.clause.flags
		then := c.stmts(s.Then)
		after := c.clause.flags
		c.clause.flags = before
		els := c.stmts(s.Else)
		c.clause.flags = c.clause.flags.or(after)
		return []Stmt{&If{at{s.Pos()}, v.x, then, els}}
	case *syntax.ExprStmt:
		if s.X == nil {
			return nil
		}
		return []Stmt{c.exprStmt(s)}
	}
	panic("check: unknown statement")
}

func (c *Checker) exprStmt(s *syntax.ExprStmt) Stmt {
	x := unparen(s.X)
	for {
		cond, ok := x.(*syntax.Cond)
		if !ok {
			break
		}
		operand := c.chosen(cond)
		if operand == nil {
			break
		}
		x = operand
	}
	switch x := x.(type) {
	case *syntax.Assign:
		if a, ok := unparen(x.X).(*syntax.Agg); ok {
			return c.aggStmt(x, a)
		}
		if in, ok := unparen(x.X).(*syntax.Assign); ok {
			if _, isAgg := unparen(in.X).(*syntax.Agg); isAgg {
				fail(x.Pos(), "D_OP_LVAL", "operator = requires modifiable lvalue as an operand")
			}
		}
	case *syntax.Agg:
		v := c.aggRef(x)
		fail(x.Pos(), "D_AGG_NULL", "expression has null effect: @%s", v.agg.name())
	}
	v := c.expr(x)
	if v.call != nil && v.call.id.kind == idActFunc {
		return c.action(v)
	}
	c.noAction(v)
	v = c.rvalue(v)
	if v.x == nil {
		fail(x.Pos(), "D_CG_DYN", "expression cannot evaluate to result of dynamic type")
	}
	if op, ok := v.x.(*OpExpr); ok {
		return &Action{at: at{s.Pos()}, Kind: dif.ActRaise, Op: op.Op, Args: op.Args}
	}
	return &ExprStmt{at{s.Pos()}, v.x}
}

func (a *aggSym) name() string {
	if a.agg.Name == "" {
		return "_"
	}
	return a.agg.Name
}

// aggRef names an aggregation, as an argument of an action. With a key it may
// be one that no clause has assigned yet; the action then says so.
func (c *Checker) aggRef(x *syntax.Agg) val {
	for _, k := range x.Keys {
		c.aggKey(c.expr(k), 0)
	}
	a := c.aggs[x.Name]
	if a == nil {
		name := x.Name
		if name == "" {
			name = "_"
		}
		if x.Keys == nil {
			var names []string
			for n := range c.aggs {
				names = append(names, n)
			}
			hint := nearest(x.Name, names)
			if hint != "" {
				hint = "did you mean @" + hint + "?"
			}
			failHint(x.Pos(), hint, "D_IDENT_UNDEF", "failed to resolve @%s: Unknown variable name", name)
		}
		a = c.newAgg(x)
	}
	return val{pos: x.Pos(), agg: a}
}

func (c *Checker) newAgg(x *syntax.Agg) *aggSym {
	a := &aggSym{agg: &Agg{ID: len(c.Aggs), Name: x.Name, Pos: x.Pos()}, line: x.Pos().Line, gen: c.gen}
	c.Aggs = append(c.Aggs, a.agg)
	c.aggs[x.Name] = a
	return a
}

// aggKey is a part of an aggregation's key.
func (c *Checker) aggKey(v val, i int) val {
	if y := c.actionValue(v); y != nil {
		return value(y)
	}
	v = c.rvalue(v)
	c.keyVal(v, i, "aggregation")
	return v
}

// actionValue is the value of those actions that have one where values are
// printed: stacks and symbols. nil for all else.
func (c *Checker) actionValue(v val) Expr {
	if v.call == nil || v.call.id.kind != idActFunc {
		return nil
	}
	cv := v.call
	switch cv.id.id {
	case actStack, actUStack, actJStack:
		kind, n, strsz := c.stackArgs(cv)
		t := types.TStack
		if kind != dif.ActStack {
			t = types.TUStack
		}
		return &StackExpr{E{t, v.pos}, kind, n, strsz}
	case actSym, actFunc, actMod, actUSym, actUFunc, actUMod, actUAddr:
		return &SymExpr{E{c.protoFor(v.pos, cv.id).ret, v.pos}, symKind[cv.id.id], c.coerce(cv.args[0], types.TUintptr)}
	}
	return nil
}

var symKind = map[int]dif.ActKind{actSym: dif.ActSym, actFunc: dif.ActFunc, actMod: dif.ActMod,
	actUSym: dif.ActUSym, actUFunc: dif.ActUFunc, actUMod: dif.ActUMod, actUAddr: dif.ActUAddr}

// stackArgs are the arguments of stack(), ustack() and jstack(), or the options.
func (c *Checker) stackArgs(cv *callVal) (kind dif.ActKind, frames, strsize int) {
	opt, tag, name := "stackframes", "D_STACK_SIZE", "stack"
	kind = dif.ActStack
	switch cv.id.id {
	case actUStack:
		kind, opt, tag, name = dif.ActUStack, "ustackframes", "D_USTACK_FRAMES", "ustack"
	case actJStack:
		kind, opt, tag, name = dif.ActJStack, "jstackframes", "D_USTACK_FRAMES", "jstack"
		strsize = int(c.intOption("jstackstrsize"))
	}
	n := c.intOption(opt)
	if len(cv.args) > 0 {
		if !cv.args[0].isPosConst() {
			fail(cv.args[0].pos, tag, "%s( ) argument #1 must be a non-zero positive integer constant", name)
		}
		k, _ := cv.args[0].constant()
		n = k.Value
	}
	n = min(n, c.intOption("maxframes"))
	if len(cv.args) > 1 {
		k, ok := cv.args[1].constant()
		if !ok || types.IsSigned(k.T) && k.Value < 0 {
			fail(cv.args[1].pos, "D_USTACK_STRSIZE", "ustack( ) argument #2 must be a positive integer constant")
		}
		strsize = int(k.Value)
	}
	return kind, int(n), strsize
}

// follow checks what an action may follow in its clause.
func (c *Checker) follow(pos syntax.Pos, act int) {
	f := &c.clause.flags
	switch act {
	case actCommit:
		if f.drec || f.agg {
			fail(pos, "D_COMM_DREC", "commit( ) may not follow data-recording action(s)")
		}
		f.commit = true
		return
	case actDiscard:
		return
	case actSpeculate:
		if f.spec {
			fail(pos, "D_SPEC_SPEC", "speculate( ) may not follow speculate( )")
		}
		if f.commit {
			fail(pos, "D_SPEC_COMM", "speculate( ) may not follow commit( )")
		}
		if f.drec || f.agg {
			fail(pos, "D_SPEC_DREC", "speculate( ) may not follow data-recording action(s)")
		}
		f.spec = true
		return
	case actExit:
		if f.spec {
			fail(pos, "D_EXIT_SPEC", "exit( ) may not follow speculate( )")
		}
	case actSystem, actFreopen, actRaise, actStop, actChill, actPanic, actReturn:
		c.destructive(pos)
	}
	if f.commit {
		fail(pos, "D_DREC_COMM", "data-recording actions may not follow commit( )")
	}
	f.drec = true
}

// action types an action that stands as a statement.
func (c *Checker) action(v val) Stmt {
	cv, pos := v.call, v.pos
	id, args := cv.id, cv.args
	c.follow(pos, id.id)
	a := &Action{at: at{pos}}
	// scalar takes argument i, an integer, as type t.
	scalar := func(i int, t types.Type) Expr { return c.coerce(c.rvalue(args[i]), t) }
	switch id.id {
	case actTrace:
		a.Kind = dif.ActTrace
		arg := args[0]
		y := c.actionValue(arg)
		switch {
		case y != nil:
		case arg.xl != nil && arg.xl.ptr:
			y = c.xlatePointer(arg)
		case types.IsVoid(arg.typ()):
			fail(arg.pos, "D_TRACE_VOID", "trace( ) may not be applied to a void expression")
		case arg.x == nil && (arg.sym == nil || arg.sym.array && arg.keys == nil):
			fail(arg.pos, "D_TRACE_DYN", "trace( ) may not be applied to a dynamic expression")
		default:
			y = printable(c.rvalue(arg).x)
		}
		if types.IsFunc(y.Type()) || y.Type().Size() == 0 && !types.IsString(y.Type()) && !types.IsStack(y.Type()) {
			fail(arg.pos, "D_PROTO_ARG", "trace( ) argument #1 is incompatible with prototype:\n\tprototype: scalar or string\n\t argument: %s", arg.typeName())
		}
		a.Args, a.Type = []Expr{y}, y.Type()
	case actTracemem:
		a.Kind = dif.ActTracemem
		addr := c.rvalue(args[0])
		if addr.x == nil || !types.IsInteger(addr.typ()) && !types.IsPointerLike(addr.typ()) && !types.IsString(addr.typ()) {
			fail(addr.pos, "D_TRACEMEM_ADDR", "tracemem( ) argument #1 is incompatible with prototype:\n\tprototype: pointer or integer\n\t argument: %s", addr.typeName())
		}
		if !args[1].isPosConst() {
			fail(args[1].pos, "D_TRACEMEM_SIZE", "tracemem( ) argument #2 must be a non-zero positive integral constant expression")
		}
		k, _ := args[1].constant()
		a.N = k.Value
		x := decay(addr.x)
		if types.IsString(x.Type()) {
			x = conv(x, types.TCharPtr)
		}
		a.Args = []Expr{x}
		if len(args) > 2 {
			a.Args = append(a.Args, c.rvalue(args[2]).x)
		}
	case actPrintf:
		a.Kind = dif.ActPrintf
		c.printfLike(a, cv)
	case actSystem:
		a.Kind = dif.ActSystem
		c.printfLike(a, cv)
	case actFreopen:
		a.Kind = dif.ActFreopen
		c.printfLike(a, cv)
	case actPrinta:
		c.printa(a, cv)
	case actPrint:
		c.print(a, cv)
	case actStack, actUStack, actJStack:
		kind, n, strsz := c.stackArgs(cv)
		a.Kind, a.N, a.N2 = kind, int64(n), int64(strsz)
	case actSym, actFunc, actMod, actUSym, actUFunc, actUMod, actUAddr:
		a.Kind, a.Args = symKind[id.id], []Expr{scalar(0, types.TUintptr)}
	case actExit:
		a.Kind, a.Op, a.Args = dif.ActExit, dif.OpExit, []Expr{scalar(0, types.TInt)}
	case actFtruncate:
		a.Kind = dif.ActFtruncate
	case actClear:
		a.Kind = dif.ActClear
		c.aggArg(a, cv, "D_CLEAR_AGGARG", "D_CLEAR_AGGBAD")
	case actDenormalize:
		a.Kind = dif.ActDenormalize
		c.aggArg(a, cv, "D_NORMALIZE_AGGARG", "D_NORMALIZE_AGGBAD")
	case actNormalize:
		a.Kind = dif.ActNormalize
		c.aggArg(a, cv, "D_NORMALIZE_AGGARG", "D_NORMALIZE_AGGBAD")
		a.Args = []Expr{scalar(1, types.TInt64)}
	case actTrunc:
		a.Kind = dif.ActTrunc
		c.aggArg(a, cv, "D_TRUNC_AGGARG", "D_TRUNC_AGGBAD")
		if len(args) > 1 {
			a.Args = []Expr{scalar(1, types.TInt64)}
		}
	case actSetopt:
		a.Kind = dif.ActSetopt
		consts := true
		for _, v := range args {
			consts = consts && v.str != nil
		}
		for _, v := range args {
			if consts {
				a.Strs = append(a.Strs, *v.str)
			} else {
				a.Args = append(a.Args, toString(c.rvalue(v).x))
			}
		}
	case actCommit:
		a.Kind, a.Op, a.Args = dif.ActCommit, dif.OpCommit, []Expr{scalar(0, types.TInt)}
	case actDiscard:
		a.Kind, a.Op, a.Args = dif.ActDiscard, dif.OpDiscard, []Expr{scalar(0, types.TInt)}
	case actSpeculate:
		a.Kind, a.Args = dif.ActSpeculate, []Expr{scalar(0, types.TInt)}
	case actPcap:
		c.pcap(a, scalar(0, types.TVoidPtr), scalar(1, types.TInt))
	case actRaise:
		a.Kind, a.Op, a.Args = dif.ActRaise, dif.OpRaise, []Expr{scalar(0, types.TInt)}
	case actStop:
		a.Kind, a.Op = dif.ActRaise, dif.OpStop
	case actChill:
		a.Kind, a.Op, a.Args = dif.ActRaise, dif.OpChill, []Expr{scalar(0, types.TInt)}
	case actPanic:
		a.Kind = dif.ActPanic
	case actReturn:
		a.Kind, a.Op, a.Args = dif.ActRaise, dif.OpReturn, []Expr{scalar(0, types.TInt64)}
	default:
		fail(pos, "D_UNKNOWN", "tracing function %s( ) is not yet supported", id.name)
	}
	return a
}

// pcap records the bytes of a packet, as far as they lie in one piece: what
// follows in page fragments belongs to the payload of large packets.
func (c *Checker) pcap(a *Action, skb, proto Expr) {
	a.Kind, a.N = dif.ActPcap, c.intOption("pcapsize")
	t := c.withComplete(c.protoType(a.P, "struct sk_buff"))
	c.nslots++
	slot := c.nslots
	a.N2 = int64(slot)
	a.Args = []Expr{conv(skb, types.NewPointer(t)), proto}
	for _, name := range []string{"len", "data_len", "data"} {
		bits, f, ok := types.FindMember(t, name)
		if !ok {
			fail(a.P, "D_TYPE_MEMBER", "%s is not a member of %s", name, t)
		}
		a.Args = append(a.Args, c.mem(a.P, &LetRef{E{types.NewPointer(t), a.P}, slot}, bits/8, f.Type, false).x)
	}
}

// aggArg takes the aggregation an action works on.
func (c *Checker) aggArg(a *Action, cv *callVal, tagArg, tagBad string) {
	v := cv.args[0]
	if v.agg == nil {
		v = c.orValue(v)
		fail(v.pos, tagArg, "%s( ) argument #1 is incompatible with prototype:\n\tprototype: aggregation\n\t argument: %s", cv.id.name, v.typeName())
	}
	if !v.agg.mod {
		fail(v.pos, tagBad, "undefined aggregation: @%s", v.agg.name())
	}
	a.Aggs = append(a.Aggs, v.agg.agg)
}

func (c *Checker) orValue(v val) val {
	if v.sym != nil {
		return c.rvalue(v)
	}
	return v
}

// printfLike checks a format and its arguments.
func (c *Checker) printfLike(a *Action, cv *callVal) {
	f := cv.args[0]
	if f.str == nil {
		f = c.orValue(f)
		fail(f.pos, "D_PRINTF_ARG_FMT", "%s( ) argument #1 is incompatible with prototype:\n\tprototype: string constant\n\t argument: %s", cv.id.name, f.typeName())
	}
	text := *f.str
	if a.Kind == dif.ActFreopen {
		if text == freopenRestore {
			fail(f.pos, "D_FREOPEN_INVALID", "%s( ) argument #1 cannot be \"%s\"", cv.id.name, freopenRestore)
		}
		if text == "" {
			text = freopenRestore
		}
	}
	a.Format = c.parseFormat(f.pos, text)
	var ts []types.Type
	for _, v := range cv.args[1:] {
		x := c.printed(v)
		if x == nil {
			ts = append(ts, namedType(v.typeName()))
		} else {
			ts = append(ts, x.Type())
			a.Args = append(a.Args, x)
		}
	}
	c.checkFormat(cv.src.Pos(), a.Format, format.Call{Func: cv.id.name, First: 1, Exact: true, Target: c.hasTarget()}, ts)
	if len(a.Args) < len(ts) {
		fail(cv.src.Pos(), "D_PRINTF_ARG_TYPE", "%s( ) cannot print an expression of dynamic type", cv.id.name)
	}
}

// freopenRestore stands for the standard output in freopen("").
const freopenRestore = "."

// namedType shows, in messages, what has no type.
func namedType(name string) types.Type {
	return &types.Basic{Kind: types.Dynamic, Name: name}
}

// printed is a value to be printed; nil for what has none.
func (c *Checker) printed(v val) Expr {
	if y := c.actionValue(v); y != nil {
		return y
	}
	if v.agg != nil || v.xl != nil || v.sym != nil && v.sym.array && v.keys == nil {
		return nil
	}
	v = c.rvalue(v)
	if types.IsVoid(v.typ()) {
		return nil
	}
	return printable(v.x)
}

// printable makes a string of characters whose number is not known.
func printable(x Expr) Expr {
	if x != nil && isFlexible(x.Type()) && types.IsCharArray(x.Type()) {
		return toString(x)
	}
	return x
}

func (c *Checker) hasTarget() bool {
	_, ok := c.env.Macro("target")
	return ok
}

func (c *Checker) parseFormat(pos syntax.Pos, text string) *format.Format {
	f, err := format.Parse(text)
	if err != nil {
		c.formatError(pos, err)
	}
	return f
}

func (c *Checker) checkFormat(pos syntax.Pos, f *format.Format, call format.Call, ts []types.Type) {
	if err := f.Check(call, ts); err != nil {
		c.formatError(pos, err)
	}
}

func (c *Checker) formatError(pos syntax.Pos, err error) {
	var e *format.Error
	if errors.As(err, &e) {
		fail(pos, e.Tag, "%s", e.Msg)
	}
	fail(pos, "D_UNKNOWN", "%v", err)
}

func (c *Checker) printa(a *Action, cv *callVal) {
	a.Kind = dif.ActPrinta
	args, first := cv.args, 1
	var text *string
	if args[0].str != nil {
		text, args, first = args[0].str, args[1:], 2
	}
	if len(cv.args) < first {
		fail(cv.src.Pos(), "D_PRINTA_PROTO", "%s( ) prototype mismatch: %d args passed, %d expected", cv.id.name, len(cv.args), first)
	}
	for i, v := range args {
		if v.agg == nil {
			v = c.orValue(v)
			fail(v.pos, "D_PRINTA_AGGARG", "%s( ) argument #%d is incompatible with prototype:\n\tprototype: aggregation\n\t argument: %s", cv.id.name, first+i, v.typeName())
		}
		if !v.agg.mod {
			fail(v.pos, "D_PRINTA_AGGBAD", "undefined aggregation: @%s", v.agg.name())
		}
		if i > 0 {
			sameKeys(v.pos, args[0].agg, v.agg)
		}
		a.Aggs = append(a.Aggs, v.agg.agg)
	}
	if text == nil {
		return
	}
	a.Format = c.parseFormat(cv.args[0].pos, *text)
	for _, g := range a.Aggs {
		c.checkFormat(cv.src.Pos(), a.Format, format.Call{Func: cv.id.name, First: 1, Agg: g.Spec.Func, Target: c.hasTarget()}, g.Keys)
	}
}

// sameKeys insists that aggregations printed side by side have like keys.
func sameKeys(pos syntax.Pos, l, r *aggSym) {
	plural := func(n int) string {
		if n == 1 {
			return ""
		}
		return "s"
	}
	ln, rn := l.name(), r.name()
	if a, b := len(l.agg.Keys), len(r.agg.Keys); a != b {
		fail(pos, "D_PRINTA_AGGKEY", "printa( ): @%s and @%s do not have matching key signatures: @%s has %d key%s, @%s has %d key%s",
			ln, rn, ln, a, plural(a), rn, b, plural(b))
	}
	for i := range l.agg.Keys {
		if a, b := l.agg.Keys[i], r.agg.Keys[i]; !types.ArgCompat(b, false, a) {
			fail(pos, "D_PRINTA_AGGPROTO", "printa( ): @%s[ ] key #%d is incompatible with @%s:\n%9s key #%d: %s\n%9s key #%d: %s",
				rn, i+1, ln, ln, i+1, a, rn, i+1, b)
		}
	}
}

// print takes a pointer, and prints what it points to, or a struct or array in
// memory.
func (c *Checker) print(a *Action, cv *callVal) {
	a.Kind = dif.ActPrint
	arg := cv.args[0]
	v := c.rvalue(arg)
	switch m, isMem := v.x.(*Mem); {
	case v.agg != nil:
		failHint(v.pos, "use printa( )", "D_PRINT_AGG", "print( ) may not be applied to an aggregation")
	case v.x == nil:
		fail(v.pos, "D_PRINT_DYN", "print( ) may not be applied to a dynamic expression")
	case types.IsVoid(v.typ()):
		fail(v.pos, "D_PRINT_VOID", "print( ) may not be applied to a void expression")
	case types.IsPointer(v.typ()):
		a.Type = c.withComplete(types.Elem(v.typ()))
		a.Args = []Expr{v.x}
	case isMem && (types.IsStructOrUnion(m.T) || types.IsArray(m.T)):
		a.Type = m.T
		a.Args = []Expr{addrOf(v.pos, m)}
	case types.IsStructOrUnion(v.typ()) || types.IsArray(v.typ()):
		a.Type = v.typ()
		addr, _, _ := c.objectAddr(v)
		a.Args = []Expr{addr}
	default:
		fail(v.pos, "D_PROTO_ARG", "print( ) argument #1 is incompatible with prototype:\n\tprototype: pointer\n\t argument: %s", v.typeName())
	}
	a.N = a.Type.Size()
	if types.IsString(a.Type) && a.N == 0 {
		a.N = c.intOption("strsize")
	}
	if a.N == 0 {
		fail(v.pos, "D_PRINT_SIZE", "print( ) argument #1 reference has type '%s' with size 0; cannot print( ) it.", a.Type)
	}
}

// aggStmt is @name[keys] = func(…).
func (c *Checker) aggStmt(x *syntax.Assign, src *syntax.Agg) Stmt {
	pos := x.Pos()
	name := src.Name
	if name == "" {
		name = "_"
	}
	var fn *callVal
	if call, ok := unparen(x.Y).(*syntax.Call); ok && x.Op == syntax.Assign_ {
		fn = c.expr(call).call
	}
	if x.Op != syntax.Assign_ {
		fail(pos, "D_OP_INT", "operator %s= requires operands of integral type", opText[x.Op])
	}
	if fn == nil || fn.id.kind != idAggFunc {
		fail(pos, "D_AGG_FUNC", "@%s must be assigned the result of an aggregating function", name)
	}
	f := &c.clause.flags
	if f.commit {
		fail(pos, "D_AGG_COMM", "aggregating actions may not follow commit( )")
	}
	if f.spec {
		fail(pos, "D_AGG_SPEC", "aggregating actions may not follow speculate( )")
	}
	f.agg = true

	a := c.aggs[src.Name]
	if a == nil {
		a = c.newAgg(src)
	}
	if a.mod && a.agg.Spec.Func != agg.Func(fn.id.id) {
		fail(pos, "D_AGG_REDEF", "aggregation redefined: @%s\n\t current: @%s = %s( )\n\tprevious: @%s = %s( ) : line %d",
			name, name, fn.id.name, name, a.agg.Spec.Func, a.line)
	}
	var vals []val
	for i, k := range src.Keys {
		vals = append(vals, c.aggKey(c.expr(k), i))
	}
	if !a.signed {
		for _, v := range vals {
			a.agg.Keys = append(a.agg.Keys, keyType(v.typ()))
		}
		a.signed = true
	} else {
		c.checkKeys(pos, name, "@", vals, a.agg.Keys)
	}
	st := &AggStmt{at: at{pos}, Agg: a.agg}
	for _, v := range vals {
		st.Keys = append(st.Keys, v.x)
	}
	args := fn.args
	if len(args) > 0 {
		if args[0].x == nil || !types.IsScalar(args[0].typ()) {
			fail(args[0].pos, "D_AGG_SCALAR", "%s( ) argument #1 must be of scalar type", fn.id.name)
		}
		st.Arg = args[0].x
	}
	spec, incr, argmax := c.aggSpec(pos, fn)
	if len(incr) > 0 {
		if incr[0].x == nil || !types.IsScalar(incr[0].typ()) {
			fail(incr[0].pos, "D_PROTO_ARG", "%s( ) increment value (argument #%d) must be of scalar type", fn.id.name, argmax)
		}
		if len(incr) > 1 {
			fail(incr[0].pos, "D_PROTO_LEN", "%s( ) prototype mismatch: %d args passed, at most %d expected", fn.id.name, argmax+len(incr)-1, argmax)
		}
		st.Incr = incr[0].x
	}
	if a.mod {
		sameSpec(pos, a.agg.Spec, spec)
	}
	a.agg.Spec, a.mod = spec, true
	return st
}

// aggSpec reads the parameters of an aggregating function. What follows them
// is the increment; argmax is its number.
func (c *Checker) aggSpec(pos syntax.Pos, fn *callVal) (spec agg.Spec, incr []val, argmax int) {
	spec.Func = agg.Func(fn.id.id)
	args := fn.args
	constant := func(i int, tag, msg string) int64 {
		k, ok := args[i].constant()
		if !ok {
			fail(args[i].pos, tag, "%s", msg)
		}
		return k.Value
	}
	switch spec.Func {
	case agg.Quantize:
		return spec, args[1:], 2
	case agg.Lquantize:
		spec.Base = constant(1, "D_LQUANT_BASETYPE", "lquantize( ) argument #1 must be an integer constant")
		if spec.Base < math.MinInt32 || spec.Base > math.MaxInt32 {
			fail(args[1].pos, "D_LQUANT_BASEVAL", "lquantize( ) argument #1 must be a 32-bit quantity")
		}
		spec.Limit = constant(2, "D_LQUANT_LIMTYPE", "lquantize( ) argument #2 must be an integer constant")
		if spec.Limit < math.MinInt32 || spec.Limit > math.MaxInt32 {
			fail(args[2].pos, "D_LQUANT_LIMVAL", "lquantize( ) argument #2 must be a 32-bit quantity")
		}
		if spec.Limit < spec.Base {
			fail(pos, "D_LQUANT_MISMATCH", "lquantize( ) base (argument #1) must be less than limit (argument #2)")
		}
		spec.Step = 1
		if len(args) > 3 {
			if !args[3].isPosConst() {
				fail(args[3].pos, "D_LQUANT_STEPTYPE", "lquantize( ) argument #3 must be a non-zero positive integer constant")
			}
			k, _ := args[3].constant()
			spec.Step = k.Value
			if uint64(spec.Step) > math.MaxUint16 {
				fail(args[3].pos, "D_LQUANT_STEPVAL", "lquantize( ) argument #3 must be a 16-bit quantity")
			}
		}
		switch n := (spec.Limit - spec.Base) / spec.Step; {
		case n == 0:
			fail(pos, "D_LQUANT_STEPLARGE", "lquantize( ) step (argument #3) too large: must have at least one quantization level")
		case n > math.MaxUint16:
			fail(pos, "D_LQUANT_STEPSMALL", "lquantize( ) step (argument #3) too small: number of quantization levels must be a 16-bit quantity")
		}
		c.validate(pos, spec)
		return spec, args[min(4, len(args)):], 5
	case agg.Llquantize:
		for i, p := range []struct {
			v         *int64
			typ, vtag string
		}{
			{&spec.Factor, "D_LLQUANT_FACTORTYPE", "D_LLQUANT_FACTORVAL"},
			{&spec.Low, "D_LLQUANT_LMAGTYPE", "D_LLQUANT_LMAGVAL"},
			{&spec.High, "D_LLQUANT_HMAGTYPE", "D_LLQUANT_HMAGVAL"},
			{&spec.Steps, "D_LLQUANT_STEPTYPE", "D_LLQUANT_STEPVAL"},
		} {
			k, ok := args[i+1].constant()
			if !ok {
				fail(args[i+1].pos, p.typ, "llquantize( ) argument #%d must be an integer constant", i+1)
			}
			*p.v = k.Value
			if i == 3 && !args[i+1].isPosConst() {
				fail(args[i+1].pos, p.typ, "llquantize( ) argument #4 must be a non-zero positive integer constant")
			}
			if uint64(k.Value) > math.MaxUint16 || i == 0 && k.Value < 2 {
				more := ""
				if i == 0 {
					more = " greater than or equal to 2"
				}
				fail(args[i+1].pos, p.vtag, "llquantize( ) argument #%d must be an unsigned 16-bit quantity%s", i+1, more)
			}
		}
		if spec.High < spec.Low {
			fail(args[3].pos, "D_LLQUANT_HMAGVAL", "llquantize( ) argument #3 (high magnitude) must be at least argument #2 (low magnitude)")
		}
		if math.Pow(float64(spec.Factor), float64(spec.High+1)) > math.MaxUint64 {
			fail(args[3].pos, "D_LLQUANT_HMAGVAL", "llquantize( ) argument #3 (high magnitude) will cause overflow of 64 bits")
		}
		stepval := func(msg string) { fail(args[1].pos, "D_LLQUANT_STEPVAL", "llquantize() argument #4 (steps) %s", msg) }
		switch {
		case spec.Steps < spec.Factor && spec.Factor%spec.Steps != 0:
			stepval("must evenly divide argument #1 (factor) when steps<factor")
		case spec.Steps > spec.Factor && spec.Steps%spec.Factor != 0:
			stepval("must be a multiple of argument #1 (factor) when steps>factor")
		case spec.Steps > spec.Factor && spec.Low == 0 && spec.Factor*spec.Factor%spec.Steps != 0:
			stepval("must evenly divide the square of argument #1 (factor) when steps>factor and lmag==0")
		}
		c.validate(pos, spec)
		return spec, args[min(5, len(args)):], 6
	}
	return spec, nil, 0
}

// validate asks the arithmetic itself whether it can do with the parameters.
func (c *Checker) validate(pos syntax.Pos, spec agg.Spec) {
	if err := spec.Validate(); err != nil {
		var e *agg.ParamError
		if errors.As(err, &e) {
			fail(pos, e.Tag, "%s", e.Msg)
		}
		fail(pos, "D_UNKNOWN", "%v", err)
	}
}

// sameSpec insists that every use of an aggregation has the parameters of the first.
func sameSpec(pos syntax.Pos, old, cur agg.Spec) {
	if old == cur {
		return
	}
	differ := func(tag, fn, what string, want, got int64) {
		if want != got {
			fail(pos, tag, "%s %s doesn't match previous declaration: expected %d, found %d", fn, what, want, got)
		}
	}
	switch cur.Func {
	case agg.Lquantize:
		differ("D_LQUANT_MATCHBASE", "lquantize( )", "base (argument #1)", old.Base, cur.Base)
		end := func(s agg.Spec) int64 { return s.Base + (s.Limit-s.Base)/s.Step*s.Step }
		differ("D_LQUANT_MATCHLIM", "lquantize( )", "limit (argument #2)", end(old), end(cur))
		differ("D_LQUANT_MATCHSTEP", "lquantize( )", "step (argument #3)", old.Step, cur.Step)
	case agg.Llquantize:
		differ("D_LLQUANT_MATCHFACTOR", "llquantize()", "factor (argument #1)", old.Factor, cur.Factor)
		differ("D_LLQUANT_MATCHLMAG", "llquantize()", "lmag (argument #2)", old.Low, cur.Low)
		differ("D_LLQUANT_MATCHHMAG", "llquantize()", "hmag (argument #3)", old.High, cur.High)
		differ("D_LLQUANT_MATCHSTEPS", "llquantize()", "steps (argument #4)", old.Steps, cur.Steps)
	}
}
