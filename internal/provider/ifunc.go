package provider

import (
	"encoding/binary"
	"os"

	"godtrace/internal/symbol"
)

// Functions such as strlen have variants for different processors, chosen when
// a program is linked at its start: the symbol is that of the chooser, an
// indirect function. What was chosen stands in the slots of a process that the
// dynamic linker filled; it is the same in all processes of a machine.

// witness is a process that has a file mapped.
type witness struct {
	pid  int
	bias uint64
}

const relIrelative = 37 // R_X86_64_IRELATIVE

// resolveIndirect adds the functions chosen for the indirect ones, under their
// names, once there is a process to look at.
func (u *userFile) resolveIndirect() {
	if len(u.indirect) == 0 || u.witness.pid == 0 {
		return
	}
	mem, err := os.Open(procPath(u.witness.pid, "mem"))
	if err != nil {
		return
	}
	defer mem.Close()
	chosen := map[uint64]uint64{} // chooser → function
	le := binary.LittleEndian
	for _, name := range []string{".rela.plt", ".rela.dyn", ".rela.iplt"} {
		_, b, err := u.obj.Section(name)
		if err != nil {
			continue
		}
		for ; len(b) >= 24; b = b[24:] {
			if uint32(le.Uint64(b[8:])) != relIrelative {
				continue
			}
			var slot [8]byte
			if _, err := mem.ReadAt(slot[:], int64(u.witness.bias+le.Uint64(b))); err != nil {
				continue
			}
			// Before relocation the slot holds something else.
			if at := le.Uint64(slot[:]) - u.witness.bias; u.obj.Executable(at) {
				chosen[le.Uint64(b[16:])] = at
			}
		}
	}
	left := u.indirect[:0]
	for _, s := range u.indirect {
		at, ok := chosen[s.Value]
		if !ok || at == s.Value {
			left = append(left, s)
			continue
		}
		off, ok := u.obj.Offset(at)
		if !ok {
			continue
		}
		f := symbol.Func{Symbol: s.Symbol, Off: off}
		f.Value, f.Size = at, u.sizeAt(at)
		u.named[f.Name] = append(u.named[f.Name], len(u.funcs))
		u.funcs = append(u.funcs, function{Func: f})
	}
	u.indirect = left
}

func (u *userFile) isIndirect(name string) bool {
	for i := range u.indirect {
		if u.indirect[i].Name == name {
			return true
		}
	}
	return false
}

// sizeAt is the size of the function that begins at an address, by its symbol
// or by how far it is described for unwinding; 0 if neither tells.
func (u *userFile) sizeAt(value uint64) uint64 {
	if s, ok := u.obj.Lookup(value); ok && s.Value == value && s.Size > 0 {
		return s.Size
	}
	rows, err := u.obj.UnwindTable()
	if err != nil {
		return 0
	}
	for i := range rows {
		if rows[i].PC > value && rows[i].CFA == symbol.CFANone {
			if u.obj.Row(value).CFA == symbol.CFANone {
				return 0
			}
			return rows[i].PC - value
		}
	}
	return 0
}
