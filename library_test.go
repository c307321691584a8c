package godtrace

import (
	"os"
	"path/filepath"
	"testing"
)

// compileWith compiles a program with libraries of one's own, by file name.
func compileWith(t *testing.T, libs map[string]string, src string) error {
	t.Helper()
	dir := t.TempDir()
	for name, text := range libs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.SetOption("libdir", dir); err != nil {
		t.Fatal(err)
	}
	_, err = s.Compile(src, CompileOptions{})
	if ce, ok := err.(*CompileError); ok && ce.File != "" {
		ce.File = filepath.Base(ce.File)
	}
	return err
}

func TestLibraries(t *testing.T) {
	const answer = "inline int answer = 42;\n"
	for _, c := range []struct {
		name string
		libs map[string]string
		src  string
		want string // error, "" for none
	}{
		{"clauses are checked and left out", map[string]string{"a.d": "inline int x = 1;\nBEGIN { exit(0); }"}, `BEGIN { trace(x); }`, ""},
		{"a wrong clause", map[string]string{"a.d": "inline int x = 1;\nBEGIN { nosuch(); }"}, `BEGIN { trace(x); }`, `"a.d", line 2: undefined function name: nosuch`},
		{"inline", map[string]string{"a.d": answer}, "BEGIN { trace(answer); }", ""},
		{"none", nil, "BEGIN { trace(answer); }", "in action list: failed to resolve answer: Unknown variable name"},
		{"not a library", map[string]string{"a.txt": answer}, "BEGIN { trace(answer); }",
			"in action list: failed to resolve answer: Unknown variable name"},
		{"depends, whatever the order of files",
			map[string]string{"a.d": "#pragma D depends_on library z.d\ninline int half = answer / 2;\n", "z.d": answer},
			"BEGIN { trace(half); }", ""},
		{"depends on what is not there", map[string]string{"a.d": "\n#pragma D depends_on library nosuch.d\n" + answer},
			"BEGIN {}", `"a.d", line 2: program requires library nosuch.d`},
		{"wants a provider that is not there: passed over",
			map[string]string{"a.d": "#pragma D depends_on provider nosuch\n" + answer}, "BEGIN {}", ""},
		{"error", map[string]string{"a.d": "\ninline int x = ;\n"}, "BEGIN {}",
			`"a.d", line 2: syntax error near ";"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := compileWith(t, c.libs, c.src)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

// The attributes of a description are the least of the parts it names. Those
// of dtrace's probes and of D's own are as the DTrace guide lists them.
func TestStability(t *testing.T) {
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := s.Compile("BEGIN { trace(timestamp); }", CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stable := [3]string{"Stable", "Stable", "Common"}
	if desc, stmt := p.Stability(); desc != stable || stmt != stable {
		t.Errorf("stability of %v and %v, want %v", desc, stmt, stable)
	}
	c := p.Clauses()
	if len(c) != 1 || c[0].Desc != ":::BEGIN" || len(c[0].Probes) != 1 || c[0].Attributes != stable {
		t.Errorf("clauses %+v", c)
	}
	if desc, args := c[0].Probes[0].Attributes(); desc != stable || args != stable {
		t.Errorf("BEGIN: %v and %v, want %v", desc, args, stable)
	}
}
