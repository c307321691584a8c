package symbol

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
)

// Damaged objects are read without panics and endless loops, and tables stay
// in order: what the fuzz targets look for, in a few thousand fixed cases.
func TestDamaged(t *testing.T) {
	whole, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skip(err)
	}
	o, err := Open("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	h, eh, err := o.Section(".eh_frame")
	if err != nil {
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		b := bytes.Clone(whole)
		for range 10 {
			at := r.IntN(len(b))
			switch i % 3 {
			case 0:
				at = r.IntN(1024) // program headers
			case 1:
				at = len(b) - 1 - r.IntN(2048) // section headers
			}
			b[at] = byte(r.Uint32())
		}
		o, err := newObject(bytes.NewReader(b), "damaged")
		if err != nil {
			continue
		}
		o.loadSymbols(nil)
		o.Lookup(r.Uint64())
		o.Functions()
		if rows, err := o.UnwindTable(); err == nil {
			inOrder(t, rows)
		}
	}
	for i := range 5000 {
		b := bytes.Clone(eh[:1+r.IntN(len(eh))])
		for range 1 + r.IntN(20) {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
		inOrder(t, (&frames{data: b, addr: h.Addr, eh: i%2 == 0}).parse())
	}
}

func inOrder(t *testing.T, rows []Row) {
	t.Helper()
	for i := 1; i < len(rows); i++ {
		if rows[i].PC <= rows[i-1].PC {
			t.Fatalf("rows %d and %d are not in order: %+v", i-1, i, rows[i-1:i+1])
		}
	}
}
