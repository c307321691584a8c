package agg

// A Bucket is one row of a drawn histogram: its name ("32", "< 0") and its
// normalized count.
type Bucket struct {
	Label string
	Count int64
}

// Buckets are the rows that Draw draws.
func (d Datum) Buckets() []Bucket {
	words := d.Words
	if words == nil {
		words = make([]int64, d.Spec.Words())
	}
	first, last := d.drawn(words)
	var out []Bucket
	for i := first; i <= last; i++ {
		if label, ok := d.Spec.label(i, first, last); ok {
			out = append(out, Bucket{label, words[i] / d.normal()})
		}
	}
	return out
}
