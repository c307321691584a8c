package syntax

import (
	"strconv"
	"strings"
)

// A scanner turns D text into tokens, one at a time. D has two lexical worlds:
// the outermost level, where probe descriptions are one token each ("top"),
// and everything else. The parser says which world the next token is read in.
//
// The scanner is a plain value: the parser looks ahead by scanning with a copy.
type scanner struct {
	src  string // up to the first NUL byte
	nul  bool   // src was cut at a NUL byte
	off  int    // next byte to read
	file string
	main string // file before any line directive
	line int    // of off
	bol  int    // offset of the first byte of that line

	top     bool // read the next token as at the outermost level
	pred    bool // inside a predicate: a / may close it
	isType  func(name string) bool
	pspec   bool // at the outermost level, words are never type names
	parens  int  // open ( [ { so far
	bracks  int
	braces  int
	header  int // how deep in included files, by the markers of a preprocessor
	pragmas []*Pragma

	// The current token.
	tok  Token
	pos  Pos
	text string // as written
	val  string // Str: the value, escapes resolved; MacroTok, AggTok: the name
	num  uint64 // Int
	char bool   // Int: written as a character constant
	op   Token  // AssignOp: the operator before the =
	// EndPred: where what follows it begins. The / of a predicate is known by
	// that only, so this is where DTrace is when it says what is wrong before.
	after Pos
}

func wordSet(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

func newScanner(name, src string) scanner {
	src = strings.TrimPrefix(src, "\ufeff") // a byte order mark
	s := scanner{src: src, file: name, main: name, line: 1}
	if i := strings.IndexByte(src, 0); i >= 0 {
		s.src, s.nul = src[:i], true
	}
	return s
}

// here is the position of offset i, which lies on the current line.
func (s *scanner) here(i int) Pos { return Pos{s.file, s.line, i - s.bol + 1} }

// fail leaves the scanner with an error; Parse recovers it.
func fail(pos Pos, tag, format string, args ...any) {
	panic(Errorf(pos, tag, format, args...))
}

// near makes the error DTrace gives for a token that does not fit.
func (s *scanner) near() *Error {
	if s.tok == EOF {
		end := "end of input"
		if s.braces == 0 {
			end = "end-of-input" // the words differ in libdtrace, too
		}
		return Errorf(s.pos, "D_SYNTAX", "syntax error near %s", end)
	}
	text, _, _ := strings.Cut(s.text, "\n")
	return Errorf(s.pos, "D_SYNTAX", "syntax error near \"%s\"", text)
}

func (s *scanner) at(i int) byte {
	if i < len(s.src) {
		return s.src[i]
	}
	return 0
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == '\n'
}
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}
func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func isDescStart(c byte) bool {
	return isLetter(c) || c != 0 && strings.IndexByte(`-$:.?*\[]!`, c) >= 0
}

// isDesc also takes + and @, which occur in "func+0x10" and "func@plt".
func isDesc(c byte) bool { return isDescStart(c) || isDigit(c) || c == '`' || c == '+' || c == '@' }

func (s *scanner) newline(i int) { // i is the offset after the newline
	s.line++
	s.bol = i
}

// skip passes blanks, comments and control lines.
func (s *scanner) skip() {
	for s.off < len(s.src) {
		switch c := s.src[s.off]; {
		case c == '\n':
			s.off++
			s.newline(s.off)
		case isSpace(c):
			s.off++
		case c == '\\' && !s.top && s.at(s.off+1) == '\n':
			s.off += 2
			s.newline(s.off)
		case c == '\\' && !s.top && s.at(s.off+1) == '\r' && s.at(s.off+2) == '\n':
			s.off += 3
			s.newline(s.off)
		case c == '/' && s.at(s.off+1) == '/':
			n := strings.IndexByte(s.src[s.off:], '\n')
			if n < 0 {
				n = len(s.src) - s.off
			}
			s.off += n
		case c == '/' && s.at(s.off+1) == '*':
			s.comment()
		case c == '#' && strings.TrimSpace(s.src[s.bol:s.off]) == "":
			s.control()
		default:
			return
		}
	}
}

func (s *scanner) comment() {
	for i := s.off + 2; i < len(s.src); i++ {
		switch s.src[i] {
		case '\n':
			s.newline(i + 1)
		case '*':
			if s.at(i+1) == '/' {
				s.off = i + 2
				return
			}
		case '/':
			if s.at(i+1) == '*' {
				fail(s.here(i), "D_SYNTAX", "/* encountered inside a comment")
			}
		}
	}
	fail(s.here(len(s.src)), "D_SYNTAX", "end-of-file encountered before matching */")
}

// next reads the next token.
func (s *scanner) next() {
	s.skip()
	s.pos = s.here(s.off)
	s.text, s.val, s.num, s.char = "", "", 0, false
	if s.off >= len(s.src) {
		s.tok = EOF
		if s.nul {
			e := Errorf(s.pos, "D_SYNTAX", "syntax error near end-of-input")
			e.Hint = "the source holds a NUL byte here"
			panic(e)
		}
		return
	}
	start := s.off
	c := s.src[start]
	if s.top {
		s.nextTop(c)
		return
	}
	switch {
	case isLetter(c) || c == '`':
		s.ident()
	case isDigit(c) || c == '.' && isDigit(s.at(start+1)):
		s.number()
	case c == '"':
		s.str()
	case c == '\'':
		s.charConst()
	case c == '$':
		s.macro()
	case c == '@':
		i := start + 1
		if isLetter(s.at(i)) {
			for isLetter(s.at(i)) || isDigit(s.at(i)) {
				i++
			}
		}
		s.tok, s.off, s.text, s.val = AggTok, i, s.src[start:i], s.src[start+1:i]
	default:
		s.operator(c)
	}
}

func (s *scanner) ident() {
	i := s.off
	for c := s.at(i); isLetter(c) || isDigit(c) || c == '`'; c = s.at(i) {
		i++
	}
	s.text = s.src[s.off:i]
	s.off = i
	s.tok = Ident
	if keywords[s.text] {
		s.tok = Keyword
	}
}

// number reads an integer constant with its suffixes; those of floating point are
// refused.
func (s *scanner) number() {
	start := s.off
	i := start
	hex := s.at(i) == '0' && s.at(i+1)|0x20 == 'x' && isHex(s.at(i+2))
	if hex {
		for i += 2; isHex(s.at(i)); i++ {
		}
	} else {
		for isDigit(s.at(i)) {
			i++
		}
	}
	end := i // of the digits
	if s.at(i)|0x20 == 'u' {
		i++
	}
	for n := 0; n < 2 && s.at(i)|0x20 == 'l'; n++ {
		i++
	}
	if !hex {
		// The longest match wins, as in lex: what reads on as a floating-point
		// constant is one.
		f := end
		if s.at(f) == '.' {
			for f++; isDigit(s.at(f)); f++ {
			}
		}
		if s.at(f)|0x20 == 'e' {
			e := f + 1
			if s.at(e) == '+' || s.at(e) == '-' {
				e++
			}
			if isDigit(s.at(e)) {
				for isDigit(s.at(e)) {
					e++
				}
				f = e
			}
		}
		if c := s.at(f) | 0x20; f > start && (c == 'f' || c == 'l') {
			f++
		}
		if f > i {
			fail(s.pos, "D_SYNTAX", "floating-point constants are not permitted")
		}
	}
	s.tok, s.off, s.text = Int, i, s.src[start:i]
	digits := s.src[start:end]
	base := 10
	switch {
	case hex:
		digits, base = digits[2:], 16
	case digits[0] == '0':
		base = 8
		if j := strings.IndexAny(digits, "89"); j >= 0 {
			fail(s.pos, "D_INT_DIGIT", "constant %s contains invalid digit %c", s.text, digits[j])
		}
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		fail(s.pos, "D_INT_OFLOW", "constant %s results in integer overflow", s.text)
	}
	s.num = v
}

// quoted finds the end of the string or character constant at s.off.
func (s *scanner) quoted(nlTag, nlMsg string) {
	q := s.src[s.off]
	for i := s.off + 1; i < len(s.src); i++ {
		switch s.src[i] {
		case '\n': // DTrace has read it when it complains
			fail(Pos{s.file, s.line + 1, 1}, nlTag, "%s", nlMsg)
		case '\\':
			if s.at(i+1) != '\n' {
				i++
			}
		case q:
			s.text = s.src[s.off : i+1]
			s.val = unescape(s.text[1 : len(s.text)-1])
			s.off = i + 1
			return
		}
	}
	fail(s.pos, "D_SYNTAX", "syntax error near \"%c\"", q)
}

// str reads a string constant. As in C, the value ends at a NUL.
func (s *scanner) str() {
	s.quoted("D_STR_NL", "newline encountered in string literal")
	s.tok = Str
	s.val, _, _ = strings.Cut(s.val, "\x00")
}

// charConst reads a character constant: an integer of up to eight characters,
// the first one most significant.
func (s *scanner) charConst() {
	s.quoted("D_CHR_NL", "newline encountered in character constant")
	if len(s.text) == 2 {
		fail(s.pos, "D_CHR_NULL", "empty character constant")
	}
	if len(s.val) > 8 {
		fail(s.pos, "D_CHR_OFLOW", "character constant is too long")
	}
	s.tok, s.char = Int, true
	for i := range len(s.val) {
		s.num = s.num<<8 | uint64(s.val[i])
	}
}

// unescape resolves the escapes of C in the inside of a constant. An unknown
// escape stands for the character after the backslash.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' || i+1 == len(s) {
			b = append(b, c)
			continue
		}
		i++
		switch c = s[i]; c {
		case 'a':
			c = '\a'
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'v':
			c = '\v'
		case '0', '1', '2', '3', '4', '5', '6', '7':
			v := 0
			j := i
			for ; j < len(s) && j < i+3 && '0' <= s[j] && s[j] <= '7'; j++ {
				v = v<<3 | int(s[j]-'0')
			}
			c, i = byte(v), j-1
		case 'x':
			v, j := 0, i+1
			for ; j < len(s) && isHex(s[j]); j++ {
				d := int(s[j]|0x20) - 'a' + 10
				if isDigit(s[j]) {
					d = int(s[j] - '0')
				}
				v = v<<4&0xff | d
			}
			if j > i+1 {
				c, i = byte(v), j-1
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// macro reads $name, $1, $$name or $$1.
func (s *scanner) macro() {
	i := s.off + 1
	if s.at(i) == '$' {
		i++
	}
	start := i
	if isDigit(s.at(i)) {
		for isDigit(s.at(i)) {
			i++
		}
	} else {
		for isLetter(s.at(i)) || i > start && isDigit(s.at(i)) {
			i++
		}
	}
	if i == start {
		fail(s.pos, "D_SYNTAX", "syntax error near \"$\"")
	}
	s.tok, s.text, s.val = MacroTok, s.src[s.off:i], s.src[start:i]
	s.off = i
}

// operators by length, the longest match first.
var operators = [...][]struct {
	text string
	tok  Token
	op   Token
}{
	{{"<<=", AssignOp, Shl}, {">>=", AssignOp, Shr}, {"...", Ellipsis, 0}},
	{{"&&", LAnd, 0}, {"^^", LXor, 0}, {"||", LOr, 0}, {"==", Eq, 0}, {"!=", Ne, 0}, {"<=", Le, 0}, {">=", Ge, 0},
		{"<<", Shl, 0}, {">>", Shr, 0}, {"->", Arrow, 0}, {"++", Inc, 0}, {"--", Dec, 0},
		{"+=", AssignOp, Add}, {"-=", AssignOp, Sub}, {"*=", AssignOp, Mul}, {"/=", AssignOp, Div}, {"%=", AssignOp, Mod},
		{"&=", AssignOp, And}, {"^=", AssignOp, Xor}, {"|=", AssignOp, Or}},
	{{"|", Or, 0}, {"^", Xor, 0}, {"&", And, 0}, {"<", Lt, 0}, {">", Gt, 0}, {"+", Add, 0}, {"-", Sub, 0}, {"*", Mul, 0},
		{"/", Div, 0}, {"%", Mod, 0}, {"~", Not, 0}, {"!", LNot, 0}, {"?", Question, 0}, {":", Colon, 0}, {".", Dot, 0}, {"=", Assign_, 0},
		{",", Comma, 0}, {";", Semi, 0}, {"(", LParen, 0}, {")", RParen, 0}, {"[", LBrack, 0}, {"]", RBrack, 0}, {"{", LBrace, 0}, {"}", RBrace, 0}},
}

func (s *scanner) operator(c byte) {
	rest := s.src[s.off:]
	for i := range operators {
		for _, o := range operators[i] {
			if o.text[0] == c && strings.HasPrefix(rest, o.text) {
				s.tok, s.op, s.text = o.tok, o.op, o.text
				s.off += len(o.text)
				s.nesting()
				return
			}
		}
	}
	fail(s.pos, "D_SYNTAX", "syntax error near \"%c\"", c)
}

// nesting counts brackets, and decides whether a / ends the predicate.
func (s *scanner) nesting() {
	extra := func(n int) {
		if n < 0 {
			fail(s.pos, "D_SYNTAX", "extra %s in input stream", s.text)
		}
	}
	switch s.tok {
	case LParen:
		s.parens++
	case RParen:
		s.parens--
		extra(s.parens)
	case LBrack:
		s.bracks++
	case RBrack:
		s.bracks--
		extra(s.bracks)
	case LBrace:
		s.braces++
	case RBrace:
		s.braces--
		extra(s.braces)
	case Div:
		if !s.pred {
			return
		}
		// A / ends the predicate when a body, another / or nothing follows.
		t := *s
		t.skip()
		if c := t.at(t.off); c != 0 && c != ';' && c != '{' && c != '/' {
			return
		}
		s.after = t.here(t.off)
		if s.parens != 0 {
			fail(s.after, "D_SYNTAX", "closing ) expected in predicate before /")
		}
		if s.bracks != 0 {
			fail(s.after, "D_SYNTAX", "closing ] expected in predicate before /")
		}
		s.tok = EndPred
	}
}

// skipBody passes over the body of a C function, which begins with the current
// token. D has no use for it, but headers define such functions.
func (s *scanner) skipBody() {
	start := s.pos
	for depth := 1; s.off < len(s.src); {
		s.skip()
		switch c := s.at(s.off); c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				s.braces--
				s.tok, s.text, s.pos = RBrace, "}", s.here(s.off)
				s.off++
				return
			}
		case '"', '\'':
			s.pos = s.here(s.off)
			s.quoted("D_STR_NL", "newline encountered in string literal")
			continue
		}
		s.off++
	}
	fail(start, "D_SYNTAX", "end-of-file encountered before the end of the function that begins here")
}

// nextTop reads a token at the outermost level: a probe description, a probe
// identifier, the first word of a declaration, or one of / , { .
func (s *scanner) nextTop(c byte) {
	start := s.off
	switch {
	case isDigit(c):
		s.number()
		return
	case isDescStart(c):
	case c == '/':
		s.tok, s.text = Div, "/"
		s.off++
		return
	case c == ',':
		s.tok, s.text = Comma, ","
		s.off++
		return
	case c == '{':
		s.tok, s.text = LBrace, "{"
		s.off++
		s.nesting()
		return
	default:
		fail(s.pos, "D_SYNTAX", "syntax error near \"%c\"", c)
	}
	i := start
	colons, inGo := 0, false
	for i < len(s.src) {
		c := s.src[i]
		if c == '/' && colons == 1 && s.src[i-1] == ':' {
			if n := pathLen(s.src[i:], ""); n > 0 {
				i += n
				continue
			}
		}
		if c == '/' && inGo && colons == 1 && pathLen(s.src[i:], "?%") > 0 || inGo && isGoDesc(c) {
			i++
			continue
		}
		if !isDesc(c) {
			break
		}
		if c == ':' {
			if colons++; colons == 1 {
				inGo = isGoProvider(s.src[start:i])
			}
		}
		i++
	}
	text := s.src[start:i]
	s.text, s.tok, s.off = text, Desc, i
	if declStart[text] {
		s.tok = Keyword
		return
	}
	// "int*" may begin "int*x;" as well as "int*{…}". A word that could be a
	// type is one, unless what follows can only continue a description. With
	// pspec it is a description, unless what follows can only be a declaration.
	if s.pspec && !declares(s.src[i:]) || strings.ContainsAny(text, ":-.?!`$[]\\") || text == "BEGIN" || text == "END" || text == "ERROR" {
		return
	}
	word, _, star := strings.Cut(text, "*")
	if word == "" || !typeWords[word] && !s.isType(word) {
		return
	}
	t := *s
	t.off = i
	t.skip()
	if c := t.at(t.off); c == 0 && (!star || text[len(text)-1] == '*') || c == '/' || c == ',' || c == '{' {
		return
	}
	if star {
		s.text, s.off = word, start+len(word)
	}
	s.tok = Ident
	if keywords[word] {
		s.tok = Keyword
	}
}

// declares reports whether a word before rest can only begin a declaration: a
// semicolon comes before any predicate or body.
func declares(rest string) bool {
	i := strings.IndexAny(rest, ";{/")
	return i >= 0 && rest[i] == ';'
}

// pathLen is the length of the path at the start of p if a colon ends it: the
// module part of "uprobe:/usr/lib/libc.so.6:malloc:entry". No predicate can
// look like it, for a predicate holds no colon without a question mark. more are
// characters that it may hold beside those of file names.
func pathLen(p, more string) int {
	if len(p) < 2 || p[1] == '/' || p[1] == '*' {
		return 0
	}
	for i := range len(p) {
		switch c := p[i]; {
		case c == ':':
			return i
		case c == '/' || isLetter(c) || isDigit(c) || strings.IndexByte("-+.@~*[]!$"+more, c) >= 0:
		default:
			return 0
		}
	}
	return 0
}

// isGoProvider reports whether a description's first part is go, go1234, go* or
// go$target: the names of Go's packages and functions have letters of their own.
func isGoProvider(p string) bool {
	rest, ok := strings.CutPrefix(p, "go")
	return ok && (rest == "" || rest[0] == '$' || strings.Trim(rest, "0123456789*?[]!-") == "")
}

// isGoDesc takes what names of Go have beside what those of C have:
// "net/http:(*Server).Serve", "example.org/a~b:f", "main:größe".
func isGoDesc(c byte) bool { return c == '(' || c == ')' || c == '~' || c == '%' || c >= 0x80 }

// word is a part of a control line.
type word struct {
	text string // strings unquoted
	kind Token  // Ident, Int or Str
	pos  Pos
}

// words splits the text of a control line, which begins at the offset at.
func (s *scanner) words(line string, at int) []word {
	var out []word
	for i := 0; i < len(line); {
		c := line[i]
		pos := s.here(at + i)
		if isSpace(c) {
			i++
			continue
		}
		if c == '"' {
			t := *s
			t.off, t.pos = at+i, pos
			t.quoted("D_STR_NL", "newline encountered in string literal")
			out = append(out, word{t.val, Str, pos})
			i = t.off - at
			continue
		}
		j := i
		for j < len(line) && !isSpace(line[j]) && line[j] != '"' {
			j++
		}
		w := word{line[i:j], Ident, pos}
		if _, err := strconv.ParseUint(w.text, 0, 64); err == nil && isDigit(c) {
			w.kind = Int
		}
		out = append(out, w)
		i = j
	}
	return out
}

// control reads a control line: the # is at s.off.
func (s *scanner) control() {
	pos := s.here(s.off)
	rest := s.src[s.off+1:]
	n := strings.IndexByte(rest, '\n')
	if strings.HasPrefix(rest, "!") { // #! lines are for the shell
		if n < 0 {
			s.off = len(s.src)
		} else {
			s.off += 1 + n
		}
		return
	}
	if n < 0 {
		fail(pos, "D_SYNTAX", "end-of-file encountered before end of control line")
	}
	line, at := rest[:n], s.off+1
	s.off += 1 + n // at the newline
	words := s.words(line, at)
	if len(words) == 0 {
		return // a null directive
	}
	if words[0].kind == Str {
		fail(pos, "D_PRAGCTL_INVAL", "invalid control directive")
	}
	if s.directive(pos, words) {
		return
	}
	if name := words[0].text; name != "pragma" {
		e := Errorf(pos, "D_PRAGCTL_INVAL", "invalid control directive: #%s", name)
		switch name {
		case "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif":
			e.Hint = "-C runs the C preprocessor"
		}
		panic(e)
	}
	args := words[1:]
	if len(args) == 0 || s.directive(pos, args) {
		return
	}
	if args[0].kind == Str {
		fail(pos, "D_PRAGCTL_INVAL", "invalid control directive")
	}
	if args[0].text == "D" {
		if len(args) == 1 || s.directive(pos, args[1:]) {
			return
		}
		s.pragmaD(pos, args[1].text, args[2:])
	}
	pr := &Pragma{node: node{pos}, Text: strings.TrimSpace(line)}
	for _, a := range args {
		pr.Words = append(pr.Words, a.text)
		pr.Kinds = append(pr.Kinds, a.kind)
	}
	s.pragmas = append(s.pragmas, pr)
}

// directive obeys #line, also as a bare number, #ident and #error, which may
// follow #, #pragma and #pragma D, and reports whether it was one of them.
func (s *scanner) directive(pos Pos, words []word) bool {
	switch w, args := words[0], words[1:]; {
	case w.kind == Int:
		s.lineDirective(pos, words)
	case w.kind == Str:
		return false
	case w.text == "line":
		s.lineDirective(pos, args)
	case w.text == "ident":
	case w.text == "error":
		var b strings.Builder
		for _, a := range args {
			if a.kind != Int {
				b.WriteString(a.text)
				b.WriteByte(' ')
			}
		}
		fail(pos, "D_PRAGERR", "#error: %s", b.String())
	default:
		return false
	}
	return true
}

// lineDirective sets the place that the next line has.
func (s *scanner) lineDirective(pos Pos, args []word) {
	malformed := len(args) == 0 || args[0].kind != Int || len(args) > 1 && args[1].kind != Str
	for i := 2; i < len(args); i++ {
		malformed = malformed || args[i].kind != Int
	}
	if malformed {
		fail(pos, "D_PRAGMA_MALFORM", "malformed #line <line> [ [\"file\"] state ]")
	}
	n, err := strconv.ParseUint(args[0].text, 0, 31)
	if err != nil {
		fail(pos, "D_INT_OFLOW", "constant %s results in integer overflow", args[0].text)
	}
	s.line = int(n) - 1 // skip counts the newline
	if len(args) > 1 {
		s.file = args[1].text
		if strings.HasPrefix(s.file, "/dev/fd/") || s.file == "" {
			s.file = s.main
		}
	}
	for _, a := range args[min(2, len(args)):] {
		switch {
		case a.text == "1":
			s.header++
		case a.text == "2" && s.header > 0:
			s.header--
		}
	}
}

// pragmaD checks the form of #pragma D name args…; what it means is for the
// checker, but that an option changes how the rest is read.
func (s *scanner) pragmaD(pos Pos, name string, args []word) {
	is := func(i int, k Token) bool { return i < len(args) && args[i].kind == k }
	switch name {
	case "option":
		if !is(0, Ident) {
			fail(pos, "D_PRAGMA_MALFORM", "malformed #pragma option <option>=<val>")
		}
		if len(args) > 1 {
			fail(pos, "D_PRAGMA_MALFORM", "superfluous arguments specified for #pragma option")
		}
		if args[0].text == "pspec" {
			s.pspec = true // from here on
		}
	case "attributes":
		if !is(0, Ident) || !is(1, Ident) || args[1].text == "provider" && (!is(2, Ident) || !is(3, Ident)) {
			fail(pos, "D_PRAGMA_MALFORM", "malformed #pragma attributes <attributes> <ident>")
		}
	case "binding":
		if !is(0, Str) || !is(1, Ident) {
			fail(pos, "D_PRAGMA_MALFORM", "malformed #pragma binding \"version\" <ident>")
		}
	case "depends_on":
		if !is(0, Ident) || !is(1, Ident) {
			fail(pos, "D_PRAGMA_MALFORM", "malformed #pragma depends_on <class> <name>")
		}
		if c := args[0].text; c != "provider" && c != "module" && c != "library" {
			fail(pos, "D_PRAGMA_INVAL", "invalid class %s specified by #pragma depends_on", c)
		}
	default:
		fail(pos, "D_PRAGMA_INVAL", "invalid D pragma: %s", name)
	}
}
