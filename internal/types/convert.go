package types

// Unqualify takes const, volatile and restrict off the top of t; a typedef
// under them stays.
func Unqualify(t Type) Type {
	for {
		q, ok := t.(*Qualified)
		if !ok {
			return t
		}
		t = q.Type
	}
}

// Underlying goes through typedefs and qualifiers to the type meant.
func Underlying(t Type) Type {
	for {
		switch x := t.(type) {
		case *Qualified:
			t = x.Type
		case *Typedef:
			t = x.Type
		default:
			return t
		}
	}
}

func kindOf(t Type) (Kind, bool) {
	b, ok := Underlying(t).(*Basic)
	if !ok {
		return 0, false
	}
	return b.Kind, true
}

func isKind(t Type, k Kind) bool {
	got, ok := kindOf(t)
	return ok && got == k
}

// IsInteger reports an integer, character, boolean or enum type.
func IsInteger(t Type) bool {
	switch x := Underlying(t).(type) {
	case *Basic:
		return x.Kind == Bool || x.Kind == Char || x.Kind == Int
	case *Enum:
		return true
	}
	return false
}

// IsSigned reports whether values of t are sign extended. An enum is signed
// when one of its constants is negative.
func IsSigned(t Type) bool {
	switch x := Underlying(t).(type) {
	case *Basic:
		return x.Signed
	case *Enum:
		return x.Signed
	}
	return false
}

func IsVoid(t Type) bool    { return isKind(t, Void) }
func IsFloat(t Type) bool   { return isKind(t, Float) }
func IsString(t Type) bool  { return isKind(t, DString) }
func IsDynamic(t Type) bool { return isKind(t, Dynamic) }

// IsStack reports the values of stack() and ustack().
func IsStack(t Type) bool { return isKind(t, Stack) || isKind(t, UStack) }

// IsUStack reports the values of ustack() and jstack().
func IsUStack(t Type) bool { return isKind(t, UStack) }

// IsPointer reports a pointer proper; see IsPointerLike for arrays.
func IsPointer(t Type) bool {
	_, ok := Underlying(t).(*Pointer)
	return ok
}

func IsArray(t Type) bool {
	_, ok := Underlying(t).(*Array)
	return ok
}

func IsFunc(t Type) bool {
	_, ok := Underlying(t).(*Func)
	return ok
}

func IsEnum(t Type) bool {
	_, ok := Underlying(t).(*Enum)
	return ok
}

// IsPointerLike reports pointers and arrays, which D treats as pointers.
func IsPointerLike(t Type) bool { return IsPointer(t) || IsArray(t) }

func IsStructOrUnion(t Type) bool {
	_, ok := Underlying(t).(*Struct)
	return ok
}

// IsScalar reports integers and pointers: what fits a register, may be a
// condition, and can be stored by value.
func IsScalar(t Type) bool { return IsInteger(t) || IsPointer(t) }

// IsArith reports the types D calculates with: integers only.
func IsArith(t Type) bool { return IsInteger(t) }

// IsByRef reports types whose values D handles by address.
func IsByRef(t Type) bool {
	return IsStructOrUnion(t) || IsArray(t) || IsString(t) || IsFunc(t)
}

// IsStrCompat reports types D turns into a string by itself: string, and
// pointers to and arrays of characters of any signedness.
func IsStrCompat(t Type) bool {
	if IsString(t) {
		return true
	}
	e := Elem(t)
	return e != nil && isChar(e)
}

func isChar(t Type) bool {
	b, ok := Underlying(t).(*Basic)
	return ok && (b.Kind == Char || b.Kind == Int && b.Bytes == 1)
}

// IsCharArray reports an array of characters.
func IsCharArray(t Type) bool {
	a, ok := Underlying(t).(*Array)
	return ok && isChar(a.Elem)
}

// Elem is what a pointer points to or an array consists of, else nil.
func Elem(t Type) Type {
	switch x := Underlying(t).(type) {
	case *Pointer:
		return x.Elem
	case *Array:
		return x.Elem
	}
	return nil
}

// ElemSize is the step of arithmetic on a pointer or array: 1 for void and
// functions as in DTrace and GNU C; 0 for an incomplete element, on which
// there is no arithmetic.
func ElemSize(t Type) int64 {
	e := Elem(t)
	if e == nil || IsVoid(e) || IsFunc(e) {
		return 1
	}
	return e.Size()
}

// IsUser reports a pointer into the address space of the traced process.
func IsUser(t Type) bool {
	p, ok := Underlying(t).(*Pointer)
	return ok && p.User
}

// NewPointer is a pointer to t.
func NewPointer(t Type) *Pointer { return &Pointer{Elem: t} }

// Decay turns an array into the pointer to its first element and a function
// into a pointer to it, as C does with a value.
func Decay(t Type) Type {
	switch x := Underlying(t).(type) {
	case *Array:
		return &Pointer{Elem: x.Elem}
	case *Func:
		return &Pointer{Elem: x}
	}
	return t
}

// Identical reports whether a and b are one type: typedefs and qualifiers
// looked through, integers equal in kind, width and signedness, structs,
// unions and enums by identity, or by tag within one scope.
func Identical(a, b Type) bool { return identical(a, b, 0) }

func identical(a, b Type, depth int) bool {
	if depth > maxDepth {
		return false
	}
	depth++
	a, b = Underlying(a), Underlying(b)
	if a == b {
		return true
	}
	switch x := a.(type) {
	case *Basic:
		y, ok := b.(*Basic)
		if !ok || x.Kind != y.Kind {
			return false
		}
		// Plain char is one type whatever its sign: kernels from 6.2 on are
		// built with -funsigned-char.
		return x.Kind == DString || x.Kind == Char || x.Bytes == y.Bytes && x.Signed == y.Signed
	case *Pointer:
		y, ok := b.(*Pointer)
		return ok && x.User == y.User && x.ILP32 == y.ILP32 && identical(x.Elem, y.Elem, depth)
	case *Array:
		y, ok := b.(*Array)
		return ok && x.N == y.N && identical(x.Elem, y.Elem, depth)
	case *Struct:
		y, ok := b.(*Struct)
		return ok && x.Union == y.Union && x.Tag != "" && x.Tag == y.Tag && x.Scope == y.Scope
	case *Enum:
		y, ok := b.(*Enum)
		return ok && x.Tag != "" && x.Tag == y.Tag && x.Scope == y.Scope
	case *Func:
		y, ok := b.(*Func)
		if !ok || len(x.Params) != len(y.Params) || x.Variadic != y.Variadic || depth > 8 ||
			!identical(x.Ret, y.Ret, depth) {
			return false
		}
		for i := range x.Params {
			if !identical(x.Params[i].Type, y.Params[i].Type, depth) {
				return false
			}
		}
		return true
	}
	return false
}

// Compatible is DTrace's test of two referenced types (ctf_type_compat):
// looser than Identical in that structs, unions and enums of one tag from
// different scopes are the same, int and enum of one width mix, arrays
// compare by length and element, and all functions are alike.
func Compatible(a, b Type) bool { return compatible(a, b, 0) }

func compatible(a, b Type, depth int) bool {
	if depth > maxDepth {
		return false
	}
	depth++
	a, b = Underlying(a), Underlying(b)
	if a == b {
		return true
	}
	switch x := a.(type) {
	case *Basic:
		switch y := b.(type) {
		case *Basic:
			if isChar(x) && isChar(y) {
				return x.Kind == y.Kind && x.Kind == Char || x.Signed == y.Signed
			}
			return x.Kind == y.Kind && (x.Kind == DString || x.Bytes == y.Bytes && x.Signed == y.Signed)
		case *Enum:
			return x.Kind == Int && x.Bytes == y.Bytes
		}
	case *Enum:
		switch y := b.(type) {
		case *Enum:
			return x.Tag != "" && x.Tag == y.Tag
		case *Basic:
			return y.Kind == Int && x.Bytes == y.Bytes
		}
	case *Pointer:
		y, ok := b.(*Pointer)
		return ok && (IsVoid(x.Elem) || IsVoid(y.Elem) || compatible(x.Elem, y.Elem, depth))
	case *Array:
		y, ok := b.(*Array)
		return ok && x.N == y.N && compatible(x.Elem, y.Elem, depth)
	case *Struct:
		y, ok := b.(*Struct)
		return ok && x.Union == y.Union && x.Tag != "" && x.Tag == y.Tag &&
			(x.Bytes == y.Bytes || x.Incomplete || y.Incomplete)
	case *Func:
		_, ok := b.(*Func)
		return ok
	}
	return false
}

// PtrCompat reports whether l and r may be compared or assigned as pointers,
// and the more specific of the two. lzero and rzero tell that the operand is
// the integer constant 0, the only integer that is compatible with a pointer.
func PtrCompat(l Type, lzero bool, r Type, rzero bool) (Type, bool) {
	if IsDynamic(l) || IsDynamic(r) {
		return nil, false
	}
	lint, rint := IsInteger(l), IsInteger(r)
	switch {
	case lint && rint, lint && !lzero, rint && !rzero:
		return nil, false
	case lint:
		return r, IsPointerLike(r)
	case rint:
		return l, IsPointerLike(l)
	}
	if !IsPointerLike(l) || !IsPointerLike(r) {
		return nil, false
	}
	if IsPointer(l) && IsPointer(r) && IsUser(l) != IsUser(r) {
		return nil, false
	}
	le, re := Elem(l), Elem(r)
	if !IsVoid(le) && !IsVoid(re) && !Compatible(le, re) {
		return nil, false
	}
	if IsVoid(re) {
		return l, true
	}
	return r, true
}

// ArgCompat reports whether an argument of type arg may be passed where param
// is asked for, or used as a part of an associative array's key. zero tells
// that arg is the integer constant 0.
func ArgCompat(arg Type, zero bool, param Type) bool {
	switch {
	case IsInteger(arg) && IsInteger(param):
		return true
	case IsStrCompat(arg) && IsStrCompat(param):
		return true
	case IsStack(arg) && IsStack(param):
		return true
	}
	ak, aok := kindOf(arg)
	pk, pok := kindOf(param)
	if aok && pok && ak == pk && (ak == SymAddr || ak == USymAddr) {
		return true
	}
	if IsFunc(arg) || IsStructOrUnion(arg) {
		return Compatible(arg, param)
	}
	_, ok := PtrCompat(arg, zero, param, false)
	return ok
}

// Promote is C's integer promotion: narrower than int becomes int (all its
// values fit); an enum is int, or long where it is that wide.
func Promote(t Type) Type {
	switch x := Underlying(t).(type) {
	case *Basic:
		if (x.Kind == Int || x.Kind == Char || x.Kind == Bool) && x.Bytes < 4 {
			return TInt
		}
	case *Enum:
		switch {
		case x.Bytes <= 4: // C gives enum constants the type int; D follows it
			return TInt
		case x.Signed:
			return TLong
		default:
			return TULong
		}
	}
	return t
}

// rank orders integer types as C99 6.3.1.1 does.
func rank(t Type) int {
	b, ok := Underlying(t).(*Basic)
	switch {
	case !ok:
		return 3
	case b.Kind == Bool:
		return 0
	case b.Bytes <= 1:
		return 1
	case b.Bytes == 2:
		return 2
	case b.Bytes == 4:
		return 3
	case b.Bytes == 8:
		if isLongLong(b.Name) {
			return 5
		}
		return 4
	}
	return 6
}

// isLongLong tells the two 8-byte ranks apart, whatever order a compiler
// writes the words in ("long long unsigned int").
func isLongLong(name string) bool {
	n := 0
	for i := 0; i+4 <= len(name); i++ {
		if name[i:i+4] == "long" {
			n++
		}
	}
	return n == 2
}

// UsualArith is the type of a op b for the arithmetic operators: C's usual
// arithmetic conversions on integers. Both operands must be IsInteger.
func UsualArith(a, b Type) Type {
	a, b = Promote(a), Promote(b)
	ra, rb := rank(a), rank(b)
	sa, sb := IsSigned(a), IsSigned(b)
	hi, lo := a, b
	if rb > ra {
		hi, lo = b, a
	}
	switch {
	case sa == sb:
		return hi
	case ra == rb:
		if sa {
			return b
		}
		return a
	case !IsSigned(hi):
		return hi
	case hi.Size() > lo.Size():
		return hi // the signed type holds all values of the unsigned one
	}
	return unsignedOf(hi)
}

func unsignedOf(t Type) Type {
	switch rank(t) {
	case 3:
		return TUInt
	case 4:
		return TULong
	case 5:
		return TULongLong
	case 6:
		return TUInt128
	}
	return t
}

// Convert gives the value a 64-bit register holds once v was converted to the
// scalar type to: truncated to its width and sign or zero extended. _Bool is
// 0 or 1. Types that are no scalars leave v alone.
func Convert(v int64, to Type) int64 {
	if isKind(to, Bool) {
		if v != 0 {
			return 1
		}
		return 0
	}
	if !IsScalar(to) {
		return v
	}
	signed := IsSigned(to)
	switch to.Size() {
	case 1:
		if signed {
			return int64(int8(v))
		}
		return int64(uint8(v))
	case 2:
		if signed {
			return int64(int16(v))
		}
		return int64(uint16(v))
	case 4:
		if signed {
			return int64(int32(v))
		}
		return int64(uint32(v))
	}
	return v
}

// ForConst is the type of an integer constant, C99 6.4.4.1: the first of int,
// unsigned int, long, unsigned long, long long, unsigned long long that holds
// it, starting where the suffix says, skipping unsigned ones for decimals. ok
// is false when nothing holds it: a plain decimal above the largest long long.
func ForConst(v uint64, decimal bool, suffix string) (t Type, ok bool) {
	return forConst(v, decimal, suffix, constTypes)
}

func forConst(v uint64, decimal bool, suffix string, list []constType) (t Type, ok bool) {
	u, l := 0, 0
	for _, c := range suffix {
		switch c {
		case 'u', 'U':
			u = 1
		case 'l', 'L':
			l++
		}
	}
	step := 1
	if decimal || u == 1 {
		step = 2
	}
	for i := 2*l + u; i < len(list); i += step {
		if v <= list[i].max {
			return list[i].t, true
		}
	}
	return nil, false
}

type constType struct {
	t   Type
	max uint64
}

var constTypes = []constType{
	{TInt, 1<<31 - 1}, {TUInt, 1<<32 - 1},
	{TLong, 1<<63 - 1}, {TULong, 1<<64 - 1},
	{TLongLong, 1<<63 - 1}, {TULongLong, 1<<64 - 1},
}
