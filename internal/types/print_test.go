package types

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func TestPrint(t *testing.T) {
	enum := &Enum{Tag: "color", Bytes: 4, Values: []Enumerator{{"RED", 0}, {"GREEN", 1}}}
	point := NewStruct("D", "point", false, []Field{mem("x", TInt), mem("y", TInt)})
	anon := NewStruct("D", "", true, []Field{mem("i", TUInt), mem("b", arr(4, TUint8))})
	s := NewStruct("D", "test", false, []Field{
		mem("a", TInt), mem("b", arr(5, TChar)), mem("p", &Pointer{Elem: point}), mem("e", enum),
		bit("f", TInt, 3), bit("g", TUInt, 7), mem("in", point), mem("", anon), mem("z", TLong),
		mem("pts", arr(3, point)), mem("n", arr(3, TShort)), mem("c", TChar), mem("flag", TBool),
		mem("fn", &Pointer{Elem: &Func{Ret: TInt, Params: []Param{{"", TInt}}}}),
	})
	data := make([]byte, s.Size())
	put := func(name string, b ...byte) {
		off, _, ok := FindMember(s, name)
		if !ok {
			t.Fatal(name)
		}
		copy(data[off/8:], b)
	}
	put("a", 0xfe, 0xff, 0xff, 0xff)
	put("b", []byte("test")...)
	put("p", 0, 0xc0, 0xa1, 0, 0x81, 0x88, 0xff, 0xff)
	put("e", 1)
	put("f", 0b1111_1110, 0b11) // f = 6 in 3 signed bits, -2; g = 127
	put("in", 0, 0, 0, 0, 7)
	put("i", 1, 2)
	put("pts", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2)
	put("n", 1, 0, 0, 0, 0xff, 0xff)
	put("c", 7)
	put("flag", 1)

	cases := []struct {
		name string
		t    Type
		data []byte
	}{
		{"struct", s, data},
		{"truncated", s, data[:21]},
		{"empty", s, nil},
		{"int", TInt, []byte{42, 0, 0, 0}},
		{"zero", TInt, []byte{0, 0, 0, 0}},
		{"string", NewString(8), []byte("abc\x00\x00\x00\x00\x00")},
		{"typedef", &Typedef{Name: "point_t", Type: point}, []byte{1, 0, 0, 0, 2, 0, 0, 0}},
	}
	var out strings.Builder
	for _, c := range cases {
		out.WriteString("-- " + c.name + " --\n")
		if err := Print(&out, c.t, c.data, PrintOpts{Addr: 0xffff888100a1c000, Indent: PrintIndent}); err != nil {
			t.Fatal(err)
		}
	}
	golden := filepath.Join("testdata", "print.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// FuzzPrint prints types made of the input's first bytes over the rest: it must
// end, whatever the type and however little data there is.
func FuzzPrint(f *testing.F) {
	f.Add([]byte{4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte("\xff\x00\x7fabcdefgh"))
	f.Fuzz(func(t *testing.T, in []byte) {
		basics := []Type{TChar, TBool, TUShort, TInt, TLong, TDouble, TLongDouble, TInt128, TVoidPtr, NewString(3), TVoid}
		var fields []Field
		var last Type = TInt
		n := 0
		for n < len(in) && n < 16 {
			b := in[n]
			x := basics[int(b&0xf)%len(basics)]
			switch b >> 4 {
			case 0, 1:
				x = arr(int64(b>>4)+2, last)
			case 2:
				x = NewStruct("D", "s", b&1 != 0, fields)
				fields = nil
			case 3:
				if IsInteger(x) && x.Size() <= 8 {
					fields = append(fields, bit("b", x, int64(b)%(x.Size()*8)+1))
				}
			}
			if x.Size() < 1<<16 {
				last = x
				fields = append(fields, mem("m", x))
			}
			n++
		}
		var out strings.Builder
		if err := Print(&out, NewStruct("D", "t", false, fields), in[n:], PrintOpts{}); err != nil {
			t.Fatal(err)
		}
	})
}

// Tree says what Print says, nested, and leaves no zeroes out.
func TestTree(t *testing.T) {
	enum := &Enum{Tag: "color", Bytes: 4, Values: []Enumerator{{"RED", 0}, {"GREEN", 1}}}
	point := NewStruct("D", "point", false, []Field{mem("x", TInt), mem("y", TInt)})
	s := NewStruct("D", "test", false, []Field{
		mem("a", TInt), mem("b", arr(5, TChar)), mem("raw", arr(3, TChar)), mem("p", &Pointer{Elem: point}), mem("e", enum), mem("e2", enum),
		bit("f", TInt, 3), bit("g", TUInt, 7), mem("in", point), mem("pts", arr(2, point)), mem("d", TDouble),
	})
	data := make([]byte, s.Size())
	put := func(name string, b ...byte) {
		off, _, ok := FindMember(s, name)
		if !ok {
			t.Fatal(name)
		}
		copy(data[off/8:], b)
	}
	put("a", 0xfe, 0xff, 0xff, 0xff)
	put("b", []byte("test")...)
	put("raw", 'a', 1, 0)
	put("p", 0, 0xc0, 0xa1, 0, 0x81, 0x88, 0xff, 0xff)
	put("e", 1)
	put("e2", 9)
	put("f", 0b1111_1110, 0b11) // f = 6 in 3 signed bits, -2; g = 127
	put("in", 0, 0, 0, 0, 7)
	put("d", 0, 0, 0, 0, 0, 0, 0xf8, 0xbf) // -1.5
	xy := func(name string, x, y int64) Printed {
		return Printed{name, "struct point", []Printed{{"x", "int", x}, {"y", "int", y}}}
	}
	want := Printed{"", "struct test", []Printed{
		{"a", "int", int64(-2)}, {"b", "char [5]", "test"},
		{"raw", "char [3]", []Printed{{"", "char", int64('a')}, {"", "char", int64(1)}, {"", "char", int64(0)}}},
		{"p", "struct point *", "0xffff888100a1c000"}, {"e", "enum color", "GREEN"}, {"e2", "enum color", uint64(9)},
		{"f", "int", int64(-2)}, {"g", "unsigned int", uint64(127)}, xy("in", 0, 7),
		{"pts", "struct point [2]", []Printed{xy("", 0, 0), xy("", 0, 0)}}, {"d", "double", -1.5},
	}}
	if got := Tree(s, data); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	cut := Printed{"", "struct point", []Printed{{"x", "int", int64(3)}}}
	if got := Tree(point, []byte{3, 0, 0, 0, 1}); !reflect.DeepEqual(got, cut) {
		t.Errorf("cut short: got %v, want %v", got, cut)
	}
	if got := Tree(point, nil); !reflect.DeepEqual(got, Printed{Type: "struct point"}) {
		t.Errorf("of nothing: %v", got)
	}
}
