//go:build amd64

// Package agree_test runs D programs on both engines, the interpreter of DIF
// and eBPF in the kernel, and compares what they print.
package agree_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"godtrace/internal/bpf"
	"godtrace/internal/consume"
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
	"godtrace/test/meaning"
)

// result is what a program printed, and its faults.
type result struct {
	output, faults string
	drops          string
}

// world is this process as a firing in it finds it.
func world() *meaning.World {
	comm, _ := os.ReadFile("/proc/self/comm")
	return &meaning.World{
		Args: make([]int64, 10),
		Num: map[dif.BuiltinID]int64{
			dif.BPid: int64(os.Getpid()), dif.BPpid: int64(os.Getppid()),
			dif.BUid: int64(os.Getuid()), dif.BGid: int64(os.Getgid()),
		},
		Str: map[dif.BuiltinID]string{dif.BExecname: strings.TrimSpace(string(comm))},
	}
}

// order is the probes of p but for ERROR, each times over, END last.
func order(p *meaning.Program, times int) (list []int) {
	end := -1
	for n := 0; n < times; n++ {
		for i, e := range p.Enabled {
			switch e.Probe.Desc.Name {
			case "ERROR":
			case "END":
				end = i
			default:
				list = append(list, i)
			}
		}
	}
	if end >= 0 {
		list = append(list, end)
	}
	return list
}

// interpret fires the probes of p in order on the interpreter.
func interpret(p *meaning.Program, times int, quiet bool) (*result, error) {
	w := world()
	x := meaning.Interpret(p, w, quiet)
	x.Machine.World = process{w}
	for _, i := range order(p, times) {
		if err := x.Fire(i); err != nil {
			return nil, err
		}
	}
	out, err := x.End()
	return &result{output: out, faults: strings.Join(x.Faults, "\n")}, err
}

// config has a program for each probe of p.
func config(p *meaning.Program) bpf.Config {
	cfg := bpf.Config{
		Object: p.Obj, CPU: -1, BufSize: 1 << 20, SpecSize: 64 << 10, NSpec: 1, AggSize: 1 << 20, DynVarSize: 1 << 20,
		ScratchSize: 16 << 10,
	}
	for i, e := range p.Enabled {
		b := &bpf.Enabled{Index: i, Probe: e.Probe, Clauses: e.Clauses, Epid: e.Epid}
		cfg.Enabled = append(cfg.Enabled, b)
		if e.Probe.Desc.Name == "ERROR" && e.Probe.Desc.Provider == "dtrace" {
			cfg.Error = b
			continue
		}
		cfg.Groups = append(cfg.Groups, &probe.Group{Kind: probe.KindManual, Name: e.Probe.Desc.Name, Probes: []*probe.Probe{e.Probe}})
	}
	return cfg
}

// execute loads p and runs its programs in order in the kernel.
func execute(p *meaning.Program, times int, quiet bool) (*result, error) {
	cfg := config(p)
	rt, err := bpf.Load(cfg)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	group := map[int]int{}
	for g, gr := range cfg.Groups {
		for i, e := range p.Enabled {
			if e.Probe == gr.Probes[0] {
				group[i] = g
			}
		}
	}
	out := meaning.NewOutput(p, quiet)
	out.OnProbeString = rt.ProbeString
	out.OnSnapshot = func() error { return rt.SnapshotAggs(out.Consumer.AddAgg) }
	out.OnSpecDone = rt.FreeSpeculation
	out.OnSpeculations = func() error {
		if rt.SpecRings() == nil {
			return nil
		}
		return rt.SpecRings().Merge(^uint64(0), func(cpu int, rec []byte) error {
			out.Consumer.Speculative(0, rec)
			return nil
		})
	}
	// Each firing is on another CPU than the one before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var home unix.CPUSet
	if err := unix.SchedGetaffinity(0, &home); err != nil {
		return nil, err
	}
	defer unix.SchedSetaffinity(0, &home)
	ended := false
	for n, i := range order(p, times) {
		pin(&home, n)
		if a, _ := rt.Activity(); a >= bpf.Draining && p.Enabled[i].Probe.Desc.Name != "END" {
			continue
		}
		if p.Enabled[i].Probe.Desc.Name == "END" && !ended {
			ended = true
			rt.SetActivity(bpf.Draining)
		}
		if err := rt.RunManual(group[i]); err != nil {
			return nil, err
		}
		out.Consumer.BeginBatch()
		err := rt.Rings().Merge(^uint64(0), func(cpu int, rec []byte) error {
			if consume.ParseHeader(rec).Spec != 0 {
				return fmt.Errorf("a speculative record in a principal ring")
			}
			return out.Consumer.Record(0, rec)
		})
		if err != nil {
			return nil, err
		}
	}
	r := new(result)
	if r.output, err = out.End(); err != nil {
		return nil, err
	}
	r.faults = strings.Join(out.Faults, "\n")
	d := rt.Drops()
	sum := d.Dynamic + d.SpecBusy + d.ErrorInError + d.Recursion
	for cpu := range d.Principal {
		sum += d.Principal[cpu] + d.Speculative[cpu] + d.Aggregation[cpu] + d.Nested[cpu]
	}
	if sum > 0 {
		r.drops = fmt.Sprintf("%+v", d)
	}
	return r, nil
}

// pin puts this thread on the nth CPU of those it may use, counted round.
func pin(home *unix.CPUSet, n int) {
	n %= home.Count()
	for cpu := 0; ; cpu++ {
		if !home.IsSet(cpu) {
			continue
		}
		if n--; n < 0 {
			var set unix.CPUSet
			set.Set(cpu)
			unix.SchedSetaffinity(0, &set)
			return
		}
	}
}

func TestTables(t *testing.T) {
	testkernel.RequireRoot(t)
	all, err := meaning.Load()
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, mt := range all {
		if mt.Synthetic {
			continue
		}
		t.Run(mt.Name(), func(t *testing.T) {
			p, err := meaning.Compile(mt.Program, meaning.NewEnv(), mt.Options)
			if err != nil {
				t.Fatal(err)
			}
			want, err := interpret(p, 1, mt.Quiet)
			if err != nil {
				t.Fatal(err)
			}
			ran++
			got, err := execute(p, 1, mt.Quiet)
			if err != nil {
				t.Fatalf("%s: %v%s", mt.Where, err, logTail(err))
			}
			if got.drops != "" {
				t.Errorf("%s: %s", mt.Where, got.drops)
			}
			compare(t, mt.Where, got, want)
		})
	}
	if ran < 100 {
		t.Errorf("only %d programs ran", ran)
	}
}

func compare(t *testing.T, where string, got, want *result) {
	t.Helper()
	if d := firstDiff(got.output, want.output); d != "" {
		t.Errorf("%s: output: %s", where, d)
	}
	if got.faults != want.faults {
		t.Errorf("%s: faults on eBPF:\n%s\nfaults of the interpreter:\n%s", where, got.faults, want.faults)
	}
}

// firstDiff names the first line in which two outputs differ; "" if none does.
func firstDiff(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := 0; i < max(len(g), len(w)); i++ {
		gl, wl := "(nothing)", "(nothing)"
		if i < len(g) {
			gl = g[i]
		}
		if i < len(w) {
			wl = w[i]
		}
		if gl != wl {
			return fmt.Sprintf("line %d: eBPF %q, interpreter %q", i+1, gl, wl)
		}
	}
	return ""
}

func logTail(err error) string {
	var v *bpf.VerifierError
	var c *bpf.TooComplexError
	log := ""
	switch {
	case errors.As(err, &v):
		log = v.Log
	case errors.As(err, &c):
		log = c.Log
	}
	if log == "" {
		return ""
	}
	return "\n" + log[max(0, len(log)-1500):]
}
