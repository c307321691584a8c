package agg

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/big"
	"slices"
	"strings"
)

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
//
// Addresses that stand for the same function or module must be made equal
// (to its start) before the key is used, or they stay rows of their own.
type Part struct {
	Kind PartKind
	Size uint8 // of an integer: 1, 2, 4, 8
	PID  int32 // of UStack, USym, UMod, UAddr
	Int  uint64
	Str  string
	PCs  []uint64 // innermost first, without a terminating zero
	// Notes are frame names a helper of the program supplied, one for each
	// of PCs, "" for none; nil without a helper. They do not distinguish keys.
	Notes []string
}

// Key is a key tuple; nil for a scalar aggregation.
type Key []Part

// append encodes the key so that equal keys, and no others, encode equally.
// Signed and unsigned integers of one size are equal when their bits are.
func (k Key) append(b []byte) []byte {
	for i := range k {
		p := &k[i]
		switch p.Kind {
		case Signed, Unsigned:
			b = append(b, byte(Signed), p.Size)
			b = binary.LittleEndian.AppendUint64(b, p.bits())
		case String, Bytes:
			b = append(b, byte(p.Kind))
			b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Str)))
			b = append(b, p.Str...)
		case Stack, UStack:
			b = append(b, byte(p.Kind))
			b = binary.LittleEndian.AppendUint32(b, uint32(p.PID))
			b = binary.LittleEndian.AppendUint32(b, uint32(len(p.PCs)))
			for _, pc := range p.PCs {
				b = binary.LittleEndian.AppendUint64(b, pc)
			}
		default:
			b = append(b, byte(p.Kind))
			b = binary.LittleEndian.AppendUint32(b, uint32(p.PID))
			b = binary.LittleEndian.AppendUint64(b, p.Int)
		}
	}
	return b
}

// bits is an integer cut to its size.
func (p *Part) bits() uint64 {
	if p.Size == 0 || p.Size >= 8 {
		return p.Int
	}
	return p.Int & (1<<(8*p.Size) - 1)
}

// compare orders parts as DTrace does: the shorter integer first, then
// integers as unsigned numbers, strings and stacks from their first byte.
func (p *Part) compare(q *Part) int {
	if c := cmp.Compare(p.order(), q.order()); c != 0 {
		return c
	}
	switch p.Kind {
	case Signed, Unsigned:
		if c := cmp.Compare(p.Size, q.Size); c != 0 {
			return c
		}
		return cmp.Compare(p.bits(), q.bits())
	case String, Bytes:
		return strings.Compare(p.Str, q.Str)
	case Stack, UStack:
		if c := cmp.Compare(uint32(p.PID), uint32(q.PID)); c != 0 {
			return c
		}
		for i := range min(len(p.PCs), len(q.PCs)) {
			// DTrace compares the records byte by byte, in memory order.
			var a, b [8]byte
			binary.LittleEndian.PutUint64(a[:], p.PCs[i])
			binary.LittleEndian.PutUint64(b[:], q.PCs[i])
			if c := bytes.Compare(a[:], b[:]); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(p.PCs), len(q.PCs))
	}
	if c := cmp.Compare(uint32(p.PID), uint32(q.PID)); c != 0 {
		return c
	}
	return cmp.Compare(p.Int, q.Int)
}

func (p *Part) order() PartKind {
	if p.Kind == Unsigned {
		return Signed
	}
	return p.Kind
}

// compare orders keys part by part, beginning with part pos and wrapping
// round. A pos past the last part is 0.
func (k Key) compare(l Key, pos int) int {
	if c := cmp.Compare(len(k), len(l)); c != 0 || len(k) == 0 {
		return c
	}
	if pos < 0 || pos >= len(k) {
		pos = 0
	}
	for i := range k {
		j := (i + pos) % len(k)
		if c := k[j].compare(&l[j]); c != 0 {
			return c
		}
	}
	return 0
}

// Order is how the rows of a table are sorted: DTrace's aggsort options.
// The zero Order sorts by value, ascending, ties by key.
type Order struct {
	ByKey  bool // aggsortkey: by key, ties by value
	Rev    bool // aggsortrev: descending
	Pos    int  // aggsortpos: which of several aggregations is compared first
	KeyPos int  // aggsortkeypos: which part of the key is compared first
}

// Datum is one aggregated value, ready to print.
type Datum struct {
	Spec   Spec
	Words  []int64   // raw; nil where the key has no value in this aggregation
	Normal int64     // normalize() factor; 0 and 1 for none
	PerCPU [][]int64 // by CPU, with option aggpercpu, else nil
}

func (d Datum) normal() int64 {
	if d.Normal == 0 {
		return 1
	}
	return d.Normal
}

// Value is the normalized number a Datum prints: for a histogram, the sum of
// its counts.
func (d Datum) Value() int64 {
	if d.Words == nil {
		return 0
	}
	w, n := d.Words, d.normal()
	switch d.Spec.Func {
	case Min:
		return DecodeMin(uint64(w[0])) / n
	case Max:
		return DecodeMax(uint64(w[0])) / n
	case Avg:
		if w[0] == 0 {
			return 0
		}
		return w[1] / n / w[0]
	case Stddev:
		return stddev(w, n)
	case Quantize, Lquantize, Llquantize:
		var sum int64
		for _, c := range w {
			sum += c
		}
		return sum / n
	}
	return w[0] / n
}

// Signed reports whether the value is a signed quantity in D: all but count().
func (d Datum) Signed() bool { return d.Spec.Func != Count }

// Row is a key with one value of each aggregation printed side by side.
type Row struct {
	Key  Key
	Data []Datum
}

// weight is what values are sorted by. A histogram weighs the sum of its
// buckets' values, times their counts; ties are broken by the zero bucket.
type weight struct {
	n    int64
	sum  *big.Int // histograms only
	zero int64
}

func (a weight) compare(b weight) int {
	if a.sum == nil || b.sum == nil {
		return cmp.Compare(a.n, b.n)
	}
	if c := a.sum.Cmp(b.sum); c != 0 {
		return c
	}
	return cmp.Compare(a.zero, b.zero)
}

// weight weighs the value as it was aggregated, not normalized.
func (d Datum) weight() weight {
	s := d.Spec
	d.Normal = 1
	switch s.Func {
	case Stddev:
		return weight{n: int64(uint64(d.Value()) ^ 1<<63)}
	case Quantize, Lquantize, Llquantize:
	default:
		return weight{n: d.Value()}
	}
	w := weight{sum: new(big.Int)}
	var v, c big.Int
	for i, count := range d.Words {
		if count == 0 {
			continue
		}
		var at int64
		switch s.Func {
		case Quantize:
			at = QuantizeValue(i)
		case Lquantize:
			switch {
			case i == 0:
				at = s.Base - 1
			case i == len(d.Words)-1:
				at = s.Base + int64(s.Levels())*s.Step + 1
			default:
				at = s.Base + int64(i-1)*s.Step
			}
		case Llquantize:
			off := i - s.half() - 1
			if off == 0 {
				w.zero = count
				continue
			}
			m, _ := s.lower(max(off, -off))
			v.SetUint64(m)
			if off < 0 {
				v.Neg(&v)
			}
			w.sum.Add(w.sum, v.Mul(&v, c.SetInt64(count)))
			continue
		}
		if at == 0 {
			w.zero = count
			continue
		}
		w.sum.Add(w.sum, v.Mul(v.SetInt64(at), c.SetInt64(count)))
	}
	return w
}

// Table holds the values of one aggregation, by key. It is not safe for
// concurrent use.
type Table struct {
	Name    string
	ID      int // order in which aggregations are declared, and printed
	Spec    Spec
	Normal  int64 // factor of normalize(), applied when printing; 0 for none
	Printed bool  // printa() has shown it: not printed again at the end
	CPUs    int   // option aggpercpu: number of CPUs whose values are kept, or 0

	rows map[string]*entry
	buf  []byte // scratch for encoded keys
}

type entry struct {
	key    Key
	words  []int64
	perCPU [][]int64
}

// NewTable returns an empty table.
func NewTable(name string, id int, spec Spec) *Table {
	return &Table{Name: name, ID: id, Spec: spec, rows: make(map[string]*entry)}
}

// Len is the number of keys.
func (t *Table) Len() int { return len(t.rows) }

// Add merges raw words drained from one CPU into the value of key. Both are
// copied where they are kept; words may be reused by the caller. Part.PCs and
// Part.Notes of a new key are kept as they are.
func (t *Table) Add(cpu int, key Key, words []int64) {
	t.buf = key.append(t.buf[:0])
	e := t.rows[string(t.buf)]
	if e == nil {
		e = &entry{key: slices.Clone(key), words: make([]int64, t.Spec.Words())}
		t.rows[string(t.buf)] = e
	}
	t.Spec.Merge(e.words, words)
	if t.CPUs == 0 || cpu < 0 || cpu >= t.CPUs {
		return
	}
	if e.perCPU == nil {
		e.perCPU = make([][]int64, t.CPUs)
		for i := range e.perCPU {
			e.perCPU[i] = make([]int64, len(e.words))
		}
	}
	t.Spec.Merge(e.perCPU[cpu], words)
}

// Update applies one firing directly: what an interpreter does.
func (t *Table) Update(cpu int, key Key, v, incr int64) {
	words := make([]int64, t.Spec.Words())
	t.Spec.Update(words, v, incr)
	t.Add(cpu, key, words)
}

// Clear sets every value to that of nothing aggregated. The keys stay.
func (t *Table) Clear() {
	for _, e := range t.rows {
		clear(e.words)
		for _, w := range e.perCPU {
			clear(w)
		}
	}
}

// Trunc keeps the n largest values, or the -n smallest for a negative n, and
// removes the other keys; 0 removes all.
func (t *Table) Trunc(n int64) {
	if n == 0 {
		clear(t.rows)
		return
	}
	rows := t.Rows(Order{Rev: n > 0})
	keep := uint64(n)
	if n < 0 {
		keep = -keep
	}
	if keep >= uint64(len(rows)) {
		return
	}
	for _, r := range rows[keep:] {
		t.buf = r.Key.append(t.buf[:0])
		delete(t.rows, string(t.buf))
	}
}

func (t *Table) datum(e *entry) Datum {
	return Datum{Spec: t.Spec, Words: e.words, Normal: t.Normal, PerCPU: e.perCPU}
}

// Rows returns the rows in order. They share the words of the table: print
// them before the table changes.
func (t *Table) Rows(o Order) []Row { return Join([]*Table{t}, o) }

// Join returns the rows of several aggregations side by side, one for each
// key that any of them has. A missing value has nil Words and prints 0.
// A table may occur more than once.
func Join(tables []*Table, o Order) []Row {
	pos := o.Pos
	if pos < 0 || pos >= len(tables) {
		pos = 0
	}
	type sortable struct {
		row     Row
		weights []weight
	}
	byKey := make(map[string]int)
	var all []sortable
	for i, t := range tables {
		for k, e := range t.rows {
			j, ok := byKey[k]
			if !ok {
				j = len(all)
				byKey[k] = j
				all = append(all, sortable{row: Row{Key: e.key, Data: make([]Datum, len(tables))}})
				for l, t := range tables {
					all[j].row.Data[l] = Datum{Spec: t.Spec, Normal: t.Normal}
				}
			}
			all[j].row.Data[i] = t.datum(e)
		}
	}
	for i := range all {
		all[i].weights = make([]weight, len(tables))
		for j := range tables {
			all[i].weights[j] = all[i].row.Data[(j+pos)%len(tables)].weight()
		}
	}
	slices.SortFunc(all, func(a, b sortable) int {
		c := 0
		if o.ByKey {
			c = a.row.Key.compare(b.row.Key, o.KeyPos)
		}
		for i := 0; c == 0 && i < len(a.weights); i++ {
			c = a.weights[i].compare(b.weights[i])
		}
		if c == 0 {
			c = a.row.Key.compare(b.row.Key, o.KeyPos)
		}
		if o.Rev {
			c = -c
		}
		return c
	})
	rows := make([]Row, len(all))
	for i := range all {
		rows[i] = all[i].row
	}
	return rows
}

// Unprinted returns the tables no printa() has shown, in the order in which
// they are printed when tracing ends.
func Unprinted(tables []*Table, o Order) []*Table {
	var left []*Table
	for _, t := range tables {
		if !t.Printed {
			left = append(left, t)
		}
	}
	slices.SortFunc(left, func(a, b *Table) int {
		if o.Rev {
			a, b = b, a
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return left
}
