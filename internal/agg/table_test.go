package agg

import (
	"fmt"
	"strings"
	"testing"
)

func str(s string) Key { return Key{{Kind: String, Str: s}} }
func num(v int64) Part { return Part{Kind: Signed, Size: 4, Int: uint64(v)} }
func sum(name string, id int, kv ...any) *Table {
	t := NewTable(name, id, Spec{Func: Sum})
	for i := 0; i < len(kv); i += 2 {
		t.Update(0, str(kv[i].(string)), int64(kv[i+1].(int)), 1)
	}
	return t
}

func show(rows []Row) string {
	var s []string
	for _, r := range rows {
		var f []string
		for _, p := range r.Key {
			if p.Kind == String {
				f = append(f, p.Str)
			} else {
				f = append(f, fmt.Sprint(int64(p.Int)))
			}
		}
		for _, d := range r.Data {
			f = append(f, fmt.Sprint(d.Value()))
		}
		s = append(s, strings.Join(f, " "))
	}
	return strings.Join(s, ", ")
}

func TestOrder(t *testing.T) {
	one := sum("a", 1, "c", 1, "b", 1, "a", 3, "d", 2)
	for _, c := range []struct {
		o    Order
		want string
	}{
		{Order{}, "b 1, c 1, d 2, a 3"},
		{Order{Rev: true}, "a 3, d 2, c 1, b 1"},
		{Order{ByKey: true}, "a 3, b 1, c 1, d 2"},
		{Order{ByKey: true, Rev: true}, "d 2, c 1, b 1, a 3"},
	} {
		if got := show(one.Rows(c.o)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}

	pairs := NewTable("p", 1, Spec{Func: Count})
	for _, k := range [][2]int64{{1, 30}, {2, 20}, {3, 10}, {-1, 40}} {
		pairs.Update(0, Key{num(k[0]), num(k[1])}, 0, 1)
	}
	for _, c := range []struct {
		o    Order
		want string
	}{
		// Keys compare as unsigned numbers, in any case.
		{Order{ByKey: true}, "1 30 1, 2 20 1, 3 10 1, -1 40 1"},
		{Order{ByKey: true, KeyPos: 1}, "3 10 1, 2 20 1, 1 30 1, -1 40 1"},
		{Order{ByKey: true, KeyPos: 7}, "1 30 1, 2 20 1, 3 10 1, -1 40 1"},
		{Order{KeyPos: 1}, "3 10 1, 2 20 1, 1 30 1, -1 40 1"},
	} {
		if got := show(pairs.Rows(c.o)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
}

func TestJoin(t *testing.T) {
	a := sum("a", 1, "x", 5, "y", 1)
	b := sum("b", 2, "y", 7, "z", 1)
	for _, c := range []struct {
		o    Order
		want string
	}{
		{Order{}, "z 0 1, y 1 7, x 5 0"},
		{Order{Pos: 1}, "x 5 0, z 0 1, y 1 7"},
		{Order{Pos: 2}, "z 0 1, y 1 7, x 5 0"},
		{Order{ByKey: true}, "x 5 0, y 1 7, z 0 1"},
		{Order{Rev: true}, "x 5 0, y 1 7, z 0 1"},
	} {
		if got := show(Join([]*Table{a, b}, c.o)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
	if got, want := show(Join([]*Table{a, a}, Order{})), "y 1 1, x 5 5"; got != want {
		t.Errorf("an aggregation beside itself: %s, want %s", got, want)
	}
	m := NewTable("m", 3, Spec{Func: Min})
	if got, want := show(Join([]*Table{a, m}, Order{})), "y 1 0, x 5 0"; got != want {
		t.Errorf("missing min: %s, want %s", got, want)
	}
}

func TestOperations(t *testing.T) {
	fill := func() *Table { return sum("a", 1, "a", 1, "b", 2, "c", 3, "d", 3) }
	for _, c := range []struct {
		n    int64
		want string
	}{
		{0, ""}, {2, "c 3, d 3"}, {1, "d 3"}, {-2, "a 1, b 2"}, {-3, "a 1, b 2, c 3"}, {10, "a 1, b 2, c 3, d 3"},
		{-1 << 63, "a 1, b 2, c 3, d 3"},
	} {
		tab := fill()
		tab.Trunc(c.n)
		if got := show(tab.Rows(Order{})); got != c.want {
			t.Errorf("trunc %d: %s, want %s", c.n, got, c.want)
		}
	}

	tab := fill()
	tab.Clear()
	if got, want := show(tab.Rows(Order{})), "a 0, b 0, c 0, d 0"; got != want {
		t.Errorf("clear: %s, want %s", got, want)
	}
	tab.Update(0, str("b"), 9, 1)
	if got, want := show(tab.Rows(Order{})), "a 0, c 0, d 0, b 9"; got != want {
		t.Errorf("after clear: %s, want %s", got, want)
	}
	tab.Normal = 3
	if got, want := show(tab.Rows(Order{Rev: true})[:1]), "b 3"; got != want {
		t.Errorf("normalize: %s, want %s", got, want)
	}
	tab.Normal = 1
	if got, want := show(tab.Rows(Order{Rev: true})[:1]), "b 9"; got != want {
		t.Errorf("denormalize: %s, want %s", got, want)
	}
}

func TestKeysMerge(t *testing.T) {
	tab := NewTable("a", 1, Spec{Func: Count})
	pcs := []uint64{1, 2}
	for _, k := range []Key{
		{{Kind: Signed, Size: 4, Int: ^uint64(0)}},
		{{Kind: Unsigned, Size: 4, Int: 1<<32 - 1}}, // same bits
		{{Kind: Unsigned, Size: 8, Int: 1<<32 - 1}},
		{{Kind: String, Str: "a"}, {Kind: String, Str: "bc"}},
		{{Kind: String, Str: "ab"}, {Kind: String, Str: "c"}},
		{{Kind: Stack, PCs: pcs}},
		{{Kind: UStack, PCs: pcs, PID: 1}},
		{{Kind: UStack, PCs: pcs, PID: 2}},
		{{Kind: UStack, PCs: pcs, PID: 2, Notes: []string{"x", ""}}}, // same stack
		{{Kind: Sym, Int: 5}},
		nil,
	} {
		tab.Update(0, k, 0, 1)
	}
	if tab.Len() != 9 {
		t.Errorf("%d keys, want 9: %s", tab.Len(), show(tab.Rows(Order{})))
	}
}

func TestAddCopies(t *testing.T) {
	tab := NewTable("a", 1, Spec{Func: Sum})
	tab.CPUs = 2
	words, key := []int64{4}, Key{num(1)}
	tab.Add(1, key, words)
	words[0], key[0].Int = 100, 7
	tab.Add(0, Key{num(1)}, []int64{3})
	rows := tab.Rows(Order{})
	if got, want := show(rows), "1 7"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(rows[0].Data[0].Append(nil, Style{})); got != "                7\n    [CPU 0]                3\n    [CPU 1]                4" {
		t.Errorf("per CPU: %q", got)
	}
}

// TestHistogramOrder: histograms sort by the sum of bucket value times count,
// then by the zero bucket.
func TestHistogramOrder(t *testing.T) {
	for _, s := range []Spec{{Func: Quantize}, {Func: Lquantize, Base: -100, Limit: 100, Step: 1}, {Func: Llquantize, Factor: 10, Low: 0, High: 3, Steps: 10}} {
		tab := NewTable("h", 1, s)
		tab.Update(0, str("big"), 64, 1)
		for range 3 {
			tab.Update(0, str("many"), 16, 1)
		}
		tab.Update(0, str("zeros"), 0, 5)
		tab.Update(0, str("zero"), 0, 1)
		tab.Update(0, str("neg"), -4, 1)
		var names []string
		for _, r := range tab.Rows(Order{}) {
			names = append(names, r.Key[0].Str)
		}
		if got, want := strings.Join(names, " "), "neg zero zeros many big"; got != want {
			t.Errorf("%v: %s, want %s", s.Func, got, want)
		}
	}
}

func TestUnprinted(t *testing.T) {
	a, b, c := sum("a", 1), sum("b", 2), sum("c", 3)
	b.Printed = true
	names := func(o Order) (s string) {
		for _, t := range Unprinted([]*Table{c, b, a}, o) {
			s += t.Name
		}
		return s
	}
	if got := names(Order{}); got != "ac" {
		t.Error(got)
	}
	if got := names(Order{Rev: true}); got != "ca" {
		t.Error(got)
	}
}
