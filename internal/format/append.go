package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"godtrace/internal/agg"
)

// ErrMismatch says that values do not fit the format they came with: a record
// that was not made for it.
var ErrMismatch = errors.New("format: values do not match the format")

// Append renders the format with one value for each argument.
func (f *Format) Append(b []byte, values []Value, o *Options) ([]byte, error) {
	b, rest, err := f.render(b, values, nil, o.orDefault())
	if err == nil && len(rest) != 0 {
		err = ErrMismatch
	}
	return b, err
}

// AppendRow renders the format with the key and the values of a row of one or
// several aggregations: what printa() does for each row. Each %@ takes the
// next aggregation, and the last one again when there are no more. Key parts
// beyond the conversions are left out.
func (f *Format) AppendRow(b []byte, row agg.Row, o *Options) ([]byte, error) {
	var few [8]Value
	values := few[:0]
	for _, p := range row.Key {
		values = append(values, KeyPart(p))
	}
	b, _, err := f.render(b, values, row.Data, o.orDefault())
	return b, err
}

// render renders the format, and returns the values that it had no use for.
func (f *Format) render(b []byte, values []Value, data []agg.Datum, o *Options) ([]byte, []Value, error) {
	take := func() (*Value, error) {
		if len(values) == 0 {
			return nil, ErrMismatch
		}
		v := &values[0]
		values = values[1:]
		return v, nil
	}
	takeInt := func() (int, error) {
		v, err := take()
		if err != nil || v.Kind != Signed && v.Kind != Unsigned {
			return 0, ErrMismatch
		}
		return int(int32(v.Int)), nil
	}
	for i := range f.pieces {
		p := &f.pieces[i]
		b = append(b, p.text...)
		if p.conv == nil {
			continue
		}
		s := spec{flags: p.flags, width: p.width, prec: p.prec, out: p.conv.out, grouping: o.Grouping}
		var err error
		if p.flags&dynWidth != 0 {
			if s.width, err = takeInt(); err != nil {
				return b, values, err
			}
			s.dynamic = s.width
			if s.width < 0 {
				s.flags |= left
				s.width = -s.width
			}
		}
		if p.flags&dynPrec != 0 {
			if s.prec, err = takeInt(); err != nil {
				return b, values, err
			}
		}
		s.width, s.prec = min(s.width, maxWidth), min(max(s.prec, 0), maxWidth)

		switch {
		case p.conv.verb == percent:
			b = append(b, '%')
			continue
		case p.agg:
			if len(data) == 0 {
				return b, values, ErrMismatch
			}
			b, err = s.datum(b, p.conv, data[0], o)
			if len(data) > 1 {
				data = data[1:]
			}
		default:
			var v *Value
			if v, err = take(); err == nil {
				b, err = s.value(b, p, v, o)
			}
		}
		if err != nil {
			return b, values, err
		}
	}
	return b, values, nil
}

// spec is a conversion with its width and precision known.
type spec struct {
	flags   flags
	width   int // 0: none
	prec    int // 0: none
	dynamic int // the width given as *, with its sign; 0 for none
	out     byte

	grouping *Grouping
}

// datum renders an aggregation's value: drawn if it is a histogram, whatever
// the conversion; else as a 64-bit number.
func (s spec) datum(b []byte, c *conversion, d agg.Datum, o *Options) ([]byte, error) {
	if d.Spec.Func.IsHistogram() {
		return d.Draw(b, o.Agg), nil
	}
	v := Value{Kind: Signed, Size: 8, Int: uint64(d.Value())}
	if !d.Signed() {
		v.Kind = Unsigned
	}
	return s.value(b, &piece{conv: c}, &v, o)
}

// value renders a value by the conversion of a piece, if they go together.
func (s *spec) value(b []byte, p *piece, v *Value, o *Options) ([]byte, error) {
	// Modules have no number or offset to show, whatever the conversion.
	switch v.Kind {
	case Mod, UMod:
		return s.string(b, moduleText(*v, o)), nil
	}
	isInt := v.Kind == Signed || v.Kind == Unsigned
	switch p.conv.verb {
	case bySign, signed, unsigned, char, escapedOne, date, date822, port:
		if !isInt {
			return b, ErrMismatch
		}
	case text, wideText, escaped, host:
		if v.Kind != String && v.Kind != Bytes {
			return b, ErrMismatch
		}
	}
	switch p.conv.verb {
	case bySign, signed, unsigned:
		n := v.Int
		if cut := 64 - 8*uint(min(v.Size, 8)); cut < 64 {
			n = uint64(int64(n<<cut) >> cut)
			if p.conv.verb == unsigned || p.conv.verb == bySign && v.Kind == Unsigned {
				n = n << cut >> cut
			}
		}
		signs := s.out == 'd' && (p.conv.verb == signed || v.Kind == Signed)
		neg := signs && int64(n) < 0
		if neg {
			n = -n
		}
		return s.integer(b, n, neg, signs), nil
	case char:
		s.prec = 0
		if len(p.conv.name) == 1 {
			return s.string(b, []byte{byte(v.Int)}), nil
		}
		return s.string(b, utf8.AppendRune(nil, rune(v.Int))), nil
	case float:
		if v.Kind != Float {
			return b, ErrMismatch
		}
		return s.float(b, v.Float), nil
	case text:
		return s.string(b, cstring(v.Bytes)), nil
	case wideText:
		return s.string(b, wide(v.Bytes)), nil
	case escaped:
		t := v.Bytes
		if v.Kind == String {
			// A string ends with its NUL, which the escapes show.
			t = append(slices.Clip(cstring(t)), 0)
		}
		return s.string(b, escape(t)), nil
	case escapedOne:
		return s.string(b, escape([]byte{byte(v.Int)})), nil
	case kernelAddr:
		if !isInt && v.Kind != Sym {
			return b, ErrMismatch
		}
		return s.string(b, o.kernelPlace(v.Int).append(nil, v.Int)), nil
	case userAddr:
		pid := v.PID
		switch v.Kind {
		case Signed, Unsigned:
			pid = o.Target
		case USym, UAddr:
		default:
			return b, ErrMismatch
		}
		if o.NoResolve {
			return s.string(b, o.unresolved(pid, v.Int)), nil
		}
		return s.string(b, o.userPlace(pid, v.Int).append(nil, v.Int)), nil
	case frames:
		if v.Kind != Stack && v.Kind != UStack {
			return b, ErrMismatch
		}
		return s.stack(b, *v, p.flags, o), nil
	case date:
		return s.string(b, wallTime(v.Int, o).AppendFormat(nil, "2006 Jan _2 15:04:05")), nil
	case date822:
		t := wallTime(v.Int, o)
		year, _ := t.ISOWeek()
		return s.string(b, fmt.Appendf(nil, "%s %d %s", t.Format("Mon, 02 Jan"), year, t.Format("15:04:05 MST"))), nil
	case host:
		t := cstring(v.Bytes)
		if o.Resolver != nil {
			if name := o.Resolver.Host(string(t)); name != "" {
				t = []byte(name)
			}
		}
		return s.string(b, t), nil
	case port:
		n := uint16(v.Int)
		if o.Resolver != nil {
			if name := o.Resolver.Service(n); name != "" {
				return s.string(b, []byte(name)), nil
			}
		}
		return s.string(b, strconv.AppendUint(nil, uint64(n), 10)), nil
	}
	return b, ErrMismatch
}

func wallTime(ns uint64, o *Options) time.Time {
	return time.Unix(int64(ns)/1e9, 0).In(o.location())
}

// stack renders %k: frames without indentation, each as wide as asked; with
// the flag - the width is the indentation instead.
func (s spec) stack(b []byte, v Value, given flags, o *Options) []byte {
	indent := 0
	switch {
	case s.dynamic < 0:
		indent = -s.dynamic
	case given&left != 0:
		indent = s.width
	}
	if given&left != 0 {
		s.width = 0
	}
	return appendStack(b, v, indent, s, o)
}

// pad appends what fill appends, padded with blanks to the width.
func (s spec) pad(b []byte, length int, fill func([]byte) []byte) []byte {
	n := s.width - length
	if s.flags&left == 0 {
		b = repeat(b, ' ', n)
	}
	b = fill(b)
	if s.flags&left != 0 {
		b = repeat(b, ' ', n)
	}
	return b
}

func (s spec) string(b, t []byte) []byte {
	if s.prec == 0 && s.width <= len(t) {
		return append(b, t...)
	}
	if s.prec > 0 && len(t) > s.prec {
		t = t[:s.prec]
	}
	return s.pad(b, len(t), func(b []byte) []byte { return append(b, t...) })
}

// integer renders a magnitude as C does for the letter out. signs says whether
// the conversion is a signed one, to which the flags + and blank apply.
func (s spec) integer(b []byte, n uint64, neg, signs bool) []byte {
	var buf [24]byte
	digits := buf[:0]
	prefix := ""
	switch s.out {
	case 'o':
		digits = strconv.AppendUint(digits, n, 8)
		if s.flags&alt != 0 && n != 0 && s.prec <= len(digits) {
			prefix = "0"
		}
	case 'x', 'X':
		digits = strconv.AppendUint(digits, n, 16)
		if s.out == 'X' {
			digits = bytes.ToUpper(digits)
		}
		if s.flags&alt != 0 && n != 0 {
			prefix = "0" + string(s.out)
		}
	default:
		digits = strconv.AppendUint(digits, n, 10)
		if s.flags&group != 0 {
			digits = s.grouping.split(bytes.Clone(digits)) // digits stays on the stack otherwise
		}
	}
	switch {
	case neg:
		prefix = "-"
	case signs && s.flags&plus != 0:
		prefix = "+"
	case signs && s.flags&space != 0:
		prefix = " "
	}
	zeros := max(s.prec-len(digits), 0)
	if s.prec == 0 && s.flags&zero != 0 && s.flags&left == 0 {
		zeros = max(s.width-len(digits)-len(prefix), 0)
	}
	return s.pad(b, len(prefix)+zeros+len(digits), func(b []byte) []byte {
		b = append(b, prefix...)
		b = repeat(b, '0', zeros)
		return append(b, digits...)
	})
}

// float renders as C does; the flags are those of fmt.
func (s spec) float(b []byte, f float64) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		t := strconv.FormatFloat(math.Abs(f), 'f', -1, 64)[1:]
		if math.IsNaN(f) {
			t = "nan"
		}
		lower := []byte(t)
		if s.out == 'E' || s.out == 'G' {
			lower = bytes.ToUpper(lower)
		} else {
			lower = bytes.ToLower(lower)
		}
		switch {
		case math.Signbit(f):
			lower = append([]byte{'-'}, lower...)
		case s.flags&plus != 0:
			lower = append([]byte{'+'}, lower...)
		case s.flags&space != 0:
			lower = append([]byte{' '}, lower...)
		}
		s.prec = 0
		return s.string(b, lower)
	}
	prec := 6
	if s.prec > 0 {
		prec = s.prec
	}
	format := []byte{'%'}
	for _, c := range []struct {
		flag flags
		text byte
	}{{alt, '#'}, {zero, '0'}, {left, '-'}, {plus, '+'}, {space, ' '}} {
		if s.flags&c.flag != 0 {
			format = append(format, c.text)
		}
	}
	format = append(format, '*', '.', '*', s.out)
	const most = 1e6 // for package fmt
	return fmt.Appendf(b, string(format), min(s.width, most), min(prec, most), f)
}

// cstring is t up to its first NUL.
func cstring(t []byte) []byte {
	if i := bytes.IndexByte(t, 0); i >= 0 {
		return t[:i]
	}
	return t
}

// wide turns an array of 32-bit characters, up to a zero, into UTF-8.
func wide(t []byte) []byte {
	var out []byte
	for ; len(t) >= 4; t = t[4:] {
		r := binary.LittleEndian.Uint32(t)
		if r == 0 {
			break
		}
		out = utf8.AppendRune(out, rune(r))
	}
	return out
}

// escape writes what does not print as C's escapes, as far as the first NUL,
// which it shows too.
func escape(t []byte) []byte {
	var out []byte
	for _, c := range t {
		switch c {
		case 0:
			return append(out, `\0`...)
		case '\a', '\b', '\f', '\n', '\r', '\t', '\v':
			out = append(out, '\\', "abtnvfr"[c-'\a'])
		case '"', '\\':
			out = append(out, '\\', c)
		default:
			if c < ' ' || c > '~' {
				out = append(out, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
			} else {
				out = append(out, c)
			}
		}
	}
	return out
}

func repeat(b []byte, c byte, n int) []byte {
	for ; n > 0; n-- {
		b = append(b, c)
	}
	return b
}
