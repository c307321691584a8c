package syntax

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limits that keep every later walk of the tree within the stack.
const (
	maxNesting = 1000  // of brackets, operators and statements
	maxHeight  = 10000 // of an expression tree: a+a+a… is as high as it is long
)

// Spec says what the rightmost part of a probe description is.
type Spec uint8

const (
	SpecName     Spec = iota // scripts and -n
	SpecFunc                 // -f
	SpecMod                  // -m
	SpecProvider             // -P
	SpecID                   // -i: a probe's number
	SpecNone                 // no description is allowed
)

var specPlural = [...]string{SpecFunc: "functions", SpecMod: "modules", SpecProvider: "providers"}

// Options of a parse. The zero value parses a program given as text.
type Options struct {
	Spec Spec
	// Script: the text is a file, where a description needs a predicate or a body.
	Script bool
	// AllowEmpty permits a program without declarations (option empty, D libraries).
	AllowEmpty bool
	// PSpec reads every word at the outermost level as a description where
	// both are possible (option pspec).
	PSpec bool
	// IsType says whether a name is a type beyond D's own and those the text
	// itself declares. It should say no for names of D variables. May be nil.
	IsType func(name string) bool
	// Macros gives the values of macro variables: "target", "pid", "1". Needed
	// only where they stand in a probe description or for a member, tag or
	// function name; elsewhere they become Macro nodes. May be nil.
	Macros func(name string) (value string, ok bool)
}

// Parse reads a D program. The error is an *Error, the first one found.
func Parse(name string, src []byte, opts Options) (f *File, err error) {
	p := newParser(name, string(src), opts)
	defer p.catch(&err)
	return p.file(name), nil
}

// ParseExpr reads one expression.
func ParseExpr(src string, opts Options) (x Expr, err error) {
	p := newParser("", src, opts)
	defer p.catch(&err)
	p.next()
	x = p.expr()
	p.want(EOF)
	return x, nil
}

// ParseType reads a type name such as "const struct task_struct *". A single
// unknown word is taken for a typedef name.
func ParseType(src string, opts Options) (t *TypeName, err error) {
	p := newParser("", src, opts)
	defer p.catch(&err)
	p.next()
	t = p.typeName()
	p.want(EOF)
	return t, nil
}

type parser struct {
	scanner
	opts   Options
	types  map[string]bool // typedefs of this text
	vars   map[string]bool // variables of this text; they hide types
	tags   map[string]bool // "struct s", "union u" defined in this text
	depth  int             // nesting of the construct being parsed
	height int             // of the expression parsed last
	leave  func()          // undoes deeper
}

func newParser(name, src string, opts Options) *parser {
	p := &parser{scanner: newScanner(name, src), opts: opts, types: map[string]bool{}, vars: map[string]bool{}, tags: map[string]bool{}}
	p.scanner.isType = p.typeKnown
	p.pspec = opts.PSpec
	p.leave = func() { p.depth-- }
	return p
}

// catch turns the panic of fail into err.
func (p *parser) catch(err *error) {
	if x := recover(); x != nil {
		e, ok := x.(*Error)
		if !ok {
			panic(x)
		}
		*err = e
	}
}

// intrinsic are the type names D itself defines.
var intrinsic = wordSet(`int8_t int16_t int32_t int64_t intptr_t uint8_t uint16_t uint32_t uint64_t
	uintptr_t uchar_t ushort_t uint_t ulong_t u_longlong_t longlong_t int64_t size_t ssize_t id_t pid_t
	uid_t gid_t zoneid_t taskid_t projid_t dev_t time_t _Bool _symaddr _usymaddr stack_t`)

func (p *parser) typeKnown(name string) bool {
	switch {
	case p.vars[name]:
		return false
	case p.types[name], intrinsic[name]:
		return true
	}
	return p.opts.IsType != nil && p.opts.IsType(name)
}

// fits fails unless the current token is t.
func (p *parser) fits(t Token) {
	if p.tok != t {
		panic(p.near())
	}
}

// want passes over the token t.
func (p *parser) want(t Token) {
	p.fits(t)
	if t != EOF {
		p.next()
	}
}

func (p *parser) got(t Token) bool {
	if p.tok == t {
		p.next()
		return true
	}
	return false
}

func (p *parser) isKey(word string) bool { return p.tok == Keyword && p.text == word }

func (p *parser) gotKey(word string) bool {
	if p.isKey(word) {
		p.next()
		return true
	}
	return false
}

// deeper counts a level of nesting; call the result when leaving it.
func (p *parser) deeper() func() {
	p.depth++
	if p.depth > maxNesting {
		e := Errorf(p.pos, "D_SYNTAX", "program is nested too deeply")
		e.Hint = "the limit is " + strconv.Itoa(maxNesting) + " levels"
		panic(e)
	}
	return p.leave
}

// grow records that the expression parsed last has a new root above h.
func (p *parser) grow(h int) {
	p.height = max(p.height, h) + 1
	if p.height > maxHeight {
		e := Errorf(p.pos, "D_SYNTAX", "expression is too long")
		e.Hint = "the limit is " + strconv.Itoa(maxHeight) + " operators in a row"
		panic(e)
	}
}

// outer passes over the last token of a declaration or clause, so that the
// next one is read as at the outermost level.
func (p *parser) outer(last Token) {
	p.fits(last)
	p.top = true
	p.next()
}

// file = { declaration } .
func (p *parser) file(name string) *File {
	f := &File{Name: name}
	p.top = true
	p.next()
	for p.tok != EOF {
		p.decl(f)
	}
	f.Pragmas = p.pragmas
	if len(f.Decls) == 0 && !p.opts.AllowEmpty {
		fail(p.pos, "D_EMPTY", "empty D program translation unit")
	}
	return f
}

func (p *parser) decl(f *File) {
	switch {
	case p.tok == Desc || p.tok == Int:
		f.Decls = append(f.Decls, p.clause())
		return
	case p.tok != Keyword && p.tok != Ident:
		panic(p.near())
	}
	p.top = false
	var d Decl
	switch {
	case p.isKey("inline") && !p.functionAhead():
		d = p.inline()
	case p.isKey("translator"):
		d = p.translator()
	case p.isKey("provider"):
		d = p.provider()
	default:
		d = p.declaration()
	}
	f.Decls = append(f.Decls, d)
}

// functionAhead says whether the "inline" at hand belongs to a function of a C
// header: a "(" comes before any "=" or ";".
func (p *parser) functionAhead() bool {
	if p.header == 0 {
		return false
	}
	for s := p.peek(); ; s.next() {
		switch s.tok {
		case LParen:
			return true
		case Assign_, Semi, LBrace, LBrack, EOF:
			return false
		}
	}
}

// clause: see Clause.
func (p *parser) clause() *Clause {
	c := &Clause{node: node{p.pos}}
	for {
		c.Descs = append(c.Descs, p.probeDesc())
		p.next()
		if p.tok != Comma {
			break
		}
		was := p.pspec
		p.pspec = true // no declaration comes after a comma
		p.next()
		p.pspec = was
		if p.tok == Keyword {
			p.tok = Desc
		}
	}
	c.End = p.pos
	p.top = false
	if p.tok == Div {
		p.pred = true
		p.next()
		c.Pred = p.expr()
		p.fits(EndPred)
		p.pred = false
		end := p.pos
		p.top = true // only a { fits; if none does, say so before reading a description amiss
		p.next()
		if p.tok != LBrace {
			fail(end, "D_SYNTAX", "expected actions { } following probe description and predicate")
		}
		p.top = false
	}
	if p.tok == LBrace {
		c.HasBody = true
		p.next()
		c.Body = p.stmtList()
		c.End = p.pos
		p.outer(RBrace)
		return c
	}
	if p.opts.Script {
		e := Errorf(c.pos, "D_SYNTAX", "expected predicate and/or actions following probe description")
		if p.tok != EOF && len(c.Descs) == 1 && c.Descs[0].Colons == 0 {
			e.Hint = "if this is a declaration, " + c.Descs[0].Text + " is not a known type"
		}
		panic(e)
	}
	if p.tok != EOF && p.tok != Desc && p.tok != Int && p.tok != Keyword && p.tok != Ident {
		panic(p.near())
	}
	p.top = true
	return c
}

// probeDesc makes a description of the current token and leaves it current.
func (p *parser) probeDesc() *ProbeDesc {
	d := &ProbeDesc{node: node{p.pos}, Text: p.text}
	inval := func(why string) {
		fail(p.pos, "D_PDESC_INVAL", "invalid probe description \"%s\": %s", p.text, why)
	}
	if p.tok == Int {
		if p.num > math.MaxUint32 {
			fail(p.pos, "D_PDESC_INVAL", "identifier %d exceeds maximum probe id", p.num)
		}
		switch p.opts.Spec {
		case SpecFunc, SpecMod, SpecProvider:
			fail(p.pos, "D_PDESC_INVAL", "probe identifier %d not permitted when specifying %s", p.num, specPlural[p.opts.Spec])
		}
		if p.num == 0 {
			fail(p.pos, "D_PDESC_INVAL", "invalid probe identifier 0: Unknown probe identifier")
		}
		d.ID = int64(p.num)
		return d
	}
	p.fits(Desc)
	last := 3 - int(p.opts.Spec) // index into parts of the rightmost one
	if p.opts.Spec == SpecID {
		last = 3 // what is no number is a name, as DTrace has it
	}
	words := strings.Split(p.text, ":")
	if len(words) == last+2 && words[0] == "" {
		words = words[1:] // a part too many, but empty
	}
	d.Colons = len(words) - 1
	if d.Colons > last {
		inval("Overspecified probe description")
	}
	var parts [4]string
	for i, w := range words {
		text, ok := p.expand(w)
		if !ok {
			inval("Undefined macro variable in probe description")
		}
		parts[last-d.Colons+i] = text
	}
	d.Provider, d.Module, d.Func, d.Name = parts[0], parts[1], parts[2], parts[3]
	return d
}

// expand replaces the macro variables in a part of a description. $ and $$
// mean the same there.
func (p *parser) expand(w string) (string, bool) {
	if strings.IndexByte(w, '$') < 0 {
		return w, true
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(w, "$")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		rest = strings.TrimPrefix(rest, "$")
		i := 0
		if i < len(rest) && isDigit(rest[i]) {
			for i < len(rest) && isDigit(rest[i]) {
				i++
			}
		} else {
			for i < len(rest) && (isLetter(rest[i]) || isDigit(rest[i])) {
				i++
			}
		}
		if i == 0 || p.opts.Macros == nil {
			return "", false
		}
		v, ok := p.opts.Macros(rest[:i])
		if !ok {
			return "", false
		}
		b.WriteString(v)
		w = rest[i:]
	}
}

// stmtList = { stmt } [ expr ] .
func (p *parser) stmtList() []Stmt {
	var list []Stmt
	for p.tok != RBrace && p.tok != EOF {
		list = append(list, p.stmt())
	}
	return list
}

// stmt parses a statement of a clause.
func (p *parser) stmt() Stmt {
	defer p.deeper()()
	pos := node{p.pos}
	switch {
	case p.gotKey("if"):
		s := &If{node: pos}
		p.want(LParen)
		s.Cond = p.expr()
		p.want(RParen)
		s.Then = p.branch()
		if p.gotKey("else") {
			s.Else = p.branch()
		}
		return s
	case p.tok == LBrace:
		p.next()
		s := &Block{node: pos, Stmts: p.stmtList()}
		p.want(RBrace)
		return s
	case p.got(Semi):
		return &ExprStmt{node: pos}
	case p.isKey("for"), p.isKey("while"), p.isKey("do"), p.isKey("goto"):
		e := p.near()
		e.Hint = "D has no loops: use a predicate, an if, or a profile probe"
		panic(e)
	}
	s := &ExprStmt{node: pos, X: p.expr()}
	if p.tok != RBrace { // the last one needs no semicolon
		p.want(Semi)
	}
	return s
}

// branch is one arm of an if: a statement, or a block whose braces are dropped.
// It is never nil.
func (p *parser) branch() []Stmt {
	list := []Stmt{}
	if p.got(LBrace) {
		list = append(list, p.stmtList()...)
		p.want(RBrace)
		return list
	}
	return append(list, p.stmt())
}

// expr = assign { "," assign } .
func (p *parser) expr() Expr {
	x := p.assign()
	for p.tok == Comma {
		h := p.height
		pos := p.pos
		p.next()
		x = &Binary{node{pos}, Comma, x, p.assign()}
		p.grow(h)
	}
	return x
}

// assign = cond | unary op assign .
func (p *parser) assign() Expr {
	x := p.cond()
	op := p.tok
	if op != Assign_ && op != AssignOp {
		return x
	}
	switch x.(type) {
	case *Binary, *Cond, *Cast:
		panic(p.near())
	}
	defer p.deeper()()
	if op == AssignOp {
		op = p.op
	}
	h := p.height
	pos := p.pos
	p.declareTarget(x)
	p.next()
	y := p.assign()
	p.grow(h)
	return &Assign{p.operator(pos), op, x, y}
}

// operator is the place of an operator at pos, its operands read. At the end of
// a predicate DTrace names the line of what follows.
func (p *parser) operator(pos Pos) node {
	if p.tok == EndPred {
		return node{p.after}
	}
	return node{pos}
}

// declareTarget notes a global that an assignment may create: from there on it
// hides a type of the same name.
func (p *parser) declareTarget(x Expr) {
	if i, ok := x.(*Index); ok {
		x = i.X
	}
	if n, ok := x.(*Name); ok && n.Class == Global && !n.Scoped {
		p.vars[n.Name] = true
	}
}

// cond = binary [ "?" expr ":" cond ] .
func (p *parser) cond() Expr {
	c := p.binary(1)
	if p.tok != Question {
		return c
	}
	defer p.deeper()()
	h := p.height
	pos := p.pos
	p.next()
	x := p.expr()
	h = max(h, p.height)
	p.want(Colon)
	y := p.cond()
	p.grow(h)
	return &Cond{p.operator(pos), c, x, y}
}

// binary parses operators of at least the given precedence; all bind to the left.
func (p *parser) binary(prec int) Expr {
	x := p.unary()
	for {
		op := p.tok
		q := op.precedence()
		if q < prec {
			return x
		}
		h := p.height
		pos := p.pos
		p.next()
		y := p.binary(q + 1)
		x = &Binary{p.operator(pos), op, x, y}
		p.grow(h)
	}
}

// unary = postfix | op unary | "(" type ")" unary | "sizeof" … | "stringof" unary .
func (p *parser) unary() Expr {
	defer p.deeper()()
	pos := node{p.pos}
	switch p.tok {
	case Sub, Add, LNot, Not, Mul, And, Inc, Dec:
		op := p.tok
		p.next()
		x := p.unary()
		if _, cast := x.(*Cast); cast && (op == Inc || op == Dec) {
			panic(p.near())
		}
		p.grow(0)
		return &Unary{p.operator(pos.pos), op, x}
	case LParen:
		if p.castAhead() {
			p.next()
			t := p.typeName()
			p.want(RParen)
			x := p.unary()
			p.grow(0)
			return &Cast{pos, t, x}
		}
	case Keyword:
		switch p.text {
		case "sizeof":
			p.next()
			if p.tok == LParen && p.typeAhead() {
				p.next()
				t := p.typeName()
				p.want(RParen)
				p.height = 1
				return &Sizeof{pos, t, nil}
			}
			x := p.unary()
			p.grow(0)
			return &Sizeof{pos, nil, x}
		case "stringof":
			p.next()
			x := p.unary()
			p.grow(0)
			return &Stringof{pos, x}
		}
	}
	return p.postfix(p.primary())
}

// peek is a scanner that stands after the current token.
func (p *parser) peek() scanner {
	s := p.scanner
	s.next()
	return s
}

// typeAhead says whether a type follows the current "(" of a sizeof.
func (p *parser) typeAhead() bool {
	s := p.peek()
	return p.startsType(&s) || s.tok == Ident && pointerAhead(s)
}

// pointerAhead says whether "*"s and then a ")" follow: what goes before can
// only be a type.
func pointerAhead(s scanner) bool {
	s.next()
	stars := 0
	for ; s.tok == Mul || stars > 0 && s.tok == Keyword && (s.text == "const" || s.text == "volatile" || s.text == "restrict"); s.next() {
		stars++
	}
	return stars > 0 && s.tok == RParen
}

func (p *parser) startsType(s *scanner) bool {
	switch s.tok {
	case Keyword:
		return typeWords[s.text] || s.text == "struct" || s.text == "union" || s.text == "enum"
	case Ident:
		return p.typeKnown(s.text)
	}
	return false
}

// castAhead says whether the current "(" opens a cast. Unknown names count as
// types where no expression could have that shape: (name *) or (name) name.
func (p *parser) castAhead() bool {
	s := p.peek()
	if s.tok != Ident {
		return p.startsType(&s)
	}
	known := p.typeKnown(s.text)
	if p.vars[s.text] {
		return false
	}
	if !known && pointerAhead(s) {
		return true
	}
	s.next()
	if s.tok == RParen {
		s.next()
		switch s.tok {
		case Ident, Int, Str, MacroTok, AggTok, Not, LNot:
			return true
		case Keyword:
			switch s.text {
			case "self", "this", "sizeof", "stringof", "offsetof", "xlate":
				return true
			}
		}
		return known
	}
	// A type is followed by something a declarator may begin with.
	return known && (s.tok == Mul || s.tok == LBrack || s.tok == LParen || s.tok == Keyword && typeWords[s.text])
}

// primary parses what operators apply to.
func (p *parser) primary() Expr {
	pos := node{p.pos}
	p.height = 1
	switch p.tok {
	case Ident:
		n := newName(pos, p.text)
		p.next()
		return n
	case Int:
		n := p.intLit()
		p.next()
		return n
	case Str:
		n := &StringLit{pos, p.val}
		for p.next(); p.tok == Str; p.next() {
			n.Value += p.val
		}
		return n
	case MacroTok:
		m := &Macro{pos, p.val, strings.HasPrefix(p.text, "$$")}
		p.next()
		if p.tok == LParen && !m.String { // a macro may name a function
			if v, ok := p.macroIdent(m.Name); ok {
				return newName(pos, v)
			}
		}
		return m
	case AggTok:
		a := &Agg{node: pos, Name: p.val}
		if a.Name == "_" {
			a.Name = ""
		}
		p.next()
		if p.got(LBrack) {
			a.Keys = p.args(RBrack)
			p.grow(0)
		}
		return a
	case LParen:
		p.next()
		x := p.expr()
		p.want(RParen)
		p.grow(0)
		return &Paren{pos, x}
	case Keyword:
		switch p.text {
		case "self", "this":
			class := Self
			if p.text == "this" {
				class = This
			}
			p.next()
			p.fits(Arrow)
			n := &Name{node: pos, Class: class, Name: p.member()}
			if strings.IndexByte(n.Name, '`') >= 0 {
				fail(pos.pos, "D_SYNTAX", "syntax error near \"%s\"", n.Name)
			}
			return n
		case "offsetof":
			p.next()
			p.want(LParen)
			t := p.typeName()
			p.fits(Comma)
			x := &Offsetof{pos, t, p.member()}
			p.want(RParen)
			p.height = 1
			return x
		case "xlate":
			p.next()
			p.want(Lt)
			t := p.typeName()
			p.want(Gt)
			p.want(LParen)
			x := &Xlate{pos, t, p.expr()}
			p.want(RParen)
			p.grow(0)
			return x
		case "return": // the action of DTrace on Linux; C's statement is none of D's
			p.next()
			return newName(pos, "return")
		}
	}
	panic(p.near())
}

func newName(pos node, text string) *Name {
	n := &Name{node: pos, Name: text}
	if i := strings.LastIndexByte(text, '`'); i >= 0 {
		n.Scoped, n.Module, n.Name = true, text[:i], text[i+1:]
	}
	return n
}

func (p *parser) intLit() *IntLit {
	n := &IntLit{node: node{p.pos}, Text: p.text, Value: p.num, Char: p.char}
	n.Decimal = p.char || p.text[0] != '0'
	if !p.char {
		n.Suffix = strings.ToLower(strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(p.text, "0x"), "0X"), "0123456789abcdefABCDEF"))
	}
	return n
}

// macroIdent is the value of a macro variable if it is an identifier.
func (p *parser) macroIdent(name string) (string, bool) {
	if p.opts.Macros == nil {
		return "", false
	}
	v, ok := p.opts.Macros(name)
	if !ok || v == "" || !isLetter(v[0]) && v[0] != '`' || v[len(v)-1] == '`' {
		return "", false
	}
	for i := range len(v) {
		if !isLetter(v[i]) && !isDigit(v[i]) && v[i] != '`' {
			return "", false
		}
	}
	return v, true
}

// member passes over the current token (a dot, an arrow, a comma) and the name
// after it. Keywords are names there.
func (p *parser) member() string {
	p.next()
	name := p.text
	switch p.tok {
	case Ident, Keyword:
	case MacroTok:
		v, ok := p.macroIdent(p.val)
		if !ok || strings.HasPrefix(p.text, "$$") {
			if _, defined := p.macroValue(p.val); !defined {
				fail(p.pos, "D_MACRO_UNDEF", "macro argument %s is not defined", p.text)
			}
			panic(p.near())
		}
		name = v
	default:
		panic(p.near())
	}
	p.next()
	return name
}

func (p *parser) macroValue(name string) (string, bool) {
	if p.opts.Macros == nil {
		return "", false
	}
	return p.opts.Macros(name)
}

// args parses the rest of an argument list, which is not empty for brackets.
func (p *parser) args(end Token) []Expr {
	list := []Expr{}
	h := 0
	if end == RBrack || p.tok != end {
		list = append(list, p.assign())
		for h = p.height; p.got(Comma); h = max(h, p.height) {
			list = append(list, p.assign())
		}
	}
	p.want(end)
	p.height = h
	return list
}

// postfix parses indexes, members, ++ and -- behind x.
func (p *parser) postfix(x Expr) Expr {
	for {
		pos := node{p.pos}
		h := p.height
		switch p.tok {
		case LBrack:
			p.next()
			x = &Index{pos, x, p.args(RBrack)}
		case LParen:
			if q, ok := x.(*Paren); ok {
				x = q.X
			}
			if a, ok := x.(*Agg); ok {
				fail(x.Pos(), "D_FUNC_UNDEF", "undefined function name: @%s", a.Name)
			}
			fun, ok := x.(*Name)
			if !ok || fun.Class != Global {
				fail(x.Pos(), "D_FUNC_IDENT", "function designator is not of function type")
			}
			p.next()
			x = &Call{fun.node, fun, p.args(RParen)}
		case Dot, Arrow:
			arrow := p.tok == Arrow
			m := &Member{node: pos, X: x, Arrow: arrow}
			m.Name = p.member()
			x = m
		case Inc, Dec:
			op := p.tok
			p.declareTarget(x)
			p.next()
			x = &Postfix{pos, op, x}
		default:
			return x
		}
		p.grow(h)
	}
}

// declaration = DeclSpec [ Declarator { "," Declarator } ] ";" .
func (p *parser) declaration() Decl {
	pos := node{p.pos}
	spec := p.declSpec(true)
	typedef := spec.Storage == "typedef"
	var list []*Declarator
	for p.tok != Semi {
		d := p.declarator(named)
		if strings.IndexByte(d.Name, '`') >= 0 {
			fail(d.pos, "D_DECL_SCOPE", "D scoping operator may not be used in a declaration name (%s)", d.Name)
		}
		if typedef {
			delete(p.vars, d.Name)
			p.types[d.Name] = true
		} else if spec.Storage != "self" && spec.Storage != "this" {
			p.vars[d.Name] = true
		}
		list = append(list, d)
		if p.tok == LBrace && p.header > 0 && len(list) == 1 && len(d.Parts) > 0 && d.Parts[0].Func {
			p.skipBody() // only the declaration counts
			p.outer(RBrace)
			return &VarDecl{node: pos, Spec: spec, Vars: list}
		}
		if p.tok == Ident && (spec.Type != "" || p.typeKnown(p.text)) {
			fail(p.pos, "D_DECL_IDENT", "old-style declaration or incorrect type specified")
		}
		if p.tok == Semi {
			break
		}
		p.want(Comma)
		p.fitsDeclarator()
	}
	p.outer(Semi)
	if typedef || len(list) == 0 {
		return &TypeDecl{pos, typedef, spec, list}
	}
	d := &VarDecl{node: pos, Spec: spec, Vars: list}
	switch spec.Storage {
	case "self":
		d.Class = Self
	case "this":
		d.Class = This
	}
	return d
}

func (p *parser) fitsDeclarator() {
	if p.tok != Ident && p.tok != Mul && p.tok != LParen {
		panic(p.near())
	}
}

// declSpec reads specifiers in any order. Storage classes are permitted at the
// beginning of a declaration or parameter only.
func (p *parser) declSpec(storage bool) *DeclSpec {
	d := &DeclSpec{node: node{p.pos}}
	base := ""            // the word or kind that says which type it is
	n := map[string]int{} // how often each attribute was seen
	for {
		pos := p.pos
		switch {
		case p.tok == Ident:
			switch {
			case base != "":
				p.checkSpec(base, n)
				return d
			case p.text == "_Bool":
				d.Words = append(d.Words, p.text)
				base = "_Bool"
			case len(d.Words) > 0 && !onlyQualifiers(d.Words) && !p.attrThenType():
				p.checkSpec(base, n) // unsigned x
				return d
			case d.Storage != "" && !p.typeKnown(p.text) && p.declares():
				return d // static x
			default:
				d.Type = p.text
				base = "typedef"
				if i := strings.LastIndexByte(p.text, '`'); i >= 0 {
					d.Scoped, d.Module, d.Type = true, p.text[:i], p.text[i+1:]
				}
			}
			p.next()
		case p.tok == Keyword:
			switch w := p.text; w {
			case "auto", "register", "static", "extern", "typedef", "self", "this":
				if !storage {
					panic(p.near())
				}
				if d.Storage != "" {
					fail(pos, "D_DECL_CLASS", "only one storage class allowed in a declaration")
				}
				d.Storage = w
				p.next()
			case "inline":
				if p.header == 0 || !storage { // C's inline
					panic(p.near())
				}
				p.next()
			case "const", "volatile", "restrict", "userland":
				d.Words = append(d.Words, w)
				p.next()
			case "signed", "unsigned", "short", "long":
				n[w]++
				d.Words = append(d.Words, w)
				p.checkSpec(base, n)
				p.next()
			case "void", "char", "int", "float", "double", "string":
				if w == "string" && base == "typedef" {
					fail(pos, "D_DECL_IDRED", "identifier redeclared: %s", w)
				}
				if base != "" {
					fail(pos, "D_DECL_COMBO", "invalid type combination")
				}
				base = w
				d.Words = append(d.Words, w)
				p.checkSpec(base, n)
				p.next()
			case "struct", "union", "enum":
				if base != "" {
					fail(pos, "D_DECL_COMBO", "invalid type combination")
				}
				base = w
				if w == "enum" {
					d.Enum = p.enumSpec(d)
					p.checkSpec(base, n)
				} else {
					d.Struct = p.structSpec(d, func() { p.checkSpec(base, n) })
				}
			default:
				if len(d.Words) == 0 && base == "" && d.Storage == "" {
					panic(p.near())
				}
				p.checkSpec(base, n)
				return d
			}
		default:
			if len(d.Words) == 0 && base == "" && d.Storage == "" {
				panic(p.near())
			}
			p.checkSpec(base, n)
			return d
		}
	}
}

func onlyQualifiers(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool {
		return w != "const" && w != "volatile" && w != "restrict" && w != "userland"
	})
}

// attrThenType says whether the current name, which follows unsigned or the
// like, is a type rather than the declared name: another name comes after it.
func (p *parser) attrThenType() bool {
	s := p.peek()
	return s.tok == Ident && p.typeKnown(p.text)
}

// declares says whether the current name is followed like a declared one.
func (p *parser) declares() bool {
	switch s := p.peek(); s.tok {
	case Semi, Comma, Assign_, LBrack, LParen:
		return true
	}
	return false
}

// checkSpec refuses attributes that do not go with the type, before the current
// token. Others that are no type are unknown to the checker.
func (p *parser) checkSpec(base string, n map[string]int) {
	sign := n["signed"] + n["unsigned"]
	size := n["short"] + n["long"]
	integer := base == "" || base == "int" || base == "char" || base == "void"
	switch {
	case base == "char" && size > 0:
		fail(p.pos, "D_DECL_CHARATTR", "invalid type declaration: short and long may not be used with char type")
	case base == "void" && sign+size > 0:
		fail(p.pos, "D_DECL_VOIDATTR", "invalid type declaration: attributes may not be used with void type")
	case !integer && sign > 0:
		fail(p.pos, "D_DECL_SIGNINT", "invalid type declaration: signed and unsigned may only be used with integer type")
	case !integer && base != "float" && base != "double" && n["long"] > 0:
		fail(p.pos, "D_DECL_LONGINT", "invalid type declaration: long and long long may only be used with integer or floating-point type")
	}
}

// tag reads the tag of a struct, union or enum, which may be scoped where the
// type is only named.
func (p *parser) tag(d *DeclSpec) string {
	var name string
	switch p.tok {
	case Ident:
		name = p.text
	case MacroTok:
		v, ok := p.macroIdent(p.val)
		if !ok {
			panic(p.near())
		}
		name = v
	case LBrace:
		return ""
	default:
		panic(p.near())
	}
	pos := p.pos
	p.next()
	i := strings.LastIndexByte(name, '`')
	if i < 0 {
		return name
	}
	if p.tok == LBrace {
		fail(pos, "D_DECL_SCOPE", "D scoping operator may not be used in a type name")
	}
	d.Scoped, d.Module = true, name[:i]
	return name[i+1:]
}

// structSpec: see StructSpec. Once its name is known check is called.
func (p *parser) structSpec(d *DeclSpec, check func()) *StructSpec {
	defer p.deeper()()
	s := &StructSpec{node: node{p.pos}, Union: p.text == "union"}
	p.next()
	s.Tag = p.tag(d)
	check()
	if p.tok != LBrace {
		return s
	}
	if s.Tag != "" {
		kind := "struct "
		if s.Union {
			kind = "union "
		}
		if p.tags[kind+s.Tag] {
			fail(p.pos, "D_DECL_TYPERED", "type redeclared: %s", kind+s.Tag)
		}
		p.tags[kind+s.Tag] = true
	}
	s.HasBody = true
	p.next()
	if p.header > 0 && p.got(RBrace) { // C compilers permit it
		return s
	}
	for {
		s.Fields = append(s.Fields, p.field())
		if p.got(RBrace) {
			return s
		}
	}
}

// field = DeclSpec [ Declarator [ ":" width ] { "," … } ] ";" .
func (p *parser) field() *FieldDecl {
	f := &FieldDecl{node: node{p.pos}}
	f.Spec = p.declSpec(false)
	for p.tok != Semi {
		var d *Declarator
		if p.tok == Colon {
			d = &Declarator{node: node{p.pos}}
		} else {
			d = p.declarator(named)
			if strings.IndexByte(d.Name, '`') >= 0 {
				fail(d.pos, "D_DECL_SCOPE", "D scoping operator may not be used in a member name (%s)", d.Name)
			}
		}
		if p.got(Colon) {
			d.Bits = p.cond()
		}
		f.Vars = append(f.Vars, d)
		if p.tok == Semi {
			break
		}
		p.want(Comma)
		if p.tok != Colon {
			p.fitsDeclarator()
		}
	}
	if len(f.Vars) == 0 && (f.Spec.Struct == nil || !f.Spec.Struct.HasBody) {
		fail(f.pos, "D_DECL_MNAME", "member declaration requires a name")
	}
	p.want(Semi)
	return f
}

// enumSpec: see EnumSpec. A comma may follow the last enumerator.
func (p *parser) enumSpec(d *DeclSpec) *EnumSpec {
	e := &EnumSpec{node: node{p.pos}}
	p.next()
	e.Tag = p.tag(d)
	if p.tok != LBrace {
		return e
	}
	e.HasBody = true
	p.next()
	for {
		v := &EnumValue{node: node{p.pos}, Name: p.text}
		p.want(Ident)
		if strings.IndexByte(v.Name, '`') >= 0 {
			fail(v.pos, "D_DECL_SCOPE", "D scoping operator may not be used in an enumerator name (%s)", v.Name)
		}
		if p.got(Assign_) {
			v.X = p.assign()
		}
		v.End = p.pos
		e.Values = append(e.Values, v)
		if !p.got(Comma) {
			p.want(RBrace)
			return e
		}
		if p.got(RBrace) {
			return e
		}
	}
}

// named says whether a declarator has a name.
type nameRule uint8

const (
	named     nameRule = iota
	abstract           // no name: in casts
	maybeName          // parameters
)

// declarator = { "*" qualifiers } ( name | "(" declarator ")" ) { "[" … "]" | "(" … ")" } .
func (p *parser) declarator(rule nameRule) *Declarator {
	d := &Declarator{node: node{p.pos}}
	p.declaratorParts(d, rule)
	if len(d.Parts) > maxNesting {
		fail(d.pos, "D_SYNTAX", "declaration of %s has too many parts", d.Name)
	}
	return d
}

// declaratorParts parses pointers, a name or parentheses, arrays and parameters,
// from the inside out.
func (p *parser) declaratorParts(d *Declarator, rule nameRule) {
	defer p.deeper()()
	var ptrs []DeclPart
	for p.tok == Mul {
		ptr := DeclPart{Pos: p.pos, Pointer: true}
		for p.next(); p.isKey("const") || p.isKey("volatile") || p.isKey("restrict"); p.next() {
			ptr.Quals = append(ptr.Quals, p.text)
		}
		if ptrs = append(ptrs, ptr); len(ptrs) > maxNesting {
			fail(d.pos, "D_SYNTAX", "declaration has too many parts")
		}
	}
	switch {
	case p.tok == Ident && rule != abstract:
		d.pos, d.Name = p.pos, p.text
		p.next()
	case p.tok == LParen && (rule == named || p.nestedAhead(rule)):
		p.next()
		p.declaratorParts(d, rule)
		p.want(RParen)
	case rule == named:
		panic(p.near())
	}
	for {
		part := DeclPart{Pos: p.pos}
		if len(d.Parts) > maxNesting {
			fail(d.pos, "D_SYNTAX", "declaration of %s has too many parts", d.Name)
		}
		switch p.tok {
		case LBrack:
			p.next()
			switch {
			case p.tok == RBrack:
				part.Array = true
			case p.tok == Ellipsis || p.startsType(&p.scanner):
				part.Assoc, part.Variadic = p.params("array", RBrack)
			default:
				part.Array = true
				part.Len = p.cond()
			}
			p.want(RBrack)
		case LParen:
			p.next()
			part.Func = true
			part.Params, part.Variadic = p.params("function", RParen)
			p.want(RParen)
		default:
			slices.Reverse(ptrs)
			d.Parts = append(d.Parts, ptrs...)
			return
		}
		d.Parts = append(d.Parts, part)
	}
}

// nestedAhead says whether the current "(" groups a declarator that may lack a
// name, rather than opening a parameter list.
func (p *parser) nestedAhead(rule nameRule) bool {
	s := p.peek()
	switch s.tok {
	case Mul, LParen, LBrack:
		return true
	case Ident:
		return rule == maybeName && !p.typeKnown(s.text)
	}
	return false
}

// params reads parameters up to, not including, the bracket that ends them.
// kind is "array", "function", "probe" or "inline", as messages call them.
func (p *parser) params(kind string, end Token) (list []*ParamDecl, variadic bool) {
	defer p.deeper()()
	list = []*ParamDecl{}
	var void *ParamDecl
	names := map[string]bool{}
	for p.tok != end {
		if p.tok == Ellipsis {
			if kind != "function" {
				fail(p.pos, "D_DECL_PROTO_VARARGS", "%s prototype may not use a variable-length argument list", kind)
			}
			variadic = true
			p.next()
			p.fits(end)
			break
		}
		d := &ParamDecl{node: node{p.pos}}
		if !p.startsType(&p.scanner) && p.tok == Ident {
			// An unknown name: a type if it is followed like one.
			s := p.peek()
			if s.tok != Ident && s.tok != Mul && s.tok != Comma && s.tok != end && s.tok != LParen {
				panic(p.near())
			}
		}
		d.Spec = p.declSpec(true)
		if c := d.Spec.Storage; c != "" && c != "register" {
			fail(d.pos, "D_DECL_PARMCLASS", "inappropriate storage class for function or associative array parameter")
		}
		d.Decl = p.declarator(maybeName)
		list = append(list, d)
		n := len(list)
		name := d.Decl.Name
		if len(d.Decl.Parts) == 0 && slices.Contains(d.Spec.Words, "void") {
			if kind == "array" {
				if name == "" {
					name = "(anonymous)"
				}
				fail(d.pos, "D_DECL_PROTO_TYPE", "array prototype may not use parameter of type void: %s, parameter #%d", name, n)
			}
			if name != "" {
				fail(d.pos, "D_DECL_PROTO_NAME", "void parameter may not have a name: %s", name)
			}
			void = d
		}
		if name != "" {
			if names[name] {
				fail(d.pos, "D_DECL_PROTO_FORM", "parameter is already declared in %s prototype: %s, parameter #%d", kind, name, n)
			}
			names[name] = true
		}
		if p.tok == end {
			break
		}
		p.want(Comma)
		if p.tok == end {
			panic(p.near())
		}
	}
	if void != nil {
		if len(list) > 1 || variadic {
			fail(void.pos, "D_DECL_PROTO_VOID", "void must be sole parameter")
		}
		list = []*ParamDecl{}
	}
	return list, variadic
}

// typeName: see TypeName.
func (p *parser) typeName() *TypeName {
	defer p.deeper()()
	t := &TypeName{node: node{p.pos}}
	if p.tok == MacroTok { // a macro may name a type
		v, ok := p.macroIdent(p.val)
		if !ok {
			panic(p.near())
		}
		p.tok, p.text = Ident, v
		if keywords[v] {
			p.tok = Keyword
		}
	}
	t.Spec = p.declSpec(false)
	t.Decl = p.declarator(abstract)
	return t
}

// inline: see Inline.
func (p *parser) inline() *Inline {
	d := &Inline{node: node{p.pos}}
	p.next()
	d.Spec = p.declSpec(true)
	d.Decl = p.declarator(named)
	if strings.IndexByte(d.Decl.Name, '`') >= 0 {
		fail(d.Decl.pos, "D_DECL_SCOPE", "D scoping operator may not be used in a declaration name (%s)", d.Decl.Name)
	}
	p.want(Assign_)
	d.X = p.assign()
	p.vars[d.Decl.Name] = true
	p.outer(Semi)
	return d
}

// translator: see Translator.
func (p *parser) translator() *Translator {
	t := &Translator{node: node{p.pos}}
	p.next()
	t.Dst = p.typeName()
	p.want(Lt)
	t.Src = p.typeName()
	if p.tok == Ident {
		t.Param = p.text
		p.next()
	}
	p.want(Gt)
	p.want(LBrace)
	for p.tok != RBrace {
		m := &TransMember{node: node{p.pos}, Name: p.text}
		p.want(Ident)
		p.want(Assign_)
		m.X = p.assign()
		p.want(Semi)
		t.Members = append(t.Members, m)
	}
	t.End = p.pos
	p.want(RBrace)
	p.outer(Semi)
	return t
}

// provider: see Provider.
func (p *parser) provider() *Provider {
	v := &Provider{node: node{p.pos}}
	p.next()
	v.Name = p.text
	p.want(Ident)
	p.want(LBrace)
	for p.tok != RBrace {
		if !p.isKey("probe") {
			panic(p.near())
		}
		p.next()
		b := &ProviderProbe{node: node{p.pos}, Name: p.text}
		p.want(Ident)
		p.want(LParen)
		b.Args, _ = p.params("probe", RParen)
		p.want(RParen)
		if p.got(Colon) {
			p.want(LParen)
			b.Translated, _ = p.params("probe", RParen)
			p.want(RParen)
		}
		p.want(Semi)
		v.Probes = append(v.Probes, b)
	}
	p.want(RBrace)
	p.outer(Semi)
	return v
}
