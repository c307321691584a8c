package check

import (
	"testing"

	"godtrace/internal/btf"
	"godtrace/internal/dlib"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// A new session that checks one program, on the running kernel's types.
func BenchmarkCheck(b *testing.B) {
	set, err := btf.Kernel()
	if err != nil {
		b.Skip(err)
	}
	defer set.Close()
	for _, bm := range []struct{ name, src string }{
		{"count", `BEGIN { @[probefunc] = count(); }`},
		{"variables", `BEGIN { self->ts = timestamp; foo = 1; bar = foo + 2; }`},
		{"kernel", `BEGIN { trace(curthread->comm); }`},
		{"library", `BEGIN { trace(curpsinfo->pr_psargs); }`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			env := benchEnv{newFakeEnv(b), btfEnv{set: set}}
			for b.Loop() {
				c := New(env, Options{Library: dlib.Lookup})
				f, err := syntax.Parse("", []byte(bm.src), syntax.Options{IsType: c.IsType})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.File(f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchEnv has the fake probes and the kernel's types.
type benchEnv struct {
	*fakeEnv
	kernelTypes btfEnv
}

func (e benchEnv) LookupType(m, kind, name string) types.Type {
	return e.kernelTypes.LookupType(m, kind, name)
}

func (e benchEnv) LookupEnumerator(name string) (int64, types.Type, bool) {
	return e.kernelTypes.LookupEnumerator(name)
}

func (e benchEnv) LookupSymbol(m, name string) (types.Type, bool) {
	return e.kernelTypes.LookupSymbol(m, name)
}
