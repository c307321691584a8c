package agg

import "math/bits"

// EncodeMax turns v into a word whose unsigned order is the order of the
// values and which is smallest, 0, for the smallest value: a zero-filled word
// is the maximum of nothing.
func EncodeMax(v int64) uint64 { return uint64(v) ^ 1<<63 }

// EncodeMin is EncodeMax in the reverse order, so that the minimum of values
// too is an unsigned maximum of words.
func EncodeMin(v int64) uint64 { return ^EncodeMax(v) }

// DecodeMax and DecodeMin give the value of a word. Of a word nothing was
// aggregated into they give the smallest and the largest int64, which is what
// DTrace shows for min() and max() after clear().
func DecodeMax(w uint64) int64 { return int64(w ^ 1<<63) }

// DecodeMin: see DecodeMax.
func DecodeMin(w uint64) int64 { return DecodeMax(^w) }

// QuantizeBucket is the bucket of v in a quantize().
func QuantizeBucket(v int64) int {
	switch {
	case v > 0:
		return QuantizeZero + bits.Len64(uint64(v))
	case v < 0:
		// The smallest int64 has no bucket of its own: it shares the one of
		// -2^62.
		return max(QuantizeZero-bits.Len64(-uint64(v)), 0)
	}
	return QuantizeZero
}

// QuantizeValue is the value the rows of a quantize() show for a bucket.
func QuantizeValue(bucket int) int64 {
	switch {
	case bucket > QuantizeZero:
		return 1 << (bucket - QuantizeZero - 1)
	case bucket < QuantizeZero:
		return -1 << (QuantizeZero - 1 - bucket)
	}
	return 0
}

// Bucket is the index of the word v is counted in; -1 for functions that have
// no buckets.
func (s Spec) Bucket(v int64) int {
	switch s.Func {
	case Quantize:
		return QuantizeBucket(v)
	case Lquantize:
		if v < s.Base {
			return 0
		}
		// v-Base may exceed an int64, never a uint64.
		return 1 + int(min(uint64(v-s.Base)/uint64(s.Step), uint64(s.Levels())))
	case Llquantize:
		zero := s.half() + 1
		if v < 0 {
			return zero - s.offset(-uint64(v))
		}
		return zero + s.offset(uint64(v))
	}
	return -1
}

// offset is the distance of the bucket of a magnitude from the zero bucket.
func (s Spec) offset(v uint64) int {
	top, _ := power(s.Factor, s.Low)
	if v < top {
		return 0
	}
	factor, steps, skip := uint64(s.Factor), uint64(s.Steps), int(s.Steps/s.Factor)
	for mag := s.Low; mag <= s.High; mag++ {
		top *= factor
		if v >= top {
			continue
		}
		var step uint64
		if mag == 0 {
			step = v * steps / top
		} else {
			step = v / (top / steps)
		}
		return int(mag-s.Low)*s.perMagnitude() + int(step) - skip + 1
	}
	return s.half() + 1
}

// lower is the smallest magnitude counted in the bucket off places from the
// zero bucket, and whether there is one: with more steps than integers, the
// buckets of magnitude 0 between two integers stay empty for ever.
func (s Spec) lower(off int) (v uint64, ok bool) {
	off--
	if off == s.half() {
		v, _ = power(s.Factor, s.High+1)
		return v, true
	}
	mag := s.Low + int64(off/s.perMagnitude())
	step := uint64(off%s.perMagnitude()) + uint64(s.Steps/s.Factor)
	base, _ := power(s.Factor, mag)
	if step == 0 || mag > 0 {
		return max(step*(base*uint64(s.Factor)/uint64(s.Steps)), base), true
	}
	v = step * uint64(s.Factor)
	return v / uint64(s.Steps), v%uint64(s.Steps) == 0
}

// Update applies one firing with value v to raw words. incr is what the
// histograms add to their bucket; the other functions ignore it.
func (s Spec) Update(words []int64, v, incr int64) {
	switch s.Func {
	case Count:
		words[0]++
	case Sum:
		words[0] += v
	case Min:
		words[0] = int64(max(uint64(words[0]), EncodeMin(v)))
	case Max:
		words[0] = int64(max(uint64(words[0]), EncodeMax(v)))
	case Avg:
		words[0]++
		words[1] += v
	case Stddev:
		words[0]++
		words[1] += v
		hi, lo := square(v)
		add128(words[2:4], lo, hi)
	case Quantize, Lquantize, Llquantize:
		words[s.Bucket(v)] += incr
	}
}

// Merge adds the raw words src, of another CPU or a later time, to dst.
func (s Spec) Merge(dst, src []int64) {
	switch s.Func {
	case Min, Max:
		dst[0] = int64(max(uint64(dst[0]), uint64(src[0])))
	case Stddev:
		dst[0] += src[0]
		dst[1] += src[1]
		add128(dst[2:4], uint64(src[2]), uint64(src[3]))
	default:
		for i, w := range src {
			dst[i] += w
		}
	}
}

// square returns v*v.
func square(v int64) (hi, lo uint64) {
	if v < 0 {
		v = -v // the smallest int64 stays itself, and is right as unsigned
	}
	return bits.Mul64(uint64(v), uint64(v))
}

// add128 adds to the pair of words [lo, hi].
func add128(w []int64, lo, hi uint64) {
	l, carry := bits.Add64(uint64(w[0]), lo, 0)
	h, _ := bits.Add64(uint64(w[1]), hi, carry)
	w[0], w[1] = int64(l), int64(h)
}

// stddev is the approximation sqrt(average(x^2) - average(x)^2) in integers,
// each average after division by the normalization factor.
func stddev(words []int64, normal int64) int64 {
	n := uint64(words[0])
	if n == 0 {
		return 0
	}
	hi, lo := div128(uint64(words[3]), uint64(words[2]), uint64(normal))
	hi, lo = div128(hi, lo, n)
	sqhi, sqlo := square(words[1] / normal / words[0])
	lo, borrow := bits.Sub64(lo, sqlo, 0)
	hi, borrow = bits.Sub64(hi, sqhi, borrow)
	if borrow != 0 {
		return 0
	}
	return int64(sqrt128(hi, lo))
}

// div128 divides a 128-bit number by d.
func div128(hi, lo, d uint64) (qhi, qlo uint64) {
	qhi = hi / d
	qlo, _ = bits.Div64(hi%d, lo, d)
	return qhi, qlo
}

// sqrt128 is the integer square root, one result bit at a time.
func sqrt128(hi, lo uint64) uint64 {
	var root uint64
	for bit := uint64(1) << 63; bit != 0; bit >>= 1 {
		try := root | bit
		thi, tlo := bits.Mul64(try, try)
		if thi < hi || thi == hi && tlo <= lo {
			root = try
		}
	}
	return root
}
