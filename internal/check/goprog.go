package check

import (
	"godtrace/internal/dif"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// Values of Go programs. A string there is a pointer and a length; where its
// value is wanted it is D's string of that length. A slice is a pointer, a
// length and a capacity.

// goPair tells strings and slices by their members, whatever they are called.
func goPair(t types.Type, first string) (*types.Struct, bool) {
	s, ok := types.Underlying(t).(*types.Struct)
	if !ok || !s.Go {
		return nil, false
	}
	m := s.Members()
	return s, len(m) > 1 && m[0].Name == first && m[1].Name == "len" && types.IsPointer(m[0].Type) && m[1].Off == 8
}

// isGoString reports a string of Go, under any name of its type.
func isGoString(t types.Type) bool {
	s, ok := goPair(t, "str")
	return ok && len(s.Members()) == 2
}

// hole reports whether a value is, or holds, a part of an argument that cannot be
// had, and why.
func hole(x Expr) string {
	switch x.(type) {
	case *Builtin, *Mem:
	default:
		return ""
	}
	at, size := int64(0), x.Type().Size()
	for {
		switch y := x.(type) {
		case *Builtin:
			for _, p := range y.Parts {
				if p.Reg < 0 && int64(p.Off) < at+size && at < int64(p.Off+p.Size) {
					return y.Hole
				}
			}
			return ""
		case *Mem:
			at, x = at+y.Off, y.Addr
		case *AddrOf:
			x = y.X
		default:
			return ""
		}
	}
}

// isGoBytes reports a slice of bytes, of which stringof() makes a string as Go's
// string() does.
func isGoBytes(t types.Type) bool {
	s, ok := goPair(t, "array")
	return ok && types.ElemSize(s.Members()[0].Type) == 1
}

// isGo reports a struct of a Go program.
func isGo(t types.Type) bool {
	s, ok := types.Underlying(t).(*types.Struct)
	return ok && s.Go
}

// goMember is what a member is called in the debugging information: ptr is the
// pointer of strings and slices.
func goMember(t types.Type, name string) string {
	if name != "ptr" {
		return name
	}
	for _, own := range []string{"str", "array"} {
		if _, ok := goPair(t, own); ok {
			return own
		}
	}
	return name
}

// goString is the value of a Go string, or the text of a slice of bytes:
// copyinstr() of its bytes, of which there may be none.
func (c *Checker) goString(v val) val {
	pos := v.pos
	wrap := func(x Expr) Expr { return x }
	var str, n Expr
	if b, ok := v.x.(*Builtin); ok && len(b.Parts) >= 2 {
		reg := func(i int) Expr {
			return &Builtin{E: E{types.TUint64, pos}, ID: dif.BUregs, Index: &Const{E{types.TInt, pos}, int64(b.Parts[i].Reg)}, Name: b.Name}
		}
		str, n = reg(0), reg(1)
	} else {
		addr, off, user := c.objectAddr(v)
		addr, wrap = c.bind(addr)
		member := func(off int64) Expr {
			return &Mem{E: E{types.TUint64, pos}, Addr: addr, Off: off, User: user || types.IsUser(addr.Type())}
		}
		str, n = member(off), member(off+8)
	}
	return val{pos: pos, x: wrap(c.goText(pos, str, n))}
}

// goText is the text of n bytes at str, of a string of Go: gostr(str, n).
func (c *Checker) goText(pos syntax.Pos, str, n Expr) Expr {
	n, wrap := c.bind(n)
	some := &Binary{E{types.TInt, pos}, syntax.Ne, n, &Const{E{types.TUint64, pos}, 0}}
	limit := &Binary{E{types.TUint64, pos}, syntax.Add, n, &Conv{E{types.TUint64, pos}, some}} // with the NUL; 0 reads nothing
	return wrap(&Call{E{types.TString, pos}, dif.SCopyinstr, []Expr{&Conv{E{types.TUintptr, pos}, str}, limit}})
}
