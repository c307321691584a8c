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

// NewIntLit makes a decimal constant without suffix.
func NewIntLit(pos Pos, v uint64) *IntLit {
	return &IntLit{node: node{pos}, Text: strconv.FormatUint(v, 10), Value: v, Decimal: true}
}

// NewBinary makes x op y.
func NewBinary(pos Pos, op Token, x, y Expr) *Binary { return &Binary{node{pos}, op, x, y} }

// NewParen makes (x).
func NewParen(pos Pos, x Expr) *Paren { return &Paren{node{pos}, x} }

// NewCall makes fun(args…).
func NewCall(pos Pos, fun string, args ...Expr) *Call {
	return &Call{node{pos}, NewName(pos, fun), args}
}
