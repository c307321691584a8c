// Package lib holds the subroutines of D that are clearer in C than in
// generated eBPF: compiled beforehand, linked into programs that call them.
//
// # Calling convention
//
//	u64 dt_NAME(struct work *w, char *dst, u64 dsize, u64 ssize, void *state)
//
// r1 = w is the work area, Work(...) bytes, 8-aligned, in a map value; calls may
// share one, nothing in it outlives a call:
//
//	w+0         result: a number, or the address of a string (0: NULL)
//	w+8         the address of a fault
//	w+16…w+40   up to four arguments (Arg(i)), strings as kernel addresses;
//	            absent optional ones by their default (Routine.Defaults)
//	w+48…       the routine's own
//
// r2 = dst is where a string result goes, dsize bytes, rounded up to 8, in a
// map value. r3 = dsize and r4 = ssize (the option strsize, the bound of the
// strings read) must be constants to the verifier, 1…1<<20. r5 = state is the
// address, in a map value, of what lasts longer than a call: strtok's string
// (Routine.State) or the offsets of kernel structures (Routine.Members; any
// map, read-only ones too). Unused arguments may be anything initialised.
//
// r0 is 0, or the fault's kind as dif.FaultKind has it, its address at w+8.
//
// Routines copy within the room that is left. The verifier knows offset and
// length apart only, so the map values that w, dst and state are in must go on
// for Slack(dsize, ssize) bytes after each of them.
//
// Addresses that strings results have need not lie in dst: strchr, strrchr and
// strstr give a place in their first argument.
//
// # Variants
//
// The routines' loops are may_goto instructions, Linux 6.9, or calls of the
// helper bpf_loop, 5.17. The latter needs func_info (BTF) for every function of
// the program, and the callbacks' addresses as BPF_PSEUDO_FUNC (Ref.Addr).
//
// The C sources in c/ are compiled by generate.sh (clang 14); the
// objects are checked in.
package lib

import (
	"bytes"
	"debug/elf"
	"embed"
	"encoding/binary"
	"fmt"
	"sync"
)

//go:generate ./generate.sh

//go:embed obj/*.o
var objects embed.FS

// Variant is how loops are made.
type Variant int

const (
	MayGoto Variant = iota // Linux 6.9
	BPFLoop                // Linux 5.17; needs func_info
)

func (v Variant) String() string { return [...]string{"may-goto", "bpf-loop"}[v] }

// Library is the routines of one variant.
type Library struct {
	Variant Variant
	Funcs   map[string]*Func
}

// Func is one function: instructions as the kernel has them, and what of them
// is to be linked.
type Func struct {
	Name string
	Code []uint64 // struct bpf_insn, little endian
	Refs []Ref
}

// Ref is a place where a function names another: instruction At is a call
// whose imm is to be the distance from the next instruction or, if Addr, the
// first word of a 16-byte load, already marked BPF_PSEUDO_FUNC, whose imm is to
// be that distance. Where the name is a Map's, the instruction is the first word
// of a 16-byte load, for the linker to mark and fill in.
type Ref struct {
	At   int
	Name string
	Addr bool
	Map  bool
}

// The maps that routines name: see unwind.c.
const (
	MapUnwind = "map_unwind" // by the address of its one value
	MapProcs  = "map_procs"
	MapShards = "map_shards"
)

// Routine describes an entry.
type Routine struct {
	Func     string   // its name in Library.Funcs
	Strings  int      // buffers for strings in the work area
	Bytes    int      // further bytes there
	State    bool     // wants r5: State(ssize) bytes that live as long as a firing, zero at its start
	Defaults []int64  // values of optional arguments, from the last on; nil: none
	First    int      // which argument Defaults[0] is for
	Members  []Member // wants r5: the offsets of these, 8 bytes each
}

// header is sizeof(struct work).
const header = 192

// Work is the size of the work area that a routine needs.
func (r *Routine) Work(ssize int) int { return header + r.Strings*round8(ssize) + r.Bytes }

// State is the size of strtok's state.
func State(ssize int) int { return 8 + round8(ssize) }

// Slack is how far the verifier believes a routine may write past the end of
// what it was given.
func Slack(dsize, ssize int) int { return round8(max(dsize, ssize)) + 512 }

// Arg is the offset of argument i in the work area.
func Arg(i int) int { return 16 + 8*i }

func round8(n int) int { return (n + 7) &^ 7 }

// Load gives the library of a variant. It is read once.
func Load(v Variant) (*Library, error) { return loaded[v]() }

var loaded = [...]func() (*Library, error){
	MayGoto: sync.OnceValues(func() (*Library, error) { return load(MayGoto) }),
	BPFLoop: sync.OnceValues(func() (*Library, error) { return load(BPFLoop) }),
}

func load(v Variant) (*Library, error) {
	l := &Library{Variant: v, Funcs: map[string]*Func{}}
	for _, part := range []string{"strings", "numbers", "json", "kernel", "unwind"} {
		name := "obj/" + part + "." + v.String() + ".o"
		b, err := objects.ReadFile(name)
		if err == nil {
			err = l.read(b)
		}
		if err != nil {
			return nil, fmt.Errorf("library object %s: %w", name, err)
		}
	}
	return l, nil
}

// Relocations of BPF objects: the address of a 16-byte load, the imm of a call.
const (
	rBPF64_64 = 1
	rBPF64_32 = 10
)

const pseudoFunc = 4

// read takes the functions out of an object: those of .text, with what its
// relocations say.
func (l *Library) read(b []byte) error {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return err
	}
	text, syms := f.Section(".text"), []elf.Symbol(nil)
	if text == nil {
		return fmt.Errorf("no section .text")
	}
	if syms, err = f.Symbols(); err != nil {
		return err
	}
	code, err := text.Data()
	if err != nil {
		return err
	}
	var funcs []*Func
	var starts []uint64
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		if s.Size%8 != 0 || s.Value+s.Size > uint64(len(code)) {
			return fmt.Errorf("function %s is not within .text", s.Name)
		}
		fn := &Func{Name: s.Name, Code: make([]uint64, s.Size/8)}
		for i := range fn.Code {
			fn.Code[i] = binary.LittleEndian.Uint64(code[s.Value+8*uint64(i):])
		}
		if l.Funcs[s.Name] != nil {
			return fmt.Errorf("function %s is there twice", s.Name)
		}
		l.Funcs[s.Name] = fn
		funcs, starts = append(funcs, fn), append(starts, s.Value)
	}
	rel := f.Section(".rel.text")
	if rel == nil {
		return nil
	}
	rels, err := rel.Data()
	if err != nil {
		return err
	}
	for ; len(rels) >= 16; rels = rels[16:] {
		off, info := binary.LittleEndian.Uint64(rels), binary.LittleEndian.Uint64(rels[8:])
		sym, typ := int(info>>32), uint32(info)
		isMap := sym >= 1 && sym <= len(syms) && syms[sym-1].Section == elf.SHN_UNDEF && typ == rBPF64_64
		if sym < 1 || sym > len(syms) || elf.ST_TYPE(syms[sym-1].Info) != elf.STT_FUNC && !isMap || typ != rBPF64_64 && typ != rBPF64_32 {
			return fmt.Errorf("relocation of type %d at %#x is neither for a function nor for a map", typ, off)
		}
		for i, fn := range funcs {
			if off < starts[i] || off >= starts[i]+8*uint64(len(fn.Code)) {
				continue
			}
			at := int(off-starts[i]) / 8
			addr := typ == rBPF64_64 && !isMap
			if addr {
				fn.Code[at] |= pseudoFunc << 12
			}
			fn.Refs = append(fn.Refs, Ref{At: at, Name: syms[sym-1].Name, Addr: addr, Map: isMap})
		}
	}
	return nil
}

// Closure is the named functions and all that they refer to, each once, in the
// order in which they came up.
func (l *Library) Closure(names ...string) ([]*Func, error) {
	var out []*Func
	seen := map[string]bool{}
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		f := l.Funcs[name]
		if f == nil {
			return nil, fmt.Errorf("internal error: the library has no function %s", name)
		}
		out = append(out, f)
		for _, r := range f.Refs {
			if !r.Map {
				names = append(names, r.Name)
			}
		}
	}
	return out, nil
}

// FuncBTF is a BTF blob in which type FuncType is a function: what func_info of
// every function may refer to where the kernel only wants to see some.
func FuncBTF() []byte {
	const (
		funcProto = 13 << 24
		function  = 12 << 24
		intKind   = 1 << 24
	)
	types := []uint32{
		1, intKind, 4, 1<<24 | 32, // int, signed, 32 bits
		0, funcProto, 1, // int (void)
		5, function, 2, // f, static
	}
	strs := "\x00int\x00f\x00"
	b := binary.LittleEndian.AppendUint16(nil, 0xeb9f)
	b = append(b, 1, 0)
	for _, v := range []uint32{24, 0, uint32(4 * len(types)), uint32(4 * len(types)), uint32(len(strs))} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	for _, v := range types {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(b, strs...)
}

// FuncType is the number of the function in FuncBTF.
const FuncType = 3
