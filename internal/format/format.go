// Package format prints what D programs record: printf() and printa() formats,
// the default shapes of trace(), keys, stacks and memory, and the fixed parts
// of dtrace(1)'s output (probe lines, headers, flow indentation).
//
// A format goes three ways: Parse reads its text, Check compares it with the
// types of the arguments (errors are DTrace's, with its tags), and Append
// renders values. Rendering knows no records: the consumer decodes a record
// into Values, whose Bytes and PCs may lie in the record itself.
//
// Everything that prints appends to a byte slice, as in strconv: a consumer
// keeps one buffer and writes it once a record.
package format

import (
	"bytes"
	"slices"
	"time"

	"godtrace/internal/agg"
)

// Kind says what a Value is.
type Kind uint8

// The kinds of values.
const (
	Signed   Kind = iota + 1 // integer of Size bytes in Int, sign-extended
	Unsigned                 // integer or pointer of Size bytes in Int
	Float                    // Float, from Size bytes
	String                   // Bytes up to the first NUL, or all
	Bytes                    // raw memory
	Stack                    // kernel stack: PCs
	UStack                   // user stack: PID, PCs, Notes
	Sym                      // sym(), func(): kernel address in Int
	Mod                      // mod()
	USym                     // usym(), ufunc(): PID, address in Int
	UMod                     // umod()
	UAddr                    // uaddr()
)

// StackCut stands behind the last frame of a user stack whose walk ended before
// the outermost frame. It prints as CutMark.
const (
	StackCut = ^uint64(0)
	CutMark  = "[...]"
)

// Value is one recorded value.
type Value struct {
	Kind  Kind
	Size  uint8 // bytes of an integer or float in the record: 1, 2, 4, 8 (16)
	PID   int32 // of UStack, USym, UMod, UAddr
	Int   uint64
	Float float64
	Bytes []byte
	PCs   []uint64 // innermost first; a zero ends them; StackCut may be the last
	Notes []string // frame names supplied by the program, parallel to PCs
}

// partKinds are the kinds of key parts as kinds of values.
var partKinds = [...]Kind{
	agg.Signed: Signed, agg.Unsigned: Unsigned, agg.String: String, agg.Bytes: Bytes, agg.Stack: Stack, agg.UStack: UStack,
	agg.Sym: Sym, agg.Mod: Mod, agg.USym: USym, agg.UMod: UMod, agg.UAddr: UAddr,
}

// KeyPart is a part of an aggregation's key as a value.
func KeyPart(p agg.Part) Value {
	v := Value{Kind: partKinds[p.Kind], Size: p.Size, PID: p.PID, Int: p.Int, PCs: p.PCs, Notes: p.Notes}
	if p.Kind == agg.String || p.Kind == agg.Bytes {
		v.Bytes = []byte(p.Str)
	}
	return v
}

// Place is an address in words.
type Place struct {
	Module string // "vmlinux", "libc.so.6"; "" when unknown
	Name   string // function or object; "" when unknown
	Offset uint64 // of the address in it; in the module when Name is unknown
}

// Resolver names addresses, hosts and ports at print time. Every method may
// answer with zero values: the number is printed then.
type Resolver interface {
	KernelSym(addr uint64) Place
	UserSym(pid int32, addr uint64) Place
	Host(addr string) string    // %I: the name of an address in text form
	Service(port uint16) string // %P: the name of a port
}

// Options are the options of a session that change how values look. A nil
// *Options stands for the defaults.
type Options struct {
	Quiet       bool           // quiet: trace() without padding
	RawBytes    bool           // rawbytes: memory is never taken for a string
	StrSize     int            // strsize: what rawbytes shows of a string
	NoResolve   bool           // noresolve: user addresses as module:0xoffset in the file
	StackIndent *int           // stackindent; nil for the default, 14
	Target      int32          // pid of -c or -p: whose addresses %A prints; 0 for none
	Resolver    Resolver       // nil: plain addresses
	Agg         agg.Style      // agghist, aggpack, aggzoom, encoding
	Location    *time.Location // of %Y and %T; nil for the local time
	Grouping    *Grouping      // of the flag '; nil for none
}

// Grouping is how a locale groups the digits of decimal numbers.
type Grouping struct {
	Sep   string
	Sizes []byte // of groups from the right, the last again and again; 127 or 0: no more groups
}

// split puts separators between digits.
func (g *Grouping) split(digits []byte) []byte {
	if g == nil {
		return digits
	}
	var groups [][]byte
	size := 0
	for i := 0; len(digits) > 0; i++ {
		if i < len(g.Sizes) {
			size = int(g.Sizes[i])
		}
		n := len(digits)
		if size > 0 && size < 127 {
			n = min(n, size)
		}
		groups = append(groups, digits[len(digits)-n:])
		digits = digits[:len(digits)-n]
	}
	slices.Reverse(groups)
	return bytes.Join(groups, []byte(g.Sep))
}

var defaults Options

func (o *Options) orDefault() *Options {
	if o == nil {
		return &defaults
	}
	return o
}

func (o *Options) stackIndent() int {
	if o.StackIndent == nil {
		return 14
	}
	return *o.StackIndent
}

// Place names the address that a value is: those of sym(), usym() and their kin.
func (o *Options) Place(v Value) Place {
	if v.Kind == Sym || v.Kind == Mod {
		return o.kernelPlace(v.Int)
	}
	return o.userPlace(v.PID, v.Int)
}

func (o *Options) kernelPlace(addr uint64) Place {
	if o.Resolver == nil {
		return Place{}
	}
	return o.Resolver.KernelSym(addr)
}

func (o *Options) userPlace(pid int32, addr uint64) Place {
	if o.Resolver == nil || pid == 0 {
		return Place{}
	}
	return o.Resolver.UserSym(pid, addr)
}

func (o *Options) location() *time.Location {
	if o.Location == nil {
		return time.Local
	}
	return o.Location
}
