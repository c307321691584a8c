package format

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"godtrace/internal/agg"
	"godtrace/internal/types"
)

func parse(t testing.TB, s string) *Format {
	t.Helper()
	f, err := Parse(s)
	if err != nil {
		t.Fatalf("Parse(%q): %v", s, err)
	}
	return f
}

// TestPrintfC compares with a table made by C's printf: see testdata/printf.c.
func TestPrintfC(t *testing.T) {
	file, err := os.Open("testdata/printf.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := 0
	for in := bufio.NewScanner(file); in.Scan(); lines++ {
		c := strings.Split(in.Text(), "\t")
		format, size, val, want := c[0], c[1], c[2], c[3]
		var v Value
		switch size {
		case "f":
			v = Value{Kind: Float, Size: 8}
			if v.Float, err = strconv.ParseFloat(val, 64); err != nil {
				t.Fatal(err)
			}
		case "s":
			v = Value{Kind: String, Bytes: []byte(val)}
		default:
			n, err := strconv.ParseInt(val, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			v = Value{Kind: Signed, Size: size[0] - '0', Int: uint64(n)}
		}
		b, err := parse(t, "<"+format+">").Append(nil, []Value{v}, nil)
		if err != nil || string(b) != want {
			t.Errorf("%s of %s (%s): %s %v, want %s", format, val, size, b, err, want)
		}
	}
	if lines < 1000 {
		t.Errorf("only %d lines in the table", lines)
	}
}

func i32(v int32) Value  { return Value{Kind: Signed, Size: 4, Int: uint64(int64(v))} }
func u64(v uint64) Value { return Value{Kind: Unsigned, Size: 8, Int: v} }
func txt(s string) Value { return Value{Kind: String, Bytes: []byte(s)} }

// world resolves a few made-up addresses.
type world struct{}

func (world) KernelSym(a uint64) Place {
	switch {
	case a >= 0x1000 && a < 0x1100:
		return Place{"vmlinux", "vfs_read", a - 0x1000}
	case a >= 0x2000 && a < 0x2100:
		return Place{"ext4", "", a - 0x2000}
	}
	return Place{}
}

func (world) UserSym(pid int32, a uint64) Place {
	switch {
	case pid == 7 && a >= 0x1000 && a < 0x1100:
		return Place{"libc.so.6", "malloc", a - 0x1000}
	case pid == 7 && a >= 0x2000 && a < 0x2100:
		return Place{"a.out", "", a - 0x2000}
	}
	return Place{}
}

func (world) Host(a string) string {
	if a == "127.0.0.1" {
		return "localhost"
	}
	return ""
}

func (world) Service(p uint16) string {
	if p == 22 {
		return "ssh"
	}
	return ""
}

func opts() *Options {
	return &Options{Resolver: world{}, Target: 7, Location: time.FixedZone("CET", 3600)}
}

func TestAppend(t *testing.T) {
	pcs := []uint64{0x1010, 0x1000, 0x2001, 0x3000, 0, 0x1000}
	for _, c := range []struct {
		format string
		values []Value
		want   string
	}{
		{"no conversion", nil, "no conversion"},
		{"100%%\n", nil, "100%\n"},
		{"%s %d", []Value{txt("ls"), i32(-5)}, "ls -5"},
		{"%d %d", []Value{{Kind: Unsigned, Size: 4, Int: 1<<32 - 1}, u64(1<<64 - 1)}, "4294967295 18446744073709551615"},
		{"%u %x %o", []Value{{Kind: Signed, Size: 1, Int: ^uint64(0)}, {Kind: Signed, Size: 2, Int: ^uint64(0)}, i32(8)}, "255 ffff 10"},
		{"%hd %lld %lx %llX", []Value{{Kind: Signed, Size: 2, Int: 1<<64 - 2}, {Kind: Signed, Size: 8, Int: 1<<64 - 2}, u64(10), u64(10)}, "-2 -2 a A"},
		{"%p %?p|", []Value{u64(0xffff8000), u64(0xab)}, "ffff8000               ab|"},
		{"%?x", []Value{u64(0xab)}, "              ab"},
		{"%0?x", []Value{u64(0xab)}, "00000000000000ab"},
		{"%*d|%-*d|%*d|", []Value{i32(4), i32(1), i32(4), i32(2), i32(-4), i32(3)}, "   1|2   |3   |"},
		{"%*.*s|%.*s|%.0s", []Value{i32(5), i32(2), txt("abcdef"), i32(-1), txt("abc"), txt("xyz")}, "   ab|abc|xyz"},
		{"%c%c%5c|", []Value{i32('h'), {Kind: Signed, Size: 1, Int: 'i'}, i32('x')}, "hi    x|"},
		{"%C%C%C%C", []Value{i32('a'), i32('\n'), i32(0), {Kind: Signed, Size: 1, Int: 0xc3}}, `a\n\0\303`},
		{"%S", []Value{txt("a\tb\"c\\\x01\x00junk")}, `a\tb\"c\\\001\0`},
		{"%S|", []Value{{Kind: Bytes, Bytes: []byte("ab\a\b\f\n\r\v")}}, `ab\a\b\f\n\r\v|`},
		{"%s|", []Value{{Kind: Bytes, Bytes: []byte("ab\x00cd")}}, "ab|"},
		{"%ws|%lc", []Value{{Kind: Bytes, Bytes: []byte{'h', 0, 0, 0, 0xe9, 0, 0, 0, 0, 0, 0, 0, 'x', 0, 0, 0}}, i32('é')}, "hé|é"},
		{"%a %a %a %a", []Value{u64(0x1000), u64(0x1010), u64(0x2004), u64(5)}, "vmlinux`vfs_read vmlinux`vfs_read+0x10 ext4`0x2004 0x5"},
		{"%20a|", []Value{{Kind: Sym, Int: 0x1000}}, "    vmlinux`vfs_read|"},
		{"%A %A %A", []Value{{Kind: USym, PID: 7, Int: 0x1001}, {Kind: UAddr, PID: 8, Int: 0x1001}, u64(0x1002)},
			"libc.so.6`malloc+0x1 0x1001 libc.so.6`malloc+0x2"},
		{"%a %A", []Value{{Kind: Mod, Int: 0x1010}, {Kind: UMod, PID: 7, Int: 0x2010}}, "vmlinux a.out"},
		{"%k", []Value{{Kind: Stack, PCs: pcs}}, "\nvmlinux`vfs_read+0x10\nvmlinux`vfs_read\next4`0x2001\n0x3000\n"},
		{"%20k", []Value{{Kind: Stack, PCs: pcs[:2]}}, "\nvmlinux`vfs_read+0x10\n    vmlinux`vfs_read\n"},
		{"%-4k", []Value{{Kind: Stack, PCs: pcs[:2]}}, "\n    vmlinux`vfs_read+0x10\n    vmlinux`vfs_read\n"},
		{"%k", []Value{{Kind: UStack, PID: 7, PCs: []uint64{0x1000, 0x3000, 0x2000}, Notes: []string{"@note", "Main.run", ""}}},
			"\nlibc.so.6`malloc\n  [ note ]\nMain.run\na.out`0x2000\n"},
		{"%Y|%24Y|", []Value{u64(1e9 * 123456789), u64(1e9 * 1763611867)}, "1973 Nov 29 22:33:09|    2025 Nov 20 05:11:07|"},
		{"%Y", []Value{u64(1e9 * 123724800)}, "1973 Dec  3 01:00:00"},
		{"%T", []Value{u64(1e9*1763611867 + 5)}, "Thu, 20 Nov 2025 05:11:07 CET"},
		{"%T", []Value{u64(1e9 * 1735596000)}, "Mon, 30 Dec 2025 23:00:00 CET"}, // %G: the year of the ISO week
		{"%I %I", []Value{txt("127.0.0.1"), txt("::1")}, "localhost ::1"},
		{"%P %P %6P", []Value{{Kind: Unsigned, Size: 2, Int: 22}, i32(2222), i32(22)}, "ssh 2222    ssh"},
		{"%-05d|%0-5d|", []Value{i32(42), i32(42)}, "00042|42   |"}, // the last of the two wins
		{"% d|%+d|%+u", []Value{i32(1), i32(1), i32(1)}, " 1|+1|1"},
	} {
		f := parse(t, c.format)
		if f.Values() != len(c.values) {
			t.Errorf("%q takes %d values, want %d", c.format, f.Values(), len(c.values))
		}
		b, err := f.Append(nil, c.values, opts())
		if err != nil || string(b) != c.want {
			t.Errorf("%q:\n%q %v, want\n%q", c.format, b, err, c.want)
		}
	}
}

func TestMismatch(t *testing.T) {
	for _, c := range []struct {
		format string
		values []Value
	}{
		{"%d", nil}, {"x", []Value{i32(1)}}, {"%d", []Value{txt("a")}}, {"%s", []Value{i32(1)}},
		{"%*d", []Value{txt("a"), i32(1)}}, {"%*d", []Value{i32(1)}}, {"%k", []Value{i32(1)}}, {"%@d", nil},
		{"%f", []Value{i32(1)}}, {"%Y", []Value{txt("a")}}, {"%a", []Value{txt("a")}}, {"%A", []Value{{Kind: Sym}}},
	} {
		if b, err := parse(t, c.format).Append(nil, c.values, nil); !errors.Is(err, ErrMismatch) {
			t.Errorf("%q of %v: %q, %v", c.format, c.values, b, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ format, tag, msg string }{
		{"", "D_PRINTF_FMT_EMPTY", "format string is empty"},
		{"%", "D_SYNTAX", "format conversion #1 name expected before end of format string"},
		{"%d %-5", "D_SYNTAX", "format conversion #2 name expected before end of format string"},
		{"%d %v", "D_SYNTAX", "format conversion #2 is undefined: %v"},
		{"%hhd", "D_SYNTAX", "format conversion #1 is undefined: %hhd"},
		{"%5%", "D_SYNTAX", "format conversion #1 cannot be combined with other format flags: %%"},
		{"%1$d", "D_SYNTAX", "format conversion #1 uses unsupported positional format (%n$)"},
		{"%**d", "D_SYNTAX", "format conversion #1 has more than one '*' specified for the output width"},
		{"%.*.*d", "D_SYNTAX", "format conversion #1 has more than one '.' specified"},
		{"%.**d", "D_SYNTAX", "format conversion #1 has more than one '*' specified for the output precision"},
		{"%hhlllllllld", "D_SYNTAX", "format conversion #1 is undefined: %hhlllld"},
	} {
		_, err := Parse(c.format)
		var e *Error
		if !errors.As(err, &e) || e.Tag != c.tag || e.Msg != c.msg {
			t.Errorf("Parse(%q) = %+v, want %s %q", c.format, err, c.tag, c.msg)
		}
	}
}

func TestCheck(t *testing.T) {
	charArray := &types.Array{Elem: types.TChar, N: 8}
	wideArray := &types.Array{Elem: types.TInt, N: 8}
	ptr := types.NewPointer(types.TChar)
	enum := &types.Enum{Tag: "e", Bytes: 4}
	myint := &types.Typedef{Name: "my_t", Type: types.TUint64}
	printf := Call{Func: "printf", First: 1, Exact: true}
	target := printf
	target.Target = true
	printa := Call{Func: "printa", First: 1, Agg: agg.Sum}
	type T = []types.Type
	for _, c := range []struct {
		call   Call
		format string
		args   T
		tag    string // "" for correct ones
		msg    string // "" for any
	}{
		{printf, "%d %i %u %x %X %o", T{types.TInt, types.TULong, types.TChar, types.TShort, enum, types.TBool}, "", ""},
		{printf, "%s %s %S %I", T{types.TString, charArray, types.TString, types.TString}, "", ""},
		{printf, "%c %C %lc %wc", T{types.TChar, types.TInt, types.TInt, enum}, "", ""},
		{printf, "%p %p %a", T{ptr, types.TLong, ptr}, "", ""},
		{printf, "%a %k %k", T{types.TSymAddr, types.TStack, types.TUStack}, "", ""},
		{printf, "%A", T{types.TUSymAddr}, "", ""},
		{target, "%A %A", T{types.TInt, ptr}, "", ""},
		{printf, "%Y %T", T{types.TUint64, types.TInt64}, "", ""},
		{printf, "%hd %hu %hx %hX", T{types.TShort, types.TUShort, types.TUShort, types.TShort}, "", ""},
		{printf, "%ld %lu %lx", T{types.TInt64, types.TULong, types.TULong}, "", ""},
		{printf, "%lld %llu %llx %llx %llX", T{types.TLong, types.TUint64, types.TUint64, myint, types.TULongLong}, "", ""},
		{printf, "%ls %ws", T{wideArray, wideArray}, "", ""},
		{printf, "%f %e %Lg", T{types.TFloat, types.TDouble, types.TLongDouble}, "", ""},
		{printf, "%*d %.*d %*.*s %%", T{types.TInt, types.TInt, types.TInt, types.TInt, types.TInt, types.TInt, types.TString}, "", ""},
		{printa, "%s %@d %@u %@x", T{types.TString, types.TInt}, "", ""},

		{printf, "%s", T{types.TInt}, "D_PRINTF_ARG_TYPE",
			"printf( ) argument #2 is incompatible with conversion #1 prototype:\n\tconversion: %s\n\t prototype: char [] or string (or use stringof)\n\t  argument: int"},
		{printf, "x %% %d", T{types.TString}, "D_PRINTF_ARG_TYPE",
			"printf( ) argument #2 is incompatible with conversion #2 prototype:\n\tconversion: %d\n\t prototype: char, short, int, long, or long long\n\t  argument: string"},
		{printf, "%d", T{ptr}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%s", T{ptr}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%c", T{types.TLong}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%hd", T{types.TUShort}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%ld", T{types.TInt}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%lx", T{types.TULongLong}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%llx", T{types.TULong}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%lld", T{types.TUint64}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%f", T{types.TInt}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%Lf", T{types.TDouble}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%k", T{types.TLong}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%Y", T{types.TInt}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%A", T{types.TInt}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%ws", T{charArray}, "D_PRINTF_ARG_TYPE", ""},
		{printf, "%d", nil, "D_PRINTF_ARG_PROTO", "printf( ) prototype mismatch: conversion #1 (%d) is missing a corresponding value argument"},
		{printf, "%d", T{types.TInt, types.TInt}, "D_PRINTF_ARG_EXTRA", "printf( ) prototype mismatch: only 1 arguments required by this format string"},
		{printf, "%*d", nil, "D_PRINTF_DYN_PROTO", `printf( ) prototype mismatch: conversion #1 (%d) is missing a corresponding "*" argument`},
		{printf, "%.*s", nil, "D_PRINTF_DYN_PROTO", `printf( ) prototype mismatch: conversion #1 (%s) is missing a corresponding ".*" argument`},
		{printf, "%*d", T{types.TString, types.TInt}, "D_PRINTF_DYN_TYPE",
			"printf( ) argument #2 is incompatible with conversion #1 prototype:\n\tconversion: % * d\n\t prototype: int\n\t  argument: string"},
		{printf, "%@d", T{types.TInt}, "D_PRINTF_AGG_CONV", "%@ conversion requires an aggregation and is not for use with printf( )"},
		{printa, "%@s", nil, "D_PRINTF_ARG_TYPE",
			"printa( ) aggregating action is incompatible with conversion #1 prototype:\n\tconversion: %s\n\t prototype: char [] or string (or use stringof)\n\t  argument: int64_t"},
		{Call{Func: "printa", First: 1, Agg: agg.Count}, "%@ld", nil, "D_PRINTF_ARG_TYPE", ""},
	} {
		err := parse(t, c.format).Check(c.call, c.args)
		if c.tag == "" {
			if err != nil {
				t.Errorf("%q: %v", c.format, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Tag != c.tag || c.msg != "" && e.Msg != c.msg {
			t.Errorf("%q of %v:\n%v\nwant %s\n%s", c.format, c.args, err, c.tag, c.msg)
		}
	}
}

func FuzzFormat(f *testing.F) {
	for _, s := range []string{"%d", "%-5.3s|%*.*x", "%@d %k %Y", "%llu%%", "%0?p", "% +#'0-9e"} {
		f.Add(s, "text", int64(5))
	}
	f.Fuzz(func(t *testing.T, source, s string, n int64) {
		form, err := Parse(source)
		if err != nil {
			var e *Error
			if form != nil || !errors.As(err, &e) || e.Tag == "" || e.Msg == "" {
				t.Fatalf("Parse(%q) = %v, %v", source, form, err)
			}
			return
		}
		if len(source) > 64 {
			return
		}
		// Values of the right kind must print; of the wrong kind, must not panic.
		var right, wrong []Value
		fits := true
		for i := range form.pieces {
			p := &form.pieces[i]
			if p.conv == nil {
				continue
			}
			if p.flags&dynWidth != 0 {
				right = append(right, Value{Kind: Signed, Size: 4, Int: uint64(n)})
			}
			if p.flags&dynPrec != 0 {
				right = append(right, Value{Kind: Signed, Size: 4, Int: uint64(n)})
			}
			if p.conv.verb == percent {
				continue
			}
			if p.agg {
				fits = fits && p.conv.accept(types.TInt64, &Call{Target: true})
				continue
			}
			v := Value{Kind: Signed, Size: 8, Int: uint64(n)}
			switch p.conv.verb {
			case float:
				v = Value{Kind: Float, Size: 8, Float: float64(n)}
			case text, wideText, escaped, host:
				v = txt(s)
			case frames:
				v = Value{Kind: Stack, PCs: []uint64{uint64(n)}}
			}
			right = append(right, v)
			wrong = append(wrong, Value{Kind: Kind(n&15 + 1), Size: uint8(n >> 4), Int: uint64(n), Bytes: []byte(s)})
		}
		if form.Values() != len(right) {
			t.Fatalf("%q takes %d values, not %d", source, form.Values(), len(right))
		}
		row := []agg.Datum{{Spec: agg.Spec{Func: agg.Sum}, Words: []int64{n}}}
		if _, _, err := form.render(nil, right, row, opts()); fits && err != nil {
			t.Fatalf("%q: %v", source, err)
		}
		form.render(nil, wrong, row, &defaults)
	})
}

func BenchmarkPrintf(b *testing.B) {
	f := parse(b, "%-16s %6d %s\n")
	values := []Value{txt("dtrace"), i32(1234), txt("/etc/passwd")}
	var buf []byte
	for b.Loop() {
		buf, _ = f.Append(buf[:0], values, nil)
	}
}

func TestGroupingFlag(t *testing.T) {
	en := &Grouping{Sep: ",", Sizes: []byte{3, 3}}
	in := &Grouping{Sep: ",", Sizes: []byte{3, 2}}
	once := &Grouping{Sep: ".", Sizes: []byte{3, 127}}
	for _, c := range []struct {
		format string
		n      int64
		g      *Grouping
		want   string
	}{
		{"%'d", 123456789, nil, "123456789"},
		{"%'d", 123456789, en, "123,456,789"},
		{"%'d", -1234, en, "-1,234"},
		{"%'d", 999, en, "999"},
		{"%'12d|", 1234567, en, "   1,234,567|"},
		{"%'d", 123456789, in, "12,34,56,789"},
		{"%'d", 123456789, once, "123456.789"},
		{"%d", 123456789, en, "123456789"},
		{"%'x", 0x12345678, en, "12345678"},
	} {
		f, err := Parse(c.format)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Append(nil, []Value{{Kind: Signed, Size: 8, Int: uint64(c.n)}}, &Options{Grouping: c.g})
		if err != nil || string(got) != c.want {
			t.Errorf("%s of %d: %q, %v, want %q", c.format, c.n, got, err, c.want)
		}
	}
}
