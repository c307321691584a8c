package check

import (
	"os"
	"testing"

	"godtrace/internal/btf"
	"godtrace/internal/dlib"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// btfEnv is the running kernel's types.
type btfEnv struct {
	noKernel
	set *btf.Set
}

func (e btfEnv) LookupType(_, kind, name string) types.Type {
	t, _ := e.set.LookupType(typeSpace(kind), name)
	return t
}

func (e btfEnv) LookupEnumerator(name string) (int64, types.Type, bool) {
	t, c, ok := e.set.LookupEnumerator(name)
	return c.Value, t, ok
}

func (e btfEnv) LookupSymbol(_, name string) (types.Type, bool) {
	if t, err := e.set.VMLinux.VarType(name); err == nil {
		return t, true
	}
	return nil, false
}

func libChecker(t testing.TB, env Env) *Checker {
	c := New(env, Options{Library: dlib.Lookup})
	c.file = &fileCtx{f: &syntax.File{}, macros: map[string]bool{}}
	t.Cleanup(func() { c.file = nil })
	return c
}

// Every library loads without any kernel, and the index names exactly what it
// defines.
func TestLibraries(t *testing.T) {
	for _, file := range dlib.Files() {
		c := libChecker(t, newFakeEnv(t))
		if e := c.attempt(func() { c.loadLibrary("file", file) }); e != nil {
			t.Errorf("%s: %v %s", file, e, e.Tag)
			continue
		}
		for name, s := range c.globals {
			if s.inline == nil {
				continue
			}
			if _, _, ok := dlib.Lookup("", name); !ok {
				t.Errorf("%s: %s is not in the index", file, name)
			}
		}
		c.dTypes.Names(func(space types.Space, name string, typ types.Type) {
			if d, ok := typ.(*types.Typedef); space == types.TypedefName && ok && d.Scope == "D" {
				if _, known := types.NewDScope(types.NewCScope()).Here(space, name); known {
					return
				}
				if _, _, ok := dlib.Lookup("type", name); !ok {
					t.Errorf("%s: type %s is not in the index", file, name)
				}
			}
		})
	}
}

// Each member of each translator fits the running kernel.
func TestLibraryOnKernel(t *testing.T) {
	set, err := btf.Kernel()
	if err != nil {
		if os.IsNotExist(err) {
			t.Skip("this kernel has no BTF")
		}
		t.Skip(err)
	}
	defer set.Close()
	c := libChecker(t, btfEnv{set: set})
	for _, file := range dlib.Files() {
		if e := c.attempt(func() { c.loadLibrary("file", file) }); e != nil {
			t.Errorf("%s: %v", file, e)
		}
	}
	c.clause = &clauseCtx{out: &Clause{}}
	for _, tr := range c.xlators {
		if types.IsPointer(tr.src) && incomplete(c.complete(types.Elem(tr.src))) {
			t.Logf("this kernel has no %s", types.Elem(tr.src))
			continue
		}
		for _, m := range tr.members {
			xl := &translation{tr: tr, src: &LetRef{E{tr.src, m.Pos()}, 1}, ptr: true}
			if e := c.attempt(func() { c.translated(m.Pos(), xl, m.Name) }); e != nil {
				t.Errorf("translator %s < %s >: %s: %s:%v %s", tr.dst, tr.src, m.Name, e.Pos.File, e, e.Hint)
			}
		}
	}
	for name, s := range c.globals {
		if s.inline != nil && s.inline.params == nil {
			if e := c.attempt(func() { c.symbolValue(syntax.Pos{Line: 1}, s) }); e != nil {
				t.Errorf("inline %s: %v", name, e)
			}
		}
	}
}
