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
//	count      [n]                     add incr
//	sum        [sum]                   add v
//	min        [enc]                   unsigned maximum with EncodeMin(v)
//	max        [enc]                   unsigned maximum with EncodeMax(v)
//	avg        [n, sum]                add 1, add v
//	stddev     [n, sum, lo, hi]        add 1, add v, 128-bit add v*v
//	quantize   [127 buckets]           add incr to bucket Bucket(v)
//	lquantize  [levels+2 buckets]      add incr to bucket Bucket(v)
//	llquantize [LlquantizeWords]       add incr to bucket Bucket(v)
//
// The 128-bit add is an atomic fetch-and-add on lo followed, when it wrapped,
// by an add of one to hi.
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

// Lookup returns the function D calls name, or Invalid.
func Lookup(name string) Func {
	for f := Count; f <= Llquantize; f++ {
		if funcNames[f] == name {
			return f
		}
	}
	return Invalid
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
		for i, v := range []int64{s.Factor, s.Low, s.High, s.Steps} {
			if v < 0 || v > math.MaxUint16 {
				return bad([]string{"D_LLQUANT_FACTORVAL", "D_LLQUANT_LOWVAL", "D_LLQUANT_HIGHVAL", "D_LLQUANT_NSTEPVAL"}[i],
					"llquantize( ) argument #%d must be an unsigned 16-bit quantity", i+1)
			}
		}
		switch {
		case s.Factor < 2:
			return bad("D_LLQUANT_FACTORSMALL", "llquantize( ) factor (argument #1) must be two or more")
		case s.Low > s.High:
			return bad("D_LLQUANT_MAGRANGE", "llquantize( ) high magnitude (argument #3) must be greater than low magnitude (argument #2)")
		case s.Steps < s.Factor:
			return bad("D_LLQUANT_FACTORNSTEPS", "llquantize( ) factor (argument #1) must be less than or equal to the number of linear steps per magnitude (argument #4)")
		}
		// Every bucket must begin at an integer wherever a magnitude has at
		// least Steps integers: Factor divides Steps, Steps divides a power.
		v := s.Factor
		for v < s.Steps {
			v *= s.Factor
		}
		if s.Steps%s.Factor != 0 || v%s.Steps != 0 {
			return bad("D_LLQUANT_FACTOREVEN", "llquantize( ) factor (argument #1) must evenly divide the number of steps per magnitude (argument #4), and the number of steps per magnitude must evenly divide a power of the factor")
		}
		if _, ok := power(s.Factor, s.High+1); !ok {
			return bad("D_LLQUANT_MAGTOOBIG", "llquantize( ) factor (%d) raised to power of high magnitude (%d) overflows 64-bits", s.Factor, s.High)
		}
	}
	return nil
}

// Levels is the number of steps of an lquantize between its base and limit.
func (s Spec) Levels() int { return int((s.Limit - s.Base) / s.Step) }

// half is the number of buckets of an llquantize on one side of zero.
func (s Spec) half() int { return int((s.High - s.Low + 1) * (s.Steps - s.Steps/s.Factor)) }

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

// power returns b^n, and whether it fits a positive int64.
func power(b, n int64) (int64, bool) {
	p := int64(1)
	for ; n > 0; n-- {
		if p > math.MaxInt64/b {
			return 0, false
		}
		p *= b
	}
	return p, true
}
