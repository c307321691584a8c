// Package dwarf reads from the debugging information of an ELF file what
// probes in programs need: the parameters of a function, their types as D sees
// them, and where they lie when the function is entered.
//
// A file is mapped, not read: of a large one, the headers of the units, the
// unit that holds the function asked for, and the types that are looked into are
// touched. Sections that are compressed have to be unpacked as a whole.
//
// Everything in a file may be wrong. Damage is an error, never a panic.
package dwarf

import (
	"bytes"
	dw "debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"sort"
	"strings"
	"sync"

	"godtrace/internal/types"
)

// ErrNone is the error for a file without debugging information.
var ErrNone = errors.New("no debugging information")

// ErrNotFound is the error for a function that the debugging information does
// not have.
var ErrNotFound = errors.New("not in the debugging information")

// Offset is the place of an entry in .debug_info.
type Offset = dw.Offset

// File is the debugging information of one ELF file. Its methods may be called
// from several goroutines.
type File struct {
	Path string
	ELF  elf.FileHeader

	data  *dw.Data
	order binary.ByteOrder
	sect  map[string][]byte
	mem   *mapping // what sect points into
	link  []byte   // .gnu_debugaltlink
	note  []byte   // with the build-id at its end

	mu    sync.Mutex
	units []*unit
	sigs  map[uint64]Offset // type units by signature
	types map[Offset]*made
	ptrs  int // pointers gone through while a type is made
	nest  int // how deep it nests
	align map[Offset]int64
	vecs  map[*types.Array]bool  // vectors
	enums map[*types.Struct]bool // what the variants of Rust's enums are in
	names names
	alt   *File
	altOK bool
}

// unit is a compilation unit.
type unit struct {
	off, die, end Offset // header, first entry, end
	version       int
	dwarf64       bool

	read     bool // what follows is known
	entry    *dw.Entry
	low      uint64 // base of location lists
	ranges   [][2]uint64
	lang     Lang
	producer string
	addrBase uint64
	locBase  uint64

	indexed, deep bool
	funcs         map[uint64]Offset // by entry address
	within        map[Offset]string // C++, Rust: the scopes around types, "net::Conn::"
}

// Lang is the language of a unit, as DW_AT_language has it.
type Lang int64

// IsC, IsCPP, IsRust and IsGo tell the families of languages apart.
func (l Lang) IsC() bool {
	switch l {
	case 0x01, 0x02, 0x0c, 0x1d, 0x2c:
		return true
	}
	return false
}

func (l Lang) IsCPP() bool {
	switch l {
	case 0x04, 0x1a, 0x21, 0x2b, 0x3a:
		return true
	}
	return false
}

// IsAssembly reports assembly, of which only the names are known.
func (l Lang) IsAssembly() bool { return l == 0x8001 }

// followsABI reports the languages whose compilers use the calling convention of
// the system: beyond C, C++ and Rust, Ada, Fortran, Pascal, Modula, Objective C, Zig.
func (l Lang) followsABI() bool {
	switch l {
	case 0x03, 0x0d, 0x2e, 0x2f, 0x07, 0x08, 0x0e, 0x22, 0x23, 0x2d, 0x09, 0x0a, 0x17, 0x10, 0x11, 0x27, 0x29:
		return true
	}
	return l.IsC() || l.IsCPP() || l.IsRust()
}

func (l Lang) IsRust() bool { return l == 0x1c }
func (l Lang) IsGo() bool   { return l == 0x16 }

// Function is a function with code of its own.
type Function struct {
	Name     string // as its source has it, without namespaces in C++ and Rust
	Linkage  string // the symbol's name where it differs (C++, Rust)
	Entry    uint64 // link-time address
	Ret      types.Type
	Params   []Param // with the implicit ones ("this"); Go: results as well
	Variadic bool
	External bool // visible outside its unit
	// Changed is set where the compiler says that callers within the unit do not
	// follow the calling convention.
	Changed  bool
	Lang     Lang
	Producer string
	// ByRef: the result is an object whose class must not be copied bytewise, so
	// that the caller passes a place for it.
	ByRef bool

	file *File
}

// Param is a parameter.
type Param struct {
	Name string
	Type types.Type
	// Result is set for the results of a Go function.
	Result bool
	// Entry is where the value lies at the function's first instruction, by what
	// the compiler says: several pieces, lowest bytes first, where it is split. It
	// is nil where nothing is said of that moment, as in code that was not optimised.
	Entry []Piece
	// Described reports whether anything is said of where the value lies at any time.
	Described bool
	// Gone: the compiler has taken the parameter away, or says that its value is
	// not to be had at the entry.
	Gone bool
	// ByRef: an object that must not be copied bytewise; its address is passed.
	ByRef bool

	listed bool // Entry comes from a list, made for single instructions
}

// PieceKind says what a piece of a value is.
type PieceKind uint8

const (
	PieceNone  PieceKind = iota // not there
	PieceReg                    // register Reg
	PieceCFA                    // memory at CFA+Off; the return address is at CFA-8
	PieceMem                    // memory at the address in register Reg, plus Off
	PieceConst                  // the constant Off
)

// Piece is a part of a value, of Size bytes; 0 for the whole.
type Piece struct {
	Kind PieceKind
	Reg  int // as DWARF numbers them
	Off  int64
	Size int64
}

// mapping is a mapped file; its bytes live as long as it is referenced.
type mapping struct{ b []byte }

// Open reads the debugging information in the file of that name. Separate debug
// files are the caller's business: see symbol.Object.DebugInfo.
func Open(name string) (*File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Load(f, name)
}

// Load is Open for an open file, which may be closed afterwards.
func Load(f *os.File, name string) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() == 0 || st.Size() != int64(int(st.Size())) {
		return nil, fmt.Errorf("%s: %w", name, ErrNone)
	}
	m, err := mapFile(f, int(st.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d, err := New(m.b, name)
	if err != nil {
		return nil, err
	}
	d.mem = m
	return d, nil
}

// maxSection bounds what a compressed section may claim to unpack to.
const maxSection = 4 << 30

// New reads an ELF file in memory, which must not change.
func New(b []byte, name string) (f *File, err error) {
	defer guard(&err, name)
	debug.SetPanicOnFault(true)
	ef, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f = &File{Path: name, ELF: ef.FileHeader, order: ef.ByteOrder, sect: map[string][]byte{},
		types: map[Offset]*made{}, align: map[Offset]int64{}, sigs: map[uint64]Offset{},
		vecs: map[*types.Array]bool{}, enums: map[*types.Struct]bool{}}
	for _, s := range ef.Sections {
		key, ok := strings.CutPrefix(s.Name, ".debug_")
		zip := false
		if !ok {
			if key, zip = strings.CutPrefix(s.Name, ".zdebug_"); !zip {
				switch s.Name {
				case ".gnu_debugaltlink":
					f.link, _ = s.Data()
				case ".note.gnu.build-id":
					f.note, _ = s.Data()
				}
				continue
			}
		}
		switch key {
		case "abbrev", "info", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists", "loc", "loclists", "line":
		default:
			continue
		}
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		data, err := section(b, s, zip)
		if err != nil {
			return nil, fmt.Errorf("%s: section %s: %w", name, s.Name, err)
		}
		if f.sect[key] == nil { // the first of that name, as other readers take it
			f.sect[key] = data
		}
	}
	if len(f.sect["info"]) == 0 || len(f.sect["abbrev"]) == 0 {
		return nil, fmt.Errorf("%s: %w", name, ErrNone)
	}
	if err := f.scanUnits(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.data, err = dw.New(f.sect["abbrev"], nil, nil, f.sect["info"], f.sect["line"], nil, f.sect["ranges"], f.sect["str"])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, key := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		if data := f.sect[key]; data != nil {
			if err := f.data.AddSection(".debug_"+key, data); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return f, nil
}

// Data is all of it as the library reads it, for lines. It may be used as long as
// the File is referenced.
func (f *File) Data() *dw.Data { return f.data }

// section returns a section's bytes: those of the file itself unless they are
// compressed.
func section(b []byte, s *elf.Section, zip bool) ([]byte, error) {
	if s.Flags&elf.SHF_COMPRESSED == 0 && !zip {
		if s.Offset > uint64(len(b)) || s.FileSize > uint64(len(b))-s.Offset {
			return nil, io.ErrUnexpectedEOF
		}
		return b[s.Offset : s.Offset+s.FileSize : s.Offset+s.FileSize], nil
	}
	if s.Size > maxSection {
		return nil, fmt.Errorf("claims to have %d bytes", s.Size)
	}
	if zip {
		return unzip(b, s)
	}
	return s.Data()
}

// guard turns a panic, of a library over nonsense or of the memory under a file
// that was cut off, into an error. It is to be deferred.
func guard(err *error, name string) {
	debug.SetPanicOnFault(false)
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: damaged debugging information (%v)", name, r)
	}
}

// scanUnits reads the headers of all units.
func (f *File) scanUnits() error {
	info := f.sect["info"]
	for off := 0; off < len(info); {
		u := &unit{off: Offset(off)}
		c := &cursor{b: info, order: f.order, off: off}
		n := c.length(&u.dwarf64)
		start := c.off
		if c.err != nil || n > uint64(len(info)-start) {
			return fmt.Errorf("unit at 0x%x reaches beyond the section", off)
		}
		u.end = Offset(start + int(n))
		u.version = int(c.u16())
		kind := byte(1)
		if u.version >= 5 {
			kind = c.u8()
			c.u8() // size of addresses
			c.offset(u.dwarf64)
		} else {
			c.offset(u.dwarf64)
			c.u8()
		}
		const utType, utSkeleton, utSplitCompile, utSplitType = 2, 4, 5, 6
		switch kind {
		case utType, utSplitType:
			sig := c.u64()
			at := c.offset(u.dwarf64)
			f.sigs[sig] = u.off + Offset(at)
		case utSkeleton, utSplitCompile:
			c.u64()
		}
		if n == 0 {
			off = int(u.end)
			continue
		}
		if c.err != nil || u.version < 2 || u.version > 5 {
			return fmt.Errorf("unit at 0x%x: version %d of DWARF, expected 2 to 5", off, u.version)
		}
		u.die = Offset(c.off)
		if kind != utType && kind != utSplitType {
			f.units = append(f.units, u)
		}
		off = int(u.end)
	}
	return nil
}

// unitOf is the unit that holds an entry.
func (f *File) unitOf(off Offset) *unit {
	i := sort.Search(len(f.units), func(i int) bool { return f.units[i].end > off })
	if i < len(f.units) && off >= f.units[i].off {
		return f.units[i]
	}
	return nil
}

// next reads the next entry. Its strings that dwz(1) has moved are fetched.
func (f *File) next(r *dw.Reader) (*dw.Entry, error) {
	e, err := r.Next()
	if e == nil || len(f.link) == 0 {
		return e, err
	}
	for i := range e.Field {
		if v, ok := e.Field[i].Val.(int64); ok && e.Field[i].Class == dw.ClassStringAlt {
			e.Field[i].Val = f.alternate().text(v)
		}
	}
	return e, err
}

// text is a string of .debug_str.
func (f *File) text(off int64) string {
	if f == nil {
		return ""
	}
	b := f.sect["str"]
	if off < 0 || off >= int64(len(b)) {
		return ""
	}
	b, _, _ = bytes.Cut(b[off:], []byte{0})
	return string(b)
}

// entry reads one entry.
func (f *File) entry(off Offset) (*dw.Entry, error) {
	r := f.data.Reader()
	r.Seek(off)
	e, err := f.next(r)
	if err != nil {
		return nil, err
	}
	if e == nil || e.Tag == 0 {
		return nil, fmt.Errorf("no entry at 0x%x", off)
	}
	return e, nil
}

// readUnit reads the first entry of a unit.
func (f *File) readUnit(u *unit) error {
	if u.read {
		return nil
	}
	e, err := f.entry(u.die)
	if err != nil {
		return err
	}
	u.entry, u.read = e, true
	u.low, _ = e.Val(dw.AttrLowpc).(uint64)
	lang, _ := e.Val(dw.AttrLanguage).(int64)
	u.lang = Lang(lang)
	u.producer, _ = e.Val(dw.AttrProducer).(string)
	u.addrBase = unsigned(e.Val(dw.AttrAddrBase))
	u.locBase = unsigned(e.Val(dw.AttrLoclistsBase))
	const attrGNUDwoName = dw.Attr(0x2130)
	if e.Val(attrGNUDwoName) != nil || e.Val(dw.AttrDwoName) != nil {
		return fmt.Errorf("%s: its debugging information was split off into .dwo files, which are not read: link it with -gno-split-dwarf", f.Path)
	}
	u.ranges, err = f.data.Ranges(e)
	return err
}

func unsigned(v any) uint64 {
	switch v := v.(type) {
	case int64:
		return uint64(v)
	case uint64:
		return v
	}
	return 0
}

// FunctionAt is the function that begins at a link-time address: what
// a symbol's value is.
func (f *File) FunctionAt(pc uint64) (fn *Function, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer guard(&err, f.Path)
	debug.SetPanicOnFault(true)
	if fn, err = f.functionAt(pc); err != nil && !errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%s: %w", path.Base(f.Path), err)
	}
	runtime.KeepAlive(f.mem)
	return fn, err
}

func (f *File) functionAt(pc uint64) (*Function, error) {
	var bad error
	for _, u := range f.units {
		if err := f.readUnit(u); err != nil {
			if bad == nil {
				bad = err
			}
			continue
		}
		in := false
		for _, r := range u.ranges {
			in = in || pc >= r[0] && pc < r[1]
		}
		if !in {
			continue
		}
		// Functions within functions (lambdas) are rare, and dear to look for.
		for _, deep := range []bool{false, true} {
			if err := f.index(u, deep); err != nil {
				return nil, err
			}
			if off, ok := u.funcs[pc]; ok {
				return f.function(u, off)
			}
		}
	}
	if bad != nil {
		return nil, bad
	}
	return nil, fmt.Errorf("a function at 0x%x is %w", pc, ErrNotFound)
}

// Function returns the functions of that name, by their source or their symbol:
// several where static ones share it. Every unit is looked through: where the
// address is known, FunctionAt is quicker. A function that exists only where it
// was inlined into others is an *InlinedError.
func (f *File) Function(name string) (fns []Function, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer guard(&err, f.Path)
	debug.SetPanicOnFault(true)
	defer runtime.KeepAlive(f.mem)
	var bad error
	inlined := false
	for _, u := range f.units {
		if err := f.readUnit(u); err != nil {
			bad = err
			continue
		}
		if u.entry.Tag == dw.TagPartialUnit {
			continue
		}
		if err := f.index(u, false); err != nil {
			bad = err
			continue
		}
		in, err := f.functionsNamed(u, name, &fns)
		if err != nil {
			bad = err
		}
		inlined = inlined || in
	}
	switch {
	case len(fns) > 0:
		return fns, nil
	case bad != nil:
		return nil, fmt.Errorf("%s: %w", path.Base(f.Path), bad)
	case inlined:
		return nil, &InlinedError{name}
	}
	return nil, fmt.Errorf("%s is %w of %s", name, ErrNotFound, path.Base(f.Path))
}

// isVector reports a vector type, which is an array in D.
func (f *File) isVector(a *types.Array) bool {
	f.mu.Lock()
	is, alt := f.vecs[a], f.alt
	f.mu.Unlock()
	return is || alt != nil && alt.isVector(a)
}

// isEnum reports the union of the variants of an enum of Rust.
func (f *File) isEnum(s *types.Struct) bool {
	f.mu.Lock()
	is, alt := f.enums[s], f.alt
	f.mu.Unlock()
	return is || alt != nil && alt.isEnum(s)
}

// Inlined reports whether there is a function of that name which has no code of
// its own. Of very large files it does not tell.
func (f *File) Inlined(name string) bool {
	// Names are in these sections, whole or as the end of longer ones.
	const most = 64 << 20
	text := []byte(name + "\x00")
	if len(f.sect["info"]) > most || !bytes.Contains(f.sect["str"], text) && !bytes.Contains(f.sect["info"], text) {
		return false
	}
	_, err := f.Function(name)
	var in *InlinedError
	return errors.As(err, &in)
}

// InlinedError is the error for a function that has no code of its own.
type InlinedError struct{ Name string }

func (e *InlinedError) Error() string {
	return "function '" + e.Name + "' was inlined into its callers and has no code of its own"
}
