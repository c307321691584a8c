package symbol

import "strings"

// Where a signal frame has the registers, from the stack pointer of the one who
// returns from it: struct ucontext of arch/x86/include/uapi/asm/sigcontext.h.
const (
	sigRBP = 120
	sigRSP = 160
	sigRIP = 168
)

// goRows are the rows of Go's functions: what the Go runtime itself unwinds by,
// the size of the frame at each instruction. Stripped programs have it too.
func (o *Object) goRows() []Row {
	t, err := o.GoTable()
	if err != nil {
		return nil
	}
	rows := make([]Row, 0, 4*len(t.Funcs))
	add := func(r Row) {
		n := len(rows)
		for ; n > 0 && rows[n-1].PC >= r.PC; n-- {
		}
		rows = rows[:n]
		if n > 0 {
			last := rows[n-1]
			if last.PC = r.PC; last == r {
				return
			}
		}
		rows = append(rows, r)
	}
	for i := range t.Funcs {
		f := &t.Funcs[i]
		if !o.Executable(f.Value) {
			continue
		}
		switch {
		case f.Name == "runtime.sigreturn__sigaction" || f.Name == "runtime.sigreturn__sigaction.abi0":
			// The return address of signal handlers is its first instruction, which
			// is not behind a call: so the row begins a byte before.
			add(Row{PC: f.Value - 1, CFA: CFARSPDeref, CFAOff: sigRSP, RA: AtRSP, RAOff: sigRIP, RBP: AtRSP, RBPOff: sigRBP, Signal: true})
		case f.flags&goTop != 0 && !strings.HasPrefix(f.Name, "runtime.sigtramp") || f.Name == "runtime.goexit":
			add(Row{PC: f.Value, CFA: CFAEnd})
		case f.flags&goSPWrite != 0:
			add(Row{PC: f.Value, CFA: CFAFP})
		default:
			t.frameSizes(f, func(pc uint64, size int32) {
				r := Row{PC: pc, CFA: CFARSP, CFAOff: size + 8, RA: AtCFA, RAOff: -8}
				if size < 0 {
					r = Row{PC: pc, CFA: CFAUnknown} // it has taken the return address off
				} else if size >= 8 && !f.Asm {
					r.RBP, r.RBPOff = AtCFA, -16 // the first thing that is saved
				}
				add(r)
			})
		}
		add(Row{PC: f.Value + f.Size})
	}
	return rows
}

// frameSizes calls each with the bytes on the stack below the return address,
// from pc on; fewer than none where that is not on it any more. The table has
// pairs of differences, of the size and of pc, the former with its sign in the
// lowest bit.
func (t *GoTable) frameSizes(f *GoFunc, each func(pc uint64, size int32)) {
	if uint64(f.pcsp) >= uint64(len(t.pctab)) {
		return
	}
	r := reader{b: t.pctab, p: int(f.pcsp)}
	pc, size := f.Value, int32(-1)
	for pc < f.Value+f.Size {
		d := uint32(r.uleb())
		if d == 0 && pc != f.Value {
			return
		}
		if d&1 != 0 {
			size += int32(^(d >> 1))
		} else {
			size += int32(d >> 1)
		}
		n := r.uleb()
		if r.bad || n == 0 {
			return
		}
		each(pc, size)
		pc += n
	}
}

// overlay has the rows of over where it has any, those of under elsewhere. Both
// are sorted, gaps marked by CFANone.
func overlay(under, over []Row) []Row {
	if len(over) == 0 {
		return under
	}
	if len(under) == 0 {
		return over
	}
	out := make([]Row, 0, len(under)+len(over))
	var u, v Row // in force
	for i, j := 0, 0; i < len(under) || j < len(over); {
		pc := uint64(0)
		if j == len(over) || i < len(under) && under[i].PC <= over[j].PC {
			pc = under[i].PC
		} else {
			pc = over[j].PC
		}
		for ; i < len(under) && under[i].PC == pc; i++ {
			u = under[i]
		}
		for ; j < len(over) && over[j].PC == pc; j++ {
			v = over[j]
		}
		r := v
		if r.CFA == CFANone {
			r = u
		}
		r.PC = pc
		if n := len(out); n > 0 {
			last := out[n-1]
			if last.PC = pc; last == r {
				continue
			}
		}
		out = append(out, r)
	}
	return out
}
