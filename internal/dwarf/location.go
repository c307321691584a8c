package dwarf

import (
	dw "debug/dwarf"
)

// Operations of location expressions.
const (
	opConst1u      = 0x08
	opConst1s      = 0x09
	opConst2u      = 0x0a
	opConst2s      = 0x0b
	opConst4u      = 0x0c
	opConst4s      = 0x0d
	opConst8u      = 0x0e
	opConst8s      = 0x0f
	opConstu       = 0x10
	opConsts       = 0x11
	opPlus         = 0x22
	opPlusUconst   = 0x23
	opLit0         = 0x30
	opLit31        = opLit0 + 31
	opReg0         = 0x50
	opReg31        = opReg0 + 31
	opBreg0        = 0x70
	opBreg31       = opBreg0 + 31
	opRegx         = 0x90
	opFbreg        = 0x91
	opBregx        = 0x92
	opPiece        = 0x93
	opCallFrameCFA = 0x9c
	opImplicit     = 0x9e
	opStackValue   = 0x9f
	opEntryValue   = 0xa3

	opGNUEntryValue    = 0xf3
	opGNUParameterRef  = 0xfa // a parameter that callers in the unit do not pass
	opGNUVariableValue = 0xfd
)

const (
	maxPieces        = 8
	maxLocationLists = 1 << 16
)

// frameIsCFA reports whether DW_OP_fbreg of a function counts from the CFA.
func (f *File) frameIsCFA(e *dw.Entry) bool {
	b, _ := e.Val(dw.AttrFrameBase).([]byte)
	return len(b) == 1 && b[0] == opCallFrameCFA
}

// locate fills in where a parameter lies at the entry. An expression for the whole
// function that names a place in its frame does not hold there: the
// function has yet to store the value.
func (f *File) locate(u *unit, e *dw.Entry, pc uint64, cfa bool, p *Param) {
	field := e.AttrField(dw.AttrLocation)
	if field == nil {
		return
	}
	p.Described = true
	switch v := field.Val.(type) {
	case []byte:
		pieces, ok := f.pieces(v, cfa)
		if ok && !settled(pieces) {
			return
		}
		if ok {
			p.Entry = pieces
		}
	case int64, uint64:
		p.listed = true
		expr, found, err := f.listed(u, unsigned(v), field.Class == dw.ClassLocList, pc)
		if err != nil || !found {
			return
		}
		pieces, ok := f.pieces(expr, cfa)
		if !ok {
			p.Gone = len(expr) > 0 && (expr[0] == opGNUParameterRef || expr[0] == opGNUVariableValue)
			return
		}
		p.Entry = pieces
		if len(pieces) == 0 {
			p.Gone = true
		}
	}
}

// settled reports whether a location that holds for a whole function holds at
// its first instruction: registers and constants, and what the caller stored.
func settled(pieces []Piece) bool {
	for _, p := range pieces {
		if p.Kind == PieceCFA && p.Off < 0 || p.Kind == PieceMem || p.Kind == PieceNone {
			return false
		}
	}
	return len(pieces) > 0
}

// pieces evaluates an expression as of the first instruction of a function. It
// reports false where it does not understand it. An empty expression, which says
// that the value is gone, gives no pieces.
func (f *File) pieces(b []byte, cfa bool) (out []Piece, ok bool) {
	c := &cursor{b: b, order: f.order}
	cur, have, memory := Piece{}, false, false
	base := func(reg int, off int64) {
		reg = f.register(reg)
		cur, have, memory = Piece{Kind: PieceMem, Reg: reg, Off: off}, true, true
		if reg == RSP {
			cur = Piece{Kind: PieceCFA, Off: off - f.wordSize()}
		}
	}
	constant := func(v int64) {
		if have && memory && c.off < len(b) && b[c.off] == opPlus {
			c.off++
			cur.Off += v
			return
		}
		cur, have, memory = Piece{Kind: PieceConst, Off: v}, true, true
	}
	for c.off < len(b) && c.err == nil {
		switch op := c.u8(); {
		case op >= opReg0 && op <= opReg31:
			cur, have = Piece{Kind: PieceReg, Reg: f.register(int(op - opReg0))}, true
		case op == opRegx:
			cur, have = Piece{Kind: PieceReg, Reg: f.register(int(c.uleb() & 0xffff))}, true
		case op >= opBreg0 && op <= opBreg31:
			base(int(op-opBreg0), c.sleb())
		case op == opBregx:
			reg := int(c.uleb() & 0xffff)
			base(reg, c.sleb())
		case op == opFbreg:
			if off := c.sleb(); cfa {
				cur, have, memory = Piece{Kind: PieceCFA, Off: off}, true, true
			} else {
				return nil, false
			}
		case op == opCallFrameCFA:
			cur, have, memory = Piece{Kind: PieceCFA}, true, true
		case op == opPlusUconst:
			cur.Off += int64(c.uleb())
		case op >= opLit0 && op <= opLit31:
			constant(int64(op - opLit0))
		case op == opConst1u:
			constant(int64(c.u8()))
		case op == opConst1s:
			constant(int64(int8(c.u8())))
		case op == opConst2u:
			constant(int64(c.u16()))
		case op == opConst2s:
			constant(int64(int16(c.u16())))
		case op == opConst4u:
			constant(int64(c.u32()))
		case op == opConst4s:
			constant(int64(int32(c.u32())))
		case op == opConst8u, op == opConst8s:
			constant(int64(c.u64()))
		case op == opConstu:
			constant(int64(c.uleb()))
		case op == opConsts:
			constant(c.sleb())
		case op == opImplicit:
			v := c.bytes(int(c.uleb() & 0xffff))
			if len(v) > 8 {
				return nil, false
			}
			var n uint64
			for i := len(v) - 1; i >= 0; i-- {
				n = n<<8 | uint64(v[i])
			}
			cur, have = Piece{Kind: PieceConst, Off: int64(n)}, true
		case op == opEntryValue, op == opGNUEntryValue:
			// The value a register had at the entry, which is now.
			inner, ok := f.pieces(c.bytes(int(c.uleb()&0xffff)), cfa)
			if !ok || len(inner) != 1 || inner[0].Kind != PieceReg || c.off >= len(b) || c.u8() != opStackValue {
				return nil, false
			}
			cur, have = inner[0], true
		case op == opStackValue:
			switch {
			case cur.Kind == PieceMem && cur.Off == 0: // the address is the value
				cur.Kind = PieceReg
			case cur.Kind != PieceConst:
				return nil, false
			}
			memory = false
		case op == opPiece:
			cur.Size = int64(c.uleb() & 0xffffff)
			out = append(out, cur)
			if len(out) > maxPieces {
				return nil, false
			}
			cur, have, memory = Piece{}, false, false
		default:
			return nil, false
		}
	}
	if c.err != nil {
		return nil, false
	}
	if have {
		if cur.Kind == PieceConst && memory {
			return nil, false // a variable at a fixed address
		}
		out = append(out, cur)
	}
	return out, true
}

// register is the number on x86-64 of a register of the file's machine.
func (f *File) register(n int) int {
	if f.wordSize() == 8 {
		return n
	}
	general := [...]int{RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI}
	const xmm = 21
	switch {
	case n < len(general):
		return general[n]
	case n >= xmm && n < xmm+8:
		return XMM0 + n - xmm
	}
	return XMM0 + 16 + n // none that has a name here
}

func (f *File) wordSize() int64 {
	if f.ELF.Class == 1 {
		return 4
	}
	return 8
}

// listed looks pc up in a location list.
func (f *File) listed(u *unit, at uint64, list bool, pc uint64) (expr []byte, found bool, err error) {
	if u.version < 5 {
		return f.listed4(u, at, pc)
	}
	if list { // DW_FORM_loclistx: a number in a table
		size := uint64(4)
		if u.dwarf64 {
			size = 8
		}
		c := &cursor{b: f.sect["loclists"], order: f.order, off: int(u.locBase + at*size)}
		at = u.locBase + c.offset(u.dwarf64)
		if c.err != nil {
			return nil, false, c.err
		}
	}
	c := &cursor{b: f.sect["loclists"], order: f.order, off: int(at)}
	word := int(f.wordSize())
	base := u.low
	var dflt []byte
	for range maxLocationLists {
		var lo, hi uint64
		kind := c.u8()
		switch kind {
		case 0: // end of list
			return dflt, dflt != nil, c.err
		case 1: // base_addressx
			base = f.addr(u, c.uleb())
			continue
		case 2: // startx_endx
			lo, hi = f.addr(u, c.uleb()), f.addr(u, c.uleb())
		case 3: // startx_length
			lo = f.addr(u, c.uleb())
			hi = lo + c.uleb()
		case 4: // offset_pair
			lo, hi = base+c.uleb(), base+c.uleb()
		case 5: // default_location
		case 6: // base_address
			base = c.sized(word)
			continue
		case 7: // start_end
			lo, hi = c.sized(word), c.sized(word)
		case 8: // start_length
			lo = c.sized(word)
			hi = lo + c.uleb()
		case 9: // GNU_view_pair
			c.uleb()
			c.uleb()
			continue
		default:
			return nil, false, errShort
		}
		expr := c.bytes(int(min(c.uleb(), 1<<20)))
		if c.err != nil {
			return nil, false, c.err
		}
		if kind == 5 {
			dflt = expr
		} else if pc >= lo && pc < hi {
			return expr, true, nil
		}
	}
	return nil, false, errShort
}

// listed4 reads .debug_loc, as versions before 5 have it.
func (f *File) listed4(u *unit, at, pc uint64) (expr []byte, found bool, err error) {
	c := &cursor{b: f.sect["loc"], order: f.order, off: int(at)}
	word := int(f.wordSize())
	most := ^uint64(0) >> (64 - 8*word)
	base := u.low
	for range maxLocationLists {
		lo, hi := c.sized(word), c.sized(word)
		switch {
		case c.err != nil:
			return nil, false, c.err
		case lo == 0 && hi == 0:
			return nil, false, nil
		case lo == most:
			base = hi
			continue
		}
		expr := c.bytes(int(c.u16()))
		if pc >= base+lo && pc < base+hi {
			return expr, c.err == nil, c.err
		}
	}
	return nil, false, errShort
}

// addr is entry i of the unit's table of addresses.
func (f *File) addr(u *unit, i uint64) uint64 {
	word := f.wordSize()
	if i > 1<<32 {
		return 0
	}
	c := &cursor{b: f.sect["addr"], order: f.order, off: int(u.addrBase + i*uint64(word))}
	return c.sized(int(word))
}
