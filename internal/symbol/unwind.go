package symbol

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// CFAKind says how the canonical frame address is computed: the value of the
// stack pointer before the call that made the frame.
type CFAKind uint8

const (
	CFANone     CFAKind = iota // no information: code nobody described, or padding
	CFAEnd                     // the outermost frame: there is no caller
	CFARSP                     // RSP + CFAOff
	CFARBP                     // RBP + CFAOff
	CFAReg                     // another register, Reg, + CFAOff
	CFARSPDeref                // *(RSP + CFAOff) + CFAAdd: signal frames
	CFARBPDeref                // *(RBP + CFAOff) + CFAAdd: functions that realign the stack
	CFAPLT                     // RSP + 8, and 8 more if RIP&15 >= CFAOff
	CFAUnknown                 // a rule this table does not express
	CFAFP                      // RBP + 16, RBP and the return address below it, maybe on another stack
)

// Where says where the caller's value of a register is kept.
type Where uint8

const (
	Same    Where = iota // in the register itself
	AtCFA                // *(CFA + off)
	AtRSP                // *(RSP + off), by the frame's own RSP
	AtRBP                // *(RBP + off)
	Unknown              // a rule this table does not express, or no value
)

// Row describes how to step from a frame to its caller for code from PC up to
// the next row.
type Row struct {
	PC     uint64 // link-time address
	CFA    CFAKind
	Reg    uint8 // of CFAReg, as DWARF numbers them
	RBP    Where
	RBX    Where // AtCFA, AtRSP; else it is where the last one that saved it put it
	RA     Where // AtCFA with RAOff -8 but for signal frames
	Signal bool  // the caller was interrupted: its PC is an instruction, not behind a call
	CFAOff int32
	CFAAdd int32
	RBPOff int32
	RBXOff int32
	RAOff  int32
}

// DWARF numbers of registers on x86-64.
const (
	dwRBX = 3
	dwRBP = 6
	dwRSP = 7
	dwRIP = 16
)

var errFrame = errors.New("malformed call frame information")

// UnwindTable returns rows for all code that .eh_frame (or, without it,
// .debug_frame) or Go's function table describes, sorted by PC, gaps marked by rows of CFANone. Rows
// that differ in nothing but PC are merged. It is made once for an object, and
// kept.
// Entries that do not parse are left out; x86-64 only.
func (o *Object) UnwindTable() ([]Row, error) {
	o.unwind.Lock()
	defer o.unwind.Unlock()
	if !o.rowsRead {
		o.rows, o.rowsErr = o.readFrames()
		o.rowsRead = true
	}
	return o.rows, o.rowsErr
}

// ForgetUnwindTable gives the memory of the table back until it is asked for
// again.
func (o *Object) ForgetUnwindTable() {
	o.unwind.Lock()
	defer o.unwind.Unlock()
	o.rows, o.rowsRead = nil, false
}

// Row finds the row in force at a link-time address; without one, CFANone.
func (o *Object) Row(value uint64) Row {
	rows, _ := o.UnwindTable()
	i := sort.Search(len(rows), func(i int) bool { return rows[i].PC > value }) - 1
	if i < 0 {
		return Row{}
	}
	return rows[i]
}

func (o *Object) readFrames() ([]Row, error) {
	if o.Machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("%s: unwind tables are read for x86-64 only, not %v", o.Path, o.Machine)
	}
	made := o.goRows()
	if made == nil {
		made = o.v8Rows()
	}
	fr := frames{eh: true, text: ^uint64(0)}
	h, b, err := o.Section(".eh_frame")
	if err != nil || h.Type == elf.SHT_NOBITS || len(b) == 0 {
		if made != nil {
			return made, nil
		}
		fr.eh = false
		if h, b, err = o.Section(".debug_frame"); err != nil {
			return nil, fmt.Errorf("%s: neither .eh_frame nor .debug_frame", o.Path)
		}
	}
	fr.data, fr.addr = b, h.Addr
	if s := o.file.Section(".text"); s != nil {
		fr.text = s.Addr
	}
	return overlay(fr.parse(), made), nil
}

// v8Rows are rows for the built-in functions of V8, the engine of node and its
// kin: generated code without tables, which keeps frame pointers because V8's own
// stack walks go by them. Two symbols say where it lies.
func (o *Object) v8Rows() []Row {
	code, ok1 := o.Named("v8_Default_embedded_blob_code_")
	size, ok2 := o.Named("v8_Default_embedded_blob_code_size_")
	var n [4]byte
	if !ok1 || !ok2 || o.ReadAt(n[:], size.Value) != nil {
		return nil
	}
	return []Row{{PC: code.Value, CFA: CFAFP}, {PC: code.Value + uint64(binary.LittleEndian.Uint32(n[:]))}}
}

// frames parses one section of call frame information.
type frames struct {
	data []byte
	addr uint64 // of data, link time
	text uint64 // base of DW_EH_PE_textrel
	eh   bool   // .eh_frame, not .debug_frame
	cies map[int]*cie
	rows []Row // of all spans
}

type cie struct {
	codeAlign uint64
	dataAlign int64
	ra        uint64
	ptrEnc    byte
	augmented bool // has augmentation data ("z")
	signal    bool
	init      state
	err       error
}

// state is the row under construction while call frame instructions run.
type state struct {
	cfa     CFAKind // CFAReg for RSP and RBP too
	reg     uint64
	off     int64
	add     int64
	rbp, ra rule
	rbx     rule
}

type rule struct {
	where Where
	undef bool // DW_CFA_undefined, as opposed to what we cannot express
	off   int64
}

// span is what one FDE covers.
type span struct {
	start, end uint64
	from, to   int // its rows in frames.rows
}

// parse reads the whole section: its rows, in order of addresses.
func (f *frames) parse() []Row {
	f.cies = map[int]*cie{}
	var spans []span
	for off := 0; off+4 <= len(f.data); {
		r := reader{b: f.data, p: off}
		n, idSize := uint64(r.u32()), 4
		if n == 0 {
			if f.eh {
				break
			}
			off = r.p
			continue
		}
		if n == 0xffffffff {
			n, idSize = r.u64(), 8
		}
		if r.bad || n > uint64(len(f.data)-r.p) {
			break
		}
		body := r.p
		r.b = f.data[:body+int(n)]
		id := uint64(r.u32())
		isCIE := id == 0
		if idSize == 8 {
			r.p = body
			id = r.u64()
			isCIE = id == 0
		}
		if !f.eh {
			isCIE = id == 0xffffffff && idSize == 4 || id == ^uint64(0)
		}
		if !isCIE {
			at := int(id) // .debug_frame: offset in the section
			if f.eh {
				at = body - int(id) // .eh_frame: back from here
			}
			if s, err := f.fde(&r, at); err == nil && s.end > s.start {
				spans = append(spans, s)
			}
		}
		off = body + int(n)
	}
	return f.merge(spans)
}

// merge sorts the spans and closes each with a gap unless the next one follows.
func (f *frames) merge(spans []span) []Row {
	slices.SortStableFunc(spans, func(a, b span) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	out := make([]Row, 0, len(f.rows)+len(spans))
	add := func(r Row) {
		n := len(out)
		if n > 0 && out[n-1].PC == r.PC {
			out = out[:n-1]
			n--
		}
		if n > 0 {
			prev := out[n-1]
			prev.PC = r.PC
			if prev == r {
				return
			}
		}
		out = append(out, r)
	}
	for i, s := range spans {
		limit := s.end
		if i+1 < len(spans) {
			limit = min(limit, spans[i+1].start)
		}
		for _, r := range f.rows[s.from:s.to] {
			if r.PC < limit {
				add(r)
			}
		}
		if i+1 == len(spans) || spans[i+1].start > s.end {
			add(Row{PC: s.end})
		}
	}
	return slices.Clip(out)
}

// cie returns the common information entry at an offset.
func (f *frames) cie(at int) *cie {
	if c, ok := f.cies[at]; ok {
		return c
	}
	c := &cie{err: errFrame}
	f.cies[at] = c
	if at < 0 || at+4 > len(f.data) {
		return c
	}
	r := reader{b: f.data, p: at}
	n, wide := uint64(r.u32()), false
	if n == 0xffffffff {
		n, wide = r.u64(), true
	}
	if r.bad || n > uint64(len(f.data)-r.p) {
		return c
	}
	r.b = f.data[:r.p+int(n)]
	if r.u32(); wide {
		r.u32()
	}
	version := r.u8()
	aug := r.cstring()
	if version == 4 {
		r.u8() // address size
		r.u8() // segment selector size
	}
	c.codeAlign, c.dataAlign = r.uleb(), r.sleb()
	if version == 1 {
		c.ra = uint64(r.u8())
	} else {
		c.ra = r.uleb()
	}
	if len(aug) > 0 && aug[0] == 'z' {
		c.augmented = true
		size := r.uleb()
		if r.bad || size > uint64(len(r.b)-r.p) {
			return c
		}
		end := r.p + int(size)
		for _, a := range aug[1:] {
			switch a {
			case 'R':
				c.ptrEnc = r.u8()
			case 'P':
				enc := r.u8()
				f.pointer(&r, enc)
			case 'L':
				r.u8()
			case 'S':
				c.signal = true
			}
		}
		r.p = end
	} else if aug != "" {
		return c
	}
	if r.bad || c.codeAlign == 0 {
		return c
	}
	c.err = nil
	run := machine{cie: c}
	c.err = run.exec(&r, 0, ^uint64(0), nil)
	c.init = run.state
	return c
}

// fde reads a frame description entry and runs its instructions.
func (f *frames) fde(r *reader, cieAt int) (span, error) {
	c := f.cie(cieAt)
	if c.err != nil {
		return span{}, c.err
	}
	start := f.pointer(r, c.ptrEnc)
	size := f.pointer(r, c.ptrEnc&0x0f) // a length is never relative
	if c.augmented {
		n := r.uleb()
		if r.bad || n > uint64(len(r.b)-r.p) {
			return span{}, errFrame
		}
		r.p += int(n)
	}
	if r.bad || start+size < start {
		return span{}, errFrame
	}
	s := span{start: start, end: start + size, from: len(f.rows)}
	run := machine{cie: c, state: c.init}
	err := run.exec(r, start, s.end, func(pc uint64, st *state) {
		row := st.row(pc, c.signal)
		if n := len(f.rows); n > s.from && f.rows[n-1].PC == pc {
			f.rows[n-1] = row
		} else {
			f.rows = append(f.rows, row)
		}
	})
	s.to = len(f.rows)
	return s, err
}

// pointer reads an encoded pointer (DW_EH_PE_…, Linux Standard Base, 10.5.1).
func (f *frames) pointer(r *reader, enc byte) uint64 {
	const omit = 0xff
	if enc == omit {
		return 0
	}
	base := uint64(0)
	switch enc & 0x70 {
	case 0x10: // pcrel
		base = f.addr + uint64(r.p)
	case 0x20: // textrel
		base = f.text
	case 0x00, 0x30: // absolute; datarel, which no x86 toolchain writes here
	default:
		r.bad = true
	}
	v := uint64(0)
	switch enc & 0x0f {
	case 0x00, 0x04, 0x0c:
		v = r.u64()
	case 0x01:
		v = r.uleb()
	case 0x02:
		v = uint64(r.u16())
	case 0x03:
		v = uint64(r.u32())
	case 0x09:
		v = uint64(r.sleb())
	case 0x0a:
		v = uint64(int64(int16(r.u16())))
	case 0x0b:
		v = uint64(int64(int32(r.u32())))
	default:
		r.bad = true
	}
	return base + v
}

// row renders the state as a table row.
func (st *state) row(pc uint64, signal bool) Row {
	r := Row{PC: pc, CFA: st.cfa, Signal: signal, CFAOff: int32(st.off), CFAAdd: int32(st.add)}
	if st.cfa == CFAReg {
		switch st.reg {
		case dwRSP:
			r.CFA = CFARSP
		case dwRBP:
			r.CFA = CFARBP
		default:
			r.Reg = uint8(st.reg)
		}
	}
	if int64(r.CFAOff) != st.off || int64(r.CFAAdd) != st.add {
		r.CFA = CFAUnknown
	}
	r.RBP, r.RBPOff = st.rbp.where, int32(st.rbp.off)
	r.RA, r.RAOff = st.ra.where, int32(st.ra.off)
	if w := st.rbx.where; w == AtCFA || w == AtRSP {
		r.RBX, r.RBXOff = w, int32(st.rbx.off)
	}
	if st.ra.undef {
		// How start routines say that nobody called them.
		return Row{PC: pc, CFA: CFAEnd}
	}
	return r
}

// machine runs call frame instructions (DWARF 5, 6.4.2).
type machine struct {
	*cie
	state
	stack []state
}

// exec runs the instructions left in r from address pc; emit gets every row
// below end.
func (m *machine) exec(r *reader, pc, end uint64, emit func(uint64, *state)) error {
	flush := func() {
		if emit != nil && pc < end {
			emit(pc, &m.state)
		}
	}
	advance := func(n uint64) {
		flush()
		to := pc + n*m.codeAlign
		if to < pc || m.codeAlign > 1<<16 {
			to = end // nonsense: there is no code so high
		}
		pc = to
	}
	for r.p < len(r.b) && !r.bad {
		op := r.u8()
		switch op >> 6 {
		case 1: // advance_loc
			advance(uint64(op & 0x3f))
			continue
		case 2: // offset
			m.set(uint64(op&0x3f), rule{where: AtCFA, off: int64(r.uleb()) * m.dataAlign})
			continue
		case 3: // restore
			m.restore(uint64(op & 0x3f))
			continue
		}
		switch op {
		case 0x00: // nop
		case 0x01: // set_loc: absolute, pointer size; assemblers do not write it
			return errFrame
		case 0x02:
			advance(uint64(r.u8()))
		case 0x03:
			advance(uint64(r.u16()))
		case 0x04:
			advance(uint64(r.u32()))
		case 0x05: // offset_extended
			reg := r.uleb()
			m.set(reg, rule{where: AtCFA, off: int64(r.uleb()) * m.dataAlign})
		case 0x06: // restore_extended
			m.restore(r.uleb())
		case 0x07: // undefined
			m.set(r.uleb(), rule{where: Unknown, undef: true})
		case 0x08: // same_value
			m.set(r.uleb(), rule{where: Same})
		case 0x09: // register
			reg := r.uleb()
			r.uleb()
			m.set(reg, rule{where: Unknown})
		case 0x0a: // remember_state
			m.stack = append(m.stack, m.state)
		case 0x0b: // restore_state
			n := len(m.stack)
			if n == 0 {
				return errFrame
			}
			m.state, m.stack = m.stack[n-1], m.stack[:n-1]
		case 0x0c: // def_cfa
			m.cfa, m.reg, m.add = CFAReg, r.uleb(), 0
			m.off = int64(r.uleb())
		case 0x0d: // def_cfa_register
			m.cfa, m.reg, m.add = CFAReg, r.uleb(), 0
		case 0x0e: // def_cfa_offset
			m.off = int64(r.uleb())
		case 0x0f: // def_cfa_expression
			m.cfa, m.off, m.add = cfaExpression(r.block())
		case 0x10: // expression
			reg := r.uleb()
			m.set(reg, regExpression(r.block()))
		case 0x11: // offset_extended_sf
			reg := r.uleb()
			m.set(reg, rule{where: AtCFA, off: r.sleb() * m.dataAlign})
		case 0x12: // def_cfa_sf
			m.cfa, m.reg, m.add = CFAReg, r.uleb(), 0
			m.off = r.sleb() * m.dataAlign
		case 0x13: // def_cfa_offset_sf
			m.off = r.sleb() * m.dataAlign
		case 0x14: // val_offset
			reg := r.uleb()
			r.uleb()
			m.set(reg, rule{where: Unknown})
		case 0x15: // val_offset_sf
			reg := r.uleb()
			r.sleb()
			m.set(reg, rule{where: Unknown})
		case 0x16: // val_expression
			reg := r.uleb()
			r.block()
			m.set(reg, rule{where: Unknown})
		case 0x2d: // GNU_window_save: SPARC's
		case 0x2e: // GNU_args_size
			r.uleb()
		case 0x2f: // GNU_negative_offset_extended
			reg := r.uleb()
			m.set(reg, rule{where: AtCFA, off: -int64(r.uleb()) * m.dataAlign})
		default:
			return errFrame
		}
	}
	if r.bad {
		return errFrame
	}
	flush()
	return nil
}

func (m *machine) set(reg uint64, to rule) {
	switch reg {
	case dwRBX:
		m.rbx = to
	case dwRBP:
		m.rbp = to
	case m.cie.ra:
		m.state.ra = to
	}
}

func (m *machine) restore(reg uint64) {
	switch reg {
	case dwRBX:
		m.rbx = m.init.rbx
	case dwRBP:
		m.rbp = m.init.rbp
	case m.cie.ra:
		m.state.ra = m.init.ra
	}
}

const (
	opDeref     = 0x06
	opPlusConst = 0x23
	opBreg0     = 0x70
)

// breg recognizes "register + constant", with an optional dereference behind,
// and behind that another constant.
func breg(b []byte) (reg int, off, add int64, deref, ok bool) {
	r := reader{b: b}
	op := r.u8()
	off = r.sleb()
	if r.bad || op < opBreg0 || op > opBreg0+31 {
		return 0, 0, 0, false, false
	}
	if r.p < len(b) && b[r.p] == opDeref {
		r.p++
		if deref = true; r.p < len(b) && b[r.p] == opPlusConst {
			r.p++
			add = int64(r.uleb())
		}
	}
	if r.bad || r.p != len(b) {
		return 0, 0, 0, false, false
	}
	return int(op - opBreg0), off, add, deref, true
}

func cfaExpression(b []byte) (kind CFAKind, off, add int64) {
	if reg, off, add, deref, ok := breg(b); ok && deref {
		switch reg {
		case dwRSP:
			return CFARSPDeref, off, add
		case dwRBP:
			return CFARBPDeref, off, add
		}
	}
	// What linkers write for .plt: rsp+8 + ((rip&15) >= n) << 3. A stub pushes
	// one word before it jumps to the resolver.
	if len(b) == 11 && string(b[:6]) == "\x77\x08\x80\x00\x3f\x1a" && string(b[7:]) == "\x2a\x33\x24\x22" {
		if lit := b[6]; lit >= 0x30 && lit < 0x50 {
			return CFAPLT, int64(lit - 0x30), 0
		}
	}
	return CFAUnknown, 0, 0
}

func regExpression(b []byte) rule {
	if reg, off, _, deref, ok := breg(b); ok && !deref {
		switch reg {
		case dwRSP:
			return rule{where: AtRSP, off: off}
		case dwRBP:
			return rule{where: AtRBP, off: off}
		}
	}
	return rule{where: Unknown}
}

// reader reads little-endian data; what is read past the end is 0 and sets bad.
type reader struct {
	b   []byte
	p   int
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b)-r.p {
		r.bad, r.p = true, len(r.b)
		return make([]byte, 8)
	}
	b := r.b[r.p : r.p+n]
	r.p += n
	return b
}

func (r *reader) u8() byte    { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) uleb() uint64 {
	v := uint64(0)
	for shift := uint(0); ; shift += 7 {
		c := r.u8()
		if shift < 64 {
			v |= uint64(c&0x7f) << shift
		}
		if c&0x80 == 0 || r.bad {
			return v
		}
	}
}

func (r *reader) sleb() int64 {
	v := int64(0)
	for shift := uint(0); ; shift += 7 {
		c := r.u8()
		if shift < 64 {
			v |= int64(c&0x7f) << shift
		}
		if c&0x80 == 0 || r.bad {
			if c&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

func (r *reader) block() []byte {
	n := r.uleb()
	if n > uint64(len(r.b)-r.p) {
		r.bad = true
		return nil
	}
	return r.take(int(n))
}

func (r *reader) cstring() string {
	for i := r.p; i < len(r.b); i++ {
		if r.b[i] == 0 {
			s := string(r.b[r.p:i])
			r.p = i + 1
			return s
		}
	}
	r.bad = true
	return ""
}
