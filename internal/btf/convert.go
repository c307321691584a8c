package btf

import (
	"errors"
	"fmt"
	"sync"

	"godtrace/internal/types"
)

// converter keeps the types made so far, one for each number, so that a type
// met twice is the same value.
type converter struct {
	mu   sync.Mutex
	done map[ID]made
}

// made is a type and how many references deep it is down to a struct or a
// basic type; t is nil while the type is being made.
type made struct {
	t     types.Type
	depth int
}

var errCycle = errors.New("type refers to itself other than through a struct")

// Type makes the type numbered id. Members of structs are made when they are
// first asked for.
func (s *Spec) Type(id ID) (types.Type, error) {
	if err := s.index(); err != nil {
		return nil, err
	}
	s.convert.mu.Lock()
	defer s.convert.mu.Unlock()
	m, err := s.make(id)
	if err != nil {
		return nil, fmt.Errorf("BTF type %d: %w", id, err)
	}
	return m.t, nil
}

// make is the type of a number, made when first asked for.
func (s *Spec) make(id ID) (made, error) {
	if id == 0 {
		return made{t: types.TVoid}, nil
	}
	if id < s.first { // locks go from a split blob to its base, never back
		t, err := s.base.Type(id)
		return made{t: t, depth: 1}, err
	}
	if m, ok := s.convert.done[id]; ok {
		if m.t == nil {
			return made{}, errCycle
		}
		return m, nil
	}
	r, ok := s.raw(id)
	if !ok {
		return made{}, fmt.Errorf("no such type, the last is %d", s.next()-1)
	}
	if s.convert.done == nil {
		s.convert.done = map[ID]made{}
	}
	s.convert.done[id] = made{}
	m, err := s.build(id, r)
	if err == nil && m.depth > maxNest {
		err = errors.New("nested too deep")
	}
	if err != nil {
		delete(s.convert.done, id)
		return made{}, err
	}
	s.convert.done[id] = m
	return m, nil
}

// build makes the type of a record that is in the blob itself.
func (s *Spec) build(id ID, r raw) (made, error) {
	name := string(s.str(r.name))
	switch r.kind() {
	case KindInt:
		return made{t: s.buildInt(name, r)}, nil
	case KindFloat:
		return made{t: &types.Basic{Kind: types.Float, Name: name, Bytes: int64(r.n), Signed: true}}, nil
	case KindStruct, KindUnion:
		return made{t: &types.Struct{Union: r.kind() == KindUnion, Tag: name, Scope: s.Name,
			Bytes: int64(r.n), Complete: func(t *types.Struct) { s.complete(t, id) }}}, nil
	case KindFwd:
		return made{t: &types.Struct{Union: r.flag(), Tag: name, Scope: s.Name, Incomplete: true}}, nil
	case KindEnum, KindEnum64:
		return made{t: s.buildEnum(name, r)}, nil
	}

	ref := r.ref()
	switch r.kind() {
	case KindPtr:
		// The tags between a pointer and what it points to say what memory
		// it points into.
		user, tag := false, ""
		for range maxNest {
			in, ok := s.raw(ref)
			if !ok || in.kind() != KindTypeTag {
				break
			}
			if !in.flag() { // with the flag it is any attribute, not a tag
				tag = string(s.str(in.name))
				user = user || tag == "user"
			}
			ref = in.ref()
		}
		m, err := s.make(ref)
		return made{&types.Pointer{Elem: m.t, User: user, TypeTag: tag}, m.depth + 1}, err
	case KindTypedef:
		m, err := s.make(ref)
		return made{&types.Typedef{Name: name, Type: m.t, Scope: s.Name}, m.depth + 1}, err
	case KindConst, KindVolatile, KindRestrict:
		m, err := s.make(ref)
		if err != nil {
			return m, err
		}
		q := &types.Qualified{Type: m.t}
		if in, ok := m.t.(*types.Qualified); ok {
			*q = *in // "const volatile" is one qualified type
		}
		switch r.kind() {
		case KindConst:
			q.Const = true
		case KindVolatile:
			q.Volatile = true
		default:
			q.Restrict = true
		}
		return made{q, m.depth + 1}, nil
	case KindTypeTag:
		m, err := s.make(ref)
		m.depth++
		return m, err
	case KindFunc, KindVar:
		m, err := s.make(ref)
		m.depth++
		return m, err
	case KindArray:
		m, err := s.make(ID(u32(r.tail)))
		n := int64(u32(r.tail[8:]))
		return made{&types.Array{Elem: m.t, N: n, Flexible: n == 0}, m.depth + 1}, err
	case KindFuncProto:
		return s.buildFunc(id)
	}
	return made{}, fmt.Errorf("a %s is no type", r.kind())
}

func (s *Spec) buildInt(name string, r raw) *types.Basic {
	const signed, boolean = 1, 4
	enc := u32(r.tail) >> 24 & 0xf
	kind := types.Int
	switch {
	case enc&boolean != 0:
		kind = types.Bool
	case name == "char": // compilers leave the format's flag for it unset
		kind = types.Char
	}
	return &types.Basic{Kind: kind, Name: name, Bytes: int64(r.n), Signed: enc&signed != 0}
}

func (s *Spec) buildEnum(name string, r raw) *types.Enum {
	e := &types.Enum{Tag: name, Scope: s.Name, Bytes: int64(r.n), Signed: r.flag(),
		Incomplete: r.vlen() == 0, Values: make([]types.Enumerator, r.vlen())}
	for i := range e.Values {
		name, v := r.enumerator(i)
		e.Values[i] = types.Enumerator{Name: string(s.str(name)), Value: v}
	}
	return e
}

// enumerator is the name and value of constant i of an enum.
func (r raw) enumerator(i int) (name uint32, value int64) {
	if r.kind() == KindEnum64 {
		b := r.tail[i*12:]
		return u32(b), int64(uint64(u32(b[4:])) | uint64(u32(b[8:]))<<32)
	}
	b := r.tail[i*8:]
	if v := u32(b[4:]); !r.flag() {
		return u32(b), int64(v)
	} else {
		return u32(b), int64(int32(v))
	}
}

func (s *Spec) buildFunc(id ID) (made, error) {
	ret, params, variadic, err := s.Proto(id)
	if err != nil {
		return made{}, err
	}
	m, err := s.make(ret)
	if err != nil {
		return made{}, err
	}
	f := &types.Func{Ret: m.t, Variadic: variadic}
	depth := m.depth
	for _, p := range params {
		m, err := s.make(p.Type)
		if err != nil {
			return made{}, err
		}
		f.Params = append(f.Params, types.Param{Name: p.Name, Type: m.t})
		depth = max(depth, m.depth)
	}
	return made{f, depth + 1}, nil
}

// complete fills in the members of struct id. A member whose type the blob
// does not have is shown as void: sound blobs have none.
func (s *Spec) complete(t *types.Struct, id ID) {
	s.convert.mu.Lock()
	defer s.convert.mu.Unlock()
	r, ok := s.raw(id)
	if !ok {
		return
	}
	t.Fields = make([]types.Field, 0, r.vlen())
	for b := r.tail; len(b) >= 12; b = b[12:] {
		m := s.readMember(r, b)
		f := types.Field{Name: string(s.str(u32(b))), Off: m.BitOff / 8, BitOff: m.BitOff, Bits: m.Bits}
		made, err := s.make(m.Type)
		if err != nil {
			made.t = types.TVoid
		}
		f.Type = made.t
		t.Fields = append(t.Fields, f)
	}
	budget := 1 << 16
	t.AlignB = s.alignOf(id, 0, &budget)
}

// alignOf works out the alignment, which BTF does not record: that of the most
// aligned member that lies where its alignment asks for, so that packed
// structs come out as such.
func (s *Spec) alignOf(id ID, depth int, budget *int) int64 {
	if *budget--; *budget < 0 || depth > maxNest {
		return 1
	}
	id, ok := s.Resolve(id)
	if !ok {
		return 1
	}
	r, ok := s.raw(id)
	if !ok {
		return 1
	}
	switch r.kind() {
	case KindInt, KindEnum, KindEnum64, KindFloat:
		return max(int64(r.n)&-int64(r.n), 1)
	case KindPtr:
		return 8
	case KindArray:
		return s.alignOf(ID(u32(r.tail)), depth+1, budget)
	case KindStruct, KindUnion:
		align := int64(1)
		for b := r.tail; len(b) >= 12; b = b[12:] {
			m := s.readMember(r, b)
			a := s.alignOf(m.Type, depth+1, budget)
			if a > align && int64(r.n)%a == 0 && (m.Bits > 0 || m.BitOff%(a*8) == 0) {
				align = a
			}
		}
		return align
	}
	return 1
}

// kindsOf is where a name of C's name space is looked for.
func kindsOf(space types.Space) []Kind {
	switch space {
	case types.StructTag:
		return []Kind{KindStruct}
	case types.UnionTag:
		return []Kind{KindUnion}
	case types.EnumTag:
		return []Kind{KindEnum, KindEnum64}
	}
	return []Kind{KindTypedef, KindInt, KindFloat}
}

// LookupType finds a named type, in the blob itself and then in its base.
func (s *Spec) LookupType(space types.Space, name string) (types.Type, bool) {
	for _, k := range kindsOf(space) {
		if id, ok := s.TypeID(k, name); ok {
			t, err := s.Type(id)
			return t, err == nil
		}
	}
	if space == types.StructTag || space == types.UnionTag { // only declared
		if id, ok := s.TypeID(KindFwd, name); ok {
			if r, _ := s.raw(id); r.flag() == (space == types.UnionTag) {
				t, err := s.Type(id)
				return t, err == nil
			}
		}
	}
	return nil, false
}

// FuncType is the type of the function of that name.
func (s *Spec) FuncType(name string) (*types.Func, error) {
	id, _, ok := s.Func(name)
	if !ok {
		return nil, fmt.Errorf("function %s: %w", name, ErrNotFound)
	}
	t, err := s.Type(id)
	if err != nil {
		return nil, err
	}
	f, ok := t.(*types.Func)
	if !ok {
		return nil, fmt.Errorf("function %s has the type %s", name, t)
	}
	return f, nil
}

// VarType is the type of the variable of that name.
func (s *Spec) VarType(name string) (types.Type, error) {
	_, typ, ok := s.Var(name)
	if !ok {
		return nil, fmt.Errorf("variable %s: %w", name, ErrNotFound)
	}
	return s.Type(typ)
}

// enumIndex lists the enums, for finding constants by name.
type enumIndex struct {
	once sync.Once
	ids  []ID
}

// LookupEnumerator finds a constant of any enum by its name, in the blob itself
// and then in its base.
func (s *Spec) LookupEnumerator(name string) (*types.Enum, types.Enumerator, bool) {
	for t := s; t != nil; t = t.base {
		if e, c, ok := t.enumerator(name); ok {
			return e, c, true
		}
	}
	return nil, types.Enumerator{}, false
}

// enumerator finds an enumeration constant of the blob itself.
func (s *Spec) enumerator(name string) (*types.Enum, types.Enumerator, bool) {
	none := types.Enumerator{}
	if name == "" || s.index() != nil {
		return nil, none, false
	}
	s.enums.once.Do(func() {
		id := s.first
		for b := s.types; len(b) > 0; b = b[recordSize(u32(b[4:])):] {
			if k := Kind(b[7] & 0x1f); k == KindEnum || k == KindEnum64 {
				s.enums.ids = append(s.enums.ids, id)
			}
			id++
		}
	})
	// In a kernel's blob a string is stored once: compare offsets, not text.
	// Small blobs may repeat theirs.
	small := len(s.names) < hashBelow
	var offs []uint32
	if !small {
		for t := s; t != nil; t = t.base {
			if off, ok := t.findString(name); ok {
				offs = append(offs, off)
			}
		}
		if len(offs) == 0 {
			return nil, none, false
		}
	}
	for _, id := range s.enums.ids {
		r, _ := s.raw(id)
		for i := range r.vlen() {
			off, v := r.enumerator(i)
			if small && !s.strIs(off, name) || !small && off != offs[0] && (len(offs) < 2 || off != offs[1]) {
				continue
			}
			t, err := s.Type(id)
			if err != nil {
				return nil, none, false
			}
			return t.(*types.Enum), types.Enumerator{Name: name, Value: v}, true
		}
	}
	return nil, none, false
}
