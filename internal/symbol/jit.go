package symbol

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// jitMap is a perf-PID.map: what a runtime says of the code it generates,
// lines of "START SIZE NAME" with both numbers in hex.
type jitMap struct {
	module string
	path   string
	size   int64
	syms   []jitSym // sorted
}

type jitSym struct {
	start, size uint64
	name        string
}

// jitted looks an address up in what the process's runtime says of the code it
// makes: dumps first, which know when code was made and moved.
func (p *Process) jitted(addr uint64) (module, name string, start uint64, ok bool) {
	for _, d := range p.jitDumps() {
		if name, start, ok := d.lookup(addr); ok {
			return d.module, name, start, true
		}
	}
	name, start, ok = p.jitMapped(addr)
	return p.jit.module, name, start, ok
}

// jitMapped names an address from the file /tmp/perf-PID.map, in which runtimes
// list the code they generate: name, and where it begins.
func (p *Process) jitMapped(addr uint64) (string, uint64, bool) {
	if p.jit == nil {
		// The runtime names the file by the PID it knows itself.
		pid := strconv.Itoa(p.PID)
		if b, err := os.ReadFile(p.proc("status")); err == nil {
			if _, s, ok := strings.Cut(string(b), "\nNSpid:"); ok {
				s, _, _ = strings.Cut(s, "\n")
				if f := strings.Fields(s); len(f) > 0 {
					pid = f[len(f)-1]
				}
			}
		}
		name := "perf-" + pid + ".map"
		p.jit = &jitMap{module: name, path: p.proc("root/tmp/" + name)}
	}
	j := p.jit
	// Of a process that has gone the file may still be there, if /tmp is ours.
	for _, name := range []string{j.path, "/tmp/" + j.module} {
		st, err := os.Stat(name)
		if err != nil || !st.Mode().IsRegular() { // a pipe of that name would hold us up
			continue
		}
		if st.Size() != j.size {
			if b, err := os.ReadFile(name); err == nil {
				j.size, j.syms = int64(len(b)), parseJIT(string(b))
			}
		}
		break
	}
	i := sort.Search(len(j.syms), func(i int) bool { return j.syms[i].start > addr }) - 1
	if i < 0 || addr-j.syms[i].start >= j.syms[i].size {
		return "", 0, false
	}
	return j.syms[i].name, j.syms[i].start, true
}

// parseJIT skips lines it cannot read: the runtime may be writing the last.
// Of several entries at one address the last written counts.
func parseJIT(s string) []jitSym {
	var out []jitSym
	for line := range strings.Lines(s) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(f) < 3 || !strings.HasSuffix(line, "\n") {
			continue
		}
		start, err1 := strconv.ParseUint(strings.TrimPrefix(f[0], "0x"), 16, 64)
		size, err2 := strconv.ParseUint(strings.TrimPrefix(f[1], "0x"), 16, 64)
		if err1 == nil && err2 == nil {
			out = append(out, jitSym{start, size, f[2]})
		}
	}
	slices.SortStableFunc(out, func(a, b jitSym) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	last := out[:0]
	for i, s := range out {
		if i+1 == len(out) || out[i+1].start != s.start {
			last = append(last, s)
		}
	}
	return last
}

// jitDump is a jit-PID.dump: what a runtime writes of the code it makes, with the
// code itself, as tools/perf/Documentation/jitdump-specification.txt in Linux's
// sources has it. The runtime maps a page of the file so that tracers find it.
//
//	header: magic "JiTD" as a number, version, size of the header, …, all 32 bits wide
//	record: kind, size, 64 bits of time, and what the kind has
type jitDump struct {
	module string
	f      *os.File
	order  binary.ByteOrder
	next   int64          // place of the record that is read next
	code   []dumped       // as recorded
	byNum  map[uint64]int // number of the code → its place in code
	byAddr []int          // places in code, by start
	ends   []uint64       // highest end of those up to byAddr[i]
	bad    bool
}

// dumped is a piece of code; of several at one address the one recorded last is
// there.
type dumped struct {
	start, end uint64
	name       string
}

const (
	jitMagic = 0x4a695444
	jitLoad  = 0 // pid, tid, 64-bit: vma, address, size, number of the code; name, NUL, code
	jitMove  = 1 // pid, tid, 64-bit: vma, old address, new address, size, number of the code

	jitHeader  = 16 // kind, size, time
	maxJITName = 4096
)

// jitDumps are the dumps that the process has mapped, with what was written
// since they were looked at.
func (p *Process) jitDumps() []*jitDump {
	if len(p.gens) > 0 {
		for _, m := range p.gens[0] {
			base := path.Base(m.Path)
			if p.dumps[m.Path] != nil || !strings.HasPrefix(base, "jit-") || !strings.HasSuffix(base, ".dump") {
				continue
			}
			for _, name := range []string{fmt.Sprintf("%s/%x-%x", p.proc("map_files"), m.Start, m.End), p.proc("root") + m.Path, m.Path} {
				f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
				if err != nil {
					continue
				}
				if p.dumps == nil {
					p.dumps = map[string]*jitDump{}
				}
				p.dumps[m.Path] = &jitDump{module: base, f: f, byNum: map[uint64]int{}}
				runtime.AddCleanup(p.dumps[m.Path], func(f *os.File) { f.Close() }, f)
				break
			}
		}
	}
	var out []*jitDump
	for _, name := range slices.Sorted(maps.Keys(p.dumps)) {
		d := p.dumps[name]
		d.read(d.f)
		out = append(out, d)
	}
	return out
}

// read reads the records that are complete. What cannot be is the end of it.
func (d *jitDump) read(r io.ReaderAt) {
	if d.bad {
		return
	}
	if d.order == nil {
		var h [12]byte
		if _, err := r.ReadAt(h[:], 0); err != nil {
			return // the runtime has not written it yet
		}
		switch {
		case binary.LittleEndian.Uint32(h[:]) == jitMagic:
			d.order = binary.LittleEndian
		case binary.BigEndian.Uint32(h[:]) == jitMagic:
			d.order = binary.BigEndian
		default:
			d.bad = true
			return
		}
		d.next = int64(d.order.Uint32(h[8:]))
		if version := d.order.Uint32(h[4:]); version != 1 || d.next < 40 {
			d.bad = true
			return
		}
	}
	before := len(d.code)
	buf := make([]byte, jitHeader+40+maxJITName)
	for {
		n, err := r.ReadAt(buf, d.next)
		if n < jitHeader {
			break
		}
		b := buf[:n]
		size := int64(d.order.Uint32(b[4:]))
		if size < jitHeader {
			d.bad = size != 0 // zeros: not written yet
			break
		}
		if size <= int64(n) {
			b = b[:size]
		} else if err != nil {
			break // the rest is still to come
		} else if _, err := r.ReadAt(make([]byte, 1), d.next+size-1); err != nil {
			break
		}
		d.record(d.order.Uint32(b), b[jitHeader:])
		d.next += size
	}
	if len(d.code) == before {
		return
	}
	for i := before; i < len(d.code); i++ {
		d.byAddr = append(d.byAddr, i)
	}
	slices.SortStableFunc(d.byAddr, func(a, b int) int { return cmp.Compare(d.code[a].start, d.code[b].start) })
	d.ends = d.ends[:0]
	end := uint64(0)
	for _, i := range d.byAddr {
		end = max(end, d.code[i].end)
		d.ends = append(d.ends, end)
	}
}

// record takes a record in; b is what follows its header, cut off somewhere
// behind the name.
func (d *jitDump) record(kind uint32, b []byte) {
	num := func(i int) uint64 { return d.order.Uint64(b[8+8*i:]) }
	var s dumped
	switch {
	case kind == jitLoad && len(b) >= 40:
		name, _, ok := bytes.Cut(b[40:], []byte{0})
		if !ok {
			return
		}
		s = dumped{start: num(1), end: num(1) + num(2), name: string(name)}
		d.byNum[num(3)] = len(d.code)
	case kind == jitMove && len(b) >= 48:
		was, ok := d.byNum[num(4)]
		if !ok {
			return
		}
		s = dumped{start: num(2), end: num(2) + num(3), name: d.code[was].name}
		d.code[was].end = d.code[was].start // nothing is there any more
		d.byNum[num(4)] = len(d.code)
	default:
		return
	}
	if s.end < s.start {
		s.end = s.start
	}
	d.code = append(d.code, s)
}

// lookup finds the code at an address.
func (d *jitDump) lookup(addr uint64) (name string, start uint64, ok bool) {
	best := -1
	for i := sort.Search(len(d.byAddr), func(i int) bool { return d.code[d.byAddr[i]].start > addr }) - 1; i >= 0 && d.ends[i] > addr; i-- {
		if n := d.byAddr[i]; d.code[n].end > addr {
			best = max(best, n)
		}
	}
	if best < 0 {
		return "", 0, false
	}
	return d.code[best].name, d.code[best].start, true
}
