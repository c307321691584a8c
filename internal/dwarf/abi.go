package dwarf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"godtrace/internal/types"
)

// Registers of x86-64 as DWARF numbers them.
const (
	RAX  = 0
	RDX  = 1
	RCX  = 2
	RBX  = 3
	RSI  = 4
	RDI  = 5
	RBP  = 6
	RSP  = 7
	R8   = 8
	R9   = 9
	R15  = 15
	XMM0 = 17
)

// RegName names a register of x86-64.
func RegName(n int) string {
	names := [...]string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"}
	switch {
	case n >= 0 && n < len(names):
		return "%" + names[n]
	case n >= 8 && n <= 15:
		return fmt.Sprintf("%%r%d", n)
	case n >= XMM0 && n < XMM0+16:
		return fmt.Sprintf("%%xmm%d", n-XMM0)
	}
	return fmt.Sprintf("register %d", n)
}

// IntRegs hold the integer arguments, in this order.
var IntRegs = []int{RDI, RSI, RDX, RCX, R8, R9}

// Places says for each parameter where its value lies when the function is
// called: what the compiler says of the first instruction, else what the System V
// ABI for x86-64 has callers do. Functions whose callers the compiler knows
// need not follow that: of these only what the compiler says counts.
//
// The error of a place says why the value cannot be had.
func (fn *Function) Places() []Place {
	a := &abi{f: fn.file, rust: fn.Lang.IsRust()}
	out := make([]Place, len(fn.Params))
	sure := a.hiddenResult(fn) && !fn.Changed && fn.Lang.followsABI()
	for i := range fn.Params {
		p := &fn.Params[i]
		// Of a parameter that gcc took away from a function of its unit alone it may
		// say nothing; clang says that it did, of the whole function.
		quiet := p.Entry == nil && (p.listed || !p.Described)
		if p.Gone || quiet && !fn.External && strings.HasPrefix(fn.Producer, "GNU") {
			sure = false
		}
		if len(p.Entry) > 0 && p.Entry[0].Kind == PieceConst {
			sure = false // an instance made for a constant
		}
	}
	for i := range fn.Params {
		p := fn.Params[i]
		byABI := a.place(p.Type, p.ByRef)
		if sure && slices.ContainsFunc(p.Entry, func(q Piece) bool { return q.Kind == PieceNone }) {
			p.Entry = nil // a part that is not used; callers pass it all the same
		}
		said := p.Entry != nil && (p.listed || slices.Equal(p.Entry, byABI.Pieces) ||
			!sure && p.Entry[0].Kind == PieceReg && (slices.Contains(IntRegs, p.Entry[0].Reg) || a.f.wordSize() == 4))
		switch {
		case p.Entry != nil && (said || p.Entry[0].Kind != PieceReg):
			out[i] = Place{Pieces: p.Entry}
		case p.Gone || !sure:
			out[i].Err = fmt.Errorf("'%s' was optimised away: its value cannot be had at the entry of %s", p.Name, fn.Name)
			if !p.Gone {
				out[i].Err = fmt.Errorf("'%s' of %s was optimised, and the debugging information does not say where its value lies at the entry", p.Name, fn.Name)
			}
		default:
			out[i] = byABI
		}
	}
	return out
}

// Result says where the result lies when the function has returned.
func (fn *Function) Result() Place {
	t := fn.Ret
	a := &abi{f: fn.file, rust: fn.Lang.IsRust()}
	in := []int{RAX, RDX}
	size := t.Size()
	if fn.Changed {
		return Place{Err: fmt.Errorf("the result of %s was optimised: its callers do not follow the calling convention", fn.Name)}
	}
	if a.rust {
		parts, ok := a.scalars(t)
		switch {
		case size > 16:
			return Place{Pieces: []Piece{{Kind: PieceMem, Reg: RAX}}}
		case !ok && size > 8:
			return Place{Err: fmt.Errorf("how a value of type %s is returned is not known", t)}
		case !ok:
			parts = []scalar{{0, size, false}}
		}
		return inTurn(parts, in)
	}
	if a.memory(fn) {
		return Place{Pieces: []Piece{{Kind: PieceMem, Reg: RAX}}}
	}
	if fn.file.wordSize() == 4 {
		if types.IsFloat(t) || size > 8 {
			return Place{Err: errors.New("it is returned in a floating-point register")}
		}
		return inTurn([]scalar{{0, min(size, 4), false}, {4, size - 4, false}}[:(size+3)/4], in)
	}
	cls, _ := a.classify(t)
	if cls[0] == classX87 {
		return Place{Err: errors.New("it is returned in a floating-point register")}
	}
	var parts []scalar
	for i, c := range cls {
		if off := int64(i) * 8; c != classNone && off < size {
			parts = append(parts, scalar{off, min(size-off, 8), c == classSSE})
		}
	}
	return inTurn(parts, in)
}

// inTurn hands registers to the parts of a value.
func inTurn(parts []scalar, ints []int) Place {
	var out Place
	sse := XMM0
	for i, s := range parts {
		p := Piece{Kind: PieceReg, Size: s.size}
		if s.float {
			p.Reg = sse
			sse++
		} else {
			p.Reg, ints = ints[0], ints[1:]
		}
		if i+1 < len(parts) {
			p.Size = parts[i+1].off - s.off // with the padding
		}
		out.Pieces = append(out.Pieces, p)
	}
	switch len(parts) {
	case 0:
		out.Err = errors.New("an empty object is not returned")
	case 1:
		out.Pieces[0].Size = 0
	}
	return out
}

// memory reports whether the result goes to a place that the caller gives.
func (a *abi) memory(fn *Function) bool {
	size := fn.Ret.Size()
	if fn.file.wordSize() == 4 {
		return fn.ByRef || types.IsStructOrUnion(fn.Ret)
	}
	cls, ok := a.classify(fn.Ret)
	return fn.ByRef || size > 0 && !ok && cls[0] != classX87
}

// Place is where the value of a parameter lies at the entry of its function.
type Place struct {
	Pieces []Piece // lowest bytes first
	Err    error
}

// abi hands out the places of the System V ABI in the order of the parameters.
type abi struct {
	f      *File
	rust   bool
	ints   int   // general registers used
	sse    int   // vector registers used
	stack  int64 // bytes of the stack used, from the CFA
	unsure bool
}

// hiddenResult takes the register that holds the place for a large result. It
// reports false where it is not known whether there is one.
func (a *abi) hiddenResult(fn *Function) bool {
	if fn.Ret == nil {
		return true
	}
	size := fn.Ret.Size()
	if a.rust {
		if _, ok := a.scalars(fn.Ret); !ok && size > 8 && size <= 16 {
			return false
		}
		if size > 16 {
			a.ints++
		}
		return true
	}
	if a.memory(fn) {
		if a.f.wordSize() == 4 {
			a.stack += 4
		} else {
			a.ints++
		}
	}
	return true
}

type class uint8

const (
	classNone class = iota
	classInt
	classSSE
	classX87 // a long double by itself
)

// place takes the place of the next parameter.
func (a *abi) place(t types.Type, byRef bool) Place {
	size := t.Size()
	if a.rust {
		return a.placeRust(t, size)
	}
	if byRef {
		p := indirect(a.integer(8))
		if p.Kind == PieceNone {
			return Place{Err: fmt.Errorf("the address of the object, of type %s, is on the stack", t)}
		}
		return Place{Pieces: []Piece{p}}
	}
	if size == 0 {
		return Place{Err: fmt.Errorf("a value of type %s has no size", t)}
	}
	if a.f.wordSize() == 4 { // i386: all on the stack
		return Place{Pieces: []Piece{a.onStack(size, 4)}}
	}
	cls, ok := a.classify(t)
	if !ok {
		return Place{Pieces: []Piece{a.onStack(size, t.Align())}}
	}
	ints, sse := 0, 0
	for _, c := range cls {
		switch c {
		case classInt:
			ints++
		case classSSE:
			sse++
		}
	}
	if ints+sse == 0 {
		return Place{Err: fmt.Errorf("an empty object, of type %s, is not passed", t)}
	}
	if a.ints+ints > len(IntRegs) || a.sse+sse > 8 {
		return Place{Pieces: []Piece{a.onStack(size, t.Align())}}
	}
	var out Place
	for i, c := range cls {
		n := min(size-int64(i)*8, 8)
		if n <= 0 {
			break
		}
		p := Piece{Kind: PieceReg, Size: n}
		switch c {
		case classInt:
			p.Reg = IntRegs[a.ints]
			a.ints++
		case classSSE:
			if p.Size = n; i == 0 && cls[1] == classNone {
				p.Size = size // one register, whatever its width
			}
			p.Reg = XMM0 + a.sse
			a.sse++
		default:
			continue
		}
		out.Pieces = append(out.Pieces, p)
	}
	if len(out.Pieces) == 1 {
		out.Pieces[0].Size = 0
	}
	return out
}

// indirect is the object whose address lies in a register or in memory.
func indirect(p Piece) Piece {
	if p.Kind == PieceReg {
		return Piece{Kind: PieceMem, Reg: p.Reg}
	}
	return Piece{Kind: PieceNone} // a pointer on the stack
}

// integer is the next place of a number of n bytes.
func (a *abi) integer(n int64) Piece {
	if a.ints < len(IntRegs) && a.f.wordSize() == 8 {
		a.ints++
		return Piece{Kind: PieceReg, Reg: IntRegs[a.ints-1]}
	}
	return a.onStack(n, 8)
}

func (a *abi) onStack(size, align int64) Piece {
	word := a.f.wordSize()
	if align = max(align, word); word == 4 {
		align = 4
	}
	a.stack = (a.stack + align - 1) / align * align
	p := Piece{Kind: PieceCFA, Off: a.stack}
	a.stack += (size + word - 1) / word * word
	return p
}

// classify gives the classes of the two halves of a value, by the ABI's rules;
// false for what goes to memory.
func (a *abi) classify(t types.Type) (cls [2]class, ok bool) {
	if b, isBasic := types.Underlying(t).(*types.Basic); isBasic && b.Kind == types.Float && b.Bytes > 8 {
		if b.Name == "long double" {
			cls[0] = classX87
			return cls, false
		}
		cls[0] = classSSE // _Float128, one register
		return cls, true
	}
	size := t.Size()
	if arr, isArr := types.Underlying(t).(*types.Array); isArr && a.f.isVector(arr) {
		cls[0] = classSSE
		return cls, size <= 64
	}
	if size > 16 || size < 0 {
		return cls, false
	}
	budget := 1 << 10
	return cls, a.classes(t, 0, &cls, 0, &budget)
}

// classes gives the class of each eightbyte of a value at off (System V ABI,
// AMD64 supplement, 3.2.3); false where it goes to memory, or is too deep or too
// large to tell.
func (a *abi) classes(t types.Type, off int64, cls *[2]class, depth int, budget *int) bool {
	if *budget--; *budget < 0 || depth > 32 {
		return false
	}
	merge := func(c class) bool {
		size := t.Size()
		if size <= 0 || off%min(size, 8) != 0 || off < 0 || off+size > 16 {
			return size == 0 // what is not aligned goes to memory
		}
		for i := off / 8; i <= (off+size-1)/8; i++ {
			if cls[i] == classNone || cls[i] == classSSE && c == classInt {
				cls[i] = c
			}
		}
		return true
	}
	switch x := types.Underlying(t).(type) {
	case *types.Basic:
		if x.Kind == types.Float {
			if x.Bytes > 8 {
				return false
			}
			return merge(classSSE)
		}
		if x.Kind == types.Void {
			return true
		}
		return merge(classInt)
	case *types.Pointer, *types.Enum:
		return merge(classInt)
	case *types.Array:
		if a.f.isVector(x) {
			return merge(classSSE)
		}
		n := x.Elem.Size()
		for i := int64(0); n > 0 && i < x.N && off+i*n < 16; i++ {
			if !a.classes(x.Elem, off+i*n, cls, depth+1, budget) {
				return false
			}
		}
		return true
	case *types.Struct:
		for _, m := range x.Members() {
			if m.Bits > 0 {
				for b := m.BitOff / 64; b <= (m.BitOff+m.Bits-1)/64; b++ {
					if i := off/8 + b; i < 2 {
						cls[i] = classInt
					}
				}
				continue
			}
			if !a.classes(m.Type, off+m.Off, cls, depth+1, budget) {
				return false
			}
		}
		return true
	}
	return false
}

// scalar is a number or pointer in a larger value.
type scalar struct {
	off, size int64
	float     bool
}

// scalars are the numbers a value consists of, if those are one or two, which
// Rust passes in a register each.
func (a *abi) scalars(t types.Type) ([]scalar, bool) {
	var out []scalar
	budget := 256
	var walk func(t types.Type, off int64, depth int) bool
	walk = func(t types.Type, off int64, depth int) bool {
		if budget--; budget < 0 || depth > 16 {
			return false
		}
		switch x := types.Underlying(t).(type) {
		case *types.Basic, *types.Pointer, *types.Enum:
			if n := t.Size(); n > 8 {
				return false
			} else if s := (scalar{off, n, types.IsFloat(t)}); n > 0 && !slices.Contains(out, s) {
				out = append(out, s) // the variants of an enum share theirs
			}
			return len(out) <= 2
		case *types.Array:
			return x.Size() == 0 || x.N == 1 && walk(x.Elem, off, depth+1)
		case *types.Struct:
			if x.Union && x.Bytes > 0 && !a.f.isEnum(x) {
				return false
			}
			for _, m := range x.Members() {
				if m.Bits > 0 || !walk(m.Type, off+m.Off, depth+1) {
					return false
				}
			}
			return true
		}
		return false
	}
	if !walk(t, 0, 0) || len(out) == 0 {
		return nil, false
	}
	slices.SortFunc(out, func(a, b scalar) int { return cmp.Compare(a.off, b.off) })
	return out, len(out) == 1 || out[0].off+out[0].size <= out[1].off
}

// placeRust takes the next place by the convention of Rust, which is nowhere
// promised: one or two numbers in registers, what is larger than two by address.
func (a *abi) placeRust(t types.Type, size int64) Place {
	if size == 0 {
		return Place{Err: fmt.Errorf("a value of type %s has no size", t)}
	}
	if size > 16 {
		p := indirect(a.integer(8))
		if p.Kind == PieceNone {
			return Place{Err: fmt.Errorf("the address of the value, of type %s, is on the stack", t)}
		}
		return Place{Pieces: []Piece{p}}
	}
	parts, ok := a.scalars(t)
	if !ok && size <= 8 {
		parts, ok = []scalar{{0, size, false}}, true
	}
	if !ok || a.unsure {
		a.unsure = true
		return Place{Err: fmt.Errorf("how a value of type %s is passed is not known", t)}
	}
	var out Place
	for _, s := range parts {
		var p Piece
		if s.float && a.sse < 8 {
			p = Piece{Kind: PieceReg, Reg: XMM0 + a.sse}
			a.sse++
		} else {
			p = a.integer(8)
		}
		if len(parts) > 1 {
			p.Size = s.size
		}
		out.Pieces = append(out.Pieces, p)
	}
	if len(parts) == 2 {
		if gap := parts[1].off - parts[0].off - parts[0].size; gap > 0 {
			out.Pieces[0].Size += gap // padding
		}
	}
	return out
}

// String names the place as users know it.
func (p Piece) String() string {
	switch p.Kind {
	case PieceReg:
		return RegName(p.Reg)
	case PieceCFA:
		return fmt.Sprintf("the stack at %+d", p.Off+8)
	case PieceMem:
		return fmt.Sprintf("memory at %s%+d", RegName(p.Reg), p.Off)
	case PieceConst:
		return fmt.Sprint(p.Off)
	}
	return "nowhere"
}

func (p Place) String() string {
	if p.Err != nil {
		return p.Err.Error()
	}
	var s []string
	for _, x := range p.Pieces {
		s = append(s, x.String())
	}
	return strings.Join(s, ", ")
}
