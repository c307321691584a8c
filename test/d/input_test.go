package d_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// large is about the size of the scripts below.
const large = 1 << 20

func times(s string) string { return strings.Repeat(s, large/len(s)) }

// nested is open, inner, close with as many of the former and the latter as make
// a large script.
func nested(open, inner, end string) string {
	n := large / (len(open) + len(end))
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

// Large, deeply nested and malformed scripts are compiled or refused in DTrace's
// words, in bounded memory.
func TestInput(t *testing.T) {
	testkernel.RequireRoot(t)
	cmd := testkernel.Godtrace(t)
	const deep, long, tooLarge = "program is nested too deeply", "expression is too long", "is too large"
	for _, tt := range []struct {
		name, src string
		cpp       bool
		want      string // of the message; "": it compiles
	}{
		{name: "clauses", src: times("BEGIN { x = 1; }\n")},
		{name: "statements", src: "BEGIN { " + times("x = 1; ") + "}"},
		{name: "comment", src: "/*" + times("x") + "*/ BEGIN { }"},
		{name: "open comment", src: "/*" + times("x"), want: "end-of-file encountered before matching */"},
		{name: "string", src: `BEGIN { trace("` + times("x") + `"); }`},
		{name: "open string", src: `BEGIN { trace("` + times("x"), want: `syntax error near """`},
		{name: "identifier", src: "BEGIN { " + times("x") + " = 1; }"},
		{name: "number", src: "BEGIN { x = " + times("9") + "; }", want: "results in integer overflow"},
		{name: "format", src: `BEGIN { printf("` + times("%d") + `"); }`, want: "prototype mismatch"},
		{name: "width", src: `BEGIN { printf("%` + times("9") + `d", 1); }`},
		{name: "pragma", src: "#pragma D option " + times("x") + "\nBEGIN { }", want: "failed to set option"},
		{name: "enumerators", src: "enum e { " + strings.TrimSuffix(enumerators(), ",") + " }; BEGIN { }"},
		{name: "arguments", src: `BEGIN { printf("%d"` + times(",1") + "); }", want: "prototype mismatch"},
		{name: "description", src: times("a:") + "{ }", want: "invalid probe description"},
		{name: "parentheses", src: "BEGIN { x = " + nested("(", "1", ")") + "; }", want: deep},
		{name: "minus", src: "BEGIN { x = " + times("- ") + "1; }", want: deep},
		{name: "stars", src: "BEGIN { x = " + times("*") + "p; }", want: deep},
		{name: "casts", src: "BEGIN { x = " + times("(int)") + "1; }", want: deep},
		{name: "sizeof", src: "BEGIN { x = " + times("sizeof ") + "1; }", want: deep},
		{name: "indexes", src: "BEGIN { x = a" + nested("[1", "", "]") + "; }", want: deep},
		{name: "calls", src: "BEGIN { x = " + nested("strlen(", `"a"`, ")") + "; }", want: deep},
		{name: "conditions", src: "BEGIN { x = " + times("a?b:") + "1; }", want: deep},
		{name: "assignments", src: "BEGIN { " + times("x=") + "1; }", want: deep},
		{name: "sum", src: "BEGIN { x = 1" + times("+y") + "; }", want: long},
		{name: "members", src: "BEGIN { x = p" + times("->q") + "; }", want: long},
		{name: "comma", src: "BEGIN { x = (" + times("1,") + "1); }", want: long},
		{name: "if", src: "BEGIN { " + nested("if (1) {", "", "}") + " }", want: deep},
		{name: "else", src: "BEGIN { " + times("if (x) y=1; else ") + "x=1; }", want: deep},
		{name: "braces", src: "BEGIN " + times("{"), want: deep},
		{name: "structs", src: nested("struct { ", "int x; ", "} y; ") + " BEGIN { }", want: deep},
		{name: "pointers", src: "int " + times("*") + "x; BEGIN { }", want: "declaration has too many parts"},
		{name: "dimensions", src: "int x" + times("[2]") + "; BEGIN { }", want: "declaration of x has too many parts"},
		{name: "declarator", src: "int " + nested("(", "x", ")") + "; BEGIN { }", want: deep},
		{name: "parameters", src: "int f(" + nested("int (*g)(", "int", ")") + "); BEGIN { }", want: deep},
		{name: "translations", src: "BEGIN { x = " + nested("xlate <int> (", "1", ")") + "; }", want: deep},
		{name: "macro", src: doubling() + "BEGIN { A39 }\n", cpp: true, want: tooLarge},
		{name: "macro calls", src: "#define F(x) x\nBEGIN { x = " + nested("F(", "1", ")") + "; }\n", cpp: true, want: tooLarge},
		{name: "#if", src: times("#if 1\n") + "BEGIN { }\n", cpp: true, want: "#if nested too deeply"},
		{name: "#if (", src: "#if " + nested("(", "1", ")") + "\n#endif\nBEGIN { }\n", cpp: true, want: "#if expression nested too deeply"},
		{name: "lines", src: times("\\\n") + "BEGIN { }\n", cpp: true},
		{name: "zeroes", src: times("\x00"), want: "not a D script: it contains null bytes"},
		{name: "null", src: "BEGIN { trace(\"a\x00b\"); }", want: "not a D script: it contains null bytes"},
		{name: "empty", want: "empty D program translation unit"},
		{name: "Latin-1 name", src: "BEGIN { caf\xe9 = 1; }", want: "line 1: syntax error near"},
		{name: "Latin-1 text", src: "BEGIN { trace(\"caf\xe9 \xff\xfe\"); }"},
		{name: "Latin-1 comment", src: "/* caf\xe9 */ BEGIN { }"},
		{name: "UTF-16", src: "\xff\xfeB\x00E\x00G\x00I\x00N\x00", want: "null bytes"},
		{name: "byte order mark", src: "\ufeffBEGIN { }"},
		{name: "CR LF", src: "BEGIN\r\n{\r\n\ttrace(1);\r\n}\r\n"},
		{name: "no newline", src: "BEGIN { }"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"-e", "-s", "/dev/stdin"}
			if tt.cpp {
				args = append([]string{"-C"}, args...)
			}
			c := exec.CommandContext(t.Context(), cmd, args...)
			c.Stdin = strings.NewReader(tt.src)
			out, err := c.CombinedOutput()
			text := string(out)
			if len(text) > 500 {
				text = text[:200] + " … " + text[len(text)-200:]
			}
			switch status := c.ProcessState.ExitCode(); {
			case tt.want == "" && (err != nil || len(out) > 0):
				t.Errorf("%v: %s", err, text)
			case tt.want != "" && (status != 1 || !bytes.Contains(out, []byte(tt.want))):
				t.Errorf("status %d, want 1 and %q: %s", status, tt.want, text)
			}
			if peak := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; peak > 1<<20 {
				t.Errorf("%d KiB of memory", peak)
			}
		})
	}
}

func enumerators() string {
	var b strings.Builder
	for i := 0; b.Len() < large; i++ {
		b.WriteString("A")
		b.WriteString(strings.Repeat("x", i%7))
		b.WriteString(strconv.Itoa(i))
		b.WriteString(",")
	}
	return b.String()
}

// doubling defines A39 as 2^39 copies of A0.
func doubling() string {
	var b strings.Builder
	for i := 1; i < 40; i++ {
		b.WriteString("#define A" + strconv.Itoa(i) + " A" + strconv.Itoa(i-1) + " A" + strconv.Itoa(i-1) + "\n")
	}
	return b.String()
}

// A clause that is too large for eBPF is refused with its line.
func TestTooLarge(t *testing.T) {
	testkernel.RequireRoot(t)
	for _, tt := range []struct{ src, want string }{
		{"int x;\nBEGIN\n{\n" + strings.Repeat("\tx = x * 3 + strlen(execname);\n", 20000) + "}\n",
			"line 2: program too complex: the code of a clause is longer"},
		{"BEGIN\n{\n\ttrace(1);\n}\nBEGIN\n{\n\ttracemem(curthread, 60000);\n\ttracemem(curthread, 60000);\n}\n",
			"line 5: program too complex: a record of 120000 bytes, the most for a clause is "},
	} {
		file := filepath.Join(t.TempDir(), "large.d")
		if err := os.WriteFile(file, []byte(tt.src), 0o666); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), testkernel.Godtrace(t), "-s", file, "-c", "true").CombinedOutput()
		if err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%v: %.300s, want %q", err, out, tt.want)
		}
	}
}

// A script may come from anywhere a file can be opened.
func TestScriptFrom(t *testing.T) {
	testkernel.RequireRoot(t)
	cmd := testkernel.Godtrace(t)
	const script = "#!/usr/sbin/dtrace -qs\nBEGIN { printf(\"%s\\n\", $$1); exit(0); }\n"
	file := filepath.Join(t.TempDir(), "script.d")
	if err := os.WriteFile(file, []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"-", "/dev/stdin", "/dev/fd/0", file, fifo} {
		for _, pipe := range []bool{false, true} {
			for _, flags := range []string{"-qs", "-Cqs"} {
				c := exec.CommandContext(t.Context(), cmd, flags, name, "word")
				f, err := os.Open(file)
				if err != nil {
					t.Fatal(err)
				}
				c.Stdin = f
				if pipe {
					c.Stdin = struct{ *bytes.Reader }{bytes.NewReader([]byte(script))}
				}
				if name == fifo {
					go func() {
						if w, err := os.OpenFile(fifo, os.O_WRONLY, 0); err == nil {
							w.WriteString(script)
							w.Close()
						}
					}()
				}
				if out, err := c.CombinedOutput(); err != nil || string(out) != "word\n\n" {
					t.Errorf("%s %s, pipe %v: %v: %q", flags, name, pipe, err, out)
				}
				f.Close()
			}
		}
	}
}
