package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// GoFunc is a function of a Go program as its function table has it. That
// table (.gopclntab) is what the Go runtime itself unwinds by, so it is there
// in stripped programs too.
type GoFunc struct {
	Name  string // "net/http.(*Server).Serve"
	Value uint64 // link-time address
	Size  uint64 // up to the next function
	Args  int32  // bytes of arguments and results on the stack; negative: unknown
	Asm   bool   // written in assembly; known of Go 1.18 and later

	flags byte   // of Go 1.18 and later
	pcsp  uint32 // where in GoTable.pctab the size of its frame is, by instruction
}

// GoTable is the function table of a Go program.
type GoTable struct {
	Funcs []GoFunc // by address

	names []byte // all names, those of functions inlined everywhere too
	pctab []byte // what varies within functions, see goRows
}

// Flags of a function.
const (
	goTop     = 1 << 0 // nobody calls it: a stack ends here
	goSPWrite = 1 << 1 // it leaves its stack for another
	goAsm     = 1 << 2
)

// Magic numbers of the table, by the Go version that brought the layout.
const (
	pcln12  = 0xfffffffb
	pcln116 = 0xfffffffa
	pcln118 = 0xfffffff0
	pcln120 = 0xfffffff1
)

// IsGo reports whether the object is a Go program: by its function table, or
// what else the Go linker alone makes.
func (o *Object) IsGo() bool { return isGo(o.file) }

func isGo(f *elf.File) bool {
	return pclnSection(f) != nil || f.Section(".go.buildinfo") != nil
}

// IsGoFile is IsGo for a file, of which no more is read.
func IsGoFile(name string) (bool, error) {
	f, err := elf.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return isGo(f), nil
}

func pclnSection(f *elf.File) *elf.Section {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := f.Section(name); s != nil && s.Size > 0 {
			return s
		}
	}
	return nil
}

// pcln finds the function table: a section of its own, or, where a linker for C
// has put that into another, what begins like one.
func (o *Object) pcln() (addr uint64, b []byte, err error) {
	if s := pclnSection(o.file); s != nil {
		b, err := s.Data()
		return s.Addr, b, err
	}
	if !o.IsGo() {
		return 0, nil, errors.New("not a Go program: it has no section .gopclntab")
	}
	for _, name := range []string{".data.rel.ro", ".rodata"} {
		s := o.file.Section(name)
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		b, err := s.Data()
		if err != nil {
			continue
		}
		for i := 0; i+72 <= len(b); i += 8 {
			switch binary.LittleEndian.Uint32(b[i:]) {
			case pcln116, pcln118, pcln120:
				if t, err := parsePcln(b[i:], 1); err == nil && len(t.Funcs) > 100 {
					return s.Addr + uint64(i), b[i:], nil
				}
			}
		}
	}
	return 0, nil, errors.New("a Go program whose function table was not found")
}

// GoTable reads the function table. The error of an object without one says
// that it is no Go program.
func (o *Object) GoTable() (*GoTable, error) {
	addr, b, err := o.pcln()
	if err == nil && o.Machine != elf.EM_X86_64 {
		err = fmt.Errorf("a Go program for %s; expected one for x86-64", o.Machine)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	t, err := parsePcln(b, o.goText(addr))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	return t, nil
}

// goText is the address that the table counts from, 0 if only the table can
// tell: the symbol runtime.text; or what the runtime reads, the member text of
// its moduledata, whose first member is the table's address.
func (o *Object) goText(pclntab uint64) uint64 {
	for _, s := range readSymbols(o.file, elf.SHT_SYMTAB) {
		if s.Name == "runtime.text" {
			return s.Value
		}
	}
	const member = 176 // of text in struct moduledata, Go 1.16 and later
	for _, name := range []string{".go.module", ".noptrdata", ".data", ".data.rel.ro"} {
		s := o.file.Section(name)
		if s == nil || s.Type == elf.SHT_NOBITS || s.Size > 64<<20 {
			continue
		}
		b, err := s.Data()
		if err != nil {
			continue
		}
		for i := 0; i+member+8 <= len(b); i += 8 {
			if binary.LittleEndian.Uint64(b[i:]) != pclntab {
				continue
			}
			if v := binary.LittleEndian.Uint64(b[i+member:]); o.Executable(v) {
				return v
			}
		}
	}
	// Of a position-independent program the relocations have the values.
	s := o.file.Section(".rela.dyn")
	if s == nil || s.Size > 256<<20 {
		return 0
	}
	b, err := s.Data()
	if err != nil {
		return 0
	}
	const relative = 8 // R_X86_64_RELATIVE
	find := func(ok func(at, value uint64) bool) (at, value uint64) {
		for e := b; len(e) >= 24; e = e[24:] {
			at, value := binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint64(e[16:])
			if binary.LittleEndian.Uint64(e[8:]) == relative && ok(at, value) {
				return at, value
			}
		}
		return 0, 0
	}
	module := uint64(0)
	for {
		m, _ := find(func(at, value uint64) bool { return value == pclntab && at > module })
		if m == 0 {
			return 0
		}
		if _, v := find(func(at, _ uint64) bool { return at == m+member }); o.Executable(v) {
			return v
		}
		module = m
	}
}

// parsePcln reads a table. text is the address it counts from; 0: the one that
// the table names.
func parsePcln(b []byte, text uint64) (*GoTable, error) {
	le := binary.LittleEndian
	if len(b) < 72 {
		return nil, errors.New("the function table is cut short")
	}
	magic := le.Uint32(b)
	if b[4] != 0 || b[5] != 0 || b[7] != 8 {
		return nil, fmt.Errorf("no function table of a 64-bit Go program: it begins % x", b[:8])
	}
	word := func(i int) uint64 { return le.Uint64(b[8+8*i:]) }
	nfunc := word(0)
	next := 2 // the first offset
	switch magic {
	case pcln12, pcln116:
	case pcln118, pcln120:
		if text == 0 {
			text = word(2)
		}
		next = 3
	default:
		return nil, fmt.Errorf("a function table of an unknown kind, 0x%x; known are those of Go 1.2 to 1.26", magic)
	}
	part := func(i int) []byte {
		if off := word(next + i); off < uint64(len(b)) {
			return b[off:]
		}
		return nil
	}
	names, funcs := part(0), part(4)
	if end := word(next + 1); end > word(next) && end <= uint64(len(b)) && names != nil {
		names = names[:end-word(next)] // up to the table of compilation units
	}
	index := funcs
	pctab := part(3)
	if magic == pcln12 { // offsets count from the beginning of it all
		names, funcs, index, pctab = b, b, b[16:], b
	}
	// Entries of the index: address and offset of the description. The address
	// where the last function ends follows.
	wide := magic == pcln12 || magic == pcln116
	size := uint64(8)
	if wide {
		size = 16
	}
	if names == nil || nfunc > math.MaxInt32 || uint64(len(index)) < nfunc*size+size/2 {
		return nil, errors.New("the function table is damaged: its parts reach beyond its end")
	}
	address := func(i uint64) uint64 {
		if wide {
			return le.Uint64(index[i*size:])
		}
		return text + uint64(le.Uint32(index[i*size:]))
	}
	describes := func(i uint64) uint64 {
		if wide {
			return le.Uint64(index[i*size+8:])
		}
		return uint64(le.Uint32(index[i*size+4:]))
	}
	t := &GoTable{names: names, pctab: pctab, Funcs: make([]GoFunc, 0, nfunc)}
	for i := range nfunc {
		pc, end, desc := address(i), address(i+1), describes(i)
		if desc > uint64(len(funcs)) || uint64(len(funcs))-desc < 44 || end < pc {
			return nil, fmt.Errorf("the function table is damaged: function %d", i)
		}
		d := funcs[desc:]
		f := GoFunc{Value: pc, Size: end - pc}
		first, flag := 4, -1 // byte of the name's offset; of the flags
		switch magic {
		case pcln12, pcln116:
			first = 8
		case pcln118:
			flag = 37
		case pcln120:
			flag = 41
		}
		if flag >= 0 {
			f.flags = d[flag]
		}
		f.Asm = f.flags&goAsm != 0
		f.Args = int32(le.Uint32(d[first+4:]))
		f.pcsp = le.Uint32(d[first+12:])
		off := uint64(le.Uint32(d[first:]))
		if off >= uint64(len(names)) {
			return nil, fmt.Errorf("the function table is damaged: the name of function %d", i)
		}
		name := names[off:]
		if n := bytes.IndexByte(name, 0); n >= 0 {
			name = name[:n]
		}
		f.Name = string(name)
		t.Funcs = append(t.Funcs, f)
	}
	slices.SortStableFunc(t.Funcs, func(a, b GoFunc) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	})
	return t, nil
}

// Inlined reports whether a function is in the program by name but has no code
// of its own: the compiler put it into its callers.
func (t *GoTable) Inlined(name string) bool {
	return name != "" && !slices.ContainsFunc(t.Funcs, func(f GoFunc) bool { return f.Name == name }) &&
		bytes.Contains(t.names, []byte("\x00"+name+"\x00"))
}

// At finds the function at an address.
func (t *GoTable) At(value uint64) (GoFunc, bool) {
	i := sort.Search(len(t.Funcs), func(i int) bool { return t.Funcs[i].Value > value }) - 1
	if i < 0 || value-t.Funcs[i].Value >= t.Funcs[i].Size {
		return GoFunc{}, false
	}
	return t.Funcs[i], true
}
