package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"godtrace/internal/bpf/lib"
)

// Unwind holds the tables by which programs walk user stacks. Rows are kept once
// for each object, whichever processes map it; a process has a list of ranges,
// shared with the processes it forked until one of them maps something. What is
// published never changes, so that a walk needs no lock; room is used again when
// every walk that may have seen it has ended. The layout is that of
// lib/c/unwind.c.
type Unwind struct {
	r             *Runtime
	data          *bpfMap // wanted, counters, rules, ranges
	procs, shards *bpfMap

	mu      sync.Mutex
	inner   []*bpfMap
	used    int // rows of the last shard
	rules   map[UnwindRule]uint32
	ranges  uint32 // those never used begin here
	free    [unwindSteps + 1][]uint32
	lists   map[string]*rangeList
	byPID   map[int]*rangeList
	retired []*rangeList
}

// rangeList is a block of ranges and what it holds.
type rangeList struct {
	key          string
	first, count uint32
	class        int // it has room for 1<<class
	users        int
}

const (
	unwindWanted = 1024
	unwindCPUs   = 512
	unwindRules  = 16384
	unwindRanges = 65536
	unwindRows   = 65536 // of a shard
	unwindShards = 1024
	unwindProcs  = 16384
	unwindSteps  = 10 // a process has fewer than 1<<unwindSteps ranges

	atCounters = 4 * unwindWanted
	atRules    = atCounters + 64*unwindCPUs
	atRanges   = atRules + 16*unwindRules
	unwindSize = atRanges + 24*unwindRanges
)

// UnwindCFA is how the canonical frame address is found; numbered as in
// lib/c/unwind.c.
type UnwindCFA uint8

const (
	UnwindNone UnwindCFA = iota
	UnwindEnd
	UnwindRSP
	UnwindRBP
	UnwindReg // Reg indexes struct pt_regs
	UnwindRSPDeref
	UnwindRBPDeref
	UnwindPLT
	UnwindUnknown
	UnwindFP // along the frame pointer, which the code keeps, and which may lead to another stack
)

// UnwindWhere is where a register of the caller's is.
type UnwindWhere uint8

const (
	UnwindSame UnwindWhere = iota
	UnwindAtCFA
	UnwindAtRSP
	UnwindAtRBP
	UnwindLost
)

// UnwindRule says how to get from a frame to its caller's.
type UnwindRule struct {
	CFAOff         int32
	RBPOff, RBXOff int16 // RBXOff 0: not saved
	RAOff, CFAAdd  int16 // CFAAdd is added after the load of a Deref
	CFA            UnwindCFA
	RBP, RBX, RA   UnwindWhere
	Reg            uint8
	Signal         bool
}

// UnwindRow is the rule in force from PC, an offset in the object, to the next
// row's.
type UnwindRow struct {
	PC   uint32
	Rule UnwindRule
}

// UnwindPiece is where rows went: Count of them, from First, in force from From
// on.
type UnwindPiece struct {
	From         uint32
	First, Count uint32
}

// FramePointer is what is known of code without rows.
type FramePointer uint32

const (
	FPUnknown FramePointer = iota
	FPLikely               // generated code, objects without tables: believed where a call leads there
	FPKept                 // Go: always
)

// UnwindRange is code mapped into a process. An address is PC = address -
// Start + Adj in the rows of its piece.
type UnwindRange struct {
	Start        uint64
	Len, Adj     uint32
	First, Count uint32
}

// NoTable makes a range of code without rows.
func NoTable(start uint64, n uint32, fp FramePointer) UnwindRange {
	return UnwindRange{Start: start, Len: n, First: uint32(fp)}
}

// UnwindCounts are how many walks ended as they should, how many early, and how
// many there were in processes without tables.
type UnwindCounts struct{ Ended, Cut, Absent uint64 }

var errUnwindFull = errors.New("no room for more unwind tables")

// newUnwind makes the maps of the tables, and the rule that nothing is known,
// which has the number 0.
func newUnwind(r *Runtime) (*Unwind, error) {
	u := &Unwind{r: r, rules: map[UnwindRule]uint32{}, lists: map[string]*rangeList{}, byPID: map[int]*rangeList{}}
	var err error
	if u.data, err = r.newMap(mapSpec{name: "unwind", typ: mapArray, key: 4, val: unwindSize, entries: 1, flags: flagMmapable}); err != nil {
		return nil, err
	}
	if u.procs, err = r.newMap(mapSpec{name: "unwind_proc", typ: mapHash, key: 4, val: 16, entries: unwindProcs}); err != nil {
		return nil, err
	}
	first, err := u.newShard()
	if err != nil {
		return nil, err
	}
	if u.shards, err = r.newMap(mapSpec{name: "unwind", typ: mapArrayOfMaps, key: 4, val: 4, entries: unwindShards, inner: first}); err != nil {
		first.close()
		return nil, err
	}
	if err := u.addShard(first); err != nil {
		return nil, err
	}
	u.rule(UnwindRule{})
	return u, nil
}

// close gives up the shards; the other maps are the Runtime's.
func (u *Unwind) close() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range u.inner {
		m.close()
	}
}

// mapNamed is a map that the library's routines name, and how a load of it is
// marked.
func (u *Unwind) mapNamed(name string) (*bpfMap, reg) {
	switch name {
	case lib.MapUnwind:
		return u.data, pseudoMapValue
	case lib.MapProcs:
		return u.procs, pseudoMapFD
	case lib.MapShards:
		return u.shards, pseudoMapFD
	}
	panic("bpf: the library names a map " + name)
}

// Unwind is where tables for user stacks go; nil if no program walks any by
// tables.
func (r *Runtime) Unwind() *Unwind { return r.plan.unwind }

// newShard makes room for more rows.
func (u *Unwind) newShard() (*bpfMap, error) {
	return newMap(u.r.cfg.Trace, mapSpec{name: "unwind_rows", typ: mapArray, key: 4, val: 8 * unwindRows, entries: 1, flags: flagMmapable})
}

// addShard has rows go to a shard from now on. If it cannot, the shard is closed.
func (u *Unwind) addShard(m *bpfMap) error {
	le := binary.LittleEndian
	if err := u.shards.put(le.AppendUint32(nil, uint32(len(u.inner))), le.AppendUint32(nil, uint32(m.fd))); err != nil {
		m.close()
		return err
	}
	u.inner, u.used = append(u.inner, m), 0
	return nil
}

// rule is the number of a rule. Those beyond the last are unknown.
func (u *Unwind) rule(r UnwindRule) uint32 {
	if n, ok := u.rules[r]; ok {
		return n
	}
	n := uint32(len(u.rules))
	if n == unwindRules {
		return 0
	}
	b := u.data.mem[atRules+16*n:][:16]
	le := binary.LittleEndian
	le.PutUint32(b, uint32(r.CFAOff))
	le.PutUint16(b[4:], uint16(r.RBPOff))
	le.PutUint16(b[6:], uint16(r.RBXOff))
	le.PutUint16(b[8:], uint16(r.RAOff))
	le.PutUint16(b[10:], uint16(r.CFAAdd))
	b[12], b[13], b[14] = byte(r.CFA), byte(r.RBP)|byte(r.RA)<<4, r.Reg
	if r.Signal {
		b[15] |= 1
	}
	if r.RBX == UnwindAtRSP {
		b[15] |= 8
	}
	if r.RA == UnwindAtCFA && r.RAOff == -8 {
		switch {
		case r.RBP == UnwindAtCFA && r.RBPOff == -16:
			b[15] |= 2
		case r.RBP == UnwindSame:
			b[15] |= 4
		}
	}
	u.rules[r] = n
	return n
}

// AddRows keeps the rows of an object, sorted by PC, until the session ends.
func (u *Unwind) AddRows(rows []UnwindRow) ([]UnwindPiece, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []UnwindPiece
	for len(rows) > 0 {
		// A piece lies in one shard. A little room at its end is given up.
		room := unwindRows - u.used
		if room < min(len(rows), unwindRows/16) {
			if len(u.inner) == unwindShards {
				return nil, errUnwindFull
			}
			m, err := u.newShard()
			if err != nil {
				return nil, err
			}
			if err := u.addShard(m); err != nil {
				return nil, err
			}
			room = unwindRows
		}
		n := min(room, len(rows))
		p := UnwindPiece{From: rows[0].PC, First: uint32((len(u.inner)-1)*unwindRows + u.used), Count: uint32(n)}
		b := u.inner[len(u.inner)-1].mem[8*u.used:]
		for i, r := range rows[:n] {
			binary.LittleEndian.PutUint32(b[8*i:], r.PC)
			binary.LittleEndian.PutUint32(b[8*i+4:], u.rule(r.Rule))
		}
		u.used += n
		rows = rows[n:]
		out = append(out, p)
	}
	return out, nil
}

// SetProcess publishes what is mapped executable into a process, sorted by
// address, and where its stack begins (mm_struct's start_stack).
func (u *Unwind) SetProcess(pid int, stack uint64, ranges []UnwindRange) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(ranges) >= 1<<unwindSteps || len(ranges) == 0 {
		u.drop(pid)
		return fmt.Errorf("process %d: %d ranges of code, the most are %d", pid, len(ranges), 1<<unwindSteps-1)
	}
	key := string(unsafe.Slice((*byte)(unsafe.Pointer(&ranges[0])), int(unsafe.Sizeof(ranges[0]))*len(ranges)))
	l := u.lists[key]
	if l == nil {
		l = &rangeList{key: key, count: uint32(len(ranges))}
		for 1<<l.class < len(ranges) {
			l.class++
		}
		first, ok := u.take(l.class)
		if !ok {
			return errUnwindFull
		}
		l.first = first
		copy(u.data.mem[atRanges+24*first:], key)
		u.lists[key] = l
	}
	old := u.byPID[pid]
	le := binary.LittleEndian
	value := le.AppendUint32(le.AppendUint32(le.AppendUint64(nil, stack), l.first), l.count)
	if err := u.procs.put(le.AppendUint32(nil, uint32(pid)), value); err != nil {
		u.release(l)
		return err
	}
	l.users++
	u.byPID[pid] = l
	if old != nil {
		old.users--
		u.release(old)
	}
	return nil
}

// take finds a block of ranges.
func (u *Unwind) take(class int) (uint32, bool) {
	for try := range 2 {
		for c := class; c < len(u.free); c++ {
			if n := len(u.free[c]); n > 0 {
				at := u.free[c][n-1]
				u.free[c] = u.free[c][:n-1]
				for c > class { // halve it
					c--
					u.free[c] = append(u.free[c], at+1<<c)
				}
				return at, true
			}
		}
		if n := uint32(1) << class; u.ranges+n <= unwindRanges {
			u.ranges += n
			return u.ranges - n, true
		}
		if try == 0 {
			u.reclaim()
		}
	}
	return 0, false
}

// release retires a list that no process has any more.
func (u *Unwind) release(l *rangeList) {
	if l.users == 0 && u.lists[l.key] == l {
		delete(u.lists, l.key)
		u.retired = append(u.retired, l)
	}
}

// reclaim makes the room of retired lists free when nothing can see it.
func (u *Unwind) reclaim() {
	if len(u.retired) == 0 || u.r.Quiesce() != nil {
		return
	}
	for _, l := range u.retired {
		u.free[l.class] = append(u.free[l.class], l.first)
	}
	u.retired = nil
}

// Fork gives a new process the tables of its parent, if that has any.
func (u *Unwind) Fork(parent, child int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.byPID[parent]
	if l == nil || u.byPID[child] != nil {
		return false
	}
	value := make([]byte, 16)
	le := binary.LittleEndian
	if u.procs.get(le.AppendUint32(nil, uint32(parent)), value) == nil && u.procs.put(le.AppendUint32(nil, uint32(child)), value) == nil {
		l.users++
		u.byPID[child] = l
		return true
	}
	return false
}

// Drop forgets a process.
func (u *Unwind) Drop(pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(pid)
}

func (u *Unwind) drop(pid int) {
	l := u.byPID[pid]
	if l == nil {
		return
	}
	delete(u.byPID, pid)
	_ = u.procs.deleteBatch(binary.LittleEndian.AppendUint32(nil, uint32(pid)), 1)
	l.users--
	u.release(l)
}

// Wanted are the processes whose stacks could not be walked, or not to the end,
// since it was last asked.
func (u *Unwind) Wanted() []int {
	var out []int
	for i := range unwindWanted {
		w := (*uint32)(unsafe.Pointer(&u.data.mem[4*i]))
		if atomic.LoadUint32(w) != 0 {
			out = append(out, int(atomic.SwapUint32(w, 0)))
		}
	}
	slices.Sort(out)
	return out
}

// Counts are the numbers of walks so far; none when the Runtime is closed.
func (u *Unwind) Counts() (n UnwindCounts) {
	if u.data.mem == nil {
		return n
	}
	for cpu := range unwindCPUs {
		at := func(k int) uint64 {
			return atomic.LoadUint64((*uint64)(unsafe.Pointer(&u.data.mem[atCounters+64*cpu+8*k])))
		}
		n.Ended += at(0)
		n.Cut += at(1)
		n.Absent += at(2)
	}
	return n
}
