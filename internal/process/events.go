package process

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"godtrace/internal/kernel"
	"godtrace/internal/symbol"
)

// Events are what all processes do about their mappings: fork, exec, map. They
// come from perf events, one ring for each CPU, and cost nothing but at such
// moments.
type Events struct {
	fds   []int
	rings [][]byte // one page of control, then the records
}

// eventPages is the size of a ring without its control page: a power of two.
// A mapping's record is some 130 bytes, an exec of a dynamic program makes 5.
const eventPages = 64

// WatchEvents begins to collect events.
func WatchEvents() (*Events, error) {
	cpus, err := kernel.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_DUMMY,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_TIME,
		Bits:        unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask | unix.PerfBitSampleIDAll | unix.PerfBitWatermark,
		Wakeup:      1, // byte: who polls is told of each record
	}
	e := new(Events)
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			e.Close()
			return nil, fmt.Errorf("events of processes on CPU %d: %w", cpu, err)
		}
		e.fds = append(e.fds, fd)
		ring, err := unix.Mmap(fd, 0, (1+eventPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			e.Close()
			return nil, fmt.Errorf("events of processes on CPU %d: ring: %w", cpu, err)
		}
		e.rings = append(e.rings, ring)
	}
	return e, nil
}

// Close ends the collection.
func (e *Events) Close() error {
	var errs []error
	for _, r := range e.rings {
		errs = append(errs, unix.Munmap(r))
	}
	for _, fd := range e.fds {
		errs = append(errs, unix.Close(fd))
	}
	e.rings, e.fds = nil, nil
	return errors.Join(errs...)
}

// Where the control page has what (struct perf_event_mmap_page), and types of
// records (include/uapi/linux/perf_event.h).
const (
	perfDataHead = 1024
	perfDataTail = 1032

	recComm     = 3
	recExit     = 4
	recFork     = 7
	recMmap2    = 10
	miscExec    = 1 << 13 // of recComm: by exec, not by the program itself
	recHeader   = 8
	recTimeSize = 8 // at the end of each
)

type event struct {
	time uint64
	typ  uint32
	misc uint16
	body []byte
}

// Change is what a process did about its mappings. A program that it executes
// is told of by what that maps.
type Change struct {
	PID    int
	Parent int  // of a new process; 0: it mapped something
	Ended  bool // it is gone
}

// Files are readable (poll(2)) when something has happened.
func (e *Events) Files() []int { return e.fds }

// Drain passes on what has happened since it was last called, in order. It
// returns the same in short.
func (e *Events) Drain(to *symbol.Processes) []Change {
	var all []event
	for _, ring := range e.rings {
		head := (*uint64)(unsafe.Pointer(&ring[perfDataHead]))
		tail := (*uint64)(unsafe.Pointer(&ring[perfDataTail]))
		from, until := atomic.LoadUint64(tail), atomic.LoadUint64(head)
		if from == until {
			continue
		}
		data := ring[os.Getpagesize():]
		at := func(pos uint64, n int) []byte {
			i := int(pos % uint64(len(data)))
			b := make([]byte, n)
			copy(b[copy(b, data[i:]):], data)
			return b
		}
		for from < until {
			h := at(from, recHeader)
			typ, misc, size := le.Uint32(h), le.Uint16(h[4:]), int(le.Uint16(h[6:]))
			if size < recHeader+recTimeSize {
				from = until // not to be: what is there cannot be read
				break
			}
			if typ == recComm && misc&miscExec != 0 || typ == recFork || typ == recExit || typ == recMmap2 {
				b := at(from+recHeader, size-recHeader)
				all = append(all, event{le.Uint64(b[len(b)-recTimeSize:]), typ, misc, b[:len(b)-recTimeSize]})
			}
			from += uint64(size)
		}
		atomic.StoreUint64(tail, from)
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.time, b.time) })
	var out []Change
	for _, v := range all {
		if c := v.tell(to); c.PID > 0 && (len(out) == 0 || out[len(out)-1] != c) {
			out = append(out, c)
		}
	}
	return out
}

// PIDs are the processes there are, ascending.
func PIDs() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

var le = binary.LittleEndian

// tell notes an event and says what it means for the process.
func (v *event) tell(to *symbol.Processes) (c Change) {
	b := v.body
	switch {
	case v.typ == recComm && len(b) >= 8:
		to.NoteExec(int(int32(le.Uint32(b))))
	case v.typ == recFork && len(b) >= 16:
		// pid, ppid, tid, ptid
		pid, parent := int(int32(le.Uint32(b))), int(int32(le.Uint32(b[4:])))
		to.NoteFork(parent, pid)
		if pid != parent {
			c.PID, c.Parent = pid, parent
		}
	case v.typ == recExit && len(b) >= 16:
		if pid, tid := le.Uint32(b), le.Uint32(b[8:]); pid == tid {
			c.PID, c.Ended = int(int32(pid)), true
			to.NoteExit(c.PID)
		}
	case v.typ == recMmap2 && len(b) >= 64:
		// pid, tid, addr, len, pgoff, major, minor, inode, generation, prot, flags, name
		name, _, _ := bytes.Cut(b[64:], []byte{0})
		start := le.Uint64(b[8:])
		m := symbol.Mapping{
			Start: start, End: start + le.Uint64(b[16:]), Off: le.Uint64(b[24:]),
			Perm: "r-xp", Dev: fmt.Sprintf("%02x:%02x", le.Uint32(b[32:]), le.Uint32(b[36:])),
			Inode: le.Uint64(b[40:]), Path: string(name),
		}
		if m.Path == "//anon" {
			m.Path = ""
		}
		if pid := int(int32(le.Uint32(b))); pid > 0 {
			c.PID = pid
			to.NoteMapping(pid, m)
		}
	}
	return c
}
