package dwarf

import (
	"bytes"
	dw "debug/dwarf"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strings"

	"godtrace/internal/types"
)

// made is a type, or a failure to make it. While it is being made, ptrs is the
// number of pointers that led to it.
type made struct {
	t       types.Type
	class   Offset // the definition of a struct or class, else 0
	err     error
	pending bool
	ptrs    int
}

var errCycle = errors.New("the type refers to itself other than through a pointer")

// maxNest bounds how deep types nest; C's do not come near.
const maxNest = 200

// Type makes the type whose entry lies at off. Members of structs are made when
// they are first asked for. Pointers are marked as pointing into the memory of
// the traced process.
func (f *File) Type(off Offset) (t types.Type, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer guard(&err, f.Path)
	debug.SetPanicOnFault(true)
	defer runtime.KeepAlive(f.mem)
	m := f.make(off)
	return m.t, m.err
}

// typeOf makes the type that an attribute names; nil is void. The offset is that of
// the definition of a struct or class, else 0.
func (f *File) typeOf(ref any) (types.Type, Offset, error) {
	if ref == nil {
		return types.TVoid, 0, nil
	}
	r, ok := ref.(typeRef)
	if !ok {
		return nil, 0, fmt.Errorf("%v is no type", ref)
	}
	switch v := r.v.(type) {
	case Offset:
		m := f.make(v)
		return m.t, m.class, m.err
	case uint64:
		off, ok := f.sigs[v]
		if !ok || r.class != dw.ClassReferenceSig {
			return nil, 0, errors.New("it is in a type unit that the file does not have")
		}
		m := f.make(off)
		return m.t, m.class, m.err
	case int64:
		if r.class == dw.ClassReferenceAlt {
			alt := f.alternate()
			if alt == nil {
				return nil, 0, errors.New("it is in a supplementary file (.gnu_debugaltlink) that is not there")
			}
			alt.mu.Lock()
			defer alt.mu.Unlock()
			m := alt.make(Offset(v))
			return m.t, 0, m.err
		}
	}
	return nil, 0, fmt.Errorf("a reference of class %s is not understood", r.class)
}

// alternate is the file that dwz(1) has moved shared entries into.
func (f *File) alternate() *File {
	if f.altOK || len(f.link) == 0 {
		return f.alt
	}
	f.altOK = true
	name, id, _ := strings.Cut(string(f.link), "\x00")
	if name == "" {
		return nil
	}
	try := []string{name}
	if !path.IsAbs(name) {
		try[0] = path.Join(path.Dir(f.Path), name)
	}
	if len(id) > 1 {
		try = append(try, fmt.Sprintf("/usr/lib/debug/.build-id/%x/%x.debug", id[:1], id[1:]))
	}
	for _, name := range try {
		if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
			continue
		}
		if alt, err := Open(name); err == nil && bytes.HasSuffix(alt.note, []byte(id)) {
			alt.altOK = true // such a file refers to no other
			f.alt = alt
			break
		}
	}
	return f.alt
}

// make makes the type at off, once.
func (f *File) make(off Offset) *made {
	if m := f.types[off]; m != nil {
		// What is still being made may be referred to, but not contained.
		if m.pending && (m.t == nil || m.ptrs == f.ptrs) {
			return &made{err: errCycle}
		}
		return m
	}
	if f.nest > maxNest {
		return &made{err: errors.New("the type nests too deep")}
	}
	m := &made{pending: true, ptrs: f.ptrs}
	f.types[off] = m
	f.nest++
	e, err := f.entry(off)
	if err == nil {
		err = f.build(e, m)
	}
	f.nest--
	m.pending = false
	if m.err = err; err != nil {
		m.t = nil
	}
	return m
}

// wanted is the type that e refers to.
func (f *File) wanted(e *dw.Entry) (types.Type, Offset, error) {
	field := e.AttrField(dw.AttrType)
	if field == nil {
		return types.TVoid, 0, nil
	}
	return f.typeOf(typeRef{field.Val, field.Class})
}

// build makes the type of an entry into m.
func (f *File) build(e *dw.Entry, m *made) (err error) {
	name, _ := e.Val(dw.AttrName).(string)
	size := byteSize(e)
	switch e.Tag {
	case dw.TagBaseType:
		m.t, err = base(e, name, size)
	case dw.TagUnspecifiedType:
		m.t = types.TVoid
	case dw.TagPointerType, dw.TagReferenceType, dw.TagRvalueReferenceType:
		p := &types.Pointer{Elem: types.TVoid, User: true, ILP32: size == 4 || size < 0 && f.wordSize() == 4}
		m.t = p
		f.ptrs++
		// What cannot be told of the target does not keep from the address.
		if elem, _, err := f.wanted(e); err == nil {
			p.Elem = elem
		}
		f.ptrs--
	case dw.TagPtrToMemberType:
		// Of data an offset, of functions an address and an adjustment.
		m.t = types.TLong
		f.ptrs++
		if t, _, err := f.wanted(e); err == nil && types.IsFunc(t) {
			m.t = &types.Array{Elem: types.TLong, N: 2}
		}
		f.ptrs--
	case dw.TagTypedef, dw.TagTemplateAlias:
		t := &types.Typedef{Name: f.qualified(e.Offset, name), Type: types.TVoid, Scope: f.scope()}
		m.t = t
		u, class, err := f.wanted(e)
		if err != nil {
			return err
		}
		t.Type, m.class = u, class
	case dw.TagConstType, dw.TagVolatileType, dw.TagRestrictType:
		u, class, err := f.wanted(e)
		if err != nil {
			return err
		}
		q := &types.Qualified{Type: u}
		if in, ok := u.(*types.Qualified); ok {
			*q = *in // "const volatile" is one qualified type
		}
		switch e.Tag {
		case dw.TagConstType:
			q.Const = true
		case dw.TagVolatileType:
			q.Volatile = true
		default:
			q.Restrict = true
		}
		m.t, m.class = q, class
	case dw.TagAtomicType, dw.TagImmutableType, dw.TagPackedType, dw.TagSharedType:
		m.t, m.class, err = f.wanted(e)
	case dw.TagArrayType:
		return f.array(e, m)
	case dw.TagSubroutineType, dw.TagSubprogram:
		return f.prototype(e, m)
	case dw.TagEnumerationType:
		return f.enum(e, m, name, size)
	case dw.TagStructType, dw.TagClassType, dw.TagUnionType, dw.TagInterfaceType:
		s := &types.Struct{Union: e.Tag == dw.TagUnionType, Tag: f.qualified(e.Offset, name), Scope: f.scope(), Bytes: max(size, 0), Go: f.isGo(e.Offset), User: true}
		off := e.Offset
		sig, elsewhere := e.Val(dw.AttrSignature).(uint64) // in a type unit
		if declared(e) || elsewhere {
			s.Incomplete = true
			// Whether another unit defines it is looked up when its members are
			// asked for; its size must be known before.
			def, ok := Offset(0), false
			if elsewhere {
				def, ok = f.sigs[sig]
			} else {
				def, ok = f.definition(e.Tag, name)
			}
			if ok {
				if d, err := f.entry(def); err == nil {
					off, s.Bytes, s.Incomplete = def, max(byteSize(d), 0), false
					name, _ = d.Val(dw.AttrName).(string)
					s.Tag = f.qualified(def, name)
				}
			}
		}
		if !s.Incomplete {
			s.Complete = func(s *types.Struct) { f.complete(s, off) }
		}
		m.t, m.class = s, off
	case dw.TagSubrangeType, dw.TagSetType, dw.TagFileType, dw.TagStringType:
		if u, _, err := f.wanted(e); err == nil && types.IsInteger(u) {
			m.t = u
		} else {
			m.t = opaque(size)
		}
	default:
		return fmt.Errorf("an entry with the tag %s is no type", e.Tag)
	}
	return err
}

// byAddress reports a class of C++ whose objects are passed by their address, by
// the rule that copying or destroying them runs code: they have a copy or move
// constructor or a destructor that the source gives, virtual functions or bases,
// or consist of such.
func (f *File) byAddress(class Offset, depth int) bool {
	if class == 0 || depth > 16 {
		return false
	}
	e, err := f.entry(class)
	if err != nil {
		return false
	}
	const byReference, byValue = 4, 5
	switch n, _ := e.Val(dw.AttrCalling).(int64); n {
	case byReference:
		return true
	case byValue:
		return false
	}
	name, _ := e.Val(dw.AttrName).(string)
	name, _, _ = strings.Cut(name, "<") // of a template
	found := false
	f.children(e, func(c *dw.Entry) error {
		virtual, _ := c.Val(dw.AttrVirtuality).(int64)
		switch c.Tag {
		case dw.TagMember, dw.TagInheritance:
			static, _ := c.Val(dw.AttrExternal).(bool)
			if virtual != 0 {
				found = true
			} else if _, in, err := f.wanted(f.element(c)); err == nil && !static && !declared(c) {
				found = f.byAddress(in, depth+1)
			}
		case dw.TagSubprogram:
			found = virtual != 0 || f.special(c, name, class)
		}
		if found {
			return errFound
		}
		return nil
	})
	return found
}

var errFound = errors.New("found")

// element is a member, or the array that it is, which leads to its elements' type.
func (f *File) element(c *dw.Entry) *dw.Entry {
	off, ok := c.Val(dw.AttrType).(Offset)
	if !ok {
		return c
	}
	if e, err := f.entry(off); err == nil && e.Tag == dw.TagArrayType {
		return e
	}
	return c
}

// special reports a destructor, or a constructor that copies or moves, that the
// compiler has not made by itself.
func (f *File) special(c *dw.Entry, class string, at Offset) bool {
	const attrDeleted, attrDefaulted, inClass = dw.Attr(0x8a), dw.Attr(0x8b), 1
	artificial, _ := c.Val(dw.AttrArtificial).(bool)
	deleted, _ := c.Val(attrDeleted).(bool)
	if n, _ := c.Val(attrDefaulted).(int64); n == inClass || artificial || deleted {
		return false
	}
	name, _ := c.Val(dw.AttrName).(string)
	if name == "~"+class {
		return true
	}
	if name != class {
		return false
	}
	var own []*dw.Entry
	f.children(c, func(p *dw.Entry) error {
		if artificial, _ := p.Val(dw.AttrArtificial).(bool); p.Tag == dw.TagFormalParameter && !artificial {
			own = append(own, p)
		}
		return nil
	})
	if len(own) != 1 {
		return false
	}
	off, _ := own[0].Val(dw.AttrType).(Offset)
	r, err := f.entry(off)
	if err != nil || r.Tag != dw.TagReferenceType && r.Tag != dw.TagRvalueReferenceType {
		return false
	}
	_, to, err := f.wanted(r)
	return err == nil && to == at
}

// isGo reports whether an entry is in a unit of Go code.
func (f *File) isGo(off Offset) bool {
	u := f.unitOf(off)
	return u != nil && f.readUnit(u) == nil && u.lang.IsGo()
}

// Struct is the struct of that name, defined anywhere in the file.
func (f *File) Struct(name string) (t types.Type, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer guard(&err, f.Path)
	debug.SetPanicOnFault(true)
	defer runtime.KeepAlive(f.mem)
	off, ok := f.definition(dw.TagStructType, name)
	if !ok {
		return nil, fmt.Errorf("struct %s is %w of %s", name, ErrNotFound, path.Base(f.Path))
	}
	m := f.make(off)
	return m.t, m.err
}

// scope names the object in the types that come from it.
func (f *File) scope() string { return path.Base(f.Path) }

// byteSize is the DW_AT_byte_size of an entry, -1 if it has none.
func byteSize(e *dw.Entry) int64 {
	if n, ok := e.Val(dw.AttrByteSize).(int64); ok && n >= 0 && n < 1<<40 {
		return n
	}
	return -1
}

// opaque stands for a value of which only the size is known.
func opaque(size int64) types.Type {
	return &types.Array{Elem: types.TUChar, N: max(size, 0)}
}

// base is the type of a DW_TAG_base_type, by its encoding and size in bytes.
func base(e *dw.Entry, name string, size int64) (types.Type, error) {
	const (
		address = iota + 1
		boolean
		complex
		float
		signed
		signedChar
		unsigned
		unsignedChar
	)
	size = max(size, 0)
	b := &types.Basic{Kind: types.Int, Name: name, Bytes: size}
	enc, _ := e.Val(dw.AttrEncoding).(int64)
	switch enc {
	case boolean:
		b.Kind = types.Bool
	case float:
		b.Kind, b.Signed = types.Float, true
	case signed, signedChar:
		b.Signed = true
	case unsigned, unsignedChar, address, 0x10, 0x12: // and UTF, ASCII
	case complex:
		half := &types.Basic{Kind: types.Float, Name: strings.TrimPrefix(name, "complex "), Bytes: size / 2, Signed: true}
		return &types.Struct{Tag: name, Scope: "C", Bytes: size, AlignB: max(half.Bytes, 1), Fields: []types.Field{
			{Name: "real", Type: half}, {Name: "imag", Type: half, Off: half.Bytes, BitOff: half.Bytes * 8}}}, nil
	default:
		return nil, fmt.Errorf("the type %s, of encoding %d, is not known", name, enc)
	}
	if name == "char" && size == 1 {
		b.Kind = types.Char
	}
	if size == 0 { // the unit type of Rust
		return &types.Basic{Kind: types.Void, Name: name}, nil
	}
	if size > 16 {
		return opaque(size), nil
	}
	return b, nil
}

// array makes the type of a DW_TAG_array_type, of all its dimensions.
func (f *File) array(e *dw.Entry, m *made) error {
	elem, _, err := f.wanted(e)
	if err != nil {
		return err
	}
	var dims []int64
	err = f.children(e, func(c *dw.Entry) error {
		if c.Tag == dw.TagSubrangeType || c.Tag == dw.TagEnumerationType {
			dims = append(dims, count(c))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(dims) == 0 {
		dims = []int64{-1}
	}
	if len(dims) > 16 {
		return errors.New("the array has too many dimensions")
	}
	for i := len(dims) - 1; i >= 0; i-- {
		a := &types.Array{Elem: elem, N: dims[i]}
		if vec, _ := e.Val(attrGNUVector).(bool); vec {
			f.vecs[a] = true
		}
		if a.N < 0 {
			a.N, a.Flexible = 0, true
		}
		elem = a
	}
	m.t = elem
	return nil
}

const attrGNUVector = dw.Attr(0x2107)

// count is the length of a dimension of an array, -1 where it is not constant.
func count(c *dw.Entry) int64 {
	if n, ok := c.Val(dw.AttrCount).(int64); ok && n >= 0 {
		return n
	}
	n, ok := c.Val(dw.AttrUpperBound).(int64)
	if !ok {
		return -1
	}
	if n == math.MaxUint32 {
		n = -1 // of an array of no elements, by old compilers
	}
	low, _ := c.Val(dw.AttrLowerBound).(int64)
	if n -= low; n < -1 || n > 1<<40 {
		return -1
	}
	return n + 1
}

func (f *File) prototype(e *dw.Entry, m *made) error {
	fn := &types.Func{Ret: types.TVoid}
	m.t = fn
	ret, _, err := f.wanted(e)
	if err != nil {
		return err
	}
	fn.Ret = ret
	return f.children(e, func(c *dw.Entry) error {
		switch c.Tag {
		case dw.TagUnspecifiedParameters:
			fn.Variadic = true
		case dw.TagFormalParameter:
			t, _, err := f.wanted(c)
			if err != nil {
				return err
			}
			name, _ := c.Val(dw.AttrName).(string)
			if len(fn.Params) < 256 {
				fn.Params = append(fn.Params, types.Param{Name: name, Type: t})
			}
		}
		return nil
	})
}

// enum makes the type of a DW_TAG_enumeration_type, with its constants.
func (f *File) enum(e *dw.Entry, m *made, name string, size int64) error {
	n := &types.Enum{Tag: f.qualified(e.Offset, name), Scope: f.scope(), Bytes: size, Incomplete: declared(e)}
	under, _, err := f.wanted(e)
	if err != nil {
		return err
	}
	if types.IsInteger(under) {
		n.Signed = types.IsSigned(under)
		if size < 0 {
			n.Bytes = under.Size()
		}
	}
	if n.Bytes < 1 || n.Bytes > 8 {
		n.Bytes = 4
	}
	negative := false
	err = f.children(e, func(c *dw.Entry) error {
		if c.Tag == dw.TagEnumerator && len(n.Values) < 1<<16 {
			v, _ := c.Val(dw.AttrConstValue).(int64)
			name, _ := c.Val(dw.AttrName).(string)
			n.Values = append(n.Values, types.Enumerator{Name: name, Value: v})
			negative = negative || v < 0
		}
		return nil
	})
	n.Signed = n.Signed || negative && !types.IsInteger(under)
	for i := range n.Values {
		// Constants may be written with as many bits as fit, without a sign.
		if s := 64 - 8*n.Bytes; n.Signed {
			n.Values[i].Value = n.Values[i].Value << s >> s
		}
	}
	m.t = n
	return err
}

// definition finds the struct that is only declared in one unit where another
// defines it.
func (f *File) definition(tag dw.Tag, name string) (Offset, bool) {
	space := types.StructTag
	if tag == dw.TagUnionType {
		space = types.UnionTag
	}
	f.readNames()
	off, ok := f.names.types[typeName{space, name}]
	return off, ok && name != ""
}

// names are the types at the top of the units, and the constants of enums.
type names struct {
	read   bool
	types  map[typeName]Offset
	consts map[string]Offset // enums by constant
}

type typeName struct {
	space types.Space
	name  string
}

// readNames reads the names of a file's types. Those of a very large file are not
// read: that takes longer than what they are wanted for is worth.
func (f *File) readNames() {
	const most = 16 << 20
	if f.names.read {
		return
	}
	f.names = names{true, map[typeName]Offset{}, map[string]Offset{}}
	if len(f.sect["info"]) > most {
		return
	}
	for _, u := range f.units {
		f.unitNames(u)
	}
}

// spaces are the name spaces of the entries that define types.
var spaces = map[dw.Tag]types.Space{
	dw.TagStructType: types.StructTag, dw.TagClassType: types.StructTag, dw.TagUnionType: types.UnionTag,
	dw.TagEnumerationType: types.EnumTag, dw.TagTypedef: types.TypedefName,
}

func (f *File) unitNames(u *unit) {
	r := f.data.Reader()
	r.Seek(u.die)
	root, err := f.next(r)
	if err != nil || root == nil || !root.Children {
		return
	}
	for {
		e, err := f.next(r)
		if err != nil || e == nil || e.Tag == 0 || e.Offset >= u.end {
			return
		}
		if space, ok := spaces[e.Tag]; ok && !declared(e) {
			name, _ := e.Val(dw.AttrName).(string)
			if key := (typeName{space, name}); name != "" && f.names.types[key] == 0 {
				f.names.types[key] = e.Offset
			}
			if space == types.EnumTag {
				f.children(e, func(c *dw.Entry) error {
					if name, ok := c.Val(dw.AttrName).(string); ok && f.names.consts[name] == 0 {
						f.names.consts[name] = e.Offset
					}
					return nil
				})
			}
		}
		if e.Children && f.skip(r, e) != nil {
			return
		}
	}
}

// LookupType implements types.Lookuper: types at the top of a unit, not those
// within namespaces.
func (f *File) LookupType(space types.Space, name string) (t types.Type, ok bool) {
	off, ok := f.lookup(func() Offset { return f.names.types[typeName{space, name}] })
	if !ok {
		return nil, false
	}
	t, err := f.Type(off)
	return t, err == nil
}

// LookupEnumerator implements types.Lookuper.
func (f *File) LookupEnumerator(name string) (*types.Enum, types.Enumerator, bool) {
	off, ok := f.lookup(func() Offset { return f.names.consts[name] })
	if !ok {
		return nil, types.Enumerator{}, false
	}
	t, err := f.Type(off)
	if err != nil {
		return nil, types.Enumerator{}, false
	}
	e, ok := types.Underlying(t).(*types.Enum)
	if !ok {
		return nil, types.Enumerator{}, false
	}
	v, ok := e.Const(name)
	return e, types.Enumerator{Name: name, Value: v}, ok
}

// lookup reads the names and looks among them.
func (f *File) lookup(find func() Offset) (off Offset, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	defer guard(&err, f.Path)
	debug.SetPanicOnFault(true)
	defer runtime.KeepAlive(f.mem)
	f.readNames()
	off = find()
	return off, off != 0
}

// maxMembers bounds the members of a struct.
const maxMembers = 1 << 16

// complete fills in the members of the struct whose entry lies at off. It has
// those that can be read.
func (f *File) complete(s *types.Struct, off Offset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	defer guard(&err, f.Path)
	debug.SetPanicOnFault(true)
	defer runtime.KeepAlive(f.mem)
	s.AlignB = 1
	e, err := f.entry(off)
	if err != nil {
		return
	}
	s.Fields = f.members(e, 0)
	budget := 1 << 16
	s.AlignB = f.alignOf(off, 0, &budget)
}

// members reads the members of a struct or of a variant of one. Base classes are
// anonymous members, so that theirs are found by name. Enums of Rust have
// an anonymous union of what tells the variants apart and of the variants.
func (f *File) members(e *dw.Entry, depth int) (out []types.Field) {
	f.children(e, func(c *dw.Entry) error {
		if len(out) > maxMembers {
			return errors.New("too many members")
		}
		switch c.Tag {
		case dw.TagMember, dw.TagInheritance:
			if fl, ok := f.member(c); ok {
				out = append(out, fl)
			}
		case dw.TagVariantPart:
			if depth > 8 {
				return nil
			}
			u := &types.Struct{Union: true, Scope: f.scope(), Bytes: max(byteSize(e), 0), AlignB: 1}
			f.enums[u] = true
			f.children(c, func(v *dw.Entry) error {
				switch v.Tag {
				case dw.TagMember:
					if fl, ok := f.member(v); ok {
						if fl.Name == "" {
							fl.Name = "discriminant"
						}
						u.Fields = append(u.Fields, fl)
					}
				case dw.TagVariant:
					u.Fields = append(u.Fields, f.members(v, depth+1)...)
				}
				return nil
			})
			out = append(out, types.Field{Type: u})
		}
		return nil
	})
	return out
}

// member reads one member; false for what lies elsewhere: static members,
// virtual bases.
func (f *File) member(c *dw.Entry) (types.Field, bool) {
	fl := types.Field{}
	if ext, _ := c.Val(dw.AttrExternal).(bool); ext || declared(c) {
		return fl, false
	}
	if c.Tag == dw.TagMember {
		fl.Name, _ = c.Val(dw.AttrName).(string)
	}
	t, _, err := f.wanted(c)
	if err != nil {
		// It is there, but of what type cannot be told.
		t = opaque(byteSize(c))
	}
	fl.Type = t
	switch v := c.Val(dw.AttrDataMemberLoc).(type) {
	case int64:
		fl.Off = v
	case []byte:
		p := &cursor{b: v, order: f.order}
		if p.u8() != opPlusUconst {
			return fl, false
		}
		if fl.Off = int64(p.uleb()); p.err != nil || p.off != len(v) {
			return fl, false
		}
	}
	if fl.Off < 0 || fl.Off > 1<<40 {
		return fl, false
	}
	fl.BitOff = fl.Off * 8
	bits, ok := c.Val(dw.AttrBitSize).(int64)
	if !ok {
		return fl, true
	}
	if bits < 0 || bits > 128 {
		return fl, false
	}
	fl.Bits = bits
	if off, ok := c.Val(dw.AttrDataBitOffset).(int64); ok && off >= 0 && off < 1<<43 {
		fl.BitOff = off
	} else if off, ok := c.Val(dw.AttrBitOffset).(int64); ok {
		// DWARF 2 counts from the most significant bit of the storage unit.
		unit := byteSize(c)
		if unit < 0 {
			unit = t.Size()
		}
		fl.BitOff += unit*8 - off - bits
	}
	if fl.BitOff < 0 {
		return fl, false
	}
	fl.Off = fl.BitOff / 8
	if bits == t.Size()*8 && fl.BitOff%8 == 0 {
		fl.Bits = 0 // a bit-field as wide as its type is a plain member
	}
	return fl, true
}

// alignOf works out an alignment, which DWARF gives only where the source does:
// that of the most aligned member, unless a member lies where its alignment does
// not ask for: then the struct is packed.
func (f *File) alignOf(off Offset, depth int, budget *int) int64 {
	if a, ok := f.align[off]; ok {
		return a
	}
	if *budget--; *budget < 0 || depth > 32 {
		return 1
	}
	e, err := f.entry(off)
	if err != nil {
		return 1
	}
	of := func(e *dw.Entry) int64 {
		switch v := e.Val(dw.AttrType).(type) {
		case Offset:
			return f.alignOf(v, depth+1, budget)
		case uint64:
			if off, ok := f.sigs[v]; ok {
				return f.alignOf(off, depth+1, budget)
			}
		}
		return 1
	}
	if sig, ok := e.Val(dw.AttrSignature).(uint64); ok && f.sigs[sig] != 0 {
		return f.alignOf(f.sigs[sig], depth+1, budget)
	}
	size := byteSize(e)
	align := int64(1)
	switch e.Tag {
	case dw.TagBaseType, dw.TagEnumerationType:
		const complex = 3
		if enc, _ := e.Val(dw.AttrEncoding).(int64); enc == complex {
			size /= 2
		}
		if align = max(size&-size, 1); f.wordSize() == 4 {
			align = min(align, 4) // of members, on i386
		}
	case dw.TagPointerType, dw.TagReferenceType, dw.TagRvalueReferenceType, dw.TagPtrToMemberType:
		align = f.wordSize()
	case dw.TagTypedef, dw.TagConstType, dw.TagVolatileType, dw.TagRestrictType, dw.TagAtomicType, dw.TagArrayType:
		align = of(e)
	case dw.TagStructType, dw.TagClassType, dw.TagUnionType:
		packed := false
		f.children(e, func(c *dw.Entry) error {
			if c.Tag != dw.TagMember && c.Tag != dw.TagInheritance {
				return nil
			}
			fl, ok := f.member(c)
			if !ok {
				return nil
			}
			a := of(c)
			// A bit-field lies within a word of its type.
			word := fl.BitOff / (8 * a) * (8 * a)
			if size%a != 0 || fl.Bits == 0 && fl.Off%a != 0 || fl.Bits > 0 && fl.BitOff+fl.Bits > word+8*fl.Type.Size() {
				packed = true
			}
			align = max(align, a)
			return nil
		})
		if packed {
			align = 1
		}
	}
	if a, ok := e.Val(dw.AttrAlignment).(int64); ok && a > 0 && a <= 1<<20 {
		align = a
	}
	f.align[off] = align
	return align
}
