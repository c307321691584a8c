package format

import (
	"fmt"
	"strings"
	"testing"

	"godtrace/internal/agg"
)

func TestTrace(t *testing.T) {
	indent := 2
	for _, c := range []struct {
		v     Value
		o     *Options
		want  string
		quiet string
	}{
		{Value{Kind: Signed, Size: 1, Int: ^uint64(0)}, nil, "  -1", "-1"},
		{Value{Kind: Signed, Size: 2, Int: ^uint64(0)}, nil, "    -1", "-1"},
		{i32(-1), nil, "         -1", "-1"},
		{Value{Kind: Signed, Size: 8, Int: 5}, nil, "                   5", "5"},
		{Value{Kind: Unsigned, Size: 1, Int: 200}, nil, " 200", "200"},
		{Value{Kind: Unsigned, Size: 2, Int: 65535}, nil, " 65535", "65535"},
		{Value{Kind: Unsigned, Size: 4, Int: 1<<32 - 1}, nil, " 4294967295", "4294967295"},
		{u64(5), nil, "                    5", "5"},
		{u64(1<<64 - 1), nil, " 18446744073709551615", "18446744073709551615"},
		{txt("ls"), nil, "  ls                               ", "ls"},
		{txt("a\x00b"), nil, "  a                                ", "a"},
		{txt("a string that is longer than thirty-three"), nil, "  a string that is longer than thirty-three", "a string that is longer than thirty-three"},
		{Value{Kind: Sym, Int: 0x1010}, nil, "  vmlinux`vfs_read                                  ", ""},
		{Value{Kind: UAddr, PID: 7, Int: 0x1010}, nil, "  libc.so.6`malloc+0x10                             ", ""},
		{Value{Kind: USym, PID: 7, Int: 0x1010}, nil, "  libc.so.6`malloc                                  ", ""},
		{Value{Kind: Mod, Int: 0x2010}, nil, "  ext4                                              ", ""},
		{Value{Kind: Stack, PCs: []uint64{0x1004, 0}}, nil, "\n              vmlinux`vfs_read+0x4\n", ""},
		{Value{Kind: Stack, PCs: []uint64{0x1004}}, &Options{StackIndent: &indent, Resolver: world{}}, "\n  vmlinux`vfs_read+0x4\n", ""},
		{Value{Kind: UStack, PID: 7, PCs: []uint64{0x1004, 0x9000}}, &Options{NoResolve: true, Resolver: world{}},
			"\n              libc.so.6:0x4\n              0x9000\n", ""},
		{Value{Kind: USym, PID: 7, Int: 0x2010}, &Options{NoResolve: true, Resolver: world{}}, "  a.out:0x10                                        ", ""},
		{i32(0x41), &Options{RawBytes: true}, `
             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef
         0: 41 00 00 00                                      A...
`, ""},
	} {
		o := c.o
		if o == nil {
			o = opts()
		}
		if got := string(Trace(nil, c.v, o)); got != c.want {
			t.Errorf("trace of %+v: %q, want %q", c.v, got, c.want)
		}
		if c.quiet != "" {
			if got := string(Trace(nil, c.v, &Options{Quiet: true})); got != c.quiet {
				t.Errorf("quiet trace of %+v: %q, want %q", c.v, got, c.quiet)
			}
		}
	}
}

func TestDump(t *testing.T) {
	m := append([]byte("0123456789abcdef"), "hello\n\x80\xff"...)
	want := `
             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef
         0: 30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef
        10: 68 65 6c 6c 6f 0a 80 ff                          hello...
`
	if got := string(DumpBytes(nil, m)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := DumpBytes(nil, nil); len(got) != 0 {
		t.Errorf("dump of nothing: %q", got)
	}
	if got := string(Trace(nil, Value{Kind: Bytes, Bytes: m}, nil)); got != want {
		t.Errorf("trace of memory:\n%s", got)
	}
}

func TestKey(t *testing.T) {
	for _, c := range []struct {
		p    agg.Part
		want string
	}{
		{agg.Part{Kind: agg.String, Str: "dtrace"}, "  dtrace                                            "},
		{agg.Part{Kind: agg.Unsigned, Size: 1, Int: 255}, " 255"},
		{agg.Part{Kind: agg.Unsigned, Size: 2, Int: 7}, "     7"},
		{agg.Part{Kind: agg.Signed, Size: 4, Int: ^uint64(0)}, "       -1"},
		{agg.Part{Kind: agg.Signed, Size: 8, Int: ^uint64(0)}, "               -1"},
		{agg.Part{Kind: agg.Sym, Int: 0x1000}, "  vmlinux`vfs_read                                  "},
		{agg.Part{Kind: agg.Bytes, Str: "text\x00\x00"}, "  text                                              "},
		{agg.Part{Kind: agg.Bytes, Str: "te\x00t"}, `
             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef
         0: 74 65 00 74                                      te.t
`},
	} {
		if got := string(appendKey(nil, c.p, false, opts())); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
}

func table(f agg.Func, id int, kv ...any) *agg.Table {
	t := agg.NewTable("t", id, agg.Spec{Func: f})
	for i := 0; i < len(kv); i += 2 {
		t.Update(0, agg.Key{{Kind: agg.String, Str: kv[i].(string)}}, int64(kv[i+1].(int)), 1)
	}
	return t
}

// TestRows: the first table is an example of Oracle's user guide.
func TestRows(t *testing.T) {
	sd := table(agg.Sum, 1, "head", 0, "getopt", 5646, "sed", 7236, "basename", 7061)
	want := `  head                                                              0
  getopt                                                         5646
  basename                                                       7061
  sed                                                            7236
`
	if got := string(Rows(nil, sd.Rows(agg.Order{}), nil)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}

	a, b := table(agg.Sum, 1, "x", 5, "y", 1), table(agg.Count, 2, "y", 0)
	want = `  y                                                                 1                1
  x                                                                 5                0
`
	if got := string(Rows(nil, agg.Join([]*agg.Table{a, b}, agg.Order{}), nil)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}

	q := table(agg.Quantize, 3, "gnome-terminal", 8192)
	want = `  gnome-terminal                                    
           value  ------------- Distribution ------------- count    
            4096 |                                         0        
            8192 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1        
           16384 |                                         0        

`
	if got := string(Rows(nil, q.Rows(agg.Order{}), nil)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}

	want = `
              key  ------------- Distribution ------------- count    
                y |@@@@@@@                                  1        
                x |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@        5        
`
	if got := string(Rows(nil, a.Rows(agg.Order{}), &Options{Agg: agg.Style{Hist: true}})); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}

	stack := agg.NewTable("s", 4, agg.Spec{Func: agg.Count})
	stack.Update(0, agg.Key{{Kind: agg.Stack, PCs: []uint64{0x1000}}}, 0, 1)
	want = "\n              vmlinux`vfs_read\n                1\n"
	if got := string(Rows(nil, stack.Rows(agg.Order{}), opts())); got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

func TestAppendRow(t *testing.T) {
	a, b := table(agg.Sum, 1, "x", -5, "y", 1), table(agg.Count, 2, "y", 0)
	rows := agg.Join([]*agg.Table{a, b}, agg.Order{})
	for _, c := range []struct{ format, want string }{
		{"%s %@d %@u\n", "x -5 0\ny 1 1\n"},
		{"%@d %@5d %@x %s|", "-5     0 0 x|1     1 1 y|"},
		{"%@d;", "-5;1;"},
	} {
		var out []byte
		for _, r := range rows {
			var err error
			if out, err = parse(t, c.format).AppendRow(out, r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if string(out) != c.want {
			t.Errorf("%q: %q, want %q", c.format, out, c.want)
		}
	}

	q := table(agg.Quantize, 3, "x", 1)
	out, err := parse(t, "%s:%@d").AppendRow(nil, q.Rows(agg.Order{})[0], nil)
	if err != nil || !strings.HasPrefix(string(out), "x:\n           value  ---") {
		t.Errorf("%q %v", out, err)
	}
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{Header(nil, false), fmt.Sprintf("%3s %6s %32s\n", "CPU", "ID", "FUNCTION:NAME")},
		{Header(nil, true), fmt.Sprintf("%3s %-41s\n", "CPU", "FUNCTION")},
		{ProbeLine(nil, 1, 32051, "__kmalloc_noprof", "entry"), "  1  32051           __kmalloc_noprof:entry "},
		{ProbeLine(nil, 0, 1, "", "BEGIN"), "  0      1                           :BEGIN "},
	} {
		if string(c.got) != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestFlow(t *testing.T) {
	var f Flow
	var b []byte
	for _, c := range []struct {
		prov, fn, name string
		again          bool
	}{
		{"syscall", "read", "entry", false},
		{"fbt", "vfs_read", "entry", false},
		{"fbt", "vfs_read", "entry", true},
		{"profile", "", "tick-1s", false},
		{"fbt", "vfs_read", "return", true},
		{"fbt", "vfs_read", "return", false},
		{"syscall", "read", "return", false},
		{"fbt", "lost", "return", false},
		{"py", "f", "function-entry", false},
		{"x", "carpentry", "gentry", false},
	} {
		b = f.Line(b, 0, c.prov, c.fn, c.name, c.again)
		b = append(b, '\n')
	}
	// Shape: CPU 3 wide, a blank, 41 columns of indentation, arrow and name.
	want := ""
	for _, l := range []string{
		" => read",
		"   -> vfs_read",
		"    | vfs_read:entry",
		"    | :tick-1s",
		"    | vfs_read:return",
		"   <- vfs_read",
		" <= read",
		" <- lost",
		" -> f",
		"  | carpentry:gentry",
	} {
		want += fmt.Sprintf("%3d %-41s \n", 0, l)
	}
	if got := string(b); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
