package btf

import (
	"encoding/binary"
	"testing"

	"godtrace/internal/types"
)

// blob builds BTF for tests: records are added by the add methods, in order.
type blob struct {
	types, strs []byte
	firstStr    uint32
}

func newBlob() *blob { return &blob{strs: []byte{0}} }

// splitBlob builds one on top of base.
func splitBlob(base *blob) *blob { return &blob{firstStr: uint32(len(base.strs))} }

func (b *blob) str(s string) uint32 {
	if s == "" {
		return 0
	}
	off := b.firstStr + uint32(len(b.strs))
	b.strs = append(append(b.strs, s...), 0)
	return off
}

func (b *blob) add(name string, kind Kind, flag bool, vlen int, n uint32, tail ...uint32) {
	info := uint32(kind)<<24 | uint32(vlen)
	if flag {
		info |= 1 << 31
	}
	for _, w := range append([]uint32{b.str(name), info, n}, tail...) {
		b.types = binary.LittleEndian.AppendUint32(b.types, w)
	}
}

func (b *blob) bytes() []byte {
	le := binary.LittleEndian
	out := le.AppendUint16(nil, magic)
	out = append(out, 1, 0)
	for _, w := range []int{24, 0, len(b.types), len(b.types), len(b.strs)} {
		out = le.AppendUint32(out, uint32(w))
	}
	return append(append(out, b.types...), b.strs...)
}

// sample has one of each kind.
func sample() *blob {
	b := newBlob()
	b.add("int", KindInt, false, 0, 4, 1<<24|32)                                                                 // 1
	b.add("char", KindInt, false, 0, 1, 8)                                                                       // 2
	b.add("", KindTypeTag, false, 0, 2)                                                                          // 3, named below
	b.add("", KindPtr, false, 0, 3)                                                                              // 4
	b.add("", KindArray, false, 0, 0, 2, 1, 16)                                                                  // 5
	b.add("s", KindStruct, true, 4, 40, b.str("a"), 1, 0, b.str("f"), 1, 3<<24|32, b.str("p"), 4, 64, 0, 7, 128) // 6
	b.add("", KindUnion, false, 2, 16, b.str("comm"), 5, 0, b.str("n"), 1, 0)                                    // 7
	b.add("color", KindEnum, true, 2, 4, b.str("RED"), 0, b.str("BLUE"), 0xffffffff)                             // 8
	b.add("wide", KindEnum64, false, 1, 8, b.str("BIG"), 1, 2)                                                   // 9
	b.add("s_t", KindTypedef, false, 0, 6)                                                                       // 10
	b.add("", KindConst, false, 0, 10)                                                                           // 11
	b.add("", KindVolatile, false, 0, 11)                                                                        // 12
	b.add("", KindFuncProto, false, 3, 1, b.str("x"), 1, b.str("y"), 4, 0, 0)                                    // 13
	b.add("fn", KindFunc, false, 1, 13)                                                                          // 14
	b.add("counter", KindVar, false, 0, 12, 1)                                                                   // 15
	b.add(".data..percpu", KindDatasec, false, 1, 40, 15, 8, 40)                                                 // 16
	b.add("double", KindFloat, false, 0, 8)                                                                      // 17
	b.add("bpf_kfunc", KindDeclTag, false, 0, 14, 0xffffffff)                                                    // 18
	b.add("later", KindFwd, true, 0, 0)                                                                          // 19
	b.add("", KindRestrict, false, 0, 4)                                                                         // 20
	b.add("old", KindStruct, false, 1, 4, b.str("bits"), 22, 8)                                                  // 21
	b.add("int3", KindInt, false, 0, 4, 1<<24|2<<16|3)                                                           // 22
	binary.LittleEndian.PutUint32(b.types[16+16:], b.str("user"))
	return b
}

// walk asks everything there is to ask about a blob.
func walk(t *testing.T, s *Spec) {
	n := s.Len()
	if (s.Err() == nil) != (n > 0 || len(s.types) == 0) {
		t.Fatalf("%d types and error %v", n, s.Err())
	}
	top := s.next()
	for id := ID(0); id <= top && id < 300; id++ {
		name := s.TypeName(id)
		s.Kind(id)
		s.SizeOf(id)
		s.DeclTags(id)
		s.Proto(id)
		s.MemberOf(id, "a.b")
		s.Section(name)
		s.LookupEnumerator(name)
		for space := types.TypedefName; space <= types.EnumTag; space++ {
			s.LookupType(space, name)
		}
		s.FuncType(name)
		s.VarType(name)
		typ, err := s.Type(id)
		if (typ == nil) == (err == nil) {
			t.Fatalf("type %d: %v and %v", id, typ, err)
		}
		if err != nil {
			continue
		}
		_ = typ.String()
		typ.Size()
		typ.Align()
		types.FindMember(typ, "a")
		types.Identical(typ, types.TInt)
		if st, ok := types.Underlying(typ).(*types.Struct); ok {
			st.Members()
		}
	}
}

// FuzzParse: any blob is an error or answers all questions.
func FuzzParse(f *testing.F) {
	f.Add(sample().bytes(), false)
	f.Add(sample().bytes(), true)
	loop := newBlob()
	loop.add("", KindPtr, false, 0, 1)
	loop.add("t", KindTypedef, false, 0, 3)
	loop.add("", KindConst, false, 0, 2)
	loop.add("s", KindStruct, false, 2, 8, 0, 4, 0, 0, 4, 0)
	loop.add("", KindArray, false, 0, 0, 5, 5, 0xffffffff)
	loop.add("", KindFuncProto, false, 1, 6, 0, 6)
	f.Add(loop.bytes(), false)
	f.Add([]byte{}, false)
	base, err := Parse(sample().bytes(), "vmlinux", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte, split bool) {
		var on *Spec
		if split {
			on = base
		}
		s, err := Parse(in, "fuzz", on)
		if (s == nil) == (err == nil) {
			t.Fatalf("%v and %v", s, err)
		}
		if err == nil {
			walk(t, s)
		}
	})
}
