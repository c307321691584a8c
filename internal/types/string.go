package types

import (
	"math"
	"strconv"
	"strings"
)

// maxDepth bounds how deep a type is followed when it is printed or searched.
// No C type in real life comes near; a broken BTF blob may.
const maxDepth = 64

func (t *Basic) String() string     { return t.Name }
func (t *Pointer) String() string   { return Decl(t, "") }
func (t *Array) String() string     { return Decl(t, "") }
func (t *Func) String() string      { return Decl(t, "") }
func (t *Qualified) String() string { return Decl(t, "") }
func (t *Typedef) String() string   { return t.Name }

func (t *Struct) String() string {
	kw := "struct"
	if t.Union {
		kw = "union"
	}
	return kw + " " + tag(t.Tag)
}

func (t *Enum) String() string { return "enum " + tag(t.Tag) }

func tag(s string) string {
	if s == "" {
		return "{...}"
	}
	return s
}

// Decl prints the C declaration of name as a t: Decl(t, "f") of a pointer to
// a function gives "int (*f)(int)". With name "" it is t.String().
func Decl(t Type, name string) string {
	base, decl := declarator(t, name, 0)
	if decl == "" {
		return base
	}
	return base + " " + decl
}

// declarator splits t into its base type and what stands round the name:
// from the name outwards, pointers to the left, arrays and functions to the
// right, with parentheses where a pointer is inside an array or function.
func declarator(t Type, in string, depth int) (base, decl string) {
	for ; depth < maxDepth; depth++ {
		switch x := t.(type) {
		case *Pointer:
			in = "*" + in
			t = x.Elem
		case *Qualified:
			if p, ok := x.Type.(*Pointer); ok {
				// "char *const p"
				if in != "" {
					in = " " + in
				}
				in = "*" + x.words() + in
				t = p.Elem
				continue
			}
			b, d := declarator(x.Type, in, depth+1)
			return x.words() + " " + b, d
		case *Array:
			if strings.HasPrefix(in, "*") {
				in = "(" + in + ")"
			}
			if x.Flexible {
				in += "[]"
			} else {
				in += "[" + strconv.FormatInt(x.N, 10) + "]"
			}
			t = x.Elem
		case *Func:
			if strings.HasPrefix(in, "*") {
				in = "(" + in + ")"
			}
			in += x.params(depth + 1)
			t = x.Ret
		case nil:
			return "void", in
		default:
			return x.String(), in
		}
	}
	return "...", in
}

func (t *Func) params(depth int) string {
	if depth > 8 {
		return "(...)"
	}
	var b strings.Builder
	b.WriteByte('(')
	for i, p := range t.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		base, decl := declarator(p.Type, "", depth)
		b.WriteString(base)
		if decl != "" {
			b.WriteByte(' ')
			b.WriteString(decl)
		}
	}
	if t.Variadic {
		if len(t.Params) > 0 {
			b.WriteString(", ")
		}
		b.WriteString("...")
	}
	b.WriteByte(')')
	return b.String()
}

func (t *Qualified) words() string {
	var w []string
	if t.Const {
		w = append(w, "const")
	}
	if t.Volatile {
		w = append(w, "volatile")
	}
	if t.Restrict {
		w = append(w, "restrict")
	}
	return strings.Join(w, " ")
}

func (t *Basic) Size() int64 {
	if t.Kind == DString {
		return t.Len
	}
	return t.Bytes
}

func (t *Pointer) Size() int64 {
	if t.ILP32 {
		return 4
	}
	return 8
}

// Size of an array too large to address is capped, never negative.
func (t *Array) Size() int64 {
	e := t.Elem.Size()
	if t.N <= 0 || e <= 0 {
		return 0
	}
	if t.N > math.MaxInt64/e {
		return math.MaxInt64
	}
	return t.N * e
}

func (t *Struct) Size() int64    { return t.Bytes }
func (t *Enum) Size() int64      { return t.Bytes }
func (t *Func) Size() int64      { return 0 }
func (t *Typedef) Size() int64   { return t.Type.Size() }
func (t *Qualified) Size() int64 { return t.Type.Size() }

func (t *Basic) Align() int64 {
	if t.Kind == DString || t.Kind >= Dynamic {
		return 1
	}
	if t.AlignB > 0 {
		return t.AlignB
	}
	return max(t.Bytes, 1)
}

func (t *Pointer) Align() int64 { return t.Size() }
func (t *Array) Align() int64   { return t.Elem.Align() }
func (t *Struct) Align() int64 {
	t.Members()
	return max(t.AlignB, 1)
}
func (t *Enum) Align() int64      { return max(t.Bytes, 1) }
func (t *Func) Align() int64      { return 1 }
func (t *Typedef) Align() int64   { return t.Type.Align() }
func (t *Qualified) Align() int64 { return t.Type.Align() }

// Members are the fields in order of declaration, filled from BTF on first use.
// It may be called from several goroutines.
func (t *Struct) Members() []Field {
	if t.Complete != nil {
		t.once.Do(func() { t.Complete(t) })
	}
	return t.Fields
}
