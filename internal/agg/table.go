package agg

import "io"

// PartKind says what one part of a key tuple is.
type PartKind uint8

// The kinds of key parts.
const (
	Signed   PartKind = iota + 1 // integer of Size bytes, Int sign-extended
	Unsigned                     // integer of Size bytes, Int zero-extended
	String                       // Str, without its NUL
	Bytes                        // Str holds the raw bytes
	Stack                        // kernel stack: PCs
	UStack                       // user stack: PID, PCs
	Sym                          // kernel function: Int is its address
	Mod                          // kernel module: Int is an address in it
	USym                         // user function: PID, Int
	UMod                         // user module: PID, Int
	UAddr                        // user address: PID, Int
)

// Part is one part of a key tuple.
type Part struct {
	Kind PartKind
	Size uint8 // of an integer: 1, 2, 4, 8
	PID  int32 // of UStack, USym, UMod, UAddr
	Int  uint64
	Str  string
	PCs  []uint64 // innermost first, without a terminating zero
	// Notes are frame names a helper of the program supplied, one for each
	// of PCs, "" for none; nil without a helper.
	Notes []string
}

// Key is a key tuple; nil for a scalar aggregation.
type Key []Part

// Order is how the rows of a table are sorted: DTrace's aggsort options.
// The zero Order sorts by value, ascending, ties by key.
type Order struct {
	ByKey  bool // aggsortkey: by key, ties by value
	Rev    bool // aggsortrev: descending
	Pos    int  // aggsortpos: which of several aggregations is compared first
	KeyPos int  // aggsortkeypos: which part of the key is compared first
}

// Style is how histograms are drawn: DTrace's agg… options.
type Style struct {
	Pack  bool // aggpack: one line of block characters for each key
	Zoom  bool // aggzoom: bars relative to the largest bucket, not the total
	Hist  bool // agghist: count, sum… of all keys drawn as one histogram
	ASCII bool // encoding=ascii: no block characters in packed lines
}

// Datum is one aggregated value, ready to print.
type Datum struct {
	Spec   Spec
	Words  []int64   // raw; nil where the key has no value in this aggregation
	Normal int64     // normalize() factor, 1 for none
	PerCPU [][]int64 // by CPU, with option aggpercpu, else nil
}

// Row is a key with one value of each aggregation printed side by side.
type Row struct {
	Key  Key
	Data []Datum
}

// A Drawer prints a Datum; Datum.Print is the usual one.
type Drawer func(w io.Writer, d Datum) error
