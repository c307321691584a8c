package syntax

import (
	"strconv"
	"strings"
)

// Makers of nodes for packages that synthesize trees.

// NewName makes a name; "mod`sym" and "`sym" give a scoped one.
func NewName(pos Pos, name string) *Name {
	n := &Name{node: node{pos}, Name: name}
	if i := strings.LastIndexByte(name, '`'); i >= 0 {
		n.Scoped, n.Module, n.Name = true, name[:i], name[i+1:]
	}
	return n
}

// NewVar makes a variable of a class: self->name, this->name or name.
func NewVar(pos Pos, class VarClass, name string) *Name {
	return &Name{node: node{pos}, Class: class, Name: name}
}

// NewIntLit makes a decimal constant without suffix.
func NewIntLit(pos Pos, v uint64) *IntLit {
	return &IntLit{node: node{pos}, Text: strconv.FormatUint(v, 10), Value: v, Decimal: true}
}

// ScanInt makes a constant from text as D writes it ("0x1f", "10ul").
func ScanInt(pos Pos, text string) (n *IntLit, err error) {
	p := newParser(pos.File, text, Options{})
	defer p.catch(&err)
	p.next()
	p.fits(Int)
	n = p.intLit()
	n.pos = pos
	p.next()
	p.fits(EOF)
	return n, nil
}

func NewStringLit(pos Pos, s string) *StringLit { return &StringLit{node{pos}, s} }

func NewUnary(pos Pos, op Token, x Expr) *Unary      { return &Unary{node{pos}, op, x} }
func NewBinary(pos Pos, op Token, x, y Expr) *Binary { return &Binary{node{pos}, op, x, y} }
func NewAssign(pos Pos, op Token, x, y Expr) *Assign { return &Assign{node{pos}, op, x, y} }
func NewCond(pos Pos, c, x, y Expr) *Cond            { return &Cond{node{pos}, c, x, y} }
func NewParen(pos Pos, x Expr) *Paren                { return &Paren{node{pos}, x} }
func NewCast(pos Pos, t *TypeName, x Expr) *Cast     { return &Cast{node{pos}, t, x} }

func NewCall(pos Pos, fun string, args ...Expr) *Call {
	return &Call{node{pos}, NewName(pos, fun), args}
}

func NewIndex(pos Pos, x Expr, args ...Expr) *Index { return &Index{node{pos}, x, args} }

func NewMember(pos Pos, x Expr, arrow bool, name string) *Member {
	return &Member{node{pos}, x, arrow, name}
}

func NewExprStmt(pos Pos, x Expr) *ExprStmt { return &ExprStmt{node{pos}, x} }

// NewProbeDesc makes a description of its parts.
func NewProbeDesc(pos Pos, provider, module, function, name string) *ProbeDesc {
	return &ProbeDesc{node: node{pos}, Provider: provider, Module: module, Func: function, Name: name, Colons: 3}
}

// NewClause makes a clause with a body.
func NewClause(pos Pos, descs []*ProbeDesc, pred Expr, body ...Stmt) *Clause {
	return &Clause{node: node{pos}, Descs: descs, Pred: pred, Body: body, HasBody: true, End: pos}
}

// NewDeclSpec makes specifiers of plain words: NewDeclSpec(pos, "unsigned", "int").
func NewDeclSpec(pos Pos, words ...string) *DeclSpec {
	return &DeclSpec{node: node{pos}, Words: words}
}

// NewDeclarator makes a declarator; name is "" for an abstract one.
func NewDeclarator(pos Pos, name string, parts ...DeclPart) *Declarator {
	return &Declarator{node: node{pos}, Name: name, Parts: parts}
}

func NewTypeName(pos Pos, spec *DeclSpec, decl *Declarator) *TypeName {
	return &TypeName{node{pos}, spec, decl}
}
