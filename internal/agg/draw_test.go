package agg

import "testing"

// fill puts count firings of each value into a datum.
func fill(s Spec, pairs ...int64) Datum {
	d := Datum{Spec: s, Words: make([]int64, s.Words())}
	for i := 0; i < len(pairs); i += 2 {
		if n := pairs[i+1]; n > 0 && n < 1000 {
			for range n {
				s.Update(d.Words, pairs[i], 1)
			}
		} else {
			s.Update(d.Words, pairs[i], n)
		}
	}
	return d
}

// The tables come from published output of DTrace: the sizes sshd reads, in
// "DTrace Internals" (EuroBSDCon 2016), and the examples of Oracle's DTrace
// user guide for quantize(), lquantize() and llquantize(). The ones marked
// "rule" follow the drawing rules: a bar is 40 wide for all that is drawn,
// rounded half up; negative counts grow to the left of the axis; both signs
// share 20 columns each.
var drawings = []struct {
	name  string
	datum Datum
	style Style
	want  string
}{
	{"sshd", fill(Spec{Func: Quantize}, 0, 23, 1, 41, 2, 1, 4, 19, 8, 4, 16, 2, 32, 6, 64, 9, 128, 12,
		256, 20, 512, 9, 1024, 12, 2048, 4, 4096, 4, 8192, 3), Style{}, `
           value  ------------- Distribution ------------- count    
              -1 |                                         0        
               0 |@@@@@                                    23       
               1 |@@@@@@@@@@                               41       
               2 |                                         1        
               4 |@@@@                                     19       
               8 |@                                        4        
              16 |                                         2        
              32 |@                                        6        
              64 |@@                                       9        
             128 |@@@                                      12       
             256 |@@@@@                                    20       
             512 |@@                                       9        
            1024 |@@@                                      12       
            2048 |@                                        4        
            4096 |@                                        4        
            8192 |@                                        3        
           16384 |                                         0        
`},
	{"Xorg", fill(Spec{Func: Quantize}, 4096, 4, 8192, 8, 16384, 7, 32768, 2, 65536, 1, 2097152, 2), Style{}, `
           value  ------------- Distribution ------------- count    
            2048 |                                         0        
            4096 |@@@@@@@                                  4        
            8192 |@@@@@@@@@@@@@                            8        
           16384 |@@@@@@@@@@@@                             7        
           32768 |@@@                                      2        
           65536 |@@                                       1        
          131072 |                                         0        
          262144 |                                         0        
          524288 |                                         0        
         1048576 |                                         0        
         2097152 |@@@                                      2        
         4194304 |                                         0        
`},
	{"gnome-session", fill(Spec{Func: Lquantize, Base: 0, Limit: 100, Step: 1}, 26, 9), Style{}, `
           value  ------------- Distribution ------------- count    
              25 |                                         0        
              26 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 9        
              27 |                                         0        
`},
	{"latency", fill(Spec{Func: Llquantize, Factor: 10, Low: 3, High: 5, Steps: 5},
		0, 2888133, 1000, 1017345, 2000, 714432, 4000, 266057, 6000, 118797, 8000, 84332,
		10000, 152108, 20000, 125154, 40000, 49334, 60000, 38374, 80000, 31739,
		100000, 91033, 200000, 51153, 400000, 20343, 600000, 10685, 800000, 6970, 1000000, 2081856), Style{}, `
           value  ------------- Distribution ------------- count    
           -1000 |                                         0        
    abs() < 1000 |@@@@@@@@@@@@@@@                          2888133  
            1000 |@@@@@                                    1017345  
            2000 |@@@@                                     714432   
            4000 |@                                        266057   
            6000 |@                                        118797   
            8000 |                                         84332    
           10000 |@                                        152108   
           20000 |@                                        125154   
           40000 |                                         49334    
           60000 |                                         38374    
           80000 |                                         31739    
          100000 |                                         91033    
          200000 |                                         51153    
          400000 |                                         20343    
          600000 |                                         10685    
          800000 |                                         6970     
      >= 1000000 |@@@@@@@@@@@                              2081856  
`},
	{"empty quantize (rule)", Datum{Spec: Spec{Func: Quantize}}, Style{}, `
           value  ------------- Distribution ------------- count    
              -1 |                                         0        
               0 |                                         0        
               1 |                                         0        
`},
	{"empty lquantize (rule)", Datum{Spec: Spec{Func: Lquantize, Base: 10, Limit: 100, Step: 10}}, Style{}, `
           value  ------------- Distribution ------------- count    
            < 10 |                                         0        
              10 |                                         0        
              20 |                                         0        
`},
	{"empty llquantize (rule)", Datum{Spec: llq}, Style{}, `
           value  ------------- Distribution ------------- count    
               0 |                                         0        
               1 |                                         0        
               2 |                                         0        
`},
	{"lquantize ends (rule)", fill(Spec{Func: Lquantize, Base: 0, Limit: 30, Step: 10}, -1, 1, 29, 2, 30, 1), Style{}, `
           value  ------------- Distribution ------------- count    
             < 0 |@@@@@@@@@@                               1        
               0 |                                         0        
              10 |                                         0        
              20 |@@@@@@@@@@@@@@@@@@@@                     2        
           >= 30 |@@@@@@@@@@                               1        
`},
	{"negative counts (rule)", fill(Spec{Func: Quantize}, 1, -3, 2, -1), Style{}, `
           value  ------------- Distribution ------------- count    
               0                                         | 0        
               1           @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@| -3       
               2                               @@@@@@@@@@| -1       
               4                                         | 0        
`},
	{"mixed counts (rule)", fill(Spec{Func: Quantize}, 1, -3, 2, 1), Style{}, `
           value  ------------- Distribution ------------- count    
               0                     |                     0        
               1      @@@@@@@@@@@@@@@|                     -3       
               2                     |@@@@@                1        
               4                     |                     0        
`},
	{"normalized (rule)", func() Datum { d := fill(Spec{Func: Quantize}, 1, 30, 2, 10); d.Normal = 10; return d }(), Style{}, `
           value  ------------- Distribution ------------- count    
               0 |                                         0        
               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           3        
               2 |@@@@@@@@@@                               1        
               4 |                                         0        
`},
	{"zoomed (rule)", fill(Spec{Func: Quantize}, 1, 30, 2, 15), Style{Zoom: true}, `
           value  ------------- Distribution ------------- count    
               0 |                                         0        
               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@   30       
               2 |@@@@@@@@@@@@@@@@@@@                      15       
               4 |                                         0        
`},
	{"utf8 (rule)", fill(Spec{Func: Quantize}, 1, 31, 2, 9), Style{Encoding: UTF8}, `
           value  ------------- Distribution ------------- count    
               0 |                                         0        
               1 |███████████████████████████████          31       
               2 |█████████                                9        
               4 |                                         0        
`},
	{"utf8 parts (rule)", fill(Spec{Func: Quantize}, 1, 159, 2, 1), Style{Encoding: UTF8}, `
           value  ------------- Distribution ------------- count    
               0 |                                         0        
               1 |███████████████████████████████████████▊ 159      
               2 |▎                                        1        
               4 |                                         0        
`},
	{"steps finer than integers (rule)", fill(llq, 1, 1, 3, 1), Style{}, `
           value  ------------- Distribution ------------- count    
               0 |                                         0        
               1 |@@@@@@@@@@@@@@@@@@@@                     1        
               2 |                                         0        
               3 |@@@@@@@@@@@@@@@@@@@@                     1        
               4 |                                         0        
`},
	{"negative values (rule)", fill(Spec{Func: Llquantize, Factor: 10, Low: 1, High: 2, Steps: 10}, -20, 1, -1000, 1, 3, 2), Style{}, `
           value  ------------- Distribution ------------- count    
        <= -1000 |@@@@@@@@@@                               1        
            -900 |                                         0        
            -800 |                                         0        
            -700 |                                         0        
            -600 |                                         0        
            -500 |                                         0        
            -400 |                                         0        
            -300 |                                         0        
            -200 |                                         0        
            -100 |                                         0        
             -90 |                                         0        
             -80 |                                         0        
             -70 |                                         0        
             -60 |                                         0        
             -50 |                                         0        
             -40 |                                         0        
             -30 |                                         0        
             -20 |@@@@@@@@@@                               1        
             -10 |                                         0        
      abs() < 10 |@@@@@@@@@@@@@@@@@@@@                     2        
              10 |                                         0        
`},
	{"low values out of sight (rule)", fill(Spec{Func: Llquantize, Factor: 10, Low: 1, High: 2, Steps: 10}, 11, 1), Style{}, `
           value  ------------- Distribution ------------- count    
            < 10 |                                         0        
              10 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1        
              20 |                                         0        
`},
}

func TestDraw(t *testing.T) {
	for _, c := range drawings {
		if got := string(c.datum.Draw(nil, c.style)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		d    Datum
		want string
	}{
		{fill(Spec{Func: Count}, 0, 12), "               12"},
		{fill(Spec{Func: Sum}, -5, 2), "              -10"},
		{fill(Spec{Func: Avg}, 4, 1, 6, 1), "                5"},
		{Datum{Spec: Spec{Func: Stddev}}, "                0"},
		{fill(Spec{Func: Max}, 1234567890123456789, 1), " 1234567890123456789"},
	} {
		if got := string(c.d.Append(nil, Style{})); got != c.want {
			t.Errorf("%v: %q, want %q", c.d.Spec.Func, got, c.want)
		}
	}
}

func chart(t *testing.T, tab *Table, s Style, keyWidth int) string {
	t.Helper()
	rows := tab.Rows(Order{})
	c := NewChart(rows, s)
	if c == nil {
		t.Fatal("no chart")
	}
	b := c.Header(nil, keyWidth)
	for _, r := range rows {
		for _, p := range r.Key {
			b = append(b, ' ')
			b = pad(b, p.Str, keyWidth-1)
		}
		b = c.Row(b, r.Data[0])
	}
	return string(b)
}

func TestCharts(t *testing.T) {
	counts := NewTable("c", 1, Spec{Func: Sum})
	counts.Update(0, str("ls"), 1, 1)
	counts.Update(0, str("cat"), 3, 1)
	want := `
      key  ------------- Distribution ------------- count    
       ls |@@@@@@@@@@                               1        
      cat |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           3        
`
	if got := chart(t, counts, Style{Hist: true}, 9); got != want {
		t.Errorf("agghist:\n%s\nwant\n%s", got, want)
	}

	q := NewTable("q", 1, Spec{Func: Quantize})
	q.Update(0, str("ls"), 1, 7)
	q.Update(0, str("ls"), 2, 1)
	q.Update(0, str("cat"), 2, 4)
	q.Update(0, str("cat"), 4, 4)
	want = `
      key  min .-----. max  | count
       ls    0 : ▇▂  : 8    | 8
      cat    0 :  ▅▅ : 8    | 8
`
	if got := chart(t, q, Style{Pack: true}, 9); got != want {
		t.Errorf("aggpack:\n%s\nwant\n%s", got, want)
	}
	want = `
      key  min .-----. max  | count
       ls    0 : X_  : 8    | 8
      cat    0 :  xx : 8    | 8
`
	if got := chart(t, q, Style{Pack: true, Encoding: ASCII}, 9); got != want {
		t.Errorf("aggpack, ascii:\n%s\nwant\n%s", got, want)
	}

	l := NewTable("l", 1, Spec{Func: Lquantize, Base: 0, Limit: 30, Step: 10})
	l.Update(0, str("ls"), -1, 1)
	l.Update(0, str("ls"), 29, 1)
	want = `
      key     min .-----. max      | count
       ls     < 0 :▅  ▅ : >= 30    | 2
`
	if got := chart(t, l, Style{Pack: true}, 9); got != want {
		t.Errorf("aggpack of lquantize:\n%s\nwant\n%s", got, want)
	}

	for _, c := range []struct {
		spec  Spec
		style Style
	}{
		{Spec{Func: Max}, Style{Hist: true}}, {Spec{Func: Count}, Style{Pack: true}},
		{llq, Style{Pack: true}}, {Spec{Func: Quantize}, Style{Hist: true}}, {Spec{Func: Quantize}, Style{}},
	} {
		tab := NewTable("x", 1, c.spec)
		tab.Update(0, nil, 1, 1)
		if NewChart(tab.Rows(Order{}), c.style) != nil {
			t.Errorf("%v: chart with %+v", c.spec.Func, c.style)
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	d := drawings[0].datum
	var buf []byte
	for b.Loop() {
		buf = d.Draw(buf[:0], Style{})
	}
}

func BenchmarkAdd(b *testing.B) {
	tab := NewTable("a", 1, Spec{Func: Count})
	key := Key{{Kind: String, Str: "dtrace"}, num(4)}
	one := []int64{1}
	for b.Loop() {
		tab.Add(0, key, one)
	}
}
