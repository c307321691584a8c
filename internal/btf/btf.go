// Package btf reads BTF, the type description kernels and eBPF objects carry.
//
// A blob is mapped, not parsed: one pass over the type section notes where each
// type begins, and everything else is looked at when asked for. That pass
// costs under a millisecond for a kernel of 130 000 types, where a general
// reader spends ten building strings and types nobody asks for.
//
// Format: Documentation/bpf/btf.rst of the kernel. A header, a section of type
// records numbered from 1 in order of appearance (0 is void), and a section of
// NUL-terminated strings. The blob of a module is split: its numbers and
// string offsets continue those of its base, the blob of vmlinux.
package btf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ID numbers a type; 0 is void. In a split blob numbers below Spec.first
// belong to the base.
type ID uint32

// Kind of a type record, as numbered by the format.
type Kind uint8

const (
	KindVoid Kind = iota
	KindInt
	KindPtr
	KindArray
	KindStruct
	KindUnion
	KindEnum
	KindFwd
	KindTypedef
	KindVolatile
	KindConst
	KindRestrict
	KindFunc
	KindFuncProto
	KindVar
	KindDatasec
	KindFloat
	KindDeclTag
	KindTypeTag
	KindEnum64
	numKinds
)

var kindNames = [numKinds]string{"void", "int", "ptr", "array", "struct", "union", "enum", "fwd", "typedef",
	"volatile", "const", "restrict", "func", "func_proto", "var", "datasec", "float", "decl_tag", "type_tag", "enum64"}

func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind%d", uint8(k))
}

// Bytes after the 12 of the common record: fixed, and for each of vlen parts.
var tail = [32]struct{ fixed, each uint32 }{
	KindInt:       {4, 0},
	KindArray:     {12, 0},
	KindStruct:    {0, 12},
	KindUnion:     {0, 12},
	KindEnum:      {0, 8},
	KindFuncProto: {0, 8},
	KindVar:       {4, 0},
	KindDatasec:   {0, 12},
	KindDeclTag:   {4, 0},
	KindEnum64:    {0, 12},
}

const (
	magic    = 0xeb9f
	recordSz = 12
	maxTypes = 1 << 24
)

// ErrNotFound is wrapped by all lookups that find nothing.
var ErrNotFound = errors.New("not found in BTF")

// Spec is one blob. Its methods may be called from several goroutines.
type Spec struct {
	Name string // "vmlinux", a module, or a file

	types []byte // type section
	strs  []byte // string section
	base  *Spec  // nil unless split

	first    ID     // number of the first type here
	firstStr uint32 // offset of the first string here

	indexOnce sync.Once
	indexErr  error
	names     []uint32 // offsets of the names, by ID - first
	marks     []uint32 // where every stride'th type begins in types

	byName  nameIndex
	enums   enumIndex
	tags    tagIndex
	convert converter

	unmap []byte
}

// stride is how many types a mark stands for. Touching fresh memory is a large
// part of the cost of the pass: marks are few, and a type is found by stepping
// over at most stride-1 others.
const stride = 16

// Open maps the blob in the file path, raw or the .BTF section of an ELF file.
// base is the blob it extends, nil if it stands alone.
func Open(path, name string, base *Spec) (*Spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var head [4]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return nil, fmt.Errorf("%s: no BTF: %w", path, err)
	}
	if string(head[:]) == elf.ELFMAG {
		return FromELF(f, name, base)
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := int(fi.Size())
	blob, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE)
	mapped := err == nil
	if err != nil {
		// sysfs maps BTF since 6.16 only.
		blob = make([]byte, size)
		n, err := f.ReadAt(blob, 0)
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		blob = blob[:n]
	}
	s, err := Parse(blob, name, base)
	if err != nil {
		if mapped {
			unix.Munmap(blob)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if mapped {
		s.unmap = blob
	}
	return s, nil
}

// FromELF reads the .BTF section of an ELF file.
func FromELF(r io.ReaderAt, name string, base *Spec) (*Spec, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	sec := f.Section(".BTF")
	if sec == nil {
		return nil, fmt.Errorf("section .BTF: %w", ErrNotFound)
	}
	blob, err := sec.Data()
	if err != nil {
		return nil, fmt.Errorf("section .BTF: %w", err)
	}
	return Parse(blob, name, base)
}

// Parse makes a Spec of a blob, which must stay unchanged. Only the header is
// looked at; damage further on is reported by the lookups.
func Parse(blob []byte, name string, base *Spec) (*Spec, error) {
	if len(blob) < 24 {
		return nil, fmt.Errorf("BTF header: %d bytes, expected at least 24", len(blob))
	}
	le := binary.LittleEndian
	if m := le.Uint16(blob); m != magic {
		if m == 0x9feb {
			return nil, errors.New("BTF is big endian: not supported")
		}
		return nil, fmt.Errorf("BTF magic %#x, expected %#x", m, magic)
	}
	if blob[2] != 1 {
		return nil, fmt.Errorf("BTF version %d, expected 1", blob[2])
	}
	hdr := uint64(le.Uint32(blob[4:]))
	part := func(at int) ([]byte, error) {
		off, n := hdr+uint64(le.Uint32(blob[at:])), uint64(le.Uint32(blob[at+4:]))
		if off+n > uint64(len(blob)) {
			return nil, fmt.Errorf("BTF header: section at %d of %d bytes ends after the blob's %d", off, n, len(blob))
		}
		return blob[off : off+n : off+n], nil
	}
	if hdr < 24 || hdr > uint64(len(blob)) {
		return nil, fmt.Errorf("BTF header of %d bytes", hdr)
	}
	types, err := part(8)
	if err != nil {
		return nil, err
	}
	strs, err := part(16)
	if err != nil {
		return nil, err
	}
	if len(strs) > 0 && strs[len(strs)-1] != 0 || len(strs) == 0 && base == nil {
		return nil, errors.New("BTF strings do not end in NUL")
	}
	s := &Spec{Name: name, types: types, strs: strs, base: base, first: 1}
	if base != nil {
		if err := base.index(); err != nil {
			return nil, fmt.Errorf("base: %w", err)
		}
		s.first = base.first + ID(len(base.names))
		s.firstStr = base.firstStr + uint32(len(base.strs))
	}
	return s, nil
}

// Close unmaps the blob. Types and names made from it stay valid, except
// structs whose members were never asked for.
func (s *Spec) Close() error {
	if s.unmap == nil {
		return nil
	}
	b := s.unmap
	s.unmap, s.types, s.strs, s.names, s.marks = nil, nil, nil, nil, nil
	return unix.Munmap(b)
}

// index is the one pass. It also checks that every record lies within the
// section, so that nothing after it needs to.
func (s *Spec) index() error {
	s.indexOnce.Do(func() { s.indexErr = s.scan() })
	return s.indexErr
}

// scan notes where types begin and what their names are.
func (s *Spec) scan() error {
	b := s.types
	names := make([]uint32, 0, len(b)/26+stride) // a kernel's records take some 29 bytes on average
	var marks []uint32
	end := uint32(len(b))
	for off := uint32(0); off < end; {
		id := int(s.first) + len(names)
		if end-off < recordSz {
			return fmt.Errorf("BTF type %d: cut off", id)
		}
		r := b[off : off+recordSz]
		info := u32(r[4:])
		kind := Kind(info >> 24 & 0x1f)
		if kind == KindVoid || kind >= numKinds {
			return fmt.Errorf("BTF type %d: unknown kind %d", id, kind)
		}
		size := recordSize(info)
		if size > end-off {
			return fmt.Errorf("BTF type %d: %s of %d bytes is cut off", id, kind, size)
		}
		if len(names)%stride == 0 {
			marks = append(marks, off)
		}
		names = append(names, u32(r))
		off += size
	}
	if int(s.first)+len(names) > maxTypes {
		return fmt.Errorf("BTF has %d types, more than %d", len(names), maxTypes)
	}
	s.names, s.marks = names, marks
	return nil
}

// recordSize is the length of a record with that info word, of a known kind.
func recordSize(info uint32) uint32 {
	t := &tail[info>>24&0x1f]
	return recordSz + t.fixed + t.each*(info&0xffff)
}

// raw is a record read in place.
type raw struct {
	name uint32
	info uint32
	n    uint32 // size or type
	tail []byte // what follows: members, parameters, …
}

func (r raw) kind() Kind  { return Kind(r.info >> 24 & 0x1f) }
func (r raw) vlen() int   { return int(r.info & 0xffff) }
func (r raw) flag() bool  { return r.info>>31 != 0 }
func (r raw) ref() ID     { return ID(r.n) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func (s *Spec) next() ID  { return s.first + ID(len(s.names)) }

// raw reads the record of id; ok is false if there is none, or for void.
func (s *Spec) raw(id ID) (r raw, ok bool) {
	if s.index() != nil {
		return raw{}, false
	}
	for id < s.first {
		if s.base == nil {
			return raw{}, false
		}
		s = s.base
	}
	i := int(id - s.first)
	if i >= len(s.names) {
		return raw{}, false
	}
	b := s.types[s.marks[i/stride]:]
	for range i % stride {
		b = b[recordSize(u32(b[4:])):]
	}
	return raw{u32(b), u32(b[4:]), u32(b[8:]), b[recordSz:recordSize(u32(b[4:]))]}, true
}

// str is the string at offset off, aliasing the blob; nil when off is outside.
func (s *Spec) str(off uint32) []byte {
	for off < s.firstStr {
		s = s.base
	}
	off -= s.firstStr
	if off >= uint32(len(s.strs)) {
		return nil
	}
	b := s.strs[off:]
	return b[:bytes.IndexByte(b, 0)]
}

// strIs compares the string at off with name without looking for its end.
func (s *Spec) strIs(off uint32, name string) bool {
	for off < s.firstStr {
		s = s.base
	}
	off -= s.firstStr
	if uint64(off)+uint64(len(name)) >= uint64(len(s.strs)) {
		return false
	}
	b := s.strs[off:]
	return b[len(name)] == 0 && string(b[:len(name)]) == name
}

// Len is the number of types in the blob itself, without its base.
func (s *Spec) Len() int {
	if s.index() != nil {
		return 0
	}
	return len(s.names)
}

// Err is what is wrong with the type section, nil if it is sound.
func (s *Spec) Err() error { return s.index() }

// Kind of type id; KindVoid for 0 and numbers that do not exist.
func (s *Spec) Kind(id ID) Kind {
	r, ok := s.raw(id)
	if !ok {
		return KindVoid
	}
	return r.kind()
}

// TypeName is the name of type id, "" if it has none.
func (s *Spec) TypeName(id ID) string {
	r, ok := s.raw(id)
	if !ok {
		return ""
	}
	return string(s.str(r.name))
}

// Ref is the type that id, a pointer, typedef, qualifier, function or variable,
// refers to.
func (s *Spec) Ref(id ID) ID {
	r, ok := s.raw(id)
	if !ok {
		return 0
	}
	switch r.kind() {
	case KindPtr, KindTypedef, KindVolatile, KindConst, KindRestrict, KindFunc, KindFuncProto, KindVar, KindDeclTag, KindTypeTag:
		return r.ref()
	}
	return 0
}

// All goes through the types of a kind in the blob itself; KindVoid means all.
func (s *Spec) All(kind Kind) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		if s.index() != nil {
			return
		}
		id := s.first
		for b := s.types; len(b) > 0; b = b[recordSize(u32(b[4:])):] {
			if (kind == KindVoid || Kind(b[7]&0x1f) == kind) && !yield(id) {
				return
			}
			id++
		}
	}
}
