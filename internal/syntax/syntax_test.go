package syntax

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func testMacros(name string) (string, bool) {
	v, ok := map[string]string{"target": "123", "1": "997", "2": "execname", "3": "foo_t", "4": "strlen"}[name]
	return v, ok
}

var testTypes = wordSet("foo_t psinfo_t bar_t")

var testOptions = Options{Script: true, IsType: func(s string) bool { return testTypes[s] }, Macros: testMacros}

// TestPrint compares prints with the golden files, and parses them again.
func TestPrint(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.d")
	if len(files) == 0 {
		t.Fatal("no test data")
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := reprint(t, file, string(src), testOptions)
		golden := strings.TrimSuffix(file, ".d") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := os.ReadFile(golden)
		if got != string(want) {
			t.Errorf("%s: got\n%s", file, got)
		}
	}
}

// reprint parses, prints, and parses and prints the print.
func reprint(t *testing.T, name, src string, opts Options) string {
	t.Helper()
	f, err := Parse(name, []byte(src), opts)
	if err != nil {
		t.Errorf("%s: %v: %s", name, err.(*Error).Pos, err)
		return ""
	}
	one := String(f)
	g, err := Parse(name, []byte(one), opts)
	if err != nil {
		t.Errorf("%s: the print does not parse: %v\n%s", name, err, one)
		return one
	}
	if two := String(g); two != one {
		t.Errorf("%s: printed\n%s\nthen\n%s", name, one, two)
	}
	return one
}

// tree writes an expression with every operation in brackets.
func tree(x Expr) string {
	list := func(a []Expr) string {
		var s []string
		for _, x := range a {
			s = append(s, tree(x))
		}
		return strings.Join(s, " ")
	}
	switch x := x.(type) {
	case *Unary:
		return fmt.Sprintf("(%s %s)", x.Op, tree(x.X))
	case *Postfix:
		return fmt.Sprintf("(%s %s)", tree(x.X), x.Op)
	case *Binary:
		return fmt.Sprintf("(%s %s %s)", tree(x.X), x.Op, tree(x.Y))
	case *Assign:
		op := "="
		if x.Op != Assign_ {
			op = x.Op.String() + "="
		}
		return fmt.Sprintf("(%s %s %s)", tree(x.X), op, tree(x.Y))
	case *Cond:
		return fmt.Sprintf("(%s ? %s : %s)", tree(x.C), tree(x.X), tree(x.Y))
	case *Call:
		return fmt.Sprintf("call(%s %s)", x.Fun.Name, list(x.Args))
	case *Index:
		return fmt.Sprintf("index(%s %s)", tree(x.X), list(x.Args))
	case *Member:
		op := "."
		if x.Arrow {
			op = "->"
		}
		return fmt.Sprintf("(%s %s %s)", tree(x.X), op, x.Name)
	case *Cast:
		return fmt.Sprintf("cast<%s>(%s)", String(x.Type), tree(x.X))
	case *Sizeof:
		if x.Type != nil {
			return fmt.Sprintf("sizeof<%s>", String(x.Type))
		}
		return fmt.Sprintf("sizeof(%s)", tree(x.X))
	case *Stringof:
		return fmt.Sprintf("stringof(%s)", tree(x.X))
	case *Xlate:
		return fmt.Sprintf("xlate<%s>(%s)", String(x.Type), tree(x.X))
	case *Agg:
		return fmt.Sprintf("@%s<%s>", x.Name, list(x.Keys))
	case *Paren:
		return tree(x.X)
	}
	return String(x)
}

func TestPrecedence(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		// The order of C, with ^^ between && and ||.
		{"a || b ^^ c && d | e ^ f & g == h < i << j + k * l", "(a || (b ^^ (c && (d | (e ^ (f & (g == (h < (i << (j + (k * l)))))))))))"},
		{"a * b + c << d < e == f & g ^ h | i && j ^^ k || l", "(((((((((((a * b) + c) << d) < e) == f) & g) ^ h) | i) && j) ^^ k) || l)"},
		{"a - b - c", "((a - b) - c)"},
		{"a / b % c", "((a / b) % c)"},
		{"a < b > c", "((a < b) > c)"},
		{"a = b = c", "(a = (b = c))"},
		{"a += b ? c : d ? e : f", "(a += (b ? c : (d ? e : f)))"},
		{"a ? b, c : d", "(a ? (b , c) : d)"},
		{"a, b = c, d", "((a , (b = c)) , d)"},
		{"-a * b", "((- a) * b)"},
		{"!a == b", "((! a) == b)"},
		{"*a++", "(* (a ++))"},
		{"++*a", "(++ (* a))"},
		{"&a->b", "(& (a -> b))"},
		{"-a.b[c](d)", ""},
		{"(foo_t *)a->b", "cast<foo_t *>((a -> b))"},
		{"(int)a + b", "(cast<int>(a) + b)"},
		{"(int)-a", "cast<int>((- a))"},
		{"(foo_t)(a)", "cast<foo_t>(a)"},
		{"(unknown_t *)a", "cast<unknown_t *>(a)"},
		{"(unknown_t)a", "cast<unknown_t>(a)"},
		{"(unknown) + a", "(unknown + a)"},
		{"(unknown) * a", "(unknown * a)"},
		{"sizeof (foo_t) * 2", "(sizeof<foo_t> * 2)"},
		{"sizeof a + b", "(sizeof(a) + b)"},
		{"sizeof (a) + b", "(sizeof(a) + b)"},
		{"sizeof (unknown_t *)", "sizeof<unknown_t *>"},
		{"stringof a == b", "(stringof(a) == b)"},
		{"stringof (a)->b", "stringof((a -> b))"},
		{"xlate <foo_t> (a).b", "(xlate<foo_t>(a) . b)"},
		{"@a[b, c] = count()", "(@a<b c> = call(count ))"},
		{"self->a[b]++", "(index(self->a b) ++)"},
		{"f(a, b)[c]", "index(call(f a b) c)"},
		{"a - -1", "(a - (- 1))"},
		{"a---b", "((a --) - b)"},
		{"a/b/c", "((a / b) / c)"},
		{"$4(a)", "call(strlen a)"},
		{"a->$2", "(a -> execname)"},
		{"(struct s *)a", "cast<struct s *>(a)"},
		{"`a + b`c", "(`a + b`c)"},
	} {
		x, err := ParseExpr(test.src, testOptions)
		if test.want == "" {
			if err == nil {
				t.Errorf("%s: no error", test.src)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.src, err)
			continue
		}
		if got := tree(x); got != test.want {
			t.Errorf("%s: got %s, want %s", test.src, got, test.want)
		}
	}
}

func TestConstants(t *testing.T) {
	for _, test := range []struct {
		src    string
		value  uint64
		suffix string
	}{
		{"0", 0, ""}, {"00", 0, ""}, {"10", 10, ""}, {"010", 8, ""}, {"0x1F", 31, ""}, {"0Xff", 255, ""},
		{"1u", 1, "u"}, {"1L", 1, "l"}, {"1UL", 1, "ul"}, {"1ll", 1, "ll"}, {"0xfULL", 15, "ull"},
		{"18446744073709551615", 1<<64 - 1, ""}, {"01777777777777777777777", 1<<64 - 1, ""},
		{"'a'", 97, ""}, {`'\n'`, 10, ""}, {`'\0'`, 0, ""}, {`'\''`, 39, ""}, {`'\x41'`, 0x41, ""}, {`'\101'`, 65, ""},
		{"'ab'", 0x6162, ""}, {"'abcdefgh'", 0x6162636465666768, ""}, {`'\377'`, 255, ""},
	} {
		x, err := ParseExpr(test.src, Options{})
		n, ok := x.(*IntLit)
		if err != nil || !ok || n.Value != test.value || n.Suffix != test.suffix || n.Char != (test.src[0] == '\'') {
			t.Errorf("%s: got %+v, %v", test.src, x, err)
		}
	}
	for _, test := range []struct{ src, want string }{
		{`"abc"`, "abc"}, {`"a" "b"`, "ab"}, {`"\a\b\f\n\r\t\v\\\"\'\?"`, "\a\b\f\n\r\t\v\\\"'?"},
		{`"\1012\x414"`, "A2\x14"}, {`"/* no */ // no"`, "/* no */ // no"}, {"\"\xff\xfe\"", "\xff\xfe"},
		{`"a\0b"`, "a"}, {`""`, ""},
	} {
		x, err := ParseExpr(test.src, Options{})
		s, ok := x.(*StringLit)
		if err != nil || !ok || s.Value != test.want {
			t.Errorf("%s: got %+v, %v", test.src, x, err)
		}
	}
}

func TestProbeDesc(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		src  string
		want string // the parts between slashes, blanks for the missing
	}{
		{SpecName, "BEGIN", "|||BEGIN"},
		{SpecName, "read:entry", "||read|entry"},
		{SpecName, "syscall::read:", "syscall||read|"},
		{SpecName, "::read:entry", "||read|entry"},
		{SpecName, "pid$target:libc.so.6:mal*[a-z]:entry", "pid123|libc.so.6|mal*[a-z]|entry"},
		{SpecName, "profile-$1", "|||profile-997"},
		{SpecName, "profile-$1hz", "|||profile-997hz"},
		{SpecName, "pid$$target:::", "pid123|||"},
		{SpecName, "uprobe:/lib/x.so:f:entry", "uprobe|/lib/x.so|f|entry"},
		{SpecName, "go12:net/http:(*Server).Serve:entry", "go12|net/http|(*Server).Serve|entry"},
		{SpecName, "go*:example.org/a~b/c.v3:Map[...].f-fm:return", "go*|example.org/a~b/c.v3|Map[...].f-fm|return"},
		{SpecName, "go:/usr/bin/x:main.(*größe).f:entry", "go|/usr/bin/x|main.(*größe).f|entry"},
		{SpecName, "go12:main:f:entry", "go12|main|f|entry"},
		{SpecName, "go$target:cmd/go/internal/?*:(\\*T).f:", "go123|cmd/go/internal/?*|(\\*T).f|"},
		{SpecName, "pid1:a.out:main+0x10:f@plt", "pid1|a.out|main+0x10|f@plt"},
		{SpecFunc, "read", "||read|"},
		{SpecFunc, "syscall::read", "syscall||read|"},
		{SpecMod, "ext4", "|ext4||"},
		{SpecMod, "fbt:ext4", "fbt|ext4||"},
		{SpecProvider, "syscall", "syscall|||"},
		{SpecName, "int*", "|||int*"},
		{SpecName, "foo_t", "|||foo_t"},
	} {
		f, err := Parse("", []byte(test.src), Options{Spec: test.spec, Macros: testMacros, IsType: testOptions.IsType})
		if err != nil {
			t.Errorf("%s: %v", test.src, err)
			continue
		}
		d := f.Decls[0].(*Clause).Descs[0]
		if got := strings.Join([]string{d.Provider, d.Module, d.Func, d.Name}, "|"); got != test.want {
			t.Errorf("%s: got %s, want %s", test.src, got, test.want)
		}
	}
	// What can only be a declaration is one.
	for src, decls := range map[string]int{"foo_t x; BEGIN { }": 1, "foo_t *x, y[int]; BEGIN { }": 1, "BEGIN { } foo_t x;": 1, "foo_t { x = 1; }": 0, "foo_t /x/ { ; }": 0} {
		f, err := Parse("", []byte(src), Options{Spec: SpecName, PSpec: true, IsType: testOptions.IsType})
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		for _, d := range f.Decls {
			if _, ok := d.(*VarDecl); ok {
				decls--
			}
		}
		if decls != 0 {
			t.Errorf("%s: %d declarations missing", src, decls)
		}
	}
	f, err := Parse("", []byte("42 { trace(1); }"), Options{Spec: SpecID})
	if err != nil || f.Decls[0].(*Clause).Descs[0].ID != 42 {
		t.Errorf("probe identifier: %v", err)
	}
}

// TestErrors marks the place of the error with «.
func TestErrors(t *testing.T) {
	script := Options{Script: true, Macros: testMacros, IsType: testOptions.IsType}
	for _, test := range []struct {
		opts Options
		src  string
		tag  string
		msg  string
	}{
		{script, "BEGIN { x = «; }", "D_SYNTAX", `syntax error near ";"`},
		{script, "BEGIN {\n\n  trace(1)«", "D_SYNTAX", "syntax error near end of input"},
		{script, "#pragma D option pspec\n«int*x\n", "D_SYNTAX", "expected predicate and/or actions following probe description"},
		{script, "int*x\n«", "D_SYNTAX", "syntax error near end-of-input"},
		{script, "BEGIN { trace(1) «trace(2); }", "D_SYNTAX", `syntax error near "trace"`},
		{script, "BEGIN { trace(1)«); }", "D_SYNTAX", `extra ) in input stream`},
		{script, "BEGIN { trace(x«]); }", "D_SYNTAX", `extra ] in input stream`},
		{script, "BEGIN { } «}", "D_SYNTAX", `syntax error near "}"`},
		{script, "BEGIN /(x/ «{ }", "D_SYNTAX", `closing ) expected in predicate before /`},
		{script, "BEGIN /x[1/ «{ }", "D_SYNTAX", `closing ] expected in predicate before /`},
		{script, "«BEGIN", "D_SYNTAX", "expected predicate and/or actions following probe description"},
		{script, "BEGIN /x«/", "D_SYNTAX", "expected actions { } following probe description and predicate"},
		{script, "BEGIN /x «{ }", "D_SYNTAX", `syntax error near "{"`},
		{script, "BEGIN { «for (;;) ; }", "D_SYNTAX", `syntax error near "for"`},
		{script, "BEGIN { x = 1«# }", "D_SYNTAX", `syntax error near "#"`},
		{script, "BEGIN { «\"abc }", "D_SYNTAX", `syntax error near """`},
		{script, "BEGIN { «'a }", "D_SYNTAX", `syntax error near "'"`},
		{script, "BEGIN { \"abc\n«\"; }", "D_STR_NL", "newline encountered in string literal"},
		{script, "BEGIN { 'a\n«'; }", "D_CHR_NL", "newline encountered in character constant"},
		{script, "BEGIN { «''; }", "D_CHR_NULL", "empty character constant"},
		{script, "BEGIN { «'123456789'; }", "D_CHR_OFLOW", "character constant is too long"},
		{script, "BEGIN { «089; }", "D_INT_DIGIT", "constant 089 contains invalid digit 8"},
		{script, "BEGIN { «18446744073709551616; }", "D_INT_OFLOW", "constant 18446744073709551616 results in integer overflow"},
		{script, "BEGIN { «1.5; }", "D_SYNTAX", "floating-point constants are not permitted"},
		{script, "BEGIN { «1e10; }", "D_SYNTAX", "floating-point constants are not permitted"},
		{script, "BEGIN { «.5; }", "D_SYNTAX", "floating-point constants are not permitted"},
		{script, "/* x\n\n«", "D_SYNTAX", "end-of-file encountered before matching */"},
		{script, "BEGIN /(x/\n\n«{ }", "D_SYNTAX", `closing ) expected in predicate before /`},
		{script, "long struct s\n«{ int x; };", "D_DECL_LONGINT", "invalid type declaration: long and long long may only be used with integer or floating-point type"},
		{script, "struct s { int x; }; struct s «{ int x; };", "D_DECL_TYPERED", "type redeclared: struct s"},
		{script, "BEGIN { 12«abc; }", "D_SYNTAX", `syntax error near "abc"`},
		{script, "BEGIN { /* x«", "D_SYNTAX", "end-of-file encountered before matching */"},
		{script, "/* x «/* y */ */", "D_SYNTAX", "/* encountered inside a comment"},
		{script, "BEGIN { a + b «= c; }", "D_SYNTAX", `syntax error near "="`},
		{script, "BEGIN { «1(2); }", "D_FUNC_IDENT", "function designator is not of function type"},
		{script, "BEGIN { «@a(2); }", "D_FUNC_UNDEF", "undefined function name: @a"},
		{script, "BEGIN { self «; }", "D_SYNTAX", `syntax error near ";"`},
		{script, "BEGIN { x->«1; }", "D_SYNTAX", `syntax error near "1"`},
		{script, "BEGIN { trace(«$); }", "D_SYNTAX", `syntax error near "$"`},
		{script, "BEGIN { x->«$9; }", "D_MACRO_UNDEF", "macro argument $9 is not defined"},
		{script, "«#nosuch x\nBEGIN { }", "D_PRAGCTL_INVAL", "invalid control directive: #nosuch"},
		{script, "«#\"x\"\nBEGIN { }", "D_PRAGCTL_INVAL", "invalid control directive"},
		{script, "«#error not here\nBEGIN { }", "D_PRAGERR", "#error: not here "},
		{script, "«#pragma D nosuch\nBEGIN { }", "D_PRAGMA_INVAL", "invalid D pragma: nosuch"},
		{script, "«#pragma D option\n", "D_PRAGMA_MALFORM", "malformed #pragma option <option>=<val>"},
		{script, "«#pragma D option a b\n", "D_PRAGMA_MALFORM", "superfluous arguments specified for #pragma option"},
		{script, "«#pragma D attributes a\n", "D_PRAGMA_MALFORM", "malformed #pragma attributes <attributes> <ident>"},
		{script, "«#pragma D binding 1 x\n", "D_PRAGMA_MALFORM", `malformed #pragma binding "version" <ident>`},
		{script, "«#pragma D depends_on x y\n", "D_PRAGMA_INVAL", "invalid class x specified by #pragma depends_on"},
		{script, "«#line x\n", "D_PRAGMA_MALFORM", `malformed #line <line> [ ["file"] state ]`},
		{script, "«#pragma D option quiet", "D_SYNTAX", "end-of-file encountered before end of control line"},
		{script, "/* nothing */\n«", "D_EMPTY", "empty D program translation unit"},
		{script, "«a:b:c:d:e { }", "D_PDESC_INVAL", `invalid probe description "a:b:c:d:e": Overspecified probe description`},
		{script, "«pid$nosuch:::entry { }", "D_PDESC_INVAL", `invalid probe description "pid$nosuch:::entry": Undefined macro variable in probe description`},
		{script, "«4294967296 { }", "D_PDESC_INVAL", "identifier 4294967296 exceeds maximum probe id"},
		{Options{Spec: SpecFunc}, "«12", "D_PDESC_INVAL", "probe identifier 12 not permitted when specifying functions"},
		{Options{Spec: SpecProvider}, "«a:b", "D_PDESC_INVAL", `invalid probe description "a:b": Overspecified probe description`},
		{script, "BEGIN, «;", "D_SYNTAX", `syntax error near ";"`},
		{script, "BEGIN { } «; END { }", "D_SYNTAX", `syntax error near ";"`},
		{script, "int «int x;", "D_DECL_COMBO", "invalid type combination"},
		{script, "long «char x;", "D_DECL_CHARATTR", "invalid type declaration: short and long may not be used with char type"},
		{script, "unsigned «void x;", "D_DECL_VOIDATTR", "invalid type declaration: attributes may not be used with void type"},
		{script, "unsigned «float x;", "D_DECL_SIGNINT", "invalid type declaration: signed and unsigned may only be used with integer type"},
		{script, "unsigned foo_t «x;", "D_DECL_SIGNINT", "invalid type declaration: signed and unsigned may only be used with integer type"},
		{script, "long struct s «x;", "D_DECL_LONGINT", "invalid type declaration: long and long long may only be used with integer or floating-point type"},
		{script, "foo_t bar_t «foo_t;", "D_DECL_IDENT", "old-style declaration or incorrect type specified"},
		{script, "static «extern int x;", "D_DECL_CLASS", "only one storage class allowed in a declaration"},
		{script, "int f(«static int x);", "D_DECL_PARMCLASS", "inappropriate storage class for function or associative array parameter"},
		{script, "struct s { «int; };", "D_DECL_MNAME", "member declaration requires a name"},
		{script, "int «a`b;", "D_DECL_SCOPE", "D scoping operator may not be used in a declaration name (a`b)"},
		{script, "struct s { int «a`b; };", "D_DECL_SCOPE", "D scoping operator may not be used in a member name (a`b)"},
		{script, "struct «a`b { int c; };", "D_DECL_SCOPE", "D scoping operator may not be used in a type name"},
		{script, "enum e { «a`b };", "D_DECL_SCOPE", "D scoping operator may not be used in an enumerator name (a`b)"},
		{script, "int x[string, «...];", "D_DECL_PROTO_VARARGS", "array prototype may not use a variable-length argument list"},
		{script, "int x[«void];", "D_DECL_PROTO_TYPE", "array prototype may not use parameter of type void: (anonymous), parameter #1"},
		{script, "int f(«void, int);", "D_DECL_PROTO_VOID", "void must be sole parameter"},
		{script, "int f(«void x);", "D_DECL_PROTO_NAME", "void parameter may not have a name: x"},
		{script, "int f(int x, «int x);", "D_DECL_PROTO_FORM", "parameter is already declared in function prototype: x, parameter #2"},
		{script, "struct s { «};", "D_SYNTAX", `syntax error near "}"`},
		{script, "inline int x«;", "D_SYNTAX", `syntax error near ";"`},
		{script, "«nosuch_t x;", "D_SYNTAX", "expected predicate and/or actions following probe description"},
		{script, "BEGIN { x«\x00 }", "D_SYNTAX", "syntax error near end-of-input"},
		{script, "\x00", "D_SYNTAX", "syntax error near end-of-input"},
	} {
		before, after, marked := strings.Cut(test.src, "«")
		_, err := Parse("t.d", []byte(before+after), test.opts)
		e, ok := err.(*Error)
		if !ok {
			t.Errorf("%q: no error", test.src)
			continue
		}
		if e.Tag != test.tag || e.Msg != test.msg {
			t.Errorf("%q: got [%s] %s, want [%s] %s", test.src, e.Tag, e.Msg, test.tag, test.msg)
		}
		if !marked {
			continue
		}
		line := strings.Count(before, "\n") + 1
		col := len(before) - strings.LastIndexByte(before, '\n')
		if e.Pos.Line != line || e.Pos.Col != col {
			t.Errorf("%q: at %d:%d, want %d:%d", test.src, e.Pos.Line, e.Pos.Col, line, col)
		}
		if _, ok := LookupCode(e.Tag); !ok {
			t.Errorf("%s is not in Codes", e.Tag)
		}
	}
}

// TestCodes: the example of every tag parses, or raises that tag.
func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Codes {
		if seen[c.Tag] || c.Doc == "" || !strings.HasPrefix(c.Tag, "D_") {
			t.Errorf("%s: double or empty", c.Tag)
		}
		seen[c.Tag] = true
		if c.Example == "" {
			continue
		}
		_, err := Parse("t.d", []byte(c.Example), Options{Script: true, Macros: testMacros})
		if e, ok := err.(*Error); ok && e.Tag != c.Tag {
			t.Errorf("%s: example gives [%s] %s", c.Tag, e.Tag, e.Msg)
		}
	}
}

func TestPositions(t *testing.T) {
	src := "BEGIN\n{\n\ttrace(1); /* \n\n */ x\n= 2;\n}\n# 10 \"inc.h\" 1\nEND { y; }\n#line 100\n  ERROR { z; }\n# 1 \"/dev/fd/3\"\nint a;\n"
	f, err := Parse("t.d", []byte(src), Options{Script: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	pos := func(n Node) { got = append(got, fmt.Sprintf("%s:%d:%d", n.Pos().File, n.Pos().Line, n.Pos().Col)) }
	for _, d := range f.Decls {
		pos(d)
		if c, ok := d.(*Clause); ok {
			for _, s := range c.Body {
				pos(s)
			}
		}
	}
	want := "t.d:1:1 t.d:3:2 t.d:5:5 inc.h:10:1 inc.h:10:7 inc.h:100:3 inc.h:100:11 t.d:1:1"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}

func TestPragmas(t *testing.T) {
	f, err := Parse("t.d", []byte("#pragma D option a=b\nBEGIN\n{\n\t#pragma D binding \"1.0\" x\n}\n#pragma unknown thing\n#pragma ident \"x\"\n#ident x\n#\n"), Options{Script: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range f.Pragmas {
		got = append(got, fmt.Sprintf("%d %q", p.Pos().Line, p.Words))
	}
	if s := strings.Join(got, "; "); s != `1 ["D" "option" "a=b"]; 4 ["D" "binding" "1.0" "x"]; 6 ["unknown" "thing"]` {
		t.Error(s)
	}
}

// TestDeep: what is nested without end is an error.
func TestDeep(t *testing.T) {
	const n = 200000
	r := strings.Repeat
	for _, src := range []string{
		"BEGIN { x = " + r("(", n) + "1" + r(")", n) + "; }",
		"BEGIN { x = " + r("-", n) + "1; }",
		"BEGIN { x = " + r("- ", n) + "1; }",
		"BEGIN { x = " + r("(int)", n) + "1; }",
		"BEGIN { x = " + r("sizeof ", n) + "1; }",
		"BEGIN { x = " + r("a ? b : ", n) + "1; }",
		"BEGIN { x = " + r("a ? ", n) + "1; }",
		"BEGIN { " + r("x = ", n) + "1; }",
		"BEGIN { x = 1" + r("+ 1", n) + "; }",
		"BEGIN { x" + r("->x", n) + "; }",
		"BEGIN { x" + r("[1]", n) + "; }",
		"BEGIN { " + r("f(", n) + "; }",
		"BEGIN { " + r("@[", n) + "; }",
		"BEGIN { 1" + r(", 1", n) + "; }",
		"BEGIN { " + r("{", n) + "; }",
		"BEGIN { " + r("if (x) ", n) + "; }",
		"BEGIN { " + r("if (x) ; else ", n) + "; }",
		"BEGIN { x = sizeof (int " + r("*", n) + "); }",
		"BEGIN { x = sizeof (int " + r("(", n) + "); }",
		r("struct {", n),
		"int " + r("(", n) + "x;",
		"int " + r("*", n) + "x;",
		"int f" + r("(int (*g)", n) + ";",
		"int x" + r("[1]", n) + ";",
		"BEGIN /" + r("a / ", n) + "1/ { }",
	} {
		if _, err := Parse("t.d", []byte(src), Options{Script: true}); err == nil {
			t.Errorf("%.40s…: no error", src)
		}
	}
}

// TestParseType checks the types other packages give as text.
func TestParseType(t *testing.T) {
	for _, s := range []string{"int", "const char *", "struct task_struct *", "unknown_t *", "int [4]", "int (*)(int, char *)", "unsigned long long", "struct mod`s *", "mod`t"} {
		x, err := ParseType(s, Options{})
		if err != nil || String(x) != s {
			t.Errorf("%s: got %v, %v", s, x, err)
		}
	}
	for _, s := range []string{"", "int x", "1", "int,", "int int"} {
		if _, err := ParseType(s, Options{}); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
}

func FuzzScan(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, src string) {
		defer func() {
			if x := recover(); x != nil {
				if _, ok := x.(*Error); !ok {
					panic(x)
				}
			}
		}()
		s := newScanner("f.d", src)
		s.isType = func(name string) bool { return name < "m" }
		for off := -1; ; off = s.off {
			s.top = len(s.text)%3 == 1
			s.pred = len(s.text)%2 == 1
			s.next()
			if s.tok == EOF {
				return
			}
			if s.off <= off {
				t.Fatalf("stuck at %d", off)
			}
			if s.pos.Line < 0 || s.pos.Col < 1 {
				t.Fatalf("position %v", s.pos)
			}
		}
	})
}

// FuzzParse wants an error or a tree that prints and parses back.
func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, src string) {
		opts := testOptions
		opts.Script = false
		file, err := Parse("f.d", []byte(src), opts)
		if (file == nil) == (err == nil) {
			t.Fatalf("tree %v, error %v", file, err)
		}
		if err == nil && !strings.Contains(src, "#") {
			reprint(t, "f.d", src, opts)
		}
	})
}

func addSeeds(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.d")
	for _, file := range files {
		src, _ := os.ReadFile(file)
		f.Add(string(src))
		for _, part := range strings.Split(string(src), "\n") {
			f.Add(part)
		}
	}
	for _, c := range Codes {
		f.Add(c.Example)
	}
}

func BenchmarkParse(b *testing.B) {
	src, err := os.ReadFile("testdata/clauses.d")
	if err != nil {
		b.Fatal(err)
	}
	var big []byte
	for len(big) < 1<<20 {
		big = append(big, src...)
	}
	b.SetBytes(int64(len(big)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("big.d", big, testOptions); err != nil {
			b.Fatal(err)
		}
	}
}

// TestInspect: every name that stands in the text is met, once and in order.
func TestInspect(t *testing.T) {
	src := `int a[b], (*c)(int d[e]); struct { int f : g; } h; enum { i = j }; inline int k = l;
translator foo_t < int m > { n = o; }; provider p { probe q(int r[s]) : (int t[u]); };
BEGIN /va && vb[vc]/ { vd = ve ? vf : vg; if (vh) vi++; else { vj(-vk, (int)vl); { @vm[vn] = vo(); } }
sizeof vp; stringof vq; xlate <foo_t> (vr)->x; (vs); self->vt, sizeof (int [vu]); }`
	f, err := Parse("", []byte(src), testOptions)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	Inspect(f, func(n Node) bool {
		if n, ok := n.(*Name); ok {
			got = append(got, n.Name)
		}
		return true
	})
	want := "b e g j l o s u va vb vc vd ve vf vg vh vi vj vk vl vn vo vp vq vr vs vt vu"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s", s)
	}
}

// TestBuild: what other packages synthesize prints as it was meant.
func TestBuild(t *testing.T) {
	var pos Pos
	sum := NewBinary(pos, Add, NewName(pos, "a"), NewName(pos, "m`b"))
	x := NewBinary(pos, LAnd, NewCall(pos, "f", NewBinary(pos, Mul, sum, NewIntLit(pos, 3))), NewParen(pos, sum))
	if got, want := String(x), "f((a + m`b) * 3) && (a + m`b)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
