package main

import (
	"fmt"
	"math"
	"slices"
)

// stats are of one contestant in one benchmark.
type stats struct {
	n                   int
	min, median, spread float64 // spread: of the middle half (quartile to quartile)
}

func summarize(values []float64) stats {
	if len(values) == 0 {
		return stats{min: math.NaN(), median: math.NaN(), spread: math.NaN()}
	}
	v := slices.Sorted(slices.Values(values))
	return stats{n: len(v), min: v[0], median: quantile(v, 0.5), spread: quantile(v, 0.75) - quantile(v, 0.25)}
}

// quantile interpolates between the two nearest of the sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// number prints a figure with as many digits as it deserves.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
