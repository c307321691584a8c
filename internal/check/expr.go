package check

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"godtrace/internal/dif"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

type varClass = dif.VarClass

const (
	varGlobal = dif.Global
	varSelf   = dif.Self
	varThis   = dif.This
)

// val is a typed expression with what is known of it beside its type. Exactly
// one of the forms is set: x; sym for a variable that has no type yet, or for
// an array named without index; xl for translated data; agg; call for an
// action or aggregating function, which has no value.
type val struct {
	pos   syntax.Pos
	x     Expr
	lval  bool // may stand on the left of =, as C has it
	write bool // and D permits writing it
	sym   *symbol
	keys  []Expr // of sym
	xl    *translation
	agg   *aggSym
	call  *callVal
	str   *string // a string constant as written
	inc   types.Type
	arr   types.Type // the array type a translated member is declared with
	// alloca: a pointer to memory of alloca(); mixed: one that may be such;
	// within: an object in such memory.
	alloca, mixed, within bool
}

// callVal is a call of an action or aggregating function.
type callVal struct {
	id   *ident
	args []val
	src  *syntax.Call
}

// typ is the type as messages and checks see it.
func (v val) typ() types.Type {
	switch {
	case v.x != nil:
		return v.x.Type()
	case v.call != nil && v.call.id.kind == idActFunc:
		return types.TVoid
	}
	return types.TDynamic
}

// void stands for the value of an action where a value is wanted: every check
// of its type fails.
type void struct{ E }

// typeName is how messages name the type of v.
func (v val) typeName() string {
	switch {
	case v.agg != nil:
		return "aggregation"
	case v.call != nil && v.call.id.kind == idAggFunc:
		return v.call.id.kindName()
	case v.xl != nil && v.xl.ptr:
		return "pointer to translated data"
	case v.xl != nil:
		return "translated data"
	case v.sym != nil:
		return v.sym.kind()
	}
	return typeName(v.typ())
}

func typeName(t types.Type) string {
	switch x := t.(type) {
	case *types.Struct:
		if x.Tag == "" && x.Union {
			return "union "
		} else if x.Tag == "" {
			return "struct "
		}
	case *types.Enum:
		if x.Tag == "" {
			return "enum "
		}
	}
	if types.IsUser(t) {
		return "userland " + t.String()
	}
	return t.String()
}

func (v val) constant() (*Const, bool) {
	k, ok := v.x.(*Const)
	return k, ok
}

func (v val) isZero() bool {
	k, ok := v.constant()
	return ok && k.Value == 0
}

func (v val) isPosConst() bool {
	k, ok := v.constant()
	return ok && k.Value != 0 && (!types.IsSigned(k.T) || k.Value > 0)
}

func value(x Expr) val { return val{pos: x.Pos(), x: x} }

func mkConst(pos syntax.Pos, n int64, t types.Type) val {
	return value(&Const{E{t, pos}, types.Convert(n, t)})
}

// rvalue insists on a value.
func (c *Checker) rvalue(v val) val {
	if v.sym != nil && (!v.sym.array || v.keys != nil) && types.IsDynamic(v.sym.v.Type) {
		c.undeclared(v.pos, v.sym)
	}
	if v.call != nil && v.call.id.kind == idActFunc {
		v.x = &void{E{types.TVoid, v.pos}}
	}
	if v.x != nil && isGoString(v.x.Type()) {
		return c.goString(v)
	}
	if why := hole(v.x); why != "" {
		fail(v.pos, "D_ARGS_TYPE", "the argument, or a member of it, has no value: %s", why)
	}
	return v
}

// noAction refuses an action or aggregating function where a value is wanted
// whose type does not matter.
func (c *Checker) noAction(v val) {
	if v.call != nil {
		fail(v.pos, "D_CG_EXPR", "%s %s( ) may not be called from a D expression (D program context required)", v.call.id.kindName(), v.call.id.name)
	}
}

func (c *Checker) undeclared(pos syntax.Pos, s *symbol) {
	prefix := map[varClass]string{varSelf: "self->", varThis: "this->"}[s.v.Class]
	var names []string
	space := map[varClass]map[string]*symbol{varSelf: c.tls, varThis: c.locals, varGlobal: c.globals}[s.v.Class]
	for n, o := range space {
		if o != s && (o.v == nil || !types.IsDynamic(o.v.Type)) {
			names = append(names, n)
		}
	}
	hint := nearest(s.v.Name, names)
	if hint != "" {
		hint = "did you mean " + prefix + hint + "?"
	}
	failHint(pos, hint, "D_VAR_UNDEF", "%s%s has not yet been declared or assigned", prefix, s.v.Name)
}

// read types x and insists on a value.
func (c *Checker) read(x syntax.Expr) val { return c.rvalue(c.expr(x)) }

// maxDepth bounds the expansion of inlines and translators within one another.
const maxDepth = 200

// expr types an expression.
func (c *Checker) expr(x syntax.Expr) val {
	if c.notes != nil {
		return c.noted(x)
	}
	return c.typed(x)
}

func (c *Checker) typed(x syntax.Expr) val {
	switch x := x.(type) {
	case *syntax.IntLit:
		return c.intLit(x)
	case *syntax.StringLit:
		s := x.Value
		v := value(&String{E{types.TString, c.pos(x)}, s})
		v.str = &s
		return v
	case *syntax.FloatLit:
		fail(c.pos(x), "D_SYNTAX", "floating-point constants are not permitted")
	case *syntax.Paren:
		return c.expr(x.X)
	case *syntax.Macro:
		return c.macro(x)
	case *syntax.Name:
		return c.name(x)
	case *syntax.Agg:
		return c.aggRef(x)
	case *syntax.Unary:
		return c.unary(x)
	case *syntax.Postfix:
		return c.incDec(c.pos(x), x.Op, x.X, true)
	case *syntax.Binary:
		return c.binary(x)
	case *syntax.Assign:
		return c.assign(x)
	case *syntax.Cond:
		return c.cond(x)
	case *syntax.Call:
		return c.callExpr(x)
	case *syntax.Index:
		return c.index(x)
	case *syntax.Member:
		return c.member(x)
	case *syntax.Cast:
		return c.cast(x)
	case *syntax.Sizeof:
		return c.sizeof(x)
	case *syntax.Offsetof:
		return c.offsetof(x)
	case *syntax.Stringof:
		return c.stringof(x)
	case *syntax.Xlate:
		return c.xlate(x)
	}
	panic(fmt.Sprintf("check: unknown expression %T", x))
}

func (c *Checker) intLit(x *syntax.IntLit) val {
	if x.Overflow {
		fail(c.pos(x), "D_INT_OFLOW", "integer constant %s cannot be represented in any built-in integral type", x.Text)
	}
	if x.Char {
		return mkConst(c.pos(x), int64(x.Value), types.TInt)
	}
	constType := types.ForConst
	if c.ilp32() {
		constType = types.ForConst32
	}
	t, ok := constType(x.Value, x.Decimal, x.Suffix)
	if !ok {
		fail(c.pos(x), "D_INT_OFLOW", "integer constant 0x%x cannot be represented in any built-in integral type", x.Value)
	}
	return mkConst(c.pos(x), int64(x.Value), t)
}

// constant evaluates a constant expression.
func (c *Checker) constant(x syntax.Expr) (*Const, bool) { return c.read(x).constant() }

// macro is the value of a macro variable.
func (c *Checker) macro(x *syntax.Macro) val {
	text, ok := c.env.Macro(x.Name)
	if c.file != nil {
		c.file.macros[x.Name] = true
	}
	number := x.Name != "" && x.Name[0] >= '0' && x.Name[0] <= '9'
	written := "$" + x.Name
	if x.String {
		written = "$" + written
	}
	switch {
	case ok:
	case number && c.opts.DefaultArgs:
		text = "0"
		if x.String {
			text = ""
		}
	case number:
		fail(c.pos(x), "D_MACRO_UNDEF", "macro argument %s is not defined", written)
	case x.Name == "target":
		text = "0" // no process: 0 in DTrace
	default:
		fail(c.pos(x), "D_MACRO_UNDEF", "macro variable %s is not defined", written)
	}
	isString := x.String
	if !isString && !isMacroWord(text) {
		isString = true
		if n := len(text); n > 1 && text[0] == '"' && text[n-1] == '"' {
			text = text[1 : n-1]
		}
	}
	if isString {
		v := value(&String{E{types.TString, c.pos(x)}, text})
		v.str = &text
		return v
	}
	digits, neg := text, false
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		neg, digits = digits[0] == '-', digits[1:]
	}
	if digits == "" || digits[0] < '0' || digits[0] > '9' {
		y, err := syntax.ParseExpr(text, syntax.Options{IsType: c.IsType})
		n, isName := y.(*syntax.Name)
		if err != nil || !isName {
			fail(c.pos(x), "D_SYNTAX", "syntax error near \"%s\"", text)
		}
		c.argument = written
		defer func() { c.argument = "" }()
		return c.nameAt(n, c.pos(x))
	}
	body := strings.TrimRight(digits, "uUlL")
	base := 10
	decimal := true
	num := body
	switch {
	case len(body) > 1 && (body[:2] == "0x" || body[:2] == "0X"):
		base, num, decimal = 16, body[2:], false
	case body[0] == '0' && len(body) > 1:
		base, num, decimal = 8, body[1:], false
	}
	n, err := strconv.ParseUint(num, base, 64)
	if err != nil {
		if strings.Contains(err.Error(), "out of range") {
			fail(c.pos(x), "D_MACRO_OFLOW", "macro argument %s constant %s results in integer overflow", written, text)
		}
		fail(c.pos(x), "D_SYNTAX", "syntax error near \"%s\"", text)
	}
	t, fits := types.ForConst(n, decimal, strings.ToLower(digits[len(body):]))
	if !fits {
		fail(c.pos(x), "D_INT_OFLOW", "integer constant 0x%x cannot be represented in any built-in integral type", n)
	}
	if neg {
		n = -n
	}
	return mkConst(c.pos(x), int64(n), t)
}

// isMacroWord reports whether the text of a macro argument is a number or a
// name. All other texts are strings, within quotation marks or without.
func isMacroWord(text string) bool {
	if text != "" && (text[0] == '-' || text[0] == '+') {
		_, err := strconv.ParseUint(text[1:], 0, 64)
		return err == nil
	}
	return text != "" && strings.Trim(text, "_`0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// name is what an identifier stands for where its value is wanted.
func (c *Checker) name(x *syntax.Name) val { return c.nameAt(x, c.pos(x)) }

func (c *Checker) nameAt(x *syntax.Name, pos syntax.Pos) val {
	switch {
	case x.Scoped:
		return c.kernelSymbol(x, pos)
	case x.Class != syntax.Global:
		return c.variable(pos, c.ensure(pos, x.Class, x.Name))
	}
	if b := c.bound(x.Name); b != nil {
		return b.value(pos)
	}
	if s := c.lookupGlobal(x.Name); s != nil {
		if s.array || s.inline != nil && s.inline.params != nil {
			fail(pos, "D_IDENT_BADREF", "%s '%s' may not be referenced as %s", s.kind(), x.Name, kindScalar)
		}
		return c.symbolValue(pos, s)
	}
	if id := c.builtin(pos, x.Name); id != nil {
		if id.kind != idScalar {
			fail(pos, "D_IDENT_BADREF", "%s '%s' may not be referenced as %s", id.kindName(), x.Name, kindScalar)
		}
		return c.builtinValue(pos, id)
	}
	if n, t, ok := c.env.LookupEnumerator(x.Name); ok {
		c.useAttr(pos, "enumerator "+x.Name, symAttr)
		return value(&Const{E{t, pos}, n})
	}
	if p := c.programTypes(); p != nil {
		if e, k, ok := p.LookupEnumerator(x.Name); ok {
			return value(&Const{E{e, pos}, k.Value})
		}
	}
	c.unknown(pos, x.Name)
	panic("unreachable")
}

// unknown reports a name that means nothing.
func (c *Checker) unknown(pos syntax.Pos, name string) {
	failHint(pos, c.nameHint(name), "D_IDENT_UNDEF", "failed to resolve %s: Unknown variable name", name)
}

func (c *Checker) nameHint(name string) string {
	if c.argument != "" {
		return fmt.Sprintf("an argument that is a word names a variable: $%s is its text", c.argument)
	}
	if id := identTable()[name]; id != nil && id.vers > c.vmax {
		return fmt.Sprintf("%s came with version %d.%d.%d of D", name, id.vers/10000, id.vers/100%100, id.vers%100)
	}
	if c.tls[name] != nil {
		return "did you mean self->" + name + "?"
	}
	if c.locals[name] != nil {
		return "did you mean this->" + name + "?"
	}
	if _, ok := c.env.LookupSymbol("", name); ok {
		return "did you mean the kernel's `" + name + "?"
	}
	var names []string
	for i := range idents {
		if k := idents[i].kind; k == idScalar || k == idArgs || k == idRegs {
			names = append(names, idents[i].name)
		}
	}
	for n := range c.globals {
		names = append(names, n)
	}
	if n := nearest(name, names); n != "" {
		return "did you mean " + n + "?"
	}
	return ""
}

// lookupGlobal finds a global symbol of the program, loading the D library
// that defines it if there is one.
func (c *Checker) lookupGlobal(name string) *symbol {
	s := c.globals[name]
	if s == nil && identTable()[name] == nil && c.loadLibrary("", name) {
		s = c.globals[name]
	}
	if s != nil && s.vers > c.vmax {
		return nil
	}
	return s
}

// builtin finds a predefined identifier.
func (c *Checker) builtin(pos syntax.Pos, name string) *ident {
	id := identTable()[name]
	if id == nil || id.vers > c.vmax {
		return nil
	}
	if id.kind == idRefused {
		fail(pos, "D_VAR_UNSUP", "%s is not available on Linux: %s", name, id.typ)
	}
	return id
}

func (c *Checker) symbolValue(pos syntax.Pos, s *symbol) val {
	c.useAttr(pos, s.kind()+" "+s.name(), s.attr)
	switch {
	case s.enum != nil:
		return value(&Const{E{s.enum.T, pos}, s.enum.Value})
	case s.inline != nil:
		return c.expand(pos, s.inline, nil)
	}
	return c.variable(pos, s)
}

func (c *Checker) builtinValue(pos syntax.Pos, id *ident) val {
	attr := id.attr
	if c.clause != nil {
		attr = c.contextAttr(id, attr)
	}
	c.useAttr(pos, id.kindName()+" "+id.name, attr)
	b := &Builtin{E: E{c.protoType(pos, id.typ), pos}, ID: dif.BuiltinID(id.id), Name: id.name}
	if strings.HasPrefix(id.name, "arg") && len(id.name) == 4 {
		b.ID, b.N = dif.BArg, id.id
	}
	v := value(b)
	v.lval = true
	return v
}

// contextAttr is the stability of the built-ins that depend on the provider.
func (c *Checker) contextAttr(id *ident, a Attr) Attr {
	if len(c.clause.probes) == 0 || c.clause.probes[0].Attr == nil {
		return a
	}
	p := c.clause.probes[0].Attr
	switch id.name {
	case "probeprov":
		return provAttr(p.Provider)
	case "probemod":
		return provAttr(p.Module)
	case "probefunc":
		return provAttr(p.Func)
	case "probename":
		return provAttr(p.Name)
	case "args":
		return provAttr(p.Args)
	}
	return a
}

// ensure finds a variable, creating it where D does: for self-> and this->, and
// for globals that are assigned.
func (c *Checker) ensure(pos syntax.Pos, class syntax.VarClass, name string) *symbol {
	if s := c.space(class)[name]; s != nil {
		return s
	}
	return c.newVar(pos, class, name)
}

// variable is a variable as an operand.
func (c *Checker) variable(pos syntax.Pos, s *symbol) val {
	if s.array || types.IsDynamic(s.v.Type) {
		return val{pos: pos, sym: s, lval: true, write: true}
	}
	s.ref = true
	return val{pos: pos, x: &VarRef{E: E{s.v.Type, pos}, Var: s.v}, lval: true, write: true, alloca: s.alloca}
}

// kernelSymbol is `name or module`name.
func (c *Checker) kernelSymbol(x *syntax.Name, pos syntax.Pos) val {
	c.useAttr(pos, "symbol "+x.Module+"`"+x.Name, symAttr)
	if x.Module == "D" || x.Module == "C" {
		if t, ok := c.extern[x.Name]; ok {
			fail(pos, "D_SYM_NOTYPES", "no symbolic type information is available for %s`%s (%s): it is declared extern but not defined", x.Module, x.Name, t)
		}
	}
	if strings.HasSuffix(x.Module, "`") {
		fail(pos, "D_SYM_BADREF", "kernel module '%s' symbol '%s' may not be referenced as a user symbol", strings.TrimSuffix(x.Module, "`"), x.Name)
	}
	t, ok := c.env.LookupSymbol(x.Module, x.Name)
	if !ok {
		fail(pos, "D_IDENT_UNDEF", "failed to resolve %s`%s: Unknown symbol name", x.Module, x.Name)
	}
	if c.opts.KDefs {
		mod := x.Module
		if mod == "" {
			mod = "vmlinux"
		}
		fail(pos, "D_ASRELO", "relocation remains against kernel symbol %s`%s (offset 0x0)", mod, x.Name)
	}
	if t == nil {
		if e, known := c.extern[x.Name]; known {
			t = e
		}
	}
	if t == nil {
		mod := x.Module
		if mod == "" {
			mod = "vmlinux"
		}
		failHint(pos, "declare it: extern int "+x.Name+"; or use its address: (uintptr_t)&`"+x.Name,
			"D_SYM_NOTYPES", "no symbolic type information is available for %s`%s: No symbolic type information is available for module", mod, x.Name)
	}
	k := &KSym{E: E{types.NewPointer(t), pos}, Module: x.Module, Name: x.Name}
	if types.IsFunc(t) {
		return val{pos: pos, x: k, lval: false}
	}
	return val{pos: pos, x: &Mem{E: E{c.withComplete(t), pos}, Addr: k}, lval: true}
}

// conv converts x to t without further checks.
func conv(x Expr, t types.Type) Expr {
	if types.Identical(x.Type(), t) && types.IsString(x.Type()) == types.IsString(t) {
		return retype(x, t)
	}
	if k, ok := x.(*Const); ok && types.IsInteger(t) {
		return &Const{E{t, k.P}, types.Convert(k.Value, t)}
	}
	if k, ok := x.(*Const); ok && types.IsPointer(t) {
		return &Conv{E{t, k.P}, k}
	}
	return &Conv{E{t, x.Pos()}, x}
}

// retype leaves x alone unless t differs from its type in name only and
// matters: a constant takes the type it is used with.
func retype(x Expr, t types.Type) Expr {
	if k, ok := x.(*Const); ok {
		return &Const{E{t, k.P}, types.Convert(k.Value, t)}
	}
	return x
}

// decay makes a value a scalar fit for arithmetic: an array is its address.
func decay(x Expr) Expr {
	if types.IsArray(x.Type()) || types.IsFunc(x.Type()) {
		t := types.Decay(x.Type())
		if userMem(x) {
			t = &types.Pointer{Elem: types.Elem(t), User: true}
		}
		return &Conv{E{t, x.Pos()}, x}
	}
	return x
}

// userMem reports whether a by-reference value lies in the traced process.
func userMem(x Expr) bool {
	switch x := x.(type) {
	case *Mem:
		return x.User
	case *Builtin: // an argument that is an object on the stack of the process
		return x.Loc != nil && x.Loc.User && types.IsByRef(x.T)
	case *Conv:
		return types.IsUser(x.T) || !types.IsPointer(x.T) && userMem(x.X)
	}
	return false
}

// toString makes a string of a string-like value, or of an address.
func toString(x Expr) Expr {
	if types.IsString(x.Type()) {
		return x
	}
	if k, ok := x.(*Const); ok && !types.IsPointer(k.T) {
		x = conv(k, types.TCharPtr)
	} else if types.IsInteger(x.Type()) {
		x = conv(conv(x, types.TULong), types.TCharPtr)
	} else if types.IsArray(x.Type()) {
		// The bound of a character array bounds the string too.
		if n := x.Type().Size(); n > 0 && types.IsCharArray(x.Type()) {
			return &Conv{E{types.NewString(n + 1), x.Pos()}, x}
		}
	}
	return &Conv{E{types.TString, x.Pos()}, x}
}

// coerce converts a value for assignment to, or passing as, type t. The types
// have been found compatible.
func (c *Checker) coerce(v val, t types.Type) Expr {
	x := v.x
	switch {
	case types.IsString(t):
		return toString(x)
	case types.IsPointer(t) && types.IsString(x.Type()):
		return &Conv{E{t, x.Pos()}, x}
	case types.IsPointer(t) && types.IsPointerLike(x.Type()):
		x = decay(x)
		// Where the address lies is not lost by passing it on as a plain pointer.
		if types.IsUser(x.Type()) && !types.IsUser(t) {
			t = &types.Pointer{Elem: types.Elem(t), User: true}
		}
		return conv(x, t)
	case types.IsScalar(t):
		return conv(decay(x), t)
	}
	return x
}

// argCompat reports whether v may be assigned to, or passed as, type t.
func argCompat(v val, t types.Type) bool {
	if v.x == nil {
		return false
	}
	if types.IsPointer(t) && types.IsPointerLike(v.typ()) && types.IsUser(t) != types.IsUser(v.typ()) {
		t = &types.Pointer{Elem: types.Elem(t), User: types.IsUser(v.typ())}
	}
	if types.IsString(v.typ()) && types.IsPointer(t) && types.IsVoid(types.Elem(t)) {
		return true // a string is an array of characters
	}
	if td, ok := t.(*types.Typedef); ok && td.Name == types.TUintptr.Name && types.IsUser(v.typ()) {
		return true // copyin() and its kin want an address in the process
	}
	return types.ArgCompat(v.typ(), v.isZero(), t)
}

var opText = map[syntax.Token]string{
	syntax.Add: "+", syntax.Sub: "-", syntax.Mul: "*", syntax.Div: "/", syntax.Mod: "%", syntax.And: "&",
	syntax.Or: "|", syntax.Xor: "^", syntax.Shl: "<<", syntax.Shr: ">>", syntax.Not: "~", syntax.LNot: "!",
	syntax.LAnd: "&&", syntax.LOr: "||", syntax.LXor: "^^", syntax.Eq: "==", syntax.Ne: "!=", syntax.Lt: "<",
	syntax.Le: "<=", syntax.Gt: ">", syntax.Ge: ">=", syntax.Comma: ",", syntax.Assign_: "=", syntax.Inc: "++", syntax.Dec: "--",
}

func (c *Checker) unary(x *syntax.Unary) val {
	pos := c.pos(x)
	switch x.Op {
	case syntax.Inc, syntax.Dec:
		return c.incDec(pos, x.Op, x.X, false)
	case syntax.And:
		return c.addressOf(pos, x.X)
	}
	v := c.read(x.X)
	op := opText[x.Op]
	switch x.Op {
	case syntax.Star:
		return c.deref(pos, v)
	case syntax.Add, syntax.Sub:
		if v.x == nil || !types.IsArith(v.typ()) {
			fail(pos, "D_OP_ARITH", "operator %s requires an operand of arithmetic type", op)
		}
	case syntax.Not:
		if v.x == nil || !types.IsInteger(v.typ()) {
			fail(pos, "D_OP_INT", "operator %s requires an operand of integral type", op)
		}
	case syntax.LNot:
		if v.x == nil || !types.IsScalar(v.typ()) {
			fail(pos, "D_OP_SCALAR", "operator %s requires an operand of scalar type", op)
		}
		if k, ok := v.constant(); ok {
			return mkConst(pos, truth(k.Value == 0), types.TInt)
		}
		return value(&Unary{E{types.TInt, pos}, syntax.LNot, v.x})
	}
	t := types.Promote(v.typ())
	y := conv(v.x, t)
	if k, ok := y.(*Const); ok {
		switch x.Op {
		case syntax.Sub:
			return mkConst(pos, -k.Value, t)
		case syntax.Not:
			return mkConst(pos, ^k.Value, t)
		}
		return mkConst(pos, k.Value, t)
	}
	if x.Op == syntax.Add {
		return value(y)
	}
	return value(&Unary{E{t, pos}, x.Op, y})
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// deref is *v.
func (c *Checker) deref(pos syntax.Pos, v val) val {
	if v.xl != nil && v.xl.ptr {
		w := *v.xl
		w.ptr = false
		return val{pos: pos, xl: &w}
	}
	if v.x == nil {
		fail(pos, "D_DEREF_NONPTR", "cannot dereference non-pointer type")
	}
	t := v.typ()
	write := v.write || addsToWritable(v)
	if types.IsString(t) {
		p := conv(v.x, types.TCharPtr)
		if userMem(v.x) {
			p = conv(v.x, &types.Pointer{Elem: types.TChar, User: true})
		}
		return c.mem(pos, p, 0, types.TChar, write)
	}
	e := types.Elem(t)
	if e == nil || !types.IsPointerLike(t) {
		fail(pos, "D_DEREF_NONPTR", "cannot dereference non-pointer type")
	}
	if types.IsVoid(e) {
		fail(pos, "D_DEREF_VOID", "cannot dereference pointer to void")
	}
	if types.IsFunc(e) {
		fail(pos, "D_DEREF_FUNC", "cannot dereference pointer to function")
	}
	if a, ok := v.x.(*AddrOf); ok {
		if m, isMem := a.X.(*Mem); isMem {
			return val{pos: pos, x: m, lval: !types.IsArray(m.T), write: write}
		}
	}
	m := c.mem(pos, c.intoProgram(decay(v.x)), 0, e, write)
	m.within = v.alloca || v.within && types.IsArray(t)
	return m
}

// intoProgram marks a pointer to a struct that was declared before it was known to
// be one of the program's: variables of D are declared outside of clauses.
func (c *Checker) intoProgram(x Expr) Expr {
	t := x.Type()
	if e := types.Elem(t); types.IsPointer(t) && !types.IsUser(t) && e != nil && incomplete(e) && ofProgram(c.withComplete(e)) {
		return conv(x, &types.Pointer{Elem: e, User: true})
	}
	return x
}

// addsToWritable tells array elements reached through an addition.
func addsToWritable(v val) bool { return v.inc != nil }

// mem is the object of type t at addr+off.
func (c *Checker) mem(pos syntax.Pos, addr Expr, off int64, t types.Type, write bool) val {
	user := types.IsUser(addr.Type())
	t = c.withComplete(types.Unqualify(t))
	if user {
		t = userPointer(t)
	}
	// Constant parts of an address are gathered in Off.
	for {
		b, ok := addr.(*Binary)
		if !ok || b.Op != syntax.Add {
			break
		}
		k, isConst := b.Y.(*Const)
		if !isConst {
			break
		}
		addr, off = b.X, off+k.Value
	}
	m := &Mem{E: E{t, pos}, Addr: addr, Off: off, User: user}
	return val{pos: pos, x: m, lval: !types.IsArray(t) || types.IsString(t), write: write}
}

// userPointer marks a pointer found in the memory of the traced process.
func userPointer(t types.Type) types.Type {
	if p, ok := types.Underlying(t).(*types.Pointer); ok && !p.User {
		return &types.Pointer{Elem: p.Elem, User: true, ILP32: p.ILP32}
	}
	return t
}

// addressOf is &x.
func (c *Checker) addressOf(pos syntax.Pos, src syntax.Expr) val {
	v := c.expr(src)
	if v.agg != nil || v.sym != nil {
		fail(pos, "D_ADDROF_VAR", "cannot take address of dynamic variable")
	}
	switch x := v.x.(type) {
	case nil:
		if v.call == nil {
			fail(pos, "D_ADDROF_VAR", "cannot take address of dynamic object")
		}
	case *VarRef, *Builtin:
		fail(pos, "D_ADDROF_VAR", "cannot take address of dynamic variable")
	case *KSym: // a function
		return value(x)
	case *Mem:
		if x.Bits > 0 {
			fail(pos, "D_ADDROF_BITFIELD", "cannot take address of bit-field")
		}
		if v.lval || types.IsArray(x.Type()) {
			a := value(addrOf(pos, x))
			a.alloca = v.within
			return a
		}
	}
	fail(pos, "D_ADDROF_LVAL", "unacceptable operand for unary & operator")
	panic("unreachable")
}

// addrOf is the address of an object in memory.
func addrOf(pos syntax.Pos, m *Mem) Expr {
	t := &types.Pointer{Elem: m.T, User: m.User}
	if m.Off == 0 {
		return &Conv{E{t, pos}, m.Addr}
	}
	return &AddrOf{E{t, pos}, m}
}

// incDec is ++ and --. They may create a variable: an int64_t.
func (c *Checker) incDec(pos syntax.Pos, op syntax.Token, src syntax.Expr, post bool) val {
	v := c.target(src)
	name := opText[op]
	if v.sym != nil && !v.sym.array || v.sym != nil && v.keys != nil {
		v = c.give(v, types.TInt64)
	}
	if v.x == nil || !types.IsScalar(v.typ()) {
		fail(pos, "D_OP_SCALAR", "operator %s requires operand of scalar type", name)
	}
	if isVFPtr(v.typ()) {
		fail(pos, "D_OP_VFPTR", "operator %s requires an operand of known size", name)
	}
	if !v.lval {
		fail(pos, "D_OP_LVAL", "operator %s requires modifiable lvalue as an operand", name)
	}
	if !v.write {
		fail(pos, "D_OP_WRITE", "operator %s can only be applied to a writable variable", name)
	}
	c.wrote(v)
	delta := int64(1)
	if types.IsPointer(v.typ()) {
		delta = types.ElemSize(v.typ())
	}
	if op == syntax.Dec {
		delta = -delta
	}
	return value(&IncDec{E{v.typ(), pos}, v.x, delta, post})
}

// isVFPtr reports a pointer to void or to a function.
func isVFPtr(t types.Type) bool {
	e := types.Elem(t)
	return types.IsPointer(t) && e != nil && (types.IsVoid(e) || types.IsFunc(e))
}

// target types the left side of an assignment: a global that is not known yet
// is created.
func (c *Checker) target(src syntax.Expr) val {
	for {
		p, ok := src.(*syntax.Paren)
		if !ok {
			break
		}
		src = p.X
	}
	if n, ok := src.(*syntax.Name); ok && !n.Scoped && n.Class == syntax.Global && c.bound(n.Name) == nil {
		if s := c.lookupGlobal(n.Name); s != nil {
			if s.kind() != kindScalar {
				fail(c.pos(n), "D_IDENT_BADREF", "%s '%s' may not be referenced as %s", s.kind(), n.Name, kindScalar)
			}
			return c.note(n, c.symbolValue(c.pos(n), s))
		}
		if c.builtin(c.pos(n), n.Name) == nil {
			return c.note(n, c.variable(c.pos(n), c.newVar(c.pos(n), syntax.Global, n.Name)))
		}
	}
	return c.expr(src)
}

// give fixes the type of a variable by its first assignment.
func (c *Checker) give(v val, t types.Type) val {
	s := v.sym
	if !types.IsDynamic(s.v.Type) {
		return v
	}
	t = types.Unqualify(t)
	s.v.Type = t
	s.mod = true
	v.sym = nil
	v.x = &VarRef{E{t, v.pos}, s.v, v.keys}
	return v
}

// wrote marks the variable behind an lvalue as assigned.
func (c *Checker) wrote(v val) {
	r, ok := v.x.(*VarRef)
	if !ok {
		return
	}
	if s := c.symbolOf(r.Var); s != nil {
		s.mod = true
	}
}

func incompat(pos syntax.Pos, a val, op syntax.Token, b val) {
	suffix := ""
	fail(pos, "D_OP_INCOMPAT", "operands have incompatible types: \"%s\" %s%s \"%s\"", a.typeName(), opText[op], suffix, b.typeName())
}

// assign is = and op=.
func (c *Checker) assign(x *syntax.Assign) val {
	pos := c.pos(x)
	if x.Op != syntax.Assign_ {
		return c.assignOp(x)
	}
	if _, ok := unparen(x.X).(*syntax.Agg); ok {
		fail(pos, "D_CG_EXPR", "aggregation may not be assigned within a D expression (D program context required)")
	}
	l := c.target(x.X)
	if l.agg != nil {
		fail(pos, "D_CG_EXPR", "aggregation may not be assigned within a D expression (D program context required)")
	}
	if l.sym != nil && l.sym.array && l.keys == nil {
		r := c.read(x.Y)
		incompat(pos, l, syntax.Assign_, r)
	}
	r := c.expr(x.Y)
	if r.call != nil && r.call.id.kind == idActFunc {
		if y := c.actionValue(r); y != nil {
			r = value(y)
		}
	}
	r = c.rvalue(r)
	if r.call != nil && r.x != nil && !types.IsStack(r.typ()) {
		c.noAction(r)
	}
	if r.xl != nil && !r.xl.ptr {
		r = value(c.xlateStruct(pos, r.xl))
	}
	if l.sym != nil && types.IsDynamic(l.sym.v.Type) {
		if r.x == nil || types.IsDynamic(r.typ()) || types.IsVoid(r.typ()) {
			incompat(pos, l, syntax.Assign_, r)
		}
		if t := r.typ(); types.IsArray(t) || types.IsFunc(t) {
			fail(pos, "D_OP_ARRFUN", "operator = may not be applied to operand of type \"%s\"", typeName(t))
		}
		l = c.give(l, plainString(r.typ()))
	}
	if l.x == nil {
		incompat(pos, l, syntax.Assign_, r)
	}
	if t := l.typ(); types.IsArray(t) || types.IsFunc(t) {
		fail(pos, "D_OP_ARRFUN", "operator = may not be applied to operand of type \"%s\"", typeName(t))
	}
	// 0 frees a variable, whatever its type.
	if r.x != nil && r.isZero() && (types.IsString(l.typ()) || types.IsStructOrUnion(l.typ())) {
		c.writable(pos, l, "=")
		c.wrote(l)
		return value(&Assign{E: E{l.typ(), pos}, Op: syntax.Assign_, LHS: l.x, RHS: r.x})
	}
	if r.x == nil || !argCompat(r, l.typ()) {
		incompat(pos, l, syntax.Assign_, r)
	}
	c.writable(pos, l, "=")
	c.wrote(l)
	c.keepApart(pos, l, r)
	v := value(&Assign{E: E{l.typ(), pos}, Op: syntax.Assign_, LHS: l.x, RHS: c.coerce(r, l.typ())})
	v.alloca = r.alloca
	return v
}

// keepApart sees to it that a variable holds pointers to alloca()ed memory only
// or none of them: D can store through the former but not through the latter.
func (c *Checker) keepApart(pos syntax.Pos, l, r val) {
	ref, ok := l.x.(*VarRef)
	if !ok {
		return
	}
	if r.mixed {
		fail(pos, "D_ALLOCA_INCOMPAT", "ternary conditional with alloca and non-alloca branches cannot be assigned to a variable")
	}
	s := c.symbolOf(ref.Var)
	switch {
	case s == nil || r.isZero():
		return
	case r.alloca:
		s.alloca = true
	default:
		s.other = true
	}
	if s.alloca && s.other {
		if c.clause != nil { // as DTrace does, which finds out when it has seen the clause
			pos = c.clause.desc.Pos()
		}
		fail(pos, "D_ALLOCA_INCOMPAT", "%s: cannot reuse the same identifier for both alloca and non-alloca allocations", s.v.Name)
	}
}

// symbolOf is the symbol of a variable.
func (c *Checker) symbolOf(v *Var) *symbol {
	for _, space := range []map[string]*symbol{c.globals, c.tls, c.locals} {
		if s := space[v.Name]; s != nil && s.v == v {
			return s
		}
	}
	return nil
}

// plainString is the type of a variable made by assigning a value of type t:
// strings lose a bound of their own.
func plainString(t types.Type) types.Type {
	if types.IsString(t) {
		return types.TString
	}
	return t
}

func (c *Checker) writable(pos syntax.Pos, v val, op string) {
	if !v.lval {
		fail(pos, "D_OP_LVAL", "operator %s requires modifiable lvalue as an operand", op)
	}
	if !v.write {
		fail(pos, "D_OP_WRITE", "operator %s can only be applied to a writable variable", op)
	}
}

func unparen(x syntax.Expr) syntax.Expr {
	for {
		p, ok := x.(*syntax.Paren)
		if !ok {
			return x
		}
		x = p.X
	}
}

// assignOp is += and its like.
func (c *Checker) assignOp(x *syntax.Assign) val {
	pos, op := c.pos(x), x.Op
	name := opText[op] + "="
	l := c.rvalue(c.target(x.X))
	r := c.read(x.Y)
	lt, rt := l.typ(), r.typ()
	bothInt := l.x != nil && r.x != nil && types.IsInteger(lt) && types.IsInteger(rt)
	switch op {
	case syntax.Mul, syntax.Div:
		if !bothInt {
			fail(pos, "D_OP_ARITH", "operator %s requires operands of arithmetic type", name)
		}
	case syntax.Add, syntax.Sub:
		if types.IsString(lt) || types.IsString(rt) {
			fail(pos, "D_OP_INCOMPAT", "operands have incompatible types: \"%s\" %s \"%s\"", l.typeName(), name, r.typeName())
		}
		if !bothInt {
			if l.x == nil || !types.IsPointer(lt) || isVFPtr(lt) {
				fail(pos, "D_OP_VFPTR", "operator %s requires left-hand scalar operand of known size", name)
			}
			if r.x == nil || !types.IsInteger(rt) {
				fail(pos, "D_OP_INCOMPAT", "operands have incompatible types: \"%s\" %s \"%s\"", l.typeName(), name, r.typeName())
			}
		}
	default:
		if !bothInt {
			fail(pos, "D_OP_INT", "operator %s requires operands of integral type", name)
		}
	}
	c.writable(pos, l, name)
	c.wrote(l)
	if (op == syntax.Div || op == syntax.Mod) && r.isZero() {
		fail(pos, "D_DIV_ZERO", "expression contains division by zero")
	}
	a := &Assign{E: E{lt, pos}, Op: op, LHS: l.x}
	switch {
	case types.IsPointer(lt):
		a.OpType = lt
		a.RHS = scale(conv(r.x, types.TLong), types.ElemSize(lt))
	case op == syntax.Shl || op == syntax.Shr:
		a.OpType = types.Promote(lt)
		a.RHS = r.x
	default:
		a.OpType = types.UsualArith(lt, rt)
		a.RHS = conv(r.x, a.OpType)
	}
	return value(a)
}

// scale multiplies an index by the size of an element.
func scale(x Expr, size int64) Expr {
	if size == 1 {
		return x
	}
	if k, ok := x.(*Const); ok {
		return &Const{k.E, k.Value * size}
	}
	return &Binary{E{types.TLong, x.Pos()}, syntax.Mul, x, &Const{E{types.TLong, x.Pos()}, size}}
}

func (c *Checker) binary(x *syntax.Binary) val {
	pos, op := c.endOf(x, x.Y), x.Op
	name := opText[op]
	if op == syntax.Comma {
		a, b := c.expr(x.X), c.expr(x.Y)
		if a.call != nil && a.call.id.kind == idActFunc || b.call != nil && b.call.id.kind == idActFunc {
			fail(pos, "D_OP_ACT", "operator %s operands cannot be actions", name)
		}
		a, b = c.rvalue(a), c.rvalue(b)
		c.noAction(a)
		c.noAction(b)
		if a.x == nil || b.x == nil {
			fail(pos, "D_OP_DYN", "operator %s operands cannot be of dynamic type", name)
		}
		return value(&Comma{E{b.typ(), pos}, a.x, b.x})
	}
	l := c.read(x.X)
	if isComparison(op) {
		return c.compare(pos, op, l, c.comparand(op, l, x.Y))
	}
	r := c.read(x.Y)
	lt, rt := l.typ(), r.typ()
	bothInt := l.x != nil && r.x != nil && types.IsInteger(lt) && types.IsInteger(rt)
	switch op {
	case syntax.Add, syntax.Sub:
		return c.addSub(pos, op, l, r)
	case syntax.And, syntax.Or, syntax.Xor, syntax.Mod, syntax.Shl, syntax.Shr:
		if !bothInt {
			fail(pos, "D_OP_INT", "operator %s requires operands of integral type", name)
		}
	case syntax.Mul, syntax.Div:
		if !bothInt {
			fail(pos, "D_OP_ARITH", "operator %s requires operands of arithmetic type", name)
		}
	case syntax.LAnd, syntax.LOr, syntax.LXor:
		if l.x == nil || r.x == nil || !types.IsScalar(lt) || !types.IsScalar(rt) {
			fail(pos, "D_OP_SCALAR", "operator %s requires operands of scalar type", name)
		}
		a, aok := l.constant()
		b, bok := r.constant()
		if aok && bok {
			p, q := a.Value != 0, b.Value != 0
			return mkConst(pos, truth(op == syntax.LAnd && p && q || op == syntax.LOr && (p || q) || op == syntax.LXor && p != q), types.TInt)
		}
		return value(&Logical{E{types.TInt, pos}, op, l.x, r.x})
	}
	if (op == syntax.Div || op == syntax.Mod) && r.isZero() {
		fail(pos, "D_DIV_ZERO", "expression contains division by zero")
	}
	if op == syntax.Shl || op == syntax.Shr {
		t := types.Promote(lt)
		return value(fold(&Binary{E{t, pos}, op, conv(l.x, t), r.x}))
	}
	t := types.UsualArith(lt, rt)
	return value(fold(&Binary{E{t, pos}, op, conv(l.x, t), conv(r.x, t)}))
}

func isComparison(op syntax.Token) bool {
	switch op {
	case syntax.Eq, syntax.Ne, syntax.Lt, syntax.Le, syntax.Gt, syntax.Ge:
		return true
	}
	return false
}

// comparand types the right side of a comparison, where a name may be a
// constant of the enum on the left.
func (c *Checker) comparand(op syntax.Token, l val, src syntax.Expr) val {
	if n, ok := src.(*syntax.Name); ok && l.x != nil && !n.Scoped && n.Class == syntax.Global && types.IsEnum(l.typ()) {
		e := types.Underlying(l.typ()).(*types.Enum)
		if k, found := e.Const(n.Name); found {
			if s := c.globals[n.Name]; s != nil && s.enum == nil || identTable()[n.Name] != nil {
				kind := kindScalar
				if s != nil {
					kind = s.kind()
				}
				fail(c.pos(n), "D_IDENT_AMBIG", "ambiguous use of operator %s: %s is both a %s enum tag and a global %s", opText[op], n.Name, l.typeName(), kind)
			}
			return value(&Const{E{l.typ(), c.pos(n)}, k})
		}
	}
	return c.read(src)
}

func (c *Checker) compare(pos syntax.Pos, op syntax.Token, l, r val) val {
	if l.x == nil || r.x == nil {
		incompat(pos, l, op, r)
	}
	lt, rt := l.typ(), r.typ()
	switch {
	case types.IsInteger(lt) && types.IsInteger(rt):
		t := types.UsualArith(lt, rt)
		return value(fold(&Binary{E{types.TInt, pos}, op, conv(l.x, t), conv(r.x, t)}))
	case types.IsStrCompat(lt) && types.IsStrCompat(rt) && (types.IsString(lt) || types.IsString(rt)):
		return value(&Binary{E{types.TInt, pos}, op, toString(l.x), toString(r.x)})
	}
	// Subroutines give NULL where there is no string: an address compares with one.
	if types.IsString(lt) && (r.isZero() || types.IsPointer(rt)) {
		l, lt = value(conv(l.x, types.TCharPtr)), types.TCharPtr
	} else if types.IsString(rt) && (l.isZero() || types.IsPointer(lt)) {
		r, rt = value(conv(r.x, types.TCharPtr)), types.TCharPtr
	}
	if types.IsUser(lt) != types.IsUser(rt) && types.IsPointer(lt) && types.IsPointer(rt) {
		rt = types.NewPointer(types.Elem(rt)) // addresses of either space are numbers
		lt = types.NewPointer(types.Elem(lt))
	}
	t, ok := types.PtrCompat(lt, l.isZero(), rt, r.isZero())
	if !ok {
		incompat(pos, l, op, r)
	}
	t = types.Decay(t)
	return value(&Binary{E{types.TInt, pos}, op, conv(decay(l.x), t), conv(decay(r.x), t)})
}

// addSub is + and -, also on pointers and strings.
func (c *Checker) addSub(pos syntax.Pos, op syntax.Token, l, r val) val {
	lt, rt := l.typ(), r.typ()
	isPtr := func(v val) bool {
		return v.x != nil && (types.IsString(v.typ()) || types.IsPointerLike(v.typ()) && !isVFPtr(v.typ()))
	}
	isInt := func(v val) bool { return v.x != nil && types.IsInteger(v.typ()) }
	switch {
	case isInt(l) && isInt(r):
		t := types.UsualArith(lt, rt)
		return value(fold(&Binary{E{t, pos}, op, conv(l.x, t), conv(r.x, t)}))
	case isPtr(l) && isInt(r):
		return c.offset(pos, op, l, r)
	case isInt(l) && isPtr(r) && op == syntax.Add:
		return c.offset(pos, op, r, l)
	case isPtr(l) && isPtr(r) && op == syntax.Sub && !types.IsString(lt) && !types.IsString(rt):
		if _, ok := types.PtrCompat(lt, false, rt, false); ok {
			d := &Binary{E{types.TLong, pos}, syntax.Sub, conv(decay(l.x), types.TLong), conv(decay(r.x), types.TLong)}
			size := types.ElemSize(lt)
			if size == 0 {
				fail(pos, "D_OP_INCOMPLETE", "operator - cannot be applied to a forward declaration: no %s definition is available", types.Elem(lt))
			}
			d.T = types.TPtrdiff
			if size == 1 {
				return value(d)
			}
			return value(&Binary{E{types.TPtrdiff, pos}, syntax.Div, d, &Const{E{types.TLong, pos}, size}})
		}
	}
	incompat(pos, l, op, r)
	panic("unreachable")
}

// offset is p + i or p - i.
func (c *Checker) offset(pos syntax.Pos, op syntax.Token, p, i val) val {
	t := p.typ()
	declared := t
	if p.arr != nil {
		declared = p.arr
	}
	if a, ok := types.Underlying(declared).(*types.Array); ok && a.N > 0 && op == syntax.Add {
		if k, isConst := i.constant(); isConst && uint64(k.Value) >= uint64(a.N) {
			fail(pos, "D_ARR_BOUNDS", "index outside array bounds: %d, max is %d", k.Value, a.N)
		}
	}
	index := conv(i.x, types.TLong)
	if a, ok := types.Underlying(declared).(*types.Array); ok && a.N > 0 && op == syntax.Add && inVariable(p.x) {
		if _, isConst := i.constant(); !isConst {
			index = &Index{E{types.TLong, pos}, index, a.N}
		}
	}
	base := decay(p.x)
	size := int64(1)
	if types.IsString(t) {
		pt := types.Type(types.TCharPtr)
		if userMem(p.x) {
			pt = &types.Pointer{Elem: types.TChar, User: true}
		}
		base = conv(p.x, pt)
	} else {
		if e := c.complete(types.Elem(t)); e != nil && !types.IsVoid(e) && !types.IsFunc(e) {
			size = e.Size()
		}
		if size == 0 {
			hint := ""
			if types.IsString(types.Elem(t)) {
				hint = "arrays of strings are associative: string name[int]"
			}
			failHint(pos, hint, "D_OP_INCOMPLETE", "operator %s cannot be applied to a forward declaration: no %s definition is available", opText[op], types.Elem(t))
		}
	}
	n := scale(index, size)
	var x Expr
	if k, ok := n.(*Const); ok && k.Value == 0 {
		x = base
	} else {
		if ok && op == syntax.Sub {
			n, op = &Const{k.E, -k.Value}, syntax.Add
		}
		x = &Binary{E{base.Type(), pos}, op, base, n}
	}
	if types.IsString(t) {
		x = &Conv{E{types.TString, pos}, x}
	}
	v := value(x)
	v.alloca, v.mixed = p.alloca || p.within && types.IsArray(t), p.mixed
	if p.write && (types.IsArray(t) || types.IsPointer(t)) {
		v.inc = t
		v.write = true
	}
	return v
}

// inVariable reports whether an array lies in a variable of the program.
func inVariable(x Expr) bool {
	for {
		switch e := x.(type) {
		case *VarRef:
			return !types.IsPointer(e.T)
		case *Mem:
			x = e.Addr
		case *AddrOf:
			x = e.X
		case *Conv:
			x = e.X
		case *Binary:
			x = e.X
		default:
			return false
		}
	}
}

// fold computes an operation on constants.
func fold(b *Binary) Expr {
	x, xok := b.X.(*Const)
	y, yok := b.Y.(*Const)
	if !xok || !yok {
		return b
	}
	signed := types.IsSigned(x.T)
	l, r := x.Value, y.Value
	less := func(l, r int64) bool {
		if signed {
			return l < r
		}
		return uint64(l) < uint64(r)
	}
	var n int64
	switch b.Op {
	case syntax.Add:
		n = l + r
	case syntax.Sub:
		n = l - r
	case syntax.Mul:
		n = l * r
	case syntax.Div:
		switch {
		case !signed:
			n = int64(uint64(l) / uint64(r))
		case l == math.MinInt64 && r == -1:
			n = l
		default:
			n = l / r
		}
	case syntax.Mod:
		switch {
		case !signed:
			n = int64(uint64(l) % uint64(r))
		case r == -1:
			n = 0
		default:
			n = l % r
		}
	case syntax.And:
		n = l & r
	case syntax.Or:
		n = l | r
	case syntax.Xor:
		n = l ^ r
	case syntax.Shl:
		n = l << (uint64(r) & 63)
		if b.T.Size() < 8 && r >= 32 && r < 64 {
			// C leaves the value undefined. Scripts write (1 << 63) - 1 for the
			// largest number, and libdtrace, which computes constants in 64
			// bits, gives it to them.
			return &Const{E{types.TLong, b.P}, n}
		}
	case syntax.Shr:
		if signed {
			n = l >> (uint64(r) & 63)
		} else {
			n = int64(uint64(l) >> (uint64(r) & 63))
		}
	case syntax.Eq:
		n = truth(l == r)
	case syntax.Ne:
		n = truth(l != r)
	case syntax.Lt:
		n = truth(less(l, r))
	case syntax.Le:
		n = truth(!less(r, l))
	case syntax.Gt:
		n = truth(less(r, l))
	case syntax.Ge:
		n = truth(!less(l, r))
	default:
		return b
	}
	return &Const{b.E, types.Convert(n, b.T)}
}

// condition is the first operand of ?:.
func (c *Checker) condition(x *syntax.Cond) val {
	q := c.read(x.C)
	if q.x == nil || !types.IsScalar(q.typ()) {
		fail(c.pos(x), "D_OP_SCALAR", "operator ?: expression must be of scalar type")
	}
	return q
}

// chosen is the operand that a statement ?: of constant condition comes to, nil
// if the condition is none. As in DTrace the operand stands for the whole,
// be it an action, and the other is not looked at.
func (c *Checker) chosen(x *syntax.Cond) syntax.Expr {
	k, ok := c.condition(x).constant()
	switch {
	case !ok:
		return nil
	case k.Value != 0:
		return unparen(x.X)
	}
	return unparen(x.Y)
}

// cond is ?:.
func (c *Checker) cond(x *syntax.Cond) val {
	pos := c.pos(x)
	q := c.condition(x)
	l, r := c.expr(x.X), c.expr(x.Y)
	if l.call != nil && l.call.id.kind == idActFunc || r.call != nil && r.call.id.kind == idActFunc {
		fail(pos, "D_OP_ACT", "action cannot be used in a conditional context")
	}
	l, r = c.rvalue(l), c.rvalue(r)
	c.noAction(l)
	c.noAction(r)
	if l.x == nil || r.x == nil || types.IsDynamic(l.typ()) || types.IsDynamic(r.typ()) {
		fail(pos, "D_OP_DYN", "operator ?: operands cannot be of dynamic type")
	}
	lt, rt := l.typ(), r.typ()
	var t types.Type
	switch {
	case types.IsInteger(lt) && types.IsInteger(rt):
		t = lt
		if !types.Identical(lt, rt) {
			t = types.UsualArith(lt, rt)
		}
	case types.IsStrCompat(lt) && types.IsStrCompat(rt) && (types.IsString(lt) || types.IsString(rt)):
		t = types.TString
	case types.IsVoid(lt) && types.IsVoid(rt):
		t = types.TVoid
	case types.IsStructOrUnion(lt) && types.Compatible(lt, rt):
		t = lt
	default:
		p, ok := types.PtrCompat(lt, l.isZero(), rt, r.isZero())
		if !ok {
			fail(pos, "D_OP_INCOMPAT", "operator ?: operands must have compatible types")
		}
		t = types.Decay(p)
	}
	if k, ok := q.constant(); ok {
		if k.Value == 0 {
			l = r
		}
		return value(c.coerce(l, t))
	}
	v := value(&CondExpr{E{t, pos}, q.x, c.coerce(l, t), c.coerce(r, t)})
	v.alloca = l.alloca
	v.mixed = l.mixed || r.mixed || l.alloca != r.alloca && !l.isZero() && !r.isZero()
	return v
}

// cast is (type)x.
func (c *Checker) cast(x *syntax.Cast) val {
	pos := c.pos(x)
	t := types.Widen(c.typeOf(x.Type))
	v := c.expr(x.X)
	if types.IsVoid(t) {
		v = c.rvalue(v)
		c.noAction(v)
		if v.x == nil {
			fail(pos, "D_CAST_INVAL", "invalid cast expression: \"%s\" to \"%s\"", v.typeName(), typeName(t))
		}
		return value(&Conv{E{t, pos}, v.x})
	}
	v = c.rvalue(v)
	if v.xl != nil && v.xl.ptr && types.IsInteger(t) {
		v = value(c.xlatePointer(v))
	}
	bad := func() {
		fail(pos, "D_CAST_INVAL", "invalid cast expression: \"%s\" to \"%s\"", v.typeName(), typeName(t))
	}
	if v.x == nil {
		bad()
	}
	from := v.typ()
	switch {
	case types.IsString(t):
		if !types.IsScalar(from) && !types.IsPointerLike(from) && !types.IsStrCompat(from) {
			bad()
		}
		return value(&Conv{E{types.TString, pos}, toString(v.x)})
	case types.IsScalar(t) && (types.IsScalar(from) || types.IsFunc(from)):
	case types.IsPointer(t) && (types.IsPointerLike(from) || types.IsString(from)):
	case types.IsStructOrUnion(t) && types.Compatible(t, from):
		return value(v.x)
	default:
		bad()
	}
	if k, ok := v.constant(); ok && types.IsInteger(t) {
		return value(&Const{E{t, pos}, types.Convert(k.Value, t)})
	}
	if types.IsPointer(t) && !types.IsPointerLike(from) && ofProgram(types.Elem(t)) {
		t = userPointer(t)
	}
	// A pointer made of a pointer stays in its address space unless userland says otherwise.
	if types.IsPointerLike(from) && types.IsPointer(t) && !types.IsUser(t) && (types.IsUser(from) || userMem(v.x) && !types.IsPointer(from)) {
		t = userPointer(t)
	}
	w := value(&Conv{E{t, pos}, decay(v.x)})
	w.alloca, w.mixed = v.alloca, v.mixed
	w.write = v.write && types.IsPointer(t)
	return w
}

func (c *Checker) stringof(x *syntax.Stringof) val {
	v := c.read(x.X)
	if v.x != nil && isGoBytes(v.x.Type()) {
		v = c.goString(v)
	}
	if v.x == nil || !types.IsScalar(v.typ()) && !types.IsPointerLike(v.typ()) && !types.IsStrCompat(v.typ()) {
		fail(c.pos(x), "D_STRINGOF_TYPE", "cannot apply stringof to a value of type %s", v.typeName())
	}
	return value(toString(v.x))
}

func (c *Checker) sizeof(x *syntax.Sizeof) val {
	pos := c.pos(x)
	size := func(t types.Type) val {
		t = c.withComplete(t)
		n := t.Size()
		if types.IsString(t) && n == 0 {
			n = c.intOption("strsize")
		}
		if n == 0 {
			fail(pos, "D_SIZEOF_TYPE", "cannot apply sizeof to an operand of unknown size")
		}
		return mkConst(pos, n, types.TSize)
	}
	if x.Type != nil {
		return size(c.typeOf(x.Type))
	}
	attr := c.attr
	v := c.expr(x.X)
	c.attr = attr
	if v.str != nil {
		return mkConst(pos, int64(len(*v.str)+1), types.TSize)
	}
	if v.xl != nil {
		if v.xl.ptr {
			return mkConst(pos, 8, types.TSize)
		}
		return size(v.xl.tr.dst)
	}
	v = c.rvalue(v)
	if m, ok := v.x.(*Mem); ok && m.Bits > 0 {
		fail(pos, "D_SIZEOF_BITFIELD", "cannot apply sizeof to a bit-field")
	}
	return size(v.typ())
}

func (c *Checker) offsetof(x *syntax.Offsetof) val {
	t := c.withComplete(c.typeOf(x.Type))
	if !types.IsStructOrUnion(t) || incomplete(t) {
		fail(c.pos(x), "D_OFFSETOF_TYPE", "offsetof operand must be a struct or union type")
	}
	off, f, ok := types.FindMember(t, x.Member)
	if !ok {
		failHint(c.pos(x), memberHint(t, x.Member), "D_UNKNOWN", "failed to determine offset of %s: Member name not found", x.Member)
	}
	if f.Bits > 0 {
		fail(c.pos(x), "D_OFFSETOF_BITFIELD", "cannot take offset of a bit-field: %s", x.Member)
	}
	return mkConst(c.pos(x), off/8, types.TSize)
}

func memberHint(t types.Type, name string) string {
	var names []string
	var walk func(t types.Type, depth int)
	walk = func(t types.Type, depth int) {
		s, ok := types.Underlying(t).(*types.Struct)
		if !ok || depth > 8 {
			return
		}
		for _, f := range s.Members() {
			if f.Name == "" {
				walk(f.Type, depth+1)
			} else {
				names = append(names, f.Name)
			}
		}
	}
	walk(t, 0)
	if n := nearest(name, names); n != "" {
		return "did you mean " + n + "?"
	}
	return ""
}

// member is x.m and x->m.
func (c *Checker) member(x *syntax.Member) val {
	pos := c.pos(x)
	op := "."
	if x.Arrow {
		op = "->"
	}
	v := c.expr(x.X)
	if y := c.actionValue(v); y != nil {
		v = value(y)
	}
	if v.x == nil || !isGo(v.x.Type()) { // of a Go string, the members
		v = c.rvalue(v)
	}
	if v.xl != nil {
		return c.xlateMember(pos, op, v.xl, x.Name)
	}
	if types.IsStack(v.typ()) && !x.Arrow {
		return c.stackMember(pos, v, x.Name)
	}
	if v.x == nil {
		if x.Arrow {
			fail(pos, "D_OP_PTR", "operator %s must be applied to a pointer", op)
		}
		fail(pos, "D_OP_SOU", "operator %s cannot be applied to type \"%s\"; must be applied to a struct or union", op, v.typeName())
	}
	t := v.typ()
	arrow := x.Arrow
	switch { // in Go programs one stands for the other
	case arrow && isGo(t):
		arrow = false
	case !arrow && types.IsPointer(t) && isGo(types.Elem(t)):
		arrow = true
	}
	if arrow {
		if !types.IsPointer(t) {
			fail(pos, "D_OP_PTR", "operator %s must be applied to a pointer", op)
		}
		t = types.Elem(t)
	}
	t = c.withComplete(t)
	if incomplete(t) {
		fail(pos, "D_OP_INCOMPLETE", "operator %s cannot be applied to a forward declaration: no %s definition is available", op, types.Underlying(t))
	}
	if !types.IsStructOrUnion(t) {
		if x.Arrow {
			fail(pos, "D_OP_SOU", "operator -> cannot be applied to pointer to type \"%s\"; must be applied to a struct or union pointer", t)
		}
		fail(pos, "D_OP_SOU", "operator %s cannot be applied to type \"%s\"; must be applied to a struct or union", op, t)
	}
	bits, f, ok := types.FindMember(t, goMember(t, x.Name))
	if !ok {
		failHint(pos, memberHint(t, x.Name), "D_TYPE_MEMBER", "%s is not a member of %s", x.Name, types.Underlying(t))
	}
	var m val
	if arrow {
		m = c.mem(pos, c.intoProgram(v.x), bits/8, f.Type, v.write)
		m.within = v.alloca
	} else {
		addr, off, user := c.objectAddr(v)
		m = c.mem(pos, addr, off+bits/8, f.Type, v.write)
		if user {
			mm := m.x.(*Mem)
			mm.User = true
			mm.T = userPointer(mm.T)
		}
		m.lval = m.lval && v.lval
		m.within = v.within
	}
	if f.Bits > 0 {
		mm := m.x.(*Mem)
		mm.Bits, mm.BitOff = f.Bits, bits%8
		// Keep the bits within one aligned unit of the declared type.
		if unit := f.Type.Size() * 8; unit > 0 && bits/unit == (bits+f.Bits-1)/unit {
			mm.Off += bits/unit*unit/8 - bits/8
			mm.BitOff = bits % unit
		}
	}
	return m
}

// stackMember is a member of the value of a stack: how many frames it has,
// their addresses, whether they are a process's, and which.
func (c *Checker) stackMember(pos syntax.Pos, v val, name string) val {
	user := types.IsUStack(v.typ())
	base := &Conv{E{types.TVoidPtr, pos}, v.x}
	switch name {
	case "is_user":
		return mkConst(pos, truth(user), types.TInt)
	case "pid": // 0 in a kernel's
		return c.mem(pos, base, types.StackPID, types.TUint32, v.write)
	case "depth":
		m := c.mem(pos, base, types.StackDepth, types.TUint32, v.write)
		m.lval = v.lval
		return m
	case "addrs":
		option := "stackframes"
		if user {
			option = "ustackframes"
		}
		return c.mem(pos, base, types.StackFrames, &types.Array{Elem: types.TUint64, N: c.intOption(option)}, v.write)
	}
	failHint(pos, "it has depth, addrs[], is_user and pid", "D_TYPE_MEMBER", "%s is not a member of %s", name, v.typ())
	panic("unreachable")
}

// objectAddr is the address of a struct value, and whether it lies in the
// traced process.
func (c *Checker) objectAddr(v val) (addr Expr, off int64, user bool) {
	if m, ok := v.x.(*Mem); ok {
		return m.Addr, m.Off, m.User
	}
	if user := userMem(v.x); user {
		return &AddrOf{E{&types.Pointer{Elem: v.typ(), User: true}, v.pos}, v.x}, 0, true
	}
	return &AddrOf{E{types.NewPointer(v.typ()), v.pos}, v.x}, 0, false
}

// index is x[args]: an element of an associative array, args[], registers, an
// inline with parameters, or of a plain array.
func (c *Checker) index(x *syntax.Index) val {
	pos := c.pos(x)
	if a, ok := unparen(x.X).(*syntax.Agg); ok {
		name := a.Name
		if name == "" {
			name = "_"
		}
		fail(pos, "D_AGG_MDIM", "improper attempt to reference @%s as a multi-dimensional array", name)
	}
	var base val
	if n, ok := unparen(x.X).(*syntax.Name); ok && !n.Scoped {
		if v, done := c.indexName(x, n); done {
			return v
		}
	}
	base = c.expr(x.X)
	if base.sym != nil {
		return c.element(pos, base.sym, x.Args)
	}
	base = c.rvalue(base)
	if len(x.Args) > 1 {
		fail(pos, "D_ARR_BADREF", "cannot access %s as an associative array", c.nodeName(x.X))
	}
	i := c.read(x.Args[0])
	return c.deref(pos, c.addSub(pos, syntax.Add, base, i))
}

// nodeName is how messages call an expression.
func (c *Checker) nodeName(x syntax.Expr) string {
	switch x := unparen(x).(type) {
	case *syntax.Name:
		return kindScalar + " " + x.Name
	case *syntax.StringLit:
		return "string constant \"" + x.Value + "\""
	case *syntax.IntLit:
		return fmt.Sprintf("integer constant %#x", x.Value)
	}
	return "expression"
}

// indexName handles names that have an index of their own meaning.
func (c *Checker) indexName(x *syntax.Index, n *syntax.Name) (val, bool) {
	pos := c.pos(x)
	if n.Class == syntax.Global {
		if c.bound(n.Name) != nil {
			return val{}, false
		}
		s := c.lookupGlobal(n.Name)
		if s == nil {
			id := c.builtin(c.pos(n), n.Name)
			switch {
			case id == nil:
				s = c.newVar(c.pos(n), syntax.Global, n.Name)
				s.array = true
				return c.element(pos, s, x.Args), true
			case id.kind == idArgs:
				return c.argsElement(pos, id, x.Args), true
			case id.kind == idRegs:
				return c.regsElement(pos, id, x.Args), true
			case id.kind != idScalar:
				fail(c.pos(n), "D_IDENT_BADREF", "%s '%s' may not be referenced as %s", id.kindName(), n.Name, kindArray)
			}
			return val{}, false
		}
		if s.inline != nil && s.inline.params != nil {
			c.useAttr(pos, s.kind()+" "+n.Name, s.attr)
			return c.expandArray(pos, s.inline, x.Args), true
		}
		if s.v == nil {
			return val{}, false
		}
		if s.array || s.unref(c.genNow()) {
			s.array = true
			return c.element(pos, s, x.Args), true
		}
		return val{}, false
	}
	s := c.ensure(c.pos(n), n.Class, n.Name)
	if s.array || s.unref(c.genNow()) {
		if n.Class == syntax.This {
			fail(pos, "D_ARR_LOCAL", "local variables may not be used as associative arrays: %s", n.Name)
		}
		s.array = true
		return c.element(pos, s, x.Args), true
	}
	return val{}, false
}

// maxKeys is how many parts the index of an associative array may have: DTrace's
// number of tuple registers, DIF_DTR_NREGS.
const maxKeys = 8

// element is one element of an associative array. The first use fixes the
// types of the key.
func (c *Checker) element(pos syntax.Pos, s *symbol, args []syntax.Expr) val {
	if !s.array {
		fail(pos, "D_IDENT_BADREF", "%s '%s' may not be referenced as %s", s.kind(), s.v.Name, kindArray)
	}
	vals := c.readAll(args)
	if len(vals) > maxKeys {
		e := syntax.Errorf(syntax.Pos{}, "", "Insufficient tuple registers to generate code")
		e.Hint = fmt.Sprintf("the index of %s has %d parts; there may be %d", s.v.Name, len(vals), maxKeys)
		panic(e)
	}
	if !s.signed {
		var keys []types.Type
		for i, v := range vals {
			c.keyVal(v, i, kindArray)
			keys = append(keys, keyType(v.typ()))
		}
		s.v.Keys, s.signed = keys, true
	} else {
		c.checkKeys(pos, s.v.Name, "", vals, s.v.Keys)
	}
	keys := make([]Expr, len(vals))
	for i, v := range vals {
		c.keyVal(v, i, kindArray)
		keys[i] = c.coerce(v, s.v.Keys[i])
	}
	if types.IsDynamic(s.v.Type) {
		return val{pos: pos, sym: s, keys: keys, lval: true, write: true}
	}
	s.ref = true
	return val{pos: pos, x: &VarRef{E{s.v.Type, pos}, s.v, keys}, lval: true, write: true, alloca: s.alloca}
}

// keyType is the type of a key made of a value of type t.
func keyType(t types.Type) types.Type {
	if types.IsString(t) {
		return types.TString
	}
	return types.Unqualify(t)
}

// keyVal insists that a value can be part of a key.
func (c *Checker) keyVal(v val, i int, kind string) {
	if v.x == nil || types.IsDynamic(v.typ()) || types.IsVoid(v.typ()) {
		name := v.typeName()
		fail(v.pos, "D_KEY_TYPE", "%s expression may not be used as %s index: key #%d", name, kind, i+1)
	}
	c.checkKey(v.pos, v.typ(), i, kind)
}

func (c *Checker) checkKey(pos syntax.Pos, t types.Type, i int, kind string) {
	if types.IsDynamic(t) || types.IsVoid(t) || types.IsFloat(t) || types.IsFunc(t) {
		fail(pos, "D_KEY_TYPE", "%s expression may not be used as %s index: key #%d", typeName(t), kind, i+1)
	}
}

// checkKeys compares a key with the signature of an array or aggregation.
func (c *Checker) checkKeys(pos syntax.Pos, name, prefix string, vals []val, keys []types.Type) {
	if len(vals) != len(keys) {
		plural := "s "
		if len(vals) == 1 {
			plural = " "
		}
		fail(pos, "D_PROTO_LEN", "%s%s[ ] prototype mismatch: %d key%spassed, %d expected", prefix, name, len(vals), plural, len(keys))
	}
	for i, v := range vals {
		if !argCompat(v, keys[i]) {
			fail(pos, "D_PROTO_ARG", "%s%s[ ] key #%d is incompatible with prototype:\n\tprototype: %s\n\t%9s: %s", prefix, name, i+1, typeName(keys[i]), "key", v.typeName())
		}
	}
}

func (c *Checker) readAll(args []syntax.Expr) []val {
	out := make([]val, len(args))
	for i, a := range args {
		out[i] = c.read(a)
	}
	return out
}

// numRegs is the number of words of struct pt_regs; the registers after them
// lie in the thread.
const numRegs = 21

var threadRegs = [...]string{"ds", "es", "fsbase", "gsbase", "trap_nr"}

// regsElement is uregs[n].
func (c *Checker) regsElement(pos syntax.Pos, id *ident, args []syntax.Expr) val {
	c.useAttr(pos, id.kindName()+" "+id.name, id.attr)
	v := c.oneIndex(pos, id, args)
	if k, ok := v.constant(); ok && k.Value < 0 {
		fail(pos, "D_REGS_IDX", "index %d is out of range for array %s", k.Value, id.name)
	}
	b := &Builtin{E: E{types.TUint64, pos}, ID: dif.BuiltinID(id.id), Name: id.name}
	if k, ok := v.constant(); ok {
		b.N = int(k.Value)
		if k.Value >= numRegs+int64(len(threadRegs)) {
			fail(pos, "D_UNKNOWN", "%s[]: index out of bounds (%d)", id.name, k.Value)
		}
		if k.Value >= numRegs {
			return value(conv(c.threadReg(pos, threadRegs[k.Value-numRegs]), types.TUint64))
		}
	} else {
		b.Index = conv(v.x, types.TLong)
	}
	return value(b)
}

// threadReg is a member of the current task's thread_struct; 0 where the kernel
// has none of that name.
func (c *Checker) threadReg(pos syntax.Pos, name string) Expr {
	task := c.builtinValue(pos, identTable()["curthread"])
	off, f, ok := types.FindMember(c.withComplete(types.Elem(task.typ())), "thread")
	if ok {
		var in types.Field
		var inner int64
		if inner, in, ok = types.FindMember(f.Type, name); ok {
			return c.mem(pos, task.x, (off+inner)/8, in.Type, false).x
		}
	}
	return &Const{E{types.TUint64, pos}, 0}
}

// oneIndex types the single index of a built-in array: an integer constant.
func (c *Checker) oneIndex(pos syntax.Pos, id *ident, args []syntax.Expr) val {
	if len(args) != 1 {
		plural := "s "
		if len(args) == 1 {
			plural = " "
		}
		fail(pos, "D_PROTO_LEN", "%s[ ] prototype mismatch: %d arg%spassed, 1 expected", id.name, len(args), plural)
	}
	v := c.read(args[0])
	if _, ok := v.constant(); !ok {
		fail(pos, "D_PROTO_ARG", "%s[ ] argument #1 is incompatible with prototype:\n\tprototype: %s\n\t argument: %s", id.name, "integer constant", v.typeName())
	}
	return v
}

// endOf is the place of x, on the line where last, its last part, ends: the line
// at which DTrace's parser has all of it.
func (c *Checker) endOf(x, last syntax.Node) syntax.Pos {
	pos := c.pos(x)
	if c.site == nil {
		pos.Line = max(pos.Line, lastLine(last))
	}
	return pos
}

func lastLine(n syntax.Node) int {
	line := 0
	syntax.Inspect(n, func(n syntax.Node) bool {
		if n != nil {
			line = max(line, n.Pos().Line)
		}
		return true
	})
	return line
}
