package check

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// The passes of option tree, as bits: the tree as parsed; each clause once it has
// names and types, for each of its probe descriptions; the whole program then.
const (
	treeParsed = 1 << iota
	treeClause
	treeProgram
)

// note is what the checker found out about an expression.
type note struct {
	v    val
	attr Attr
}

// noted types x and keeps what is found, for the dump of the tree.
func (c *Checker) noted(x syntax.Expr) val {
	attr := c.attr
	c.attr = maxAttr
	v := c.typed(x)
	c.note(x, v)
	c.attr = attr.min(c.attr)
	return v
}

func (c *Checker) note(x syntax.Expr, v val) val {
	if c.notes != nil {
		c.notes[x] = note{v, defAttr.min(c.attr)}
	}
	return v
}

// dumper prints a tree: a node a line, what belongs to it two columns further in.
type dumper struct {
	c     *Checker
	w     io.Writer
	notes map[syntax.Expr]note // nil: the tree as parsed
}

func (d *dumper) line(depth int, format string, args ...any) {
	fmt.Fprintf(d.w, "%*s%s\n", 2*depth, "", fmt.Sprintf(format, args...))
}

// dump prints a pass of the tree of the program, or of one clause.
func (c *Checker) dump(pass int, f *syntax.File, cl *syntax.Clause, out *Clause) {
	n := 1
	for 1<<(n-1) < pass {
		n++
	}
	if c.opts.Tree&pass == 0 || c.inLib() {
		return
	}
	fmt.Fprintf(c.opts.TreeOut, "Parse tree (Pass %d):\n", n)
	d := &dumper{c: c, w: c.opts.TreeOut, notes: c.notes}
	ctx := Attr{} // nothing is known of the probes
	if pass == treeParsed {
		d.notes = nil
	}
	if cl != nil {
		d.clause(cl, contextOf(out), 1)
		fmt.Fprintf(d.w, "Parse tree ends\n")
		return
	}
	d.line(1, "PROGRAM attr=%s", defAttr.short())
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *syntax.Clause:
			if pass == treeProgram {
				ctx = c.descAttrs[decl]
			}
			d.clause(decl, ctx, 2)
		case *syntax.Inline:
			d.line(2, "INLINE %s", syntax.String(decl))
		case *syntax.Translator:
			d.line(2, "XLATOR <%s> <%s>", syntax.String(decl.Dst), syntax.String(decl.Src))
			for _, m := range decl.Members {
				d.line(3, "MEMBER %s", m.Name)
				d.expr(m.X, 4)
			}
		case *syntax.Provider:
			d.line(2, "PROVIDER %s", decl.Name)
			for _, p := range decl.Probes {
				d.line(3, "PROBE %s", p.Name)
			}
		}
	}
	fmt.Fprintf(d.w, "Parse tree ends\n")
}

// contextOf is the stability of a clause's probes: unstable, where any provider's
// may be meant.
func contextOf(cl *Clause) Attr {
	if p := cl.Desc.Provider; cl.Desc.ID == 0 && (p == "" || probe.IsGlob(p)) {
		return unst
	}
	return cl.DescAttr
}

func (d *dumper) clause(cl *syntax.Clause, ctx Attr, depth int) {
	d.line(depth, "CLAUSE attr=%s", defAttr.short())
	for _, p := range cl.Descs {
		d.line(depth+1, "PDESC %s:%s:%s:%s [%d]", p.Provider, p.Module, p.Func, p.Name, p.ID)
	}
	d.line(depth, "CTXATTR %s", ctx.short())
	if cl.Pred != nil {
		d.line(depth, "PREDICATE /")
		d.expr(cl.Pred, depth+1)
		d.line(depth, "/")
	}
	d.line(depth, "ACTION")
	d.stmts(cl.Body, depth+1)
}

func (d *dumper) stmts(list []syntax.Stmt, depth int) {
	for _, s := range list {
		switch s := s.(type) {
		case *syntax.Block:
			d.stmts(s.Stmts, depth)
		case *syntax.If:
			d.line(depth, "IF")
			d.expr(s.Cond, depth+1)
			d.line(depth, "THEN")
			d.stmts(s.Then, depth+1)
			if s.Else != nil {
				d.line(depth, "ELSE")
				d.stmts(s.Else, depth+1)
			}
		case *syntax.ExprStmt:
			if s.X == nil {
				continue
			}
			what := "EXPRESSION"
			if _, ok := unparen(s.X).(*syntax.Call); ok {
				what = "PRODUCER"
			}
			attr := defAttr
			if n, ok := d.notes[s.X]; ok {
				attr = n.attr
			}
			d.line(depth, "D %s attr=%s", what, attr.short())
			d.expr(s.X, depth+1)
		}
	}
}

// info is what is known of a node: type, stability, flags.
func (d *dumper) info(x syntax.Expr) string {
	n, ok := d.notes[x]
	if !ok {
		switch x.(type) {
		case *syntax.IntLit:
			return fmt.Sprintf("(type=<int> attr=%s flags=SIGN,COOK)", defAttr.short())
		case *syntax.StringLit:
			return fmt.Sprintf("(type=<string> attr=%s flags=COOK,REF,DPTR)", defAttr.short())
		}
		return fmt.Sprintf("(type=<-1> attr=%s flags=0)", defAttr.short())
	}
	t := n.v.typ()
	if n.v.sym != nil && n.v.sym.v != nil {
		t = n.v.sym.v.Type // given to it by the expression
	}
	dynamic := types.IsDynamic(t)
	var flags []string
	flag := func(set bool, name string) {
		if set {
			flags = append(flags, name)
		}
	}
	_, assigns := x.(*syntax.Assign)
	m, isMem := n.v.x.(*Mem)
	flag(types.IsInteger(t) && types.IsSigned(t) || types.IsVoid(t) || dynamic, "SIGN")
	flag(true, "COOK")
	flag(types.IsByRef(t) || types.IsStack(t) || dynamic, "REF")
	flag(n.v.lval, "LVAL")
	flag(n.v.write || assigns, "WRITE")
	flag(isMem && m.Bits > 0, "BITF")
	flag(types.IsUser(t), "USER")
	flag(types.IsString(t) || n.v.alloca || n.v.within, "DPTR")
	return fmt.Sprintf("(type=<%s> attr=%s flags=%s)", typeName(t), n.attr.short(), strings.Join(flags, ","))
}

// list prints what a comma stands between.
func (d *dumper) list(args []syntax.Expr, depth int) {
	for i, a := range args {
		if i > 0 {
			d.line(depth, ",")
		}
		d.expr(a, depth+1)
	}
}

func (d *dumper) expr(x syntax.Expr, depth int) {
	for {
		p, ok := x.(*syntax.Paren)
		if !ok {
			break
		}
		x = p.X
	}
	n, known := d.notes[x]
	if k, ok := n.v.constant(); known && ok {
		d.line(depth, "INT %#x %s", uint64(k.Value), d.info(x))
		return
	}
	switch x := x.(type) {
	case *syntax.IntLit:
		d.line(depth, "INT %#x %s", x.Value, d.info(x))
	case *syntax.StringLit:
		d.line(depth, "STRING %s %s", strconv.Quote(x.Value), d.info(x))
	case *syntax.FloatLit:
		d.line(depth, "FLOAT %s %s", x.Text, d.info(x))
	case *syntax.Macro:
		d.line(depth, "MACRO %s %s", syntax.String(x), d.info(x))
	case *syntax.Name:
		d.name(x, n, known, depth, nil)
	case *syntax.Agg:
		d.agg(x, nil, depth)
	case *syntax.Call:
		d.line(depth, "FUNC %s %s", x.Fun.Name, d.info(x))
		d.list(x.Args, depth)
	case *syntax.Unary:
		d.op(1, x.Op.String(), x, depth, x.X)
	case *syntax.Postfix:
		d.op(1, x.Op.String(), x, depth, x.X)
	case *syntax.Binary:
		d.op(2, x.Op.String(), x, depth, x.X, x.Y)
	case *syntax.Assign:
		if a, ok := unparen(x.X).(*syntax.Agg); ok && d.notes != nil {
			d.agg(a, x.Y, depth)
			return
		}
		op := x.Op.String()
		if x.Op != syntax.Assign_ {
			op += "="
		}
		d.op(2, op, x, depth, x.X, x.Y)
	case *syntax.Cond:
		d.line(depth, "OP3 %s", d.info(x))
		d.expr(x.C, depth+1)
		d.line(depth, "?")
		d.expr(x.X, depth+1)
		d.line(depth, ":")
		d.expr(x.Y, depth+1)
	case *syntax.Index:
		if name, ok := unparen(x.X).(*syntax.Name); ok && known {
			d.name(name, n, known, depth, x.Args)
			return
		}
		d.op(2, "[", x, depth, x.X, x.Args[0])
	case *syntax.Member:
		op := "."
		if x.Arrow {
			op = "->"
		}
		d.op(2, op, x, depth, x.X)
		d.line(depth+1, "IDENT %s (type=<-1> attr=%s flags=0)", x.Name, defAttr.short())
	case *syntax.Cast:
		d.line(depth, "OP2 ( %s", d.info(x))
		d.line(depth+1, "TYPE %s", syntax.String(x.Type))
		d.expr(x.X, depth+1)
	case *syntax.Sizeof:
		if x.Type != nil {
			d.line(depth, "OP1 sizeof %s", d.info(x))
			d.line(depth+1, "TYPE %s", syntax.String(x.Type))
			return
		}
		d.op(1, "sizeof", x, depth, x.X)
	case *syntax.Offsetof:
		d.line(depth, "OP1 offsetof %s", d.info(x))
		d.line(depth+1, "TYPE %s", syntax.String(x.Type))
		d.line(depth+1, "IDENT %s", x.Member)
	case *syntax.Stringof:
		d.op(1, "stringof", x, depth, x.X)
	case *syntax.Xlate:
		d.line(depth, "OP2 xlate %s", d.info(x))
		d.line(depth+1, "TYPE %s", syntax.String(x.Type))
		d.expr(x.X, depth+1)
	}
}

func (d *dumper) op(n int, op string, x syntax.Expr, depth int, args ...syntax.Expr) {
	d.line(depth, "OP%d %s %s", n, op, d.info(x))
	for _, a := range args {
		d.expr(a, depth+1)
	}
}

// symbol is that of a variable; nil for other values.
func (d *dumper) symbol(v val) *symbol {
	if r, ok := v.x.(*VarRef); ok {
		return d.c.symbolOf(r.Var)
	}
	return v.sym
}

// name prints an identifier, or what it was found to be, with an index.
func (d *dumper) name(x *syntax.Name, n note, known bool, depth int, index []syntax.Expr) {
	class := map[syntax.VarClass]string{syntax.Self: "self->", syntax.This: "this->"}[x.Class]
	info := d.info(x)
	if known && index != nil {
		d.notes[x] = n
		info = d.info(x)
		delete(d.notes, x)
	}
	switch {
	case !known && class != "":
		d.line(depth, "OP2 -> %s", info)
		d.line(depth+1, "IDENT %s %s", strings.TrimSuffix(class, "->"), info)
		d.line(depth+1, "IDENT %s %s", x.Name, info)
	case !known && x.Scoped:
		d.line(depth, "IDENT %s`%s %s", x.Module, x.Name, info)
	case !known:
		d.line(depth, "IDENT %s %s", x.Name, info)
	case x.Scoped:
		d.line(depth, "SYMBOL %s`%s %s", x.Module, x.Name, info)
	default:
		kind := ""
		if s := d.symbol(n.v); s != nil {
			switch {
			case s.alloca:
				kind = "(alloca-assigned) "
			case s.other:
				kind = "(normally-assigned) "
			}
		}
		d.line(depth, "VARIABLE %s%s%s %s", kind, class, x.Name, info)
	}
	if index != nil {
		d.line(depth, "[")
		d.list(index, depth)
		d.line(depth, "]")
	}
}

func (d *dumper) agg(x *syntax.Agg, fun syntax.Expr, depth int) {
	name := x.Name
	if name == "" {
		name = "_"
	}
	if d.notes == nil {
		ident := fmt.Sprintf("IDENT @%s (type=<-1> attr=%s flags=0)", name, defAttr.short())
		if len(x.Keys) == 0 {
			d.line(depth, "%s", ident)
			return
		}
		d.line(depth, "OP2 [ (type=<-1> attr=%s flags=0)", defAttr.short())
		d.line(depth+1, "%s", ident)
		d.expr(x.Keys[0], depth+1)
		return
	}
	d.line(depth, "AGGREGATE @%s attr=%s [", name, defAttr.short())
	d.list(x.Keys, depth)
	d.line(depth, "]")
	if fun != nil {
		d.line(depth, "=")
		d.expr(fun, depth+1)
	}
}
