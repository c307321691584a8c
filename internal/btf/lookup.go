package btf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
)

// nameIndex finds types by name. A D program asks a kernel for a handful of
// names, so the first ones are found by searching the string section for the
// name and the records for its offset, both at memory speed. Only a client
// that goes on asking has a hash table made, which costs as much as some
// twenty searches.
type nameIndex struct {
	mu    sync.Mutex
	found map[string][]ID // answers so far, empty ones too
	asked int

	seed  maphash.Seed
	table []uint32 // open addressing; index of the record plus 1; nil until made
}

const (
	hashAfter = 20    // searches after which the table is made
	hashBelow = 20000 // types below which it is made at once
)

// IDs are the types of that name in the blob itself, of whatever kind, in
// order of their numbers. The result belongs to the Spec.
func (s *Spec) IDs(name string) []ID {
	if name == "" || s.index() != nil {
		return nil
	}
	x := &s.byName
	x.mu.Lock()
	defer x.mu.Unlock()
	ids, ok := x.found[name]
	if ok {
		return ids
	}
	if x.found == nil {
		x.found = map[string][]ID{}
	}
	x.asked++
	if x.asked > hashAfter || len(s.names) < hashBelow {
		ids = s.hashed(name)
	} else {
		ids = s.searched(name)
	}
	x.found[strings.Clone(name)] = ids
	return ids
}

// searched relies on each string being stored once in each blob, as pahole
// stores them; where it does not hold, blobs are small and get the hash table.
func (s *Spec) searched(name string) (ids []ID) {
	for t := s; t != nil; t = t.base { // strings of the base are shared
		off, ok := t.findString(name)
		if !ok {
			continue
		}
		for i, n := range s.names {
			if n == off {
				ids = append(ids, s.first+ID(i))
			}
		}
	}
	return ids
}

// findString gives the offset of name in the string section.
func (s *Spec) findString(name string) (off uint32, ok bool) {
	var buf [128]byte
	pat := append(buf[:0], 0)
	pat = append(append(pat, name...), 0)
	i := bytes.Index(s.strs, pat)
	if i < 0 {
		return 0, false
	}
	return s.firstStr + uint32(i) + 1, true
}

// hashed looks a name up in the hash table, which it makes first.
func (s *Spec) hashed(name string) (ids []ID) {
	x := &s.byName
	if x.table == nil {
		x.seed = maphash.MakeSeed()
		x.table = make([]uint32, 1<<bits.Len(uint(2*len(s.names))))
		mask := uint64(len(x.table) - 1)
		for i, n := range s.names {
			b := s.str(n)
			if len(b) == 0 {
				continue
			}
			h := maphash.Bytes(x.seed, b) & mask
			for x.table[h] != 0 {
				h = (h + 1) & mask
			}
			x.table[h] = uint32(i) + 1
		}
	}
	mask := uint64(len(x.table) - 1)
	for h := maphash.String(x.seed, name) & mask; x.table[h] != 0; h = (h + 1) & mask {
		i := x.table[h] - 1
		if s.strIs(s.names[i], name) {
			ids = append(ids, s.first+ID(i))
		}
	}
	return ids
}

// TypeID finds a type by kind and name, in the blob itself and then in its base.
func (s *Spec) TypeID(kind Kind, name string) (ID, bool) {
	for t := s; t != nil; t = t.base {
		for _, id := range t.IDs(name) {
			if t.Kind(id) == kind {
				return id, true
			}
		}
	}
	return 0, false
}

// FuncID is the number of a function, which is what calling a kfunc takes.
func (s *Spec) FuncID(name string) (ID, bool) { return s.TypeID(KindFunc, name) }

// Func finds a function and its prototype.
func (s *Spec) Func(name string) (id, proto ID, ok bool) {
	id, ok = s.TypeID(KindFunc, name)
	if !ok {
		return 0, 0, false
	}
	return id, s.Ref(id), true
}

// Var finds a variable and its type. Kernels describe their per-CPU variables
// only, and all global ones from 6.16 on when built so.
func (s *Spec) Var(name string) (id, typ ID, ok bool) {
	id, ok = s.TypeID(KindVar, name)
	if !ok {
		return 0, 0, false
	}
	return id, s.Ref(id), true
}

// Param of a function prototype.
type Param struct {
	Name string
	Type ID
}

// Proto reads a function prototype (or the one of a function).
func (s *Spec) Proto(id ID) (ret ID, params []Param, variadic bool, err error) {
	r, ok := s.raw(id)
	if ok && r.kind() == KindFunc {
		r, ok = s.raw(r.ref())
	}
	if !ok || r.kind() != KindFuncProto {
		return 0, nil, false, fmt.Errorf("type %d is no function: %w", id, ErrNotFound)
	}
	for b := r.tail; len(b) >= 8; b = b[8:] {
		name, typ := u32(b), ID(u32(b[4:]))
		if typ == 0 && len(b) == 8 && name == 0 {
			variadic = true
			break
		}
		params = append(params, Param{string(s.str(name)), typ})
	}
	return r.ref(), params, variadic, nil
}

// SecVar is a variable in a section: its number, offset and size in bytes.
type SecVar struct {
	Var       ID
	Off, Size uint32
}

// Section lists the variables of a data section such as ".data..percpu".
func (s *Spec) Section(name string) ([]SecVar, bool) {
	id, ok := s.TypeID(KindDatasec, name)
	if !ok {
		return nil, false
	}
	r, _ := s.raw(id)
	vars := make([]SecVar, 0, r.vlen())
	for b := r.tail; len(b) >= 12; b = b[12:] {
		vars = append(vars, SecVar{ID(u32(b)), u32(b[4:]), u32(b[8:])})
	}
	return vars, true
}

// maxNest bounds the nesting of what C nests: anonymous members, arrays,
// typedefs. The kernel's own bound on resolving is 32.
const maxNest = 64

// Resolve goes through typedefs, qualifiers and type tags. It gives 0, false
// for a reference that does not end.
func (s *Spec) Resolve(id ID) (ID, bool) {
	for range maxNest {
		r, ok := s.raw(id)
		if !ok {
			return id, id == 0
		}
		switch r.kind() {
		case KindTypedef, KindVolatile, KindConst, KindRestrict, KindTypeTag:
			id = r.ref()
		default:
			return id, true
		}
	}
	return 0, false
}

// SizeOf is the size of type id in bytes; 0 for void, functions and what is
// only declared.
func (s *Spec) SizeOf(id ID) int64 {
	n := int64(1)
	for range maxNest {
		var ok bool
		if id, ok = s.Resolve(id); !ok {
			return 0
		}
		r, ok := s.raw(id)
		if !ok {
			return 0
		}
		switch r.kind() {
		case KindInt, KindStruct, KindUnion, KindEnum, KindEnum64, KindFloat:
			return mulSize(n, int64(r.n))
		case KindPtr:
			return mulSize(n, 8)
		case KindArray:
			n = mulSize(n, int64(u32(r.tail[8:])))
			id = ID(u32(r.tail))
		default:
			return 0
		}
	}
	return 0
}

// mulSize is a product of sizes, 0 where it cannot be one of an object.
func mulSize(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo>>62 != 0 {
		return 0
	}
	return int64(lo)
}

// Member is where a member lies in a struct.
type Member struct {
	Type   ID
	BitOff int64 // from the start of the struct asked about, in bits
	Bits   int64 // width of a bit-field, 0 for a plain member
	Size   int64 // of the type, in bytes
}

// Off is the offset in bytes.
func (m Member) Off() int64 { return m.BitOff / 8 }

// Member finds a member by path ("tgid", "f_path.dentry") in the struct or
// union of that tag, through anonymous members, without building any type.
func (s *Spec) Member(tag, path string) (Member, error) {
	id, ok := s.TypeID(KindStruct, tag)
	if !ok {
		if id, ok = s.TypeID(KindUnion, tag); !ok {
			return Member{}, fmt.Errorf("struct %s: %w", tag, ErrNotFound)
		}
	}
	m, err := s.MemberOf(id, path)
	if err != nil {
		return Member{}, fmt.Errorf("struct %s: %w", tag, err)
	}
	return m, nil
}

// MemberOffset is the offset in bytes of a member found as by Member.
func (s *Spec) MemberOffset(tag, path string) (int64, error) {
	m, err := s.Member(tag, path)
	if err == nil && m.Bits > 0 {
		return 0, fmt.Errorf("struct %s: %s is a bit-field", tag, path)
	}
	return m.Off(), err
}

// MemberOf is Member for a struct known by number.
func (s *Spec) MemberOf(id ID, path string) (Member, error) {
	m := Member{Type: id}
	for path != "" {
		name, rest, _ := strings.Cut(path, ".")
		path = rest
		in, _ := s.Resolve(m.Type)
		budget := 1 << 16
		f, ok := s.member(in, name, 0, &budget)
		if !ok {
			return Member{}, fmt.Errorf("member %s: %w", name, ErrNotFound)
		}
		f.BitOff += m.BitOff
		m = f
	}
	m.Size = s.SizeOf(m.Type)
	return m, nil
}

func (s *Spec) member(id ID, name string, depth int, budget *int) (Member, bool) {
	r, ok := s.raw(id)
	if !ok || r.kind() != KindStruct && r.kind() != KindUnion || name == "" {
		return Member{}, false
	}
	if *budget -= r.vlen() + 1; *budget < 0 || depth > maxNest {
		return Member{}, false
	}
	for b := r.tail; len(b) >= 12; b = b[12:] {
		if s.strIs(u32(b), name) {
			return s.readMember(r, b), true
		}
	}
	for b := r.tail; len(b) >= 12; b = b[12:] {
		if u32(b) != 0 {
			continue
		}
		outer := s.readMember(r, b)
		in, _ := s.Resolve(outer.Type)
		if m, ok := s.member(in, name, depth+1, budget); ok {
			m.BitOff += outer.BitOff
			return m, true
		}
	}
	return Member{}, false
}

// readMember decodes one member record of struct r. Bit-fields are told by the
// struct's flag; before Linux 5.0 by the width of the integer type.
func (s *Spec) readMember(r raw, b []byte) Member {
	m := Member{Type: ID(binary.LittleEndian.Uint32(b[4:]))}
	off := u32(b[8:])
	if r.flag() {
		m.BitOff, m.Bits = int64(off&0xffffff), int64(off>>24)
		return m
	}
	m.BitOff = int64(off)
	if id, ok := s.Resolve(m.Type); ok {
		if t, ok := s.raw(id); ok && t.kind() == KindInt {
			enc := u32(t.tail)
			if w := int64(enc & 0xff); w != int64(t.n)*8 && w > 0 {
				m.Bits = w
				m.BitOff += int64(enc >> 16 & 0xff)
			}
		}
	}
	return m
}

// tagIndex finds declaration tags by what they are put on.
type tagIndex struct {
	once sync.Once
	of   map[ID][]DeclTag
}

// DeclTag is a tag on a declaration ("bpf_kfunc"). Component is the index of
// the member or parameter it is for, -1 for the whole.
type DeclTag struct {
	Name      string
	Component int
}

// DeclTags are the tags the blob itself puts on type id.
func (s *Spec) DeclTags(id ID) []DeclTag {
	s.tags.once.Do(func() {
		s.tags.of = map[ID][]DeclTag{}
		for t := range s.All(KindDeclTag) {
			r, _ := s.raw(t)
			s.tags.of[r.ref()] = append(s.tags.of[r.ref()],
				DeclTag{string(s.str(r.name)), int(int32(u32(r.tail)))})
		}
	})
	return s.tags.of[id]
}
