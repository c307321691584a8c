package provider

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"godtrace/internal/insn"
	"godtrace/internal/symbol"
)

// A kprobe, whoever's, replaces the first byte of its instruction by a
// breakpoint, or five bytes by a jump. What a function is made of are the bytes
// before that, which the kernel keeps in its table of kprobes.

// original is what was at an address.
type original struct {
	addr  uint64
	bytes []byte // one, or the five of a jump
}

type originals []original // by address

// kprobeLayout is where the kernel's table of kprobes is and how its entries
// look; the zero value where that is not known.
type kprobeLayout struct {
	table                       uint64
	hlist, addr, opcode, copied int64
}

const (
	int3    = 0xcc
	jmp32   = 0xe9
	buckets = 1 << 6 // KPROBE_TABLE_SIZE
)

var kprobeTable = sync.OnceValue(func() (l kprobeLayout) {
	k, err := symbol.KernelSymbols()
	if err != nil {
		return l
	}
	set, err := KernelBTF()
	if err != nil {
		return l
	}
	table, ok := k.Addr(symbol.Vmlinux, "kprobe_table")
	if !ok {
		return l
	}
	for _, m := range []struct {
		tag, path string
		off       *int64
	}{
		{"kprobe", "hlist", &l.hlist}, {"kprobe", "addr", &l.addr}, {"kprobe", "opcode", &l.opcode},
		// The kernel takes the address of one for that of the other.
		{"optimized_kprobe", "optinsn.copied_insn", &l.copied},
	} {
		off, err := set.VMLinux.MemberOffset(m.tag, m.path)
		if err != nil {
			return kprobeLayout{}
		}
		*m.off = off
	}
	l.table = table
	return l
})

// kprobed reads the table. It changes while it is read; an entry that has gone
// meanwhile ends its list.
func kprobed() originals {
	l := kprobeTable()
	if l.table == 0 {
		return nil
	}
	heads, err := KernelText(l.table, 8*buckets)
	if err != nil {
		return nil
	}
	var out originals
	for ; len(heads) > 0; heads = heads[8:] {
		const most = 1 << 16
		for node, n := binary.LittleEndian.Uint64(heads), 0; node>>63 != 0 && n < most; n++ {
			p := node - uint64(l.hlist)
			head, err := KernelText(p, int(max(l.hlist, l.addr, l.opcode))+8)
			if err != nil {
				break
			}
			o := original{binary.LittleEndian.Uint64(head[l.addr:]), []byte{head[l.opcode]}}
			// What lies behind a kprobe that is not an optimized one is read
			// for nothing: there is no jump at its address.
			if rest, err := KernelText(p+uint64(l.copied), 4); err == nil {
				o.bytes = append(o.bytes, rest...)
			}
			out = append(out, o)
			node = binary.LittleEndian.Uint64(head[l.hlist:])
		}
	}
	slices.SortFunc(out, func(a, b original) int { return cmp.Compare(a.addr, b.addr) })
	return out
}

// restore puts back what was in code, which lies at addr.
func (os originals) restore(code []byte, addr uint64) {
	i, _ := slices.BinarySearchFunc(os, addr, func(o original, a uint64) int { return cmp.Compare(o.addr, a) })
	for ; i < len(os) && os[i].addr-addr < uint64(len(code)); i++ {
		at := code[os[i].addr-addr:]
		switch at[0] {
		case int3:
			at[0] = os[i].bytes[0]
		case jmp32:
			// Not a jump of the function's own that a kprobe without a breakpoint
			// is on.
			if b := os[i].bytes; len(b) == 5 && b[0] != jmp32 {
				copy(at, b)
			}
		}
	}
}

// text is the text of a function as it is without kprobes.
func (os originals) text(f kernelFunc) ([]byte, error) {
	code, err := f.text()
	os.restore(code, f.addr)
	return code, err
}

// patching is how long the kernel may take to change its text: a breakpoint
// lies on every place meanwhile, and an emulated machine with many places needs
// seconds.
const patching = 5 * time.Second

// code is the text of a function as it is without kprobes, and not in the
// middle of being changed.
func (f kernelFunc) code() ([]byte, error) {
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		code, err := kprobed().text(f)
		if err != nil || !unfinished(code, f.addr) || time.Since(begun) > patching {
			return code, err
		}
	}
}

// unfinished reports whether code cannot be meant so: it does not decode, or
// runs into a breakpoint. Behind what does not go on breakpoints are filling.
func unfinished(code []byte, addr uint64) bool {
	goesOn, stuck := true, false
	err := insn.Walk(code, addr, func(a insn.At) bool {
		trap := a.Map == insn.Map1 && a.Op == int3
		stuck = trap && goesOn
		switch a.Class() {
		case insn.Jmp, insn.Ret, insn.Iret, insn.Call: // some calls do not return
			goesOn = false
		default:
			goesOn = !trap && !(a.Map == insn.Map0F && a.Op == 0x0b) // ud2
		}
		return !stuck
	})
	return err != nil || stuck
}
