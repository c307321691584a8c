// Package ring is the way of records from eBPF programs to the consumer: one
// ring of bytes for each CPU, shared through a mapped array map, written by
// programs on that CPU and read here without a system call.
//
// # Layout of one ring (one array element)
//
//	0            control page (4096 bytes):
//	             0 head, 64 tail, 128 drops, 136 full, 192 open, 200 pending
//	4096         data, Size bytes, a power of two
//	4096+Size    slack, as large as the largest record
//
// Positions are 64-bit byte counts that never wrap (they begin at a random
// multiple of Size, so that stale payload is never taken for a header); the
// byte of position p is data[p & (Size-1)]. Thanks to the slack a record is
// always contiguous.
//
// # Protocol
//
// A writer reserves by moving head with compare-and-exchange, fills its record
// and at last stores the record's first word: position<<16 | length | withdrawn.
// Lengths are multiples of 8, bit 0 marks a record that was withdrawn (its
// clause faulted). A reader takes a record only when the word's position is
// the one it stands at, so nothing needs clearing. Firings nest on a CPU
// (interrupts, preempted uprobes): compare-and-exchange makes reservations
// exact, and a reader simply waits at the first uncommitted record.
//
// Under the policy ring nobody moves tail: writers overwrite the oldest, and
// every record is followed by a copy of its first word, by which the reader
// walks back from head once no writer is left.
package ring

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"godtrace/internal/dif"
)

// Offsets in the control page.
const (
	OffHead    = 0
	OffTail    = 64
	OffDrops   = 128
	OffFull    = 136 // policy fill: set by the first record without room
	OffOpen    = 192 // policy ring: reservations not yet committed
	OffPending = 200 // policy ring: position of the oldest of them
	OffData    = 4096
)

// FlagWithdrawn marks a committed record without meaning.
const FlagWithdrawn = 1

// Geometry is the shape of the rings of a set.
type Geometry struct {
	Cap    int64 // bytes that may be in use: the option bufsize
	Size   int64 // power of two, at least Cap
	Slack  int64
	Stride int64 // bytes of one array element
}

// maxSize is the largest ring: an offset that is known at run time only must
// stay below 512 MB for the verifier (BPF_MAX_VAR_OFF), its slack included.
const maxSize = 1 << 28

// Fit is the geometry for a capacity (bytes) and a largest record (bytes with
// header). limit is the largest array value the kernel takes, 0 for no limit;
// capacities above it or above 256 MB are cut down.
func Fit(capacity, largest, limit int64) Geometry {
	const page = 4096
	slack := (largest + page - 1) &^ (page - 1)
	capacity = min(max(capacity&^7, 8), maxSize)
	g := Geometry{Cap: capacity, Size: page, Slack: slack}
	if capacity > page {
		g.Size = 1 << bits.Len64(uint64(capacity-1))
	}
	for limit > 0 && OffData+g.Size+slack > limit && g.Size > page {
		g.Size /= 2
	}
	g.Cap = min(g.Cap, g.Size)
	g.Stride = OffData + g.Size + slack
	return g
}

// Set is the rings of all CPUs. A Set has one reader; Drops and Full may be
// called beside it.
type Set struct {
	geo    Geometry
	mem    []byte // stays mapped until Close of whoever made it
	pos    []uint64
	lapped bool
	back   [][]uint64 // policy ring: positions of intact records, per CPU, oldest first
}

// NewSet is a reader of ncpu rings in mem, which must be fresh (all zero).
// overwrite says that the policy is ring.
func NewSet(mem []byte, ncpu int, geo Geometry, overwrite bool) (*Set, error) {
	if int64(len(mem)) < geo.Stride*int64(ncpu) {
		return nil, fmt.Errorf("rings: %d bytes mapped, expected %d", len(mem), geo.Stride*int64(ncpu))
	}
	s := &Set{geo: geo, mem: mem, pos: make([]uint64, ncpu), lapped: overwrite}
	for cpu := range s.pos {
		p := (uint64(rand.Uint32()) + 1) * uint64(geo.Size)
		p &= 1<<46 - 1
		s.pos[cpu] = p
		s.word(cpu, OffTail).Store(p)
		s.word(cpu, OffHead).Store(p)
	}
	return s, nil
}

// NCPU is the number of rings.
func (s *Set) NCPU() int { return len(s.pos) }

// Geometry is the shape of the rings.
func (s *Set) Geometry() Geometry { return s.geo }

func (s *Set) word(cpu int, off int64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&s.mem[int64(cpu)*s.geo.Stride+off]))
}

func (s *Set) data(cpu int, pos uint64) int64 {
	return int64(cpu)*s.geo.Stride + OffData + int64(pos&uint64(s.geo.Size-1))
}

// Next returns the next record of a CPU, header (dif.HdrSize bytes) and
// payload, or nil if there is none yet. The bytes lie in the ring: they are
// good until Release. Under the policy ring, see Freeze.
func (s *Set) Next(cpu int) []byte {
	if s.lapped {
		return s.nextBack(cpu)
	}
	for {
		pos := s.pos[cpu]
		at := s.data(cpu, pos)
		w := s.word(cpu, at-int64(cpu)*s.geo.Stride).Load()
		if w>>16 != pos&(1<<48-1) {
			return nil
		}
		n := int64(w & 0xfff8)
		if n < dif.HdrSize || n > s.geo.Slack {
			return nil // never written by our programs
		}
		s.pos[cpu] = pos + uint64(n)
		if w&FlagWithdrawn != 0 {
			continue
		}
		return s.mem[at : at+n : at+n]
	}
}

// Release gives the space of everything Next returned back to the writers.
func (s *Set) Release(cpu int) {
	if !s.lapped {
		s.word(cpu, OffTail).Store(s.pos[cpu])
	}
}

// Freeze prepares reading under the policy ring: it must be called once no
// writer is left and before the first Next, which then returns what was not
// overwritten, oldest first. Under other policies it does nothing.
func (s *Set) Freeze() {
	if !s.lapped {
		return
	}
	s.back = make([][]uint64, len(s.pos))
	for cpu, first := range s.pos {
		head := s.word(cpu, OffHead).Load()
		oldest := first
		if c := uint64(s.geo.Cap); head-first > c {
			oldest = head - c
		}
		var found []uint64
		for pos := head; pos > oldest+8; {
			// The trailing copy may lie in the slack's turn of the ring: it is
			// written through the record's own pointer, so it is found there.
			n, ok := s.before(cpu, pos)
			if !ok || pos-n < oldest {
				break
			}
			pos -= n
			found = append(found, pos)
		}
		for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
			found[i], found[j] = found[j], found[i]
		}
		s.back[cpu] = found
	}
}

// before gives the length of the record that ends at pos. A record that began
// before the end of the data ends in the slack, so both places are looked at.
func (s *Set) before(cpu int, pos uint64) (n uint64, ok bool) {
	off := int64(pos & uint64(s.geo.Size-1))
	for _, end := range [2]int64{off, off + s.geo.Size} {
		if end < 8 || end > s.geo.Size+s.geo.Slack {
			continue
		}
		base := int64(cpu)*s.geo.Stride + OffData
		w := binary.LittleEndian.Uint64(s.mem[base+end-8:])
		n := w & 0xfff8
		if n < dif.HdrSize+8 || w>>16 != (pos-n)&(1<<48-1) {
			continue
		}
		if binary.LittleEndian.Uint64(s.mem[s.data(cpu, pos-n):]) == w {
			return n, true
		}
	}
	return 0, false
}

func (s *Set) nextBack(cpu int) []byte {
	for s.back != nil && len(s.back[cpu]) > 0 {
		pos := s.back[cpu][0]
		s.back[cpu] = s.back[cpu][1:]
		at := s.data(cpu, pos)
		w := binary.LittleEndian.Uint64(s.mem[at:])
		if w&FlagWithdrawn != 0 {
			continue
		}
		n := int64(w&0xfff8) - 8
		return s.mem[at : at+n : at+n]
	}
	return nil
}

// Used is the number of bytes a CPU's ring holds that were not released.
func (s *Set) Used(cpu int) int64 {
	return int64(s.word(cpu, OffHead).Load() - s.word(cpu, OffTail).Load())
}

// Drops is the number of records of a CPU that found no room, since the start.
func (s *Set) Drops(cpu int) uint64 { return s.word(cpu, OffDrops).Load() }

// Full reports whether a CPU's ring ended recording (policy fill).
func (s *Set) Full(cpu int) bool { return s.word(cpu, OffFull).Load() != 0 }

// Time is the time stamp of a record Next returned.
func Time(rec []byte) uint64 { return binary.LittleEndian.Uint64(rec[dif.HdrTime:]) }

// Merge calls f for the records of all CPUs in the order of their time stamps
// up to and including until, and releases them CPU by CPU as it ends. Records
// of one CPU are in the order of their reservation; one that interrupted
// another comes after it. A record not yet committed holds back only its CPU.
func (s *Set) Merge(until uint64, f func(cpu int, rec []byte) error) error {
	heads := make([][]byte, len(s.pos))
	prev := make([]uint64, len(s.pos))
	advance := func(cpu int) {
		prev[cpu] = s.pos[cpu]
		heads[cpu] = s.Next(cpu)
		if heads[cpu] != nil && Time(heads[cpu]) > until {
			heads[cpu] = nil
			if !s.lapped {
				s.pos[cpu] = prev[cpu]
			}
		}
	}
	for cpu := range heads {
		advance(cpu)
	}
	for {
		first := -1
		for cpu, h := range heads {
			if h != nil && (first < 0 || Time(h) < Time(heads[first])) {
				first = cpu
			}
		}
		if first < 0 {
			break
		}
		if err := f(first, heads[first]); err != nil {
			return err
		}
		advance(first)
	}
	for cpu := range heads {
		s.Release(cpu)
	}
	return nil
}
