package check

import (
	"strings"

	"godtrace/internal/syntax"
)

// pendingPragma waits for the definition of the name it is about.
type pendingPragma struct {
	pos  syntax.Pos
	name string // attributes, binding
	attr *Attr
	vers version
}

// pragma carries out one #pragma line, whose form the scanner has checked.
// Those that are not D's are ignored, as C demands.
func (c *Checker) pragma(p *syntax.Pragma) {
	w := p.Words
	if len(w) < 2 || w[0] != "D" {
		return
	}
	args := w[2:]
	switch w[1] {
	case "attributes":
		c.pragmaAttributes(p, args)
	case "binding":
		c.pragmaBinding(p, args)
	case "depends_on":
		c.pragmaDepends(p, args)
	case "option":
		c.pragmaOption(p, args)
	}
}

func (c *Checker) pragmaOption(p *syntax.Pragma, args []string) {
	if len(args) == 0 {
		fail(p.Pos(), "D_PRAGMA_MALFORM", "malformed #pragma option <option>=<val>")
	}
	name, val, has := strings.Cut(args[0], "=")
	c.setOption(p.Pos(), name, val, has)
	if c.file.prog != nil {
		c.file.prog.Options = append(c.file.prog.Options, Pragma{p.Pos(), name, val})
	}
}

// setOption sets an option, in the session and, where it is the checker's own,
// here.
func (c *Checker) setOption(pos syntax.Pos, name, val string, has bool) {
	bad := func(why string) {
		if !has {
			fail(pos, "D_PRAGMA_OPTSET", "failed to set option '%s': %s", name, why)
		}
		fail(pos, "D_PRAGMA_OPTSET", "failed to set option '%s' to '%s': %s", name, val, why)
	}
	if c.opts.SetOption != nil {
		if err := c.opts.SetOption(name, val); err != nil {
			bad(err.Error())
		}
	}
	switch name {
	case "amin":
		a, ok := ParseAttr(val)
		if !ok {
			bad("Invalid value for specified option")
		}
		c.amin, c.opts.AMin = a, val
	case "version":
		v, ok := parseVersion(val)
		if !ok {
			bad("Invalid value for specified option")
		}
		if v > vLatest {
			bad("Operation not supported")
		}
		c.vmax = v
	case "defaultargs":
		c.opts.DefaultArgs = true
	case "argref":
		c.opts.ArgRef = true
	case "zdefs":
		c.opts.ZDefs = true
	case "nolibs":
		c.opts.NoLibs = true
	}
}

func (c *Checker) pragmaAttributes(p *syntax.Pragma, args []string) {
	if len(args) < 2 {
		fail(p.Pos(), "D_PRAGMA_MALFORM", "malformed #pragma attributes <attributes> <ident>")
	}
	a, ok := ParseAttr(args[0])
	if !ok {
		fail(p.Pos(), "D_PRAGMA_INVAL", "invalid attributes specified by #pragma attributes")
	}
	if args[1] == "provider" {
		if len(args) < 4 {
			fail(p.Pos(), "D_PRAGMA_MALFORM", "malformed #pragma attributes <attributes> <ident>")
		}
		switch part := args[3]; part {
		case "provider", "module", "function", "name", "args":
			if prov := c.providers[args[2]]; prov != nil {
				prov.Attr[part] = a
			}
		default:
			fail(p.Pos(), "D_PRAGMA_INVAL", "invalid component \"%s\" in attribute #pragma for provider %s", args[2], part)
		}
		return
	}
	c.pragmaFor(p, "attributes", args[1], &pendingPragma{p.Pos(), "attributes", &a, 0})
}

func (c *Checker) pragmaBinding(p *syntax.Pragma, args []string) {
	if len(args) < 2 {
		fail(p.Pos(), "D_PRAGMA_MALFORM", "malformed #pragma binding \"version\" <ident>")
	}
	v, ok := parseVersion(args[0])
	if !ok {
		fail(p.Pos(), "D_PRAGMA_INVAL", "invalid version string specified by #pragma binding")
	}
	c.pragmaFor(p, "binding", args[1], &pendingPragma{p.Pos(), "binding", nil, v})
}

// pragmaFor applies a pragma to a name, or keeps it until the name is defined.
func (c *Checker) pragmaFor(p *syntax.Pragma, what, name string, d *pendingPragma) {
	switch o := c.visible(name).(type) {
	case nil:
		c.pending[name] = append(c.pending[name], d)
	case *symbol:
		if o.gen != c.genNow() {
			fail(p.Pos(), "D_PRAGMA_SCOPE", "#pragma %s cannot modify entity defined outside program scope", what)
		}
		d.apply(o)
	default:
		fail(p.Pos(), "D_PRAGMA_SCOPE", "#pragma %s cannot modify entity defined outside program scope", what)
	}
}

func (d *pendingPragma) apply(s *symbol) {
	if d.attr != nil {
		s.attr = *d.attr
	} else {
		s.vers = d.vers
	}
}

// applyPending applies the pragmas that came before a global's definition.
func (c *Checker) applyPending(class syntax.VarClass, name string, s *symbol) {
	if class != syntax.Global {
		return
	}
	for _, d := range c.pending[name] {
		d.apply(s)
	}
	delete(c.pending, name)
}

func (c *Checker) pragmaDepends(p *syntax.Pragma, args []string) {
	if len(args) < 2 {
		fail(p.Pos(), "D_PRAGMA_MALFORM", "malformed #pragma depends_on <class> <name>")
	}
	found := true
	switch class, name := args[0], args[1]; class {
	case "provider":
		found = c.providers[name] != nil || c.opts.HasProvider != nil && c.opts.HasProvider(name)
	case "module":
		found = name == "vmlinux" || name == "kernel" || name == "genunix" || c.opts.HasModule != nil && c.opts.HasModule(name)
	case "library":
		if !c.inLib() {
			fail(p.Pos(), "D_PRAGMA_DEPEND", "main program may not explicitly depend on a library")
		}
		found = c.loaded[name] || c.loadLibrary("file", name)
	default:
		fail(p.Pos(), "D_PRAGMA_INVAL", "invalid class %s specified by #pragma depends_on", class)
	}
	if !found {
		fail(p.Pos(), "D_PRAGMA_DEPEND", "program requires %s %s", args[0], args[1])
	}
}
