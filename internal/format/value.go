package format

import (
	"encoding/binary"
	"strconv"
	"strings"

	"godtrace/internal/agg"
)

// append prints a place the way frames and %a do: module`name+0xoffset,
// module`0xaddress where only the module is known, else 0xaddress.
func (p Place) append(b []byte, addr uint64) []byte {
	if p.Module != "" {
		b = append(b, p.Module...)
		b = append(b, '`')
	}
	if p.Name == "" {
		b = append(b, "0x"...)
		return strconv.AppendUint(b, addr, 16)
	}
	b = append(b, p.Name...)
	if p.Offset != 0 {
		b = append(b, "+0x"...)
		b = strconv.AppendUint(b, p.Offset, 16)
	}
	return b
}

// moduleText is what mod() and umod() print.
func moduleText(v Value, o *Options) []byte {
	p := o.Place(v)
	if p.Module == "" {
		return Place{}.append(nil, v.Int)
	}
	return []byte(p.Module)
}

// symbolText is what sym(), usym() and uaddr() print. The first two name the
// function without an offset.
func symbolText(v Value, o *Options) []byte {
	if v.Kind != Sym && o.NoResolve {
		return o.unresolved(v.PID, v.Int)
	}
	p := o.Place(v)
	if v.Kind != UAddr {
		p.Offset = 0
	}
	return p.append(nil, v.Int)
}

// AppendStack prints a stack: a newline, then one line for each frame.
func AppendStack(b []byte, v Value, o *Options) []byte {
	o = o.orDefault()
	return appendStack(b, v, o.stackIndent(), spec{}, o)
}

func appendStack(b []byte, v Value, indent int, s spec, o *Options) []byte {
	b = append(b, '\n')
	for i, pc := range v.PCs {
		if pc == 0 {
			break
		}
		note := ""
		if i < len(v.Notes) {
			note = v.Notes[i]
		}
		b = repeat(b, ' ', indent)
		b = s.string(b, frame(v, i, note, o))
		b = append(b, '\n')
		if note != "" && note[0] == '@' {
			// An annotation goes below its frame.
			b = repeat(b, ' ', indent)
			b = s.string(b, []byte("  [ "+note[1:]+" ]"))
			b = append(b, '\n')
		}
	}
	return b
}

// unresolved is a user address as a place in a file.
func (o *Options) unresolved(pid int32, addr uint64) []byte {
	p := o.userPlace(pid, addr)
	if p.Module == "" {
		return Place{}.append(nil, addr)
	}
	return strconv.AppendUint(append([]byte(p.Module), ":0x"...), p.Offset, 16)
}

// frame prints frame i. A name supplied by the program stands in for a function
// that is otherwise unknown.
func frame(v Value, i int, note string, o *Options) []byte {
	pc := v.PCs[i]
	if v.Kind == Stack {
		return o.kernelPlace(pc).append(nil, pc)
	}
	if pc == StackCut {
		return []byte(CutMark)
	}
	if o.NoResolve {
		return o.unresolved(v.PID, pc)
	}
	p := o.Frame(v, i)
	if p.Name == "" && note != "" && note[0] != '@' {
		return []byte(note)
	}
	return p.append(nil, pc)
}

// Frame names frame i of a stack. Where a call is its function's last
// instruction, as of functions that do not return, the address behind it is in
// the next function or in none: it is named by the call then.
func (o *Options) Frame(v Value, i int) Place {
	o = o.orDefault()
	pc := v.PCs[i]
	if v.Kind == Stack {
		return o.kernelPlace(pc)
	}
	p := o.userPlace(v.PID, pc)
	if i == 0 || p.Name != "" && p.Offset != 0 || fromSignal(p.Name) || fromSignal(o.userPlace(v.PID, v.PCs[i-1]).Name) {
		return p
	}
	if call := o.userPlace(v.PID, pc-1); call.Name != "" {
		call.Offset++
		return call
	}
	return p
}

// fromSignal reports whether a function is the way back from a signal handler:
// neither it nor what was interrupted is reached by returning from a call.
func fromSignal(name string) bool {
	return name == "__restore_rt" || name == "__kernel_rt_sigreturn" || strings.HasPrefix(name, "runtime.sigreturn")
}

// widths of integers printed without a format, by size; trace() of unsigned
// 64-bit numbers has one more.
var traceWidths = [9]int{1: 3, 2: 5, 4: 10, 8: 19}

// wholeString is s with the zeroes that fill it up to the size of a string.
func (o *Options) wholeString(s []byte) []byte {
	if len(s) >= o.StrSize {
		return s
	}
	return append(s[:len(s):len(s)], make([]byte, o.StrSize-len(s))...)
}

// Trace prints a value as trace() does.
func Trace(b []byte, v Value, o *Options) []byte {
	o = o.orDefault()
	switch v.Kind {
	case Signed, Unsigned:
		if o.RawBytes {
			return DumpBytes(b, v.raw())
		}
		s := spec{out: 'd'}
		if !o.Quiet {
			b = append(b, ' ')
			s.width = traceWidths[min(v.Size, 8)]
			if v.Kind == Unsigned && v.Size == 8 {
				s.width++
			}
		}
		b, _ = s.value(b, &piece{conv: conversions["d"]}, &v, o)
		return b
	case String:
		if o.RawBytes {
			return DumpBytes(b, o.wholeString(v.Bytes))
		}
		if o.Quiet {
			return append(b, cstring(v.Bytes)...)
		}
		return leftText(b, cstring(v.Bytes), 33)
	case Bytes:
		if t, ok := printable(v.Bytes); ok && !o.RawBytes {
			if o.Quiet {
				return append(b, t...)
			}
			return leftText(b, t, 33)
		}
	case Float:
		s := spec{out: 'g'}
		if !o.Quiet {
			b = append(b, ' ')
			s.width = 19
		}
		return s.float(b, v.Float)
	}
	return appendOther(b, v, o)
}

// appendOther prints the kinds that look alike everywhere.
func appendOther(b []byte, v Value, o *Options) []byte {
	switch v.Kind {
	case Stack, UStack:
		return AppendStack(b, v, o)
	case Sym, USym, UAddr:
		return leftText(b, symbolText(v, o), 50)
	case Mod, UMod:
		return leftText(b, moduleText(v, o), 50)
	}
	return DumpBytes(b, v.Bytes)
}

// raw is an integer as it lay in memory: little endian, as on all machines
// that are traced.
func (v Value) raw() []byte {
	return binary.LittleEndian.AppendUint64(nil, v.Int)[:min(v.Size, 8)]
}

// leftText is the shape of strings printed without a format.
func leftText(b, t []byte, width int) []byte {
	b = append(b, ' ', ' ')
	b = append(b, t...)
	return repeat(b, ' ', width-len(t))
}

// keyWidths are narrower than those of trace() for 4 and 8 bytes.
var keyWidths = [9]int{1: 3, 2: 5, 4: 8, 8: 16}

// appendKey prints a part of an aggregation's key as printa() does without a
// format. Packed keys stand before one-line charts: strings are cut down to 16
// columns and right-aligned.
func appendKey(b []byte, p agg.Part, packed bool, o *Options) []byte {
	switch p.Kind {
	case agg.Signed, agg.Unsigned:
		b = append(b, ' ')
		s := spec{out: 'd', width: keyWidths[min(p.Size, 8)]}
		v := KeyPart(p)
		// DTrace prints small keys unsigned and large ones signed, whatever
		// their type.
		v.Kind = Unsigned
		if p.Size >= 4 {
			v.Kind = Signed
		}
		b, _ = s.value(b, &piece{conv: conversions["d"]}, &v, o)
		return b
	case agg.String:
		if o.RawBytes {
			return DumpBytes(b, o.wholeString([]byte(p.Str)))
		}
		return keyText(b, []byte(p.Str), packed)
	case agg.Bytes:
		if t, ok := printable([]byte(p.Str)); ok && !o.RawBytes {
			return keyText(b, t, packed)
		}
	}
	return appendOther(b, KeyPart(p), o)
}

func keyText(b, t []byte, packed bool) []byte {
	if packed {
		return spec{width: 16}.string(append(b, ' '), t)
	}
	return leftText(b, t, 50)
}

// keyWidth is the width of a packed key part.
func keyWidth(p agg.Part) int {
	if p.Kind == agg.Signed || p.Kind == agg.Unsigned {
		return keyWidths[min(p.Size, 8)] + 1
	}
	return 16 + 1
}

// printable reports whether memory looks like a string, and which: printing
// characters and white space, then nothing but NULs.
func printable(m []byte) ([]byte, bool) {
	t := cstring(m)
	for _, c := range m[len(t):] {
		if c != 0 {
			return nil, false
		}
	}
	for _, c := range t {
		if (c < ' ' || c > '~') && (c < '\a' || c > '\r') {
			return nil, false
		}
	}
	return t, len(t) > 0
}

// DumpBytes prints memory in hexadecimal and as text: tracemem(), and trace()
// of arrays and structs. Nothing at all for no bytes.
func DumpBytes(b, m []byte) []byte {
	if len(m) == 0 {
		return b
	}
	const hex = "0123456789abcdef"
	b = append(b, "\n           "...)
	for i := range 16 {
		b = append(b, ' ', ' ', hex[i])
	}
	b = append(b, "  0123456789abcdef\n"...)
	for i := 0; i < len(m); i += 16 {
		row := m[i:min(i+16, len(m))]
		b = repeat(b, ' ', 5)
		b = spec{out: 'x', width: 5}.integer(b, uint64(i), false, false)
		b = append(b, ':')
		for _, c := range row {
			b = append(b, ' ', hex[c>>4], hex[c&15])
		}
		b = repeat(b, ' ', 3*(16-len(row))+2)
		for _, c := range row {
			if c < ' ' || c > '~' {
				c = '.'
			}
			b = append(b, c)
		}
		b = append(b, '\n')
	}
	return b
}

// Rows prints the rows of one printa() without a format, or of aggregations
// printed when tracing ends: the key, the values, a newline. The newline that
// goes before the rows of either is the caller's.
func Rows(b []byte, rows []agg.Row, o *Options) []byte {
	o = o.orDefault()
	chart := agg.NewChart(rows, o.Agg)
	if chart != nil {
		width := 0
		for _, p := range rows[0].Key {
			width += keyWidth(p)
		}
		b = chart.Header(b, width)
	}
	for _, r := range rows {
		for _, p := range r.Key {
			b = appendKey(b, p, chart != nil, o)
		}
		if chart != nil {
			b = chart.Row(b, r.Data[0])
			continue
		}
		for _, d := range r.Data {
			b = d.Append(b, o.Agg)
		}
		b = append(b, '\n')
	}
	return b
}
