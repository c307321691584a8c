package godtrace

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"sync"
	"sync/atomic"
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
// those of -c and -p before they run on. To read the tables of an object takes
// milliseconds, to publish those of a process whose objects have been read a
// tenth of one. So one goroutine publishes what processes map as soon as they
// do, another reads the objects that are new to it, and they are published
// again. What came last goes first: it may not be there for long. They begin
// with the processes there are; ustackmode=unwind asks for all of them before
// tracing begins.
type unwinding struct {
	s      *Session
	gone   *gone
	tables *bpf.Unwind
	likely bpf.FramePointer // what is believed of code without tables

	publishing sync.Mutex // what is published last is what was read last
	reading    sync.Mutex // one object at a time

	mu      sync.Mutex // guards what follows
	objects map[*symbol.ObjectFile][]bpf.UnwindPiece
	covered map[int]*coverage
	publish []int                        // processes to be published, the next one last
	read    []*symbol.ObjectFile         // objects to be read, the next one last
	lacking map[*symbol.ObjectFile][]int // the processes that wait for it

	bell, readBell bell
	done           atomic.Bool
	ended          sync.WaitGroup
}

// coverage is how a process was last published. One whose walks end early is
// looked at again and again, ever more seldom while that brings nothing new.
type coverage struct {
	asked  bool // it is in the queue
	at     time.Time
	wait   time.Duration
	ranges int
	lacks  int // objects that are to be read
}

// readAhead is how many processes are read that no walk has asked for.
const readAhead = 500

const (
	coverAgain = 20 * time.Millisecond
	coverMost  = 5 * time.Second
)

// unwindStacks begins to keep tables, if the program walks stacks by them.
// Those of the targets that run are in place when it returns.
func (s *Session) unwindStacks(r *running) error {
	t := s.rt.Unwind()
	if t == nil {
		return nil
	}
	u := &unwinding{
		s: s, gone: r.gone, tables: t,
		objects: map[*symbol.ObjectFile][]bpf.UnwindPiece{}, covered: map[int]*coverage{},
		lacking: map[*symbol.ObjectFile][]int{},
	}
	var err error
	if u.bell, err = newBell(); err != nil {
		return err
	}
	if u.readBell, err = newBell(); err != nil {
		u.bell.close()
		return err
	}
	all := bpf.UStackMode(s.opts.get("ustackmode")) == bpf.UStackUnwind
	if !all {
		u.likely = bpf.FPLikely
	}
	r.unwind, r.gone.unwind = u, u
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
		for _, pid := range pids[max(0, len(pids)-readAhead):] {
			u.ask(pid)
		}
	}
	u.ended.Go(u.publishAll)
	u.ended.Go(u.readAll)
	return nil
}

// target reads a process at once, and from now on whatever it maps.
func (u *unwinding) target(pid int) {
	u.mu.Lock()
	if u.covered[pid] == nil {
		u.covered[pid] = &coverage{wait: coverAgain}
	}
	u.mu.Unlock()
	u.readObjects(pid)
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
	if u == nil || len(list) == 0 {
		return
	}
	u.mu.Lock()
	for _, c := range list {
		p := u.covered[c.PID]
		if c.Parent != 0 {
			p = u.covered[c.Parent]
		}
		switch {
		case c.Ended:
			delete(u.covered, c.PID)
			u.tables.Drop(c.PID)
		case c.Parent != 0 && p != nil && u.tables.Fork(c.Parent, c.PID) && !p.asked && p.lacks <= 0:
			u.covered[c.PID] = &coverage{at: p.at, wait: p.wait, ranges: p.ranges}
		default:
			u.enqueue(c.PID)
		}
	}
	u.mu.Unlock()
	u.bell.ring()
}

// poll looks what processes the programs ask for.
func (u *unwinding) poll() {
	if u == nil {
		return
	}
	for _, pid := range u.tables.Wanted() {
		u.mu.Lock()
		c := u.covered[pid]
		again := c == nil || time.Since(c.at) > c.wait
		u.mu.Unlock()
		if again {
			u.ask(pid)
			u.bell.ring()
		}
	}
}

// ask has a process published, before those asked for earlier.
func (u *unwinding) ask(pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.enqueue(pid)
}

func (u *unwinding) enqueue(pid int) {
	c := u.covered[pid]
	if c == nil {
		c = &coverage{wait: coverAgain}
		u.covered[pid] = c
	}
	u.publish = last(u.publish, pid, c.asked)
	c.asked = true
}

// last puts something at the end of a list, where it may be already.
func last[T comparable](list []T, what T, there bool) []T {
	if there {
		list = slices.DeleteFunc(list, func(o T) bool { return o == what })
	}
	return append(list, what)
}

// nextProcess is whom to publish.
func (u *unwinding) nextProcess() (int, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.publish) > 0 {
		end := len(u.publish) - 1
		pid := u.publish[end]
		u.publish = u.publish[:end]
		if c := u.covered[pid]; c != nil && c.asked {
			c.asked = false
			return pid, true
		}
	}
	return 0, false
}

// nextObject is what to read.
func (u *unwinding) nextObject() *symbol.ObjectFile {
	u.mu.Lock()
	defer u.mu.Unlock()
	end := len(u.read) - 1
	if end < 0 {
		return nil
	}
	f := u.read[end]
	u.read = u.read[:end]
	return f
}

// What the publishing of processes may take of a CPU. It runs ahead of what it
// publishes, or a program of a millisecond would have ended by then; where
// processes come faster it looks every few milliseconds what is left of them.
const (
	publishShare = 4 // one part in so many
	publishBurst = 10 * time.Millisecond
)

// publishAll publishes the tables of processes when they map something.
func (u *unwinding) publishAll() {
	defer hurry()()
	files := append([]int{u.bell.fd}, u.gone.events.Files()...)
	u.publishAsked() // those there are
	left, before, spent := publishBurst, time.Now(), threadTime()
	for {
		if left > 0 {
			waitFor(files, -1)
		} else {
			waitFor(files[:1], pollEvery)
		}
		u.bell.hush()
		if u.done.Load() {
			return
		}
		now := time.Now()
		left = min(left+now.Sub(before)/publishShare, publishBurst)
		before = now
		u.publishAsked()
		left -= threadTime() - spent
		spent = threadTime()
	}
}

// threadTime is how long the thread has run.
func threadTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

func (u *unwinding) publishAsked() {
	for !u.done.Load() {
		u.gone.note(u.s)
		pid, ok := u.nextProcess()
		if !ok {
			return
		}
		u.cover(pid)
	}
}

// readAll reads objects that are new.
func (u *unwinding) readAll() {
	for !u.done.Load() {
		f := u.nextObject()
		if f == nil {
			waitFor([]int{u.readBell.fd}, -1)
			u.readBell.hush()
			continue
		}
		u.readObject(f)
		u.mu.Lock()
		for _, pid := range u.lacking[f] {
			if c := u.covered[pid]; c != nil {
				if c.lacks--; c.lacks <= 0 {
					u.enqueue(pid)
				}
			}
		}
		delete(u.lacking, f)
		u.mu.Unlock()
		u.bell.ring()
	}
}

func (u *unwinding) close() {
	if u == nil {
		return
	}
	u.done.Store(true)
	u.bell.ring()
	u.readBell.ring()
	u.ended.Wait()
	u.bell.close()
	u.readBell.close()
}

// bell wakes a goroutine that waits for files.
type bell struct{ fd int }

func newBell() (bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return bell{fd}, err
}

func (b bell) ring()  { unix.Write(b.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }
func (b bell) hush()  { unix.Read(b.fd, make([]byte, 8)) }
func (b bell) close() { unix.Close(b.fd) }

// waitFor waits until one of some files can be read from, or for a time;
// negative: without end.
func waitFor(files []int, d time.Duration) {
	fds := make([]unix.PollFd, len(files))
	for i, fd := range files {
		fds[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	var ts *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(int64(d))
		ts = &t
	}
	_, _ = unix.Ppoll(fds, ts, nil)
}

// cover publishes the tables of what a process has mapped, as far as they have
// been read.
func (u *unwinding) cover(pid int) {
	u.publishing.Lock()
	defer u.publishing.Unlock()
	n := 0
	var unread []*symbol.ObjectFile
	err := u.s.act(func() error {
		stack, code, err := u.s.procs.CodeRead(pid)
		if err != nil {
			return err
		}
		var ranges []bpf.UnwindRange
		ranges, unread = u.ranges(code)
		if n = len(ranges); n == 0 || stack == 0 {
			return nil // a thread of the kernel
		}
		return u.tables.SetProcess(pid, stack, ranges)
	}, "publish unwind tables of process %d", pid)
	u.mu.Lock()
	defer u.mu.Unlock()
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
	for _, f := range unread {
		pids, there := u.lacking[f]
		u.read = last(u.read, f, there)
		if !slices.Contains(pids, pid) {
			u.lacking[f] = append(pids, pid)
			c.lacks++
		}
	}
	if len(unread) > 0 {
		u.readBell.ring()
	}
	c.at = time.Now()
	if n == c.ranges {
		c.wait = min(2*c.wait, coverMost)
	} else {
		c.ranges, c.wait = n, coverAgain
	}
}

// readObjects reads the objects of a process.
func (u *unwinding) readObjects(pid int) {
	_, code, _ := u.s.procs.CodeRead(pid)
	for _, c := range code {
		if c.File != nil {
			u.readObject(c.File)
		}
	}
}

// ranges are the tables of what is mapped executable, sorted by address, and
// what of it has not been read.
func (u *unwinding) ranges(code []symbol.Code) (out []bpf.UnwindRange, unread []*symbol.ObjectFile) {
	for _, c := range code {
		start, end := c.Mapping.Start, c.Mapping.End
		if start >= 1<<47 {
			continue // vsyscall, which is emulated
		}
		end = min(end, start+math.MaxUint32)
		u.mu.Lock()
		pieces, read := u.objects[c.File]
		u.mu.Unlock()
		if c.File != nil && !read {
			unread = append(unread, c.File)
			out = append(out, bpf.NoTable(start, uint32(end-start), bpf.FPUnknown))
			continue
		}
		if c.Obj == nil {
			likely := u.likely
			if c.Mapping.Path == "[uprobes]" {
				likely = bpf.FPUnknown // instructions of anybody's, out of their place
			}
			out = append(out, bpf.NoTable(start, uint32(end-start), likely))
			continue
		}
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
	return out, unread
}

// readObject keeps the rows of an object; none if it has no tables.
func (u *unwinding) readObject(f *symbol.ObjectFile) {
	u.reading.Lock()
	defer u.reading.Unlock()
	u.mu.Lock()
	_, ok := u.objects[f]
	u.mu.Unlock()
	if ok {
		return
	}
	var pieces []bpf.UnwindPiece
	_ = u.s.act(func() error {
		if o := f.Object(); o != nil {
			pieces = u.rows(o)
		}
		return nil
	}, "read unwind tables of %s", f.Name())
	u.mu.Lock()
	u.objects[f] = pieces
	u.mu.Unlock()
}

func (u *unwinding) rows(o *symbol.Object) []bpf.UnwindPiece {
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
