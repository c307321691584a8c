//go:build amd64

package agree_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unsafe"
)

// A node is a piece of D text with other pieces in between:
// text[0] kids[0] text[1] … . typ is 'i' for an integer of any type, 's' for a
// string, 'x' for what cannot stand for anything else.
type node struct {
	typ  byte
	text []string
	kids []*node
}

func leaf(typ byte, s string) *node { return &node{typ, []string{s}, nil} }

// mk splits format at the % signs: one for each kid.
func mk(typ byte, format string, kids ...*node) *node {
	parts := strings.Split(format, "%")
	if len(parts) != len(kids)+1 {
		panic(fmt.Sprintf("%q has %d places, %d kids", format, len(parts)-1, len(kids)))
	}
	return &node{typ, parts, kids}
}

func (n *node) write(b *strings.Builder) {
	for i, s := range n.text {
		b.WriteString(s)
		if i < len(n.kids) {
			n.kids[i].write(b)
		}
	}
}

// A stmt is an expression statement or, with Then, an if.
type stmt struct {
	x          *node
	then, alt  []*stmt
	isIf       bool
	keepAlways bool // not removed when shrinking
}

func (s *stmt) write(b *strings.Builder, indent string) {
	b.WriteString(indent)
	if !s.isIf {
		s.x.write(b)
		b.WriteString(";\n")
		return
	}
	b.WriteString("if (")
	s.x.write(b)
	b.WriteString(") {\n")
	for _, t := range s.then {
		t.write(b, indent+"\t")
	}
	b.WriteString(indent + "}")
	if len(s.alt) > 0 {
		b.WriteString(" else {\n")
		for _, t := range s.alt {
			t.write(b, indent+"\t")
		}
		b.WriteString(indent + "}")
	}
	b.WriteString("\n")
}

type clause struct {
	pred *node
	body []*stmt
}

// A unit is a random program: declarations and clauses of one probe.
type unit struct {
	name    string // of the probe, and the prefix of its variables
	decls   []string
	clauses []*clause
}

func (u *unit) String() string {
	var b strings.Builder
	for _, d := range u.decls {
		b.WriteString(d + "\n")
	}
	for _, c := range u.clauses {
		b.WriteString("fuzz:::" + u.name + "\n")
		if c.pred != nil {
			b.WriteString("/")
			c.pred.write(&b)
			b.WriteString("/\n")
		}
		b.WriteString("{\n")
		for _, s := range c.body {
			s.write(&b, "\t")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// common declarations of all units of a load.
const commonDecls = `struct fz {
	char c;
	unsigned char uc;
	short s;
	int i;
	unsigned int b3 : 3;
	int b9 : 9;
	unsigned long b33 : 33;
	long l;
	unsigned short us;
	unsigned int ui;
	int arr[4];
	char buf[12];
};
`

var intTypes = []string{"char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long", "unsigned long"}

var edges = []string{
	"0", "1", "2", "3", "7", "8", "10", "31", "32", "63", "64", "100", "127", "128", "255", "256", "1000", "32767", "32768", "65535", "65536",
	"2147483647", "2147483648", "4294967295", "4294967296", "1000000007", "9223372036854775807", "0xdeadbeef", "0x123456789abcdef", "0xffffffffffffffff", "0x8000000000000000",
}

var texts = []string{
	"", "a", "abc", "ABC", "hello, world", "/usr/lib/x.so", "//a//b/../c/.", "12345", "-77", "0x1f", "  42z", "aaaaaaaaab", "a,b,,c", ".", "..", "/",
	"{\\\"k\\\": {\\\"n\\\": [1, \\\"two\\\", -3]}}", "\\t\\\"q\\\"\\\\", "The quick brown fox jumps over the lazy dog", "zzz\\377",
}

// userText is memory of this process for copyin() and its kin, userAddr where
// it lies.
var (
	userText = []byte("in user space,\x00 a second\x00/path/to/nowhere\x00 0123456789 \xff\x00\x00")
	userAddr = int(uintptr(unsafe.Pointer(&userText[0])))
)

// gen makes random well-typed programs.
type gen struct {
	*rand.Rand
	u      *unit
	vars   []string // integer lvalues
	strs   []string // string lvalues
	aggs   []aggVar
	arrays []array
	index  []string // C arrays of four integers

	inlines bool // NAME_i and NAME_f are there
	p       bool // this->p is there
}

type aggVar struct {
	name, fn string // fn with a % for the value
	keys     string // 'i' and 's'
}

type array struct {
	name string
	keys string
	val  byte
}

func (g *gen) pick(list []string) string { return list[g.IntN(len(list))] }

// newUnit makes the program of probe fuzz:::name.
func newUnit(r *rand.Rand, name string) *unit {
	g := &gen{Rand: r, u: &unit{name: name}}
	init := &clause{}
	add := func(c *clause, s string) { c.body = append(c.body, &stmt{x: leaf('x', s)}) }
	for i := range 2 + g.IntN(4) {
		v := fmt.Sprintf("%s_g%d", name, i)
		g.u.decls = append(g.u.decls, g.pick(intTypes)+" "+v+";")
		add(init, v+" = "+g.number())
		g.vars = append(g.vars, v)
	}
	for i := range g.IntN(3) {
		v := fmt.Sprintf("%s_x%d", name, i)
		class := g.pick([]string{"self", "this"})
		g.u.decls = append(g.u.decls, class+" "+g.pick(intTypes)+" "+v+";")
		g.vars = append(g.vars, class+"->"+v)
		if g.IntN(2) == 0 {
			add(init, class+"->"+v+" = "+g.number())
		}
	}
	if g.IntN(3) == 0 { // a struct and an array, as a whole and in parts
		class := g.pick([]string{"", "", "self ", "this "})
		v := name + "_r"
		g.u.decls = append(g.u.decls, class+"struct fz "+v+";")
		if class != "" {
			v = strings.TrimSpace(class) + "->" + v
		}
		for _, m := range members {
			g.vars = append(g.vars, v+"."+m)
		}
		add(init, v+".l = "+g.number())
	}
	if g.IntN(3) == 0 {
		v := name + "_v"
		g.u.decls = append(g.u.decls, g.pick(intTypes)+" "+v+"[4];")
		g.vars = append(g.vars, v+"[0]", v+"[2]")
		g.index = append(g.index, v)
	}
	for i := range 1 + g.IntN(2) {
		v := fmt.Sprintf("%s_s%d", name, i)
		class := g.pick([]string{"", "", "self ", "this "})
		g.u.decls = append(g.u.decls, class+"string "+v+";")
		if class != "" {
			v = strings.TrimSpace(class) + "->" + v
		}
		g.strs = append(g.strs, v)
		add(init, v+" = "+g.text())
	}
	for i := range g.IntN(3) {
		a := array{name: fmt.Sprintf("%s_a%d", name, i), val: 'i'}
		var sig []string
		for range 1 + g.IntN(3) {
			if g.IntN(3) == 0 {
				a.keys += "s"
				sig = append(sig, "string")
			} else {
				a.keys += "i"
				sig = append(sig, g.pick(intTypes))
			}
		}
		typ := g.pick(intTypes)
		if g.IntN(3) == 0 {
			a.val, typ = 's', "string"
		}
		class := g.pick([]string{"", "self "})
		g.u.decls = append(g.u.decls, fmt.Sprintf("%s%s %s[%s];", class, typ, a.name, strings.Join(sig, ", ")))
		if class != "" {
			a.name = "self->" + a.name
		}
		g.arrays = append(g.arrays, a)
	}
	for i := range g.IntN(3) {
		a := aggVar{name: fmt.Sprintf("@%s_%d", name, i)}
		switch g.IntN(9) {
		case 0:
			a.fn = "count()"
		case 1:
			a.fn = "sum(%)"
		case 2:
			a.fn = "min(%)"
		case 3:
			a.fn = "max(%)"
		case 4:
			a.fn = "avg(%)"
		case 5:
			a.fn = "stddev(%)"
		case 6:
			a.fn = g.pick([]string{"quantize(%)", "quantize(%, 3)"})
		case 7:
			lo := g.IntN(200) - 100
			step := 1 + g.IntN(20)
			a.fn = fmt.Sprintf("lquantize(%%, %d, %d, %d)", lo, lo+step*(1+g.IntN(12)), step)
		case 8:
			a.fn = g.pick([]string{"llquantize(%, 10, 0, 3, 10)", "llquantize(%, 2, 0, 8, 2)", "llquantize(%, 10, 1, 4, 20)", "llquantize(%, 4, 0, 5, 16)"})
		}
		for range g.IntN(3) {
			a.keys += g.pick([]string{"i", "i", "s"})
		}
		g.aggs = append(g.aggs, a)
	}
	if g.IntN(3) == 0 {
		g.u.decls = append(g.u.decls, fmt.Sprintf("inline long %s_i = %s * 3 + 1;", name, g.vars[0]),
			fmt.Sprintf("inline %s %s_f[long a, %s b] = a - b * b;", g.pick(intTypes), name, g.pick(intTypes)))
		g.inlines = true
	}
	g.u.clauses = append(g.u.clauses, init)
	for range 1 + g.IntN(3) {
		c := &clause{}
		g.p = g.IntN(3) == 0
		if g.p {
			c.body = append(c.body, &stmt{x: leaf('x', "this->p = (struct fz *)alloca(sizeof (struct fz))"), keepAlways: true})
			for _, m := range []string{"c", "uc", "s", "i", "b3", "b9", "b33", "l", "us", "ui", "arr[0]", "arr[1]", "arr[2]", "arr[3]"} {
				c.body = append(c.body, &stmt{x: leaf('x', "this->p->"+m+" = "+g.number()), keepAlways: true})
			}
			c.body = append(c.body, &stmt{x: leaf('x', "bcopy((void *)\"bytes in bu\", this->p->buf, 12)"), keepAlways: true})
		}
		// A predicate comes before the allocation of its clause.
		if p := g.p; g.IntN(3) == 0 {
			g.p = false
			c.pred = g.num(2)
			g.p = p
		}
		for range 2 + g.IntN(5) {
			c.body = append(c.body, g.stmt(2))
		}
		c.body = append(c.body, g.print())
		g.u.clauses = append(g.u.clauses, c)
	}
	return g.u
}

func (g *gen) number() string {
	n := g.pick(edges)
	if g.IntN(3) == 0 {
		n = fmt.Sprint(g.IntN(1 << 20))
	}
	if g.IntN(3) == 0 {
		return "(-" + n + ")"
	}
	return n
}

func (g *gen) text() string { return `"` + g.pick(texts) + `"` }

func (g *gen) print() *stmt {
	var format []string
	var kids []*node
	for range 1 + g.IntN(4) {
		if g.IntN(3) == 0 {
			format = append(format, g.pick([]string{"[%s]", "[%10s]", "[%.3s]"}))
			kids = append(kids, g.str(2))
		} else {
			format = append(format, g.pick([]string{"%d", "%x", "%u", "%o", "%i", "%5d", "%-5d|", "%08x", "%+d", "%#x"}))
			kids = append(kids, g.num(3))
		}
	}
	n := &node{typ: 'x', text: []string{`printf("` + strings.Join(format, " ") + `\n"`}}
	for _, k := range kids {
		n.text[len(n.text)-1] += ", "
		n.kids = append(n.kids, k)
		n.text = append(n.text, "")
	}
	n.text[len(n.text)-1] += ")"
	return &stmt{x: n}
}

func (g *gen) stmt(depth int) *stmt {
	switch k := g.IntN(10); {
	case k == 0 && depth > 0:
		s := &stmt{isIf: true, x: g.num(2)}
		for range 1 + g.IntN(2) {
			s.then = append(s.then, g.stmt(depth-1))
		}
		if g.IntN(2) == 0 {
			s.alt = append(s.alt, g.stmt(depth-1))
		}
		return s
	case k == 1:
		return g.print()
	case k == 2:
		switch n := g.IntN(5); {
		case n == 0 && g.p:
			return &stmt{x: mk('x', "tracemem(this->p->arr, 16, %)", g.num(1))}
		case n <= 2:
			return &stmt{x: mk('x', "trace(%)", g.num(2))}
		}
		return &stmt{x: mk('x', "trace(%)", g.str(2))}
	case k <= 4 && len(g.aggs) > 0:
		a := g.aggs[g.IntN(len(g.aggs))]
		n := &node{typ: 'x', text: []string{a.name}}
		g.keys(n, a.keys)
		n.text[len(n.text)-1] += " = "
		before, after, hasArg := strings.Cut(a.fn, "%")
		n.text[len(n.text)-1] += before
		if hasArg {
			n.kids = append(n.kids, g.num(2))
			n.text = append(n.text, after)
		}
		return &stmt{x: n}
	case k <= 5:
		return &stmt{x: mk('x', "%", g.strAssign())}
	}
	return &stmt{x: mk('x', "%", g.assign(3))}
}

// keys appends a tuple to n.
func (g *gen) keys(n *node, sig string) {
	for i, k := range sig {
		sep := ", "
		if i == 0 {
			sep = "["
		}
		n.text[len(n.text)-1] += sep
		if k == 's' {
			n.kids = append(n.kids, g.str(1))
		} else {
			n.kids = append(n.kids, mk('i', "(long)(%)", g.num(1)))
		}
		n.text = append(n.text, "")
	}
	if sig != "" {
		n.text[len(n.text)-1] += "]"
	}
}

// element is an element of a random array of the kind, or nil.
func (g *gen) element(val byte) *node {
	if len(g.arrays) == 0 {
		return nil
	}
	a := g.arrays[g.IntN(len(g.arrays))]
	if a.val != val {
		return nil
	}
	n := &node{typ: val, text: []string{a.name}}
	for i, k := range a.keys {
		n.text[len(n.text)-1] += map[bool]string{true: "[", false: ", "}[i == 0]
		if k == 's' {
			n.kids = append(n.kids, g.str(1))
		} else {
			n.kids = append(n.kids, g.num(1))
		}
		n.text = append(n.text, "")
	}
	n.text[len(n.text)-1] += "]"
	return n
}

var members = []string{"c", "uc", "s", "i", "b3", "b9", "b33", "l", "us", "ui", "arr[0]", "arr[3]"}

// lvalue is a place for an integer.
func (g *gen) lvalue() *node {
	if g.IntN(4) == 0 {
		if n := g.element('i'); n != nil {
			return n
		}
	}
	if g.p && g.IntN(2) == 0 {
		return leaf('i', "this->p->"+g.pick(members))
	}
	if len(g.index) > 0 && g.IntN(5) == 0 {
		return mk('i', g.pick(g.index)+"[(%) & 3]", g.num(1))
	}
	return leaf('i', g.pick(g.vars))
}

func (g *gen) assign(depth int) *node {
	l := g.lvalue()
	switch g.IntN(6) {
	case 0:
		return mk('i', g.pick([]string{"%++", "%--", "++%", "--%"}), l)
	case 1:
		op := g.pick([]string{"+", "-", "*", "&", "|", "^", "<<", ">>"})
		return mk('i', "% "+op+"= %", l, g.num(depth-1))
	case 2:
		op := g.pick([]string{"/", "%"})
		n := mk('i', "% @= (%) | 1", l, g.num(depth-1))
		n.text[1] = strings.Replace(n.text[1], "@", op, 1)
		return n
	}
	return mk('i', "% = %", l, g.num(depth-1))
}

func (g *gen) strAssign() *node {
	if g.IntN(3) == 0 {
		if n := g.element('s'); n != nil {
			if g.IntN(4) == 0 {
				return mk('x', "% = 0", n)
			}
			return mk('s', "% = %", n, g.str(2))
		}
	}
	return mk('s', "% = %", leaf('s', g.pick(g.strs)), g.str(3))
}

// num is an integer expression.
func (g *gen) num(depth int) *node {
	if depth <= 0 {
		switch g.IntN(4) {
		case 0:
			return leaf('i', g.number())
		case 1:
			if g.p {
				return leaf('i', "this->p->"+g.pick(members))
			}
		}
		return leaf('i', g.pick(g.vars))
	}
	d := depth - 1
	switch g.IntN(25) {
	case 22:
		if g.inlines {
			if g.IntN(2) == 0 {
				return leaf('i', g.u.name+"_i")
			}
			return mk('i', g.u.name+"_f[%, %]", g.num(d), g.num(d))
		}
	case 23:
		if g.IntN(2) == 0 {
			return mk('i', "("+g.pick([]string{"strstr", "strtok"})+"(%, %) == NULL)", g.str(d), g.str(d))
		}
		return mk('i', "("+g.pick([]string{"strchr", "strrchr"})+"(%, (%) & 127) != NULL)", g.str(d), g.num(d))
	case 24:
		return mk('i', fmt.Sprintf("((char *)copyin(%d, 8))[(%%) & 7]", userAddr), g.num(d))
	case 0, 1, 2, 3:
		op := g.pick([]string{"+", "-", "*", "&", "|", "^"})
		return mk('i', "(% "+op+" %)", g.num(d), g.num(d))
	case 4, 5:
		op := g.pick([]string{"/", "%"})
		n := mk('i', "(% @ (% | 1))", g.num(d), g.num(d))
		n.text[1] = strings.Replace(n.text[1], "@", op, 1)
		return n
	case 6:
		return mk('i', "(% "+g.pick([]string{"<<", ">>"})+" (% & 63))", g.num(d), g.num(d))
	case 7, 8:
		op := g.pick([]string{"==", "!=", "<", "<=", ">", ">="})
		return mk('i', "(% "+op+" %)", g.num(d), g.num(d))
	case 9:
		op := g.pick([]string{"&&", "||", "^^"})
		return mk('i', "(% "+op+" %)", g.num(d), g.num(d))
	case 10:
		return mk('i', g.pick([]string{"(-(%))", "(~(%))", "(!(%))", "(+(%))"}), g.num(d))
	case 11, 12:
		return mk('i', "(("+g.pick(intTypes)+")(%))", g.num(d))
	case 13:
		return mk('i', "(% ? % : %)", g.num(d), g.num(d), g.num(d))
	case 14:
		return mk('i', "(%)", g.assign(d))
	case 15:
		op := g.pick([]string{"==", "!=", "<", "<=", ">", ">="})
		return mk('i', "(% "+op+" %)", g.str(d), g.str(d))
	case 16:
		return mk('i', "strlen(%)", g.str(d))
	case 17:
		switch g.IntN(4) {
		case 0:
			return mk('i', g.pick([]string{"index", "rindex"})+"(%, %)", g.str(d), g.str(d))
		case 1:
			return mk('i', g.pick([]string{"index", "rindex"})+"(%, %, (int)%)", g.str(d), g.str(d), g.num(d))
		case 2:
			return mk('i', "strtoll(%)", g.str(d))
		}
		return mk('i', "strtoll(%, "+g.pick([]string{"2", "8", "10", "16", "36"})+")", g.str(d))
	case 18:
		return mk('i', g.pick([]string{"htons", "htonl", "htonll", "ntohs", "ntohl", "ntohll", "getmajor", "getminor"})+"(%)", g.num(d))
	case 19:
		if n := g.element('i'); n != nil {
			return n
		}
	case 20:
		return mk('i', "(%, %)", g.num(d), g.num(d))
	case 21:
		if g.p {
			return mk('i', "this->p->arr[(%) & 3]", g.num(d))
		}
		if len(g.index) > 0 {
			return mk('i', g.pick(g.index)+"[(%) & 3]", g.num(d))
		}
	}
	return g.num(d)
}

// str is a string expression that is not NULL.
func (g *gen) str(depth int) *node {
	if depth <= 0 {
		switch g.IntN(8) {
		case 0, 1:
			return leaf('s', g.text())
		case 2:
			return leaf('s', g.pick([]string{"probename", "probeprov", "probefunc", "execname"}))
		}
		return leaf('s', g.pick(g.strs))
	}
	d := depth - 1
	switch g.IntN(16) {
	case 14:
		return leaf('s', fmt.Sprintf("copyinstr(%d)", userAddr+g.IntN(len(userText))))
	case 15:
		return mk('s', fmt.Sprintf("copyinstr(%d, (%%) & 31)", userAddr+g.IntN(len(userText))), g.num(d))
	case 0, 1:
		return mk('s', "strjoin(%, %)", g.str(d), g.str(d))
	case 2:
		return mk('s', "substr(%, (int)%)", g.str(d), g.num(d))
	case 3:
		return mk('s', "substr(%, (int)% & 7, (int)%)", g.str(d), g.num(d), g.num(d))
	case 4:
		return mk('s', g.pick([]string{"basename", "dirname", "cleanpath", "tolower", "toupper"})+"(%)", g.str(d))
	case 5, 6:
		if g.IntN(2) == 0 {
			return mk('s', "lltostr(%)", g.num(d))
		}
		return mk('s', "lltostr(%, "+g.pick([]string{"2", "8", "10", "16", "36"})+")", g.num(d))
	case 7:
		return mk('s', "(% ? % : %)", g.num(d), g.str(d), g.str(d))
	case 8:
		// NULL where there is none: the clause faults.
		return mk('s', g.pick([]string{"strchr", "strrchr"})+"(%, 'a')", g.str(d))
	case 9:
		return mk('s', g.pick([]string{"strstr", "strtok"})+"(%, %)", g.str(d), g.str(d))
	case 10:
		return mk('s', "json(%, "+g.pick([]string{`"k"`, `"k.n"`, `"k.n[1]"`, `"k.n[2]"`, `"x"`})+")", g.str(d))
	case 11:
		if n := g.element('s'); n != nil {
			return n
		}
	case 12:
		if g.p {
			return leaf('s', "stringof(this->p->buf)")
		}
	case 13:
		return mk('s', "(%)", g.strAssignTo(d))
	}
	return g.str(d)
}

func (g *gen) strAssignTo(d int) *node {
	return mk('s', "% = %", leaf('s', g.pick(g.strs)), g.str(d))
}
