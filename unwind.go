package godtrace

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/bpf"
	"godtrace/internal/process"
	"godtrace/internal/symbol"
)

// How user stacks are walked (option ustackmode), in the order of
// bpf.UStackMode.
var ustackModes = []string{"auto", "fp", "unwind"}

// unwinding has the unwind tables of processes where the programs find them:
// those of -c and -p before they run on. Reading tables takes milliseconds, so
// those of others are read beside the session, the youngest first, unless
// ustackmode=unwind asks for all of them before it begins.
type unwinding struct {
	s      *Session
	tables *bpf.Unwind
	likely bpf.FramePointer // what is believed of code without tables

	mu      sync.Mutex // serializes cover
	objects map[*symbol.Object][]bpf.UnwindPiece

	queueMu sync.Mutex
	covered map[int]*coverage
	queue   []int
	wake    chan struct{}
	done    chan struct{}
	ended   chan struct{}
}

// coverage is how a process was last read. One whose walks end early is read
// again and again, ever more seldom while that brings nothing new.
type coverage struct {
	queued bool
	read   time.Time
	wait   time.Duration
	ranges int
}

// readAhead is how many processes that no walk has asked for are read or wait
// to be.
const readAhead = 500

const (
	coverAgain = 20 * time.Millisecond
	coverMost  = 5 * time.Second
)

// unwindStacks begins to keep tables, if the program walks stacks by them.
// Those of the targets that run are in place when it returns.
func (s *Session) unwindStacks(r *running) {
	t := s.rt.Unwind()
	if t == nil {
		return
	}
	u := &unwinding{
		s: s, tables: t,
		objects: map[*symbol.Object][]bpf.UnwindPiece{}, covered: map[int]*coverage{},
		wake: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{}),
	}
	all := bpf.UStackMode(s.opts.get("ustackmode")) == bpf.UStackUnwind
	if !all {
		u.likely = bpf.FPLikely
	}
	r.unwind = u
	r.links = append(r.links, u)
	for _, t := range s.targets {
		if !t.Held() {
			u.target(t.PID)
		}
	}
	pids := process.PIDs()
	if all {
		for _, pid := range pids {
			u.target(pid)
		}
	} else {
		slices.Reverse(pids)
		for _, pid := range pids[:min(len(pids), readAhead)] {
			u.ask(pid)
		}
	}
	go u.run()
}

// target reads a process at once, and from now on whatever it maps.
func (u *unwinding) target(pid int) {
	u.queueMu.Lock()
	u.covered[pid] = &coverage{wait: coverAgain}
	u.queueMu.Unlock()
	u.cover(pid)
}

// stopForTables lets a created process that has not begun run to where its
// libraries are mapped, and reads their tables there. Where it cannot be
// stopped they come a little later. The error is that of the exec.
func (u *unwinding) stopForTables(t *process.Target) error {
	if u == nil || !t.Held() {
		return nil
	}
	if a, _ := u.s.rt.Activity(); a != bpf.Active {
		return nil // it has ended already: exit() in BEGIN
	}
	if err := u.s.advance(t); err != nil {
		var errno syscall.Errno
		if !t.Held() && errors.As(err, &errno) {
			return err
		}
		u.s.debugf("unwind tables of process %d: %v", t.PID, err)
	}
	u.target(t.PID)
	return nil
}

// changed is told what processes have done about their mappings.
func (u *unwinding) changed(list []process.Change) {
	if u == nil {
		return
	}
	for _, c := range list {
		u.queueMu.Lock()
		known := u.covered[c.PID] != nil
		parent := u.covered[c.Parent] != nil
		if c.Ended {
			delete(u.covered, c.PID)
		}
		u.queueMu.Unlock()
		switch {
		case c.Ended:
			u.tables.Drop(c.PID)
		case c.Parent != 0:
			if parent {
				u.tables.Fork(c.Parent, c.PID)
			}
			if parent || !u.busy() {
				u.ask(c.PID)
			}
		case known || !u.busy():
			u.ask(c.PID)
		}
	}
}

// busy says that more processes come than are read: then only those are that
// are asked for.
func (u *unwinding) busy() bool {
	u.queueMu.Lock()
	defer u.queueMu.Unlock()
	return len(u.queue) > readAhead
}

// poll looks what processes the programs ask for.
func (u *unwinding) poll() {
	if u == nil {
		return
	}
	for _, pid := range u.tables.Wanted() {
		u.queueMu.Lock()
		c := u.covered[pid]
		again := c == nil || time.Since(c.read) > c.wait
		u.queueMu.Unlock()
		if again {
			u.askFirst(pid)
		}
	}
}

// ask has a process read when there is time.
func (u *unwinding) ask(pid int) {
	u.queueMu.Lock()
	defer u.queueMu.Unlock()
	if !u.enqueued(pid) {
		u.queue = append(u.queue, pid)
	}
	u.wakeUp()
}

// askFirst has a process read before the others.
func (u *unwinding) askFirst(pid int) {
	u.queueMu.Lock()
	defer u.queueMu.Unlock()
	if u.enqueued(pid) {
		u.queue = slices.DeleteFunc(u.queue, func(p int) bool { return p == pid })
	}
	u.queue = slices.Insert(u.queue, 0, pid)
	u.wakeUp()
}

// enqueued reports whether a process was in the queue, where it is to be now.
func (u *unwinding) enqueued(pid int) bool {
	c := u.covered[pid]
	if c == nil {
		c = &coverage{wait: coverAgain}
		u.covered[pid] = c
	}
	was := c.queued
	c.queued = true
	return was
}

func (u *unwinding) wakeUp() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *unwinding) run() {
	defer close(u.ended)
	for {
		select {
		case <-u.done:
			return
		case <-u.wake:
		}
		for {
			u.queueMu.Lock()
			if len(u.queue) == 0 {
				u.queueMu.Unlock()
				break
			}
			pid := u.queue[0]
			u.queue = u.queue[1:]
			if c := u.covered[pid]; c != nil {
				c.queued = false
			}
			u.queueMu.Unlock()
			u.cover(pid)
			select {
			case <-u.done:
				return
			default:
			}
		}
	}
}

// Close ends the reading of tables.
func (u *unwinding) Close() error {
	close(u.done)
	<-u.ended
	return nil
}

// cover reads what a process has mapped and publishes its tables.
func (u *unwinding) cover(pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	err := u.s.act(func() error {
		stack, code, err := u.s.procs.Code(pid)
		if err != nil {
			return err
		}
		ranges := u.ranges(code)
		if n = len(ranges); n == 0 || stack == 0 {
			return nil // a thread of the kernel
		}
		return u.tables.SetProcess(pid, stack, ranges)
	}, "read unwind tables of process %d", pid)
	u.queueMu.Lock()
	defer u.queueMu.Unlock()
	c := u.covered[pid]
	if c == nil {
		// It ended in between.
		u.tables.Drop(pid)
		return
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		delete(u.covered, pid)
		u.tables.Drop(pid)
		return
	}
	c.read = time.Now()
	if n == c.ranges {
		c.wait = min(2*c.wait, coverMost)
	} else {
		c.ranges, c.wait = n, coverAgain
	}
}

// ranges are the tables of what is mapped executable, sorted by address.
func (u *unwinding) ranges(code []symbol.Code) []bpf.UnwindRange {
	var out []bpf.UnwindRange
	for _, c := range code {
		start, end := c.Mapping.Start, c.Mapping.End
		if start >= 1<<47 {
			continue // vsyscall, which is emulated
		}
		end = min(end, start+math.MaxUint32)
		if c.Obj == nil {
			likely := u.likely
			if c.Mapping.Path == "[uprobes]" {
				likely = bpf.FPUnknown // instructions of anybody's, out of their place
			}
			out = append(out, bpf.NoTable(start, uint32(end-start), likely))
			continue
		}
		pieces := u.pieces(c.Obj)
		if len(pieces) == 0 {
			fp := u.likely
			if c.Obj.IsGo() {
				fp = bpf.FPKept
			}
			out = append(out, bpf.NoTable(start, uint32(end-start), fp))
			continue
		}
		base := c.Obj.Base() + c.Bias // of the offsets that rows have
		for i, p := range pieces {
			lo, hi := max(start, base+uint64(p.From)), end
			if i+1 < len(pieces) {
				hi = min(hi, base+uint64(pieces[i+1].From))
			}
			if lo < hi {
				out = append(out, bpf.UnwindRange{Start: lo, Len: uint32(hi - lo), Adj: uint32(lo - base), First: p.First, Count: p.Count})
			}
		}
	}
	return out
}

// pieces are where the rows of an object are kept; none if it has no tables.
func (u *unwinding) pieces(o *symbol.Object) []bpf.UnwindPiece {
	if p, ok := u.objects[o]; ok {
		return p
	}
	u.objects[o] = nil
	table, err := o.UnwindTable()
	defer o.ForgetUnwindTable()
	if err != nil || len(table) == 0 {
		return nil
	}
	base := o.Base()
	rows := make([]bpf.UnwindRow, 1, len(table)+1) // up to the first row nothing is known
	for i := range table {
		r := &table[i]
		at := r.PC - base
		if r.PC < base || at > math.MaxUint32 {
			break
		}
		rows = append(rows, bpf.UnwindRow{PC: uint32(at), Rule: unwindRule(r)})
	}
	p, err := u.tables.AddRows(rows)
	if err != nil {
		u.s.debugf("unwind tables of %s: %v", o.Path, err)
		return nil
	}
	u.objects[o] = p
	return p
}

// ptRegs is the place in struct pt_regs of the register that DWARF numbers so.
var ptRegs = [16]uint8{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0}

// unwindRule is a row as the programs have it.
func unwindRule(r *symbol.Row) bpf.UnwindRule {
	where := func(w symbol.Where) bpf.UnwindWhere {
		switch w {
		case symbol.Same:
			return bpf.UnwindSame
		case symbol.AtCFA:
			return bpf.UnwindAtCFA
		case symbol.AtRSP:
			return bpf.UnwindAtRSP
		case symbol.AtRBP:
			return bpf.UnwindAtRBP
		}
		return bpf.UnwindLost
	}
	out := bpf.UnwindRule{
		CFAOff: r.CFAOff, RBPOff: int16(r.RBPOff), RBXOff: int16(r.RBXOff), RAOff: int16(r.RAOff), CFAAdd: int16(r.CFAAdd),
		RBP: where(r.RBP), RBX: where(r.RBX), RA: where(r.RA), Signal: r.Signal,
	}
	if int32(out.RBPOff) != r.RBPOff || int32(out.RBXOff) != r.RBXOff || int32(out.RAOff) != r.RAOff || int32(out.CFAAdd) != r.CFAAdd {
		return bpf.UnwindRule{CFA: bpf.UnwindUnknown}
	}
	switch r.CFA {
	case symbol.CFANone:
		return bpf.UnwindRule{}
	case symbol.CFAEnd:
		return bpf.UnwindRule{CFA: bpf.UnwindEnd}
	case symbol.CFARSP:
		out.CFA = bpf.UnwindRSP
	case symbol.CFARBP:
		out.CFA = bpf.UnwindRBP
	case symbol.CFARSPDeref:
		out.CFA = bpf.UnwindRSPDeref
	case symbol.CFARBPDeref:
		out.CFA = bpf.UnwindRBPDeref
	case symbol.CFAPLT:
		out.CFA = bpf.UnwindPLT
	case symbol.CFAFP:
		return bpf.UnwindRule{CFA: bpf.UnwindFP}
	case symbol.CFAReg:
		if int(r.Reg) < len(ptRegs) {
			out.CFA, out.Reg = bpf.UnwindReg, ptRegs[r.Reg]
			break
		}
		fallthrough
	default:
		return bpf.UnwindRule{CFA: bpf.UnwindUnknown}
	}
	return out
}

// UStackStats are how the user stacks were walked: by unwind tables to the
// outermost frame (or as many as asked for), by tables but not to the end, and
// in processes without tables.
type UStackStats struct{ Whole, Cut, NoTables uint64 }

// UStackStats counts the walks of user stacks since Go; none are counted with
// ustackmode=fp.
func (s *Session) UStackStats() UStackStats {
	if s.rt == nil || s.rt.Unwind() == nil {
		return UStackStats{}
	}
	n := s.rt.Unwind().Counts()
	return UStackStats{Whole: n.Ended, Cut: n.Cut, NoTables: n.Absent}
}
