package symbol

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Regs is where an unwind begins.
type Regs struct {
	PC, SP, BP uint64
	// Others, by DWARF number, if known: functions that realign the stack keep
	// the frame address in r10 for a few instructions.
	Other map[uint8]uint64
}

// Memory reads n = len(b) bytes of the unwound process at addr.
type Memory func(b []byte, addr uint64) error

// How is the way a frame was found.
type How uint8

const (
	ByRegs  How = iota // the first frame
	ByTable            // by call frame information
	ByFP               // by the chain of frame pointers, where no table covers the code
)

func (h How) String() string { return [...]string{"registers", "eh_frame", "fp"}[h] }

// Frame is one frame of a stack. PC is the return address for all but the
// first and those a signal interrupted.
type Frame struct {
	PC     uint64
	SP     uint64
	How    How
	Signal bool // PC is the interrupted instruction itself
}

// ErrStackTruncated says that a walk ended before the outermost frame.
var ErrStackTruncated = errors.New("stack walk ended early")

// Unwind walks a stack of the process: by the unwind tables of the objects
// mapped, by frame pointers where there is none. At most limit frames. The
// error is nil when the outermost frame was reached or the limit hit, else it
// wraps ErrStackTruncated and says why; the frames found are good.
func (p *Process) Unwind(regs Regs, mem Memory, limit int) ([]Frame, error) {
	frames := []Frame{{PC: regs.PC, SP: regs.SP}}
	how, signal := ByRegs, true // as if interrupted: PC is exact
	word := func(addr uint64) (uint64, error) {
		var b [8]byte
		err := mem(b[:], addr)
		return binary.LittleEndian.Uint64(b[:]), err
	}
	truncated := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrStackTruncated, fmt.Sprintf(format, args...))
	}
	for len(frames) < limit {
		at := regs.PC
		if !signal {
			at-- // the call, which may be the last instruction of its function
		}
		row, covered := p.row(at)
		var next Regs
		var err error
		if covered && row.CFA != CFANone && row.CFA != CFAFP {
			if row.CFA == CFAEnd {
				return frames, nil
			}
			next, err = step(row, regs, word)
			how = ByTable
		} else {
			if regs.BP == 0 {
				return frames, nil // what the ABI asks of the outermost frame
			}
			if row.CFA != CFAFP && (regs.BP < regs.SP || regs.BP&7 != 0) {
				return frames, truncated("no unwind information for 0x%x, and RBP 0x%x is no frame pointer", at, regs.BP)
			}
			next.SP = regs.BP + 16
			if next.BP, err = word(regs.BP); err == nil {
				next.PC, err = word(regs.BP + 8)
			}
			how = ByFP
		}
		if err != nil {
			return frames, truncated("frame of 0x%x: %v", at, err)
		}
		if next.PC == 0 {
			return frames, nil
		}
		// A frame lies above the one it called, but a signal may have been
		// delivered on another stack.
		if next.SP <= regs.SP && !row.Signal && row.CFA != CFAFP {
			return frames, truncated("frame of 0x%x: the caller's stack pointer 0x%x is not above 0x%x", at, next.SP, regs.SP)
		}
		regs, signal = next, row.Signal
		frames = append(frames, Frame{PC: regs.PC, SP: regs.SP, How: how, Signal: signal})
	}
	return frames, nil
}

// row finds the row for an address of the process.
func (p *Process) row(addr uint64) (Row, bool) {
	obj, bias := p.Object(addr)
	if obj == nil {
		return Row{}, false
	}
	return obj.Row(addr - bias), true
}

// step computes the caller's registers.
func step(row Row, regs Regs, word func(uint64) (uint64, error)) (Regs, error) {
	var cfa uint64
	var err error
	off := uint64(int64(row.CFAOff))
	switch row.CFA {
	case CFARSP:
		cfa = regs.SP + off
	case CFARBP:
		cfa = regs.BP + off
	case CFAReg:
		v, ok := regs.Other[row.Reg]
		if !ok {
			return Regs{}, fmt.Errorf("needs register %d, which is not known", row.Reg)
		}
		cfa = v + off
	case CFARSPDeref:
		cfa, err = word(regs.SP + off)
	case CFARBPDeref:
		cfa, err = word(regs.BP + off)
	case CFAPLT:
		cfa = regs.SP + 8
		if regs.PC&15 >= off {
			cfa += 8
		}
	default:
		return Regs{}, errors.New("its rule is not understood")
	}
	if err != nil {
		return Regs{}, err
	}
	cfa += uint64(int64(row.CFAAdd))
	next := Regs{SP: cfa, BP: regs.BP}
	load := func(w Where, off int32) (uint64, error) {
		switch o := uint64(int64(off)); w {
		case AtCFA:
			return word(cfa + o)
		case AtRSP:
			return word(regs.SP + o)
		case AtRBP:
			return word(regs.BP + o)
		}
		return 0, errors.New("its return address is not known")
	}
	if next.PC, err = load(row.RA, row.RAOff); err != nil {
		return Regs{}, err
	}
	switch row.RBP {
	case Same:
	case Unknown:
		next.BP = 0
	default:
		if next.BP, err = load(row.RBP, row.RBPOff); err != nil {
			return Regs{}, err
		}
	}
	return next, nil
}
