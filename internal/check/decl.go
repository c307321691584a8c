package check

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// lookupType finds a type by name: kind is "struct", "union", "enum" or "" for
// typedefs and basic types. D's own come first, then what D libraries define,
// then the kernel's, last names that other systems have. nil: there is none.
func (c *Checker) lookupType(module, kind, name string) types.Type {
	space := typeSpace(kind)
	switch module {
	case "", "D", "C":
	default:
		// A module of the kernel, or the file that the clause's probes are in.
		if t := c.env.LookupType(module, kind, name); t != nil {
			return t
		}
		if p := c.programTypes(); p != nil && (module == "a.out" || module == c.clause.probes[0].Desc.Module) {
			t, _ := p.LookupType(space, name)
			return t
		}
		return nil
	}
	if module == "C" {
		t, _ := c.cTypes.LookupType(space, name)
		return t
	}
	if t, ok := c.dTypes.LookupType(space, name); ok && !incomplete(t) {
		return t
	}
	if kind == "" {
		if t := c.specialType(name); t != nil {
			return t
		}
	}
	key := name
	if kind != "" {
		key = kind + " " + name
	}
	if c.loadLibrary("type", key) {
		if t, ok := c.dTypes.LookupType(space, name); ok && !incomplete(t) {
			return t
		}
	}
	if t := c.env.LookupType("", kind, name); t != nil {
		return t
	}
	if p := c.programTypes(); p != nil {
		if t, ok := p.LookupType(space, name); ok {
			return t
		}
	}
	if t, ok := c.solaris.LookupType(space, name); ok {
		return t
	}
	if t, ok := c.dTypes.LookupType(space, name); ok {
		return t
	}
	return nil
}

// programTypes are the types of the program that a clause's probes are in.
func (c *Checker) programTypes() types.Lookuper {
	if c.clause == nil || len(c.clause.probes) == 0 {
		return nil
	}
	return c.clause.probes[0].Types
}

// ofProgram reports a struct of a program, whatever pointers lead to it.
func ofProgram(t types.Type) bool {
	for e := t; e != nil; e = types.Elem(e) {
		if s, ok := types.Underlying(e).(*types.Struct); ok {
			return s.User
		}
	}
	return false
}

// specialType finds the types of symbolic values.
func (c *Checker) specialType(name string) types.Type {
	switch name {
	case "_symaddr":
		return types.TSymAddr
	case "_usymaddr":
		return types.TUSymAddr
	case "stack":
		return types.TStack
	}
	return nil
}

func typeSpace(kind string) types.Space {
	switch kind {
	case "struct":
		return types.StructTag
	case "union":
		return types.UnionTag
	case "enum":
		return types.EnumTag
	}
	return types.TypedefName
}

// IsType reports whether name is the name of a type, for the parser: a word
// of D, of a D library, or of the kernel. Names of variables are not.
func (c *Checker) IsType(name string) bool {
	module := ""
	if i := strings.LastIndexByte(name, '`'); i >= 0 {
		module, name = name[:i], name[i+1:]
	} else if c.globals[name] != nil || identTable()[name] != nil {
		return false
	}
	return c.lookupType(module, "", name) != nil
}

// complete finds the definition of a type that is only declared.
func (c *Checker) complete(t types.Type) types.Type {
	switch u := types.Underlying(t).(type) {
	case *types.Struct:
		if u.Incomplete && u.Tag != "" {
			kind := "struct"
			if u.Union {
				kind = "union"
			}
			if d := c.lookupType("", kind, u.Tag); d != nil && !incomplete(d) {
				return d
			}
		}
	case *types.Enum:
		if u.Incomplete && u.Tag != "" {
			if d := c.lookupType("", "enum", u.Tag); d != nil && !incomplete(d) {
				return d
			}
		}
	}
	return t
}

func incomplete(t types.Type) bool {
	switch u := types.Underlying(t).(type) {
	case *types.Struct:
		return u.Incomplete
	case *types.Enum:
		return u.Incomplete
	}
	return false
}

// baseType is the type that the specifiers of a declaration name.
func (c *Checker) baseType(d *syntax.DeclSpec) types.Type {
	var words []string
	var q types.Qualified
	user := false
	for _, w := range d.Words {
		switch w {
		case "const":
			q.Const = true
		case "volatile":
			q.Volatile = true
		case "restrict":
			q.Restrict = true
		case "userland":
			user = true
		default:
			words = append(words, w)
		}
	}
	_ = user // told to declType by isUserland
	var t types.Type
	switch {
	case d.Struct != nil:
		t = c.structType(d)
	case d.Enum != nil:
		t = c.enumType(d)
	case d.Type != "":
		module := d.Module
		t = c.lookupType(module, "", d.Type)
		if t == nil {
			failHint(d.Pos(), c.typeHint(d.Type), "D_UNKNOWN", "failed to resolve type %s: Unknown type name", scopedName(d.Scoped, module, d.Type))
		}
		if types.IsInteger(t) && len(words) > 0 {
			fail(d.Pos(), "D_DECL_COMBO", "invalid type combination")
		}
	case len(words) == 0:
		t = types.TInt
	default:
		attrs, base := specWords(words)
		name := strings.Join(attrs, "") + base
		b, ok := types.FromSpecifiers(strings.Fields(name)...)
		if !ok {
			fail(d.Pos(), "D_UNKNOWN", "failed to resolve type %s: Unknown type name", name)
		}
		t = b
	}
	if c.ilp32() {
		t = types.ILP32(t)
	}
	if q.Const || q.Volatile || q.Restrict {
		q.Type = t
		t = &q
	}
	return t
}

// ilp32 says whether declarations are those of a 32-bit program. The libraries
// describe the kernel, which is none.
func (c *Checker) ilp32() bool { return c.opts.ILP32 && !c.inLib() }

// ofKernel reports types that the kernel defines: what holds pointers to them is
// the kernel's memory.
func ofKernel(t types.Type) bool {
	s, ok := types.Underlying(t).(*types.Struct)
	return ok && s.Scope != "D" && s.Scope != "C" && !s.User
}

// specWords puts the words of a type into DTrace's order, each attribute once.
func specWords(words []string) (attrs []string, base string) {
	n := map[string]int{}
	for _, w := range words {
		switch n[w]++; w {
		case "signed", "unsigned", "short", "long":
		default:
			base = w
		}
	}
	for _, w := range []string{"signed", "unsigned", "short"} {
		if n[w] > 0 {
			attrs = append(attrs, w+" ")
		}
	}
	for range n["long"] {
		attrs = append(attrs, "long ")
	}
	return attrs, base
}

func isUserland(d *syntax.DeclSpec) bool { return slices.Contains(d.Words, "userland") }

func scopedName(scoped bool, module, name string) string {
	if scoped {
		return module + "`" + name
	}
	return name
}

func (c *Checker) typeHint(name string) string {
	var names []string
	for s := c.dTypes; s != nil; s = s.Parent {
		s.Names(func(space types.Space, n string, _ types.Type) {
			if space == types.TypedefName {
				names = append(names, n)
			}
		})
	}
	if n := nearest(name, names); n != "" {
		return "did you mean " + n + "?"
	}
	return ""
}

// structType is the struct or union that a specifier names or defines.
func (c *Checker) structType(d *syntax.DeclSpec) types.Type {
	s := d.Struct
	kind := "struct"
	if s.Union {
		kind = "union"
	}
	if !s.HasBody {
		if t := c.lookupType(d.Module, kind, s.Tag); t != nil {
			return t
		}
		if d.Scoped && d.Module != "" {
			fail(d.Pos(), "D_UNKNOWN", "failed to resolve type %s %s`%s: Unknown type name", kind, d.Module, s.Tag)
		}
		t := &types.Struct{Union: s.Union, Tag: s.Tag, Scope: "D", Incomplete: true}
		c.dTypes.Define(typeSpace(kind), s.Tag, t)
		return t
	}
	var t *types.Struct
	if s.Tag != "" {
		if old, ok := c.dTypes.Here(typeSpace(kind), s.Tag); ok {
			if !incomplete(old) {
				fail(s.Pos(), "D_DECL_TYPERED", "type redeclared: %s %s", kind, s.Tag)
			}
			t, _ = old.(*types.Struct)
		}
	}
	if t == nil {
		t = &types.Struct{Union: s.Union, Tag: s.Tag, Scope: "D", Incomplete: true}
		if s.Tag != "" {
			c.dTypes.Define(typeSpace(kind), s.Tag, t)
		}
	}
	var fields []types.Field
	seen := map[string]bool{}
	for _, fd := range s.Fields {
		base := c.baseType(fd.Spec)
		if len(fd.Vars) == 0 { // anonymous struct or union
			fields = append(fields, types.Field{Type: base})
			continue
		}
		for _, v := range fd.Vars {
			f := c.field(base, isUserland(fd.Spec), v)
			if f.Name != "" {
				if seen[f.Name] {
					fail(v.Pos(), "D_UNKNOWN", "failed to define member '%s': Duplicate member, enumerator, or variable name", f.Name)
				}
				seen[f.Name] = true
			}
			fields = append(fields, f)
		}
	}
	t.Define(fields)
	return t
}

func (c *Checker) field(base types.Type, user bool, v *syntax.Declarator) types.Field {
	t, assoc := c.declarator(base, user, v, false)
	name := v.Name
	if name == "" && v.Bits == nil {
		fail(v.Pos(), "D_DECL_MNAME", "member declaration requires a name")
	}
	if assoc != nil || types.IsDynamic(t) {
		fail(v.Pos(), "D_DECL_DYNOBJ", "cannot have dynamic member: %s", name)
	}
	if incomplete(c.complete(t)) || types.IsStructOrUnion(t) && t.Size() == 0 && len(c.complete(t).(interface{ Members() []types.Field }).Members()) == 0 {
		fail(v.Pos(), "D_DECL_INCOMPLETE", "incomplete struct/union/enum %s: %s", t, name)
	}
	t = c.withComplete(t)
	if types.IsString(t) && t.Size() == 0 {
		t = types.NewString(c.intOption("strsize"))
	}
	if t.Size() == 0 && !isFlexible(t) {
		fail(v.Pos(), "D_DECL_VOIDOBJ", "cannot have void member: %s", name)
	}
	f := types.Field{Name: name, Type: t}
	if v.Bits != nil {
		n, ok := c.constant(v.Bits)
		if name == "" {
			name = "(anon)"
			if ok && n.Value == 0 {
				return f
			}
		}
		if !ok || n.Value <= 0 {
			fail(v.Pos(), "D_DECL_BFCONST", "positive integral constant expression expected as bit-field size")
		}
		if !types.IsInteger(t) || types.IsEnum(t) {
			fail(v.Pos(), "D_DECL_BFTYPE", "invalid type for bit-field: %s", name)
		}
		if n.Value > t.Size()*8 {
			fail(v.Pos(), "D_DECL_BFSIZE", "bit-field too big for type: %s", name)
		}
		f.Bits = n.Value
	}
	return f
}

func isFlexible(t types.Type) bool {
	a, ok := types.Underlying(t).(*types.Array)
	return ok && a.Flexible
}

// withComplete replaces a declared-only struct by its definition.
func (c *Checker) withComplete(t types.Type) types.Type {
	if incomplete(t) {
		return c.complete(t)
	}
	return t
}

// enumType is the enum that a specifier names or defines.
func (c *Checker) enumType(d *syntax.DeclSpec) types.Type {
	e := d.Enum
	if !e.HasBody {
		if t := c.lookupType(d.Module, "enum", e.Tag); t != nil {
			return t
		}
		if d.Scoped && d.Module != "" {
			fail(d.Pos(), "D_UNKNOWN", "failed to resolve type enum %s`%s: Unknown type name", d.Module, e.Tag)
		}
		t := &types.Enum{Tag: e.Tag, Scope: "D", Bytes: 4, Signed: true, Incomplete: true}
		c.dTypes.Define(types.EnumTag, e.Tag, t)
		return t
	}
	t := &types.Enum{Tag: e.Tag, Scope: "D", Bytes: 4, Signed: true}
	if e.Tag != "" {
		if old, ok := c.dTypes.Here(types.EnumTag, e.Tag); ok {
			o, isEnum := old.(*types.Enum)
			if !incomplete(old) || !isEnum {
				fail(e.Pos(), "D_DECL_TYPERED", "type redeclared: enum %s", e.Tag)
			}
			t, o.Incomplete = o, false
		}
	}
	next := int64(0)
	values := make(map[string]int64, len(e.Values))
	for _, v := range e.Values {
		if v.X != nil {
			if n, ok := v.X.(*syntax.Name); ok && !n.Scoped && n.Class == syntax.Global {
				if x, found := values[n.Name]; found {
					next = x
					goto add
				}
			}
			n, ok := c.constant(v.X)
			if !ok {
				fail(v.End, "D_DECL_ENCONST", "enumerator '%s' must be assigned to an integral constant expression", v.Name)
			}
			next = n.Value
		}
	add:
		if next > math.MaxInt32 || next < math.MinInt32 {
			fail(v.End, "D_DECL_ENOFLOW", "enumerator '%s' value overflows INT_MAX (%d)", v.Name, math.MaxInt32)
		}
		if _, dup := values[v.Name]; dup {
			fail(v.Pos(), "D_UNKNOWN", "failed to define enumerator '%s': Duplicate member, enumerator, or variable name", v.Name)
		}
		if c.globals[v.Name] != nil || c.visible(v.Name) != nil {
			fail(v.Pos(), "D_DECL_IDRED", "identifier redeclared: %s", v.Name)
		}
		t.Values = append(t.Values, types.Enumerator{Name: v.Name, Value: next})
		values[v.Name] = next
		c.globals[v.Name] = &symbol{enum: &Const{E{t, v.Pos()}, next}, attr: defAttr, gen: c.genNow(), line: v.Pos().Line, decl: true, lib: c.inLib()}
		next++
	}
	if e.Tag != "" {
		c.dTypes.Define(types.EnumTag, e.Tag, t)
	} else {
		c.dTypes.DefineConstants(t)
	}
	return t
}

func (c *Checker) inLib() bool { return c.file != nil && c.file.lib }

// genNow is the number of the compilation unit being checked, 0 for libraries.
func (c *Checker) genNow() int {
	if c.inLib() {
		return 0
	}
	return c.gen
}

// declarator applies the parts of a declarator to base. The outermost part may
// be the tuple of an associative array: it is returned beside the type of the
// elements.
func (c *Checker) declarator(base types.Type, user bool, d *syntax.Declarator, abstract bool) (t types.Type, assoc []*syntax.ParamDecl) {
	t = base
	if d == nil {
		return t, nil
	}
	for i := len(d.Parts) - 1; i >= 0; i-- {
		p := d.Parts[i]
		switch {
		case p.Pointer:
			if assoc != nil {
				fail(p.Pos, "D_DECL_DYNOBJ", "cannot declare pointer to associative array: %s", d.Name)
			}
			var q types.Qualified
			for _, w := range p.Quals {
				q.Const = q.Const || w == "const"
				q.Volatile = q.Volatile || w == "volatile"
				q.Restrict = q.Restrict || w == "restrict"
			}
			// A cast keeps to the address space of what it is made of.
			user := user || !abstract && ofProgram(t)
			t = &types.Pointer{Elem: t, User: user, ILP32: c.ilp32() && (user || !ofKernel(base))}
			if q.Const || q.Volatile || q.Restrict {
				q.Type = t
				t = &q
			}
		case p.Assoc != nil:
			if assoc != nil || i != 0 {
				fail(p.Pos, "D_DECL_DYNOBJ", "cannot declare array of associative arrays")
			}
			if types.IsVoid(t) {
				fail(p.Pos, "D_DECL_VOIDOBJ", "cannot declare array of void")
			}
			assoc = p.Assoc
		case p.Array:
			if assoc != nil {
				fail(p.Pos, "D_DECL_DYNOBJ", "cannot declare array of associative arrays")
			}
			if types.IsVoid(t) {
				fail(p.Pos, "D_DECL_VOIDOBJ", "cannot declare array of void")
			}
			a := &types.Array{Elem: c.withComplete(t)}
			if p.Len == nil {
				a.Flexible = true
			} else {
				n, ok := c.constant(p.Len)
				if !ok || n.Value <= 0 {
					fail(p.Pos, "D_DECL_ARRSUB", "positive integral constant expression or tuple signature expected as array declaration subscript")
				}
				if uint64(n.Value) > math.MaxUint32 {
					fail(p.Pos, "D_DECL_ARRBIG", "array dimension too big")
				}
				a.N = n.Value
			}
			t = a
		case p.Func:
			f := &types.Func{Ret: t, Variadic: p.Variadic}
			f.Params = c.params(p.Params, nil, "function", protoVoid|protoAnon|protoVarargs, p.Variadic)
			t = f
		}
	}
	return t, assoc
}

// typeOf is the type that a type name in an expression means.
func (c *Checker) typeOf(n *syntax.TypeName) types.Type {
	base := c.baseType(n.Spec)
	t, assoc := c.declarator(base, isUserland(n.Spec), n.Decl, true)
	if assoc != nil {
		return types.TDynamic
	}
	return t
}

// What a parameter list may hold.
const (
	protoVarargs = 1 << iota
	protoVoid
	protoAnon
	protoDynamic
)

// params types a parameter list. formal, if not nil, is the list whose names
// this one must use.
func (c *Checker) params(list []*syntax.ParamDecl, formal []*syntax.ParamDecl, kind string, rules int, variadic bool) []types.Param {
	var out []types.Param
	void := false
	names := map[string]bool{}
	for _, p := range formal {
		if p.Decl != nil {
			names[p.Decl.Name] = true
		}
	}
	if variadic && rules&protoVarargs == 0 {
		pos := syntax.Pos{}
		if len(list) > 0 {
			pos = list[0].Pos()
		}
		fail(pos, "D_DECL_PROTO_VARARGS", "%s prototype may not use a variable-length argument list", kind)
	}
	for i, p := range list {
		if s := p.Spec.Storage; s != "" && s != "register" {
			fail(p.Pos(), "D_DECL_PARMCLASS", "inappropriate storage class for function or associative array parameter")
		}
		t, assoc := c.declarator(c.baseType(p.Spec), isUserland(p.Spec), p.Decl, true)
		t = types.Widen(t)
		if assoc != nil {
			t = types.TDynamic
		}
		name := ""
		if p.Decl != nil {
			name = p.Decl.Name
		}
		shown := name
		if shown == "" {
			shown = "(anonymous)"
		}
		if types.IsDynamic(t) && rules&protoDynamic == 0 {
			fail(p.Pos(), "D_DECL_PROTO_TYPE", "%s prototype may not use parameter of type %s: %s, parameter #%d", kind, t, shown, i+1)
		}
		isVoid := types.IsVoid(t)
		void = void || isVoid
		if isVoid && rules&protoVoid == 0 {
			fail(p.Pos(), "D_DECL_PROTO_TYPE", "%s prototype may not use parameter of type %s: %s, parameter #%d", kind, t, shown, i+1)
		}
		if isVoid && name != "" {
			fail(p.Pos(), "D_DECL_PROTO_NAME", "void parameter may not have a name: %s", name)
		}
		if name != "" {
			switch {
			case formal != nil && !names[name]:
				fail(p.Pos(), "D_DECL_PROTO_FORM", "parameter is not declared in %s prototype: %s, parameter #%d", kind, name, i+1)
			case formal == nil && names[name]:
				fail(p.Pos(), "D_DECL_PROTO_FORM", "parameter is already declared in %s prototype: %s, parameter #%d", kind, name, i+1)
			case formal == nil:
				names[name] = true
			}
		}
		if name == "" && !isVoid && rules&protoAnon == 0 {
			fail(p.Pos(), "D_DECL_PROTO_NAME", "parameter declaration requires a name: parameter #%d", i+1)
		}
		if !isVoid {
			out = append(out, types.Param{Name: name, Type: t})
		}
	}
	if void && len(list) > 1 {
		fail(list[0].Pos(), "D_DECL_PROTO_VOID", "void must be sole parameter")
	}
	return out
}

// typeDecl is a typedef, or a struct, union or enum declared for itself.
func (c *Checker) typeDecl(d *syntax.TypeDecl) {
	base := c.baseType(d.Spec)
	if len(d.Names) == 0 {
		if d.Spec.Struct == nil && d.Spec.Enum == nil {
			fail(d.Pos(), "D_DECL_USELESS", "useless declaration")
		}
		return
	}
	for _, n := range d.Names {
		t, assoc := c.declarator(base, isUserland(d.Spec), n, false)
		if assoc != nil {
			fail(n.Pos(), "D_DECL_DYNOBJ", "cannot have dynamic typedef: %s", n.Name)
		}
		if c.visible(n.Name) != nil {
			fail(n.Pos(), "D_DECL_IDRED", "global variable identifier redeclared: %s", n.Name)
		}
		if old, ok := c.dTypes.LookupType(types.TypedefName, n.Name); ok {
			if types.Predefined(old) && n.Pos().File != c.file.f.Name {
				continue // headers declare size_t and its like as well
			}
			fail(n.Pos(), "D_DECL_IDRED", "typedef redeclared: %s", n.Name)
		}
		c.dTypes.Define(types.TypedefName, n.Name, &types.Typedef{Name: n.Name, Type: t, Scope: "D"})
	}
}

// visible is what a global name means now without looking further afield: a
// symbol of the program, or a predefined identifier; nil if neither.
func (c *Checker) visible(name string) any {
	if s := c.globals[name]; s != nil {
		return s
	}
	if id := identTable()[name]; id != nil && id.vers <= c.vmax {
		return id
	}
	return nil
}

const (
	kindScalar = "scalar"
	kindArray  = "associative array"
)

// varDecl declares variables.
func (c *Checker) varDecl(d *syntax.VarDecl) {
	base := c.baseType(d.Spec)
	for _, v := range d.Vars {
		t, assoc := c.declarator(base, isUserland(d.Spec), v, false)
		storage := d.Spec.Storage
		if types.IsFunc(t) && (storage == "" || storage == "static") {
			storage = "extern" // a function prototype
		}
		switch storage {
		case "auto", "register", "static":
			fail(v.Pos(), "D_DECL_BADCLASS", "specified storage class not appropriate in D")
		case "extern":
			if old, ok := c.extern[v.Name]; ok && !types.Identical(old, t) {
				fail(v.Pos(), "D_DECL_IDRED", "identifier redeclared: D`%s\n\t current: %s\n\tprevious: %s", v.Name, t, old)
			}
			c.extern[v.Name] = t
			continue
		}
		c.declare(d, v, types.Widen(t), assoc)
	}
}

func (c *Checker) declare(d *syntax.VarDecl, v *syntax.Declarator, t types.Type, assoc []*syntax.ParamDecl) {
	space := c.space(d.Class)
	old := space[v.Name]
	if len(v.Parts) > 0 && v.Parts[0].Array && v.Parts[0].Len == nil && assoc == nil {
		fail(v.Pos(), "D_DECL_ARRNULL", "array declaration requires array dimension or tuple signature: %s", v.Name)
	}
	if d.Class == syntax.Global {
		if id := identTable()[v.Name]; id != nil && id.vers <= c.vmax && old == nil || old != nil && (old.enum != nil || old.inline != nil) && old.gen == 0 {
			fail(v.Pos(), "D_DECL_IDRED", "built-in identifier redeclared: %s", v.Name)
		}
		if _, ok := c.dTypes.LookupType(types.TypedefName, v.Name); ok {
			fail(v.Pos(), "D_DECL_IDRED", "typedef identifier redeclared: %s", v.Name)
		}
	}
	if assoc != nil && d.Class == syntax.This {
		fail(v.Pos(), "D_DECL_LOCASSC", "associative arrays may not be declared as local variables: %s", v.Name)
	}
	kind := kindScalar
	var keys []types.Type
	if assoc != nil {
		kind = kindArray
		for _, p := range c.params(assoc, nil, "array", protoAnon, false) {
			keys = append(keys, p.Type)
		}
	}
	if old != nil {
		oldT, oldKind := old.typ(), old.kind()
		if oldKind != kind || !types.Identical(oldT, t) {
			fail(v.Pos(), "D_DECL_IDRED", "identifier redeclared: %s\n\t current: %s %s\n\tprevious: %s %s", v.Name, kind, t, oldKind, oldT)
		}
		if assoc != nil {
			for i := range min(len(keys), len(old.v.Keys)) {
				if !types.Identical(keys[i], old.v.Keys[i]) {
					fail(v.Pos(), "D_DECL_IDRED", "identifier redeclared: %s\n\t current: %s, key #%d of type %s\n\tprevious: %s, key #%d of type %s",
						v.Name, kind, i+1, keys[i], oldKind, i+1, old.v.Keys[i])
				}
			}
			if len(keys) != len(old.v.Keys) {
				fail(v.Pos(), "D_DECL_IDRED", "identifier redeclared: %s\n\t current: %s of %s, tuple length %d\n\tprevious: %s of %s, tuple length %d",
					v.Name, kind, t, len(keys), oldKind, oldT, len(old.v.Keys))
			}
		}
		return
	}
	t = c.withComplete(t)
	elem := t
	for types.IsArray(elem) {
		elem = types.Elem(elem)
	}
	switch {
	case types.IsVoid(t):
		fail(v.Pos(), "D_DECL_VOIDOBJ", "cannot have void object: %s", v.Name)
	case types.IsDynamic(t):
		fail(v.Pos(), "D_DECL_DYNOBJ", "cannot have dynamic object: %s", v.Name)
	case incomplete(elem) || types.IsStructOrUnion(t) && t.Size() == 0:
		fail(v.Pos(), "D_DECL_INCOMPLETE", "incomplete struct/union/enum %s: %s", t, v.Name)
	}
	s := c.newVar(v.Pos(), d.Class, v.Name)
	s.decl = true
	s.v.Dynamic = false
	s.v.Type = types.Unqualify(t)
	if assoc != nil {
		s.array, s.signed = true, true
		s.v.Keys = keys
		for i, k := range keys {
			c.checkKey(assoc[i].Pos(), k, i, kindArray)
		}
	}
}

// space is the table of a class of variables.
func (c *Checker) space(class syntax.VarClass) map[string]*symbol {
	switch class {
	case syntax.Self:
		return c.tls
	case syntax.This:
		return c.locals
	}
	return c.globals
}

func (s *symbol) typ() types.Type {
	switch {
	case s.enum != nil:
		return s.enum.T
	case s.inline != nil:
		return s.inline.typ
	}
	return s.v.Type
}

func (s *symbol) name() string {
	switch {
	case s.inline != nil:
		return s.inline.name
	case s.v != nil:
		return s.v.Name
	}
	return ""
}

func (s *symbol) kind() string {
	switch {
	case s.enum != nil:
		return "enumerator"
	case s.array, s.inline != nil && s.inline.params != nil:
		return kindArray
	}
	return kindScalar
}

func (id *ident) kindName() string {
	return [...]string{idScalar: kindScalar, idArgs: kindArray, idRegs: kindArray, idFunc: "function",
		idActFunc: "tracing function", idAggFunc: "aggregating function", idRefused: "identifier"}[id.kind]
}

// maxVars bounds the variables of one class, as DTrace's identifier space does.
const maxVars = 1 << 15

func (c *Checker) newVar(pos syntax.Pos, class syntax.VarClass, name string) *symbol {
	if len(c.Vars) >= maxVars {
		fail(pos, "D_ID_OFLOW", "cannot create %s: limit on number of %s variables exceeded", name,
			[...]string{"global", "thread-local", "clause-local"}[class])
	}
	v := &Var{ID: len(c.Vars), Class: [...]varClass{varGlobal, varSelf, varThis}[class], Name: name,
		Type: types.TDynamic, Pos: pos, Dynamic: true}
	c.Vars = append(c.Vars, v)
	s := &symbol{v: v, attr: defAttr, gen: c.genNow(), line: pos.Line, lib: c.inLib()}
	c.space(class)[name] = s
	c.applyPending(class, name, s)
	return s
}

// providerDecl checks a provider declaration.
func (c *Checker) providerDecl(d *syntax.Provider) {
	if strings.Contains(d.Name, "`") {
		fail(d.Pos(), "D_PROV_BADNAME", "provider name may not contain scoping operator: %s", d.Name)
	}
	if len(d.Name) >= 59 {
		fail(d.Pos(), "D_PROV_BADNAME", "provider name may not exceed %d characters: %s", 58, d.Name)
	}
	if n := d.Name[len(d.Name)-1]; n >= '0' && n <= '9' {
		fail(d.Pos(), "D_PROV_BADNAME", "provider name may not end with a digit: %s", d.Name)
	}
	old := c.providers[d.Name]
	out := &Provider{Pos: d.Pos(), Name: d.Name, Attr: map[string]Attr{}}
	seen := map[string]*ProviderProbe{}
	for _, pr := range d.Probes {
		name := strings.ReplaceAll(pr.Name, "__", "-")
		if strings.Contains(name, "`") {
			fail(pr.Pos(), "D_PROV_BADNAME", "probe name may not contain scoping operator: ::%s", name)
		}
		if len(name) >= 64 {
			fail(pr.Pos(), "D_PROV_BADNAME", "probe name may not exceed %d characters: ::%s", 63, name)
		}
		p := &ProviderProbe{Pos: pr.Pos(), Name: name}
		p.Native = c.params(pr.Args, nil, "probe input", protoVoid|protoAnon, false)
		xargs := p.Native
		if pr.Translated != nil {
			xargs = c.params(pr.Translated, pr.Args, "probe output", protoVoid, false)
		}
		for _, l := range []struct {
			what string
			n    int
		}{{"input", len(p.Native)}, {"output", len(xargs)}} {
			if l.n > 255 {
				fail(pr.Pos(), "D_PROV_PRARGLEN", "probe ::%s %s prototype exceeds %d parameters: %d params used", name, l.what, 255, l.n)
			}
		}
		for i, x := range xargs {
			from := i
			if pr.Translated != nil {
				from = slices.IndexFunc(p.Native, func(n types.Param) bool { return n.Name == x.Name })
			}
			native := p.Native[from].Type
			p.Args = append(p.Args, probe.Arg{Name: x.Name, Native: native, Xlate: x.Type, From: from})
			if pr.Translated != nil && !types.ArgCompat(native, false, x.Type) && c.findXlator(native, x.Type) == nil {
				fail(pr.Pos(), "D_PROV_PRXLATOR", "translator for %s:%s output argument #%d from %s to %s is not defined", d.Name, name, i+1, native, x.Type)
			}
		}
		if seen[name] != nil {
			fail(pr.Pos(), "D_PROV_PRDUP", "probe redeclared: %s:%s", d.Name, name)
		}
		if old != nil {
			i := slices.IndexFunc(old.Probes, func(o *ProviderProbe) bool { return o.Name == name })
			if i < 0 {
				fail(pr.Pos(), "D_PROV_INCOMPAT", "provider interface mismatch: %s\n\t current: probe %s:%s defined\n\tprevious: probe %s:%s not defined",
					d.Name, d.Name, name, d.Name, name)
			}
			c.sameProbe(d.Name, old.Probes[i], p)
		}
		seen[name] = p
		out.Probes = append(out.Probes, p)
	}
	if old == nil {
		c.providers[d.Name] = out
	}
	if c.file.prog != nil {
		c.file.prog.Providers = append(c.file.prog.Providers, out)
	}
}

func (c *Checker) sameProbe(prov string, old, cur *ProviderProbe) {
	plural := func(n int) string {
		if n == 1 {
			return fmt.Sprintf("%d arg", n)
		}
		return fmt.Sprintf("%d args", n)
	}
	if len(old.Args) != len(cur.Args) {
		fail(cur.Pos, "D_PROV_INCOMPAT", "probe %s:%s output prototype mismatch:\n\t current: %s\n\tprevious: %s",
			prov, cur.Name, plural(len(cur.Args)), plural(len(old.Args)))
	}
	for i := range old.Args {
		if a, b := old.Args[i].Xlate, cur.Args[i].Xlate; !types.Identical(a, b) {
			fail(cur.Pos, "D_PROV_INCOMPAT", "probe %s:%s output prototype argument #%d mismatch:\n\t current: %s\n\tprevious: %s",
				prov, cur.Name, i+1, b, a)
		}
	}
}
