// Package agg is D's aggregations as arithmetic: what the raw words of an
// aggregated value mean, how one firing changes them, how values of several
// CPUs merge, how tables of them are sorted, truncated and drawn.
//
// It knows no kernel and does no I/O but to an io.Writer. Three parties share
// it: the eBPF back end, which updates raw words; the consumer, which merges
// what it drained into a Table; and the formatter, which prints rows.
//
// # Raw words
//
// A value is Spec.Words() 64-bit words, valid when all are zero (nothing
// aggregated yet), so a freshly made hash value needs no initialisation, and
// every update is an atomic add or an atomic maximum:
//
//	count      [n]                     add 1
//	sum        [sum]                   add v
//	min        [enc]                   unsigned maximum with EncodeMin(v)
//	max        [enc]                   unsigned maximum with EncodeMax(v)
//	avg        [n, sum]                add 1, add v
//	stddev     [n, sum, lo, hi]        add 1, add v, 128-bit add v*v
//	quantize   [127 buckets]           add incr to bucket Bucket(v)
//	lquantize  [levels+2 buckets]      add incr to bucket Bucket(v)
//	llquantize [2B+3 buckets]          add incr to bucket Bucket(v)
//
// The 128-bit add is an atomic fetch-and-add on lo followed, when it wrapped,
// by an add of one to hi. incr is 1 where D leaves it out, and may be negative.
//
// quantize: bucket 63 is zero, bucket 64+k holds [2^k, 2^(k+1)), bucket 62-k
// holds (-2^(k+1), -2^k].
//
// lquantize: bucket 0 is below base, bucket i holds
// [base+(i-1)*step, base+i*step), the last is everything from
// base+levels*step.
//
// llquantize: with B = (high-low+1)*(steps-steps/factor) buckets each side,
// bucket B+1 holds |v| < factor^low, bucket B+1+i the i-th positive step
// (i from 1), bucket B+1-i the i-th negative one; buckets 0 and 2B+2 hold
// v <= -factor^(high+1) and v >= factor^(high+1).
package agg

import (
	"fmt"
	"math"
	"math/bits"
)

// Func is an aggregating function.
type Func uint8

// The aggregating functions of D.
const (
	Invalid Func = iota
	Count
	Sum
	Min
	Max
	Avg
	Stddev
	Quantize
	Lquantize
	Llquantize
)

var funcNames = [...]string{"invalid", "count", "sum", "min", "max", "avg", "stddev", "quantize", "lquantize", "llquantize"}

func (f Func) String() string {
	if int(f) < len(funcNames) {
		return funcNames[f]
	}
	return fmt.Sprintf("agg.Func(%d)", uint8(f))
}

// IsHistogram reports whether f counts into buckets, which are drawn, not
// printed as one number.
func (f Func) IsHistogram() bool { return f >= Quantize && f <= Llquantize }

// Sizes of a quantize() value.
const (
	QuantizeBuckets = 127 // words of a quantize value
	QuantizeZero    = 63  // the bucket of the value 0
)

// Spec is an aggregating function with its parameters. Specs compare with ==:
// two uses of one aggregation must have equal specs.
type Spec struct {
	Func Func

	// lquantize(v, Base, Limit, Step); Step is 1 where D leaves it out.
	Base, Limit, Step int64

	// llquantize(v, Factor, Low, High, Steps): Steps linear steps in each
	// magnitude from Factor^Low up to Factor^(High+1).
	Factor, Low, High, Steps int64
}

// A ParamError says which parameter of an aggregating function is wrong. Tag
// is DTrace's error tag; the text is DTrace's too.
type ParamError struct {
	Tag string // for example D_LQUANT_STEPLARGE
	Msg string
}

func (e *ParamError) Error() string { return e.Msg }

// Validate checks the parameters as DTrace does. The error is a *ParamError.
func (s Spec) Validate() error {
	bad := func(tag, format string, args ...any) error {
		return &ParamError{tag, fmt.Sprintf(format, args...)}
	}
	switch s.Func {
	case Invalid:
		return bad("D_AGG_FUNC", "not an aggregating function")
	case Lquantize:
		switch {
		case s.Base < math.MinInt32 || s.Base > math.MaxInt32:
			return bad("D_LQUANT_BASEVAL", "lquantize( ) argument #1 must be a 32-bit quantity")
		case s.Limit < math.MinInt32 || s.Limit > math.MaxInt32:
			return bad("D_LQUANT_LIMVAL", "lquantize( ) argument #2 must be a 32-bit quantity")
		case s.Limit <= s.Base:
			return bad("D_LQUANT_MISMATCH", "lquantize( ) base (argument #1) must be less than limit (argument #2)")
		case s.Step <= 0:
			return bad("D_LQUANT_STEPTYPE", "lquantize( ) argument #3 must be a non-zero positive integer constant")
		case s.Step > math.MaxUint16:
			return bad("D_LQUANT_STEPVAL", "lquantize( ) argument #3 must be a 16-bit quantity")
		case s.Levels() == 0:
			return bad("D_LQUANT_STEPLARGE", "lquantize( ) step (argument #3) too large: must have at least one quantization level")
		case s.Levels() > math.MaxUint16:
			return bad("D_LQUANT_STEPSMALL", "lquantize( ) step (argument #3) too small: number of quantization levels must be a 16-bit quantity")
		}
	case Llquantize:
		fits := func(v int64) bool { return v >= 0 && v <= math.MaxUint16 }
		switch {
		case !fits(s.Factor) || s.Factor < 2:
			return bad("D_LLQUANT_FACTORVAL", "llquantize( ) argument #1 must be an unsigned 16-bit quantity greater than or equal to 2")
		case !fits(s.Low):
			return bad("D_LLQUANT_LMAGVAL", "llquantize( ) argument #2 must be an unsigned 16-bit quantity")
		case !fits(s.High):
			return bad("D_LLQUANT_HMAGVAL", "llquantize( ) argument #3 must be an unsigned 16-bit quantity")
		case s.High < s.Low:
			return bad("D_LLQUANT_HMAGVAL", "llquantize( ) argument #3 (high magnitude) must be at least argument #2 (low magnitude)")
		case s.Steps <= 0:
			return bad("D_LLQUANT_STEPTYPE", "llquantize( ) argument #4 must be a non-zero positive integer constant")
		case s.Steps > math.MaxUint16:
			return bad("D_LLQUANT_STEPVAL", "llquantize( ) argument #4 must be an unsigned 16-bit quantity")
		}
		if _, ok := power(s.Factor, s.High+1); !ok {
			return bad("D_LLQUANT_HMAGVAL", "llquantize( ) argument #3 (high magnitude) will cause overflow of 64 bits")
		}
		// Every bucket that can hold a value must begin at an integer.
		first, _ := power(s.Factor, s.Low+1)
		switch {
		case s.Steps < s.Factor && s.Factor%s.Steps != 0:
			return bad("D_LLQUANT_STEPVAL", "llquantize() argument #4 (steps) must evenly divide argument #1 (factor) when steps<factor")
		case s.Steps > s.Factor && s.Steps%s.Factor != 0:
			return bad("D_LLQUANT_STEPVAL", "llquantize() argument #4 (steps) must be a multiple of argument #1 (factor) when steps>factor")
		case s.Steps > s.Factor && s.Low == 0 && s.Factor*s.Factor%s.Steps != 0:
			return bad("D_LLQUANT_STEPVAL", "llquantize() argument #4 (steps) must evenly divide the square of argument #1 (factor) when steps>factor and lmag==0")
		case s.Steps > s.Factor && s.Low > 0 && first%uint64(s.Steps) != 0:
			return bad("D_LLQUANT_STEPVAL", "llquantize() argument #4 (steps) must evenly divide pow(argument #1 (factor), lmag (argument #2) + 1) when steps>factor and lmag>0")
		}
	}
	return nil
}

// Match compares the parameters with those of an earlier use of the same
// aggregation, which must be equal. The functions are known to be. The error
// is a *ParamError in DTrace's words.
func (s Spec) Match(prev Spec) error {
	differs := func(tag, what string, was, is int64) error {
		return &ParamError{tag, fmt.Sprintf("%s doesn't match previous declaration: expected %d, found %d", what, was, is)}
	}
	switch s.Func {
	case Lquantize:
		end := func(s Spec) int64 { return s.Base + int64(s.Levels())*s.Step }
		switch {
		case s.Base != prev.Base:
			return differs("D_LQUANT_MATCHBASE", "lquantize( ) base (argument #1)", prev.Base, s.Base)
		case end(s) != end(prev):
			return differs("D_LQUANT_MATCHLIM", "lquantize( ) limit (argument #2)", end(prev), end(s))
		case s.Step != prev.Step:
			return differs("D_LQUANT_MATCHSTEP", "lquantize( ) step (argument #3)", prev.Step, s.Step)
		}
	case Llquantize:
		switch {
		case s.Factor != prev.Factor:
			return differs("D_LLQUANT_MATCHFACTOR", "llquantize() factor (argument #1)", prev.Factor, s.Factor)
		case s.Low != prev.Low:
			return differs("D_LLQUANT_MATCHLMAG", "llquantize() lmag (argument #2)", prev.Low, s.Low)
		case s.High != prev.High:
			return differs("D_LLQUANT_MATCHHMAG", "llquantize() hmag (argument #3)", prev.High, s.High)
		case s.Steps != prev.Steps:
			return differs("D_LLQUANT_MATCHSTEPS", "llquantize() steps (argument #4)", prev.Steps, s.Steps)
		}
	}
	return nil
}

// Levels is the number of steps of an lquantize between its base and limit.
func (s Spec) Levels() int { return int((s.Limit - s.Base) / s.Step) }

// half is the number of buckets of an llquantize on one side of zero, without
// the overflow bucket.
func (s Spec) half() int { return int(s.High-s.Low+1) * s.perMagnitude() }

// perMagnitude is the number of buckets of one magnitude: the steps below
// Factor^mag belong to the magnitude before.
func (s Spec) perMagnitude() int { return int(s.Steps - s.Steps/s.Factor) }

// Words is the number of 64-bit words of a raw value.
func (s Spec) Words() int {
	switch s.Func {
	case Count, Sum, Min, Max:
		return 1
	case Avg:
		return 2
	case Stddev:
		return 4
	case Quantize:
		return QuantizeBuckets
	case Lquantize:
		return s.Levels() + 2
	case Llquantize:
		return 2*s.half() + 3
	}
	return 0
}

// power returns b^n, and whether it fits 64 bits.
func power(b, n int64) (uint64, bool) {
	p := uint64(1)
	for ; n > 0; n-- {
		hi, lo := bits.Mul64(p, uint64(b))
		if hi != 0 {
			return 0, false
		}
		p = lo
	}
	return p, true
}
