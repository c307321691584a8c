package dwarf

import (
	dw "debug/dwarf"
	"errors"
	"fmt"

	"godtrace/internal/types"
)

// index notes where the functions of a unit begin. Unless deep, it skips what
// is inside functions.
func (f *File) index(u *unit, deep bool) error {
	if u.indexed && (u.deep || !deep) {
		return nil
	}
	u.indexed, u.deep = true, deep
	if u.funcs == nil {
		u.funcs = map[uint64]Offset{}
	}
	if u.lang.IsCPP() || u.lang.IsRust() {
		u.within = map[Offset]string{}
	}
	return f.walk(u, deep, func(e *dw.Entry) {
		if low, ok := f.entryPC(e); ok {
			if _, ok := u.funcs[low]; !ok {
				u.funcs[low] = e.Offset
			}
		}
	})
}

// walk calls do for every subprogram of a unit.
func (f *File) walk(u *unit, deep bool, do func(*dw.Entry)) error {
	r := f.data.Reader()
	r.Seek(u.die)
	depth := 0
	var scope []string // by depth: "net::Conn::"
	for {
		e, err := f.next(r)
		if err != nil {
			return err
		}
		if e == nil || e.Offset >= u.end {
			return nil
		}
		if e.Tag == 0 {
			if depth--; depth <= 0 {
				return nil
			}
			scope = scope[:depth]
			continue
		}
		inside := ""
		if u.within != nil {
			if depth > 0 {
				inside = scope[depth-1]
			}
			if named(e.Tag) || e.Tag == dw.TagTypedef {
				if inside != "" {
					u.within[e.Offset] = inside
				}
				if name, _ := e.Val(dw.AttrName).(string); name != "" && e.Children && len(inside) < maxScope {
					inside += name + "::"
				}
			}
		}
		sub := e.Tag == dw.TagSubprogram
		if sub {
			do(e)
		}
		if !e.Children {
			continue
		}
		if _, ok := e.Val(dw.AttrSibling).(Offset); ok && depth > 0 && (sub && !deep || passive(e.Tag)) {
			r.SkipChildren()
			continue
		}
		depth++
		scope = append(scope, inside)
	}
}

// maxScope bounds the names of nested scopes.
const maxScope = 1 << 12

// named reports entries whose names what is inside them bears.
func named(t dw.Tag) bool {
	switch t {
	case dw.TagNamespace, dw.TagStructType, dw.TagClassType, dw.TagUnionType, dw.TagEnumerationType:
		return true
	}
	return false
}

// qualified is the name of a type with those of the namespaces and classes around it,
// as C++ and Rust write it.
func (f *File) qualified(off Offset, name string) string {
	u := f.unitOf(off)
	if name == "" || u == nil || f.readUnit(u) != nil || !u.lang.IsCPP() && !u.lang.IsRust() || f.index(u, false) != nil {
		return name
	}
	return u.within[off] + name
}

// passive reports entries that hold no functions.
func passive(t dw.Tag) bool {
	switch t {
	case dw.TagArrayType, dw.TagSubroutineType:
		return true
	}
	return false
}

// entryPC is where a function begins.
func (f *File) entryPC(e *dw.Entry) (uint64, bool) {
	if low, ok := e.Val(dw.AttrLowpc).(uint64); ok {
		return low, low != 0
	}
	if pc, ok := e.Val(dw.AttrEntrypc).(uint64); ok {
		return pc, true
	}
	if e.Val(dw.AttrRanges) == nil {
		return 0, false
	}
	r, err := f.data.Ranges(e)
	if err != nil || len(r) == 0 || r[0][0] == 0 {
		return 0, false
	}
	return r[0][0], true
}

// functionsNamed adds the functions of a unit that have a name, and reports whether
// there is one that was inlined only.
func (f *File) functionsNamed(u *unit, name string, out *[]Function) (inlined bool, err error) {
	err = f.walk(u, false, func(e *dw.Entry) {
		if s, ok := e.Val(dw.AttrName).(string); ok && s == name && declared(e) {
			return
		}
		a, err := f.follow(e)
		if err != nil || a.name != name && a.linkage != name {
			return
		}
		if _, ok := f.entryPC(e); !ok {
			const inlinedIt, declaredInlined = 1, 3
			switch v, _ := e.Val(dw.AttrInline).(int64); v {
			case inlinedIt, declaredInlined:
				inlined = true
			}
			return
		}
		if fn, err := f.function(u, e.Offset); err == nil {
			*out = append(*out, *fn)
		}
	})
	return inlined, err
}

func declared(e *dw.Entry) bool {
	d, _ := e.Val(dw.AttrDeclaration).(bool)
	return d
}

// attributes of a function or parameter, its own and those of the entries it
// refers to.
type attributes struct {
	name, linkage string
	typ           any // Offset, signature or offset in the other file; nil for void
	external      bool
	changed       bool
	artificial    bool
	origin        *dw.Entry // the last of the chain
}

// follow collects an entry's attributes.
func (f *File) follow(e *dw.Entry) (attributes, error) {
	var a attributes
	for range 8 {
		a.origin = e
		var next any
		for i := range e.Field {
			switch v := e.Field[i].Val; e.Field[i].Attr {
			case dw.AttrName:
				if s, ok := v.(string); ok && a.name == "" {
					a.name = s
				}
			case dw.AttrLinkageName, attrMIPSLinkageName:
				if s, ok := v.(string); ok && a.linkage == "" {
					a.linkage = s
				}
			case dw.AttrType:
				if a.typ == nil {
					a.typ = typeRef{v, e.Field[i].Class}
				}
			case dw.AttrExternal:
				b, _ := v.(bool)
				a.external = a.external || b
			case dw.AttrCalling:
				const nocall, user = 3, 0x40 // beyond: conventions of other systems
				n, _ := v.(int64)
				a.changed = a.changed || n == nocall || n >= user
			case dw.AttrArtificial:
				b, _ := v.(bool)
				a.artificial = a.artificial || b
			case dw.AttrAbstractOrigin, dw.AttrSpecification:
				next = v
			}
		}
		off, ok := next.(Offset)
		if !ok {
			return a, nil
		}
		var err error
		if e, err = f.entry(off); err != nil {
			return a, err
		}
	}
	return a, errors.New("an entry refers to itself")
}

const attrMIPSLinkageName = dw.Attr(0x2007)

// typeRef is the value of a DW_AT_type.
type typeRef struct {
	v     any
	class dw.Class
}

// function reads the function whose entry lies at off.
func (f *File) function(u *unit, off Offset) (*Function, error) {
	e, err := f.entry(off)
	if err != nil {
		return nil, err
	}
	a, err := f.follow(e)
	if err != nil {
		return nil, err
	}
	pc, _ := f.entryPC(e)
	fn := &Function{file: f, Name: a.name, Linkage: a.linkage, Entry: pc, External: a.external,
		Changed: a.changed, Lang: u.lang, Producer: u.producer}
	if a.typ != nil {
		var class Offset
		if fn.Ret, class, err = f.typeOf(a.typ); err != nil {
			return nil, fmt.Errorf("%s: type of the result: %w", a.name, err)
		}
		fn.ByRef = u.lang.IsCPP() && f.byAddress(class, 0)
		if types.IsVoid(fn.Ret) || fn.Ret.Size() == 0 && !types.IsPointer(fn.Ret) && u.lang.IsRust() {
			fn.Ret = nil
		}
	}
	cfa := f.frameIsCFA(e)
	own := map[Offset]Param{} // by the entry of the abstract function
	err = f.children(e, func(p *dw.Entry) error {
		switch p.Tag {
		case dw.TagUnspecifiedParameters:
			fn.Variadic = true
		case dw.TagFormalParameter:
			pm, err := f.param(u, p, pc, cfa)
			if err != nil {
				return err
			}
			if o, ok := p.Val(dw.AttrAbstractOrigin).(Offset); ok {
				own[o] = pm
			}
			fn.Params = append(fn.Params, pm)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.name, err)
	}
	if o, ok := e.Val(dw.AttrAbstractOrigin).(Offset); ok {
		if err := f.arrange(u, o, fn, own); err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return fn, nil
}

// arrange brings the parameters into the order of the abstract function, which is
// that of the source, and adds those that an instance was made without.
func (f *File) arrange(u *unit, abstract Offset, fn *Function, own map[Offset]Param) error {
	e, err := f.entry(abstract)
	if err != nil {
		return err
	}
	var out []Param
	err = f.children(e, func(p *dw.Entry) error {
		switch p.Tag {
		case dw.TagUnspecifiedParameters:
			fn.Variadic = true
		case dw.TagFormalParameter:
			pm, ok := own[p.Offset]
			if !ok {
				if artificial, _ := p.Val(dw.AttrArtificial).(bool); artificial {
					return nil // of constructors: some of them have it
				}
				if pm, err = f.param(u, p, 0, false); err != nil {
					return err
				}
				pm.Gone = true
			}
			out = append(out, pm)
		}
		return nil
	})
	if len(out) >= len(own) && len(own) == len(fn.Params) {
		fn.Params = out
	}
	return err
}

// children calls do for the entries right below e.
func (f *File) children(e *dw.Entry, do func(*dw.Entry) error) error {
	if !e.Children {
		return nil
	}
	r := f.data.Reader()
	r.Seek(e.Offset)
	if _, err := f.next(r); err != nil {
		return err
	}
	for {
		c, err := f.next(r)
		if err != nil {
			return err
		}
		if c == nil || c.Tag == 0 {
			return nil
		}
		if err := do(c); err != nil {
			return err
		}
		if c.Children {
			if err := f.skip(r, c); err != nil {
				return err
			}
		}
	}
}

// skip passes over the entries below c, which was read last.
func (f *File) skip(r *dw.Reader, c *dw.Entry) error {
	if to, ok := c.Val(dw.AttrSibling).(Offset); ok && to > c.Offset {
		r.SkipChildren()
		return nil
	}
	for depth := 1; depth > 0; {
		e, err := f.next(r)
		switch {
		case err != nil:
			return err
		case e == nil:
			return nil
		case e.Tag == 0:
			depth--
		case e.Children:
			depth++
		}
	}
	return nil
}

// param reads a parameter of the function that begins at pc.
func (f *File) param(u *unit, e *dw.Entry, pc uint64, cfa bool) (Param, error) {
	a, err := f.follow(e)
	if err != nil {
		return Param{}, err
	}
	p := Param{Name: a.name}
	var class Offset
	if p.Type, class, err = f.typeOf(a.typ); err != nil {
		return p, fmt.Errorf("type of parameter %s: %w", a.name, err)
	}
	p.ByRef = u.lang.IsCPP() && f.byAddress(class, 0)
	p.Result, _ = e.Val(dw.AttrVarParam).(bool)
	switch v := e.Val(dw.AttrConstValue).(type) {
	case int64:
		p.Entry, p.Described = []Piece{{Kind: PieceConst, Off: v}}, true
		return p, nil
	case nil:
	default:
		p.Gone, p.Described = true, true
		return p, nil
	}
	f.locate(u, e, pc, cfa, &p)
	return p, nil
}
