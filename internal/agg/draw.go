package agg

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// Encoding is the option encoding.
type Encoding uint8

// Encodings. Unset draws bars with @ and packed lines with block characters.
const (
	Unset Encoding = iota
	ASCII
	UTF8
)

// Style is how aggregations are drawn: DTrace's options agghist, aggpack,
// aggzoom and encoding. They apply to default output, not to formats.
type Style struct {
	Hist     bool // agghist: values of all keys drawn as one histogram
	Pack     bool // aggpack: each quantize() or lquantize() is one line
	Zoom     bool // aggzoom: bars relative to the largest bucket
	Encoding Encoding
}

const (
	barWidth = 40
	zoomMax  = 0.95 // height of the largest bar with aggzoom
)

// extent is what bars are measured against: the sum of the absolute values
// drawn together (or, zoomed, the largest of them), and the signs among them.
type extent struct {
	total    float64
	pos, neg bool
}

func (e *extent) add(v int64, zoom bool) {
	e.pos = e.pos || v > 0
	e.neg = e.neg || v < 0
	if f := math.Abs(float64(v)); !zoom {
		e.total += f
	} else {
		e.total = max(e.total, f/zoomMax)
	}
}

// Append prints a value the default way: a blank and the number 16 wide, or
// a histogram.
func (d Datum) Append(b []byte, s Style) []byte {
	if d.Spec.Func.IsHistogram() {
		b = d.Draw(b, s)
	} else {
		b = append(b, ' ')
		if d.Spec.Func == Stddev {
			b = pad(b, strconv.FormatUint(uint64(d.Value()), 10), 16)
		} else {
			b = pad(b, strconv.FormatInt(d.Value(), 10), 16)
		}
	}
	for cpu, words := range d.PerCPU {
		b = append(b, "\n    [CPU "...)
		b = strconv.AppendInt(b, int64(cpu), 10)
		b = append(b, ']')
		b = Datum{Spec: d.Spec, Words: words, Normal: d.Normal}.Append(b, s)
	}
	return b
}

// Draw prints a histogram: a newline, the heading and one line for each bucket
// from the one before the first that holds something to the one after the last.
func (d Datum) Draw(b []byte, s Style) []byte {
	words := d.Words
	if words == nil {
		words = make([]int64, d.Spec.Words())
	}
	first, last := d.drawn(words)

	var e extent
	for _, c := range words[first : last+1] {
		e.add(c, s.Zoom)
	}
	b = header(b, "value", 16)
	for i := first; i <= last; i++ {
		label, ok := d.Spec.label(i, first, last)
		if !ok {
			continue
		}
		b = pad(b, label, 16)
		b = append(b, ' ')
		b = e.bar(b, words[i], d.normal(), s)
	}
	return b
}

// drawn is the range of words that are drawn: one row on each side of those
// that are not 0.
func (d Datum) drawn(words []int64) (first, last int) {
	first, last = span(words)
	empty := first > last
	switch {
	case !empty:
	case d.Spec.Func == Quantize:
		first, last = QuantizeZero, QuantizeZero
	case d.Spec.Func == Lquantize:
		first, last = 0, 1
	default:
		first = d.Spec.half() + 2
		last = first
	}
	return max(first-1, 0), min(last+1, len(words)-1)
}

// span is the range of words that are not 0; first > last when there is none.
func span(words []int64) (first, last int) {
	last = len(words) - 1
	for first <= last && words[first] == 0 {
		first++
	}
	for last > first && words[last] == 0 {
		last--
	}
	return first, last
}

// header is the line above a histogram.
func header(b []byte, what string, width int) []byte {
	b = append(b, '\n')
	b = pad(b, what, width)
	return append(b, "  ------------- Distribution ------------- count    \n"...)
}

// label names bucket i of a histogram drawn from first to last. It is false
// for buckets that cannot hold a value and have no row.
func (s Spec) label(i, first, last int) (string, bool) {
	switch s.Func {
	case Quantize:
		return strconv.FormatInt(QuantizeValue(i), 10), true
	case Lquantize:
		switch i {
		case 0:
			return "< " + strconv.FormatInt(s.Base, 10), true
		case s.Levels() + 1:
			return ">= " + strconv.FormatInt(s.Base+int64(s.Levels())*s.Step, 10), true
		}
		return strconv.FormatInt(s.Base+int64(i-1)*s.Step, 10), true
	}

	zero := s.half() + 1
	if i == zero {
		scale, _ := power(s.Factor, s.Low)
		text := strconv.FormatUint(scale, 10)
		switch {
		case scale == 1:
			return "0", true
		case first >= zero:
			return "< " + text, true
		}
		return "abs() < " + text, true
	}
	// The outermost rows take the name of the next bucket outwards when they
	// fall on one that cannot hold a value.
	at := i
	v, ok := s.lower(max(at-zero, zero-at))
	for out := 0; !ok && (i == first || i == last) && out < int(s.Steps/s.Factor); out++ {
		if i == first {
			at--
		} else {
			at++
		}
		if at == zero {
			return s.label(zero, first, last)
		}
		v, ok = s.lower(max(at-zero, zero-at))
	}
	if !ok {
		return "", false
	}
	text := strconv.FormatUint(v, 10)
	switch {
	case at == 0:
		return "<= -" + text, true
	case at < zero:
		return "-" + text, true
	case at == 2*zero:
		return ">= " + text, true
	}
	return text, true
}

// bar draws one row from the axis on: the bar and the normalized count.
func (e *extent) bar(b []byte, v, normal int64, s Style) []byte {
	depth := func(width int) int {
		if v == 0 || e.total == 0 {
			return 0
		}
		return min(int(math.Abs(float64(v))*float64(width)/e.total+0.5), width)
	}
	switch {
	case !e.neg && e.pos && s.Encoding == UTF8:
		b = append(b, '|')
		eighths := int(math.Abs(float64(v)) * barWidth / e.total * 8)
		eighths = min(eighths, barWidth*8)
		for range eighths / 8 {
			b = utf8.AppendRune(b, '█')
		}
		n := eighths / 8
		if part := eighths % 8; part != 0 {
			b = utf8.AppendRune(b, '▏'-rune(part-1))
			n++
		}
		b = repeat(b, ' ', barWidth-n)
	case !e.neg:
		n := depth(barWidth)
		b = append(b, '|')
		b = repeat(b, '@', n)
		b = repeat(b, ' ', barWidth-n)
	case !e.pos:
		n := depth(barWidth)
		b = repeat(b, ' ', barWidth-n)
		b = repeat(b, '@', n)
		b = append(b, '|')
	default:
		n := depth(barWidth / 2)
		left, right := 0, n
		if v <= 0 {
			left, right = n, 0
		}
		b = repeat(b, ' ', barWidth/2-left)
		b = repeat(b, '@', left)
		b = append(b, '|')
		b = repeat(b, '@', right)
		b = repeat(b, ' ', barWidth/2-right)
	}
	b = append(b, ' ')
	n := len(b)
	b = strconv.AppendInt(b, v/normal, 10)
	b = repeat(b, ' ', 9-(len(b)-n))
	return append(b, '\n')
}

// Chart draws the rows of one aggregation against each other, one line each:
// the options agghist and aggpack.
type Chart struct {
	spec     Spec
	style    Style
	extent   extent // of the values of all rows: agghist
	min, max int    // buckets shown: aggpack
}

// NewChart returns the chart that the style draws rows with, or nil when rows
// are printed as usual: more than one aggregation, or a function that the
// options do not apply to.
func NewChart(rows []Row, s Style) *Chart {
	if len(rows) == 0 || len(rows[0].Data) != 1 {
		return nil
	}
	c := &Chart{spec: rows[0].Data[0].Spec, style: s}
	switch c.spec.Func {
	case Count, Sum, Avg, Stddev:
		if !s.Hist {
			return nil
		}
		for _, r := range rows {
			d := r.Data[0]
			d.Normal = 1
			c.extent.add(d.Value(), s.Zoom)
		}
	case Quantize:
		if !s.Pack {
			return nil
		}
		c.min, c.max = QuantizeBuckets, -1
		for _, r := range rows {
			first, last := span(r.Data[0].Words)
			if first > last {
				first, last = QuantizeZero, QuantizeZero
			}
			c.min, c.max = min(c.min, first), max(c.max, last)
		}
		if c.min != 0 && c.min != QuantizeZero {
			c.min--
		}
		c.max = min(c.max+1, QuantizeBuckets-1)
	case Lquantize:
		if !s.Pack {
			return nil
		}
		c.max = c.spec.Words() - 1
	default:
		return nil
	}
	return c
}

// Header is the heading of the chart, below keys that are keyWidth wide
// together.
func (c *Chart) Header(b []byte, keyWidth int) []byte {
	if !c.spec.Func.IsHistogram() {
		if keyWidth == 0 {
			return header(b, "value", 16)
		}
		return header(b, "key", keyWidth)
	}
	low, high := 7, 8
	if c.spec.Func == Quantize {
		low, high = digits(QuantizeValue(c.min)), digits(QuantizeValue(c.max))
	}
	b = append(b, '\n')
	if keyWidth > 0 {
		b = pad(b, "key", keyWidth)
	}
	b = append(b, ' ')
	b = pad(b, "min", low)
	b = append(b, " ."...)
	b = repeat(b, '-', c.max-c.min+1)
	b = append(b, ". max"...)
	b = repeat(b, ' ', high-len("max"))
	return append(b, " | count\n"...)
}

// Row draws the value of one row, after its key, with the newline.
func (c *Chart) Row(b []byte, d Datum) []byte {
	if !c.spec.Func.IsHistogram() {
		normal := d.normal()
		d.Normal = 1
		b = append(b, ' ')
		return c.extent.bar(b, d.Value(), normal, c.style)
	}
	low, high := "< "+strconv.FormatInt(c.spec.Base, 10), ""
	lowWidth, highWidth := 8, 8
	if c.spec.Func == Quantize {
		lo, hi := QuantizeValue(c.min), QuantizeValue(c.max)
		low, high = strconv.FormatInt(lo, 10), strconv.FormatInt(hi, 10)
		lowWidth, highWidth = digits(lo), digits(hi)
		b = append(b, ' ')
	} else {
		high = ">= " + strconv.FormatInt(c.spec.Base+int64(c.spec.Levels())*c.spec.Step, 10)
	}
	b = pad(b, low, lowWidth)
	b = append(b, " :"...)
	words := d.Words
	if words == nil {
		words = make([]int64, c.spec.Words())
	}
	var e extent
	var count int64
	for _, v := range words[c.min : c.max+1] {
		e.add(v, c.style.Zoom)
		count += v
	}
	for _, v := range words[c.min : c.max+1] {
		b = e.cell(b, v, c.style.Encoding)
	}
	b = append(b, ": "...)
	b = append(b, high...)
	b = repeat(b, ' ', highWidth-len(high))
	b = append(b, " | "...)
	b = strconv.AppendInt(b, count, 10)
	return append(b, '\n')
}

// cell is one bucket of a packed histogram: a character by its height.
func (e *extent) cell(b []byte, v int64, enc Encoding) []byte {
	level := func(top int) int {
		return int(math.Abs(float64(v))*float64(top)/e.total + 0.5)
	}
	const ascii, negative = "__xxxxXX", "vvvvVV"
	switch {
	case v == 0:
		return append(b, ' ')
	case v < 0:
		return append(b, negative[level(len(negative)-1)])
	case enc == ASCII:
		return append(b, ascii[level(len(ascii)-1)])
	}
	return utf8.AppendRune(b, '▁'+rune(level(7)))
}

// digits is the width of a bound of a packed histogram, at least 4.
func digits(v int64) int { return max(4, len(strconv.FormatInt(v, 10))) }

// pad appends s right-aligned.
func pad(b []byte, s string, width int) []byte {
	return append(repeat(b, ' ', width-len(s)), s...)
}

func repeat(b []byte, c byte, n int) []byte {
	for ; n > 0; n-- {
		b = append(b, c)
	}
	return b
}
