package cpp

import (
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// squeeze drops markers and empty lines and makes white space single blanks.
func squeeze(s string) string {
	var out []string
	for _, l := range strings.Split(s, "\n") {
		l = strings.Join(strings.Fields(l), " ")
		if l == "" || strings.HasPrefix(l, "# ") || strings.HasPrefix(l, "#line") {
			continue
		}
		out = append(out, l)
	}
	return strings.Join(out, "\n")
}

// Expected values: the examples of ISO C (6.10.3.5) and the GNU manual.
var tests = []struct{ name, src, want string }{
	{"object", "#define X 3\nX x 'X' \"X\" XX", `3 x 'X' "X" XX`},
	{"function", "#define f(a,b) a+b\nf(1,2) f (3, 4) f", "1+2 3+4 f"},
	{"lines", "#define f(a,b) a-b\nf(1,\n 2)\nz", "1-2\nz"},
	{"self", "#define foo foo + bar\n#define bar foo\nfoo bar", "foo + foo foo + bar"},
	{"iso3", `#define x 3
#define f(a) f(x * (a))
#undef x
#define x 2
#define g f
#define z z[0]
#define h g(~
#define m(a) a(w)
#define w 0,1
#define t(a) a
#define p() int
#define q(x) x
#define r(x,y) x ## y
#define str(x) # x
f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);
g(x+(3,4)-w) | h 5) & m
(f)^m(m);
p() i[q()] = { q(1), r(2,3), r(4,), r(,5), r(,) };
char c[2][6] = { str(hello), str() };`,
		`f(2 * (y+1)) + f(2 * (f(2 * (z[0])))) % f(2 * (0)) + t(1);
f(2 * (2+(3,4)-0,1)) | f(2 * (~ 5)) & f(2 * (0,1))^m(0,1);
int i[] = { 1, 23, 4, 5, };
char c[2][6] = { "hello", "" };`},
	{"iso4", `#define str(s) # s
#define xstr(s) str(s)
#define debug(s, t) printf("x" # s "= %d, x" # t "= %s", \
  x ## s, x ## t)
#define INCFILE(n) vers ## n
#define glue(a, b) a ## b
#define xglue(a, b) glue(a, b)
#define HIGHLOW "hello"
#define LOW LOW ", world"
debug(1, 2);
fputs(str(strncmp("abc\0d", "abc", '\4') // this goes away
 == 0) str(: @\n), s);
xstr(INCFILE(2).h)
glue(HIGH, LOW);
xglue(HIGH, LOW)`,
		`printf("x" "1" "= %d, x" "2" "= %s", x1, x2);
fputs("strncmp(\"abc\\0d\", \"abc\", '\\4') == 0" ": @\n", s);
"vers2.h"
"hello";
"hello" ", world"`},
	{"iso5", `#define t(x,y,z) x ## y ## z
int j[] = { t(1,2,3), t(,4,5), t(6,,7), t(8,9,),
 t(10,,), t(,11,), t(,,12), t(,,) };`,
		`int j[] = { 123, 45, 67, 89,
10, 11, 12, };`},
	{"iso7", `#define debug(...) fprintf(stderr, __VA_ARGS__)
#define showlist(...) puts(#__VA_ARGS__)
debug("Flag");
debug("X = %d\n", x);
showlist(The first, second, and third items.);`,
		`fprintf(stderr, "Flag");
fprintf(stderr, "X = %d\n", x);
puts("The first, second, and third items.");`},
	{"gnu comma", "#define e(f, a...) p(f, ## a)\ne(1) e(1,2,3)", "p(1) p(1,2,3)"},
	{"no glue", "#define neg -1\n#define plus +\n-neg +plus+ neg", "- -1 + + + -1"},
	{"if", `#define A 2
#if A == 2 && defined(A) && !defined B
yes
#elif 1
no
#else
no
#endif
#if 0
#if 1
no
#endif
#error no
#elif (A << 3) > 15u && -1 < 0
yes2
#endif
#ifdef B
no
#else
yes3
#endif
#ifndef B
yes4
#endif
#if 1 || 1/0
yes5
#endif
#if -1 > 0u
yes6
#endif
#if 'a' == 97 && '\n' == 10 && '\0' == 0
yes7
#endif
#if nosuch ? 0 : 0x10
yes8
#endif`, "yes\nyes2\nyes3\nyes4\nyes5\nyes6\nyes7\nyes8"},
	{"line", "a __LINE__\n\n__LINE__ /* c\n */ b\n__LINE__\n#line 77 \"other\"\n__LINE__ __FILE__", "a 1\n3 b\n5\n77 \"other\""},
	{"comments", "a/* x */b // c\n\"/* no */\" '//'", "a b\n\"/* no */\" '//'"},
	{"d text", `#!/usr/sbin/dtrace -Cs
#pragma D option quiet
#define N 10
#define PROV syscall
PROV::read*:entry,profile-N,pid$target:a.out:ma?n:,tick-5sec
/execname == "N" && ($N || this->N)/
{ @a[N] = count(); }`,
		`#pragma D option quiet
syscall::read*:entry,profile-10,pid$target:a.out:ma?n:,tick-5sec
/execname == "N" && ($N || this->10)/
{ @a[10] = count(); }`},
	{"splice", "#define L a \\\n b\nL \"x\\\ny\"", "a b \"xy\""},
	{"predefined", "#ifdef __linux__\n__linux__ __unix__ __SUNW_D __SUNW_D_VERSION __x86_64__\n#endif\n__STDC__", "1 1 1 0x01040000 1\n0"},
}

func TestProcess(t *testing.T) {
	for _, test := range tests {
		out, err := Process("t.d", []byte(test.src), Options{Version: 1<<24 | 4<<16})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := squeeze(string(out)); got != test.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// TestAgainstC compares with the C compiler's preprocessor, blanks aside.
func TestAgainstC(t *testing.T) {
	cc, err := exec.LookPath("cpp")
	if err != nil {
		t.Skip("no C preprocessor is installed")
	}
	for _, test := range tests {
		if test.name == "predefined" || test.name == "d text" {
			continue // not C
		}
		cmd := exec.Command(cc, "-w", "-")
		cmd.Stdin = strings.NewReader(test.src)
		c, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %s: %v", test.name, cc, err)
			continue
		}
		out, err := Process("<stdin>", []byte(test.src), Options{})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		bare := func(s string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(squeeze(s)) }
		if got, want := bare(string(out)), bare(string(c)); got != want {
			t.Errorf("%s:\ngot\n%s\nC gives\n%s", test.name, got, want)
		}
	}
}

func TestLinesAndIncludes(t *testing.T) {
	files := map[string]string{
		"/d/a.h":      "#pragma once\nA __LINE__ __FILE__\n",
		"/i/b.h":      "#include \"c.h\"\nB\n",
		"/i/c.h":      "C __INCLUDE_LEVEL__",
		"/sys/b.h":    "other B\n",
		"/i/next.h":   "first\n#include_next <next.h>\n",
		"/sys/next.h": "second\n",
	}
	var included []string
	opts := Options{
		Include: []string{"/i"},
		System:  []string{"/sys"},
		ReadFile: func(path string) ([]byte, error) {
			if s, ok := files[path]; ok {
				return []byte(s), nil
			}
			return nil, fs.ErrNotExist
		},
		Included: func(depth int, path string) { included = append(included, strings.Repeat(".", depth)+path) },
	}
	src := "#!shell\n#include \"a.h\"\n#include \"a.h\"\n#define H <b.h>\n#include H\nmain __LINE__\n#include <next.h>\n#if 0\n\n#endif\nend\n"
	out, err := Process("/d/main.d", []byte(src), opts)
	if err != nil {
		t.Fatal(err)
	}
	want := `# 1 "/d/main.d"

# 1 "/d/a.h" 1
#pragma once
A 2 "/d/a.h"
# 2 "/d/main.d" 2



# 1 "/i/b.h" 1
# 1 "/i/c.h" 1
C 2
# 1 "/i/b.h" 2

B
# 5 "/d/main.d" 2

main 6
# 1 "/i/next.h" 1
first
# 1 "/sys/next.h" 1
second
# 2 "/i/next.h" 2

# 7 "/d/main.d" 2




end
`
	want = strings.Replace(want, "#pragma once", "", 1)
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if got := strings.Join(included, " "); got != "./d/a.h ./i/b.h ../i/c.h ./i/next.h ../sys/next.h" {
		t.Errorf("included %s", got)
	}
}

func TestErrors(t *testing.T) {
	deep := strings.Repeat("f(", 1000) + strings.Repeat(")", 1000)
	bomb := "#define a0 x x\n"
	for i := 1; i < 40; i++ {
		bomb += fmt.Sprintf("#define a%d a%d a%d\n", i, i-1, i-1)
	}
	for _, test := range []struct{ src, want string }{
		{"a\n#error no good", `"t.d", line 2: #error no good`},
		{"#if 1\n", `"t.d", line 1: unterminated #if`},
		{"#endif", `"t.d", line 1: #endif without #if`},
		{"#if 1\n#else\n#else\n#endif", `"t.d", line 3: #else after #else`},
		{"#if 1/0\n#endif", `"t.d", line 1: division by zero in #if`},
		{"#if (1\n#endif", `"t.d", line 1: missing ')' in #if expression`},
		{"#if 1 2\n#endif", `"t.d", line 1: missing binary operator before token "2"`},
		{"#if\n#endif", `"t.d", line 1: #if with no expression`},
		{"#define 1", `"t.d", line 1: macro names must be identifiers`},
		{"#define f(a", `"t.d", line 1: expected ',' or ')' in macro parameter list`},
		{"#define f(a,b) a\nf(1)", `"t.d", line 2: macro "f" passed 1 arguments, but takes 2`},
		{"#define f(a) a\nf(1\n", `"t.d", line 2: unterminated argument list invoking macro "f"`},
		{"#include <nosuch.h>", `"t.d", line 1: nosuch.h: No such file or directory`},
		{"#include x", `"t.d", line 1: #include expects "FILENAME" or <FILENAME>`},
		{"#nosuch", `"t.d", line 1: invalid preprocessing directive #nosuch`},
		{"x\n/* y", `"t.d", line 2: unterminated comment`},
		{"#include \"t.d\"", `"t.d", line 1: #include nested depth 200 exceeds maximum of 200`},
		{"#define f(x) x\n" + deep, `"t.d", line 2: macro calls nested too deeply`},
		{bomb + "a39", `"t.d", line 41: macro expansion of "a1" is too large`},
	} {
		_, err := Process("t.d", []byte(test.src), Options{
			System: []string{},
			ReadFile: func(path string) ([]byte, error) {
				if path == "t.d" {
					return []byte(test.src), nil
				}
				return nil, fs.ErrNotExist
			},
		})
		if err == nil || err.Error() != test.want {
			t.Errorf("%.40q: got %v, want %s", test.src, err, test.want)
		}
	}
}

func TestDefs(t *testing.T) {
	out, err := Process("", []byte("A B f(3) __linux__ D\n"), Options{Defs: []Def{
		{Text: "A"}, {Text: "B=1 + 2"}, {Text: "f(x)=<x>"}, {Undef: true, Text: "__linux__"}, {Text: "D=1"}, {Undef: true, Text: "D"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := squeeze(string(out)); got != "1 1 + 2 <3> __linux__ D" {
		t.Errorf("got %s", got)
	}
}

// FuzzCPP wants a result or an error, and as many lines out as in.
func FuzzCPP(f *testing.F) {
	for _, test := range tests {
		f.Add(test.src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		out, err := Process("f.d", []byte(src), Options{
			System:   []string{},
			ReadFile: func(string) ([]byte, error) { return nil, fs.ErrNotExist },
		})
		if (out == nil) == (err == nil) {
			t.Fatalf("out %q, error %v", out, err)
		}
		if err != nil {
			return
		}
		in := strings.Count(src, "\n") + 1 // at most; fewer by one where nothing follows the last newline
		if got := strings.Count(string(out), "\n") - 1; got > in || got < in-1 {
			t.Errorf("%d lines in, %d out\n%q", in, got, out)
		}
	})
}

// The run goes on after a second #else, as cc -E does, and tells where the
// conditional began.
func TestMoreErrors(t *testing.T) {
	_, err := Process("t.d", []byte("\n#if 1\n#else\n#else\n#else\n#endif\n#error last\n"), Options{System: []string{}})
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("%v", err)
	}
	var got []string
	for _, e := range append([]*Error{e}, e.More...) {
		got = append(got, e.Error())
	}
	want := []string{
		`"t.d", line 4: #else after #else`, `"t.d", line 2: the conditional began here`,
		`"t.d", line 5: #else after #else`, `"t.d", line 2: the conditional began here`,
		`"t.d", line 7: #error last`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Words that are keywords to a C compiler may be defined by headers without a
// warning; others may not.
func TestKeywordsRedefined(t *testing.T) {
	var warned []string
	_, err := Process("t.d", []byte("#define __restrict __restrict__\n#define __INT_MAX__ 5\n"), Options{
		System: []string{}, Warn: func(e *Error) { warned = append(warned, e.Msg) },
	})
	if want := []string{`"__INT_MAX__" redefined`}; err != nil || !slices.Equal(warned, want) {
		t.Errorf("warnings %q (%v), want %q", warned, err, want)
	}
}

// Every line that is wrong is told of, in the order of cc -E; a condition that
// is wrong does not hold, and a file that is not there ends the run.
func TestAllErrors(t *testing.T) {
	src := "#error one\n#define f(a) a\n#nosuch\n#if 1 2\n#error not compiled\n#else\nf(1,2)\n#endif\n#define 3\n#if 0\n#elif (\n#error nor this\n" +
		"#endif\n#endif\n#include <nosuch.h>\n#error never reached\n"
	_, err := Process("t.d", []byte(src), Options{System: []string{}})
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("%v", err)
	}
	var got []string
	for _, e := range append([]*Error{e}, e.More...) {
		got = append(got, fmt.Sprintf("%d: %s", e.Line, e.Msg))
	}
	want := []string{
		"1: #error one", "3: invalid preprocessing directive #nosuch", `4: missing binary operator before token "2"`,
		`7: macro "f" passed 2 arguments, but takes 1`, "9: macro names must be identifiers",
		"11: #if ends in the middle of an expression", "14: #endif without #if", "15: nosuch.h: No such file or directory",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// No source has more errors than are worth reading.
func TestTooManyErrors(t *testing.T) {
	_, err := Process("t.d", []byte(strings.Repeat("#nosuch\n", 1000)), Options{System: []string{}})
	e, ok := err.(*Error)
	if !ok || len(e.More) != maxErrors || e.More[len(e.More)-1].Msg != "too many errors" {
		t.Errorf("%d errors, the last %v", len(e.More)+1, e.More[len(e.More)-1])
	}
}
