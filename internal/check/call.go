package check

import (
	"strings"

	"godtrace/internal/dif"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// proto is the parsed prototype of a function.
type proto struct {
	ret     types.Type
	params  []types.Type // nil element: any type
	min     int          // arguments that must be given
	varargs bool
}

// protoFor parses an identifier's prototype when it is first called: its types
// may have to come from the kernel.
func (c *Checker) protoFor(pos syntax.Pos, id *ident) *proto {
	if p := c.protos[id.name]; p != nil {
		return p
	}
	open := strings.IndexByte(id.typ, '(')
	p := &proto{ret: c.protoType(pos, id.typ[:open]), min: -1}
	list := strings.TrimSuffix(id.typ[open+1:], ")")
	if list != "" {
		for _, s := range strings.Split(list, ",") {
			s = strings.TrimSpace(s)
			switch {
			case s == "...":
				p.varargs = true
				continue
			case s == "@":
				p.params = append(p.params, nil)
				continue
			case s[0] == '[':
				if p.min < 0 {
					p.min = len(p.params)
				}
				s = s[1 : len(s)-1]
			}
			p.params = append(p.params, c.protoType(pos, s))
		}
	}
	if p.min < 0 {
		p.min = len(p.params)
	}
	c.protos[id.name] = p
	return p
}

// protoType is the type of a built-in variable, parameter or result.
func (c *Checker) protoType(pos syntax.Pos, s string) types.Type {
	base := strings.TrimRight(s, " *")
	stars := strings.Count(s, "*")
	base = strings.TrimPrefix(base, "const ") // messages do without
	var t types.Type
	if b, ok := types.FromSpecifiers(strings.Fields(base)...); ok {
		t = b
	} else {
		kind, name := "", base
		if k, n, found := strings.Cut(base, " "); found {
			kind, name = k, n
		}
		if t = c.lookupType("", kind, name); t == nil {
			if kind == "" {
				fail(pos, "D_UNKNOWN", "failed to resolve type %s: Unknown type name", s)
			}
			// The kernel tells nothing of its types: it stays a name.
			t = &types.Struct{Union: kind == "union", Tag: name, Scope: "D", Incomplete: true}
			c.dTypes.Define(typeSpace(kind), name, t)
		}
	}
	for range stars {
		t = types.NewPointer(t)
	}
	return t
}

// checkArgs compares arguments with a prototype.
func (c *Checker) checkArgs(pos syntax.Pos, id *ident, p *proto, args []val) {
	n := len(args)
	plural := "s "
	if n == 1 {
		plural = " "
	}
	bad := func(how string, want int) {
		fail(pos, "D_PROTO_LEN", "%s( ) prototype mismatch: %d arg%spassed, %s%d expected", id.name, n, plural, how, want)
	}
	switch {
	case p.varargs:
		if n < p.min {
			bad("at least ", p.min)
		}
	case p.min < len(p.params):
		if n < p.min {
			bad("at least ", p.min)
		}
		if n > len(p.params) {
			bad("at most ", len(p.params))
		}
	case n != p.min:
		bad("", p.min)
	}
	for i, t := range p.params[:min(n, len(p.params))] {
		if t == nil || argCompat(args[i], t) {
			continue
		}
		fail(pos, "D_PROTO_ARG", "%s( ) argument #%d is incompatible with prototype:\n\tprototype: %s\n\t%9s: %s", id.name, i+1, typeName(t), "argument", args[i].typeName())
	}
}

// callExpr is a call. Subroutines have a value; actions and aggregating
// functions are handed on to where they may stand.
func (c *Checker) callExpr(x *syntax.Call) val {
	pos := c.pos(x)
	n := x.Fun
	if n.Scoped || n.Class != syntax.Global {
		fail(pos, "D_FUNC_IDENT", "function designator is not of function type")
	}
	if s := c.lookupGlobal(n.Name); s != nil {
		fail(pos, "D_FUNC_IDKIND", "%s '%s' may not be referenced as a function", s.kind(), n.Name)
	}
	id := identTable()[n.Name]
	if id == nil || id.vers > c.vmax {
		failHint(pos, c.funcHint(n.Name), "D_FUNC_UNDEF", "undefined function name: %s", n.Name)
	}
	switch id.kind {
	case idRefused:
		if id.id == actStop {
			c.destructive(pos)
		}
		fail(pos, "D_FUNC_UNDEF", "%s( ) is not available on Linux: %s", id.name, id.typ)
	case idFunc:
	case idActFunc, idAggFunc:
		c.useAttr(pos, id.kindName()+" "+id.name, id.attr)
		cv := &callVal{id: id, src: x}
		for _, a := range x.Args {
			v := c.expr(a)
			if id.kind == idAggFunc {
				v = c.rvalue(v)
			}
			cv.args = append(cv.args, v)
		}
		c.checkArgs(pos, id, c.protoFor(pos, id), cv.args)
		return val{pos: pos, call: cv}
	default:
		fail(pos, "D_FUNC_IDKIND", "%s '%s' may not be referenced as a function", id.kindName(), n.Name)
	}
	c.useAttr(pos, id.kindName()+" "+id.name, id.attr)
	vals := c.readAll(x.Args)
	p := c.protoFor(pos, id)
	c.checkArgs(pos, id, p, vals)
	// What D writes into has to be its own.
	if i, ok := map[dif.Subr]int{dif.SBcopy: 1, dif.SCopyinto: 2}[dif.Subr(id.id)]; ok {
		if v := vals[i]; !v.alloca && !(v.within && types.IsArray(v.typ())) {
			fail(pos, "D_PROTO_ARG", "%s( ) argument #%d is incompatible with prototype:\n\tprototype: alloca pointer\n\t%9s: non-alloca pointer", id.name, i+1, "argument")
		}
	}
	args := make([]Expr, len(vals))
	for i, v := range vals {
		t := p.params[i]
		switch {
		case dif.Subr(id.id) == dif.SStrtok && i == 0 && v.isZero():
			args[i] = v.x // continue with the string of the call before
		case id.id >= 0 && types.IsStrCompat(t):
			args[i] = toString(v.x)
		case id.id == -actCopyoutstr && i == 0:
			args[i] = toString(v.x)
		default:
			args[i] = c.coerce(v, t)
		}
	}
	switch id.id {
	case -actCopyout:
		c.destructive(pos)
		return value(&OpExpr{E{types.TVoid, pos}, dif.OpCopyout, args})
	case -actCopyoutstr:
		c.destructive(pos)
		return value(&OpExpr{E{types.TVoid, pos}, dif.OpCopyoutstr, args})
	case -actGostr:
		return value(c.goText(pos, args[0], args[1]))
	}
	v := value(&Call{E{p.ret, pos}, dif.Subr(id.id), args})
	switch sub := dif.Subr(id.id); sub {
	case dif.SAlloca, dif.SCopyin:
		v.alloca = true
		n := vals[len(vals)-1]
		if k, ok := n.constant(); ok && uint64(k.Value) > uint64(c.intOption("scratchsize")) {
			fail(pos, "D_ALLOCA_SIZE", "%s(%d) size larger than scratchsize %d", id.name, uint64(k.Value), c.intOption("scratchsize"))
		}
	case dif.SInetNtoa6:
		if len(vals) < 2 {
			break
		}
		// A second argument asks for IPv4 addresses in the notation of IPv6,
		// which is what inet_ntop() gives.
		k, ok := vals[1].constant()
		if !ok {
			fail(pos, "D_PROTO_ARG", "inet_ntoa6( ) argument #2 is incompatible with prototype:\n\tprototype: integer constant\n\t argument: %s", vals[1].typeName())
		}
		v = value(&Call{E{p.ret, pos}, sub, args[:1]})
		if k.Value != 0 {
			v = value(&Call{E{p.ret, pos}, dif.SInetNtop, []Expr{&Const{E{types.TInt, pos}, afInet6}, conv(args[0], types.TVoidPtr)}})
		}
	}
	return v
}

const afInet6 = 10

func (c *Checker) funcHint(name string) string {
	if id := identTable()[name]; id != nil {
		return c.nameHint(name)
	}
	var names []string
	for i := range idents {
		if k := idents[i].kind; k == idFunc || k == idActFunc || k == idAggFunc {
			names = append(names, idents[i].name)
		}
	}
	if n := nearest(name, names); n != "" {
		return "did you mean " + n + "()?"
	}
	return ""
}

// destructive marks the clause as one that needs the option destructive.
func (c *Checker) destructive(pos syntax.Pos) {
	if c.clause == nil {
		return
	}
	if c.clause.flags.spec {
		fail(pos, "D_ACT_SPEC", "destructive actions may not follow speculate( )")
	}
	c.clause.out.Destructive = true
}
