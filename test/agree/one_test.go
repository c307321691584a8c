//go:build amd64

package agree_test

import (
	"os"
	"testing"

	"godtrace/internal/bpf"
	"godtrace/internal/compile"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
	"godtrace/test/meaning"
)

// TestFile runs the program in the file GODTRACE_D names on both engines and
// shows its eBPF: a way to look at what a random program found.
func TestFile(t *testing.T) {
	name := os.Getenv("GODTRACE_D")
	if name == "" {
		t.Skip("SKIP-OPTIONAL: GODTRACE_D names no program")
	}
	testkernel.RequireRoot(t)
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	env := meaning.NewEnv()
	env.AddProbe(probe.Desc{Provider: "fuzz", Name: "u"})
	p, err := meaning.Compile(commonDecls+string(src), env, compile.Options{StrSize: fromEnv("GODTRACE_STRSIZE", 256)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(p)
	cfg.Dump = func(name, listing string) { t.Logf("%s:\n%s", name, listing) }
	if rt, err := bpf.Load(cfg); err == nil {
		rt.Close()
	}
	want, err := interpret(p, 2, true)
	if err != nil {
		t.Fatal(err)
	}
	got, err := execute(p, 2, true)
	if err != nil {
		t.Fatalf("%v%s", err, logTail(err))
	}
	t.Logf("eBPF: %+v", *got)
	compare(t, name, got, want)
}
