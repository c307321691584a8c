package bpf

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
)

var le = binary.LittleEndian

// badLoad is code that faults at address 0x10, with a record open.
func badLoad(rec int32) []dif.Ins {
	return []dif.Ins{
		{Op: dif.RecBegin, Sym: rec},
		{Op: dif.Imm, Dst: 1, Imm: 8},
		{Op: dif.Load, Dst: 2, A: 1, Imm: 8, Size: 4, Line: 77},
		{Op: dif.RecStore, A: 2, Size: 8, Sym: rec},
		{Op: dif.RecCommit, Sym: rec},
	}
}

func TestFault(t *testing.T) {
	p := newProg()
	rec := p.record(8)
	bad := p.clause(nil, badLoad(rec)...)
	good := p.clause(nil, dif.Ins{Op: dif.RecBegin, Sym: rec}, dif.Ins{Op: dif.RecCommit, Sym: rec})
	recs := records(run(t, p, bad, good))
	if len(recs) != 2 {
		t.Fatalf("%d records, want the fault's and that of the next clause", len(recs))
	}
	f := recs[0]
	if le.Uint16(f[dif.HdrRec:]) != dif.RecFault || len(f) != dif.HdrSize+24 {
		t.Fatalf("first record %x", f)
	}
	got := [5]uint64{uint64(le.Uint32(f[24:])), uint64(le.Uint32(f[28:])), uint64(le.Uint32(f[32:])), uint64(le.Uint32(f[36:])), le.Uint64(f[40:])}
	if want := [5]uint64{uint64(bad.ID), 77, uint64(dif.FltBadAddr), 2, 16}; got != want {
		t.Errorf("clause, line, kind, instruction, address: %v, want %v", got, want)
	}
}

func TestError(t *testing.T) {
	testkernel.CheckLeaks(t)
	p := newProg()
	rec := p.record(48)
	bad := p.clause(nil, badLoad(rec)...)
	code := []dif.Ins{{Op: dif.RecBegin, Sym: rec}}
	for i := range 6 {
		code = append(code,
			dif.Ins{Op: dif.Builtin, Sym: int32(dif.BArg), Imm: int64(i), Dst: dif.Reg(i + 1)},
			dif.Ins{Op: dif.RecStore, A: dif.Reg(i + 1), Size: 8, Imm: int64(8 * i), Sym: rec})
	}
	code = append(code, dif.Ins{Op: dif.RecCommit, Sym: rec})
	onError := p.clause(nil, code...)
	worse := p.clause(nil, badLoad(rec)...)

	cfg := p.begin(bad)
	cfg.Error = &Enabled{Index: 1, Probe: manual("ERROR"), Clauses: []*dif.Clause{onError, worse}, Epid: 5}
	cfg.Enabled = append(cfg.Enabled, cfg.Error)
	r := load(t, cfg)
	if err := r.RunManual(0); err != nil {
		t.Fatal(err)
	}
	recs := records(r)
	if len(recs) != 2 {
		t.Fatalf("%d records", len(recs))
	}
	e := recs[1]
	if le.Uint32(e[dif.HdrProbe:]) != 1 {
		t.Errorf("probe index %d, want that of ERROR", le.Uint32(e[dif.HdrProbe:]))
	}
	want := []uint64{0, 1, uint64(bad.ID), 2, uint64(dif.FltBadAddr), 16}
	for i, w := range want {
		if got := le.Uint64(e[dif.HdrSize+8*i:]); got != w {
			t.Errorf("arg%d of ERROR is %d, want %d", i, got, w)
		}
	}
	if n := r.Drops().ErrorInError; n != 1 {
		t.Errorf("%d errors in ERROR, want 1", n)
	}
}

func TestSpeculation(t *testing.T) {
	testkernel.CheckLeaks(t)
	p := newProg()
	rec := p.record(8)
	get := p.clause(nil,
		dif.Ins{Op: dif.Call, Sym: int32(dif.SSpeculation), Dst: 1},
		dif.Ins{Op: dif.RecBegin, A: 1, Sym: rec},
		dif.Ins{Op: dif.RecStore, A: 1, Size: 8, Sym: rec},
		dif.Ins{Op: dif.RecCommit, Sym: rec})
	commit := p.clause(nil,
		dif.Ins{Op: dif.Imm, Dst: 1, Imm: 1},
		dif.Ins{Op: dif.Act, Sym: int32(dif.OpCommit), Args: []dif.Reg{1}},
		dif.Ins{Op: dif.RecBegin, A: 1, Sym: rec}, // no longer speculates
		dif.Ins{Op: dif.RecCommit, Sym: rec})
	cfg := p.begin(get)
	cfg.NSpec = 2
	end := manual("BEGIN")
	cfg.Enabled = append(cfg.Enabled, &Enabled{Index: 1, Probe: end, Clauses: []*dif.Clause{commit}, Epid: 2})
	cfg.Groups = append(cfg.Groups, &probe.Group{Kind: probe.KindManual, Name: "commit", Probes: []*probe.Probe{end}})
	r := load(t, cfg)
	fire := func(i int) {
		t.Helper()
		if err := r.RunManual(i); err != nil {
			t.Fatal(err)
		}
	}
	ids := func() (got []uint64) {
		for cpu := range r.SpecRings().NCPU() {
			for rec := r.SpecRings().Next(cpu); rec != nil; rec = r.SpecRings().Next(cpu) {
				if id := uint64(le.Uint16(rec[dif.HdrSpec:])); id != le.Uint64(rec[dif.HdrSize:]) {
					t.Errorf("record of speculation %d says %d", id, le.Uint64(rec[dif.HdrSize:]))
				}
				got = append(got, le.Uint64(rec[dif.HdrSize:]))
			}
			r.SpecRings().Release(cpu)
		}
		return got
	}
	fire(0)
	fire(0)
	fire(0) // both are taken
	if got := ids(); len(got) != 2 || got[0]+got[1] != 3 {
		t.Errorf("speculations %v, want 1 and 2", got)
	}
	fire(1)
	fire(0) // one is being committed: there is another in its place
	fire(0)
	if got := ids(); len(got) != 1 || got[0] != 3 {
		t.Errorf("speculations %v after commit(), want 3", got)
	}
	d := r.Drops()
	if d.SpecUnavail != 2 || d.SpecBusy != 0 {
		t.Errorf("unavailable %d, busy %d, want 2 and 0", d.SpecUnavail, d.SpecBusy)
	}
	r.FreeSpeculation(1)
	fire(1) // is free: nothing to commit
	if recs := records(r); len(recs) != 0 {
		t.Errorf("%d principal records", len(recs))
	}
}

// A speculation that was discarded can be had again at once, until the
// consumer has too many to see to.
func TestSpeculationReuse(t *testing.T) {
	testkernel.CheckLeaks(t)
	p := newProg()
	r := load(t, p.begin(p.clause(nil,
		dif.Ins{Op: dif.Call, Sym: int32(dif.SSpeculation), Dst: 1},
		dif.Ins{Op: dif.Act, Sym: int32(dif.OpDiscard), Args: []dif.Reg{1}})))
	fire := func(n int) (busy, unavailable uint64) {
		t.Helper()
		for range n {
			if err := r.RunManual(0); err != nil {
				t.Fatal(err)
			}
		}
		d := r.Drops()
		return d.SpecBusy, d.SpecUnavail
	}
	if busy, un := fire(1 + spareSpecs); busy != 0 || un != 0 {
		t.Errorf("busy %d, unavailable %d, want none", busy, un)
	}
	if busy, un := fire(3); busy != 3 || un != 0 {
		t.Errorf("busy %d, unavailable %d, want 3 and none", busy, un)
	}
	r.FreeSpeculation(7)
	r.FreeSpeculation(1 + spareSpecs)
	if busy, un := fire(3); busy != 4 || un != 0 {
		t.Errorf("busy %d, unavailable %d after two were freed, want 4 and none", busy, un)
	}
}

// counter is a clause that records a number going up.
func counter(p *prog, payload int) *dif.Clause {
	v := p.variable(&dif.Var{Name: "n", Class: dif.Global, Size: 8})
	rec := p.record(payload)
	return p.clause(nil,
		dif.Ins{Op: dif.VarGet, Dst: 1, Sym: v},
		dif.Ins{Op: dif.Add, Dst: 1, A: 1, Imm: 1},
		dif.Ins{Op: dif.VarSet, A: 1, Sym: v},
		dif.Ins{Op: dif.RecBegin, Sym: rec},
		dif.Ins{Op: dif.RecStore, A: 1, Size: 8, Sym: rec},
		dif.Ins{Op: dif.RecCommit, Sym: rec})
}

func TestPolicies(t *testing.T) {
	const size, room, fired = 40, 1000 / 40, 100
	for _, tt := range []struct {
		policy      BufPolicy
		first, last uint64
		drops       uint64
	}{
		{BufSwitch, 1, room, fired - room},
		{BufFill, 1, room, 0},
		{BufRing, fired - 1000/48 + 1, fired, 0}, // 8 bytes more a record
	} {
		t.Run(fmt.Sprint(tt.policy), func(t *testing.T) {
			var set unix.CPUSet
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			unix.SchedGetaffinity(0, &set)
			one := unix.CPUSet{}
			one.Set(0)
			unix.SchedSetaffinity(0, &one)
			defer unix.SchedSetaffinity(0, &set)

			p := newProg()
			cfg := p.begin(counter(p, size-dif.HdrSize))
			cfg.BufSize, cfg.BufPolicy = 1000, tt.policy
			r := load(t, cfg)
			for range fired {
				if err := r.RunManual(0); err != nil {
					t.Fatal(err)
				}
			}
			r.Rings().Freeze()
			var got []uint64
			for _, rec := range records(r) {
				got = append(got, le.Uint64(rec[dif.HdrSize:]))
			}
			if len(got) == 0 || got[0] != tt.first || got[len(got)-1] != tt.last || uint64(len(got)) != tt.last-tt.first+1 {
				t.Errorf("records %v, want %d to %d", got, tt.first, tt.last)
			}
			if d := r.Drops().Principal[0]; d != tt.drops {
				t.Errorf("%d drops, want %d", d, tt.drops)
			}
			if full := r.Rings().Full(0); full != (tt.policy == BufFill) {
				t.Errorf("full: %v", full)
			}
		})
	}
}

// The hashes are as large as their options say, and what finds no room is
// counted.
func TestNoRoom(t *testing.T) {
	p := newProg()
	keys := []dif.Field{{Kind: dif.FInt, Size: 8}}
	v := p.variable(&dif.Var{Name: "n", Class: dif.Global, Size: 8})
	dyn := p.variable(&dif.Var{Name: "a", Class: dif.Global, Size: 8, Keys: keys, KeySize: 8})
	form := p.form(agg.Spec{Func: agg.Count}, 8, keys...)
	cl := p.clause([]dif.Temp{{Size: 8, Align: 8}},
		dif.Ins{Op: dif.VarGet, Dst: 1, Sym: v},
		dif.Ins{Op: dif.Add, Dst: 1, A: 1, Imm: 1},
		dif.Ins{Op: dif.VarSet, A: 1, Sym: v},
		dif.Ins{Op: dif.TStore, Temp: 1, A: 1, Size: 8},
		dif.Ins{Op: dif.DynSet, A: 1, Temp: 1, Sym: dyn},
		dif.Ins{Op: dif.AggUpdate, Temp: 1, Sym: form})
	cfg := p.begin(cl)
	cfg.AggSize, cfg.DynVarSize = 64*40, 64*40
	r := load(t, cfg)
	const fired = 1000
	for range fired {
		if err := r.RunManual(0); err != nil {
			t.Fatal(err)
		}
	}
	d := r.Drops()
	var drops, taken uint64
	for _, n := range d.Aggregation {
		drops += n
	}
	for _, s := range snapshot(t, r)[0] {
		taken += uint64(s.words[0])
	}
	if drops == 0 || taken == 0 || drops+taken != fired {
		t.Errorf("%d counted, %d dropped, of %d", taken, drops, fired)
	}
	if d.Dynamic == 0 || d.Dynamic >= fired {
		t.Errorf("%d dynamic drops of %d", d.Dynamic, fired)
	}
}

// nmissed is what the session last saw.
func TestMissed(t *testing.T) {
	p := newProg()
	rec := p.record(8)
	cl := p.clause(nil,
		dif.Ins{Op: dif.Builtin, Dst: 1, Sym: int32(dif.BNmissed)},
		dif.Ins{Op: dif.RecBegin, Sym: rec},
		dif.Ins{Op: dif.RecStore, A: 1, Size: 8, Sym: rec},
		dif.Ins{Op: dif.RecCommit, Sym: rec})
	r := load(t, p.begin(cl))
	r.SetMissed(7)
	if err := r.RunManual(0); err != nil {
		t.Fatal(err)
	}
	if recs := records(r); len(recs) != 1 || le.Uint64(recs[0][dif.HdrSize:]) != 7 {
		t.Errorf("%x", recs)
	}
}

// 600 clauses on one probe, more than a program may have functions.
func TestManyClauses(t *testing.T) {
	p := newProg()
	const n = 600
	var cls []*dif.Clause
	v := p.variable(&dif.Var{Name: "n", Class: dif.Global, Size: 8})
	for i := range n {
		cls = append(cls, p.clause(nil,
			dif.Ins{Op: dif.VarGet, Dst: 1, Sym: v},
			dif.Ins{Op: dif.Br, A: 1, Cond: dif.EQ, Imm: int64(i), Target: 1}, // in order?
			dif.Ins{Op: dif.Ret},
			dif.Ins{Op: dif.LabelOp, Target: 1},
			dif.Ins{Op: dif.Add, Dst: 1, A: 1, Imm: 1},
			dif.Ins{Op: dif.VarSet, A: 1, Sym: v}))
	}
	rec := p.record(8)
	cls = append(cls, p.clause(nil,
		dif.Ins{Op: dif.VarGet, Dst: 1, Sym: v},
		dif.Ins{Op: dif.RecBegin, Sym: rec},
		dif.Ins{Op: dif.RecStore, A: 1, Size: 8, Sym: rec},
		dif.Ins{Op: dif.RecCommit, Sym: rec}))
	start := time.Now()
	r := run(t, p, cls...)
	t.Logf("%d clauses loaded in %v", len(cls), time.Since(start))
	recs := records(r)
	if len(recs) != 1 || le.Uint64(recs[0][dif.HdrSize:]) != n {
		t.Errorf("%d records, %x", len(recs), recs)
	}
}

// Two probes with different clauses, told apart by the system call's number;
// thread-local storage carries the time from entry to return.
func TestLatency(t *testing.T) {
	testkernel.CheckLeaks(t)
	p := newProg()
	ts := p.variable(&dif.Var{Name: "ts", Class: dif.Self, Size: 8})
	form := p.form(agg.Spec{Func: agg.Quantize}, 0)
	calls := p.form(agg.Spec{Func: agg.Count}, 0)
	enter := p.clause(nil, append(mine(),
		dif.Ins{Op: dif.Builtin, Dst: 1, Sym: int32(dif.BTimestamp)},
		dif.Ins{Op: dif.VarSet, A: 1, Sym: ts})...)
	leave := p.clause(nil,
		dif.Ins{Op: dif.VarGet, Dst: 1, Sym: ts},
		dif.Ins{Op: dif.Br, A: 1, Cond: dif.NE, Target: 1},
		dif.Ins{Op: dif.Ret},
		dif.Ins{Op: dif.LabelOp, Target: 1},
		dif.Ins{Op: dif.Builtin, Dst: 2, Sym: int32(dif.BTimestamp)},
		dif.Ins{Op: dif.Sub, Dst: 2, A: 2, B: 1},
		dif.Ins{Op: dif.AggUpdate, A: 2, Sym: form},
		dif.Ins{Op: dif.Imm, Dst: 3},
		dif.Ins{Op: dif.VarSet, A: 3, Sym: ts})
	other := p.clause(nil, append(mine(), dif.Ins{Op: dif.AggUpdate, Sym: calls})...)

	cfg := p.sysEnter([]*dif.Clause{enter}, map[string]uint64{"getpgid": unix.SYS_GETPGID})
	add := func(g *probe.Group, name string, nr uint64, cl *dif.Clause) {
		pr := &probe.Probe{Desc: probe.Desc{Provider: "syscall", Func: name}}
		cfg.Enabled = append(cfg.Enabled, &Enabled{Index: len(cfg.Enabled), Probe: pr, Clauses: []*dif.Clause{cl}, Epid: 9})
		g.Probes, g.Keys = append(g.Probes, pr), append(g.Keys, nr)
	}
	add(cfg.Groups[0], "getsid", unix.SYS_GETSID, other)
	exit := &probe.Group{Kind: probe.KindSysExit, Name: "sys_exit"}
	add(exit, "getpgid", unix.SYS_GETPGID, leave)
	cfg.Groups = append(cfg.Groups, exit)
	r := load(t, cfg)
	attach(t, r, 0, "sys_enter")
	attach(t, r, 1, "sys_exit")
	r.SetActivity(Active)
	syscalls(500, unix.SYS_GETPGID)
	syscalls(200, unix.SYS_GETSID)
	s := snapshot(t, r)
	total := int64(0)
	if len(s[0]) == 1 {
		for _, n := range s[0][0].words {
			total += n
		}
	}
	if total != 500 {
		t.Errorf("%d latencies of 500", total)
	}
	if len(s[1]) != 1 || s[1][0].words[0] != 200 {
		t.Errorf("calls of the other: %v", s[1])
	}
}
