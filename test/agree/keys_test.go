//go:build amd64

package agree_test

import (
	"fmt"
	"testing"

	"godtrace/internal/bpf"
	"godtrace/internal/compile"
	"godtrace/internal/probe"
	"godtrace/internal/provider"
	"godtrace/internal/testkernel"
	"godtrace/test/meaning"
)

// What keys are made of: short ones lie in the program's own stack, long ones
// in memory of the CPU's, and verifiers are strict about the former.
var keyParts = []string{
	"stack(1)", "stack(3)", "stack(8)", "stack()", "ustack(1)", "ustack(4)", "ustack()", "jstack(2)",
	"execname", "probefunc", "pid", "(char)arg0", "(short)arg1", "arg2", "strjoin(execname, \"x\")", "ustack(2, 32)",
	"sym(arg0)", "mod(arg0)", "usym(arg0)", "umod(arg0)", "uaddr(arg0)", "func(arg0)", "ufunc(arg0)",
}

// Aggregations load with any key of one part, or of two.
func TestKeysLoad(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckLeaks(t)
	var sys provider.Provider
	for _, p := range provider.All() {
		if p.Name() == "syscall" {
			sys = p
		}
	}
	second := keyParts
	if testing.Short() {
		second = keyParts[:4]
	}
	_, guest := testkernel.InVM()
	for i, a := range keyParts {
		src := fmt.Sprintf("syscall::access:entry { @one[%s] = count(); @hist[%[1]s] = quantize(arg2); }\n", a)
		for j, b := range second {
			if guest && (i+j)%4 != 0 {
				continue
			}
			src += fmt.Sprintf("syscall::access:entry { @a%d[%s, %s] = sum(arg1); }\n", j, a, b)
		}
		p, err := meaning.Compile(src, liveEnv{meaning.NewEnv(), sys}, compile.Options{})
		if err != nil {
			t.Fatalf("%v in\n%s", err, src)
		}
		cfg := bpf.Config{Object: p.Obj, CPU: -1, BufSize: 1 << 16, NSpec: 1, AggSize: 1 << 20, DynVarSize: 1 << 16, ScratchSize: 16 << 10}
		var probes []*probe.Probe
		for i, e := range p.Enabled {
			probes = append(probes, e.Probe)
			cfg.Enabled = append(cfg.Enabled, &bpf.Enabled{Index: i, Probe: e.Probe, Clauses: e.Clauses, Epid: e.Epid})
		}
		atts, err := sys.Groups(probes)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range atts {
			cfg.Groups = append(cfg.Groups, a.Group)
		}
		rt, err := bpf.Load(cfg)
		if err != nil {
			t.Errorf("%v%s in\n%s", err, logTail(err), src)
			continue
		}
		rt.Close()
	}
}
