package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/ulikunitz/xz"
)

// Symbol is one defined symbol of an object. Value is an address as the object
// was linked, before any bias.
type Symbol struct {
	Name    string // without a version
	Value   uint64
	Size    uint64 // 0: unknown, as hand-written assembly leaves it
	Section uint16 // number of the section it lies in
	Bind    elf.SymBind
	Type    elf.SymType
	Dynamic bool // in .dynsym: visible to other objects
	PLT     bool // a stub; Name is "func@plt"
}

// Func reports whether s is code by its type; IFUNC symbols are resolvers.
func (s *Symbol) Func() bool { return s.Type == elf.STT_FUNC || s.Type == elf.STT_GNU_IFUNC }

// Func is a function of an object, as the pid provider wants it.
type Func struct {
	Symbol
	Off uint64 // of the first byte in the file
}

// Object is an ELF executable, shared library or the vDSO.
type Object struct {
	Path    string // as the process knows it
	BuildID string // hex; "" if the object has none
	Interp  string // program interpreter; "" for libraries and static programs
	Needed  []string
	SOName  string
	Debug   string // file the symbols came from, if a separate one
	Machine elf.Machine
	Type    elf.Type
	Entry   uint64

	file   *elf.File
	r      io.ReaderAt
	segs   []elf.ProgHeader // PT_LOAD
	syms   []Symbol         // by value; of equals the one to show comes first
	maxEnd []uint64         // highest end of syms[:i+1]

	unwind   sync.Mutex
	rowsRead bool
	rows     []Row
	rowsErr  error
	roots    []string // directories to take for "/" when looking for debug files
	debug    debugInfo
}

// Open reads an object with its symbols: .symtab, .dynsym and what a separate
// debug file, .gnu_debugdata or Go's function table adds. The file stays open
// while the object is referenced.
func Open(name string) (*Object, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return readObject(f, name, []string{""})
}

// readObject makes an object of an open file, which it closes when nobody has
// the object any more; known is what the process calls it, roots are the
// directories to take for "/" when looking for debug files.
func readObject(f *os.File, known string, roots []string) (*Object, error) {
	o, err := newObject(f, known)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", known, err)
	}
	runtime.AddCleanup(o, func(f *os.File) { f.Close() }, f)
	o.roots = roots
	o.loadSymbols(roots)
	return o, nil
}

func newObject(r io.ReaderAt, known string) (o *Object, err error) {
	f, err := elf.NewFile(r)
	if err != nil {
		var e2 error
		if f, e2 = elf.NewFile(withoutSections(r)); e2 != nil {
			return nil, err
		}
	}
	o = &Object{Path: known, Machine: f.Machine, Type: f.Type, Entry: f.Entry, file: f, r: r, BuildID: buildID(f)}
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_LOAD:
			o.segs = append(o.segs, p.ProgHeader)
		case elf.PT_INTERP:
			if b, err := io.ReadAll(io.LimitReader(p.Open(), 4096)); err == nil {
				o.Interp = string(bytes.TrimRight(b, "\x00"))
			}
		}
	}
	o.Needed, _ = f.DynString(elf.DT_NEEDED)
	if s, _ := f.DynString(elf.DT_SONAME); len(s) > 0 {
		o.SOName = s[0]
	}
	return o, nil
}

// withoutSections is an ELF file as its segments alone describe it. The kernel
// runs programs whose sections are damaged or have been cut off.
func withoutSections(r io.ReaderAt) io.ReaderAt {
	h := make([]byte, 64)
	if n, _ := r.ReadAt(h, 0); n < len(h) {
		return r
	}
	// e_shoff, e_shnum, e_shstrndx
	if h[elf.EI_CLASS] == byte(elf.ELFCLASS64) {
		clear(h[0x28:0x30])
		clear(h[0x3c:0x40])
	} else {
		clear(h[0x20:0x24])
		clear(h[0x30:0x34])
	}
	return &headed{r, h}
}

// headed is a file with another beginning.
type headed struct {
	io.ReaderAt
	head []byte
}

func (f *headed) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(b, off)
	if off >= 0 && off < int64(len(f.head)) {
		copy(b[:n], f.head[off:])
	}
	return n, err
}

// buildID finds the GNU build-id note among the segments, which strip leaves
// alone, or else the sections: debug files have no contents in their segments.
func buildID(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_NOTE && p.Filesz < 1<<16 {
			if b, err := io.ReadAll(p.Open()); err == nil {
				if id := noteID(b, f.ByteOrder); id != "" {
					return id
				}
			}
		}
	}
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOTE && s.Size < 1<<16 {
			if b, err := s.Data(); err == nil {
				if id := noteID(b, f.ByteOrder); id != "" {
					return id
				}
			}
		}
	}
	return ""
}

func noteID(b []byte, order binary.ByteOrder) string {
	const ntGNUBuildID = 3
	for len(b) >= 12 {
		namesz, descsz, typ := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:])), order.Uint32(b[8:])
		b = b[12:]
		n := (namesz + 3) &^ 3
		d := (descsz + 3) &^ 3
		if n+descsz > uint64(len(b)) {
			return ""
		}
		if typ == ntGNUBuildID && string(b[:namesz]) == "GNU\x00" {
			return hex.EncodeToString(b[n : n+descsz])
		}
		b = b[min(n+d, uint64(len(b))):]
	}
	return ""
}

// Module is the base name of the object's path, as in pidN:MODULE:.
func (o *Object) Module() string { return path.Base(o.Path) }

// NumSymbols counts the symbols.
func (o *Object) NumSymbols() int { return len(o.syms) }

// Symbols lists all symbols by value; of those at one address the one that
// Lookup prefers comes first. The slice is the object's own.
func (o *Object) Symbols() []Symbol { return o.syms }

// Functions lists the functions that have a place in the file, by value,
// aliases included, stubs not.
func (o *Object) Functions() []Func {
	var out []Func
	for _, s := range o.syms {
		if s.Func() && !s.PLT {
			if off, ok := o.Offset(s.Value); ok {
				out = append(out, Func{s, off})
			}
		}
	}
	return out
}

// Part tells whether an address lies in another part of a function: compilers
// split rarely executed code off as "NAME.cold". Jumps there do not leave the
// function. A stripped object does not tell.
func (o *Object) Part(name string) func(value uint64) bool {
	return func(value uint64) bool {
		s, ok := o.Lookup(value)
		if !ok {
			return false
		}
		// From the cold half back into the function as well.
		return base(s.Name) == base(name)
	}
}

func base(name string) string {
	if i := strings.Index(name, ".cold"); i > 0 {
		return name[:i]
	}
	return name
}

// Named finds a symbol: functions before data, dynamic before others.
func (o *Object) Named(name string) (Symbol, bool) {
	best, score := Symbol{}, -1
	for _, s := range o.syms {
		if s.Name != name {
			continue
		}
		n := 0
		if s.Func() {
			n += 2
		}
		if s.Dynamic {
			n++
		}
		if n > score {
			best, score = s, n
		}
	}
	return best, score >= 0
}

// Offset is where the byte at a link-time address lies in the file.
func (o *Object) Offset(value uint64) (uint64, bool) {
	for i := range o.segs {
		if p := &o.segs[i]; value >= p.Vaddr && value-p.Vaddr < p.Filesz {
			return value - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// Value is the link-time address of a byte of the file, as an executable
// segment has it if two segments hold that byte.
func (o *Object) Value(off uint64) (uint64, bool) {
	v, ok := uint64(0), false
	for i := range o.segs {
		if p := &o.segs[i]; off >= p.Off && off-p.Off < p.Filesz {
			if v, ok = off-p.Off+p.Vaddr, true; p.Flags&elf.PF_X != 0 {
				break
			}
		}
	}
	return v, ok
}

// bias is what to take from an address in the mapping to get a value.
func (o *Object) bias(m *Mapping) (uint64, bool) {
	if m.Path == "[vdso]" {
		return m.Start - o.segs0(), true
	}
	// A mapping begins at the page of its segment's first byte, so that two
	// segments may share a page of the file; their permissions tell which.
	page := uint64(0xfff)
	found, bias := false, uint64(0)
	for i := range o.segs {
		p := &o.segs[i]
		if m.Off < p.Off&^page || m.Off >= p.Off+p.Filesz {
			continue
		}
		exec := (p.Flags&elf.PF_X != 0) == m.Exec()
		if !found || exec {
			found, bias = true, m.Start-(m.Off-p.Off+p.Vaddr)
			if exec {
				break
			}
		}
	}
	return bias, found
}

func (o *Object) segs0() uint64 {
	if len(o.segs) == 0 {
		return 0
	}
	return o.segs[0].Vaddr &^ 0xfff
}

func (o *Object) inMemory(value uint64) bool {
	for i := range o.segs {
		if p := &o.segs[i]; value >= p.Vaddr && value-p.Vaddr < p.Memsz {
			return true
		}
	}
	return false
}

// ReadAt reads bytes at a link-time address, as the file has them.
func (o *Object) ReadAt(b []byte, value uint64) error {
	off, ok := o.Offset(value)
	if !ok {
		return fmt.Errorf("%s: address 0x%x is not in the file", o.Path, value)
	}
	_, err := o.r.ReadAt(b, int64(off))
	return err
}

// Section returns a section's header and contents, decompressed.
func (o *Object) Section(name string) (elf.SectionHeader, []byte, error) {
	s := o.file.Section(name)
	if s == nil {
		return elf.SectionHeader{}, nil, fmt.Errorf("%s: no section %s", o.Path, name)
	}
	b, err := s.Data()
	return s.SectionHeader, b, err
}

// Lookup finds the symbol that covers a value. A symbol of unknown size
// reaches up to the next symbol or the end of its section.
func (o *Object) Lookup(value uint64) (Symbol, bool) {
	hi := sort.Search(len(o.syms), func(i int) bool { return o.syms[i].Value > value })
	nearest := true
	for hi > 0 && (nearest || o.maxEnd[hi-1] > value) {
		lo := hi - 1
		for lo > 0 && o.syms[lo-1].Value == o.syms[lo].Value {
			lo--
		}
		for i := lo; i < hi; i++ {
			if s := &o.syms[i]; s.Size > 0 && value-s.Value < s.Size {
				return *s, true
			}
		}
		if nearest {
			for i := lo; i < hi; i++ {
				if s := &o.syms[i]; s.Size == 0 && (s.Func() || s.Type == elf.STT_NOTYPE) && o.sameCode(s, value) {
					return *s, true
				}
			}
		}
		hi, nearest = lo, false
	}
	return Symbol{}, false
}

func (o *Object) sameCode(s *Symbol, value uint64) bool {
	if int(s.Section) >= len(o.file.Sections) {
		return false
	}
	sec := o.file.Sections[s.Section]
	return sec.Flags&elf.SHF_EXECINSTR != 0 && value >= sec.Addr && value-sec.Addr < sec.Size
}

// prefer orders the names of one address: the rules of libproc, by which
// DTrace picks the name it shows. A name without leading underscores is what
// programmers call the function.
func prefer(a, b *Symbol) int {
	if c := cmp.Compare(a.Value, b.Value); c != 0 {
		return c
	}
	if a.Func() != b.Func() {
		return first(a.Func())
	}
	if al, bl := a.Bind == elf.STB_LOCAL, b.Bind == elf.STB_LOCAL; al != bl {
		return first(bl)
	}
	if ad, bd := strings.HasPrefix(a.Name, "$"), strings.HasPrefix(b.Name, "$"); ad != bd {
		return first(bd)
	}
	an := len(a.Name) - len(strings.TrimLeft(a.Name, "_"))
	bn := len(b.Name) - len(strings.TrimLeft(b.Name, "_"))
	if an != bn {
		return cmp.Compare(an, bn)
	}
	if a.Size != b.Size {
		return cmp.Compare(a.Size-1, b.Size-1) // 0 last
	}
	return strings.Compare(a.Name, b.Name)
}

func first(a bool) int {
	if a {
		return -1
	}
	return 1
}

func (o *Object) loadSymbols(roots []string) {
	dyn := readSymbols(o.file, elf.SHT_DYNSYM)
	var syms []Symbol
	for _, s := range dyn {
		if s.Section != 0 && s.Name != "" {
			s.Dynamic = true
			syms = append(syms, s)
		}
	}
	static := defined(readSymbols(o.file, elf.SHT_SYMTAB))
	if len(static) == 0 {
		if name, f := o.debugFile(roots); f != nil {
			if ef, err := elf.NewFile(f); err == nil {
				static, o.Debug = defined(readSymbols(ef, elf.SHT_SYMTAB)), name
			}
			f.Close()
		}
	}
	if len(static) == 0 {
		static = o.miniDebug()
	}
	if len(static) == 0 {
		static = o.goSymbols()
	}
	syms = append(syms, static...)
	syms = append(syms, o.pltStubs(dyn, syms)...)
	o.setSymbols(syms)
}

func (o *Object) setSymbols(syms []Symbol) {
	slices.SortFunc(syms, func(a, b Symbol) int { return prefer(&a, &b) })
	out := syms[:0]
	for _, s := range syms {
		if n := len(out); n > 0 && out[n-1].Value == s.Value && out[n-1].Name == s.Name {
			out[n-1].Dynamic = out[n-1].Dynamic || s.Dynamic
			continue
		}
		out = append(out, s)
	}
	o.syms = slices.Clip(out)
	o.maxEnd = make([]uint64, len(out))
	end := uint64(0)
	for i := range out {
		if e := out[i].Value + out[i].Size; e > end && e >= out[i].Value {
			end = e
		}
		o.maxEnd[i] = end
	}
}

// readSymbols reads a whole table, entry 0 included so that relocations can
// index it. Names share one string. A table that makes no sense is empty.
func readSymbols(f *elf.File, typ elf.SectionType) []Symbol {
	tab := f.SectionByType(typ)
	if tab == nil || int(tab.Link) >= len(f.Sections) {
		return nil
	}
	data, err := tab.Data()
	if err != nil {
		return nil
	}
	strs, err := f.Sections[tab.Link].Data()
	if err != nil {
		return nil
	}
	names := string(strs)
	size := 24
	if f.Class == elf.ELFCLASS32 {
		size = 16
	}
	bo := f.ByteOrder
	out := make([]Symbol, len(data)/size)
	for i := range out {
		e := data[i*size:]
		s := &out[i]
		var info byte
		if size == 24 {
			info, s.Section = e[4], bo.Uint16(e[6:])
			s.Value, s.Size = bo.Uint64(e[8:]), bo.Uint64(e[16:])
		} else {
			s.Value, s.Size = uint64(bo.Uint32(e[4:])), uint64(bo.Uint32(e[8:]))
			info, s.Section = e[12], bo.Uint16(e[14:])
		}
		s.Bind, s.Type = elf.ST_BIND(info), elf.ST_TYPE(info)
		if n := bo.Uint32(e); n < uint32(len(names)) {
			s.Name = names[n:]
			if end := strings.IndexByte(s.Name, 0); end >= 0 {
				s.Name = s.Name[:end]
			}
			if at := strings.IndexByte(s.Name, '@'); at > 0 {
				s.Name = s.Name[:at]
			}
		}
	}
	return out
}

// defined keeps what has a name and an address: no undefined, absolute, thread
// local, section and file symbols, no marks of an assembler.
func defined(syms []Symbol) []Symbol {
	out := syms[:0]
	for _, s := range syms {
		switch s.Type {
		case elf.STT_SECTION, elf.STT_FILE, elf.STT_TLS:
			continue
		}
		// Extended section numbers (0xffff) are kept, without their section.
		if s.Section == 0 || s.Section >= uint16(elf.SHN_LORESERVE) && s.Section != uint16(elf.SHN_XINDEX) {
			continue
		}
		if s.Name == "" || strings.HasPrefix(s.Name, ".L") || strings.HasPrefix(s.Name, "$x") || strings.HasPrefix(s.Name, "$d") {
			continue
		}
		out = append(out, s)
	}
	return out
}

const debugDir = "/usr/lib/debug"

// debugFile finds the separate debug file: by build-id, else by the name and
// checksum in .gnu_debuglink, in gdb's order of directories.
func (o *Object) debugFile(roots []string) (string, *os.File) {
	if len(o.BuildID) > 2 {
		for _, root := range roots {
			name := root + debugDir + "/.build-id/" + o.BuildID[:2] + "/" + o.BuildID[2:] + ".debug"
			if f, err := os.Open(name); err == nil {
				return name, f
			}
		}
	}
	_, b, err := o.Section(".gnu_debuglink")
	if err != nil {
		return "", nil
	}
	link, rest, ok := bytes.Cut(b, []byte{0})
	pad := -(len(link) + 1) & 3
	if !ok || len(link) == 0 || bytes.ContainsRune(link, '/') || len(rest) < pad+4 {
		return "", nil
	}
	sum := o.file.ByteOrder.Uint32(rest[pad:])
	dir := path.Dir(o.Path)
	for _, root := range roots {
		for _, d := range []string{dir, dir + "/.debug", debugDir + dir} {
			name := path.Join(root, d, string(link))
			f, err := os.Open(name)
			if err != nil {
				continue
			}
			h := crc32.NewIEEE()
			if _, err := io.Copy(h, f); err == nil && h.Sum32() == sum {
				return name, f
			}
			f.Close()
		}
	}
	return "", nil
}

// miniDebug reads .gnu_debugdata: an ELF file compressed with xz that holds
// the functions missing from .dynsym.
func (o *Object) miniDebug() []Symbol {
	_, b, err := o.Section(".gnu_debugdata")
	if err != nil {
		return nil
	}
	zr, err := xz.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	b, err = io.ReadAll(io.LimitReader(zr, 256<<20))
	if err != nil {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	return defined(readSymbols(f, elf.SHT_SYMTAB))
}

// goSymbols are the functions of a Go program that has been stripped.
func (o *Object) goSymbols() (out []Symbol) {
	t, err := o.GoTable()
	if err != nil {
		return nil // no Go program
	}
	text := uint16(max(slices.Index(o.file.Sections, o.file.Section(".text")), 0))
	for _, f := range t.Funcs {
		if !o.Executable(f.Value) {
			continue
		}
		out = append(out, Symbol{Name: f.Name, Value: f.Value, Size: f.Size,
			Section: text, Bind: elf.STB_LOCAL, Type: elf.STT_FUNC})
	}
	return out
}

// pltStubs names the procedure linkage table. Which function a stub calls
// follows from the GOT slot it jumps through and the relocation of that slot;
// a lazy stub that only pushes a number, from that number.
func (o *Object) pltStubs(dyn, all []Symbol) []Symbol {
	if o.Machine != elf.EM_X86_64 || o.file.Class != elf.ELFCLASS64 {
		return nil
	}
	const (
		globDat   = 6
		jumpSlot  = 7
		irelative = 37
	)
	var plts []*elf.Section
	for _, s := range o.file.Sections {
		if strings.HasPrefix(s.Name, ".plt") || s.Name == ".iplt" {
			if s.Flags&elf.SHF_EXECINSTR != 0 {
				plts = append(plts, s)
			}
		}
	}
	if len(plts) == 0 {
		return nil
	}
	slots := map[uint64]string{}
	var lazy []string // by index into .rela.plt
	le := binary.LittleEndian
	for _, s := range o.file.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := s.Data()
		if err != nil {
			continue
		}
		for ; len(b) >= 24; b = b[24:] {
			info := le.Uint64(b[8:])
			name := ""
			switch typ, sym := uint32(info), info>>32; typ {
			case globDat, jumpSlot:
				if sym < uint64(len(dyn)) {
					name = dyn[sym].Name
				}
			case irelative:
				name = ifuncName(le.Uint64(b[16:]), all)
			default:
				continue
			}
			if name != "" {
				slots[le.Uint64(b)] = name
			}
			if s.Name == ".rela.plt" {
				lazy = append(lazy, name)
			}
		}
	}
	var out []Symbol
	for _, p := range plts {
		b, err := p.Data()
		if err != nil {
			continue
		}
		step := uint64(16)
		if p.Entsize == 8 {
			step = 8
		}
		section := uint16(slices.Index(o.file.Sections, p))
		for off := uint64(0); off+step <= uint64(len(b)); off += step {
			if name := stubName(b[off:off+step], p.Addr+off, slots, lazy); name != "" {
				out = append(out, Symbol{Name: name + "@plt", Value: p.Addr + off, Size: step,
					Section: section, Bind: elf.STB_LOCAL, Type: elf.STT_FUNC, PLT: true})
			}
		}
	}
	return out
}

// ifuncName names the function whose resolver lies at an address.
func ifuncName(addr uint64, syms []Symbol) string {
	for i := range syms {
		if syms[i].Value == addr && syms[i].Type == elf.STT_GNU_IFUNC {
			return syms[i].Name
		}
	}
	return "*ABS*+0x" + fmt.Sprintf("%x", addr)
}

// stubName decodes one stub: an optional endbr64, then jmp *slot(%rip), or
// push $n and a jump to the resolver, each with an optional bnd prefix.
func stubName(b []byte, addr uint64, slots map[uint64]string, lazy []string) string {
	i := 0
	if bytes.HasPrefix(b, []byte{0xf3, 0x0f, 0x1e, 0xfa}) {
		i = 4
	}
	if i < len(b) && b[i] == 0x68 && i+5 <= len(b) {
		if n := binary.LittleEndian.Uint32(b[i+1:]); n < uint32(len(lazy)) {
			return lazy[n]
		}
		return ""
	}
	if i < len(b) && b[i] == 0xf2 {
		i++
	}
	if i+6 > len(b) || b[i] != 0xff || b[i+1] != 0x25 {
		return ""
	}
	disp := int32(binary.LittleEndian.Uint32(b[i+2:]))
	return slots[addr+uint64(i)+6+uint64(int64(disp))]
}

// Executable reports whether the byte at a link-time address may be executed.
func (o *Object) Executable(value uint64) bool {
	for i := range o.segs {
		if p := &o.segs[i]; p.Flags&elf.PF_X != 0 && value >= p.Vaddr && value-p.Vaddr < p.Filesz {
			return true
		}
	}
	return false
}

// HasSection reports whether the object has a section of that name.
func (o *Object) HasSection(name string) bool { return o.file.Section(name) != nil }
