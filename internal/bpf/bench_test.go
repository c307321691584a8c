package bpf

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/cilium/ebpf/link"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
)

// The cost of a firing: a loop of getppid() under a program, beside the least
// program that does the same, written by hand. Run with -bench FiringCost -v.

// loop is the thread CPU time of n getppid calls, in ns for each.
func loop(n int) float64 {
	var a, b unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &a)
	for range n {
		unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	}
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &b)
	return float64(b.Nano()-a.Nano()) / float64(n)
}

// hand is a program written by hand on sys_enter.
func hand(t testing.TB, c *code, name string) *ebpf.Program {
	if err := c.link(); err != nil {
		t.Fatal(err)
	}
	fd, err := loadProg(name, progSpec{typ: progRawTracepoint}, c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ebpf.NewProgramFromFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func BenchmarkFiringCost(t *testing.B) {
	testkernel.RequireRoot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	hash, err := newMap(nil, mapSpec{name: "hand_hash", typ: mapHash, key: 16, val: 8, entries: 1024})
	if err != nil {
		t.Fatal(err)
	}
	defer hash.close()
	arr, err := newMap(nil, mapSpec{name: "hand_arr", typ: mapArray, key: 4, val: 1024 * 8, entries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer arr.close()

	// By hand: only getppid is let through, as the generated programs do.
	filter := func(c *code, out label) {
		c.load(8, r2, r1, 8)
		c.jmpImm(jNE, r2, unix.SYS_GETPPID, out)
	}
	end := func(c *code, out label) {
		c.place(out)
		c.imm(r0, 0)
		c.exit()
	}
	handCount := func() *code {
		c := &code{}
		out := c.newLabel()
		filter(c, out)
		c.mapValue(r1, arr, 0)
		c.imm(r2, 1)
		c.atomic(atAdd, r1, 0, r2)
		end(c, out)
		return c
	}
	handExecname := func() *code {
		c := &code{}
		out, have := c.newLabel(), c.newLabel()
		filter(c, out)
		c.addr(r1, fp, -16)
		c.imm(r2, 16)
		c.call(fnComm)
		c.mapPtr(r1, hash)
		c.addr(r2, fp, -16)
		c.call(fnMapLookup)
		c.jmpImm(jNE, r0, 0, have)
		c.storeImm(8, fp, -24, 0)
		c.mapPtr(r1, hash)
		c.addr(r2, fp, -16)
		c.addr(r3, fp, -24)
		c.imm(r4, 1)
		c.call(fnMapUpdate)
		c.jmp(out)
		c.place(have)
		c.imm(r1, 1)
		c.atomic(atAdd, r0, 0, r1)
		end(c, out)
		return c
	}
	handByNumber := func() *code {
		c := &code{}
		out := c.newLabel()
		c.load(8, r2, r1, 8)
		c.jmpImm(jGE, r2, 512, out)
		c.aluImm(opLsh, r2, 3)
		c.mapValue(r1, arr, 0)
		c.alu(opAdd, r1, r2)
		c.imm(r2, 1)
		c.atomic(atAdd, r1, 0, r2)
		end(c, out)
		return c
	}
	handQuantize := func() *code {
		c := &code{}
		out := c.newLabel()
		filter(c, out)
		c.load(8, r3, r1, 0)
		c.aluImm(opAdd, r3, regDX)
		c.addr(r1, fp, -8)
		c.imm(r2, 8)
		c.call(fnProbeReadKernel)
		c.load(8, r2, fp, -8)
		c.imm(r1, 0)
		for _, n := range []int32{32, 16, 8, 4, 2, 1} {
			skip := c.newLabel()
			c.mov(r4, r2)
			c.aluImm(opRsh, r4, n)
			c.jmpImm(jEQ, r4, 0, skip)
			c.mov(r2, r4)
			c.aluImm(opAdd, r1, n)
			c.place(skip)
			c.opaque(r1)
		}
		c.aluImm(opAnd, r1, 127)
		c.aluImm(opLsh, r1, 3)
		c.mapValue(r2, arr, 0)
		c.alu(opAdd, r2, r1)
		c.imm(r1, 1)
		c.atomic(atAdd, r2, 0, r1)
		end(c, out)
		return c
	}
	handFalse := func() *code {
		c := &code{}
		out := c.newLabel()
		c.mov(r6, r1)
		filter(c, out)
		c.call(fnPidTgid)
		c.aluImm(opRsh, r0, 32)
		c.jmpImm(jNE, r0, 1, out)
		c.mapValue(r1, arr, 0)
		c.imm(r2, 1)
		c.atomic(atAdd, r1, 0, r2)
		end(c, out)
		return c
	}
	fd, err := loadStorageBTF(16)
	if err != nil {
		t.Fatal(err)
	}
	storage, err := newMap(nil, mapSpec{name: "hand_task", typ: mapTaskStorage, key: 4, val: 16, flags: flagNoPrealloc, btf: fd, btfVal: 3})
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer storage.close()
	handSelf := func() *code {
		c := &code{}
		out := c.newLabel()
		filter(c, out)
		c.call(fnCurrentTaskBTF)
		c.mapPtr(r1, storage)
		c.mov(r2, r0)
		c.imm(r3, 0)
		c.imm(r4, 1)
		c.call(fnTaskStorageGet)
		c.jmpImm(jEQ, r0, 0, out)
		c.mov(r6, r0)
		c.call(fnKtimeNS)
		c.store(8, r6, 0, r0)
		end(c, out)
		return c
	}
	const rbSize = 4 << 20
	rb, err := newMap(nil, mapSpec{name: "hand_rb", typ: unix.BPF_MAP_TYPE_RINGBUF, entries: rbSize})
	if err != nil {
		t.Fatal(err)
	}
	defer rb.close()
	consumer, err := unix.Mmap(rb.fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	producer, err := unix.Mmap(rb.fd, 4096, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	handRecord := func() *code { // ringbuf record of time and 64 bytes
		c := &code{}
		out := c.newLabel()
		filter(c, out)
		c.mapPtr(r1, rb)
		c.imm(r2, 88)
		c.imm(r3, 0)
		c.call(131)
		c.jmpImm(jEQ, r0, 0, out)
		c.mov(r6, r0)
		c.call(fnKtimeNS)
		c.store(8, r6, 0, r0)
		c.call(fnPidTgid)
		for i := 1; i < 11; i++ {
			c.store(8, r6, 8*i, r0)
		}
		c.mov(r1, r6)
		c.imm(r2, 1) // BPF_RB_NO_WAKEUP
		c.call(132)  // submit
		end(c, out)
		return c
	}

	var names = map[string]uint64{"getppid": unix.SYS_GETPPID}
	type test struct {
		name string
		hand func() *code
		make func(p *prog) Config
	}
	on := func(temps []dif.Temp, f func(p *prog) []dif.Ins) func(p *prog) Config {
		return func(p *prog) Config {
			code := f(p)
			return p.sysEnter([]*dif.Clause{p.clause(temps, code...)}, names)
		}
	}
	tests := []test{
		{"@=count()", handCount, on(nil, func(p *prog) []dif.Ins {
			return []dif.Ins{{Op: dif.AggUpdate, Sym: p.form(agg.Spec{Func: agg.Count}, 0)}}
		})},
		{"@[execname]=count()", handExecname, on([]dif.Temp{{Size: 16, Align: 8}}, func(p *prog) []dif.Ins {
			n := p.form(agg.Spec{Func: agg.Count}, 16, dif.Field{Kind: dif.FString, Size: 16})
			return []dif.Ins{
				{Op: dif.TBuiltin, Sym: int32(dif.BExecname), Temp: 1, Size: 16, Pad: true},
				{Op: dif.AggUpdate, Sym: n, Temp: 1}}
		})},
		{"@[probefunc]=count()", handByNumber, func(p *prog) Config {
			n := p.form(agg.Spec{Func: agg.Count}, 8, dif.Field{Kind: dif.FProbe, Size: 4, Builtin: dif.BProbeFunc})
			cl := p.clause([]dif.Temp{{Size: 8, Align: 8}},
				dif.Ins{Op: dif.TProbeStr, Temp: 1, Size: 4, Sym: int32(dif.BProbeFunc)},
				dif.Ins{Op: dif.AggUpdate, Sym: n, Temp: 1})
			all := map[string]uint64{}
			for i := range uint64(330) {
				all[fmt.Sprint("call", i)] = i
			}
			return p.sysEnter([]*dif.Clause{cl}, all)
		}},
		{"@=quantize(arg2)", handQuantize, on(nil, func(p *prog) []dif.Ins {
			return []dif.Ins{
				{Op: dif.Builtin, Dst: 1, Sym: int32(dif.BArg), Imm: 2},
				{Op: dif.AggUpdate, A: 1, Sym: p.form(agg.Spec{Func: agg.Quantize}, 0)}}
		})},
		{"/pid==1/{@=count()}", handFalse, on(nil, func(p *prog) []dif.Ins {
			return []dif.Ins{
				{Op: dif.Builtin, Dst: 1, Sym: int32(dif.BPid)},
				{Op: dif.Br, A: 1, Cond: dif.EQ, Imm: 1, Target: 1},
				{Op: dif.Ret},
				{Op: dif.LabelOp, Target: 1},
				{Op: dif.AggUpdate, Sym: p.form(agg.Spec{Func: agg.Count}, 0)}}
		})},
		{"self->ts=timestamp", handSelf, on(nil, func(p *prog) []dif.Ins {
			v := p.variable(&dif.Var{Name: "ts", Class: dif.Self, Size: 8})
			return []dif.Ins{
				{Op: dif.Builtin, Dst: 1, Sym: int32(dif.BTimestamp)},
				{Op: dif.VarSet, A: 1, Sym: v}}
		})},
		{"64-byte record", handRecord, func(p *prog) Config {
			rec := p.record(64)
			code := []dif.Ins{
				{Op: dif.Builtin, Dst: 1, Sym: int32(dif.BPid)},
				{Op: dif.RecBegin, Sym: rec}}
			for i := range 8 {
				code = append(code, dif.Ins{Op: dif.RecStore, A: 1, Size: 8, Imm: int64(8 * i)})
			}
			code = append(code, dif.Ins{Op: dif.RecCommit, Sym: rec})
			cfg := p.sysEnter([]*dif.Clause{p.clause(nil, code...)}, names)
			cfg.BufSize = 4 << 20
			return cfg
		}},
	}
	const n = 2000
	base := make([]float64, 0)
	for range 500 {
		base = append(base, loop(n))
	}
	t.Logf("bare loop %.1f ns", slices.Min(base))
	for _, tt := range tests {
		prog_ := newProg()
		r := load(t, tt.make(prog_))
		r.SetActivity(Active)
		hp := hand(t, tt.hand(), "hand")
		measure := func(p *ebpf.Program) float64 {
			l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: p})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			time.Sleep(5 * time.Millisecond)
			least := loop(n)
			for range 200 {
				for cpu := range r.Rings().NCPU() {
					for r.Rings().Next(cpu) != nil {
					}
					r.Rings().Release(cpu)
				}
				copy(consumer[:8], producer[:8])
				least = min(least, loop(n))
			}
			return least
		}
		var a, b []float64
		for range 4 {
			a = append(a, measure(hp))
			b = append(b, measure(r.Program(0)))
		}
		ma, mb := slices.Min(a), slices.Min(b)
		t.Logf("%-24s hand %6.1f  ours %6.1f  ratio %.3f  (%d insns)", tt.name, ma, mb, mb/ma, r.insns[0])
		r.Close()
	}
	_ = probe.KindSysEnter
}
