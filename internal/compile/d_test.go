package compile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"godtrace/internal/check"
	"godtrace/internal/dif"
	"godtrace/internal/format"
	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// env is the world that programs are compiled for: probes t:m:f:n (no typed
// arguments) and t:m:f:typed, struct thing, and a kernel variable.
type env struct{ macros map[string]string }

// thing is, in C:
//
//	struct thing {
//		int id; short s; unsigned char c; char name[8];
//		unsigned flags : 3, mode : 5; int level : 4;
//		struct thing *next; unsigned long big; struct { int x, y; } pos;
//	};
var thing = func() *types.Struct {
	t := types.NewStruct("vmlinux", "thing", false, nil)
	pos := types.NewStruct("vmlinux", "", false, []types.Field{{Name: "x", Type: types.TInt}, {Name: "y", Type: types.TInt}})
	t.Define([]types.Field{
		{Name: "id", Type: types.TInt},
		{Name: "s", Type: types.TShort},
		{Name: "c", Type: types.TUChar},
		{Name: "name", Type: &types.Array{Elem: types.TChar, N: 8}},
		{Name: "flags", Type: types.TUInt, Bits: 3},
		{Name: "mode", Type: types.TUInt, Bits: 5},
		{Name: "level", Type: types.TInt, Bits: 4},
		{Name: "next", Type: types.NewPointer(t)},
		{Name: "big", Type: types.TULong},
		{Name: "pos", Type: pos},
	})
	return t
}()

var probes = []*probe.Probe{
	{ID: 1, Desc: probe.Desc{Provider: "dtrace", Name: "BEGIN"}},
	{ID: 2, Desc: probe.Desc{Provider: "t", Module: "m", Func: "f", Name: "n"}},
	{ID: 3, Desc: probe.Desc{Provider: "t", Module: "m", Func: "f", Name: "typed"}, Args: []probe.Arg{
		{Name: "p", Native: types.NewPointer(thing)},
		{Name: "n", Native: types.TInt, From: 1},
		{Name: "u", Native: &types.Pointer{Elem: thing, User: true}, From: 2},
	}},
	{ID: 4, Desc: probe.Desc{Provider: "dtrace", Name: "ERROR"}},
}

func (env) Probes(d probe.Desc) (out []*probe.Probe, err error) {
	for _, p := range probes {
		if d.Match(p.Desc) {
			out = append(out, p)
		}
	}
	return out, nil
}
func (env) ProbeByID(id int) *probe.Probe { return nil }
func (env) LookupType(module, kind, name string) types.Type {
	switch {
	case kind == "struct" && name == "thing":
		return thing
	case kind == "" && name == "ipaddr_t":
		return &types.Typedef{Name: "ipaddr_t", Type: types.TUint32, Scope: "vmlinux"}
	}
	return nil
}
func (env) LookupEnumerator(string) (int64, types.Type, bool) { return 0, nil, false }
func (env) LookupSymbol(module, name string) (types.Type, bool) {
	switch name {
	case "jiffies":
		return types.TULong, true
	case "thething":
		return thing, true
	}
	return nil, false
}
func (e env) Macro(name string) (string, bool) { v, ok := e.macros[name]; return v, ok }

// thingBytes is a struct thing as gcc lays it out.
func thingBytes(id int32, name string, next uint64) []byte {
	b := make([]byte, 56)
	le := binary.LittleEndian
	le.PutUint32(b[0:], uint32(id))
	le.PutUint16(b[4:], 0xfffe) // s = -2
	b[6] = 200                  // c
	copy(b[7:15], name)
	b[15] = 5 | 19<<3 // flags = 5, mode = 19
	b[16] = 0x0d      // level = -3
	le.PutUint64(b[24:], next)
	le.PutUint64(b[32:], 0xfedcba9876543210)
	le.PutUint32(b[40:], 11)
	le.PutUint32(b[44:], 0xffffffea) // pos.y = -22
	return b
}

func newWorld() *world {
	return &world{
		args: []int64{10, -3, 0x7000, 0x1000, 0x1100, 0},
		num: map[dif.BuiltinID]int64{
			dif.BPid: 4242, dif.BTid: 4243, dif.BPpid: 1, dif.BUid: 1000, dif.BGid: 100, dif.BCPU: 1,
			dif.BTimestamp: 1e9, dif.BErrno: 2, dif.BCaller: -0x7efffff0, dif.BUCaller: 0x401000, dif.BStackDepth: 2,
		},
		strs: map[dif.BuiltinID]string{dif.BExecname: "sshd"},
		user: map[uint64][]byte{
			0x1000: []byte("/etc/passwd\x00"),
			0x1100: []byte("user text\x00"),
			0x2000: thingBytes(7, "user", 0),
		},
		kernel: map[uint64][]byte{
			0xffff888000001000: thingBytes(1, "first", 0xffff888000002000),
			0xffff888000002000: thingBytes(2, "eightchr", 0),
			0xffff888000003000: []byte("kernel string\x00"),
			0xffff888000005000: {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 8, 8, 0, 0x20, 0xc, 0x41, 0x7a},
			0xffff888000005010: {10: 0xff, 11: 0xff, 12: 192, 13: 168, 14: 1, 15: 9},
			0xffff888000005020: {15: 1},
			0xffff888000004000: {192, 168, 1, 9},
			0xffffffff82000000: {1, 2, 3, 4, 5, 6, 7, 8},
		},
		syms:   map[string]uint64{"jiffies": 0xffffffff82000000, "thething": 0xffff888000001000},
		kstack: []uint64{0xffffffff81000010, 0xffffffff81000020},
		ustack: []uint64{0x401000, 0x402000, 0x403000},
	}
}

// session is a program compiled and ready to fire.
type session struct {
	t     *testing.T
	c     *Compiler
	m     *dif.Machine
	w     *world
	prog  *check.Program
	fires map[int][]*dif.Clause // by probe ID
	out   bytes.Buffer
	recs  [][]byte
}

func compileD(t *testing.T, src string, opt Options) *session {
	t.Helper()
	ck := check.New(env{map[string]string{"pid": "99", "1": "17"}}, check.Options{})
	f, err := syntax.Parse("", []byte(src), syntax.Options{IsType: ck.IsType})
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	prog, err := ck.File(f)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	s := &session{t: t, c: New(opt), w: newWorld(), prog: prog, fires: make(map[int][]*dif.Clause)}
	for _, cl := range prog.Clauses {
		d, err := s.c.Clause(cl)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		for _, p := range cl.Probes {
			s.fires[p.ID] = append(s.fires[p.ID], d)
		}
	}
	s.m = dif.NewMachine(s.c.Object(), s.w)
	s.m.NSpec = 2
	s.m.Emit = func(b []byte) { s.recs = append(s.recs, b); s.show(b) }
	if cls := s.fires[4]; cls != nil {
		s.m.Error = &dif.Firing{ID: 4, Epid: 100, Desc: probes[3].Desc, Clauses: cls}
	}
	return s
}

func (s *session) fire(id int) {
	p := probes[id-1]
	s.m.Fire(&dif.Firing{Index: uint32(id), ID: id, Epid: 1, Desc: p.Desc, Clauses: s.fires[id]})
}

// show prints what a record holds: printf output as it is, other values
// separated by blanks, a fault as its name, the empty record as "-".
func (s *session) show(b []byte) {
	le := binary.LittleEndian
	if n := le.Uint64(b) & 0xffff; int(n) != len(b) {
		s.t.Errorf("commit word says %d bytes of %d", n, len(b))
	}
	id := le.Uint16(b[dif.HdrRec:])
	p := b[dif.HdrSize:]
	if id == dif.RecFault {
		fmt.Fprintf(&s.out, "<%s", dif.FaultKind(le.Uint32(p[8:])))
		if a := le.Uint64(p[16:]); a != 0 {
			fmt.Fprintf(&s.out, " 0x%x", a)
		}
		s.out.WriteString(">")
		return
	}
	r := s.c.Object().Records[id]
	if len(p) != r.Size {
		s.t.Errorf("payload of %d bytes, record says %d", len(p), r.Size)
	}
	if n := le.Uint16(b[dif.HdrSpec:]); n != 0 {
		fmt.Fprintf(&s.out, "{spec %d}", n)
	}
	if len(r.Actions) == 0 {
		s.out.WriteString("-")
	}
	for _, a := range r.Actions {
		var vals []format.Value
		for _, f := range a.Fields {
			vals = append(vals, s.value(f, p))
		}
		switch {
		case a.Kind == dif.ActDefault:
			s.out.WriteString("default")
		case a.Kind == dif.ActPrintf:
			text, err := a.Format.Append(nil, vals, &format.Options{})
			if err != nil {
				s.t.Error(err)
			}
			s.out.Write(text)
		default:
			if a.Kind != dif.ActTrace {
				s.out.WriteString(a.Kind.String() + ":")
			}
			for _, v := range vals {
				s.out.WriteString(plain(v) + " ")
			}
			if len(a.Strs) > 0 {
				fmt.Fprintf(&s.out, "%q", a.Strs)
			}
			for _, g := range a.Aggs {
				fmt.Fprintf(&s.out, "@%s", s.c.Object().Aggs[g].Name)
			}
		}
	}
}

func (s *session) value(f dif.Field, p []byte) format.Value {
	b := p[f.Off : f.Off+f.Size]
	u := func(b []byte) (v uint64) {
		for k := len(b) - 1; k >= 0; k-- {
			v = v<<8 | uint64(b[k])
		}
		return v
	}
	words := func(b []byte) (out []uint64) {
		for ; len(b) >= 8 && u(b[:8]) != 0; b = b[8:] {
			out = append(out, u(b[:8]))
		}
		return out
	}
	switch f.Kind {
	case dif.FInt:
		v := format.Value{Kind: format.Unsigned, Size: uint8(f.Size), Int: u(b)}
		if f.Signed {
			v.Kind = format.Signed
			sh := 64 - 8*f.Size
			v.Int = uint64(int64(v.Int<<sh) >> sh)
		}
		return v
	case dif.FString:
		n := bytes.IndexByte(b, 0)
		if n < 0 {
			s.t.Errorf("string without NUL: %q", b)
			n = len(b)
		}
		return format.Value{Kind: format.String, Bytes: b[:n]}
	case dif.FProbe:
		d := probes[1].Desc
		return format.Value{Kind: format.String, Bytes: []byte(map[dif.BuiltinID]string{
			dif.BProbeProv: d.Provider, dif.BProbeMod: d.Module, dif.BProbeFunc: d.Func, dif.BProbeName: d.Name}[f.Builtin])}
	case dif.FStack:
		if f.Sized {
			b = b[8:][:8*binary.LittleEndian.Uint32(b[4:])]
		}
		return format.Value{Kind: format.Stack, PCs: words(b)}
	case dif.FUStack:
		return format.Value{Kind: format.UStack, PID: int32(u(b[:8])), PCs: words(b[8:])}
	case dif.FSym:
		return format.Value{Kind: format.Sym, Int: u(b)}
	case dif.FUSym:
		return format.Value{Kind: format.USym, PID: int32(u(b[:8])), Int: u(b[8:])}
	}
	return format.Value{Kind: format.Bytes, Bytes: b}
}

func plain(v format.Value) string {
	switch v.Kind {
	case format.Signed:
		return fmt.Sprint(int64(v.Int))
	case format.Unsigned:
		return fmt.Sprint(v.Int)
	case format.String:
		return string(v.Bytes)
	case format.Stack:
		return fmt.Sprintf("%x", v.PCs)
	case format.UStack:
		return fmt.Sprintf("%d%x", v.PID, v.PCs)
	case format.Sym:
		return fmt.Sprintf("sym(%x)", v.Int)
	case format.USym:
		return fmt.Sprintf("usym(%d,%x)", v.PID, v.Int)
	}
	return fmt.Sprintf("%x", v.Bytes)
}

// aggregations lists key and first word of all aggregated values, sorted.
func (s *session) aggregations() string {
	var lines []string
	o := s.c.Object()
	for n, form := range o.Forms {
		s.m.Aggregation(n, func(key []byte, w []int64) {
			line := "@" + o.Aggs[form.Agg].Name + "["
			for k, f := range form.Keys {
				if k > 0 {
					line += ","
				}
				if f.Kind == dif.FProbe {
					line += s.m.ProbeString(binary.LittleEndian.Uint32(key[f.Off:]))
				} else {
					line += plain(s.value(f, key))
				}
			}
			lines = append(lines, fmt.Sprintf("%s]=%d", line, w[0]))
		})
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// body runs statements at probe t:m:f:n once and gives the output.
func body(t *testing.T, stmts string) string {
	t.Helper()
	s := compileD(t, "t:m:f:n { "+stmts+" }", Options{})
	s.fire(2)
	return s.out.String()
}

// The values come from the D manuals' descriptions of each subroutine, those
// of the C library's own (basename, dirname, inet_ntop, strtoll) from it, the
// rules for positions from Perl's substr, index and rindex, which D follows.
func TestSubroutines(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{`strlen("")`, "0"},
		{`strlen("hello")`, "5"},
		{`strlen(copyinstr(arg3))`, "11"},
		{`strlen(stringof((char *)0xffff888000003000))`, "13"},
		{`strjoin("foo", "bar")`, "foobar"},
		{`strjoin("", "")`, ""},
		{`strjoin(execname, probefunc)`, "sshdf"},
		{`strjoin(copyinstr(arg3), copyinstr(arg4))`, "/etc/passwduser text"},
		{`strchr("abcabc", 'b')`, "bcabc"},
		{`strrchr("abcabc", 'b')`, "bc"},
		{`strstr("foobarbaz", "bar")`, "barbaz"},
		{`strstr("foo", "")`, "foo"},
		{`strstr("foo", "foobar") == NULL`, "1"},
		{`strchr("foo", 'x') == NULL`, "1"},
		{`strchr("foo", 'o') == NULL`, "0"},
		{`strtok("a,b;c", ",;")`, "a"},
		{`strtok(",,a,b", ",")`, "a"},
		{`strtok(",,", ",") == NULL`, "1"},
		{`substr("foobarbaz", 3)`, "barbaz"},
		{`substr("foobarbaz", 3, 3)`, "bar"},
		{`substr("foobarbaz", -3)`, "baz"},
		{`substr("foobarbaz", -3, 2)`, "ba"},
		{`substr("foobarbaz", 3, -3)`, "bar"},
		{`substr("foobarbaz", 0, 100)`, "foobarbaz"},
		{`substr("foo", 3)`, ""},
		{`substr("foo", 9)`, ""},
		{`substr("foo", -5, 3)`, "f"},
		{`substr("foo", -9, 3)`, ""},
		{`substr("foo", 1, 0)`, ""},
		{`index("foobarbaz", "ba")`, "3"},
		{`index("foobarbaz", "ba", 4)`, "6"},
		{`index("foobarbaz", "x")`, "-1"},
		{`index("foobarbaz", "foo", -5)`, "0"},
		{`index("foo", "", 10)`, "3"},
		{`index("foo", "o", 10)`, "-1"},
		{`index("", "")`, "0"},
		{`rindex("foobarbaz", "ba")`, "6"},
		{`rindex("foobarbaz", "ba", 5)`, "3"},
		{`rindex("foobarbaz", "ba", 3)`, "3"},
		{`rindex("foobarbaz", "ba", 2)`, "-1"},
		{`rindex("foo", "", -1)`, "0"},
		{`rindex("foo", "f", -1)`, "-1"},
		{`rindex("foo", "")`, "3"},
		{`basename("/foo/bar")`, "bar"},
		{`basename("/foo/bar/")`, "bar"},
		{`basename("foo")`, "foo"},
		{`basename("/")`, "/"},
		{`basename("//")`, "/"},
		{`basename("")`, "."},
		{`dirname("/foo/bar")`, "/foo"},
		{`dirname("/foo/bar/")`, "/foo"},
		{`dirname("/foo//bar")`, "/foo"},
		{`dirname("/foo")`, "/"},
		{`dirname("foo")`, "."},
		{`dirname("/")`, "/"},
		{`dirname("")`, "."},
		{`cleanpath("/foo/../bar")`, "/bar"},
		{`cleanpath("/foo/./bar")`, "/foo/bar"},
		{`cleanpath("//foo//bar")`, "/foo/bar"},
		{`cleanpath("/foo/bar/..")`, "/foo/"},
		{`cleanpath("/..")`, "/"},
		{`cleanpath("/../../a")`, "/a"},
		{`cleanpath("foo")`, "foo"},
		{`lltostr(0)`, "0"},
		{`lltostr(-17)`, "-17"},
		{`lltostr(255, 16)`, "0xff"},
		{`lltostr(0, 16)`, "0x0"},
		{`lltostr(-1, 16)`, "0xffffffffffffffff"},
		{`lltostr(8, 8)`, "010"},
		{`lltostr(5, 2)`, "101"},
		{`lltostr(35, 36)`, "z"},
		{`strtoll("123")`, "123"},
		{`strtoll("  -45xyz")`, "-45"},
		{`strtoll("+7")`, "7"},
		{`strtoll("0xff", 16)`, "255"},
		{`strtoll("ff", 16)`, "255"},
		{`strtoll("0777", 8)`, "511"},
		{`strtoll("zz", 36)`, "1295"},
		{`strtoll("junk")`, "0"},
		{`tolower("MiXeD 1")`, "mixed 1"},
		{`toupper("MiXeD 1")`, "MIXED 1"},
		{`json("{\"a\": 1, \"b\": {\"c\": \"text\", \"d\": [true, null, 12.5]}}", "b.c")`, "text"},
		{`json("{\"a\": 1, \"b\": {\"c\": \"text\", \"d\": [true, null, 12.5]}}", "b.d[2]")`, "12.5"},
		{`json("{\"a\": 1, \"b\": {\"c\": \"text\", \"d\": [true, null, 12.5]}}", "a")`, "1"},
		{`json("[10, [20, 30]]", "[1][0]")`, "20"},
		{`json("{\"a\": 1}", "x") == NULL`, "1"},
		{`htons(0x1234)`, "13330"},
		{`ntohs(0x1234)`, "13330"},
		{`htonl(0x12345678)`, "2018915346"},
		{`ntohl(0x12345678)`, "2018915346"},
		{`htonll(0x0102030405060708)`, "578437695752307201"},
		{`inet_ntoa((ipaddr_t *)0xffff888000004000)`, "192.168.1.9"},
		{`inet_ntop(2, (void *)0xffff888000004000)`, "192.168.1.9"},
		{`inet_ntop(10, (void *)0xffff888000005000)`, "2001:db8::8:800:200c:417a"},
		{`inet_ntop(10, (void *)0xffff888000005010)`, "::ffff:192.168.1.9"},
		{`inet_ntop(10, (void *)0xffff888000005020)`, "::1"},
		{`link_ntop(1, (void *)0xffff888000005000)`, "20:01:0d:b8:00:00"},
		{`getmajor(0x800003)`, "8"},
		{`getminor(0x800003)`, "3"},
		{`copyinstr(arg3)`, "/etc/passwd"},
		{`copyinstr(arg3, 5)`, "/etc"},
		{`copyinstr(arg3, arg0)`, "/etc/pass"},
		{`*(int *)copyin(0x2000, 4)`, "7"},
		{`*((short *)copyin(0x2000, 8) + 2)`, "-2"},
		{`stringof(copyin(arg3, 12))`, "/etc/passwd"},
	} {
		t.Run(c.expr, func(t *testing.T) {
			if got := strings.TrimSuffix(body(t, "trace("+c.expr+");"), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestExpressions(t *testing.T) {
	for _, c := range []struct{ stmts, want string }{
		{`trace(1 + 2 * 3);`, "7 "},
		{`trace(pid); trace(tid); trace(ppid); trace(uid);`, "4242 4243 1 1000 "},
		{`trace(execname); trace(probefunc);`, "sshd f "},
		{`trace(arg0); trace(arg1);`, "10 -3 "},
		{`trace(arg0 > 5 && arg1 < 0); trace(arg0 > 50 || arg1 > 0);`, "1 0 "},
		{`trace(arg0 ^^ 0); trace(arg0 ^^ 1); trace(0 ^^ arg5);`, "1 0 0 "},
		{`trace(!arg0); trace(!arg5); trace(!!arg0);`, "0 1 1 "},
		{`trace(arg0 ? "yes" : "no"); trace(arg5 ? "yes" : "no");`, "yes no "},
		{`trace(arg0 ? copyinstr(arg3) : execname); trace(arg5 ? copyinstr(arg3) : execname);`, "/etc/passwd sshd "},
		{`trace(execname == "sshd"); trace(execname == "ssh"); trace(execname == "sshd2"); trace(execname != "sshd");`, "1 0 0 0 "},
		{`trace(execname == "averyveryverylongname"); trace(execname != "averyveryverylongname");`, "0 1 "},
		{`trace("abc" < "abd"); trace("abc" <= "abc"); trace("b" > "abc"); trace("a" >= "b");`, "1 1 1 0 "},
		{`trace(copyinstr(arg3) == "/etc/passwd"); trace("/etc" == copyinstr(arg3));`, "1 0 "},
		{`trace(probefunc == "f"); trace(probename == probefunc);`, "1 0 "},
		{`this->x = 5; this->x += 3; trace(this->x); trace(this->x++); trace(this->x); trace(--this->x);`, "8 8 9 8 "},
		{`x = 3; y = x = 7; trace(x); trace(y);`, "7 7 "},
		{`self->s = "abc"; trace(self->s); trace(strlen(self->s));`, "abc 3 "},
		{`self->n = 0; trace(self->n == 0); self->n = 1; trace(self->n);`, "1 1 "},
		{`self->s = "x"; trace(self->s == NULL); self->s = 0; trace(self->s == NULL);`, "0 1 "},
		{`this->s = copyinstr(arg3); trace(this->s); this->s = "x"; trace(this->s);`, "/etc/passwd x "},
		{`a[1] = 2; a[2] = 3; trace(a[1] + a[2]); trace(a[3]); a[1] = 0; trace(a[1]);`, "5 0 0 "},
		{`a[pid, execname] = 5; trace(a[4242, "sshd"]); trace(a[4242, "ssh"]);`, "5 0 "},
		{`a["k"]++; a["k"]++; trace(a["k"]); trace(a["k"]--); trace(a["k"]);`, "2 2 1 "},
		{`a["k"] = "v"; trace(a["k"]); a["k"] = 0; trace(a["k"] == NULL);`, "v 1 "},
		{`self->a[arg0] = execname; trace(self->a[10]);`, "sshd "},
		{`trace((char)arg1); trace((unsigned char)arg1); trace((short)65535); trace((uint64_t)arg1 > 5);`, "-3 253 -1 1 "},
		{`trace(sizeof(struct thing)); trace(sizeof(int)); trace(offsetof(struct thing, next));`, "48 4 24 "},
		{`this->t = (struct thing *)0xffff888000001000; trace(this->t->id); trace(this->t->s); trace(this->t->c);`, "1 -2 200 "},
		{`this->t = (struct thing *)0xffff888000001000; trace(this->t->flags); trace(this->t->mode); trace(this->t->level);`, "5 19 -3 "},
		{`this->t = (struct thing *)0xffff888000001000; trace(this->t->big); trace(this->t->pos.x); trace(this->t->pos.y);`, "18364758544493064720 11 -22 "},
		{`this->t = (struct thing *)0xffff888000001000; trace(this->t->next->id); trace(stringof(this->t->name)); trace(this->t->next->name[0]);`, "2 first 101 "},
		{`this->t = (struct thing *)0xffff888000001000; trace(stringof(this->t->next->name));`, "eightchr "},
		{`this->t = *(struct thing *)0xffff888000001000; trace(this->t.id); trace(this->t.pos.y); trace(stringof(this->t.name));`, "1 -22 first "},
		{"trace(`jiffies);", "578437695752307201 "},
		{"trace(`thething.id); trace((&`thething)->s);", "1 -2 "},
		{`this->p = (int *)alloca(16); *this->p = 5; this->p[1] = 6; *(this->p + 1) += 10; trace(*this->p + this->p[1]);`, "21 "},
		{`this->t = (struct thing *)alloca(sizeof (struct thing)); this->t->level = -2; this->t->mode = 17; this->t->flags = 9; trace(this->t->level); trace(this->t->mode); trace(this->t->flags);`, "-2 17 1 "},
		{`this->p = (char *)alloca(8); bcopy("hello", this->p, 6); trace(stringof(this->p));`, "hello "},
		{`this->p = (char *)alloca(8); copyinto(arg3, 5, this->p); this->p[5] = 0; trace(stringof(this->p));`, "/etc/ "},
		{`trace($1 + 1);`, "18 "},
		{`trace(timestamp);`, "1000000000 "},
		{`trace(strtok("a b c", " ")); trace(strtok(NULL, " ")); trace(strtok(NULL, " ")); trace(strtok(NULL, " ") == NULL);`, "a b c 1 "},
		{`this->f = strtok("x", ","); this->f = strtok(NULL, ","); trace(this->f == NULL);`, "1 "},
		{`trace((arg0, arg1));`, "-3 "},
		{`trace(-arg0 % 3); trace(arg0 / -3); trace(-10 >> 1); trace(10 << 2);`, "-1 -3 -5 40 "},
		{`printf("%s %d %x|%-6s|%5d", execname, pid, arg0, probefunc, 7);`, "sshd 4242 a|f     |    7"},
		{`printf("%s %s", copyinstr(arg3), "lit");`, "/etc/passwd lit"},
		{`printf("a"); printf("b"); trace(1);`, "ab1 "},
		{`stack(); ustack(2);`, "stack:[ffffffff81000010 ffffffff81000020] ustack:4242[401000 402000] "},
		{`sym(caller); ufunc(ucaller);`, "sym:sym(ffffffff81000010) ufunc:usym(4242,401000) "},
		{`tracemem(0xffff888000004000, 4);`, "tracemem:c0a80109 "},
		{`trace(*(struct thing *)0xffff888000001000);`, fmt.Sprintf("%x ", thingBytes(1, "first", 0xffff888000002000)[:48])},
		{`exit(3);`, "exit:3 "},
		{`setopt("quiet"); setopt("aggrate", "2s");`, `setopt:["quiet"]setopt:["aggrate" "2s"]`},
		{`freopen("/tmp/%s", execname);`, "freopen:sshd "},
		{`this->st = stack(); trace(this->st);`, "[ffffffff81000010 ffffffff81000020] "},
		{`x = 1;`, ""},
		{``, "default"},
	} {
		t.Run(c.stmts, func(t *testing.T) {
			if got := body(t, c.stmts); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct{ stmts, want string }{
		{`trace(1); trace(*(int *)0); trace(2);`, "<invalid address>"},
		{`trace(1 / arg5);`, "<divide-by-zero>"},
		{`trace(10 % arg5);`, "<divide-by-zero>"},
		{`trace(copyinstr(0xdead));`, "<invalid address 0xdead>"},
		{`@[copyinstr(0xdead)] = count();`, "<invalid address 0xdead>"},
		{`this->p = (int *)0xffff888000001000; *this->p = 1;`, "<invalid address 0xffff888000001000>"},
		{`trace(alloca(arg3 + (1 << 30)) == NULL);`, "<out of scratch space>"},
		{`trace(lltostr(1, 99));`, "<illegal operation>"},
		{`trace(inet_ntop(77, (void *)arg3));`, "<illegal operation>"},
		{`trace(strchr("abc", 'z'));`, "<invalid address>"},
		{`a[1] = 1; this->x = *(int *)0; a[1] = 2;`, "<invalid address>"},
	} {
		t.Run(c.stmts, func(t *testing.T) {
			s := compileD(t, "t:m:f:n { "+c.stmts+" } t:m:f:n { trace(99); }", Options{})
			s.fire(2)
			// The fault ends its clause; the next one runs.
			if got := s.out.String(); got != c.want+"99 " {
				t.Errorf("got %q, want %q", got, c.want+"99 ")
			}
		})
	}
}

func TestError(t *testing.T) {
	s := compileD(t, `t:m:f:n { x = 1; trace(*(int *)0x10); } ERROR { printf("%d %x", arg4, arg5); } ERROR { trace(*(int *)0); }`, Options{})
	s.fire(2)
	if got, want := s.out.String(), "<invalid address 0x10>1 10"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.m.Drops.ErrorInError != 1 {
		t.Errorf("%d errors in ERROR, want 1", s.m.Drops.ErrorInError)
	}
}

// TestRecords: what is one record, and which clauses give none.
func TestRecords(t *testing.T) {
	for _, c := range []struct {
		src  string
		want []string // by record
	}{
		{`t:m:f:n { trace(1); trace(2); }`, []string{"1 2 "}},
		{`t:m:f:n /arg0 == 10/ { trace(1); }`, []string{"1 "}},
		{`t:m:f:n /arg0 == 11/ { trace(1); }`, nil},
		{`t:m:f:n`, []string{"default"}},
		{`t:m:f:n /execname == "sshd"/ {}`, []string{"default"}},
		{`t:m:f:n /execname == "bash"/ {}`, nil},
		{`t:m:f:n { @ = count(); }`, nil},
		{`t:m:f:n { @ = count(); trace(1); }`, []string{"1 "}},
		{`t:m:f:n { x = 1; @ = count(); }`, nil},
		{`t:m:f:n { x = 1; }`, nil},
		{`t:m:f:n { trace(1); if (arg0 == 10) { trace(2); } else { trace(3); } trace(4); }`, []string{"1 ", "2 ", "4 "}},
		{`t:m:f:n { trace(1); if (arg0 == 11) { trace(2); } else { trace(3); } trace(4); }`, []string{"1 ", "3 ", "4 "}},
		{`t:m:f:n { trace(1); if (arg0 == 10) { x = 5; } trace(x); }`, []string{"1 5 "}},
		{`t:m:f:n { if (arg0 == 11) trace(2); }`, nil},
		{`t:m:f:n { if (arg0 == 10) { if (arg1 == -3) { trace(1); } trace(2); } }`, []string{"1 ", "2 "}},
		{`t:m:f:n { this->s = speculation(); speculate(this->s); trace(1); }`, []string{"{spec 1}speculate:1 "}},
		{`t:m:f:n { self->s = speculation(); } t:m:f:n { speculate(self->s); trace(7); } t:m:f:n { commit(self->s); }`, []string{"{spec 1}speculate:7 ", "commit:1 "}},
		{`t:m:f:n { speculate(0); trace(1); }`, nil},
		{`t:m:f:n { exit(0); trace(5); } t:m:f:n { trace(6); }`, []string{"exit:0 5 "}},
		{`t:m:f:n { @a[1] = count(); printa(@a); clear(@a); trunc(@a, 5); normalize(@a, 1000); }`, []string{"printa:@aclear:@atrunc:5 @anormalize:1000 @a"}},
	} {
		t.Run(c.src, func(t *testing.T) {
			s := compileD(t, c.src, Options{})
			s.fire(2)
			var got []string
			for _, r := range s.recs {
				s.out.Reset()
				s.show(r)
				got = append(got, s.out.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAggregations(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{`t:m:f:n { @ = count(); }`, "@[]=2"},
		{`t:m:f:n { @a[execname] = count(); @b[probefunc, pid] = sum(arg0); }`, "@a[sshd]=2 @b[f,4242]=20"},
		{`t:m:f:n { @[copyinstr(arg3)] = sum(3); } t:m:f:n { @["/etc/passwd"] = sum(4); }`, "@[/etc/passwd]=14"},
		{`t:m:f:n { @[stack(1)] = count(); }`, "@[[ffffffff81000010]]=2"},
		{`t:m:f:n { @[ustack(), tid] = count(); }`, "@[4242[401000 402000 403000],4243]=2"},
		{`t:m:f:n { @[(char)1, (short)2, (long)3] = sum(5); }`, "@[1,2,3]=10"},
		{`t:m:f:n { @[sym(caller), ufunc(ucaller)] = count(); }`, "@[sym(ffffffff81000010),usym(4242,401000)]=2"},
		{`t:m:f:n { @["", "1234567", "12345678", "1234567890123456789012345678901", "12345678901234567890123456789012"] = count(); }`, "@[,1234567,12345678,1234567890123456789012345678901,12345678901234567890123456789012]=2"},
		{`t:m:f:n { @[arg0 ? "a" : "bcd"] = count(); }`, "@[a]=2"},
	} {
		t.Run(c.src, func(t *testing.T) {
			s := compileD(t, c.src, Options{})
			s.fire(2)
			s.fire(2)
			got := s.aggregations()
			// Differently built keys are different forms of one aggregation.
			if c.want == "@[/etc/passwd]=14" {
				if got != "@[/etc/passwd]=6 @[/etc/passwd]=8" {
					t.Errorf("got %s", got)
				}
				return
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestTypedArgs(t *testing.T) {
	s := compileD(t, `t:m:f:typed { printf("%d %d %s %d %s", args[0]->id, args[1], stringof(args[0]->name), args[2]->id, stringof(args[2]->name)); }`, Options{})
	s.w.args = []int64{-0x777ffffff000, 0x100000005, 0x2000}
	s.fire(3)
	if got, want := s.out.String(), "1 5 first 7 user"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLifetimes: globals last, self-> is a thread's, this-> a firing's.
func TestLifetimes(t *testing.T) {
	s := compileD(t, `t:m:f:n { this->n++; self->n++; n++; } t:m:f:n { this->n++; printf("%d %d %d,", this->n, self->n, n); }`, Options{})
	s.fire(2)
	s.fire(2)
	s.w.num[dif.BTid] = 7
	s.fire(2)
	if got, want := s.out.String(), "2 1 1,2 2 2,2 1 3,"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDrop: a record without room ends the clause before anything happened.
func TestDrop(t *testing.T) {
	s := compileD(t, `t:m:f:n { n++; trace(n); } t:m:f:n { @ = count(); }`, Options{})
	s.m.Room = func(int) bool { return false }
	s.fire(2)
	s.m.Room = nil
	s.fire(2)
	if got, want := s.out.String(), "1 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.m.Drops.Records != 1 || s.aggregations() != "@[]=2" {
		t.Errorf("%d drops, %s", s.m.Drops.Records, s.aggregations())
	}
}

func TestStrsize(t *testing.T) {
	s := compileD(t, `t:m:f:n { this->s = copyinstr(arg3); trace(this->s); trace(strjoin("abcdef", "ghijkl")); trace("0123456789"); }`, Options{StrSize: 8})
	s.fire(2)
	if got, want := s.out.String(), "/etc/pa abcdefg 0123456 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestActs(t *testing.T) {
	s := compileD(t, `t:m:f:n { raise(9); stop(); copyoutstr("hi", arg3, 3); chill(100); }`, Options{})
	s.fire(2)
	if got := fmt.Sprint(s.w.acts); got != "[raise [9] stop [] chill [100]]" {
		t.Error(got)
	}
	if got := string(s.w.written[0x1000]); got != "hi\x00" {
		t.Errorf("copyoutstr wrote %q", got)
	}
}

// TestUnoptimized: the passes change nothing that can be seen.
func TestUnoptimized(t *testing.T) {
	src := `t:m:f:n { this->x = arg0 + 1; trace(this->x > 5 ? execname == "sshd" ? "a" : "b" : "c"); trace(arg0 && (arg1 || arg5)); }`
	a, b := compileD(t, src, Options{}), compileD(t, src, Options{NoOptimize: true})
	a.fire(2)
	b.fire(2)
	if a.out.String() != b.out.String() || a.out.Len() == 0 {
		t.Errorf("%q with passes, %q without", a.out.String(), b.out.String())
	}
}
