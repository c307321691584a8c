package agg

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

var (
	lq  = Spec{Func: Lquantize, Base: -10, Limit: 100, Step: 7}
	llq = Spec{Func: Llquantize, Factor: 10, Low: 0, High: 6, Steps: 20}
)

// specs covers every function, and llquantize in each relation of its steps
// to its factor.
var specs = []Spec{
	{Func: Count}, {Func: Sum}, {Func: Min}, {Func: Max}, {Func: Avg}, {Func: Stddev}, {Func: Quantize},
	lq, {Func: Lquantize, Base: 0, Limit: 1, Step: 1}, {Func: Lquantize, Base: math.MinInt32, Limit: 1 << 30, Step: 65535},
	llq,
	{Func: Llquantize, Factor: 10, Low: 3, High: 5, Steps: 5},
	{Func: Llquantize, Factor: 10, Low: 0, High: 2, Steps: 10},
	{Func: Llquantize, Factor: 10, Low: 1, High: 18, Steps: 100},
	{Func: Llquantize, Factor: 10, Low: 0, High: 0, Steps: 1},
	{Func: Llquantize, Factor: 2, Low: 0, High: 62, Steps: 4},
	{Func: Llquantize, Factor: 2, Low: 10, High: 62, Steps: 2},
	{Func: Llquantize, Factor: 65535, Low: 0, High: 2, Steps: 1},
}

func TestSpecs(t *testing.T) {
	for _, s := range specs {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestValidate(t *testing.T) {
	ll := func(f, l, h, s int64) Spec { return Spec{Func: Llquantize, Factor: f, Low: l, High: h, Steps: s} }
	l := func(b, l, s int64) Spec { return Spec{Func: Lquantize, Base: b, Limit: l, Step: s} }
	for _, c := range []struct {
		spec Spec
		tag  string
	}{
		{Spec{}, "D_AGG_FUNC"},
		{l(1<<31, 1<<32, 1), "D_LQUANT_BASEVAL"},
		{l(0, 1<<31, 1), "D_LQUANT_LIMVAL"},
		{l(5, 5, 1), "D_LQUANT_MISMATCH"},
		{l(0, 5, 0), "D_LQUANT_STEPTYPE"},
		{l(0, 5, 1<<16), "D_LQUANT_STEPVAL"},
		{l(0, 5, 6), "D_LQUANT_STEPLARGE"},
		{l(0, 1<<20, 1), "D_LQUANT_STEPSMALL"},
		{ll(1, 0, 6, 10), "D_LLQUANT_FACTORVAL"},
		{ll(10, -1, 6, 10), "D_LLQUANT_LMAGVAL"},
		{ll(10, 0, 1<<16, 10), "D_LLQUANT_HMAGVAL"},
		{ll(10, 3, 2, 10), "D_LLQUANT_HMAGVAL"},
		{ll(10, 0, 19, 10), "D_LLQUANT_HMAGVAL"},
		{ll(10, 0, 6, 0), "D_LLQUANT_STEPTYPE"},
		{ll(10, 0, 6, 1<<16), "D_LLQUANT_STEPVAL"},
		{ll(10, 0, 6, 3), "D_LLQUANT_STEPVAL"},
		{ll(10, 0, 6, 15), "D_LLQUANT_STEPVAL"},
		{ll(10, 0, 6, 30), "D_LLQUANT_STEPVAL"},
		{ll(10, 1, 6, 30), "D_LLQUANT_STEPVAL"},
	} {
		err, _ := c.spec.Validate().(*ParamError)
		if err == nil || err.Tag != c.tag {
			t.Errorf("%+v: %v, want tag %s", c.spec, err, c.tag)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		a, b Spec
		tag  string
	}{
		{lq, lq, ""},
		{Spec{Func: Lquantize, Base: 1, Limit: 100, Step: 7}, lq, "D_LQUANT_MATCHBASE"},
		{Spec{Func: Lquantize, Base: -10, Limit: 200, Step: 7}, lq, "D_LQUANT_MATCHLIM"},
		{Spec{Func: Lquantize, Base: 0, Limit: 20, Step: 2}, Spec{Func: Lquantize, Base: 0, Limit: 20, Step: 1}, "D_LQUANT_MATCHSTEP"},
		{llq, llq, ""},
		{Spec{Func: Llquantize, Factor: 10, Low: 0, High: 6, Steps: 10}, llq, "D_LLQUANT_MATCHSTEPS"},
	} {
		err, _ := c.a.Match(c.b).(*ParamError)
		if (err == nil) != (c.tag == "") || err != nil && err.Tag != c.tag {
			t.Errorf("%+v after %+v: %v, want %q", c.a, c.b, err, c.tag)
		}
	}
}

// interesting values: the ends, powers of two and ten and their neighbours.
func interesting() []int64 {
	vs := []int64{0, math.MinInt64, math.MinInt64 + 1, math.MaxInt64}
	for _, base := range []int64{2, 10} {
		for p := int64(1); p > 0 && p <= math.MaxInt64/base; p *= base {
			for _, v := range []int64{p - 1, p, p + 1, p + p/2} {
				vs = append(vs, v, -v)
			}
		}
	}
	for range 2000 {
		vs = append(vs, int64(rand.Uint64())>>rand.IntN(64))
	}
	return vs
}

// TestBucket compares Bucket with the definitions in the package comment,
// applied by search instead of arithmetic.
func TestBucket(t *testing.T) {
	inside := func(v int64, lo, hi *big.Int) bool {
		b := big.NewInt(v)
		return b.Cmp(lo) >= 0 && b.Cmp(hi) < 0
	}
	pow := func(b, n int64) *big.Int { return new(big.Int).Exp(big.NewInt(b), big.NewInt(n), nil) }
	neg := func(a *big.Int) *big.Int { return new(big.Int).Neg(a) }
	one := big.NewInt(1)
	plus := func(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }

	for _, s := range specs {
		if !s.Func.IsHistogram() {
			continue
		}
		type rng struct {
			bucket int
			lo, hi *big.Int
		}
		var table []rng
		mirror := func(zero, off int, lo, hi *big.Int) {
			table = append(table, rng{zero + off, lo, hi}, rng{zero - off, plus(neg(hi), one), plus(neg(lo), one)})
		}
		far := pow(2, 64)
		switch s.Func {
		case Quantize:
			table = append(table, rng{63, big.NewInt(0), one})
			for k := range int64(63) {
				hi := pow(2, k+1)
				if k == 62 {
					hi = far // the smallest int64 belongs to the last one
				}
				mirror(63, int(k)+1, pow(2, k), hi)
			}
		case Lquantize:
			table = append(table, rng{0, neg(far), big.NewInt(s.Base)})
			for i := range s.Levels() {
				if i > 300 && i < s.Levels()-300 {
					continue
				}
				lo := s.Base + int64(i)*s.Step
				table = append(table, rng{i + 1, big.NewInt(lo), big.NewInt(lo + s.Step)})
			}
			table = append(table, rng{s.Levels() + 1, big.NewInt(s.Base + int64(s.Levels())*s.Step), far})
		case Llquantize:
			half := int(s.High-s.Low+1) * int(s.Steps-s.Steps/s.Factor)
			zero := half + 1
			lim := pow(s.Factor, s.Low)
			table = append(table, rng{zero, plus(neg(lim), one), lim})
			off := 0
			for mag := s.Low; mag <= s.High; mag++ {
				// Step j of a magnitude covers [j, j+1) * Factor^(mag+1)/Steps,
				// as far as that lies at or above Factor^mag.
				for j := int64(0); j < s.Steps; j++ {
					num := func(j int64) *big.Int { // ceil(j*F^(mag+1)/Steps)
						n := new(big.Int).Mul(big.NewInt(j), pow(s.Factor, mag+1))
						n.Add(n, big.NewInt(s.Steps-1))
						return n.Div(n, big.NewInt(s.Steps))
					}
					lo, hi := num(j), num(j+1)
					if hi.Cmp(pow(s.Factor, mag)) <= 0 {
						continue
					}
					if lo.Cmp(pow(s.Factor, mag)) < 0 {
						lo = pow(s.Factor, mag)
					}
					off++
					mirror(zero, off, lo, hi)
				}
			}
			if off != half {
				t.Fatalf("%+v: %d buckets on a side, want %d", s, half, off)
			}
			mirror(zero, half+1, pow(s.Factor, s.High+1), far)
		}
		for _, v := range interesting() {
			got := s.Bucket(v)
			if got < 0 || got >= s.Words() {
				t.Fatalf("%+v: bucket of %d is %d of %d", s, v, got, s.Words())
			}
			for _, r := range table {
				if inside(v, r.lo, r.hi) && got != r.bucket {
					t.Fatalf("%+v: bucket of %d is %d, want %d", s, v, got, r.bucket)
				}
				if got == r.bucket && !inside(v, r.lo, r.hi) {
					t.Fatalf("%+v: %d in bucket %d, which holds [%v, %v)", s, v, got, r.lo, r.hi)
				}
			}
		}
	}
}

func value(s Spec, normal int64, vs ...int64) int64 {
	w := make([]int64, s.Words())
	for _, v := range vs {
		s.Update(w, v, 1)
	}
	return Datum{Spec: s, Words: w, Normal: normal}.Value()
}

func TestValue(t *testing.T) {
	for _, c := range []struct {
		f      Func
		normal int64
		vs     []int64
		want   int64
	}{
		{Count, 1, []int64{5, 6, 7}, 3},
		{Count, 2, []int64{5, 6, 7}, 1},
		{Sum, 1, []int64{5, -6, 7}, 6},
		{Sum, 2, []int64{-10}, -5},
		{Min, 1, []int64{5, -6, 7}, -6},
		{Min, 1, []int64{math.MaxInt64}, math.MaxInt64},
		{Min, 1, nil, math.MaxInt64},
		{Max, 1, []int64{-5, -6}, -5},
		{Max, 1, nil, math.MinInt64},
		{Max, 1, []int64{0, math.MinInt64}, 0},
		{Avg, 1, nil, 0},
		{Avg, 1, []int64{1, 2, 4}, 2},
		{Avg, 1, []int64{-1, -2, -4}, -2},
		{Avg, 2, []int64{10, 20}, 7},
		{Stddev, 1, nil, 0},
		{Stddev, 1, []int64{7}, 0},
		{Stddev, 1, []int64{2, 4, 4, 4, 5, 5, 7, 9}, 2},
		{Stddev, 1, []int64{-2, -4, -4, -4, -5, -5, -7, -9}, 2},
		{Stddev, 1, []int64{math.MaxInt64, -math.MaxInt64}, math.MaxInt64},
		{Quantize, 1, []int64{1, 2, 3}, 3},
	} {
		if got := value(Spec{Func: c.f}, c.normal, c.vs...); got != c.want {
			t.Errorf("%v(%v) normalized by %d = %d, want %d", c.f, c.vs, c.normal, got, c.want)
		}
	}
}

// TestStddev compares with the formula in exact arithmetic.
func TestStddev(t *testing.T) {
	for range 300 {
		normal := int64(1)
		n := 1 + rand.IntN(20)
		vs := make([]int64, n)
		shift := rand.IntN(60) + 4
		sum, squares := new(big.Int), new(big.Int)
		for i := range vs {
			vs[i] = int64(rand.Uint64()) >> shift
			v := big.NewInt(vs[i])
			sum.Add(sum, v)
			squares.Add(squares, v.Mul(v, v))
		}
		squares.Quo(squares, big.NewInt(int64(n)))
		sum.Quo(sum, big.NewInt(int64(n)))
		want := new(big.Int).Sqrt(squares.Sub(squares, sum.Mul(sum, sum)))
		if got := value(Spec{Func: Stddev}, normal, vs...); got != want.Int64() {
			t.Fatalf("stddev(%v) = %d, want %v", vs, got, want)
		}
	}
}

// TestMerge: values of two CPUs merged are the value of all firings.
func TestMerge(t *testing.T) {
	for _, s := range specs {
		if s.Words() > 1<<12 {
			continue
		}
		all, a, b := make([]int64, s.Words()), make([]int64, s.Words()), make([]int64, s.Words())
		for i, v := range interesting() {
			s.Update(all, v, 3)
			if i%3 == 0 {
				s.Update(a, v, 3)
			} else {
				s.Update(b, v, 3)
			}
		}
		s.Merge(a, b)
		for i := range all {
			if a[i] != all[i] {
				t.Errorf("%+v: word %d is %d merged, %d at once", s, i, a[i], all[i])
			}
		}
	}
}

func FuzzBucket(f *testing.F) {
	f.Add(int64(12), int64(10), int64(0), int64(6), int64(20))
	f.Fuzz(func(t *testing.T, v, a, b, c, d int64) {
		for _, s := range []Spec{
			{Func: Quantize},
			{Func: Lquantize, Base: a, Limit: b, Step: c},
			{Func: Llquantize, Factor: a, Low: b, High: c, Steps: d},
		} {
			if s.Validate() != nil || s.Words() > 1<<12 {
				continue
			}
			i := s.Bucket(v)
			if i < 0 || i >= s.Words() {
				t.Fatalf("%+v: bucket of %d is %d of %d", s, v, i, s.Words())
			}
			w := make([]int64, s.Words())
			s.Update(w, v, 1)
			if out := string(Datum{Spec: s, Words: w}.Draw(nil, Style{})); strings.Count(out, "\n") < 3 {
				t.Fatalf("%+v: drawing of %d:\n%s", s, v, out)
			}
		}
	})
}
