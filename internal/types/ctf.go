package types

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"slices"
)

// WriteCTF writes the types of a scope, and what they are made of, as a CTF
// dictionary of version 3 of the format of GNU binutils (ctf.h; magic 0xdff2,
// version byte 4). Structs of other scopes than "C" and "D" are forward
// declarations: they are the kernel's, which BTF describes.
func (s *Scope) WriteCTF(w io.Writer) error {
	c := &ctf{ids: map[Type]uint32{}, strs: map[string]uint32{"": 0}}
	c.text.WriteByte(0)
	type named struct {
		space Space
		name  string
		t     Type
	}
	var all []named
	s.Names(func(space Space, name string, t Type) { all = append(all, named{space, name, t}) })
	slices.SortFunc(all, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.name, b.name))
	})
	for _, n := range all {
		c.id(n.t)
	}
	var body bytes.Buffer
	for _, t := range c.out {
		body.Write(t)
	}
	le := binary.LittleEndian
	h := le.AppendUint16(nil, 0xdff2)
	h = append(h, 4, 0)
	for _, n := range []uint32{
		0, 0, c.str(s.Name), // of the parent's label, the parent, the compilation unit
		0, 0, 0, 0, 0, 0, // labels, objects, functions, their indexes, variables: none
		0, uint32(body.Len()), // where types and strings begin
	} {
		h = le.AppendUint32(h, n)
	}
	h = le.AppendUint32(h, uint32(c.text.Len()))
	for _, b := range [][]byte{h, body.Bytes(), c.text.Bytes()} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// Kinds of CTF types.
const (
	ctfInteger = iota + 1
	ctfFloat
	ctfPointer
	ctfArray
	ctfFunction
	ctfStruct
	ctfUnion
	ctfEnum
	ctfForward
	ctfTypedef
	ctfVolatile
	ctfConst
	ctfRestrict
	ctfSlice
)

// ctf is a dictionary under construction. Types are numbered from 1.
type ctf struct {
	ids  map[Type]uint32
	out  [][]byte
	text bytes.Buffer
	strs map[string]uint32
}

func (c *ctf) str(s string) uint32 {
	if off, ok := c.strs[s]; ok {
		return off
	}
	off := uint32(c.text.Len())
	c.strs[s] = off
	c.text.WriteString(s)
	c.text.WriteByte(0)
	return off
}

// put fills in type id: name, kind and number of parts, size or the type
// referred to, and what follows.
func (c *ctf) put(id uint32, name string, kind, parts int, sizeOrType uint32, rest ...uint32) {
	root := uint32(1)
	b := binary.LittleEndian.AppendUint32(nil, c.str(name))
	for _, n := range append([]uint32{uint32(kind)<<26 | root<<25 | uint32(parts), sizeOrType}, rest...) {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	c.out[id-1] = b
}

func (c *ctf) next() uint32 {
	c.out = append(c.out, nil)
	return uint32(len(c.out))
}

// id is the number of a type, which is made if it is new.
func (c *ctf) id(t Type) uint32 {
	if id, ok := c.ids[t]; ok {
		return id
	}
	id := c.next()
	c.ids[t] = id // before the parts, which may lead back here
	switch t := t.(type) {
	case *Basic:
		c.basic(id, t)
	case *Pointer:
		c.put(id, "", ctfPointer, 0, c.id(t.Elem))
	case *Array:
		c.put(id, "", ctfArray, 0, 0, c.id(t.Elem), c.id(TULong), uint32(t.N))
	case *Func:
		var params []uint32
		for _, p := range t.Params {
			params = append(params, c.id(p.Type))
		}
		if t.Variadic {
			params = append(params, 0)
		}
		n := len(params)
		if n%2 != 0 {
			params = append(params, 0)
		}
		c.put(id, "", ctfFunction, n, c.id(t.Ret), params...)
	case *Typedef:
		c.put(id, t.Name, ctfTypedef, 0, c.id(t.Type))
	case *Qualified:
		c.qualified(id, t)
	case *Enum:
		var vals []uint32
		for _, v := range t.Values {
			vals = append(vals, c.str(v.Name), uint32(v.Value))
		}
		c.put(id, t.Tag, ctfEnum, len(t.Values), uint32(t.Bytes), vals...)
	case *Struct:
		c.structure(id, t)
	default:
		c.put(id, t.String(), ctfInteger, 0, uint32(t.Size()), uint32(8*t.Size()))
	}
	return id
}

func (c *ctf) basic(id uint32, t *Basic) {
	bits := uint32(8 * t.Bytes)
	const signed, char, boolean = 1, 2, 4
	enc := uint32(0)
	if t.Signed {
		enc = signed
	}
	switch t.Kind {
	case Float:
		format := map[int64]uint32{4: 1, 8: 2, 16: 6}[t.Bytes]
		c.put(id, t.Name, ctfFloat, 0, uint32(t.Bytes), format<<24|bits)
		return
	case Void:
		enc, bits = signed, 0
	case Bool:
		enc = boolean
	case Char:
		enc |= char
	}
	c.put(id, t.String(), ctfInteger, 0, uint32(t.Bytes), enc<<24|bits)
}

// qualified makes a type for each of the qualifiers; the outermost is id.
func (c *ctf) qualified(id uint32, t *Qualified) {
	var kinds []int
	for _, q := range []struct {
		on   bool
		kind int
	}{{t.Restrict, ctfRestrict}, {t.Volatile, ctfVolatile}, {t.Const, ctfConst}} {
		if q.on {
			kinds = append(kinds, q.kind)
		}
	}
	if len(kinds) == 0 {
		kinds = []int{ctfConst}
	}
	of := c.id(t.Type)
	for i, kind := range kinds {
		to := id
		if i < len(kinds)-1 {
			to = c.next()
		}
		c.put(to, "", kind, 0, of)
		of = to
	}
}

func (c *ctf) structure(id uint32, t *Struct) {
	kind := ctfStruct
	if t.Union {
		kind = ctfUnion
	}
	if t.Incomplete || t.Scope != "C" && t.Scope != "D" {
		c.put(id, t.Tag, ctfForward, 0, uint32(kind))
		return
	}
	var members []uint32
	n := 0
	for _, m := range t.Members() {
		mt, off := c.id(m.Type), uint32(8*m.Off)
		if m.Bits > 0 {
			// A slice of the type: its bits begin at the member's.
			mt, off = c.slice(mt, m), uint32(m.BitOff)
		}
		members = append(members, c.str(m.Name), off, mt)
		n++
	}
	c.put(id, t.Tag, kind, n, uint32(t.Bytes), members...)
}

func (c *ctf) slice(of uint32, m Field) uint32 {
	id := c.next()
	c.put(id, "", ctfSlice, 0, uint32(m.Type.Size()), of, uint32(m.Bits)<<16)
	return id
}
