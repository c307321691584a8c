package lib

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"godtrace/internal/dif"
)

// What the manuals say, and for numbers C's printf and strtoll; "∅" is NULL.
var manual = []struct {
	s    dif.Subr
	args []any
	want any
}{
	{dif.SStrlen, a(""), 0},
	{dif.SStrlen, a("abc"), 3},
	{dif.SStrcmp, a("abc", "abc"), 0},
	{dif.SStrcmp, a("abc", "abd"), -1},
	{dif.SStrcmp, a("b", "abcdefghijkl"), 1},
	{dif.SStrcmp, a("abcdefgh", "abcdefghi"), -1},
	{dif.SStrcmp, a("abcdefg\x80", "abcdefg\x7f"), 1},
	{dif.SStrjoin, a("foo", "bar"), "foobar"},
	{dif.SStrjoin, a("", ""), ""},
	{dif.SStrchr, a("the quick", 'q'), "quick"},
	{dif.SStrchr, a("the quick", 'x'), "∅"},
	{dif.SStrchr, a("the quick", 0), ""},
	{dif.SStrrchr, a("/usr/bin/ls", '/'), "/ls"},
	{dif.SStrstr, a("the quick brown fox", "brown"), "brown fox"},
	{dif.SStrstr, a("the quick", "brown"), "∅"},
	{dif.SStrstr, a("", ""), ""},
	{dif.SStrstr, a("abc", ""), "abc"},
	{dif.SIndex, a("BarMaidMadMan", "Ma"), 3},
	{dif.SIndex, a("BarMaidMadMan", "Ma", 4), 7},
	{dif.SIndex, a("foo", "bar"), -1},
	{dif.SIndex, a("foo", "o", -5), 1},
	{dif.SIndex, a("foo", "", 17), 3},
	{dif.SRindex, a("BarMaidMadMan", "Ma"), 10},
	{dif.SRindex, a("BarMaidMadMan", "Ma", 9), 7},
	{dif.SRindex, a("BarMaidMadMan", "Ma", 2), -1},
	{dif.SRindex, a("foo", "", -1), 0},
	{dif.SRindex, a("foo", ""), 3},
	{dif.SSubstr, a("foobar", 3), "bar"},
	{dif.SSubstr, a("foobar", 1, 2), "oo"},
	{dif.SSubstr, a("foobar", -3), "bar"},
	{dif.SSubstr, a("foobar", -3, 2), "ba"},
	{dif.SSubstr, a("foobar", 1, -2), "oob"},
	{dif.SSubstr, a("foobar", -8, 4), "fo"},
	{dif.SSubstr, a("foobar", 6), ""},
	{dif.SBasename, a("/usr/bin/ls"), "ls"},
	{dif.SBasename, a("/usr/lib/"), "lib"},
	{dif.SBasename, a("///"), "/"},
	{dif.SBasename, a(""), "."},
	{dif.SDirname, a("/usr/bin/ls"), "/usr/bin"},
	{dif.SDirname, a("/ls"), "/"},
	{dif.SDirname, a("ls"), "."},
	{dif.SDirname, a(""), "."},
	{dif.SDirname, a("usr//bin//"), "usr"},
	{dif.SCleanpath, a("/a/./b/../c"), "/a/c"},
	{dif.SCleanpath, a("//a///b"), "/a/b"},
	{dif.SCleanpath, a("/a/.../b"), "/a/.../b"},
	{dif.SCleanpath, a("/../../x"), "/x"},
	{dif.SLltostr, a(0), "0"},
	{dif.SLltostr, a(-1), "-1"},
	{dif.SLltostr, a(int64(math.MinInt64)), "-9223372036854775808"},
	{dif.SLltostr, a(255, 16), "0xff"},
	{dif.SLltostr, a(0, 16), "0x0"},
	{dif.SLltostr, a(8, 8), "010"},
	{dif.SLltostr, a(0, 8), "0"},
	{dif.SLltostr, a(-1, 2), strings.Repeat("1", 64)},
	{dif.SLltostr, a(35, 36), "z"},
	{dif.SLltostr, a(1, 1), dif.FltIllOp},
	{dif.SLltostr, a(1, 37), dif.FltIllOp},
	{dif.SStrtoll, a("0x10", 16), 16},
	{dif.SStrtoll, a(" \t-123abc"), -123},
	{dif.SStrtoll, a("0x10"), 0},
	{dif.SStrtoll, a("zz", 36), 35*36 + 35},
	{dif.SStrtoll, a("1", 0), dif.FltIllOp},
	{dif.SToLower, a("MiXeD [\x5b\x60{Z"), "mixed [[`{z"},
	{dif.SToUpper, a("MiXeD @`{z\xe0"), "MIXED @`{Z\xe0"},
	{dif.SInetNtoa, a([]byte{127, 0, 0, 1}), "127.0.0.1"},
	{dif.SInetNtoa, a([]byte{255, 255, 255, 255}), "255.255.255.255"},
	{dif.SInetNtop, a(2, []byte{10, 0, 200, 1}), "10.0.200.1"},
	{dif.SInetNtop, a(3, []byte{10, 0, 200, 1}), dif.FltIllOp},
	{dif.SInetNtoa6, a(make([]byte, 16)), "::"},
	{dif.SInetNtoa6, a([]byte{15: 1}), "::1"},
	{dif.SInetNtoa6, a([]byte{0x20, 1, 0xd, 0xb8, 15: 0}), "2001:db8::"},
	{dif.SInetNtoa6, a([]byte{0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0x10}), "2001:db8:0:1:1::10"},
	{dif.SInetNtoa6, a([]byte{10: 0xff, 0xff, 1, 2, 3, 4}), "1.2.3.4"},
	{dif.SInetNtoa6, a([]byte{12: 1, 2, 3, 4}), "1.2.3.4"},
	{dif.SInetNtop, a(10, []byte{10: 0xff, 0xff, 1, 2, 3, 4}), "::ffff:1.2.3.4"},
	{dif.SInetNtop, a(10, []byte{12: 1, 2, 3, 4}), "::1.2.3.4"},
	{dif.SLinkNtop, a(1, []byte{0, 0x1b, 0x21, 0xff, 9, 0xa0}), "00:1b:21:ff:09:a0"},
	{dif.SJSON, a(`{"a": 1}`, "a"), "1"},
	{dif.SJSON, a(`{ "foo" : { "bar" : [ 1 , "x\"y" , null ] } }`, "foo.bar[1]"), `x\"y`},
	{dif.SJSON, a(`{ "foo" : { "bar" : [ 1 , "x" , null ] } }`, "foo.bar[2]"), "null"},
	{dif.SJSON, a(`{ "foo" : { "bar" : [ 1 , "x" , null ] } }`, "foo.bar[3]"), "∅"},
	{dif.SJSON, a(`{ "foo" : { "bar" : [ 1 , "x" , null ] } }`, "foo.bar"), `[ 1 , "x" , null ]`},
	{dif.SJSON, a(`{ "foo" : {"foo": "inner", "b": {"x": 5}}, "b": 3 }`, "b"), "3"},
	{dif.SJSON, a(`{ "foo" : {"foo": "inner", "b": {"x": 5}}, "b": 3 }`, "foo.b.x"), "5"},
	{dif.SJSON, a(`{ "foo" : {"foo": "inner"}, "b": 3 }`, "c"), "∅"},
	{dif.SJSON, a(`{ "a": tru`, "a"), "tru"},
	{dif.SJSON, a(`{ "a": "tru`, "a"), "∅"},
	{dif.SJSON, a(`[[1,2],[3,[4,{"k":-1.5e3}]]]`, "[1][1][1].k"), "-1.5e3"},
	{dif.SJSON, a(`[[1,2],[3,[4]]]`, "1.0"), "3"},
	{dif.SLinkNtop, a(7, []byte{0, 0x1b}), dif.FltIllOp},
}

func a(v ...any) []any {
	for i := range v {
		if r, ok := v[i].(rune); ok {
			v[i] = int(r)
		}
	}
	return v
}

func (r result) String() string {
	switch {
	case r.fault != 0:
		return fmt.Sprintf("fault %d", r.fault)
	case r.str != "":
		return fmt.Sprintf("%q", r.str)
	}
	return fmt.Sprint(r.num)
}

func TestManual(t *testing.T) {
	for _, v := range variants {
		benches := map[dif.Subr]*bench{}
		for _, c := range manual {
			b := benches[c.s]
			if b == nil {
				b = newBench(t, v, Routines[c.s], 256, 256, false)
				benches[c.s] = b
			}
			got := b.call(t, c.args...)
			ok := got.fault == 0
			switch want := c.want.(type) {
			case int:
				ok = ok && got.num == int64(want)
			case string:
				ok = ok && (want == "∅" && got.null || !got.null && got.str == want)
			case dif.FaultKind:
				ok = got.fault == want
			}
			if !ok {
				t.Errorf("%v: %v%q = %v, want %v", v, c.s, c.args, got, c.want)
			}
		}
	}
}

// Every address that cannot be read is reported.
func TestBadAddress(t *testing.T) {
	for _, v := range variants {
		for s, r := range Routines {
			if s == dif.SProgenyof || s == dif.SGetf {
				continue // take no address
			}
			var args []any
			switch s {
			case dif.SLltostr:
				continue
			case dif.SStrcmp, dif.SStrjoin, dif.SJSON, dif.SStrstr, dif.SIndex, dif.SRindex, dif.SStrtok:
				args = a("a", uint64(badAddr))
			case dif.SInetNtop, dif.SLinkNtop:
				args = a(map[dif.Subr]int{dif.SInetNtop: 10, dif.SLinkNtop: 32}[s], uint64(badAddr))
			case dif.SStrchr, dif.SStrrchr, dif.SSubstr:
				args = a(uint64(badAddr), 1)
			default:
				args = a(uint64(badAddr))
			}
			b := newBench(t, v, r, 64, 64, false)
			if got := b.call(t, args...); got.fault != dif.FltBadAddr || got.addr != badAddr {
				t.Errorf("%v, %v: %v at %#x, want fault %d at %#x", v, s, got, got.addr, dif.FltBadAddr, uint64(badAddr))
			}
			for i := range args {
				if args[i] == uint64(badAddr) {
					args[i] = 0
				}
			}
			if got := b.call(t, args...); s != dif.SStrtok && (got.fault != dif.FltBadAddr || got.addr != 0) {
				t.Errorf("%v, %v of NULL: %v at %#x", v, s, got, got.addr)
			}
		}
	}
}

func TestStrtok(t *testing.T) {
	for _, v := range variants {
		for _, size := range []int{8, 64, 4096} {
			b := newBench(t, v, Routines[dif.SStrtok], size, size, false)
			if got := b.call(t, 0, ","); got.fault != dif.FltBadAddr || got.addr != 0 {
				t.Errorf("%v: strtok(NULL) first: %v", v, got)
			}
			next := func(want string, args ...any) {
				t.Helper()
				got := b.call(t, args...)
				if got.fault != 0 || got.null != (want == "∅") || !got.null && got.str != want {
					t.Errorf("%v, size %d: strtok%q = %v, want %q", v, size, args, got, want)
				}
			}
			next("a", ",,a;b,", ",;")
			next("b", 0, ";,")
			next("∅", 0, ",")
			next("∅", 0, ",")
			next("∅", "", ",")
			next("x", "\xffx\xfe", "\xff\xfe")
			next("one", "one", "")
			next("∅", 0, "")
		}
	}
}

// reference runs a subroutine in the interpreter.
type reference struct {
	m    *dif.Machine
	recs [][]byte
	mem  []byte
}

func (w *reference) Builtin(dif.BuiltinID, int64) (int64, dif.FaultKind) { return 0, 0 }
func (w *reference) BuiltinString(dif.BuiltinID) string                  { return "" }
func (w *reference) WriteUser(uint64, []byte) bool                       { return false }
func (w *reference) KSym(dif.KSym) (uint64, bool)                        { return 0, false }
func (w *reference) Stack(dif.Space) []uint64                            { return nil }
func (w *reference) Act(dif.ActOp, []int64) dif.FaultKind                { return 0 }
func (w *reference) Subr(dif.Subr, []int64) (int64, string, dif.FaultKind) {
	return 0, "", dif.FltIllOp
}

const memAt = 0xffff888000000000

func (w *reference) Read(_ dif.Space, addr uint64, p []byte) bool {
	return addr == memAt && copy(p, w.mem) == len(p)
}

func interpret(s dif.Subr, size int, args []any) result {
	w := &reference{}
	o := &dif.Object{StrSize: size}
	cl := &dif.Clause{Temps: []dif.Temp{{Size: size, Align: 8}}, Name: "c"}
	call := dif.Ins{Op: dif.Call, Sym: int32(s), Temp: 1, Size: int32(size)}
	emit := func(i dif.Ins) dif.Reg {
		if i.Dst == 0 && i.Op <= dif.StrAddr && i.Op != dif.RecBegin {
			cl.NRegs++
			i.Dst = dif.Reg(cl.NRegs)
		}
		cl.Code = append(cl.Code, i)
		return i.Dst
	}
	for _, arg := range args {
		in := dif.Ins{Op: dif.Imm}
		switch v := arg.(type) {
		case string:
			in.Op, in.Sym = dif.StrAddr, int32(len(o.Strings))
			o.Strings = append(o.Strings, v)
		case []byte:
			w.mem = v
			in.Imm = -(1<<64 - memAt)
		case int:
			in.Imm = int64(v)
		case int64:
			in.Imm = v
		}
		call.Args = append(call.Args, emit(in))
	}
	cl.NRegs++
	call.Dst = dif.Reg(cl.NRegs)
	o.Records = []*dif.Record{{Size: 8}, {ID: 1, Size: (size + 7) &^ 7}}
	cl.Code = append(cl.Code, call,
		dif.Ins{Op: dif.RecBegin}, dif.Ins{Op: dif.RecStore, A: call.Dst, Size: 8}, dif.Ins{Op: dif.RecCommit})
	if stringResult(s) {
		cl.Code = append(cl.Code,
			dif.Ins{Op: dif.RecBegin, Sym: 1}, dif.Ins{Op: dif.RecStr, A: call.Dst, Size: int32(size)}, dif.Ins{Op: dif.RecCommit, Sym: 1})
	}
	o.Clauses = []*dif.Clause{cl}
	w.m = dif.NewMachine(o, w)
	w.m.Emit = func(rec []byte) { w.recs = append(w.recs, bytes.Clone(rec)) }
	w.m.Fire(&dif.Firing{Clauses: o.Clauses})
	r := result{}
	rec := w.recs[0]
	if binary.LittleEndian.Uint16(rec[dif.HdrRec:]) == dif.RecFault {
		r.fault = dif.FaultKind(binary.LittleEndian.Uint32(rec[dif.HdrSize+8:]))
		return r
	}
	r.num = int64(binary.LittleEndian.Uint64(rec[dif.HdrSize:]))
	r.null = r.num == 0
	if stringResult(s) && !r.null {
		str := w.recs[1][dif.HdrSize:]
		r.str = string(str[:bytes.IndexByte(str, 0)])
	}
	return r
}

func stringResult(s dif.Subr) bool {
	switch s {
	case dif.SStrlen, dif.SStrcmp, dif.SIndex, dif.SRindex, dif.SStrtoll:
		return false
	}
	return true
}

// randomArgs are arguments of the kinds that s takes.
func randomArgs(r *rand.Rand, s dif.Subr, size int) []any {
	text := func(alphabet string, most int) string {
		n := r.IntN(most + 1)
		if r.IntN(4) == 0 {
			n = min(most, size-2+r.IntN(5))
		} else if r.IntN(2) == 0 {
			n = r.IntN(min(most, 12) + 1)
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(b)
	}
	mem := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte([]int{0, 0, 1, 16, 99, 100, 255}[r.IntN(7)])
		}
		return b
	}
	pos := func() int { return r.IntN(size+10) - (size+10)/2 }
	long := size + 5
	switch s {
	case dif.SStrcmp:
		x := text("a", long)
		if r.IntN(2) == 0 {
			return a(x, x[:r.IntN(len(x)+1)]+text("ab\xff", 3))
		}
		return a(x, text("ab\x80\xff", long))
	case dif.SStrjoin:
		return a(text("abc", long), text("de", long))
	case dif.SStrchr, dif.SStrrchr: // their results go on to the end of the first argument, where it is too long too
		return a(text("ab\x00c\x01\x81", size-1), int("abc\x00\x01\x80\x81"[r.IntN(7)]))
	case dif.SStrstr:
		return a(text("aab", size-1), text("ab", 1+r.IntN(20)))
	case dif.SIndex, dif.SRindex:
		args := a(text("aab", long), text("ab", 1+r.IntN(20)))
		if r.IntN(3) > 0 {
			args = append(args, pos())
		}
		return args
	case dif.SSubstr:
		args := a(text("abcdefghij", long), pos())
		if r.IntN(3) > 0 {
			args = append(args, pos())
		}
		return args
	case dif.SBasename, dif.SDirname, dif.SCleanpath:
		return a(text("//..a", long))
	case dif.SLltostr:
		n := int64(r.Uint64()) >> r.IntN(64)
		if r.IntN(2) == 0 {
			return a(n)
		}
		return a(n, r.IntN(38))
	case dif.SStrtoll:
		x := text(" ", 3) + []string{"", "-", "+", "0x", "-0X", "0", "--"}[r.IntN(7)] + text("01279afzZAX~", 14)
		if r.IntN(3) == 0 {
			return a(x)
		}
		return a(x, []int{0, 1, 2, 8, 10, 16, 16, 36, 37}[r.IntN(9)])
	case dif.SJSON:
		doc := randomJSON(r, 3)
		if r.IntN(6) == 0 {
			doc = doc[:r.IntN(len(doc)+1)]
		}
		path := ""
		for range 1 + r.IntN(3) {
			if r.IntN(2) == 0 {
				path += fmt.Sprintf("[%d]", r.IntN(3))
			} else {
				path += "." + jsonKeys[r.IntN(len(jsonKeys))]
			}
		}
		return a(doc, strings.TrimPrefix(path, "."))
	case dif.SInetNtoa:
		return a(mem(4))
	case dif.SInetNtoa6:
		return a(mem(16))
	case dif.SInetNtop:
		return a([]int{2, 10, 10, 5}[r.IntN(4)], mem(16))
	case dif.SLinkNtop:
		return a([]int{1, 32, 5}[r.IntN(3)], mem(20))
	}
	return a(text("abYZ@[`{\xc1 ", long))
}

var jsonKeys = []string{"a", "ab", "b", "abc"}

func randomJSON(r *rand.Rand, depth int) string {
	space := func() string { return []string{"", "", " ", "\t \n"}[r.IntN(4)] }
	kind := r.IntN(8)
	if depth == 3 {
		kind = r.IntN(4)
	}
	if depth == 0 {
		kind = 7
	}
	var parts []string
	switch {
	case kind < 2:
		for range r.IntN(4) {
			parts = append(parts, space()+`"`+jsonKeys[r.IntN(len(jsonKeys))]+`"`+space()+":"+space()+randomJSON(r, depth-1))
		}
		return "{" + strings.Join(parts, ",") + space() + "}"
	case kind < 4:
		for range r.IntN(4) {
			parts = append(parts, space()+randomJSON(r, depth-1)+space())
		}
		return "[" + strings.Join(parts, ",") + space() + "]"
	case kind < 6:
		return []string{`""`, `"x"`, `"a\"]}"`, `"\\"`, `"{[,:"`}[r.IntN(5)]
	}
	return []string{"0", "-12.5e+3", "true", "null"}[r.IntN(4)]
}

// TestAgreement compares with the interpreter of the middle form.
func TestAgreement(t *testing.T) {
	for _, v := range variants {
		for s, r := range Routines {
			if s == dif.SStrtok || r.Members != nil {
				continue
			}
			for _, size := range sizes {
				rng := rand.New(rand.NewPCG(uint64(s), uint64(size)))
				b := newBench(t, v, r, size, size, false)
				n := 400
				if size > 256 {
					n = 20
				}
				for range n {
					args := randomArgs(rng, s, size)
					got, want := b.call(t, args...), interpret(s, size, args)
					if got.fault != want.fault || got.fault == 0 &&
						(got.null != want.null || got.str != want.str || !stringResult(s) && got.num != want.num) {
						t.Errorf("%v, size %d: %v%.300q = %v, interpreter %v", v, size, s, args, got, want)
						break
					}
				}
			}
		}
	}
}

// BenchmarkCall is the time of a call within a program: strings of 30 bytes.
func BenchmarkCall(b *testing.B) {
	const x, y = "/usr/lib/x86_64-linux/libc.so.6", "linux"
	args := map[dif.Subr][]any{
		dif.SStrcmp: a(x, x), dif.SStrjoin: a(x, y), dif.SStrchr: a(x, '6'), dif.SStrrchr: a(x, '/'), dif.SStrstr: a(x, y),
		dif.SStrtok: a(x, "/"), dif.SSubstr: a(x, 5, 10), dif.SJSON: a(`{"a": [1, 2, {"c": 3}]}`, "a[2].c"), dif.SIndex: a(x, y), dif.SRindex: a(x, "lib"), dif.SLltostr: a(1234567),
		dif.SStrtoll: a("1234567"), dif.SInetNtoa: a([]byte{192, 168, 1, 20}), dif.SInetNtoa6: a([]byte{1, 2, 3, 4, 5, 15: 6}),
		dif.SInetNtop: a(2, []byte{192, 168, 1, 20}), dif.SLinkNtop: a(1, []byte{1, 2, 3, 4, 5, 6}),
	}
	for _, v := range variants {
		for s := dif.SNone; s < dif.NumSubrs; s++ {
			r := Routines[s]
			if r == nil || r.Members != nil {
				continue
			}
			b.Run(fmt.Sprintf("%v/%v", v, s), func(b *testing.B) {
				w := newBench(b, v, r, 256, 256, true)
				arg := args[s]
				if arg == nil {
					arg = a(x)
				}
				w.set(arg...)
				for b.Loop() {
					binary.LittleEndian.PutUint64(w.mem[16:], 1000)
					w.run(b)
				}
				if binary.LittleEndian.Uint64(w.mem[8:]) != 0 {
					b.Fatal("it faulted")
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/call")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
