package cpp

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

type kind uint8

const (
	punct kind = iota // an operator, or any other byte
	ident
	number // a preprocessing number: also 1sec
	str    // a string or character constant
	marker // empty argument, joined away by ##
)

// token carries the white space before it, so that text can be put out as it
// was. hide names the macros it may no longer be expanded by.
type token struct {
	kind kind
	text string
	ws   string
	made bool // by a macro
	hide *hideSet
}

// hideSet is a list that is never changed; tails are shared.
type hideSet struct {
	name string
	next *hideSet
}

func (h *hideSet) has(name string) bool {
	for ; h != nil; h = h.next {
		if h.name == name {
			return true
		}
	}
	return false
}

func (h *hideSet) add(name string) *hideSet {
	if h.has(name) {
		return h
	}
	return &hideSet{name, h}
}

func (h *hideSet) union(o *hideSet) *hideSet {
	if h == nil || h == o {
		return o
	}
	for ; o != nil; o = o.next {
		h = h.add(o.name)
	}
	return h
}

func (h *hideSet) intersect(o *hideSet) *hideSet {
	if h == o {
		return h
	}
	var r *hideSet
	for ; h != nil; h = h.next {
		if o.has(h.name) {
			r = &hideSet{h.name, r}
		}
	}
	return r
}

type macro struct {
	name     string
	function bool
	params   []string
	variadic bool // the last parameter takes all remaining arguments
	body     []token
	builtin  bool // __LINE__ and its like
	keyword  bool // to a C compiler: headers may define it without a word
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\f' || c == '\v' || c == '\r' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
}

var puncts = []string{"...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "^^",
	"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##"}

// tokenize splits a line. Trailing white space is a token without text.
func tokenize(s string) []token {
	var list []token
	for i := 0; i < len(s); {
		start := i
		for i < len(s) && isSpace(s[i]) {
			i++
		}
		ws := s[start:i]
		if i == len(s) {
			return append(list, token{ws: ws})
		}
		t := token{ws: ws}
		j := i
		switch c := s[i]; {
		case isAlpha(c):
			for j < len(s) && (isAlpha(s[j]) || isDigit(s[j])) {
				j++
			}
			t.kind = ident
			if w := s[i:j]; j < len(s) && (s[j] == '"' || s[j] == '\'') && (w == "L" || w == "u" || w == "U" || w == "u8") {
				if _, n := quoted(s[j:]); n > 0 { // a wide constant
					t.kind = str
					j += n
				}
			}
		case isDigit(c) || c == '.' && i+1 < len(s) && isDigit(s[i+1]):
			for j++; j < len(s); j++ {
				if (s[j] == '+' || s[j] == '-') && (s[j-1]|0x20 == 'e' || s[j-1]|0x20 == 'p') && !strings.HasPrefix(s[i:], "0x") {
					continue
				}
				if !isAlpha(s[j]) && !isDigit(s[j]) && s[j] != '.' {
					break
				}
			}
			t.kind = number
		case c == '"' || c == '\'':
			_, n := quoted(s[i:])
			if n > 0 {
				t.kind = str
			}
			j += max(n, 1)
		default:
			j++
			for _, q := range puncts {
				if q[0] == c && strings.HasPrefix(s[i:], q) {
					j = i + len(q)
					break
				}
			}
		}
		t.text = s[i:j]
		list = append(list, t)
		i = j
	}
	return list
}

// trim drops the token of trailing white space.
func trim(toks []token) []token {
	if n := len(toks); n > 0 && toks[n-1].text == "" && toks[n-1].kind != marker {
		return toks[:n-1]
	}
	return toks
}

// join puts tokens together as they were written.
func join(toks []token) string {
	var b strings.Builder
	for _, t := range toks {
		b.WriteString(t.ws)
		b.WriteString(t.text)
	}
	return b.String()
}

// define handles the tokens after #define.
func (p *processor) define(toks []token) {
	toks = trim(toks)
	if len(toks) == 0 || toks[0].kind != ident {
		p.fail("macro names must be identifiers")
	}
	m := &macro{name: toks[0].text}
	if m.name == "defined" {
		p.fail("\"defined\" cannot be used as a macro name")
	}
	body := toks[1:]
	if len(body) > 0 && body[0].text == "(" && body[0].ws == "" {
		m.function = true
		body = p.parameters(m, body[1:])
	}
	m.body = append([]token{}, body...)
	for i := range m.body {
		if m.body[i].ws != "" {
			m.body[i].ws = " "
		}
		m.body[i].made = true
	}
	if len(m.body) > 0 {
		m.body[0].ws = ""
		if m.body[0].text == "##" || m.body[len(m.body)-1].text == "##" {
			p.fail("'##' cannot appear at either end of a macro expansion")
		}
	}
	if m.function {
		for i, t := range m.body {
			if t.text == "#" && (i+1 == len(m.body) || m.param(m.body[i+1].text) < 0) {
				p.fail("'#' is not followed by a macro parameter")
			}
		}
	}
	if old := p.macros[m.name]; old != nil && !old.keyword && (old.builtin || old.function != m.function || join(old.body) != join(m.body)) {
		p.warn("\"%s\" redefined", m.name)
	}
	p.macros[m.name] = m
}

// parameters reads "a, b, ...)" and gives what follows.
func (p *processor) parameters(m *macro, toks []token) []token {
	for i := 0; ; i++ {
		if i >= len(toks) {
			p.fail("expected ')' in macro parameter list")
		}
		switch t := toks[i]; {
		case t.text == ")" && len(m.params) == 0:
			return toks[i+1:]
		case t.text == "...":
			m.params = append(m.params, "__VA_ARGS__")
			m.variadic = true
		case t.kind == ident:
			if m.param(t.text) >= 0 {
				p.fail("duplicate macro parameter \"%s\"", t.text)
			}
			m.params = append(m.params, t.text)
			if i+1 < len(toks) && toks[i+1].text == "..." {
				m.variadic = true
				i++
			}
		default:
			p.fail("expected parameter name, found \"%s\"", t.text)
		}
		i++
		switch {
		case i < len(toks) && toks[i].text == ")":
			return toks[i+1:]
		case i >= len(toks) || toks[i].text != "," || m.variadic:
			p.fail("expected ',' or ')' in macro parameter list")
		}
	}
}

func (m *macro) param(name string) int {
	for i, s := range m.params {
		if s == name {
			return i
		}
	}
	return -1
}

// input gives tokens: those pushed, then, if it reads a file, those of its
// following lines when a macro call needs them.
type input struct {
	p     *processor
	file  *file   // nil: the pushed tokens are all
	stack []token // the next one last
	trail string  // white space at the end of the line
}

func (in *input) push(toks []token) {
	for i := len(toks) - 1; i >= 0; i-- {
		in.stack = append(in.stack, toks[i])
	}
}

func (in *input) next() (token, bool) {
	for {
		n := len(in.stack)
		if n == 0 {
			return token{}, false
		}
		t := in.stack[n-1]
		in.stack = in.stack[:n-1]
		if t.text == "" && t.kind != marker {
			if n == 1 {
				in.trail = t.ws
			}
			continue
		}
		return t, true
	}
}

// paren says whether the next token is a "(", looking at following lines.
func (in *input) paren() bool {
	for {
		for n := len(in.stack); n > 0; n-- {
			if t := in.stack[n-1]; t.text != "" {
				return t.text == "("
			}
		}
		if !in.more("(") {
			return false
		}
	}
}

// more appends the next line of the file that is not empty, if it begins with
// prefix. A directive cannot continue the text.
func (in *input) more(prefix string) bool {
	f := in.file
	if f == nil {
		return false
	}
	// Look past empty lines without taking them.
	i := f.next
	for i < len(f.lines) && strings.TrimSpace(f.lines[i]) == "" {
		i++
	}
	if i == len(f.lines) {
		return false
	}
	if s := strings.TrimSpace(f.lines[i]); strings.HasPrefix(s, "#") || !strings.HasPrefix(s, prefix) {
		return false
	}
	toks := tokenize(f.lines[i])
	if toks[0].ws == "" {
		toks[0].ws = " "
	}
	f.next = i + 1
	rest := in.stack
	in.stack = nil
	in.push(toks)
	in.stack = append(in.stack, rest...)
	return true
}

// expand replaces the macro call that begins with t, if there is one; the
// result is pushed to be read again.
func (p *processor) expand(in *input, t token) bool {
	if t.kind != ident {
		return false
	}
	m := p.macros[t.text]
	if m == nil || t.hide.has(t.text) {
		return false
	}
	if m.builtin {
		in.push([]token{p.builtin(t)})
		return true
	}
	var out []token
	if !m.function {
		hide := t.hide.add(m.name)
		out = p.substitute(m, nil, hide)
	} else {
		if !in.paren() {
			return false
		}
		args, end := p.arguments(in, m)
		hide := t.hide.intersect(end.hide).add(m.name)
		out = p.substitute(m, args, hide)
	}
	if len(out) > 0 {
		out[0].ws = t.ws
	} else if t.ws != "" {
		out = []token{{kind: marker, ws: t.ws, made: true}}
	}
	p.tokens += len(out) + 1
	if p.tokens > maxTokens {
		p.fatal("macro expansion of \"%s\" is too large", m.name)
	}
	in.push(out)
	return true
}

// arguments reads a call's arguments. The "(" comes next.
func (p *processor) arguments(in *input, m *macro) (args [][]token, end token) {
	in.next()
	depth := 0
	var arg []token
	for {
		t, ok := in.next()
		if !ok {
			if in.more("") {
				continue
			}
			p.fail("unterminated argument list invoking macro \"%s\"", m.name)
		}
		if depth == 0 && t.text == ")" {
			end = t
			break
		}
		switch t.text {
		case "(":
			depth++
		case ")":
			depth--
		case ",":
			if depth == 0 && !(m.variadic && len(args) >= len(m.params)-1) {
				args = append(args, arg)
				arg = nil
				continue
			}
		}
		arg = append(arg, t)
		// Calls within calls read the same tokens again and again.
		if p.args++; p.args > 2*maxTokens {
			p.fatal("macro expansion of \"%s\" is too large", m.name)
		}
	}
	if len(m.params) > 0 || len(arg) > 0 {
		args = append(args, arg)
	}
	if m.variadic && len(args) == len(m.params)-1 {
		args = append(args, nil)
	}
	if len(args) != len(m.params) {
		p.fail("macro \"%s\" passed %d arguments, but takes %d", m.name, len(args), len(m.params))
	}
	return args, end
}

// expandAll expands a list of tokens on its own.
func (p *processor) expandAll(toks []token) []token {
	p.nest++
	if p.nest > maxNest {
		p.fail("macro calls nested too deeply")
	}
	defer func() { p.nest-- }()
	in := &input{p: p}
	in.push(toks)
	var out []token
	for {
		t, ok := in.next()
		if !ok {
			return out
		}
		if !p.expand(in, t) {
			out = append(out, t)
		}
	}
}

// substitute builds a macro's expansion.
func (p *processor) substitute(m *macro, args [][]token, hide *hideSet) []token {
	var out []token
	expanded := make([][]token, len(args))
	done := make([]bool, len(args))
	for i := 0; i < len(m.body); i++ {
		t := m.body[i]
		a := -1
		if t.kind == ident {
			a = m.param(t.text)
		}
		next := ""
		if i+1 < len(m.body) {
			next = m.body[i+1].text
		}
		switch {
		case m.function && t.text == "#" && i+1 < len(m.body):
			i++
			a = m.param(m.body[i].text)
			out = append(out, token{kind: str, text: stringize(args[a]), ws: t.ws, made: true})
		case t.text == "##" && len(out) > 0 && i+1 < len(m.body):
			i++
			right := m.body[i]
			toks := []token{right}
			if right.text == "#" && m.function && i+1 < len(m.body) {
				i++
				toks = []token{{kind: str, text: stringize(args[m.param(m.body[i].text)]), made: true}}
			} else if b := m.param(right.text); right.kind == ident && b >= 0 {
				toks = args[b]
				if m.variadic && b == len(m.params)-1 && out[len(out)-1].text == "," {
					// GNU: ", ## __VA_ARGS__" drops the comma when there are none.
					if len(toks) == 0 {
						out = out[:len(out)-1]
					} else {
						out = append(out, p.mark(p.expandAll(toks), "")...)
					}
					continue
				}
			}
			if len(toks) == 0 {
				continue
			}
			out[len(out)-1] = p.paste(out[len(out)-1], toks[0])
			out = append(out, p.mark(toks[1:], " ")...)
		case a >= 0 && next == "##":
			if len(args[a]) == 0 {
				out = append(out, token{kind: marker, ws: t.ws, made: true})
			} else {
				out = append(out, p.mark(args[a], t.ws)...)
			}
		case a >= 0:
			if !done[a] {
				expanded[a], done[a] = p.expandAll(args[a]), true
			}
			out = append(out, p.mark(expanded[a], t.ws)...)
		default:
			out = append(out, t)
		}
		if len(out) > maxTokens {
			p.fatal("macro expansion of \"%s\" is too large", m.name)
		}
	}
	for i := range out {
		out[i].hide = out[i].hide.union(hide)
	}
	return out
}

// mark copies an argument's tokens as made by a macro; the first gets the
// parameter's white space.
func (p *processor) mark(toks []token, ws string) []token {
	out := append([]token{}, toks...)
	for i := range out {
		out[i].made = true
		if i == 0 {
			out[i].ws = ws
		} else if out[i].ws != "" {
			out[i].ws = " "
		}
	}
	return out
}

func (p *processor) paste(a, b token) token {
	if a.kind == marker {
		b.ws, b.made = a.ws, true
		return b
	}
	toks := tokenize(a.text + b.text)
	if len(toks) != 1 {
		p.fail("pasting \"%s\" and \"%s\" does not give a valid preprocessing token", a.text, b.text)
	}
	t := toks[0]
	t.ws, t.made = a.ws, true
	t.hide = a.hide.intersect(b.hide)
	return t
}

func stringize(toks []token) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, t := range toks {
		if i > 0 && t.ws != "" {
			b.WriteByte(' ')
		}
		for j := range len(t.text) {
			c := t.text[j]
			if c == '"' || c == '\\' && t.kind == str {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// builtin is the value of __LINE__ and its like.
func (p *processor) builtin(t token) token {
	r := token{kind: number, ws: t.ws, made: true}
	if p.now.IsZero() {
		p.now = time.Now()
	}
	switch t.text {
	case "__LINE__":
		r.text = strconv.Itoa(p.cur.line())
	case "__FILE__":
		r.kind, r.text = str, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(p.cur.name)+`"`
	case "__DATE__":
		r.kind, r.text = str, `"`+p.now.Format("Jan _2 2006")+`"`
	case "__TIME__":
		r.kind, r.text = str, `"`+p.now.Format("15:04:05")+`"`
	case "__COUNTER__":
		r.text = strconv.Itoa(p.count)
		p.count++
	case "__INCLUDE_LEVEL__":
		r.text = fmt.Sprint(p.cur.depth)
	}
	return r
}
