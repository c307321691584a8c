package format

import "testing"

// A record is printed without garbage: a flood of them must not grow the tracer.
func TestNoAllocation(t *testing.T) {
	f, err := Parse("%d %x %-8s|%5u %o %c %10d\n")
	if err != nil {
		t.Fatal(err)
	}
	integer := Value{Kind: Signed, Size: 8, Int: 1 << 40}
	values := []Value{integer, integer, {Kind: String, Bytes: []byte("name")}, integer, integer, {Kind: Signed, Size: 1, Int: 'c'}, integer}
	b := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		if b, err = f.Append(b[:0], values, nil); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for %s", n, b)
	}
}
