// Package cpp is a C preprocessor for D programs: what dtrace(1) runs over a
// script with -C, and what -D, -U, -I, -H and -X reach. It needs no program
// of the system.
//
// The output has the line structure of the input: directives and skipped lines
// become empty lines, and "# line "file"" markers surround included files, so
// that the D compiler's positions are those of the sources. Text that is no
// macro call passes through to the byte, because a probe description means
// what it looks like. #pragma, #ident and #line lines stay for the D compiler.
package cpp

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Limits against programs that would never end.
const (
	maxDepth  = 200     // of included files
	maxNest   = 256     // of macro calls in arguments of macro calls
	maxTokens = 1 << 20 // made by macro expansion
	maxErrors = 100     // that are told at once
)

// Def is one -D or -U, in the order of the command line.
type Def struct {
	Undef bool
	Text  string // NAME, NAME=text or NAME(parameters)=text
}

// Options of a run.
type Options struct {
	Defs    []Def
	Include []string // -I, searched before the system's directories
	// System are the directories of <…>; nil means /usr/include and its like,
	// after the few headers that C compilers bring and this package holds.
	System []string
	// Conform is the letter of -X: 'a' and 't' (also 0) define __STDC__ as 0,
	// 'c' as 1, 's' not at all.
	Conform byte
	// ILP32 has the macros of a compiler for 32-bit x86.
	ILP32 bool
	// Version is __SUNW_D_VERSION: major<<24 | minor<<12 | micro.
	Version uint32
	// Included is told every file that #include opens, for -H; may be nil.
	// Depth is 1 for a file the program itself includes.
	Included func(depth int, path string)
	// Warn is told of #warning lines and redefinitions; may be nil.
	Warn func(err *Error)
	// ReadFile reads an included file; nil means os.ReadFile.
	ReadFile func(path string) ([]byte, error)
}

// builtinDir stands for the embedded headers in names of files.
const builtinDir = "<built-in>"

//go:embed include
var builtinHeaders embed.FS

// Error is an error at a line of a source.
type Error struct {
	File string
	Line int
	Msg  string
	More []*Error // what else is wrong
}

func (e *Error) Error() string {
	if e.File == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
	}
	return fmt.Sprintf("\"%s\", line %d: %s", e.File, e.Line, e.Msg)
}

// Process preprocesses a program. The name serves __FILE__, the markers, and
// the search for "…" includes. An error is an *Error.
func Process(name string, src []byte, opts Options) (out []byte, err error) {
	p := &processor{opts: opts, macros: map[string]*macro{}, once: map[string]bool{}}
	if opts.System == nil {
		p.opts.System = []string{builtinDir, "/usr/local/include", "/usr/include/x86_64-linux-gnu", "/usr/include"}
	}
	if opts.ReadFile == nil {
		p.opts.ReadFile = os.ReadFile
	}
	defer func() {
		if x := recover(); x != nil {
			e, ok := x.(fatal)
			if !ok {
				panic(x)
			}
			out, err = nil, p.all(e.Error)
		}
	}()
	p.predefine()
	p.try(func() { p.run(p.open(name, src)) })
	if len(p.errs) > 0 {
		return nil, p.all()
	}
	return []byte(p.out.String()), nil
}

// all makes one error of those met so far and the last.
func (p *processor) all(last ...*Error) *Error {
	errs := append(p.errs, last...)
	errs[0].More = errs[1:]
	return errs[0]
}

type processor struct {
	opts   Options
	macros map[string]*macro
	once   map[string]bool // paths of files that said #pragma once
	out    strings.Builder
	last   token // written last on this line
	cur    *file
	tokens int // made so far by expansion
	args   int // read so far as arguments
	nest   int
	count  int // __COUNTER__
	now    time.Time
	errs   []*Error // that the run went on after
}

// file is a source being read, comments and line splices already gone.
type file struct {
	name  string
	path  string // name before any #line
	dir   string // of the real file, for "…" includes
	lines []string
	next  int // index of the next line
	delta int // added to index+1 to give the line number
	depth int
	dirIx int // of the search directory it was found in, for #include_next; -1: none
	conds []cond
}

// cond is an open #if.
type cond struct {
	line  int
	live  bool // this group is compiled
	taken bool // this or an earlier group was
	outer bool // the text around is compiled
	els   bool // #else was seen
}

func (f *file) line() int { return f.next + f.delta }

func (f *file) skipping() bool {
	return len(f.conds) > 0 && !f.conds[len(f.conds)-1].live
}

// fail gives the current line up: the run goes on with the next one, to tell of
// all that is wrong at once.
func (p *processor) fail(format string, args ...any) {
	panic(p.errorf(format, args...))
}

// fatal is an error that ends the run.
type fatal struct{ *Error }

func (p *processor) fatal(format string, args ...any) {
	panic(fatal{p.errorf(format, args...)})
}

func (p *processor) errorf(format string, args ...any) *Error {
	e := &Error{Msg: fmt.Sprintf(format, args...)}
	if p.cur != nil {
		e.File, e.Line = p.cur.name, p.cur.line()
	}
	return e
}

// try runs a part of the work, and notes what is wrong with it.
func (p *processor) try(part func()) {
	f, nest := p.cur, p.nest
	defer func() {
		if x := recover(); x != nil {
			e, ok := x.(*Error)
			if !ok {
				panic(x)
			}
			p.errs = append(p.errs, e)
			p.cur, p.nest = f, nest
			if len(p.errs) >= maxErrors {
				panic(fatal{&Error{File: e.File, Line: e.Line, Msg: "too many errors"}})
			}
		}
	}()
	part()
}

func (p *processor) warn(format string, args ...any) {
	if p.opts.Warn != nil {
		p.opts.Warn(&Error{File: p.cur.name, Line: p.cur.line(), Msg: fmt.Sprintf(format, args...)})
	}
}

// The data models of x86-64 and of the i386.
const (
	lp64 = `
__SIZEOF_LONG__ 8
__SIZEOF_POINTER__ 8
__SIZEOF_SIZE_T__ 8
__LONG_MAX__ 0x7fffffffffffffffL
__WCHAR_MAX__ 0x7fffffff
__SIZE_TYPE__ long unsigned int
__PTRDIFF_TYPE__ long int
__WCHAR_TYPE__ int`
	ilp32 = `
__SIZEOF_LONG__ 4
__SIZEOF_POINTER__ 4
__SIZEOF_SIZE_T__ 4
__LONG_MAX__ 0x7fffffffL
__WCHAR_MAX__ 0x7fffffffL
__SIZE_TYPE__ unsigned int
__PTRDIFF_TYPE__ int
__WCHAR_TYPE__ long int`
)

// compiler is what else system headers expect of a C compiler: its words for what
// D lacks or spells otherwise.
const compiler = `
__CHAR_BIT__ 8
__SIZEOF_SHORT__ 2
__SIZEOF_INT__ 4
__SIZEOF_LONG_LONG__ 8
__INT_MAX__ 0x7fffffff
__LONG_LONG_MAX__ 0x7fffffffffffffffLL
__WCHAR_MIN__ (-__WCHAR_MAX__ - 1)
__WINT_TYPE__ unsigned int
__ORDER_LITTLE_ENDIAN__ 1234
__ORDER_BIG_ENDIAN__ 4321
__BYTE_ORDER__ __ORDER_LITTLE_ENDIAN__
__signed signed
__signed__ signed
__const const
__const__ const
__volatile volatile
__volatile__ volatile
__restrict restrict
__restrict__ restrict
__extension__
__inline
__inline__
_Noreturn
__attribute__(x)
__asm__(x)
`

// predefine defines what is defined before the first line.
func (p *processor) predefine() {
	p.cur = &file{name: "<command line>", next: 1}
	def := func(s string) { p.define(tokenize(s)) }
	machine, model := "__amd64 __amd64__ __x86_64 __x86_64__ __LP64__ _LP64", lp64
	if p.opts.ILP32 {
		machine, model = "__i386 __i386__ __ILP32__ _ILP32", ilp32
	}
	for _, name := range strings.Fields("__linux __linux__ __unix __unix__ __SVR4 __SUNW_D " + machine) {
		def(name + " 1")
	}
	for _, s := range strings.Split(strings.TrimSpace(model+compiler), "\n") {
		def(s)
		if name := tokenize(s)[0].text; name[2] >= 'a' { // __restrict, not __INT_MAX__
			p.macros[name].keyword = true
		}
	}
	def(fmt.Sprintf("__SUNW_D_VERSION 0x%08x", p.opts.Version))
	switch p.opts.Conform {
	case 'c':
		def("__STDC__ 1")
	case 's':
	default:
		def("__STDC__ 0")
	}
	for _, name := range []string{"__LINE__", "__FILE__", "__DATE__", "__TIME__", "__COUNTER__", "__INCLUDE_LEVEL__"} {
		p.macros[name] = &macro{name: name, builtin: true}
	}
	for _, d := range p.opts.Defs {
		name, body, ok := strings.Cut(d.Text, "=")
		switch {
		case d.Undef:
			delete(p.macros, name)
			continue
		case !ok:
			body = "1"
		}
		toks := tokenize(name)
		if len(toks) == 0 || toks[0].kind != ident {
			p.fail("macro names must be identifiers: -D%s", d.Text)
		}
		delete(p.macros, toks[0].text)
		def(name + " " + strings.ReplaceAll(body, "\n", " "))
	}
	p.cur = nil
}

// open prepares a source: CR LF becomes LF, spliced lines are joined, comments
// become a blank; the newlines these take follow at the end of the line, so
// that later lines keep their numbers.
func (p *processor) open(name string, src []byte) *file {
	f := &file{name: name, path: name, dir: filepath.Dir(name), dirIx: -1}
	s := strings.ReplaceAll(string(src), "\r\n", "\n")
	if strings.HasPrefix(s, "#!") { // for the shell
		if i := strings.IndexByte(s, '\n'); i >= 0 {
			s = s[i:]
		} else {
			s = ""
		}
	}
	var b strings.Builder
	owed := 0
	end := func() {
		f.lines = append(f.lines, b.String())
		b.Reset()
		for ; owed > 0; owed-- {
			f.lines = append(f.lines, "")
		}
	}
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '\n':
			end()
			i++
		case c == '\\' && strings.HasPrefix(s[i:], "\\\n"):
			owed++
			i += 2
		case c == '/' && strings.HasPrefix(s[i:], "//"):
			for i < len(s) && s[i] != '\n' {
				if strings.HasPrefix(s[i:], "\\\n") {
					owed++
					i++
				}
				i++
			}
		case c == '/' && strings.HasPrefix(s[i:], "/*"):
			j := strings.Index(s[i+2:], "*/")
			if j < 0 {
				p.cur = f
				f.next = len(f.lines) + owed + 1
				p.fail("unterminated comment")
			}
			owed += strings.Count(s[i+2:i+2+j], "\n")
			b.WriteByte(' ')
			i += j + 4
		case c == '"' || c == '\'':
			// Splices inside do not count against the end of the line.
			q, n := quoted(s[i:])
			if n == 0 {
				b.WriteByte(c)
				i++
				break
			}
			b.WriteString(q)
			owed += strings.Count(s[i:i+n], "\\\n")
			i += n
		default:
			b.WriteByte(c)
			i++
		}
	}
	if b.Len() > 0 || owed > 0 {
		end()
	}
	return f
}

// quoted gives the constant at the start of s, splices removed, and how many
// bytes of s it takes; 0 if it does not end on its line.
func quoted(s string) (string, int) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\n':
			return "", 0
		case c == '\\' && i+1 < len(s) && s[i+1] == '\n':
			i++
			continue
		case c == '\\' && i+1 < len(s):
			b.WriteByte(c)
			i++
			c = s[i]
		case i > 0 && c == s[0]:
			b.WriteByte(c)
			return b.String(), i + 1
		}
		b.WriteByte(c)
	}
	return "", 0
}

// marker writes a line marker. Flag 1 enters a file, 2 returns to one.
func (p *processor) marker(line int, name, flag string) {
	fmt.Fprintf(&p.out, "# %d \"%s\"%s\n", line, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name), flag)
	p.last = token{}
}

// run processes a whole file.
func (p *processor) run(f *file) {
	outer := p.cur
	p.cur = f
	flag := ""
	if f.depth > 0 {
		flag = " 1"
	}
	p.marker(1, f.name, flag)
	for f.next < len(f.lines) {
		s := f.lines[f.next]
		start := f.next
		f.next++
		p.try(func() {
			if t := strings.TrimLeft(s, " \t\f\v"); strings.HasPrefix(t, "#") {
				p.directive(t[1:])
			} else if !f.skipping() {
				p.text(s)
			}
		})
		for ; start < f.next; start++ { // a macro call may have taken several lines
			p.out.WriteByte('\n')
		}
		p.last = token{}
		if p.out.Len() > 1<<28 {
			p.fatal("the output is too large")
		}
	}
	if n := len(f.conds); n > 0 {
		f.next = f.conds[n-1].line - f.delta
		if f.conds[n-1].els {
			p.fail("unterminated #else")
		}
		p.fail("unterminated #if")
	}
	p.cur = outer
}

// text expands a line of program text and what a macro call takes after it.
func (p *processor) text(s string) {
	in := &input{p: p, file: p.cur}
	in.push(tokenize(s))
	for {
		t, ok := in.next()
		if !ok {
			p.out.WriteString(in.trail)
			return
		}
		if p.expand(in, t) {
			continue
		}
		p.write(t)
	}
}

// write puts a token out, with a blank where expansion would glue it to the
// one before.
func (p *processor) write(t token) {
	if t.ws == "" && (t.made || p.last.made) && glues(p.last, t) {
		p.out.WriteByte(' ')
	}
	p.out.WriteString(t.ws)
	p.out.WriteString(t.text)
	if t.text != "" || t.ws != "" {
		p.last = t
	} else {
		p.last.made = true // an empty expansion lies between
	}
}

func glues(a, b token) bool {
	if a.text == "" || b.text == "" {
		return false
	}
	word := func(t token) bool { return t.kind == ident || t.kind == number }
	if word(a) && word(b) {
		return true
	}
	x, y := a.text[len(a.text)-1], b.text[0]
	switch {
	case a.kind != punct:
		return false
	case x == '.' && b.kind == number:
		return true
	case b.kind != punct:
		return false
	case y == '=':
		return strings.IndexByte("+-*/%&|^<>!=", x) >= 0
	}
	return x == y && strings.IndexByte("+-&|<>^/#.", x) >= 0 || x == '-' && y == '>' || x == '/' && y == '*' || x == '*' && y == '/'
}

// directive obeys a line that began with #; s is what follows.
func (p *processor) directive(s string) {
	f := p.cur
	toks := trim(tokenize(s))
	name := ""
	if len(toks) > 0 {
		name = toks[0].text
	}
	rest := toks[min(1, len(toks)):]
	switch name {
	case "if", "ifdef", "ifndef":
		// A condition that is wrong does not hold.
		f.conds = append(f.conds, cond{line: f.line(), outer: !f.skipping()})
		if len(f.conds) > maxNest {
			p.fatal("#if nested too deeply")
		}
		if c := &f.conds[len(f.conds)-1]; c.outer {
			switch name {
			case "if":
				c.live = p.condition(rest)
			default:
				if len(rest) == 0 || rest[0].kind != ident {
					p.fail("no macro name given in #%s directive", name)
				}
				c.live = (p.macros[rest[0].text] != nil) == (name == "ifdef")
			}
			c.taken = c.live
		}
		return
	case "elif", "else", "endif":
		n := len(f.conds)
		if n == 0 {
			p.fail("#%s without #if", name)
		}
		c := &f.conds[n-1]
		switch {
		case name == "endif":
			f.conds = f.conds[:n-1]
		case c.els:
			p.errs = append(p.errs,
				&Error{File: f.name, Line: f.line(), Msg: fmt.Sprintf("#%s after #else", name)},
				&Error{File: f.name, Line: c.line, Msg: "the conditional began here"})
		case name == "else":
			c.els = true
			c.live = c.outer && !c.taken
			c.taken = true
		default:
			c.live = false
			c.live = c.outer && !c.taken && p.condition(rest)
			c.taken = c.taken || c.live
		}
		return
	}
	if f.skipping() {
		return
	}
	keep := func() { p.out.WriteString("#" + s) }
	switch name {
	case "":
	case "define":
		p.define(rest)
	case "undef":
		if len(rest) != 1 || rest[0].kind != ident {
			p.fail("#undef expects a macro name")
		}
		delete(p.macros, rest[0].text)
	case "include", "import", "include_next":
		p.include(rest, name)
	case "error":
		p.fail("#error%s", strings.TrimRight(join(rest), " \t"))
	case "warning":
		p.warn("#warning%s", strings.TrimRight(join(rest), " \t"))
	case "pragma":
		if len(rest) == 1 && rest[0].text == "once" {
			p.once[f.path] = true
			return
		}
		keep()
	case "line":
		p.line(p.expandAll(rest))
	case "ident", "sccs":
		keep()
	default:
		if toks[0].kind == number {
			p.line(toks)
			return
		}
		p.fail("invalid preprocessing directive #%s", name)
	}
}

// line handles #line and passes it on.
func (p *processor) line(toks []token) {
	f := p.cur
	if len(toks) == 0 {
		p.fail("#line expects a line number")
	}
	n, err := strconv.ParseUint(toks[0].text, 10, 31)
	if err != nil || len(toks) > 1 && (toks[1].kind != str || toks[1].text[0] != '"') {
		p.fail("#line expects a line number and a file name in quotes")
	}
	f.delta = int(n) - f.next - 1 // the next line, after f.next grew by one, is n
	if len(toks) > 1 {
		f.name = strings.Trim(toks[1].text, `"`)
	}
	p.out.WriteString("#line " + strings.TrimSpace(join(toks)))
}

// include handles #include and its variants.
func (p *processor) include(toks []token, how string) {
	f := p.cur
	if len(toks) > 0 && toks[0].text != "<" && toks[0].kind != str {
		toks = p.expandAll(toks)
	}
	text := strings.TrimSpace(join(toks))
	var name string
	quotes := false
	switch {
	case len(text) > 2 && text[0] == '"' && strings.IndexByte(text[1:], '"') > 0:
		name, _, _ = strings.Cut(text[1:], `"`)
		quotes = true
	case len(text) > 2 && text[0] == '<' && strings.IndexByte(text, '>') > 1:
		name, _, _ = strings.Cut(text[1:], ">")
	default:
		p.fail("#include expects \"FILENAME\" or <FILENAME>")
	}
	if f.depth >= maxDepth {
		p.fatal("#include nested depth %d exceeds maximum of %d", f.depth, maxDepth)
	}
	dirs := append(append([]string{}, p.opts.Include...), p.opts.System...)
	try := func(path string, ix int) bool {
		read := p.opts.ReadFile
		if strings.HasPrefix(path, builtinDir) {
			read = func(path string) ([]byte, error) {
				return builtinHeaders.ReadFile("include" + strings.TrimPrefix(path, builtinDir))
			}
		}
		src, err := read(path)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				var pe *fs.PathError
				if errors.As(err, &pe) && pe.Err.Error() == "is a directory" {
					return false
				}
				p.fatal("%s: %v", name, err)
			}
			return false
		}
		if p.once[path] {
			return true
		}
		if p.opts.Included != nil {
			p.opts.Included(f.depth+1, path)
		}
		g := p.open(path, src)
		g.depth = f.depth + 1
		g.dirIx = ix
		p.run(g)
		// The newline of this directive follows: name the line before.
		p.marker(f.line(), f.name, " 2")
		return true
	}
	first := 0
	switch {
	case filepath.IsAbs(name):
		if try(name, -1) {
			return
		}
		dirs = nil
	case how == "include_next":
		first = f.dirIx + 1
	case quotes:
		if try(filepath.Join(f.dir, name), -1) {
			return
		}
	}
	for i := first; i < len(dirs); i++ {
		if try(filepath.Join(dirs[i], name), i) {
			return
		}
	}
	p.fatal("%s: No such file or directory", name)
}
