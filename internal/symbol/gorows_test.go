package symbol

import (
	"debug/elf"
	"slices"
	"testing"

	"godtrace/internal/testkernel"
)

// Rows from Go's function table against the call frame information that Go's
// linker writes for debuggers.
func TestGoRows(t *testing.T) {
	o, err := Open(testkernel.Trigger(t, "stacks"))
	if err != nil {
		t.Fatal(err)
	}
	h, b, err := o.Section(".debug_frame")
	if err != nil || h.Type == elf.SHT_NOBITS {
		t.Skip("SKIP-FEATURE: .debug_frame")
	}
	fr := frames{data: b, addr: h.Addr}
	want := fr.parse()
	table, err := o.GoTable()
	if err != nil {
		t.Fatal(err)
	}
	same, differ := 0, 0
	for _, w := range want {
		if w.CFA != CFARSP {
			continue
		}
		f, ok := table.At(w.PC)
		if !ok || f.flags&(goTop|goSPWrite) != 0 || f.Name == "runtime.sigreturn__sigaction" {
			continue // what is beyond call frame information
		}
		got := o.Row(w.PC)
		if w.CFAOff < 8 && got.CFA == CFAUnknown {
			continue // the return address is in a register
		}
		if got.CFA == CFARSP && got.CFAOff == w.CFAOff && got.RA == AtCFA && got.RAOff == -8 {
			same++
		} else if differ++; differ < 10 {
			t.Errorf("%#x in %s: %+v, want %+v", w.PC, f.Name, got, w)
		}
	}
	t.Logf("%d rows the same, %d not", same, differ)
	if same < 1000 {
		t.Errorf("%d rows compared", same)
	}
	for i, r := range o.rows {
		if i > 0 && r.PC <= o.rows[i-1].PC {
			t.Fatalf("row %d is at %#x, the one before at %#x", i, r.PC, o.rows[i-1].PC)
		}
	}
}

func TestOverlay(t *testing.T) {
	at := func(pc uint64, off int32) Row { return Row{PC: pc, CFA: CFARSP, CFAOff: off} }
	gap := func(pc uint64) Row { return Row{PC: pc} }
	for _, c := range []struct{ under, over, want []Row }{
		{nil, []Row{at(1, 8)}, []Row{at(1, 8)}},
		{[]Row{at(1, 8)}, nil, []Row{at(1, 8)}},
		// One in the gap of the other, and the gap behind.
		{[]Row{at(10, 8), gap(20), at(40, 16), gap(50)}, []Row{at(25, 32), gap(30)},
			[]Row{at(10, 8), gap(20), at(25, 32), gap(30), at(40, 16), gap(50)}},
		// The latter counts where both have something; behind it the former does again.
		{[]Row{at(10, 8), at(20, 16), gap(40)}, []Row{at(15, 99), gap(30)},
			[]Row{at(10, 8), at(15, 99), at(30, 16), gap(40)}},
	} {
		if got := overlay(c.under, c.over); !slices.Equal(got, c.want) {
			t.Errorf("%v over %v: %v, want %v", c.over, c.under, got, c.want)
		}
	}
}

// FuzzFrameSizes: whatever a function table says, rows are in order and lie in the
// functions.
func FuzzFrameSizes(f *testing.F) {
	f.Add([]byte{2, 1, 16, 20, 15, 3, 0}, uint32(0), uint64(64))
	f.Add([]byte{0xff, 0xff, 0xff}, uint32(1), uint64(1<<40))
	f.Fuzz(func(t *testing.T, tab []byte, at uint32, size uint64) {
		g := GoTable{pctab: tab}
		fn := GoFunc{Value: 1 << 20, Size: size % (1 << 48), pcsp: at}
		last := uint64(0)
		g.frameSizes(&fn, func(pc uint64, n int32) {
			if pc <= last || pc < fn.Value || pc >= fn.Value+fn.Size {
				t.Fatalf("%d bytes at %#x after %#x, in %#x+%#x", n, pc, last, fn.Value, fn.Size)
			}
			last = pc
		})
	})
}
