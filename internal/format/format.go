// Package format prints what D programs record: printf() and printa() formats,
// the default shapes of trace(), keys, stacks and memory, and the fixed parts
// of dtrace(1)'s output (probe lines, headers, flow indentation).
//
// A format goes three ways: Parse reads its text, Check compares it with the
// types of the arguments (errors are DTrace's, with its tags), and Format
// renders values. Rendering knows no records: the consumer decodes a record
// into Values, whose Bytes and PCs may lie in the record itself.
package format

// Kind says what a Value is.
type Kind uint8

// The kinds of values.
const (
	Signed   Kind = iota + 1 // integer of Size bytes in Int, sign-extended
	Unsigned                 // integer (or pointer) of Size bytes in Int
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

// Value is one recorded value.
type Value struct {
	Kind  Kind
	Size  uint8 // bytes of an integer or float in the record: 1, 2, 4, 8 (16)
	PID   int32 // of UStack, USym, UMod, UAddr
	Int   uint64
	Float float64
	Bytes []byte
	PCs   []uint64 // innermost first; a zero ends them
	Notes []string // frame names supplied by the program, parallel to PCs
}

// Place is an address in words.
type Place struct {
	Module string // "vmlinux", "libc.so.6"; "" when unknown
	Name   string // function or object; "" when unknown
	Offset uint64 // of the address in it
}

// Resolver names addresses, hosts and ports at print time. All its methods
// may answer with zero values: the number is printed then.
type Resolver interface {
	KernelSym(addr uint64) Place
	UserSym(pid int32, addr uint64) Place
	Host(addr string) string    // %I: name of an address in text form
	Service(port uint16) string // %P: name of a port
}

// Options are the options of a session that change how values look.
type Options struct {
	Quiet       bool     // option quiet: trace() without padding
	RawBytes    bool     // option rawbytes: never guess that bytes are a string
	StackIndent int      // option stackindent; negative for the default, 14
	Resolver    Resolver // nil: plain addresses
}
