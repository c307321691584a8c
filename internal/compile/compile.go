// Package compile turns typed clauses (package check) into DIF (package dif).
//
// A Compiler collects the clauses of a session in one dif.Object: variables,
// aggregations, strings and record descriptions are shared by all of them.
// compile.go has clauses and statements, expr.go values, assign.go what
// changes them, record.go what is recorded, key.go the tuples of aggregations
// and associative arrays.
package compile

import (
	"fmt"

	"godtrace/internal/check"
	"godtrace/internal/dif"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// Options are the options of a session that the code depends on. Zero fields
// have DTrace's defaults.
type Options struct {
	StrSize       int // strsize: bytes of a string with its NUL (256)
	StackFrames   int // stackframes (20)
	UStackFrames  int // ustackframes (100)
	JStackFrames  int // jstackframes (50)
	JStackStrSize int // jstackstrsize (512)
	NoOptimize    bool
}

func (o Options) withDefaults() Options {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&o.StrSize, 256)
	def(&o.StackFrames, 20)
	def(&o.UStackFrames, 100)
	def(&o.JStackFrames, 50)
	def(&o.JStackStrSize, 512)
	return o
}

// Compiler compiles the clauses of one session.
type Compiler struct {
	opt     Options
	obj     *dif.Object
	strings map[string]int32
	ksyms   map[dif.KSym]int32
}

// New returns a Compiler for a session.
func New(o Options) *Compiler {
	o = o.withDefaults()
	return &Compiler{
		opt:     o,
		obj:     &dif.Object{StrSize: o.StrSize},
		strings: make(map[string]int32),
		ksyms:   make(map[dif.KSym]int32),
	}
}

// Object is what has been compiled so far.
func (c *Compiler) Object() *dif.Object { return c.obj }

// failure carries an error out of the recursive descent.
type failure struct{ err error }

// Clause compiles cl and adds it to the object. The error is a *syntax.Error.
func (c *Compiler) Clause(cl *check.Clause) (out *dif.Clause, err error) {
	nrec := len(c.obj.Records)
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			c.obj.Records = c.obj.Records[:nrec]
			out, err = nil, f.err
		}
	}()
	f := &fn{c: c, lets: make(map[int]val)}
	f.cl = &dif.Clause{
		ID:          len(c.obj.Clauses),
		Index:       cl.Index,
		Name:        fmt.Sprintf("dt_clause_%d", cl.Index),
		HasPred:     cl.Pred != nil,
		Destructive: cl.Destructive,
	}
	if cl.Src != nil {
		f.pos = cl.Src.Pos()
		f.cl.File, f.cl.Line = f.pos.File, f.pos.Line
	}
	f.clause(cl)
	if !c.opt.NoOptimize {
		dif.Optimize(c.obj, f.cl)
	}
	if err := dif.Verify(c.obj, f.cl); err != nil {
		c.obj.Records = c.obj.Records[:nrec]
		return nil, syntax.Errorf(f.posOf(cl), "D_UNKNOWN", "internal error: %v", err)
	}
	c.obj.Clauses = append(c.obj.Clauses, f.cl)
	return f.cl, nil
}

// fn is a clause under construction.
type fn struct {
	c    *Compiler
	cl   *dif.Clause
	pos  syntax.Pos
	lets map[int]val
	// Temporaries of the statement being compiled; free ones may be taken again.
	used, free []int32
	rec        *dif.Record // open record, nil where there is none
}

func (f *fn) posOf(cl *check.Clause) syntax.Pos {
	if cl.Src != nil {
		return cl.Src.Pos()
	}
	return f.pos
}

func (f *fn) fail(tag, format string, args ...any) {
	panic(failure{syntax.Errorf(f.pos, tag, format, args...)})
}

// emit appends an instruction at the current position.
func (f *fn) emit(i dif.Ins) {
	i.Line, i.Col = int32(f.pos.Line), int32(f.pos.Col)
	f.cl.Code = append(f.cl.Code, i)
}

func (f *fn) reg() dif.Reg {
	f.cl.NRegs++
	return dif.Reg(f.cl.NRegs)
}

func (f *fn) label() dif.Label {
	f.cl.NLabels++
	return dif.Label(f.cl.NLabels)
}

func (f *fn) place(l dif.Label) { f.emit(dif.Ins{Op: dif.LabelOp, Target: l}) }
func (f *fn) jump(l dif.Label)  { f.emit(dif.Ins{Op: dif.Jmp, Target: l}) }

// temp gives a temporary of the clause that is the caller's until the end of
// the statement. Its number is 1-based, as Ins.Temp wants it.
func (f *fn) temp(size int, name string) int32 {
	best := -1
	for i, t := range f.free {
		s := f.cl.Temps[t-1].Size
		// A small value does not keep a large temporary busy.
		if s >= size && s <= 2*size && (best < 0 || s < f.cl.Temps[f.free[best]-1].Size) {
			best = i
		}
	}
	var t int32
	if best >= 0 {
		t = f.free[best]
		f.free = append(f.free[:best], f.free[best+1:]...)
	} else {
		f.cl.Temps = append(f.cl.Temps, dif.Temp{Size: (size + 7) &^ 7, Align: 8, Name: name})
		t = int32(len(f.cl.Temps))
	}
	f.used = append(f.used, t)
	return t
}

// endStmt gives the temporaries of a statement back, those from mark on.
func (f *fn) endStmt(mark int) {
	f.free = append(f.free, f.used[mark:]...)
	f.used = f.used[:mark]
}

func (f *fn) clause(cl *check.Clause) {
	end := f.label()
	if cl.Pred != nil {
		f.pos = cl.Pred.Pos()
		f.branch(cl.Pred, false, end)
		f.endStmt(0)
	}
	switch {
	case cl.Default:
		f.begin(0)
		f.rec.Actions = append(f.rec.Actions, dif.Action{Kind: dif.ActDefault, Line: f.pos.Line})
		f.commit()
	case anyStmt(cl.Body, isAction) && !anyStmt(cl.Body, func(s check.Stmt) bool { return records(s) || isAgg(s) }):
		// Actions that record nothing (raise(), stop()) still show that the probe
		// fired. Assignments alone do not.
		f.begin(0)
		f.block(cl.Body)
		f.commit()
	default:
		f.block(cl.Body)
	}
	f.place(end)
	f.emit(dif.Ins{Op: dif.Ret})
}

// anyStmt reports whether pred holds of one of the statements, branches included.
func anyStmt(list []check.Stmt, pred func(check.Stmt) bool) bool {
	for _, s := range list {
		if pred(s) {
			return true
		}
		if i, ok := s.(*check.If); ok && (anyStmt(i.Then, pred) || anyStmt(i.Else, pred)) {
			return true
		}
	}
	return false
}

func isAction(s check.Stmt) bool {
	switch s := s.(type) {
	case *check.Action:
		return true
	case *check.ExprStmt:
		_, ok := s.X.(*check.OpExpr)
		return ok
	}
	return false
}

func isAgg(s check.Stmt) bool {
	_, ok := s.(*check.AggStmt)
	return ok
}

// records reports whether s puts something into a record.
func records(s check.Stmt) bool {
	a, ok := s.(*check.Action)
	return ok && a.Kind != dif.ActNone && a.Kind != dif.ActRaise
}

func isSpeculate(s check.Stmt) bool {
	a, ok := s.(*check.Action)
	return ok && a.Kind == dif.ActSpeculate
}

// block compiles a list of statements. Each run of statements that is not
// interrupted by branches with records of their own is one record, begun
// before anything else of the run happens, so that a drop leaves no half of
// it done. speculate() begins the record where it stands.
func (f *fn) block(list []check.Stmt) {
	for len(list) > 0 {
		n := 0
		for n < len(list) && !(isIf(list[n]) && anyStmt(list[n:n+1], records)) {
			n++
		}
		f.run(list[:n])
		list = list[n:]
		if len(list) > 0 {
			f.stmt(list[0])
			list = list[1:]
		}
	}
}

func isIf(s check.Stmt) bool {
	_, ok := s.(*check.If)
	return ok
}

func (f *fn) run(list []check.Stmt) {
	opened := f.rec == nil && anyStmt(list, records)
	speculative := anyStmt(list, isSpeculate)
	if opened && !speculative {
		f.begin(0)
	}
	for _, s := range list {
		f.stmt(s)
	}
	if opened {
		f.commit()
	}
}

func (f *fn) stmt(s check.Stmt) {
	f.pos = s.Pos()
	mark := len(f.used)
	switch s := s.(type) {
	case *check.ExprStmt:
		if a, ok := s.X.(*check.Assign); ok {
			f.assign(a, false)
			break
		}
		if v := f.expr(s.X); v.user {
			f.local(v) // for its faults
		}
	case *check.If:
		f.ifStmt(s)
	case *check.Action:
		f.action(s)
	case *check.AggStmt:
		f.aggStmt(s)
	default:
		f.fail("D_UNKNOWN", "internal error: statement %T", s)
	}
	f.endStmt(mark)
}

func (f *fn) ifStmt(s *check.If) {
	els := f.label()
	mark := len(f.used)
	f.branch(s.Cond, false, els)
	f.endStmt(mark)
	f.block(s.Then)
	if len(s.Else) == 0 {
		f.place(els)
		return
	}
	end := f.label()
	f.jump(end)
	f.place(els)
	f.block(s.Else)
	f.place(end)
}

// variable is the index of v in the object, described on first use.
func (c *Compiler) variable(v *check.Var) int32 {
	for len(c.obj.Vars) <= v.ID {
		c.obj.Vars = append(c.obj.Vars, &dif.Var{Type: types.TInt64, Size: 8})
	}
	d := c.obj.Vars[v.ID]
	if d.Name == "" {
		d.Name, d.Class, d.Type = v.Name, v.Class, v.Type
		d.ByRef = byRef(v.Type)
		d.Size = c.sizeof(v.Type)
		if len(v.Keys) > 0 {
			var t tuple
			for _, k := range v.Keys {
				t.add(c.keyField(k))
			}
			d.Keys, d.KeySize = t.fields, t.size()
		}
	}
	return int32(v.ID)
}

// sizeof is the size of a value of type t in memory: that of a string is its
// bound.
func (c *Compiler) sizeof(t types.Type) int {
	switch b, _ := types.Underlying(t).(*types.Basic); {
	case b == nil:
	case b.Kind == types.DString:
		return c.bound(t)
	case b.Kind == types.Stack:
		return types.StackFrames + 8*c.opt.StackFrames
	case b.Kind == types.UStack:
		return types.StackFrames + 8*c.opt.UStackFrames
	}
	return int(t.Size())
}

// bound is the number of bytes a string of type t takes at most, with its NUL.
func (c *Compiler) bound(t types.Type) int {
	if n := int(types.Underlying(t).Size()); n > 0 && n < c.opt.StrSize && types.IsString(t) {
		return n
	}
	return c.opt.StrSize
}

func (c *Compiler) str(s string) int32 {
	if i, ok := c.strings[s]; ok {
		return i
	}
	i := int32(len(c.obj.Strings))
	c.obj.Strings = append(c.obj.Strings, s)
	c.strings[s] = i
	return i
}

func (c *Compiler) ksym(s dif.KSym) int32 {
	if i, ok := c.ksyms[s]; ok {
		return i
	}
	i := int32(len(c.obj.KSyms))
	c.obj.KSyms = append(c.obj.KSyms, s)
	c.ksyms[s] = i
	return i
}

// agg is the index of a in the object.
func (c *Compiler) agg(a *check.Agg) int {
	for len(c.obj.Aggs) <= a.ID {
		c.obj.Aggs = append(c.obj.Aggs, &dif.Agg{ID: len(c.obj.Aggs)})
	}
	d := c.obj.Aggs[a.ID]
	d.Name, d.Spec = a.Name, a.Spec
	return a.ID
}

// byRef reports types whose values are addresses in a register. Floating-point
// numbers too wide for one are handled so as well.
func byRef(t types.Type) bool {
	return types.IsByRef(t) || types.IsStack(t) || types.IsFloat(t) && t.Size() > 8 || types.IsInteger(t) && t.Size() > 8
}
