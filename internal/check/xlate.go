package check

import (
	"slices"

	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// inline is an inline definition. It is expanded at each use, so its body is
// typed in the context of the clause that uses it.
type inline struct {
	name   string
	typ    types.Type
	params []types.Param // nil: a scalar
	x      syntax.Expr
	busy   bool
}

// binding is a name that an inline or translator gives to a value.
type binding struct {
	x Expr
	t types.Type
}

func (b *binding) value(pos syntax.Pos) val {
	if b.x == nil { // while a definition is checked
		return val{pos: pos, x: &LetRef{E{b.t, pos}, 0}, lval: true}
	}
	return val{pos: pos, x: b.x, lval: true}
}

// bound finds a parameter of the inline or translator being expanded.
func (c *Checker) bound(name string) *binding {
	if len(c.scopes) == 0 {
		return nil
	}
	return c.scopes[len(c.scopes)-1][name]
}

// pos is the place of a node as errors and instructions name it: within the
// body of an inline or translator, the place of its use.
func (c *Checker) pos(n syntax.Node) syntax.Pos {
	if c.site != nil {
		return *c.site
	}
	return n.Pos()
}

// at runs f with everything in it at the place of a use.
func (c *Checker) at(pos syntax.Pos, f func()) {
	old := c.site
	if old == nil {
		c.site = &pos
	}
	f()
	c.site = old
}

// within runs f with the given parameters as the only bound names.
func (c *Checker) within(pos syntax.Pos, scope map[string]*binding, f func()) {
	if c.depth++; c.depth > maxDepth {
		fail(pos, "D_UNKNOWN", "inlines and translators are nested too deeply: the limit is %d", maxDepth)
	}
	n := len(c.scopes)
	c.scopes = append(c.scopes, scope)
	f()
	c.scopes = c.scopes[:n]
	c.depth--
}

// simple reports an expression that may be evaluated any number of times at
// the cost of one.
func simple(x Expr) bool {
	switch x := x.(type) {
	case *Const, *String, *LetRef, *KSym:
		return true
	case *Builtin:
		return x.Index == nil
	case *VarRef:
		return x.Keys == nil
	case *Conv:
		return simple(x.X)
	}
	return false
}

// bind gives x a name for the evaluation of a body: directly where it is
// simple, else by a Let around the body.
func (c *Checker) bind(x Expr) (ref Expr, wrap func(Expr) Expr) {
	if simple(x) {
		return x, func(body Expr) Expr { return body }
	}
	c.nslots++
	slot := c.nslots
	return &LetRef{E{x.Type(), x.Pos()}, slot}, func(body Expr) Expr {
		return &Let{E{body.Type(), body.Pos()}, slot, x, body}
	}
}

// inlineDecl checks an inline definition and enters it.
func (c *Checker) inlineDecl(d *syntax.Inline) {
	base := c.baseType(d.Spec)
	t, assoc := c.declarator(base, isUserland(d.Spec), d.Decl, false)
	t = types.Widen(t)
	name := d.Decl.Name
	if d.Spec.Storage != "" {
		fail(d.Pos(), "D_DECL_BADCLASS", "specified storage class not appropriate for inline declaration")
	}
	if name == "" {
		fail(d.Pos(), "D_DECL_USELESS", "inline declaration requires a name")
	}
	if old := c.visible(name); old != nil {
		kind, in := kindScalar, ""
		switch o := old.(type) {
		case *symbol:
			kind = o.kind()
			if o.inline != nil {
				in = "inline"
			}
		case *ident:
			kind = o.kindName()
		}
		if c.inLib() {
			return // the program's own definition wins over a library's
		}
		fail(d.Pos(), "D_DECL_IDRED", "identifier redefined: %s\n\t current: inline definition\n\tprevious: %s %s", name, kind, in)
	}
	if len(d.Decl.Parts) > 0 && d.Decl.Parts[0].Array && assoc == nil {
		if d.Decl.Parts[0].Len == nil {
			fail(d.Pos(), "D_DECL_ARRNULL", "inline declaration requires array tuple signature: %s", name)
		}
		fail(d.Pos(), "D_DECL_ARRNULL", "inline declaration cannot be of scalar array type: %s", name)
	}
	if types.IsVoid(t) {
		fail(d.Pos(), "D_DECL_VOIDOBJ", "cannot declare void inline: %s", name)
	}
	if incomplete(c.complete(t)) {
		fail(d.Pos(), "D_DECL_INCOMPLETE", "incomplete struct/union/enum %s: %s", t, name)
	}
	in := &inline{name: name, typ: c.withComplete(t), x: d.X}
	if assoc != nil {
		in.params = c.params(assoc, nil, "array", protoAnon, false)
	}
	s := &symbol{inline: in, attr: defAttr, gen: c.genNow(), line: d.Pos().Line, lib: c.inLib(), decl: true}
	if !c.inLib() {
		c.checkInline(d.Pos(), in)
		s.attr = defAttr
	}
	c.globals[name] = s
	c.applyPending(syntax.Global, name, s)
}

// checkInline types the body once, at its definition, so that errors show
// there. The inline itself is not known yet: recursion is refused.
func (c *Checker) checkInline(pos syntax.Pos, in *inline) {
	scope := map[string]*binding{}
	for _, p := range in.params {
		if p.Name != "" {
			scope[p.Name] = &binding{t: p.Type}
		}
	}
	attr := c.attr
	var v val
	c.within(pos, scope, func() { v = c.read(in.x) })
	c.attr = attr
	c.fitInline(pos, in, v)
}

// fitInline checks the type of an inline's body against the declared one.
func (c *Checker) fitInline(pos syntax.Pos, in *inline, v val) {
	if v.xl != nil {
		t := in.typ
		if types.IsPointer(t) {
			t = types.Elem(t)
		}
		if types.IsPointer(in.typ) != v.xl.ptr || !types.Compatible(c.resolveD(t), v.xl.tr.dst) {
			fail(pos, "D_OP_INCOMPAT", "inline %s definition uses incompatible types: \"%s\" = \"%s\"", in.name, typeName(t), v.xl.tr.dst)
		}
		return
	}
	if !argCompat(v, in.typ) {
		fail(pos, "D_OP_INCOMPAT", "inline %s definition uses incompatible types: \"%s\" = \"%s\"", in.name, typeName(in.typ), v.typeName())
	}
}

// expand is the value of an inline where it is used.
func (c *Checker) expand(pos syntax.Pos, in *inline, scope map[string]*binding) val {
	if in.busy {
		fail(pos, "D_UNKNOWN", "inline %s is defined by itself", in.name)
	}
	in.busy = true
	defer func() { in.busy = false }()
	var v val
	c.at(pos, func() {
		c.within(pos, scope, func() { v = c.read(in.x) })
	})
	c.fitInline(pos, in, v)
	v.pos = pos
	if v.xl != nil {
		return v
	}
	if types.Identical(v.typ(), in.typ) {
		if k, ok := v.constant(); ok {
			return value(&Const{E{in.typ, pos}, k.Value})
		}
		return v
	}
	return val{pos: pos, x: c.coerce(v, in.typ)}
}

// expandArray is the value of an inline with parameters.
func (c *Checker) expandArray(pos syntax.Pos, in *inline, args []syntax.Expr) val {
	vals := c.readAll(args)
	var ts []types.Type
	for _, p := range in.params {
		ts = append(ts, p.Type)
	}
	c.checkKeys(pos, in.name, "", vals, ts)
	scope := map[string]*binding{}
	var wraps []func(Expr) Expr
	for i, p := range in.params {
		if p.Name == "" {
			continue
		}
		ref, wrap := c.bind(c.coerce(vals[i], p.Type))
		scope[p.Name] = &binding{ref, p.Type}
		wraps = append(wraps, wrap)
	}
	v := c.expand(pos, in, scope)
	for i := len(wraps) - 1; i >= 0; i-- {
		if v.x != nil {
			v.x = wraps[i](v.x)
		} else if v.xl != nil {
			v.xl.wraps = append(v.xl.wraps, wraps[i])
		}
	}
	return v
}

// translator gives the members of dst from a value of type src.
type translator struct {
	dst, src types.Type
	param    string
	members  []*syntax.TransMember
	lib      bool
	chosen   map[string]int
	attr     Attr
}

// translation is a value seen through a translator.
type translation struct {
	tr    *translator
	src   Expr
	ptr   bool
	wraps []func(Expr) Expr
}

// xlatePointer is a translated pointer where only its value matters: the address
// of a copy made for the clause.
func (c *Checker) xlatePointer(v val) Expr {
	x := *v.xl
	x.ptr = false
	s := c.xlateStruct(v.pos, &x)
	return &Conv{E{types.NewPointer(s.Type()), v.pos}, s}
}

// translatorDecl checks a translator and enters it.
func (c *Checker) translatorDecl(d *syntax.Translator) {
	dst, src := c.withComplete(c.typeOf(d.Dst)), c.typeOf(d.Src)
	for _, tr := range c.xlators {
		if types.Identical(tr.src, src) && types.Identical(tr.dst, dst) {
			if c.inLib() {
				return
			}
			fail(d.End, "D_XLATE_REDECL", "translator from %s to %s has already been declared", typeName(src), typeName(dst))
		}
	}
	if incomplete(dst) {
		fail(d.End, "D_XLATE_SOU", "incomplete struct/union/enum %s", dst)
	}
	if !types.IsStructOrUnion(dst) {
		fail(d.End, "D_XLATE_SOU", "translator output type must be a struct or union")
	}
	tr := &translator{dst: dst, src: src, param: d.Param, members: d.Members, lib: c.inLib(), chosen: map[string]int{}, attr: defAttr}
	for _, m := range d.Members {
		if _, _, ok := types.FindMember(dst, m.Name); !ok {
			failHint(d.End, memberHint(dst, m.Name), "D_XLATE_MEMB", "translator member %s is not a member of %s", m.Name, types.Underlying(dst))
		}
	}
	if !tr.lib {
		// Errors show where the translator is defined.
		c.within(d.Pos(), map[string]*binding{tr.param: {t: tr.src}}, func() {
			for _, m := range d.Members {
				c.memberValue(d.End, tr, m)
			}
		})
	}
	c.xlators = append(c.xlators, tr)
}

// memberValue types the expression of one member, with the parameter bound,
// and checks it against the member's type.
func (c *Checker) memberValue(pos syntax.Pos, tr *translator, m *syntax.TransMember) val {
	_, f, ok := types.FindMember(tr.dst, m.Name)
	if !ok {
		fail(pos, "D_XLATE_MEMB", "translator member %s is not a member of %s", m.Name, types.Underlying(tr.dst))
	}
	v := c.read(m.X)
	if v.xl != nil {
		t := f.Type
		if types.IsPointer(t) {
			t = types.Elem(t)
		}
		if types.IsPointer(f.Type) == v.xl.ptr && types.Compatible(c.resolveD(t), v.xl.tr.dst) {
			return v
		}
	}
	if !argCompat(v, f.Type) {
		fail(pos, "D_XLATE_INCOMPAT", "translator member %s definition uses incompatible types: \"%s\" = \"%s\"", m.Name, typeName(f.Type), v.typeName())
	}
	return v
}

// resolveD replaces a type that is known by name only by D's definition of it.
// Providers name the types of translated arguments so.
func (c *Checker) resolveD(t types.Type) types.Type {
	switch x := t.(type) {
	case *types.Qualified:
		return c.resolveD(x.Type)
	case *types.Pointer:
		return &types.Pointer{Elem: c.resolveD(x.Elem), User: x.User, ILP32: x.ILP32}
	case *types.Typedef:
		if incomplete(x.Type) || x.Type == nil {
			if d := c.lookupType("", "", x.Name); d != nil && d != t {
				return d
			}
		}
	}
	return c.withComplete(t)
}

// findXlator finds the translator from src to dst, or from src to what dst
// points to: an exact one, else one whose source type src may be assigned to.
func (c *Checker) findXlator(src, dst types.Type) *translator {
	base := c.resolveD(dst)
	if types.IsPointer(base) {
		base = c.resolveD(types.Elem(base))
	}
	var fuzzy *translator
	for _, tr := range c.xlators {
		if !types.Compatible(tr.dst, base) {
			continue
		}
		if types.Identical(tr.src, src) {
			return tr
		}
		if fuzzy == nil && argCompat(val{x: &LetRef{E{src, syntax.Pos{}}, 0}}, tr.src) {
			fuzzy = tr
		}
	}
	return fuzzy
}

// xlate is xlate <T>(x).
func (c *Checker) xlate(x *syntax.Xlate) val {
	t := c.typeOf(x.Type)
	v := c.read(x.X)
	if v.x == nil {
		fail(c.pos(x), "D_XLATE_NONE", "cannot translate from \"%s\" to \"%s\"", v.typeName(), typeName(t))
	}
	tr := c.findXlator(v.typ(), t)
	if tr == nil {
		fail(c.pos(x), "D_XLATE_NONE", "cannot translate from \"%s\" to \"%s\"", v.typeName(), typeName(t))
	}
	c.useAttr(c.pos(x), "translator", tr.attr)
	return val{pos: c.pos(x), xl: &translation{tr: tr, src: c.coerce(v, tr.src), ptr: types.IsPointer(t)}}
}

// translated is the value of one member of a translation.
func (c *Checker) translated(pos syntax.Pos, xl *translation, name string) (v val, f types.Field, off int64) {
	tr := xl.tr
	var idx []int
	for i, m := range tr.members {
		if m.Name == name {
			idx = append(idx, i)
		}
	}
	if len(idx) == 0 {
		hint := ""
		if _, _, ok := types.FindMember(tr.dst, name); !ok {
			hint = memberHint(tr.dst, name)
		}
		failHint(pos, hint, "D_XLATE_NOCONV", "translator does not define conversion for member: %s", name)
	}
	off, f, ok := types.FindMember(tr.dst, name)
	if !ok {
		fail(pos, "D_XLATE_MEMB", "translator member %s is not a member of %s", name, types.Underlying(tr.dst))
	}
	ref, wrap := c.bind(xl.src)
	scope := map[string]*binding{tr.param: {ref, tr.src}}
	// A library may define a member several times, for kernels that differ:
	// the first that this kernel has counts.
	if i, known := tr.chosen[name]; known {
		idx = []int{i}
	}
	for n, i := range idx {
		try := func() {
			c.at(pos, func() {
				c.within(pos, scope, func() { v = c.memberValue(pos, tr, tr.members[i]) })
			})
		}
		if n == len(idx)-1 {
			try()
		} else if c.attempt(try) != nil {
			continue
		}
		tr.chosen[name] = i
		break
	}
	wraps := append([]func(Expr) Expr{wrap}, xl.wraps...)
	v.pos = pos
	if v.xl != nil {
		nested := *v.xl
		nested.wraps = append(append([]func(Expr) Expr{}, nested.wraps...), wraps...)
		v.xl = &nested
		return v, f, off
	}
	x := v.x
	switch {
	case types.IsStrCompat(v.typ()) && types.IsArray(f.Type) && types.IsStrCompat(f.Type):
		x = &Conv{E{types.NewString(f.Type.Size()), pos}, toString(x)}
	case types.IsString(f.Type):
		x = toString(x)
	case types.IsScalar(f.Type):
		x = c.coerce(v, f.Type)
		if f.Bits > 0 {
			x = truncBits(x, f.Bits)
		}
	}
	for _, w := range wraps {
		x = w(x)
	}
	v = val{pos: pos, x: x}
	if types.IsArray(f.Type) {
		v.arr = f.Type
	}
	return v, f, off
}

// truncBits keeps the bits of a bit-field.
func truncBits(x Expr, bits int64) Expr {
	t := x.Type()
	n := t.Size()*8 - bits
	if n <= 0 {
		return x
	}
	wide := types.UsualArith(t, types.TInt)
	n = wide.Size()*8 - bits
	k := &Const{E{types.TInt, x.Pos()}, n}
	return conv(fold(&Binary{E{wide, x.Pos()}, syntax.Shr, fold(&Binary{E{wide, x.Pos()}, syntax.Shl, conv(x, wide), k}), k}), t)
}

// xlateMember is x.m or x->m for translated x.
func (c *Checker) xlateMember(pos syntax.Pos, op string, xl *translation, name string) val {
	if op == "->" && !xl.ptr {
		fail(pos, "D_OP_PTR", "operator %s must be applied to a pointer", op)
	}
	if op == "." && xl.ptr {
		fail(pos, "D_OP_SOU", "operator %s cannot be applied to type \"%s *\"; must be applied to a struct or union", op, xl.tr.dst)
	}
	v, _, _ := c.translated(pos, xl, name)
	return v
}

// xlateStruct is a translated struct as a whole.
func (c *Checker) xlateStruct(pos syntax.Pos, xl *translation) Expr {
	s := &XlateStruct{E: E{xl.tr.dst, pos}}
	ref, wrap := c.bind(xl.src)
	inner := &translation{tr: xl.tr, src: ref, ptr: xl.ptr}
	done := map[string]bool{}
	for _, m := range xl.tr.members {
		if done[m.Name] {
			continue
		}
		done[m.Name] = true
		v, f, bits := c.translated(pos, inner, m.Name)
		if v.xl != nil {
			if v.xl.ptr {
				continue // a pointer to what does not exist in memory
			}
			v = value(c.xlateStruct(pos, v.xl))
		}
		field := XlateField{Off: bits / 8, X: v.x}
		if f.Bits > 0 {
			field.Bits, field.BitOff = f.Bits, bits
		}
		s.Fields = append(s.Fields, field)
	}
	x := wrap(s)
	for _, w := range xl.wraps {
		x = w(x)
	}
	return x
}

// argsElement is args[n].
func (c *Checker) argsElement(pos syntax.Pos, id *ident, src []syntax.Expr) val {
	v := c.oneIndex(pos, id, src)
	k, _ := v.constant()
	ctx := c.clause
	if ctx == nil {
		fail(pos, "D_ARGS_NONE", "%s[ ] may not be referenced outside of a probe clause", id.name)
	}
	c.useAttr(pos, id.kindName()+" "+id.name, c.contextAttr(id, id.attr))
	if !ctx.argsOK {
		ctx.argsOK = true
		ctx.args, ctx.multi = c.commonArgs(ctx.probes)
	}
	if ctx.multi {
		fail(pos, "D_ARGS_MULTI", "%s[ ] may not be referenced because probe description %s matches an unstable set of probes", id.name, ctx.pdesc)
	}
	if len(ctx.args) == 0 && ctx.probes[0].ArgsErr != nil {
		failHint(pos, "arg0, arg1, … are there without types", "D_ARGS_TYPE", "%s has no typed arguments: %v", ctx.pdesc, ctx.probes[0].ArgsErr)
	}
	if k.Value < 0 || k.Value >= int64(len(ctx.args)) {
		fail(pos, "D_ARGS_IDX", "index %d is out of range for %s %s[ ]", k.Value, ctx.pdesc, id.name)
	}
	a := ctx.args[k.Value]
	xt, nt := a.Xlate, a.Native
	if nt == nil {
		fail(pos, "D_ARGS_TYPE", "failed to resolve native type for %s[%d]", id.name, k.Value)
	}
	if a.Err != nil {
		fail(pos, "D_ARGS_TYPE", "%s[%d] of %s has no value: %v", id.name, k.Value, ctx.pdesc, a.Err)
	}
	b := &Builtin{E: E{types.Unqualify(nt), pos}, ID: dif.BArg, N: a.From, Parts: a.Parts, Hole: a.Hole, Name: "args"}
	if a.Loc != nil {
		b.ID, b.N, b.Loc = dif.BArgs, int(k.Value), a.Loc
	}
	native := val{pos: pos, x: b}
	if xt == nil || types.Identical(xt, nt) {
		return native
	}
	xt = c.resolveD(xt)
	if tr := c.findXlator(nt, xt); tr != nil {
		return val{pos: pos, xl: &translation{tr: tr, src: c.coerce(native, tr.src), ptr: types.IsPointer(xt)}}
	}
	if argCompat(native, xt) {
		return value(c.coerce(native, xt))
	}
	fail(pos, "D_ARGS_XLATOR", "translator for %s[%d] from %s to %s is not defined", id.name, k.Value, typeName(nt), typeName(xt))
	panic("unreachable")
}

// commonArgs are the arguments that all the probes share; multi is set where
// they differ or where there is no probe to tell.
func (c *Checker) commonArgs(probes []*probe.Probe) (args []probe.Arg, multi bool) {
	if len(probes) == 0 {
		return nil, true
	}
	args = probes[0].TypedArgs()
	cloned := false
	for _, p := range probes[1:] {
		other := p.TypedArgs()
		if len(other) != len(args) {
			return nil, true
		}
		for i := range args {
			a, b := args[i], other[i]
			if a.From != b.From || !sameType(a.Native, b.Native) || !sameType(a.Xlate, b.Xlate) {
				return nil, true
			}
			if a.Native != nil && types.IsByRef(a.Native) && !samePlace(&a, &b) {
				return nil, true
			}
			if a.Err == nil && b.Err != nil {
				if !cloned {
					args, cloned = slices.Clone(args), true
				}
				args[i].Err = b.Err
			}
		}
	}
	return args, false
}

// samePlace reports whether two objects lie in the same place: what reads them
// is made once for all probes.
func samePlace(a, b *probe.Arg) bool {
	if !slices.Equal(a.Parts, b.Parts) || (a.Loc == nil) != (b.Loc == nil) {
		return false
	}
	return a.Loc == nil || *a.Loc == *b.Loc
}

func sameType(a, b types.Type) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return types.Identical(a, b)
}

// Load loads the D library of that file name.
func (c *Checker) Load(file string) (err error) {
	defer catch(&err)
	c.loadLibrary("file", file)
	return nil
}

// loadLibrary loads the D library that defines a name. It reports whether
// anything was loaded or, for a file, is there.
func (c *Checker) loadLibrary(kind, name string) bool {
	if c.opts.Library == nil || c.opts.NoLibs {
		return false
	}
	file, text, ok := c.opts.Library(kind, name)
	if !ok {
		return false
	}
	if c.loaded[file] {
		return kind == "file"
	}
	c.loaded[file] = true
	f, err := syntax.Parse(file, text, syntax.Options{AllowEmpty: true, IsType: c.IsType})
	if err != nil {
		panic(err.(*syntax.Error))
	}
	oldFile, oldClause, oldScopes, oldSite := c.file, c.clause, c.scopes, c.site
	oldAttr, oldLocals, oldPending := c.attr, c.locals, c.pending
	c.file = &fileCtx{f: f, lib: true, macros: map[string]bool{}}
	c.clause, c.scopes, c.site, c.locals = nil, nil, nil, map[string]*symbol{}
	c.pending = map[string][]*pendingPragma{}
	defer func() {
		c.file, c.clause, c.scopes, c.site = oldFile, oldClause, oldScopes, oldSite
		c.attr, c.locals, c.pending = oldAttr, oldLocals, oldPending
	}()
	if e := c.attempt(func() { c.decls(f) }); e != nil && e.Tag != "D_PRAGMA_DEPEND" {
		panic(e)
	}
	return true
}
