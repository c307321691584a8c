package types

import "slices"

// Space is one of C's name spaces for types.
type Space uint8

const (
	TypedefName Space = iota // also the names of basic types
	StructTag
	UnionTag
	EnumTag
)

func (s Space) String() string {
	switch s {
	case StructTag:
		return "struct"
	case UnionTag:
		return "union"
	case EnumTag:
		return "enum"
	}
	return "typedef"
}

// Lookuper finds named types: a Scope, or a BTF blob of the kernel.
type Lookuper interface {
	// LookupType finds a typedef or basic type, or a tag, by name.
	LookupType(space Space, name string) (Type, bool)
	// LookupEnumerator finds a constant of any enum by its name.
	LookupEnumerator(name string) (*Enum, Enumerator, bool)
}

// Scope is a mutable set of named types, such as D's own containers "C" (types
// from include files) and "D" (types a program declares).
type Scope struct {
	Name   string
	Parent *Scope // consulted when the name is not here; may be nil

	names  map[scopeKey]Type
	consts map[string]enumConst
}

type scopeKey struct {
	space Space
	name  string
}

type enumConst struct {
	enum *Enum
	c    Enumerator
}

// NewScope makes an empty scope.
func NewScope(name string, parent *Scope) *Scope {
	return &Scope{Name: name, Parent: parent,
		names: map[scopeKey]Type{}, consts: map[string]enumConst{}}
}

// NewCScope makes the scope "C" with C's basic types.
func NewCScope() *Scope {
	s := NewScope("C", nil)
	for name, t := range ctypes {
		if t != TString {
			s.names[scopeKey{TypedefName, name}] = t
		}
	}
	return s
}

// NewDScope makes the scope "D", with string and D's typedefs, over C.
func NewDScope(c *Scope) *Scope {
	s := NewScope("D", c)
	s.names[scopeKey{TypedefName, "string"}] = TString
	for _, t := range dTypedefs {
		s.names[scopeKey{TypedefName, t.Name}] = t
	}
	return s
}

// Predefined reports whether t is a typedef that every D scope begins with.
func Predefined(t Type) bool {
	d, ok := t.(*Typedef)
	return ok && slices.Contains(dTypedefs, d)
}

// NewSolarisScope makes the scope of last resort: names that scripts written
// elsewhere use for types which neither D nor the kernel has (hrtime_t,
// processorid_t). Ask it after the kernel's types.
func NewSolarisScope() *Scope {
	s := NewScope("D", nil)
	for _, t := range solaris {
		s.names[scopeKey{TypedefName, t.Name}] = t
	}
	return s
}

// LookupType finds name here or in the parents.
func (s *Scope) LookupType(space Space, name string) (Type, bool) {
	for ; s != nil; s = s.Parent {
		if t, ok := s.names[scopeKey{space, name}]; ok {
			return t, true
		}
	}
	return nil, false
}

// Here finds name in this scope alone.
func (s *Scope) Here(space Space, name string) (Type, bool) {
	t, ok := s.names[scopeKey{space, name}]
	return t, ok
}

// LookupEnumerator finds an enumeration constant here or in the parents.
func (s *Scope) LookupEnumerator(name string) (*Enum, Enumerator, bool) {
	for ; s != nil; s = s.Parent {
		if e, ok := s.consts[name]; ok {
			return e.enum, e.c, true
		}
	}
	return nil, Enumerator{}, false
}

// Define enters t under name; the constants of an enum become known with it.
// It reports false, and changes nothing, when the name is taken by another
// type (an incomplete struct or enum may be completed by defining it again).
func (s *Scope) Define(space Space, name string, t Type) bool {
	key := scopeKey{space, name}
	if old, ok := s.names[key]; ok && old != t && !incomplete(old) {
		return false
	}
	s.names[key] = t
	if e, ok := t.(*Enum); ok {
		s.DefineConstants(e)
	}
	return true
}

func incomplete(t Type) bool {
	switch x := t.(type) {
	case *Struct:
		return x.Incomplete
	case *Enum:
		return x.Incomplete
	}
	return false
}

// DefineConstants makes the constants of e known; anonymous enums have no tag
// to be entered by.
func (s *Scope) DefineConstants(e *Enum) {
	for _, v := range e.Values {
		s.consts[v.Name] = enumConst{e, v}
	}
}

// Names calls f for every type entered here, in no order.
func (s *Scope) Names(f func(space Space, name string, t Type)) {
	for k, t := range s.names {
		f(k.space, k.name, t)
	}
}

// Const finds the value of an enumeration constant by name.
func (t *Enum) Const(name string) (int64, bool) {
	for _, v := range t.Values {
		if v.Name == name {
			return v.Value, true
		}
	}
	return 0, false
}

// NameOf is the constant of that value, "" when there is none.
func (t *Enum) NameOf(value int64) string {
	for _, v := range t.Values {
		if v.Value == value {
			return v.Name
		}
	}
	return ""
}
