package check

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// Options of a checker. The zero value checks D of the latest version with
// default options and no D library.
type Options struct {
	ZDefs       bool     // -Z: a description may match nothing
	DefaultArgs bool     // option defaultargs: unset $1 is 0 and $$1 is ""
	ArgRef      bool     // option argref: arguments need not all be used
	Args        []string // $1…, to find unused ones; the values come from Env.Macro
	NoLibs      bool     // option nolibs
	Version     string   // option version; "" is the latest
	AMin        string   // option amin: "name/data/class", "" is no minimum
	KDefs       bool     // options linkmode=dynamic and kdefs: kernel symbols are not resolved, nor may they be left so
	Tree        int      // option tree: bit n-1 writes the tree after pass n to TreeOut
	TreeOut     io.Writer
	ILP32       bool // -32: the program's long, and its pointers into user memory, have 4 bytes

	// Library gives the text of a D library that defines a name: a variable
	// or function with kind "", a type with kind "type", a symbol of any kind
	// of its own with kind "file" (then name is the file). ok is false when
	// no library has it.
	Library func(kind, name string) (file string, text []byte, ok bool)
	// SetOption is called for #pragma D option; value is "" where none was given.
	SetOption func(name, value string) error
	// Int is the present value of a numeric option: strsize, stackframes,
	// ustackframes, jstackframes, jstackstrsize, maxframes, pcapsize. nil: the defaults.
	Int func(name string) int64
	// HasProvider and HasModule answer #pragma D depends_on.
	HasProvider, HasModule func(name string) bool
}

// Program is one compilation unit, checked.
type Program struct {
	Name      string
	Clauses   []*Clause
	Providers []*Provider
	Options   []Pragma // #pragma D option, in order
}

// Pragma is an option set by the program.
type Pragma struct {
	Pos         syntax.Pos
	Name, Value string
}

// Provider is a provider declaration of a program, for -h and -G, and for the
// types of probes that programs define.
type Provider struct {
	Pos    syntax.Pos
	Name   string
	Probes []*ProviderProbe
	Attr   map[string]Attr // "provider" "module" "function" "name" "args"
}

// ProviderProbe is one declared probe. Name has hyphens for double underscores.
// Args has one element for each argument D programs see; Native are the
// arguments as the program passes them.
type ProviderProbe struct {
	Pos    syntax.Pos
	Name   string
	Native []types.Param
	Args   []probe.Arg
}

// Checker is a session: programs are checked in order and share types,
// variables, aggregations, inlines and translators.
type Checker struct {
	Vars []*Var // by ID
	Aggs []*Agg // by ID

	env  Env
	opts Options
	vmax version
	amin Attr

	cTypes, dTypes, solaris *types.Scope

	globals   map[string]*symbol
	tls       map[string]*symbol
	locals    map[string]*symbol // this-> of the program being checked
	aggs      map[string]*aggSym
	xlators   []*translator
	providers map[string]*Provider
	loaded    map[string]bool // D libraries
	protos    map[string]*proto
	extern    map[string]types.Type

	gen     int // compilation unit; 0 is D itself and its libraries
	nextCls int
	nslots  int

	file     *fileCtx
	clause   *clauseCtx
	scopes   []map[string]*binding // parameters of translators and inlines, innermost last
	site     *syntax.Pos           // where the inline or translator being expanded is used; nil outside
	attr     Attr                  // least stability met since it was last reset
	depth    int
	argument string // the macro argument whose text is being looked up as a name: $1
	// For the dump of the tree; nil where none is asked for.
	notes     map[syntax.Expr]note
	descAttrs map[*syntax.Clause]Attr
	pending   map[string][]*pendingPragma
}

// symbol is a global, thread-local or clause-local name.
type symbol struct {
	v      *Var
	inline *inline
	enum   *Const
	attr   Attr
	vers   version
	gen    int
	line   int
	lib    bool
	// How it was used so far: DTrace distinguishes a variable that is only
	// named from one that is declared, read or written.
	decl, ref, mod bool
	array          bool // associative array
	signed         bool // the key tuple is fixed
	alloca, other  bool // holds pointers of alloca(), or anything else
}

// unref reports that the name was created by this very use; it has no type yet.
func (s *symbol) unref(gen int) bool {
	return s.gen == gen && !s.decl && !s.ref && !s.mod
}

type aggSym struct {
	agg    *Agg
	line   int
	gen    int
	mod    bool // has been assigned
	signed bool
}

type fileCtx struct {
	f      *syntax.File
	prog   *Program
	lib    bool
	macros map[string]bool // macro arguments used
}

type clauseCtx struct {
	desc   *syntax.ProbeDesc
	pdesc  probe.Desc
	probes []*probe.Probe
	args   []probe.Arg // nil until args[] is used
	argsOK bool
	multi  bool // the probes differ, or there is none
	flags  flags
	out    *Clause
}

// New makes a checker that asks env about the world.
func New(env Env, opts Options) *Checker {
	c := &Checker{
		env:       env,
		opts:      opts,
		vmax:      1 << 30,
		globals:   map[string]*symbol{},
		tls:       map[string]*symbol{},
		locals:    map[string]*symbol{},
		aggs:      map[string]*aggSym{},
		providers: map[string]*Provider{},
		loaded:    map[string]bool{},
		protos:    map[string]*proto{},
		extern:    map[string]types.Type{},
		pending:   map[string][]*pendingPragma{},
		attr:      maxAttr,
	}
	c.cTypes = types.NewCScope()
	c.dTypes = types.NewDScope(c.cTypes)
	c.solaris = types.NewSolarisScope()
	if v, ok := parseVersion(opts.Version); ok {
		c.vmax = v
	}
	if a, ok := ParseAttr(opts.AMin); ok {
		c.amin = a
	}
	c.globals["NULL"] = &symbol{enum: &Const{E{types.TLong, syntax.Pos{}}, 0}, attr: defAttr, decl: true}
	return c
}

// fail ends the compilation unit with an error.
func fail(pos syntax.Pos, tag, format string, args ...any) {
	panic(syntax.Errorf(pos, tag, format, args...))
}

func failHint(pos syntax.Pos, hint, tag, format string, args ...any) {
	e := syntax.Errorf(pos, tag, format, args...)
	e.Hint = hint
	panic(e)
}

func catch(err *error) {
	if x := recover(); x != nil {
		e, ok := x.(*syntax.Error)
		if !ok {
			panic(x)
		}
		*err = e
	}
}

// File checks one compilation unit. The error is a *syntax.Error, the first
// one found; what the unit had defined until then stays defined.
func (c *Checker) File(f *syntax.File) (prog *Program, err error) {
	c.gen++
	c.locals = map[string]*symbol{}
	prog = &Program{Name: f.Name}
	old := c.file
	c.file = &fileCtx{f: f, prog: prog, macros: map[string]bool{}}
	defer func() {
		c.file, c.clause, c.scopes, c.site, c.depth = old, nil, nil, nil, 0
		clear(c.pending)
		if err != nil {
			prog = nil
		}
	}()
	defer catch(&err)
	if c.opts.Tree > 0 && !c.inLib() {
		c.notes, c.descAttrs = map[syntax.Expr]note{}, map[*syntax.Clause]Attr{}
		defer func() { c.notes, c.descAttrs = nil, nil }()
		c.dump(treeParsed, f, nil, nil)
	}
	c.decls(f)
	c.dump(treeProgram, f, nil, nil)
	if all := slices.Concat(slices.Collect(maps.Values(c.pending))...); len(all) > 0 {
		p := slices.MinFunc(all, func(a, b *pendingPragma) int { return cmp.Compare(a.pos.Line, b.pos.Line) })
		fail(p.pos, "D_PRAGMA_UNUSED", "unused #pragma %s", p.name)
	}
	if len(c.opts.Args) > 0 && !c.opts.ArgRef {
		for i, a := range slices.Backward(c.opts.Args) {
			if n := fmt.Sprint(i + 1); !c.file.macros[n] && !mentionsMacro(f, n) {
				hint := ""
				if t := strings.TrimSpace(a); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "/") && strings.TrimRight(t, "/}") != t {
					hint = "predicate and actions belong into the argument of the description: -n 'BEGIN { … }'"
				}
				failHint(syntax.Pos{File: f.Name}, hint, "D_MACRO_UNUSED", "extraneous argument '%s' ($%s is not referenced)", a, n)
			}
		}
	}
	return prog, nil
}

// mentionsMacro looks in the texts of probe descriptions, where the parser has
// already replaced macro variables.
func mentionsMacro(f *syntax.File, n string) bool {
	for _, d := range f.Decls {
		cl, ok := d.(*syntax.Clause)
		if !ok {
			continue
		}
		for _, pd := range cl.Descs {
			for s := pd.Text; ; {
				i := strings.Index(s, "$"+n)
				if i < 0 {
					break
				}
				s = s[i+1+len(n):]
				if s == "" || s[0] < '0' || s[0] > '9' {
					return true
				}
			}
		}
	}
	return false
}

// decls goes through declarations and pragmas in source order.
func (c *Checker) decls(f *syntax.File) {
	pragmas := slices.Clone(f.Pragmas)
	before := func(p syntax.Pos) {
		for len(pragmas) > 0 && (p.Line == 0 || pragmas[0].Pos().Line <= p.Line) {
			c.pragma(pragmas[0])
			pragmas = pragmas[1:]
		}
	}
	for _, d := range f.Decls {
		before(d.Pos())
		switch d := d.(type) {
		case *syntax.Clause:
			c.clauseDecl(d)
		case *syntax.VarDecl:
			c.varDecl(d)
		case *syntax.TypeDecl:
			c.typeDecl(d)
		case *syntax.Inline:
			c.inlineDecl(d)
		case *syntax.Translator:
			c.translatorDecl(d)
		case *syntax.Provider:
			c.providerDecl(d)
		}
	}
	before(syntax.Pos{})
}

// clauseDecl types a clause once for each of its probe descriptions.
func (c *Checker) clauseDecl(src *syntax.Clause) {
	index := c.nextCls
	var clauses []*Clause
	for _, d := range src.Descs {
		clauses = append(clauses, c.clauseFor(src, d, index))
	}
	if c.file.lib {
		return // as in DTrace, what a library declares counts, and its clauses have to be right
	}
	c.nextCls++
	c.file.prog.Clauses = append(c.file.prog.Clauses, clauses...)
}

func (c *Checker) clauseFor(src *syntax.Clause, d *syntax.ProbeDesc, index int) *Clause {
	out := &Clause{Index: index, Src: src, Desc: d}
	ctx := &clauseCtx{desc: d, out: out}
	c.clause = ctx
	defer func() { c.clause = nil }()
	c.setContext(ctx)
	out.Probes = ctx.probes
	out.DescAttr = c.descAttr(ctx)
	if c.opts.AMin != "" && out.DescAttr.less(c.amin) {
		fail(d.Pos(), "D_ATTR_MIN", "attributes for probe description %s (%s) are less than predefined minimum", ctx.pdesc, out.DescAttr.short())
	}
	out.Default = len(src.Body) == 0
	c.attr = maxAttr
	body := func() {
		ctx.flags = flags{}
		out.Destructive = false
		c.region("action list", func() { out.Body = c.stmts(src.Body) })
	}
	pred := func() {
		c.region("predicate", func() {
			v := c.rvalue(c.expr(src.Pred))
			if !types.IsScalar(v.typ()) {
				fail(src.End, "D_PRED_SCALAR", "predicate result must be of scalar type")
			}
			out.Pred = v.x
		})
	}
	// The actions come first, since it is more often they that create the
	// variables a predicate tests than the other way round; if that fails for
	// an unknown name, the predicate is tried first.
	switch {
	case src.Pred == nil:
		body()
	default:
		if err := c.attempt(body); err != nil {
			if err.Tag != "D_IDENT_UNDEF" && err.Tag != "D_VAR_UNDEF" {
				panic(err)
			}
			pred()
			body()
		} else {
			pred()
		}
	}
	out.StmtAttr = defAttr.min(c.attr)
	if c.notes != nil {
		c.descAttrs[src] = contextOf(out)
		c.dump(treeClause, nil, src, out)
	}
	return out
}

// attempt runs f and gives the error it failed with.
func (c *Checker) attempt(f func()) (e *syntax.Error) {
	depth, scopes, site := c.depth, len(c.scopes), c.site
	var err error
	func() {
		defer catch(&err)
		f()
	}()
	if err == nil {
		return nil
	}
	c.depth, c.scopes, c.site = depth, c.scopes[:scopes], site
	return err.(*syntax.Error)
}

// region names the part of a clause that errors of f are in.
func (c *Checker) region(name string, f func()) {
	defer func() {
		if x := recover(); x != nil {
			if e, ok := x.(*syntax.Error); ok && e.Region == "" && !outsideRegions(e.Tag) {
				e.Region = name
			}
			panic(x)
		}
	}()
	f()
}

// outsideRegions tells the errors that DTrace finds while it parses or while it
// generates code: only in between it knows of regions.
func outsideRegions(tag string) bool {
	switch tag {
	case "", "D_SYNTAX", "D_FUNC_IDENT", "D_FUNC_UNDEF", "D_FUNC_IDKIND", "D_OFFSETOF_TYPE", "D_OFFSETOF_BITFIELD",
		"D_INT_OFLOW", "D_DIV_ZERO", "D_ACT_SPEC", "D_COMM_DREC", "D_SPEC_SPEC", "D_SPEC_COMM", "D_SPEC_DREC",
		"D_AGG_COMM", "D_AGG_SPEC", "D_EXIT_SPEC", "D_DREC_COMM", "D_AGG_NULL", "D_AGG_SCALAR", "D_CG_EXPR", "D_CG_DYN", "D_ASRELO":
		return true
	}
	for _, group := range []string{"D_MACRO_", "D_DECL_", "D_LQUANT_", "D_LLQUANT_", "D_TRACE", "D_PRINT", "D_STACK_", "D_USTACK_",
		"D_CLEAR_", "D_TRUNC_", "D_NORMALIZE_", "D_FREOPEN_", "D_ALLOCA_SIZE"} {
		if strings.HasPrefix(tag, group) {
			return true
		}
	}
	return false
}

// setContext finds the probes of a description.
func (c *Checker) setContext(ctx *clauseCtx) {
	d := ctx.desc
	if d.ID > 0 {
		p := c.env.ProbeByID(int(d.ID))
		if p == nil {
			fail(d.Pos(), "D_PDESC_INVAL", "invalid probe identifier %d: Unknown probe identifier", d.ID)
		}
		ctx.pdesc, ctx.probes = p.Desc, []*probe.Probe{p}
		return
	}
	ctx.pdesc = probe.Desc{Provider: d.Provider, Module: d.Module, Func: d.Func, Name: d.Name}
	probes, err := c.env.Probes(ctx.pdesc)
	if _, ok := errors.AsType[interface {
		error
		FeatureMissing() (name, since, workaround string)
	}](err); ok && c.opts.ZDefs {
		err = nil // what the kernel lacks has no probes either
	}
	if err != nil {
		if e, ok := err.(*syntax.Error); ok { // a provider may know its own tag: D_PROC_…
			e.Pos = d.Pos()
			panic(e)
		}
		fail(d.Pos(), "D_PDESC_INVAL", "%v", err)
	}
	if len(probes) == 0 && !c.opts.ZDefs {
		failHint(d.Pos(), c.probeHint(ctx.pdesc), "D_PDESC_ZERO", "probe description %s does not match any probes", ctx.pdesc)
	}
	ctx.probes = probes
}

// probeHint drops one part of a description after the other to find out which
// of them nothing has.
func (c *Checker) probeHint(d probe.Desc) string {
	parts := []struct {
		what string
		p    *string
	}{{"name", &d.Name}, {"function", &d.Func}, {"module", &d.Module}}
	for _, part := range parts {
		was := *part.p
		if was == "" || probe.IsGlob(was) {
			continue
		}
		*part.p = ""
		if d == (probe.Desc{}) {
			return ""
		}
		near, err := c.env.Probes(d)
		if err != nil || len(near) == 0 {
			continue
		}
		if len(near) > 500_000 { // the kernel has a hundred thousand functions
			return ""
		}
		seen := map[string]bool{}
		var names []string
		for _, p := range near {
			n := map[string]string{"name": p.Desc.Name, "function": p.Desc.Func, "module": p.Desc.Module}[part.what]
			if !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
		if n := nearest(was, names); n != "" {
			return fmt.Sprintf("did you mean %s?", n)
		}
		return ""
	}
	return ""
}

// descAttr is the least stability among the parts of a description.
// descAttr is the least stability of the parts that a description names, over
// all probes it matches.
func (c *Checker) descAttr(ctx *clauseCtx) Attr {
	a := maxAttr
	if len(ctx.probes) == 0 {
		return unst
	}
	seen := map[*probe.Attributes]bool{}
	for _, p := range ctx.probes {
		if p.Attr == nil {
			a = a.min(unst)
			continue
		}
		if seen[p.Attr] {
			continue
		}
		seen[p.Attr] = true
		for i, t := range []probe.Attr{p.Attr.Provider, p.Attr.Module, p.Attr.Func, p.Attr.Name} {
			if ctx.pdesc.Part(i) != "" {
				a = a.min(provAttr(t))
			}
		}
	}
	return a
}

func provAttr(a probe.Attr) Attr {
	if x, ok := ParseAttr(a.Name + "/" + a.Data + "/" + a.Class); ok {
		return x
	}
	return unst
}

// useAttr records that something of that stability was used.
func (c *Checker) useAttr(pos syntax.Pos, what string, a Attr) {
	if c.opts.AMin != "" && c.file != nil && !c.file.lib && a.less(c.amin) {
		fail(pos, "D_ATTR_MIN", "attributes for %s (%s) are less than predefined minimum", what, a.short())
	}
	c.attr = c.attr.min(a)
}

// intOption is a numeric option's value.
func (c *Checker) intOption(name string) int64 {
	if c.opts.Int != nil {
		if v := c.opts.Int(name); v > 0 {
			return v
		}
	}
	return map[string]int64{"strsize": 256, "scratchsize": 256, "stackframes": 20, "ustackframes": 100,
		"jstackframes": 50, "jstackstrsize": 512, "maxframes": 127, "pcapsize": 100}[name]
}
