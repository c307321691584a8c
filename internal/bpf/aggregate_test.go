package bpf

import (
	"math"
	"slices"
	"testing"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
)

// More aggregations than a program may use maps: those of one shape share a
// hash, and each has its own values all the same.
func TestManyAggs(t *testing.T) {
	p := newProg()
	const n = 100
	keys := []dif.Field{{Kind: dif.FInt, Size: 8}}
	code := []dif.Ins{{Op: dif.Imm, Dst: 1, Imm: 7}, {Op: dif.TStore, Temp: 1, A: 1, Size: 8}}
	funcs := []agg.Func{agg.Sum, agg.Avg, agg.Max}
	for i := range n {
		form := p.form(agg.Spec{Func: funcs[i%len(funcs)]}, 8, keys...)
		code = append(code, dif.Ins{Op: dif.Imm, Dst: 1, Imm: int64(i)}, dif.Ins{Op: dif.AggUpdate, A: 1, Temp: 1, Sym: form})
	}
	r := run(t, p, p.clause([]dif.Temp{{Size: 8, Align: 8}}, code...))
	for round := range 2 {
		got := snapshot(t, r)
		if len(got) != n {
			t.Fatalf("%d aggregations have values, of %d", len(got), n)
		}
		for i := range n {
			var want []int64
			switch i % len(funcs) {
			case 0:
				want = []int64{int64(i)} // the sum
			case 1:
				want = []int64{1, int64(i)} // how many, and their sum
			case 2:
				want = []int64{int64(i) ^ math.MinInt64} // ordered as unsigned
			}
			s := got[i]
			if len(s) != 1 || s[0].key != "\x07\x00\x00\x00\x00\x00\x00\x00" || !slices.Equal(s[0].words, want) {
				t.Errorf("round %d: aggregation %d: %v, want %v", round, i, s, want)
			}
		}
		if err := r.RunManual(0); err != nil {
			t.Fatal(err)
		}
	}
}
