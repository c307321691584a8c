package types

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// PrintOpts is how Print lays a value out.
type PrintOpts struct {
	Addr   uint64 // where the value was found, printed in front: "0x… = *"
	Indent int    // columns before the value's own line; dtrace(1) uses PrintIndent
}

// PrintIndent brings the value under the output column of dtrace(1).
const PrintIndent = 44

// maxPrint bounds the lines of one value: a broken type may nest without end.
const (
	maxPrint  = 1 << 18
	maxLevels = 1024 // and levels
)

// Print writes the value of type t that data holds the way the action print()
// of DTrace on Linux does: the address, then one line a member, each with its
// type, indented by one column a level.
//
//	0xffff888100a1c000 = *
//	                                            (struct point) {
//	                                             .x = (int)1,
//	                                             .tag = (char [4]) [
//	                                              (char)'a',
//	                                             ],
//	                                            }
//
// Members that are zero are left out; of an array, what follows the last
// element that is not zero. All members of a union are shown. data may be
// shorter than the type: what it does not hold is shown as "...".
func Print(w io.Writer, t Type, data []byte, o PrintOpts) error {
	p := &printer{w: bufio.NewWriter(w), data: data}
	fmt.Fprintf(p.w, "%#x = *\n", o.Addr)
	p.value("", t, 0, field{}, o.Indent, "")
	return p.w.Flush()
}

type printer struct {
	w     *bufio.Writer
	data  []byte
	lines int
}

// field says which bits of a value's storage are the value: Bits 0 for all.
type field struct{ shift, bits int64 }

// value prints one value on lines of its own: name is "" or ".x = ", off its
// place in data in bytes, after what follows it ("," inside a struct). It
// reports false when data ended before it.
func (p *printer) value(name string, t Type, off int64, f field, indent int, after string) bool {
	p.lines++
	size := t.Size()
	if off+min(size, 1) > int64(len(p.data)) || p.lines > maxPrint || indent > maxLevels {
		p.line(indent, "...\n")
		return false
	}
	switch x := Underlying(t).(type) {
	case *Struct:
		p.line(indent, "%s(%s) {\n", name, typeWord(t))
		whole := p.members(x, off, indent+1)
		p.line(indent, "}%s\n", after)
		return whole
	case *Array:
		p.line(indent, "%s(%s) [\n", name, typeWord(t))
		whole := p.elements(x, off, indent+1)
		p.line(indent, "]%s\n", after)
		return whole
	}
	if off+size > int64(len(p.data)) {
		p.line(indent, "...\n")
		return false
	}
	p.line(indent, "%s(%s)%s%s\n", name, typeWord(t), p.scalar(t, off, f), after)
	return true
}

func (p *printer) line(indent int, format string, args ...any) {
	fmt.Fprintf(p.w, "%*s", indent, "")
	fmt.Fprintf(p.w, format, args...)
}

// typeWord is the type's name; anonymous structs are plain "struct".
func typeWord(t Type) string {
	return strings.TrimSuffix(t.String(), " {...}")
}

// memberAt is where a member of the struct at off lies: its place, and the bits
// there of a bit-field.
func memberAt(s *Struct, m Field, off int64) (at int64, f field) {
	if m.Bits <= 0 {
		return off + m.Off, field{}
	}
	// The storage unit of the member's type that holds the first bit.
	unit := max(m.Type.Size(), 1)
	at = off + m.BitOff/8/unit*unit
	f = field{m.BitOff - (at-off)*8, m.Bits}
	if at+unit > off+s.Bytes { // the unit reaches beyond the struct
		at, f.shift = off+m.BitOff/8, m.BitOff%8
	}
	return at, f
}

func (p *printer) members(s *Struct, off int64, indent int) bool {
	for _, m := range s.Members() {
		at, f := memberAt(s, m, off)
		if p.zero(m.Type, at, f) {
			continue
		}
		name := ""
		if m.Name != "" {
			name = "." + m.Name + " = "
		}
		if !p.value(name, m.Type, at, f, indent, ",") {
			return false
		}
	}
	return true
}

func (p *printer) elements(a *Array, off int64, indent int) bool {
	size := a.Elem.Size()
	if size <= 0 {
		return true
	}
	n := a.N
	for n > 0 && p.zero(a.Elem, off+(n-1)*size, field{}) {
		n--
	}
	for i := range n {
		if isKind(a.Elem, Char) && p.zero(a.Elem, off+i*size, field{}) {
			break // what follows a string's end is not part of it
		}
		if !p.value("", a.Elem, off+i*size, field{}, indent, ",") {
			return false
		}
	}
	return true
}

// zero reports whether the value is there in full and zero.
func (p *printer) zero(t Type, off int64, f field) bool {
	if f.bits > 0 {
		v, ok := p.bits(off, f)
		return ok && v == 0
	}
	end := off + t.Size()
	if end > int64(len(p.data)) || end < off {
		return false
	}
	for _, b := range p.data[off:end] {
		if b != 0 {
			return false
		}
	}
	return true
}

// bits reads a bit-field, which may reach over nine bytes when packed.
func (p *printer) bits(off int64, f field) (uint64, bool) {
	off, shift := off+f.shift/8, f.shift%8
	n := (shift + f.bits + 7) / 8
	if off+n > int64(len(p.data)) || f.bits > 64 {
		return 0, false
	}
	var v uint64
	for i := n - 1; i >= 0; i-- {
		b := uint64(p.data[off+i])
		if s := i*8 - shift; s >= 0 {
			v |= b << s
		} else {
			v |= b >> -s
		}
	}
	if f.bits < 64 {
		v &= 1<<f.bits - 1
	}
	return v, true
}

// scalar prints a value without parts that lies wholly in data.
func (p *printer) scalar(t Type, off int64, f field) string {
	size := t.Size()
	b := p.data[off : off+size]
	u := Underlying(t)
	if x, ok := u.(*Basic); ok {
		switch x.Kind {
		case DString:
			s, _, _ := strings.Cut(string(b), "\x00")
			return fmt.Sprintf("%q", s)
		case Float:
			switch size {
			case 4:
				return fmt.Sprintf("%f", math.Float32frombits(binary.LittleEndian.Uint32(b)))
			case 8:
				return fmt.Sprintf("%f", math.Float64frombits(binary.LittleEndian.Uint64(b)))
			}
			return hex(b)
		case Void:
			return ""
		}
	}
	if size > 8 {
		return hex(b)
	}
	v, ok := p.integer(t, off, f)
	if !ok {
		return "..."
	}
	switch x := u.(type) {
	case *Pointer:
		return fmt.Sprintf("%#x", uint64(v))
	case *Enum:
		if name := x.NameOf(v); name != "" {
			return name
		}
	case *Basic:
		if x.Kind == Char && v >= ' ' && v <= '~' {
			return fmt.Sprintf("'%c'", rune(v))
		}
	}
	if IsSigned(t) {
		return fmt.Sprint(v)
	}
	return fmt.Sprint(uint64(v))
}

// integer is the value of an integer, pointer or enumeration of at most eight
// bytes; not ok if it is wider, or a bit-field beyond data.
func (p *printer) integer(t Type, off int64, f field) (v int64, ok bool) {
	switch {
	case f.bits > 0:
		raw, ok := p.bits(off, f)
		v = int64(raw)
		if IsSigned(t) && f.bits < 64 {
			v = v << (64 - f.bits) >> (64 - f.bits)
		}
		return v, ok
	case t.Size() > 8:
		return 0, false
	}
	var buf [8]byte
	copy(buf[:], p.data[off:off+t.Size()])
	return Convert(int64(binary.LittleEndian.Uint64(buf[:])), t), true
}

// hex prints an integer wider than any register, most significant byte first.
func hex(b []byte) string {
	var s strings.Builder
	s.WriteString("0x")
	for i := len(b) - 1; i >= 0; i-- {
		fmt.Fprintf(&s, "%02x", b[i])
	}
	return s.String()
}
