package types

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

func readLines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// arr and bit are short for the members of testdata/layout.c.
func arr(n int64, t Type) Type                   { return &Array{Elem: t, N: n} }
func bit(name string, t Type, width int64) Field { return Field{Name: name, Type: t, Bits: width} }
func mem(name string, t Type) Field              { return Field{Name: name, Type: t} }

// TestLayout lays out the structs of testdata/layout.c and compares with what
// gcc did (testdata/layout.txt: struct, member, bit offset, width in bits; for
// member "-" size and alignment in bytes).
func TestLayout(t *testing.T) {
	structs := map[string]*Struct{}
	def := func(name string, f ...Field) *Struct {
		s := NewStruct("D", name, name[0] == 'u', f)
		structs[name] = s
		return s
	}
	def("s1", mem("a", TChar), mem("b", TInt), mem("c", TChar), mem("d", TShort), mem("e", TLong))
	def("s2", mem("a", TChar), mem("b", TLongDouble), mem("c", TChar))
	s3 := def("s3", bit("a", TInt, 3), bit("b", TInt, 5), bit("c", TUInt, 30), bit("d", TLong, 40), mem("e", TChar))
	def("s4", mem("a", TChar), bit("b", TInt, 4), bit("", TInt, 0), bit("c", TInt, 4), bit("d", TChar, 2))
	def("s5", mem("a", arr(3, TChar)), mem("b", TShort), mem("c", arr(5, TChar)))
	u1 := def("u1", mem("a", arr(7, TChar)), mem("b", TInt), bit("c", TLong, 33))
	def("s6", mem("x", TChar), mem("in", s3), mem("u", u1), mem("y", TChar))
	def("s7", bit("a", TShort, 9), bit("b", TShort, 9), bit("c", TChar, 7), bit("", TInt, 5), bit("d", TChar, 4), bit("e", TBool, 1))
	def("s8", mem("a", TChar), bit("", TInt, 3), mem("b", TChar))
	def("s9", mem("a", TChar), mem("p", TVoidPtr), mem("f", TFloat), mem("g", TDouble), mem("i", TInt128))
	def("s10", mem("a", TChar), bit("", TInt, 0))
	def("s11", bit("a", TLong, 10), bit("b", TInt, 31), bit("c", TLong, 33), bit("d", TLong, 33))
	def("s12", mem("n", TInt), mem("rest", &Array{Elem: TChar, Flexible: true}))
	def("u2", bit("a", TChar, 3), bit("b", TInt, 17))

	seen := map[string]bool{}
	for _, line := range readLines(t, "testdata/layout.txt") {
		var name, member string
		var x, y int64
		if _, err := fmt.Sscan(line, &name, &member, &x, &y); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		s := structs[name]
		seen[name] = true
		if member == "-" {
			if s.Size() != x || s.Align() != y {
				t.Errorf("%s: size %d align %d, gcc %d %d", name, s.Size(), s.Align(), x, y)
			}
			continue
		}
		off, f, ok := FindMember(s, member)
		width := f.Bits
		if width == 0 && ok {
			width = f.Type.Size() * 8
		}
		if !ok || off != x || width != y {
			t.Errorf("%s.%s: bit %d width %d, gcc %d %d", name, member, off, width, x, y)
		}
	}
	if len(seen) != len(structs) {
		t.Errorf("%d structs in the table, %d here", len(seen), len(structs))
	}
}

// TestArith compares conversions with gcc's (testdata/arith.c).
func TestArith(t *testing.T) {
	c := NewCScope()
	typ := func(name string) Type {
		x, ok := c.LookupType(TypedefName, name)
		if !ok {
			t.Fatalf("no type %q", name)
		}
		return x
	}
	for _, line := range readLines(t, "testdata/arith.txt") {
		f := strings.Split(line, "|")
		var got, want string
		switch f[0] {
		case "add":
			got, want = UsualArith(typ(f[1]), typ(f[2])).String(), f[3]
		case "pos":
			got, want = Promote(typ(f[1])).String(), f[2]
		case "conv":
			v, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			got, want = strconv.FormatInt(Convert(v, typ(f[1])), 10), f[3]
		case "lit":
			digits := strings.TrimRight(f[1], "ul")
			v, err := strconv.ParseUint(digits, 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			x, ok := ForConst(v, digits[0] != '0', f[1][len(digits):])
			if !ok {
				t.Errorf("%s: no type", line)
				continue
			}
			got, want = x.String(), f[2]
		default:
			t.Fatalf("line %q", line)
		}
		if got != want {
			t.Errorf("%s: got %s, gcc %s", line, got, want)
		}
	}
	if x, ok := ForConst(1<<63, true, ""); ok {
		t.Errorf("9223372036854775808 has the type %s", x)
	}
}

func TestFindMember(t *testing.T) {
	inner := NewStruct("D", "", true, []Field{mem("i", TInt), mem("s", TShort)})
	deep := NewStruct("D", "", false, []Field{mem("pad", TLong), mem("", inner)})
	s := NewStruct("D", "s", false, []Field{mem("a", TChar), mem("", deep), bit("f", TInt, 3)})
	for _, tt := range []struct {
		name string
		off  int64
		ok   bool
	}{{"a", 0, true}, {"pad", 64, true}, {"i", 128, true}, {"s", 128, true}, {"f", 192, true}, {"x", 0, false}, {"", 0, false}} {
		off, f, ok := FindMember(&Typedef{Name: "s_t", Type: s}, tt.name)
		if ok != tt.ok || off != tt.off || ok && f.Name != tt.name {
			t.Errorf("%q: %d %v %v, want %+v", tt.name, off, f, ok, tt)
		}
	}
	// A struct that holds itself cannot be declared in C, but in a broken blob.
	loop := &Struct{Tag: "loop", Bytes: 8}
	loop.Fields = []Field{{Type: loop}, {Type: loop}}
	if _, _, ok := FindMember(loop, "x"); ok {
		t.Error("found x in loop")
	}
}
