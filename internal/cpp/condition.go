package cpp

import (
	"strconv"
	"strings"
)

// condition is the value of an #if or #elif.
func (p *processor) condition(toks []token) bool {
	// "defined X" is decided before macros are expanded.
	var list []token
	toks = trim(toks)
	for i := 0; i < len(toks); i++ {
		t := toks[i]
		if t.kind != ident || t.text != "defined" {
			list = append(list, t)
			continue
		}
		paren := i+1 < len(toks) && toks[i+1].text == "("
		if paren {
			i++
		}
		i++
		if i >= len(toks) || toks[i].kind != ident {
			p.fail("operator \"defined\" requires an identifier")
		}
		v := "0"
		if p.macros[toks[i].text] != nil {
			v = "1"
		}
		if paren {
			i++
			if i >= len(toks) || toks[i].text != ")" {
				p.fail("missing ')' after \"defined\"")
			}
		}
		list = append(list, token{kind: number, text: v, ws: t.ws})
	}
	e := evaluator{p: p}
	for _, t := range p.expandAll(list) {
		if t.kind != marker {
			e.toks = append(e.toks, t)
		}
	}
	if len(e.toks) == 0 {
		p.fail("#if with no expression")
	}
	v := e.cond(true)
	if len(e.toks) > 0 {
		p.fail("missing binary operator before token \"%s\"", e.toks[0].text)
	}
	return v.n != 0
}

// value is an integer of 64 bits.
type value struct {
	n        uint64
	unsigned bool
}

type evaluator struct {
	p     *processor
	toks  []token
	depth int
}

func (e *evaluator) peek() string {
	if len(e.toks) == 0 {
		return ""
	}
	return e.toks[0].text
}

func (e *evaluator) take() token {
	if len(e.toks) == 0 {
		e.p.fail("#if ends in the middle of an expression")
	}
	t := e.toks[0]
	e.toks = e.toks[1:]
	return t
}

func (e *evaluator) got(s string) bool {
	if e.peek() == s {
		e.toks = e.toks[1:]
		return true
	}
	return false
}

func (e *evaluator) want(s string) {
	if !e.got(s) {
		e.p.fail("missing '%s' in #if expression", s)
	}
}

// cond evaluates binary operators and ?:. Where live is unset the value does
// not matter and a division by zero is no error.
func (e *evaluator) cond(live bool) value {
	e.depth++
	if e.depth > maxNest {
		e.p.fail("#if expression nested too deeply")
	}
	defer func() { e.depth-- }()
	c := e.binary(1, live)
	if !e.got("?") {
		return c
	}
	x := e.cond(live && c.n != 0)
	e.want(":")
	y := e.cond(live && c.n == 0)
	u := x.unsigned || y.unsigned
	if c.n != 0 {
		y = x
	}
	return value{y.n, u}
}

var precedence = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

func (e *evaluator) binary(least int, live bool) value {
	x := e.unary(live)
	for {
		op := e.peek()
		prec := precedence[op]
		if prec < least {
			return x
		}
		e.take()
		side := live
		switch op {
		case "&&":
			side = live && x.n != 0
		case "||":
			side = live && x.n == 0
		}
		y := e.binary(prec+1, side)
		x = e.apply(op, x, y, live)
	}
}

// apply is x op y as C has it in #if: unsigned if one of them is. live says that
// the value counts, so that division by zero is an error.
func (e *evaluator) apply(op string, x, y value, live bool) value {
	truth := func(b bool) value {
		if b {
			return value{n: 1}
		}
		return value{}
	}
	u := x.unsigned || y.unsigned
	less := func(a, b uint64) bool {
		if u {
			return a < b
		}
		return int64(a) < int64(b)
	}
	switch op {
	case "&&":
		return truth(x.n != 0 && y.n != 0)
	case "||":
		return truth(x.n != 0 || y.n != 0)
	case "==":
		return truth(x.n == y.n)
	case "!=":
		return truth(x.n != y.n)
	case "<":
		return truth(less(x.n, y.n))
	case ">":
		return truth(less(y.n, x.n))
	case "<=":
		return truth(!less(y.n, x.n))
	case ">=":
		return truth(!less(x.n, y.n))
	case "|":
		return value{x.n | y.n, u}
	case "^":
		return value{x.n ^ y.n, u}
	case "&":
		return value{x.n & y.n, u}
	case "+":
		return value{x.n + y.n, u}
	case "-":
		return value{x.n - y.n, u}
	case "*":
		return value{x.n * y.n, u}
	case "<<", ">>":
		n := int64(y.n)
		left := op == "<<"
		if !y.unsigned && n < 0 {
			n, left = -n, !left
		}
		s := min(uint64(n), 64)
		switch {
		case left:
			return value{x.n << s, x.unsigned}
		case x.unsigned:
			return value{x.n >> s, true}
		}
		return value{uint64(int64(x.n) >> s), false}
	case "/", "%":
		if y.n == 0 {
			if live {
				e.p.fail("division by zero in #if")
			}
			return value{0, u}
		}
		if u {
			if op == "/" {
				return value{x.n / y.n, true}
			}
			return value{x.n % y.n, true}
		}
		if op == "/" {
			return value{uint64(int64(x.n) / int64(y.n)), false}
		}
		return value{uint64(int64(x.n) % int64(y.n)), false}
	}
	panic("cpp: operator " + op)
}

// unary evaluates an operand with the operators before it.
func (e *evaluator) unary(live bool) value {
	e.depth++
	if e.depth > maxNest {
		e.p.fail("#if expression nested too deeply")
	}
	defer func() { e.depth-- }()
	t := e.take()
	switch t.text {
	case "!":
		v := e.unary(live)
		if v.n == 0 {
			return value{n: 1}
		}
		return value{}
	case "~":
		v := e.unary(live)
		return value{^v.n, v.unsigned}
	case "-":
		v := e.unary(live)
		return value{-v.n, v.unsigned}
	case "+":
		return e.unary(live)
	case "(":
		v := e.cond(live)
		e.want(")")
		return v
	}
	switch {
	case t.kind == ident: // not a macro
		return value{}
	case t.kind == number:
		digits := strings.TrimRight(t.text, "uUlL")
		suffix := t.text[len(digits):]
		n, err := strconv.ParseUint(digits, 0, 64)
		if err != nil || strings.ContainsAny(digits, "_oObB") && !strings.HasPrefix(digits, "0x") && !strings.HasPrefix(digits, "0X") {
			e.p.fail("\"%s\" is not an integer constant", t.text)
		}
		return value{n, strings.ContainsAny(suffix, "uU") || n > 1<<63-1}
	case t.kind == str && t.text[len(t.text)-1] == '\'':
		s := t.text[strings.IndexByte(t.text, '\''):]
		return value{n: e.char(s[1 : len(s)-1])}
	}
	e.p.fail("token \"%s\" is not valid in preprocessor expressions", t.text)
	return value{}
}

// char is the value of a character constant.
func (e *evaluator) char(s string) uint64 {
	if s == "" {
		e.p.fail("empty character constant")
	}
	var v uint64
	for s != "" {
		c := s[0]
		if c != '\\' {
			v, s = v<<8|uint64(c), s[1:]
			continue
		}
		r, _, rest, err := strconv.UnquoteChar(octal(s), '\'')
		if err != nil {
			e.p.fail("character constant '%s' is not valid", s)
		}
		v, s = v<<8|uint64(byte(r)), rest
	}
	return v
}

// octal makes the octal escape at the start of s three digits long, as Go
// wants it.
func octal(s string) string {
	n := 1
	for n < len(s) && n < 4 && '0' <= s[n] && s[n] <= '7' {
		n++
	}
	if n == 1 {
		return s
	}
	return `\` + strings.Repeat("0", 4-n) + s[1:n] + s[n:]
}
