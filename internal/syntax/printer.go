package syntax

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Print writes a node as D text. Parsing the text of a whole file, a clause or
// an expression gives a tree that prints the same. Comments are not kept.
func Print(w io.Writer, n Node) error {
	var p printer
	p.node(n)
	_, err := io.WriteString(w, p.String())
	return err
}

// String is Print into a string.
func String(n Node) string {
	var p printer
	p.node(n)
	return p.String()
}

type printer struct {
	strings.Builder
	indent int
}

func (p *printer) put(words ...string) {
	for _, w := range words {
		p.WriteString(w)
	}
}

func (p *printer) line() {
	p.WriteByte('\n')
	for range p.indent {
		p.WriteByte('\t')
	}
}

func (p *printer) node(n Node) {
	switch n := n.(type) {
	case *File:
		p.file(n)
	case Decl:
		p.decl(n)
	case Stmt:
		p.stmt(n)
	case Expr:
		p.expr(n, precComma)
	case *ProbeDesc:
		p.put(n.text())
	case *Pragma:
		p.put("#", n.Text)
	case *TypeName:
		p.typeName(n)
	case *DeclSpec:
		p.spec(n)
	case *Declarator:
		p.put(p.declarator(n))
	case *ParamDecl:
		p.put(p.params([]*ParamDecl{n}, false))
	case *FieldDecl:
		p.field(n)
	case *StructSpec:
		p.structSpec(n, "")
	case *EnumSpec:
		p.enumSpec(n, "")
	default:
		panic(fmt.Sprintf("syntax.Print: %T", n))
	}
}

func (f *File) Pos() Pos { return Pos{File: f.Name, Line: 1, Col: 1} }

func (p *printer) file(f *File) {
	pragmas := f.Pragmas
	for i, d := range f.Decls {
		for len(pragmas) > 0 && pragmas[0].pos.Line <= d.Pos().Line {
			p.put("#", pragmas[0].Text, "\n")
			pragmas = pragmas[1:]
		}
		p.decl(d)
		p.put("\n")
		if i+1 < len(f.Decls) {
			p.put("\n")
		}
	}
	for _, r := range pragmas {
		p.put("#", r.Text, "\n")
	}
}

func (d *ProbeDesc) text() string {
	switch {
	case d.Text != "":
		return d.Text
	case d.ID > 0:
		return strconv.FormatInt(d.ID, 10)
	}
	return d.Provider + ":" + d.Module + ":" + d.Func + ":" + d.Name
}

func (p *printer) decl(d Decl) {
	switch d := d.(type) {
	case *Clause:
		for i, x := range d.Descs {
			if i > 0 {
				p.put(",\n")
			}
			p.put(x.text())
		}
		if d.Pred != nil {
			p.put("\n/")
			var e printer
			e.expr(d.Pred, precComma)
			if strings.HasPrefix(e.String(), "*") {
				p.put(" ") // not a comment
			}
			p.put(e.String(), "/")
		}
		if d.HasBody {
			p.put("\n{")
			p.stmts(d.Body)
			p.put("}")
		}
	case *VarDecl:
		p.spec(d.Spec)
		p.declarators(d.Vars)
		p.put(";")
	case *TypeDecl:
		p.spec(d.Spec)
		p.declarators(d.Names)
		p.put(";")
	case *Inline:
		p.put("inline ")
		p.spec(d.Spec)
		p.declarators([]*Declarator{d.Decl})
		p.put(" = ")
		p.expr(d.X, precAssign)
		p.put(";")
	case *Translator:
		p.put("translator ")
		p.typeName(d.Dst)
		p.put(" < ")
		p.typeName(d.Src)
		if d.Param != "" {
			p.put(" ", d.Param)
		}
		p.put(" > {")
		p.indent++
		for _, m := range d.Members {
			p.line()
			p.put(m.Name, " = ")
			p.expr(m.X, precAssign)
			p.put(";")
		}
		p.indent--
		p.line()
		p.put("};")
	case *Provider:
		p.put("provider ", d.Name, " {")
		p.indent++
		for _, b := range d.Probes {
			p.line()
			p.put("probe ", b.Name, "(", p.params(b.Args, false), ")")
			if b.Translated != nil {
				p.put(" : (", p.params(b.Translated, false), ")")
			}
			p.put(";")
		}
		p.indent--
		p.line()
		p.put("};")
	}
}

// stmts prints the inside of braces and the indentation before the closing one.
func (p *printer) stmts(list []Stmt) {
	p.indent++
	for _, s := range list {
		p.line()
		p.stmt(s)
	}
	p.indent--
	p.line()
}

func (p *printer) stmt(s Stmt) {
	switch s := s.(type) {
	case *ExprStmt:
		if s.X != nil {
			p.expr(s.X, precComma)
		}
		p.put(";")
	case *Block:
		p.put("{")
		p.stmts(s.Stmts)
		p.put("}")
	case *If:
		p.put("if (")
		p.expr(s.Cond, precComma)
		p.put(") {")
		p.stmts(s.Then)
		p.put("}")
		if s.Else == nil {
			return
		}
		p.put(" else ")
		if len(s.Else) == 1 {
			if e, ok := s.Else[0].(*If); ok {
				p.stmt(e)
				return
			}
		}
		p.put("{")
		p.stmts(s.Else)
		p.put("}")
	}
}

// Binding strength, weakest first. The binary operators lie between precCond
// and precCast.
const (
	precComma = iota
	precAssign
	precCond
	precCast = iota + 11
	precUnary
	precPostfix
)

// expr prints x, in parentheses if it binds less than least.
func (p *printer) expr(x Expr, least int) {
	prec := precPostfix
	switch x := x.(type) {
	case *Binary:
		prec = precComma
		if x.Op != Comma {
			prec = precCond + x.Op.precedence()
		}
	case *Assign:
		prec = precAssign
	case *Cond:
		prec = precCond
	case *Cast:
		prec = precCast
	case *Unary, *Sizeof, *Stringof:
		prec = precUnary
	}
	if prec < least {
		p.put("(")
		defer p.put(")")
	}
	switch x := x.(type) {
	case *Name:
		switch {
		case x.Class == Self:
			p.put("self->")
		case x.Class == This:
			p.put("this->")
		case x.Scoped:
			p.put(x.Module, "`")
		}
		p.put(x.Name)
	case *IntLit:
		if x.Text != "" {
			p.put(x.Text)
		} else {
			p.put(strconv.FormatUint(x.Value, 10), x.Suffix)
		}
	case *StringLit:
		p.put(Quote(x.Value))
	case *FloatLit:
		p.put(x.Text)
	case *Macro:
		if x.String {
			p.put("$")
		}
		p.put("$", x.Name)
	case *Unary:
		p.put(x.Op.String())
		q := printer{indent: p.indent}
		if x.Op == Inc || x.Op == Dec {
			q.expr(x.X, precUnary)
		} else {
			q.expr(x.X, precCast)
		}
		op := x.Op.String()
		if s := q.String(); s[0] == op[len(op)-1] {
			p.put(" ") // - -x is not --x
		}
		p.put(q.String())
	case *Postfix:
		p.expr(x.X, precPostfix)
		p.put(x.Op.String())
	case *Binary:
		p.expr(x.X, prec)
		if x.Op == Comma {
			p.put(", ")
		} else {
			p.put(" ", x.Op.String(), " ")
		}
		p.expr(x.Y, prec+1)
	case *Assign:
		p.expr(x.X, precUnary)
		if x.Op == Assign_ {
			p.put(" = ")
		} else {
			p.put(" ", x.Op.String(), "= ")
		}
		p.expr(x.Y, precAssign)
	case *Cond:
		p.expr(x.C, precCond+1)
		p.put(" ? ")
		p.expr(x.X, precComma)
		p.put(" : ")
		p.expr(x.Y, precCond)
	case *Call:
		p.expr(x.Fun, precPostfix)
		p.put("(")
		p.args(x.Args)
		p.put(")")
	case *Index:
		p.expr(x.X, precPostfix)
		p.put("[")
		p.args(x.Args)
		p.put("]")
	case *Member:
		p.expr(x.X, precPostfix)
		if x.Arrow {
			p.put("->")
		} else {
			p.put(".")
		}
		p.put(x.Name)
	case *Cast:
		p.put("(")
		p.typeName(x.Type)
		p.put(")")
		p.expr(x.X, precCast)
	case *Sizeof:
		if x.Type != nil {
			p.put("sizeof (")
			p.typeName(x.Type)
			p.put(")")
			return
		}
		p.put("sizeof ")
		p.expr(x.X, precUnary)
	case *Offsetof:
		p.put("offsetof(")
		p.typeName(x.Type)
		p.put(", ", x.Member, ")")
	case *Stringof:
		p.put("stringof ")
		p.expr(x.X, precCast)
	case *Xlate:
		p.put("xlate <")
		p.typeName(x.Type)
		p.put("> (")
		p.expr(x.X, precComma)
		p.put(")")
	case *Agg:
		p.put("@", x.Name)
		if x.Keys != nil {
			p.put("[")
			p.args(x.Keys)
			p.put("]")
		}
	case *Paren:
		p.put("(")
		p.expr(x.X, precComma)
		p.put(")")
	default:
		panic(fmt.Sprintf("syntax.Print: %T", x))
	}
}

func (p *printer) args(list []Expr) {
	for i, x := range list {
		if i > 0 {
			p.put(", ")
		}
		p.expr(x, precAssign)
	}
}

func (p *printer) typeName(t *TypeName) {
	p.spec(t.Spec)
	if s := p.declarator(t.Decl); s != "" {
		p.put(" ", s)
	}
}

func (p *printer) spec(d *DeclSpec) {
	scope := ""
	if d.Scoped {
		scope = d.Module + "`"
	}
	sep := ""
	word := func(s string) {
		p.put(sep, s)
		sep = " "
	}
	if d.Storage != "" {
		word(d.Storage)
	}
	for _, w := range d.Words {
		word(w)
	}
	switch {
	case d.Type != "":
		word(scope + d.Type)
	case d.Struct != nil:
		p.put(sep)
		p.structSpec(d.Struct, scope)
	case d.Enum != nil:
		p.put(sep)
		p.enumSpec(d.Enum, scope)
	case onlyQualifiers(d.Words):
		word("int") // as C understood it once
	}
}

func (p *printer) structSpec(s *StructSpec, scope string) {
	kind := "struct"
	if s.Union {
		kind = "union"
	}
	p.put(kind)
	if scope+s.Tag != "" {
		p.put(" ", scope, s.Tag)
	}
	if !s.HasBody {
		return
	}
	p.put(" {")
	p.indent++
	for _, f := range s.Fields {
		p.line()
		p.field(f)
	}
	p.indent--
	p.line()
	p.put("}")
}

func (p *printer) field(f *FieldDecl) {
	p.spec(f.Spec)
	for i, v := range f.Vars {
		if i > 0 {
			p.put(",")
		}
		if s := p.declarator(v); s != "" {
			p.put(" ", s)
		}
		if v.Bits != nil {
			p.put(" : ")
			p.expr(v.Bits, precCond)
		}
	}
	p.put(";")
}

func (p *printer) enumSpec(e *EnumSpec, scope string) {
	p.put("enum")
	if scope+e.Tag != "" {
		p.put(" ", scope, e.Tag)
	}
	if !e.HasBody {
		return
	}
	p.put(" {")
	p.indent++
	for i, v := range e.Values {
		if i > 0 {
			p.put(",")
		}
		p.line()
		p.put(v.Name)
		if v.X != nil {
			p.put(" = ")
			p.expr(v.X, precAssign)
		}
	}
	p.indent--
	p.line()
	p.put("}")
}

func (p *printer) declarators(list []*Declarator) {
	for i, d := range list {
		if i > 0 {
			p.put(",")
		}
		p.put(" ", p.declarator(d))
	}
}

// declarator builds the text from the name outwards. A pointer inside an array
// or function needs parentheses.
func (p *printer) declarator(d *Declarator) string {
	s := d.Name
	pointer := false
	for _, part := range d.Parts {
		if part.Pointer {
			q := "*" + strings.Join(part.Quals, " ")
			if len(part.Quals) > 0 && s != "" {
				q += " "
			}
			s, pointer = q+s, true
			continue
		}
		if pointer {
			s, pointer = "("+s+")", false
		}
		switch {
		case part.Assoc != nil:
			s += "[" + p.params(part.Assoc, part.Variadic) + "]"
		case part.Len != nil:
			q := printer{indent: p.indent}
			q.expr(part.Len, precCond)
			s += "[" + q.String() + "]"
		case part.Func:
			s += "(" + p.params(part.Params, part.Variadic) + ")"
		default:
			s += "[]"
		}
	}
	return s
}

func (p *printer) params(list []*ParamDecl, variadic bool) string {
	q := printer{indent: p.indent}
	for i, d := range list {
		if i > 0 {
			q.put(", ")
		}
		q.spec(d.Spec)
		if s := q.declarator(d.Decl); s != "" {
			q.put(" ", s)
		}
	}
	if variadic {
		if len(list) > 0 {
			q.put(", ")
		}
		q.put("...")
	}
	return q.String()
}

// Quote makes a D string constant of s: C escapes, octal for control
// characters, other bytes as they are.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		c := s[i]
		if j := strings.IndexByte("\a\b\f\n\r\t\v\"\\", c); j >= 0 {
			b.WriteByte('\\')
			b.WriteByte("abfnrtv\"\\"[j])
		} else if c < 0x20 || c == 0x7f {
			fmt.Fprintf(&b, "\\%03o", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
