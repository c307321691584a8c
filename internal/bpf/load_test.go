package bpf

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
)

// prog builds clauses by hand.
type prog struct {
	obj *dif.Object
}

func newProg() *prog { return &prog{obj: &dif.Object{StrSize: 256}} }

func (p *prog) str(s string) int32 {
	p.obj.Strings = append(p.obj.Strings, s)
	return int32(len(p.obj.Strings) - 1)
}

func (p *prog) variable(v *dif.Var) int32 {
	p.obj.Vars = append(p.obj.Vars, v)
	return int32(len(p.obj.Vars) - 1)
}

// form adds an aggregation with one form of key.
func (p *prog) form(spec agg.Spec, keySize int, keys ...dif.Field) int32 {
	p.obj.Aggs = append(p.obj.Aggs, &dif.Agg{ID: len(p.obj.Aggs), Spec: spec, Keys: keys})
	p.obj.Forms = append(p.obj.Forms, &dif.AggForm{Agg: len(p.obj.Aggs) - 1, Keys: keys, KeySize: keySize})
	return int32(len(p.obj.Forms) - 1)
}

func (p *prog) record(size int) int32 {
	p.obj.Records = append(p.obj.Records, &dif.Record{ID: len(p.obj.Records), Size: size})
	return int32(len(p.obj.Records) - 1)
}

// clause numbers the registers and labels its code uses.
func (p *prog) clause(temps []dif.Temp, code ...dif.Ins) *dif.Clause {
	cl := &dif.Clause{ID: len(p.obj.Clauses), Index: len(p.obj.Clauses), Line: 1 + len(p.obj.Clauses), Temps: temps, Code: code, Name: fmt.Sprintf("dt_clause_%d", len(p.obj.Clauses))}
	for i := range code {
		in := &cl.Code[i]
		if in.Line == 0 {
			in.Line = int32(cl.Line)
		}
		for _, r := range append([]dif.Reg{in.Dst, in.A, in.B}, in.Args...) {
			cl.NRegs = max(cl.NRegs, int(r))
		}
		cl.NLabels = max(cl.NLabels, int(in.Target))
	}
	p.obj.Clauses = append(p.obj.Clauses, cl)
	return cl
}

func manual(name string) *probe.Probe {
	return &probe.Probe{ID: 1, Desc: probe.Desc{Provider: "dtrace", Name: name}}
}

// config enables clauses on probes, one group each.
func (p *prog) begin(clauses ...*dif.Clause) Config {
	pr := manual("BEGIN")
	e := &Enabled{Index: 0, Probe: pr, Clauses: clauses, Epid: 1}
	return Config{
		Object: p.obj, Enabled: []*Enabled{e}, CPU: -1, BufSize: 64 << 10, NSpec: 1, SpecSize: 64 << 10,
		Groups: []*probe.Group{{Kind: probe.KindManual, Name: "BEGIN", Probes: []*probe.Probe{pr}}},
	}
}

func load(t testing.TB, cfg Config) *Runtime {
	t.Helper()
	testkernel.RequireRoot(t)
	if os.Getenv("DUMP") != "" {
		cfg.Dump = func(name, l string) { fmt.Printf("%s:\n%s\n", name, l) }
		cfg.Trace = func(f string, a ...any) { fmt.Printf(f+"\n", a...) }
	}
	r, err := Load(cfg)
	testkernel.SkipIfUnsupported(t, err)
	if err != nil {
		if e, ok := err.(*VerifierError); ok {
			t.Log(e.Log[max(0, len(e.Log)-4000):])
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// run loads clauses on BEGIN and runs them once.
func run(t testing.TB, p *prog, clauses ...*dif.Clause) *Runtime {
	t.Helper()
	r := load(t, p.begin(clauses...))
	if err := r.RunManual(0); err != nil {
		t.Fatal(err)
	}
	return r
}

// records drains the principal rings.
func records(r *Runtime) (recs [][]byte) {
	r.Rings().Merge(^uint64(0), func(_ int, rec []byte) error {
		recs = append(recs, append([]byte(nil), rec...))
		return nil
	})
	return recs
}

func TestRecord(t *testing.T) {
	p := newProg()
	rec := p.record(32)
	cl := p.clause(nil,
		dif.Ins{Op: dif.Imm, Dst: 1, Imm: 42},
		dif.Ins{Op: dif.Builtin, Dst: 2, Sym: int32(dif.BPid)},
		dif.Ins{Op: dif.RecBegin, Sym: rec},
		dif.Ins{Op: dif.RecStore, A: 1, Size: 8},
		dif.Ins{Op: dif.RecStore, A: 2, Size: 8, Imm: 8},
		dif.Ins{Op: dif.RecBuiltin, Sym: int32(dif.BExecname), Size: 16, Imm: 16},
		dif.Ins{Op: dif.RecCommit, Sym: rec})
	r := run(t, p, cl)
	recs := records(r)
	if len(recs) != 1 {
		t.Fatalf("%d records", len(recs))
	}
	b := recs[0]
	if len(b) != dif.HdrSize+32 {
		t.Errorf("length %d", len(b))
	}
	u := binary.LittleEndian.Uint64
	if u(b[24:]) != 42 || u(b[32:]) != uint64(os.Getpid()) {
		t.Errorf("payload %x", b[24:])
	}
	comm, _ := os.ReadFile("/proc/thread-self/comm")
	if got := unix.ByteSliceToString(b[40:]); got+"\n" != string(comm) {
		t.Errorf("execname %q, comm %q", got, comm)
	}
	if records(r) != nil {
		t.Error("a record came twice")
	}
}

func TestExit(t *testing.T) {
	p := newProg()
	rec := p.record(8)
	first := p.clause(nil,
		dif.Ins{Op: dif.Imm, Dst: 1, Imm: 3},
		dif.Ins{Op: dif.Act, Sym: int32(dif.OpExit), Args: []dif.Reg{1}})
	second := p.clause(nil,
		dif.Ins{Op: dif.RecBegin, Sym: rec},
		dif.Ins{Op: dif.RecCommit, Sym: rec})
	r := run(t, p, first, second)
	if a, status := r.Activity(); a != Draining || status != 3 {
		t.Errorf("activity %d, status %d", a, status)
	}
	r.SetActivity(Active)
	if a, _ := r.Activity(); a != Draining {
		t.Errorf("activity went back to %d", a)
	}
	if n := len(records(r)); n != 0 {
		t.Errorf("%d records after exit()", n)
	}
}

// attach attaches a raw tracepoint group.
func attach(t testing.TB, r *Runtime, group int, name string) {
	t.Helper()
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: r.Program(group)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

type snap struct {
	key   string
	words []int64
}

// snapshot merges the values of all CPUs.
func snapshot(t testing.TB, r *Runtime) map[int][]snap {
	t.Helper()
	out := map[int][]snap{}
	err := r.SnapshotAggs(func(form, cpu int, key []byte, w []int64) error {
		spec := r.plan.forms[form].spec
		for i := range out[form] {
			if out[form][i].key == string(key) {
				spec.Merge(out[form][i].words, w)
				return nil
			}
		}
		out[form] = append(out[form], snap{string(key), append([]int64(nil), w...)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sysEnter enables clauses on the entry of system calls.
func (p *prog) sysEnter(clauses []*dif.Clause, names map[string]uint64) Config {
	cfg := Config{Object: p.obj, CPU: -1, BufSize: 256 << 10, NSpec: 1, SpecSize: 64 << 10}
	g := &probe.Group{Kind: probe.KindSysEnter, Name: "sys_enter"}
	for name, nr := range names {
		pr := &probe.Probe{ID: 100 + int(nr), Desc: probe.Desc{Provider: "syscall", Module: "vmlinux", Func: name, Name: "entry"}}
		e := &Enabled{Index: len(cfg.Enabled), Probe: pr, Clauses: clauses, Epid: 1 + len(cfg.Enabled)}
		cfg.Enabled = append(cfg.Enabled, e)
		g.Probes = append(g.Probes, pr)
		g.Keys = append(g.Keys, nr)
	}
	cfg.Groups = []*probe.Group{g}
	return cfg
}

func syscalls(n int, nr uintptr) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range n {
		unix.RawSyscall(nr, 77, 88, 99)
	}
}

// mine is code that leaves the clause unless the process is this one.
func mine() []dif.Ins {
	return []dif.Ins{
		{Op: dif.Builtin, Dst: 90, Sym: int32(dif.BPid)},
		{Op: dif.Br, A: 90, Cond: dif.EQ, Imm: int64(os.Getpid()), Target: 9},
		{Op: dif.Ret},
		{Op: dif.LabelOp, Target: 9},
	}
}

func TestCountByExecname(t *testing.T) {
	testkernel.CheckLeaks(t)
	p := newProg()
	count := p.form(agg.Spec{Func: agg.Count}, 0)
	byName := p.form(agg.Spec{Func: agg.Count}, 16, dif.Field{Kind: dif.FString, Size: 16})
	byFunc := p.form(agg.Spec{Func: agg.Count}, 8, dif.Field{Kind: dif.FProbe, Size: 4, Builtin: dif.BProbeFunc})
	cl := p.clause([]dif.Temp{{Size: 16, Align: 8}, {Size: 8, Align: 8}}, append(mine(),
		dif.Ins{Op: dif.AggUpdate, Sym: count},
		dif.Ins{Op: dif.TBuiltin, Sym: int32(dif.BExecname), Temp: 1, Size: 16, Pad: true},
		dif.Ins{Op: dif.AggUpdate, Sym: byName, Temp: 1},
		dif.Ins{Op: dif.TZero, Temp: 2, Size: 8},
		dif.Ins{Op: dif.TProbeStr, Temp: 2, Size: 4, Sym: int32(dif.BProbeFunc)},
		dif.Ins{Op: dif.AggUpdate, Sym: byFunc, Temp: 2},
	)...)
	r := load(t, p.sysEnter([]*dif.Clause{cl}, map[string]uint64{"getpgid": unix.SYS_GETPGID, "getsid": unix.SYS_GETSID}))
	attach(t, r, 0, "sys_enter")
	syscalls(10, unix.SYS_GETPGID) // not yet active
	r.SetActivity(Active)
	for range 2 {
		syscalls(1000, unix.SYS_GETPGID)
		syscalls(300, unix.SYS_GETSID)
		s := snapshot(t, r)
		if got := s[0]; len(got) != 1 || got[0].words[0] != 1300 {
			t.Errorf("count() %v", got)
		}
		comm, _ := os.ReadFile("/proc/self/comm")
		if got := s[1]; len(got) != 1 || got[0].words[0] != 1300 || !strings.HasPrefix(got[0].key, strings.TrimSpace(string(comm))) {
			t.Errorf("by execname %v, comm %q", got, comm)
		}
		by := map[string]int64{}
		for _, v := range s[2] {
			by[r.ProbeString(binary.LittleEndian.Uint32([]byte(v.key)))] += v.words[0]
		}
		if by["getpgid"] != 1000 || by["getsid"] != 300 || len(by) != 2 {
			t.Errorf("by probefunc %v", by)
		}
	}
	if s := snapshot(t, r); len(s) != 0 {
		t.Errorf("left over: %v", s)
	}
}
