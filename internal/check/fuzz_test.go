package check

import (
	"os"
	"path/filepath"
	"testing"

	"godtrace/internal/dlib"
	"godtrace/internal/syntax"
)

// Whatever the parser accepts is checked without a crash, as a program and as a
// library of the user's, and every error has a tag.
func FuzzFile(f *testing.F) {
	files, _ := filepath.Glob("../../test/d/*.d")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`struct s { int a; }; translator struct s < struct task_struct *T > { a = T->pid; }; BEGIN { this->s = xlate <struct s> (curthread); trace(this->s.a); }`)
	f.Add(`inline string f[int a, string b] = a ? b : "none"; BEGIN { trace(f[1, execname]); trace(curpsinfo->pr_psargs); trace(fds[1].fi_name); }`)
	env := newFakeEnv(f)
	tagged := func(t *testing.T, err error) {
		if e, ok := err.(*syntax.Error); err != nil && (!ok || e.Tag == "") {
			t.Fatalf("untagged: %v", err)
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		tagged(t, New(env, Options{Library: func(kind, name string) (string, []byte, bool) {
			if kind == "file" && name == "own.d" {
				return name, []byte(src), true
			}
			return dlib.Lookup(kind, name)
		}}).Load("own.d"))
		c := New(env, Options{Library: dlib.Lookup})
		file, err := syntax.Parse("", []byte(src), syntax.Options{IsType: c.IsType, Macros: env.Macro})
		if err != nil {
			return
		}
		for range 2 { // twice: the second time everything is defined already
			_, err := c.File(file)
			tagged(t, err)
		}
	})
}
