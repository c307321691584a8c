package symbol

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// A dump as the specification in Linux's tools/perf/Documentation has it.
type dumpWriter struct {
	bytes.Buffer
	order binary.AppendByteOrder
}

func newDump(order binary.AppendByteOrder) *dumpWriter {
	w := &dumpWriter{order: order}
	w.words(0x4a695444, 1, 40, 62, 0, 4711)
	w.longs(1, 0)
	return w
}

func (w *dumpWriter) words(v ...uint32) {
	for _, x := range v {
		w.Write(w.order.AppendUint32(nil, x))
	}
}

func (w *dumpWriter) longs(v ...uint64) {
	for _, x := range v {
		w.Write(w.order.AppendUint64(nil, x))
	}
}

func (w *dumpWriter) load(addr, size, number uint64, name string) {
	w.words(0, uint32(16+40+len(name)+1)+uint32(size))
	w.longs(1)
	w.words(4711, 4711)
	w.longs(addr, addr, size, number)
	w.WriteString(name + "\x00")
	w.Write(make([]byte, size))
}

func (w *dumpWriter) move(from, to, size, number uint64) {
	w.words(1, 16+48)
	w.longs(2)
	w.words(4711, 4711)
	w.longs(to, from, to, size, number)
}

func (w *dumpWriter) other() {
	w.words(2, 16+16) // debugging information
	w.longs(3, 0x1000, 0)
}

func TestJITDump(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		w := newDump(order)
		d := &jitDump{byNum: map[uint64]int{}}
		d.read(bytes.NewReader(w.Bytes()[:8])) // not all there yet
		w.load(0x1000, 0x100, 1, "first")
		w.other()
		w.load(0x3000, 9000, 2, "large")
		half := w.Len()
		w.load(0x1080, 0x20, 3, "within")
		w.move(0x3000, 0x8000, 9000, 2)
		d.read(bytes.NewReader(w.Bytes()[:half]))
		if name, start, ok := d.lookup(0x3000 + 8999); !ok || name != "large" || start != 0x3000 {
			t.Errorf("before it moved: %q %#x %v", name, start, ok)
		}
		d.read(bytes.NewReader(w.Bytes()[:half+20]))
		d.read(bytes.NewReader(w.Bytes()))
		for _, c := range []struct {
			addr uint64
			name string
		}{{0xfff, ""}, {0x1000, "first"}, {0x107f, "first"}, {0x1080, "within"}, {0x109f, "within"}, {0x10a0, "first"}, {0x1100, ""}, {0x3000, ""}, {0x8000, "large"}, {0x8000 + 9000, ""}} {
			if name, _, _ := d.lookup(c.addr); name != c.name {
				t.Errorf("%v: %#x is %q, want %q", order, c.addr, name, c.name)
			}
		}
	}
}

func FuzzJITDump(f *testing.F) {
	w := newDump(binary.LittleEndian)
	w.load(0x1000, 0x100, 1, "first")
	w.move(0x1000, 0x8000, 0x100, 1)
	f.Add(w.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &jitDump{byNum: map[uint64]int{}}
		d.read(bytes.NewReader(b[:len(b)/2]))
		d.read(bytes.NewReader(b))
		d.lookup(0x1000)
	})
}
