package ring

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"godtrace/internal/dif"
)

// writer plays the programs' part of the protocol on one CPU.
type writer struct {
	s    *Set
	cpu  int
	n    uint32 // records reserved so far; the payload says which
	drop uint64
}

// reserve makes room for a record with payload bytes, or returns nil.
func (w *writer) reserve(payload int) (rec []byte, word uint64) {
	n := uint64(dif.HdrSize + payload)
	if w.s.lapped {
		n += 8
	}
	head := w.s.word(w.cpu, OffHead).Load()
	if !w.s.lapped && int64(head+n-w.s.word(w.cpu, OffTail).Load()) > w.s.geo.Cap {
		w.s.word(w.cpu, OffDrops).Add(1)
		w.drop++
		return nil, 0
	}
	w.s.word(w.cpu, OffHead).Store(head + n)
	at := w.s.data(w.cpu, head)
	rec = w.s.mem[at : at+int64(n)]
	w.n++
	binary.LittleEndian.PutUint64(rec[dif.HdrTime:], uint64(w.n))
	for i := dif.HdrSize; i < dif.HdrSize+payload; i += 4 {
		binary.LittleEndian.PutUint32(rec[i:], w.n)
	}
	return rec, head<<16 | n
}

func (w *writer) commit(rec []byte, word uint64) {
	if w.s.lapped {
		binary.LittleEndian.PutUint64(rec[len(rec)-8:], word)
	}
	binary.LittleEndian.PutUint64(rec, word)
}

func newSet(t testing.TB, ncpu int, capacity, largest int64, overwrite bool) *Set {
	t.Helper()
	g := Fit(capacity, largest, 0)
	s, err := NewSet(make([]byte, g.Stride*int64(ncpu)), ncpu, g, overwrite)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func check(t testing.TB, rec []byte) uint32 {
	t.Helper()
	n := binary.LittleEndian.Uint32(rec[dif.HdrTime:])
	for i := dif.HdrSize; i < len(rec); i += 4 {
		if got := binary.LittleEndian.Uint32(rec[i:]); got != n {
			t.Fatalf("record %d: byte %d of %d says %d", n, i, len(rec), got)
		}
	}
	return n
}

func TestFit(t *testing.T) {
	for _, tt := range []struct{ capacity, largest, limit, cap, size int64 }{
		{4 << 20, 100, 0, 4 << 20, 4 << 20},
		{4 << 20, 100, 4 << 20, 2 << 20, 2 << 20},
		{1000, 100, 0, 1000, 4096},
		{5000, 9000, 0, 5000, 8192},
		{1, 100, 0, 8, 4096},
		{100 << 40, 100, 0, 256 << 20, 256 << 20},
	} {
		g := Fit(tt.capacity, tt.largest, tt.limit)
		if g.Cap != tt.cap || g.Size != tt.size {
			t.Errorf("Fit(%d, %d, %d) = %+v", tt.capacity, tt.largest, tt.limit, g)
		}
		if g.Slack < tt.largest || g.Stride != OffData+g.Size+g.Slack || g.Stride%4096 != 0 {
			t.Errorf("Fit(%d, %d, %d) = %+v", tt.capacity, tt.largest, tt.limit, g)
		}
	}
}

// What is read is what was committed, in order, and what found no room was
// counted, whatever the order in which open records are committed.
func TestReadsWhatIsCommitted(t *testing.T) {
	s := newSet(t, 1, 1000, 200, false)
	w := &writer{s: s}
	rnd := rand.New(rand.NewPCG(1, 2))
	type open struct {
		rec  []byte
		word uint64
	}
	var opens []open
	var read, withdrawn uint64
	last := uint32(0)
	for range 100_000 {
		switch rnd.IntN(4) {
		case 0, 1:
			if rec, word := w.reserve(8 * rnd.IntN(15)); rec != nil {
				opens = append(opens, open{rec, word})
			}
		case 2:
			if len(opens) > 0 {
				i := rnd.IntN(len(opens))
				word := opens[i].word
				if rnd.IntN(5) == 0 {
					word |= FlagWithdrawn
					withdrawn++
				}
				w.commit(opens[i].rec, word)
				opens = append(opens[:i], opens[i+1:]...)
			}
		case 3:
			for rec := s.Next(0); rec != nil; rec = s.Next(0) {
				n := check(t, rec)
				if n <= last {
					t.Fatalf("record %d after %d", n, last)
				}
				last = n
				read++
			}
			s.Release(0)
		}
	}
	for _, o := range opens {
		w.commit(o.rec, o.word)
	}
	for s.Next(0) != nil {
		read++
	}
	if read+withdrawn != uint64(w.n) {
		t.Errorf("read %d and withdrew %d of %d", read, withdrawn, w.n)
	}
	if s.Drops(0) != w.drop || w.drop == 0 {
		t.Errorf("%d drops counted, %d happened", s.Drops(0), w.drop)
	}
}

// Under the policy ring the newest records that fit are there, without a gap.
func TestOverwrite(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, total := range []int{0, 1, 5, 40, 1000} {
		s := newSet(t, 1, 2048, 200, true)
		w := &writer{s: s}
		var sizes []int
		for range total {
			rec, word := w.reserve(8 * rnd.IntN(15))
			w.commit(rec, word)
			sizes = append(sizes, len(rec))
		}
		s.Freeze()
		var got []uint32
		for rec := s.Next(0); rec != nil; rec = s.Next(0) {
			got = append(got, check(t, rec))
		}
		want, room := 0, 2048
		for i := len(sizes) - 1; i >= 0 && sizes[i] <= room; i-- {
			room -= sizes[i]
			want++
		}
		if len(got) != want || want > 0 && got[0] != uint32(total-want+1) {
			t.Errorf("%d records: got %d from %v, want the last %d", total, len(got), got, want)
		}
	}
}

func TestMerge(t *testing.T) {
	s := newSet(t, 3, 4096, 64, false)
	for cpu := range 3 {
		w := &writer{s: s, cpu: cpu}
		for i := range 10 {
			rec, word := w.reserve(8)
			binary.LittleEndian.PutUint64(rec[dif.HdrTime:], uint64(10*i+cpu))
			w.commit(rec, word)
		}
	}
	var times []uint64
	collect := func(_ int, rec []byte) error {
		times = append(times, Time(rec))
		return nil
	}
	s.Merge(45, collect)
	if len(times) != 15 {
		t.Errorf("%d records until 45: %v", len(times), times)
	}
	s.Merge(1000, collect)
	if len(times) != 30 {
		t.Fatalf("%d records", len(times))
	}
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			t.Fatalf("out of order: %v", times)
		}
	}
	for cpu := range 3 {
		if s.Used(cpu) != 0 {
			t.Errorf("CPU %d: %d bytes not released", cpu, s.Used(cpu))
		}
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte{0x28, 0, 1, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		// Whatever the memory holds, reading neither panics nor runs on for ever.
		for _, overwrite := range []bool{false, true} {
			s := newSet(t, 1, 4096, 64, overwrite)
			copy(s.mem[OffData:], b)
			if len(b) >= 8 {
				s.word(0, OffHead).Store(s.word(0, OffHead).Load() + uint64(binary.LittleEndian.Uint16(b)))
			}
			s.Freeze()
			for range 10_000 {
				if s.Next(0) == nil {
					return
				}
			}
			t.Fatal("no end")
		}
	})
}
