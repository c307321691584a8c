package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/dif"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/ring"
)

// Runtime is a loaded session: its programs, its maps and what they hold. Its
// methods may be called from several goroutines, except that the rings and
// SnapshotAggs have one reader.
type Runtime struct {
	cfg  Config
	ncpu int

	plan  *plan
	maps  []*bpfMap // all of them, for Close
	progs []*ebpf.Program
	insns []int
	rings *ring.Set
	spec  *ring.Set

	aggMu sync.Mutex
	epoch uint32
	bufs  aggBuffers

	specUsed [][]int64 // bytes that SpecRoom granted, by speculation and CPU

	closeOnce sync.Once
	closeErr  error
}

// Program is the loaded program of Config.Groups[i], to be attached by its
// provider. It belongs to the Runtime and is closed with it.
func (r *Runtime) Program(i int) *ebpf.Program { return r.progs[i] }

func (r *Runtime) word(off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&r.plan.data.mem[off]))
}

// SetActivity moves the session on. It never goes back: setting Active after
// exit() was called in BEGIN leaves it draining. What was running when the
// activity changed may still run: see Quiesce.
func (r *Runtime) SetActivity(a Activity) {
	w := r.word(offActivity)
	for {
		old := w.Load()
		if Activity(uint32(old)) >= a || w.CompareAndSwap(old, old>>32<<32|uint64(a)) {
			return
		}
	}
}

// SetMissed tells programs how many firings the kernel has left out: nmissed.
func (r *Runtime) SetMissed(n uint64) { r.word(offMissed).Store(n) }

// Activity is the state now, and the argument of exit() if it was called.
func (r *Runtime) Activity() (a Activity, exitStatus int32) {
	w := r.word(offActivity).Load()
	return Activity(uint32(w)), int32(uint32(w >> 32))
}

// RunManual runs the program of group i (KindManual: BEGIN, END) once, in the
// context of this process.
func (r *Runtime) RunManual(i int) error {
	if k := r.cfg.Groups[i].Kind; k != probe.KindManual {
		return fmt.Errorf("group %s is not run by hand", r.cfg.Groups[i].Name)
	}
	return r.testRun(i, make([]uint64, 2))
}

// testRun runs a raw tracepoint program on this CPU with a context of words.
func (r *Runtime) testRun(i int, ctx []uint64) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := struct {
		fd, retval, dataIn, dataOut uint32
		in, out                     uint64
		repeat, duration            uint32
		ctxIn, ctxOut               uint32
		ctx, ctxo                   unsafe.Pointer
		flags, cpu, batch, _        uint32
	}{fd: uint32(r.progs[i].FD()), ctxIn: uint32(8 * len(ctx)), ctx: unsafe.Pointer(&ctx[0])}
	if _, err := kernel.BPF(unix.BPF_PROG_TEST_RUN, &a); err != nil {
		return fmt.Errorf("running %s: %w", r.cfg.Groups[i].Name, err)
	}
	return nil
}

// Rings are the rings of principal records, one for each possible CPU; none if
// no clause makes records.
func (r *Runtime) Rings() *ring.Set { return r.rings }

// SpecRings are the rings of speculative records, whose headers carry the
// speculation's number; nil if no clause speculates.
func (r *Runtime) SpecRings() *ring.Set {
	if r.spec.NCPU() == 0 {
		return nil
	}
	return r.spec
}

// Drops are the counts since the start.
func (r *Runtime) Drops() Drops {
	d := Drops{
		Principal:   make([]uint64, r.ncpu),
		Speculative: make([]uint64, r.ncpu),
		Aggregation: make([]uint64, r.ncpu),
		Nested:      make([]uint64, r.ncpu),
	}
	for cpu := range r.ncpu {
		if cpu < r.rings.NCPU() {
			d.Principal[cpu] = r.rings.Drops(cpu)
		}
		if cpu < r.spec.NCPU() {
			d.Speculative[cpu] = r.spec.Drops(cpu)
		}
		at := func(kind int) uint64 { return r.word(offDrops + cpu*dropStride + kind).Load() }
		d.Speculative[cpu] += at(dropSpec)
		d.Aggregation[cpu] = at(dropAgg)
		d.Nested[cpu] = at(dropNested)
		d.Dynamic += at(dropDynamic)
		d.SpecBusy += at(dropSpecBusy)
		d.SpecUnavail += at(dropSpecUnavail)
		d.ErrorInError += at(dropErrorInError)
	}
	for _, s := range r.Stats() {
		d.Recursion += s.Missed
	}
	return d
}

// Quiesce returns when every firing that was running when it was called has
// ended.
func (r *Runtime) Quiesce() error {
	if !r.plan.asynchronous {
		return nil // all programs are run by hand
	}
	if err := synchronizeRCU(); err != nil {
		return err
	}
	return r.waitSleepers()
}

// synchronizeRCU waits for a grace period: membarrier's global command is one.
func synchronizeRCU() error {
	const membarrierGlobal = 1
	_, _, e := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
	if e == 0 {
		return nil
	}
	// Refused with nohz_full: changing an array of maps waits as well.
	inner, err := newMap(nil, mapSpec{name: "rcu_in", typ: mapArray, key: 4, val: 8, entries: 1})
	if err != nil {
		return fmt.Errorf("waiting for a grace period: %w", err)
	}
	defer inner.close()
	outer, err := newMap(nil, mapSpec{name: "rcu", typ: mapArrayOfMaps, key: 4, val: 4, entries: 1, inner: inner})
	if err != nil {
		return fmt.Errorf("waiting for a grace period: %w", err)
	}
	defer outer.close()
	return outer.update(binary.LittleEndian.AppendUint32(nil, uint32(inner.fd)))
}

// FreeSpeculation makes a speculation that was committed or discarded
// available again. The caller must have taken its records from SpecRings after
// a Quiesce.
func (r *Runtime) FreeSpeculation(id int) {
	if id >= 1 && id <= r.plan.specSlots {
		if id < len(r.specUsed) {
			clear(r.specUsed[id])
		}
		w := r.word(r.plan.specOff + 8*id)
		_ = w.CompareAndSwap(specCommitting, specFree) || w.CompareAndSwap(specDiscarding, specFree)
	}
}

// SpecRoom reports whether a record of a speculation, header and payload, still
// fits its buffer of specsize bytes on its CPU, and counts it as a drop if
// not. It is to be asked once for each record taken from SpecRings.
func (r *Runtime) SpecRoom(cpu int, rec []byte) bool {
	id := int(binary.LittleEndian.Uint16(rec[dif.HdrSpec:]))
	if r.specUsed == nil {
		r.specUsed = make([][]int64, r.plan.specSlots+1)
	}
	if id >= len(r.specUsed) {
		return false
	}
	if r.specUsed[id] == nil {
		r.specUsed[id] = make([]int64, r.ncpu)
	}
	n := int64(len(rec) - dif.HdrSize + specOverhead)
	if limit := r.cfg.SpecSize; limit > 0 && r.specUsed[id][cpu]+n > limit {
		r.word(offDrops + cpu*dropStride + dropSpec).Add(1)
		return false
	}
	r.specUsed[id][cpu] += n
	return true
}

// ProbeString is the string that key fields of kind FProbe hold the number of.
func (r *Runtime) ProbeString(n uint32) string {
	if int(n) < len(r.plan.strs.list) {
		return r.plan.strs.list[n]
	}
	return ""
}

// ProgStats are a program's run counts; zero unless the kernel counts them
// (sysctl kernel.bpf_stats_enabled), but for Missed.
type ProgStats struct {
	Name   string
	Runs   uint64
	Nanos  uint64
	Missed uint64 // firings the kernel skipped because the program, or one like it, was running on the CPU
	Insns  int    // eBPF instructions
}

// Stats are the counts of each program, by group.
func (r *Runtime) Stats() []ProgStats {
	out := make([]ProgStats, len(r.progs))
	for i, p := range r.progs {
		info := kernel.FDInfo(p.FD())
		out[i] = ProgStats{
			Name: r.cfg.Groups[i].Name, Insns: r.insns[i],
			Runs: info["run_cnt"], Nanos: info["run_time_ns"], Missed: info["recursion_misses"],
		}
	}
	return out
}

// Close unloads everything. Detach first: a program lives as long as a link
// holds it, and its maps with it.
func (r *Runtime) Close() error {
	r.closeOnce.Do(func() {
		var errs []error
		for _, p := range r.progs {
			if p != nil {
				errs = append(errs, p.Close())
			}
		}
		for _, m := range r.maps {
			m.close()
		}
		r.plan.unwind.close()
		r.closeErr = errors.Join(errs...)
	})
	return r.closeErr
}
