package types

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Printed is a value of a C type taken apart, as programs read it: what Print
// shows to people.
type Printed struct {
	Member string // the member's name; "" for the value itself and for elements
	Type   string
	// Value is an int64 or uint64, a float64, a string (strings, character
	// arrays that hold one, names of enumerators, pointers as "0x…", integers
	// wider than any register), []Printed for the members of a struct or union
	// and for elements, or nil where the data ended.
	Value any
}

// Tree takes the value of type t that data holds apart. Unlike Print it leaves
// no zeroes out. What data does not hold is not there either; of a value that
// is cut short, what is left of it is shown.
func Tree(t Type, data []byte) Printed {
	p := &printer{data: data}
	v, _ := p.tree("", t, 0, field{}, 0)
	return v
}

// tree takes one value apart, and says whether data held all of it.
func (p *printer) tree(name string, t Type, off int64, f field, depth int) (Printed, bool) {
	p.lines++
	v := Printed{Member: name, Type: typeWord(t)}
	if off+min(t.Size(), 1) > int64(len(p.data)) || p.lines > maxPrint || depth > maxLevels {
		return v, false
	}
	switch x := Underlying(t).(type) {
	case *Struct:
		parts, whole := []Printed{}, true
		for _, m := range x.Members() {
			at, f := memberAt(x, m, off)
			var part Printed
			if part, whole = p.tree(m.Name, m.Type, at, f, depth+1); !whole && part.Value == nil {
				break
			}
			if parts = append(parts, part); !whole {
				break
			}
		}
		v.Value = parts
		return v, whole
	case *Array:
		if text, ok := p.text(x, off); ok {
			v.Value = text
			return v, true
		}
		parts, whole := []Printed{}, true
		if size := x.Elem.Size(); size > 0 {
			for i := range x.N {
				var part Printed
				if part, whole = p.tree("", x.Elem, off+i*size, field{}, depth+1); !whole && part.Value == nil {
					break
				}
				if parts = append(parts, part); !whole {
					break
				}
			}
		}
		v.Value = parts
		return v, whole
	}
	if off+t.Size() > int64(len(p.data)) {
		return v, false
	}
	v.Value = p.datum(t, off, f)
	return v, true
}

// text is the string in an array of characters: printable ones up to a NUL.
func (p *printer) text(a *Array, off int64) (string, bool) {
	if !isKind(a.Elem, Char) || off+a.N > int64(len(p.data)) {
		return "", false
	}
	s, _, ended := strings.Cut(string(p.data[off:off+a.N]), "\x00")
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return "", false
		}
	}
	return s, ended
}

// datum is a value without parts that lies wholly in data.
func (p *printer) datum(t Type, off int64, f field) any {
	size := t.Size()
	b := p.data[off : off+size]
	u := Underlying(t)
	if x, ok := u.(*Basic); ok {
		switch {
		case x.Kind == DString:
			s, _, _ := strings.Cut(string(b), "\x00")
			return s
		case x.Kind == Float && size == 4:
			return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case x.Kind == Float && size == 8:
			return math.Float64frombits(binary.LittleEndian.Uint64(b))
		case x.Kind == Float:
			return hex(b)
		}
	}
	v, ok := p.integer(t, off, f)
	switch x := u.(type) {
	case *Pointer:
		return fmt.Sprintf("%#x", uint64(v))
	case *Enum:
		if name := x.NameOf(v); ok && name != "" {
			return name
		}
	}
	switch {
	case !ok:
		return hex(b)
	case IsSigned(t):
		return v
	}
	return uint64(v)
}
