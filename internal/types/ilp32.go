package types

// Types of 32-bit x86 programs, where they differ from those of 64-bit ones in
// size or, within structs, in alignment (System V ABI for the i386).
var (
	tLongLong32   = &Basic{Kind: Int, Name: "long long", Bytes: 8, Signed: true, AlignB: 4}
	tULongLong32  = &Basic{Kind: Int, Name: "unsigned long long", Bytes: 8, AlignB: 4}
	tDouble32     = &Basic{Kind: Float, Name: "double", Bytes: 8, Signed: true, AlignB: 4}
	tLongDouble32 = &Basic{Kind: Float, Name: "long double", Bytes: 12, Signed: true, AlignB: 4}
)

var ilp32 = map[Type]Type{
	TLong: TLong32, TULong: TULong32, TLongLong: tLongLong32, TULongLong: tULongLong32,
	TDouble: tDouble32, TLongDouble: tLongDouble32,
}

// wide are the typedefs for 64 bits, whatever the width of a long.
var wide = map[string]Type{
	"int64_t": tLongLong32, "uint64_t": tULongLong32, "u_int64_t": tULongLong32,
	"intmax_t": tLongLong32, "uintmax_t": tULongLong32,
}

// ILP32 is the type that a 32-bit program means by the name of t, a basic type
// or a typedef of D's; t itself where that is no other.
func ILP32(t Type) Type {
	if n, ok := ilp32[t]; ok {
		return n
	}
	d, ok := t.(*Typedef)
	if !ok || d.Scope != "D" {
		return t
	}
	n := wide[d.Name]
	if n == nil {
		n = ILP32(d.Type)
	}
	if n == d.Type {
		return t
	}
	return &Typedef{Name: d.Name, Type: n, Scope: d.Scope}
}

// Widen makes a pointer of 4 bytes one of 8: D's own variables and values hold
// addresses of the kernel, too.
func Widen(t Type) Type {
	if p, ok := Underlying(t).(*Pointer); ok && p.ILP32 && !p.User {
		return &Pointer{Elem: p.Elem}
	}
	return t
}

// ForConst32 is ForConst for 32-bit programs.
func ForConst32(v uint64, decimal bool, suffix string) (Type, bool) {
	return forConst(v, decimal, suffix, []constType{
		{TInt, 1<<31 - 1}, {TUInt, 1<<32 - 1},
		{TLong32, 1<<31 - 1}, {TULong32, 1<<32 - 1},
		{tLongLong32, 1<<63 - 1}, {tULongLong32, 1<<64 - 1},
	})
}
