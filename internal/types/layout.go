package types

// Layout places fields as gcc does for x86-64 (System V ABI 3.1.2) and gives
// the size and alignment of the whole. It sets Off and BitOff of each field.
// A field with Bits > 0 is a bit-field of its Type; one with no name, an
// integer type and Bits == 0 is C's zero-width bit-field, which ends a storage
// unit. Unnamed bit-fields take their place and are left out of the result.
func Layout(fields []Field, union bool) (placed []Field, size, align int64) {
	var bit, end int64 // next free bit; end of the furthest field
	align = 1
	for _, f := range fields {
		fa := f.Type.Align()
		unit := f.Type.Size() * 8
		if union {
			bit = 0
		}
		if f.Name == "" && IsInteger(f.Type) && f.Bits == 0 {
			bit = roundUp(bit, unit)
			end = max(end, bit)
			continue
		}
		if f.Bits > 0 {
			// A bit-field does not straddle the storage unit of its type.
			if unit > 0 && bit/unit != (bit+f.Bits-1)/unit {
				bit = roundUp(bit, fa*8)
			}
			f.BitOff, f.Off = bit, bit/8
			bit += f.Bits
			end = max(end, bit)
			if f.Name == "" {
				continue // no effect on alignment either
			}
		} else {
			bit = roundUp(bit, fa*8)
			f.BitOff, f.Off = bit, bit/8
			bit += unit
			end = max(end, bit)
		}
		align = max(align, fa)
		placed = append(placed, f)
	}
	return placed, roundUp((end+7)/8, align), align
}

func roundUp(n, to int64) int64 {
	if to <= 1 {
		return n
	}
	return (n + to - 1) / to * to
}

// NewStruct lays out fields as a struct or union declared in scope.
func NewStruct(scope, tag string, union bool, fields []Field) *Struct {
	s := &Struct{Union: union, Tag: tag, Scope: scope}
	s.Define(fields)
	return s
}

// Define completes a forward declaration in place.
func (t *Struct) Define(fields []Field) {
	t.Fields, t.Bytes, t.AlignB = Layout(fields, t.Union)
	t.Incomplete = false
}

// FindMember looks name up in the struct or union t, through anonymous
// members. off is the offset in bits from the start of t; f is the field as
// its own struct has it.
func FindMember(t Type, name string) (off int64, f Field, ok bool) {
	s, isStruct := Underlying(t).(*Struct)
	if !isStruct || name == "" {
		return 0, Field{}, false
	}
	budget := 1 << 16
	return s.find(name, 0, &budget)
}

func (t *Struct) find(name string, depth int, budget *int) (int64, Field, bool) {
	members := t.Members()
	for _, f := range members {
		if f.Name == name {
			return f.bitOff(), f, true
		}
	}
	if *budget -= len(members); *budget < 0 || depth > maxDepth {
		return 0, Field{}, false
	}
	for _, f := range members {
		if f.Name != "" {
			continue
		}
		inner, ok := Underlying(f.Type).(*Struct)
		if !ok {
			continue
		}
		if off, g, ok := inner.find(name, depth+1, budget); ok {
			return f.bitOff() + off, g, true
		}
	}
	return 0, Field{}, false
}

func (f Field) bitOff() int64 {
	if f.Bits > 0 {
		return f.BitOff
	}
	return f.Off * 8
}
