package check

import (
	"strings"
	"testing"

	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// traced is the argument of the last trace() of a program's last clause.
func traced(t *testing.T, src string) Expr {
	t.Helper()
	_, p, e := checkText(t, src, nil)
	if e != nil {
		t.Fatalf("%s: %s %v", src, e.Tag, e)
	}
	body := p.Clauses[len(p.Clauses)-1].Body
	return body[len(body)-1].(*Action).Args[0]
}

// Values and types of constant expressions are those gcc 14 gives on x86-64.
func TestConstants(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want int64
		typ  string
	}{
		{`-1 >> 1`, -1, "int"},
		{`-1U >> 1`, 2147483647, "unsigned int"},
		{`7 / -2`, -3, "int"},
		{`-7 % 3`, -1, "int"},
		{`7u / -2`, 0, "unsigned int"},
		{`1u - 2`, 4294967295, "unsigned int"},
		{`1 - 2L`, -1, "long"},
		{`(char)300`, 44, "char"},
		{`(unsigned char)-1`, 255, "unsigned char"},
		{`(short)70000`, 4464, "short"},
		{`~0u`, 4294967295, "unsigned int"},
		{`~0`, -1, "int"},
		{`!5`, 0, "int"},
		{`!0`, 1, "int"},
		{`1 << 31`, -2147483648, "int"},
		{`1u << 31`, 2147483648, "unsigned int"},
		{`(1 << 63) - 1`, 1<<63 - 1, "long"},
		{`1L << 40`, 1099511627776, "long"},
		{`0x7fffffff`, 2147483647, "int"},
		{`0x80000000`, 2147483648, "unsigned int"},
		{`2147483648`, 2147483648, "long"},
		{`0xffffffffffffffff`, -1, "unsigned long"},
		{`0777`, 511, "int"},
		{`'a' + 0`, 97, "int"},
		{`(unsigned short)-1 + 1`, 65536, "int"},
		{`(signed char)-1 == (unsigned char)255`, 0, "int"},
		{`-1 < 1u`, 0, "int"},
		{`-1L < 1u`, 1, "int"},
		{`(unsigned)-1 > 0`, 1, "int"},
		{`5 > 3 > 1`, 0, "int"},
		{`1 ? -1 : 1u`, 4294967295, "unsigned int"},
		{`0 ? 5 : 3L`, 3, "long"},
		{`6 & 3 | 8 ^ 1`, 11, "int"},
		{`10 - 3 - 2`, 5, "int"},
		{`2 + 3 * 4 % 5`, 4, "int"},
		{`-5 / 2 * 2`, -4, "int"},
		{`1000000 * 1000000L`, 1000000000000, "long"},
		{`(int)0x1ffffffffLL`, -1, "int"},
		{`(unsigned)-1L`, 4294967295, "unsigned int"},
		{`(long)(int)0x80000000`, -2147483648, "long"},
		{`sizeof (int) - 5`, -1, "unsigned long"},
		{`sizeof (char)`, 1, "unsigned long"},
		{`(_Bool)7`, 1, "_Bool"},
		{`3 == 3L`, 1, "int"},
		{`-9223372036854775807 - 1`, -9223372036854775808, "long"},
		{`18446744073709551615u / 10`, 1844674407370955161, "unsigned long"},
		{`-1 / 2u`, 2147483647, "unsigned int"},
		{`(char)200 >> 1`, -28, "int"},
		{`(unsigned char)200 << 1`, 400, "int"},
	} {
		k, ok := traced(t, "BEGIN { trace("+tt.src+"); }").(*Const)
		if !ok {
			t.Errorf("%s: not a constant", tt.src)
			continue
		}
		if got := types.Underlying(k.T).String(); k.Value != tt.want || got != tt.typ {
			t.Errorf("%s = %d %s, want %d %s", tt.src, k.Value, got, tt.want, tt.typ)
		}
	}
}

// Types of expressions, by the rules of the D guide (those of ANSI C but for strings).
func TestTypes(t *testing.T) {
	for _, tt := range []struct{ src, typ string }{
		{`arg0`, "int64_t"},
		{`execname`, "string"},
		{`curthread`, "struct task_struct *"},
		{`curthread->comm`, "char [16]"},
		{`stringof(curthread->comm)`, "string"},
		{`curthread->parent->cred`, "const struct cred *"},
		{`curthread->cred->uid`, "unsigned int"},
		{`&curthread->pid`, "int *"},
		{`curthread->tasks.next`, "struct list_head *"},
		{`curthread + 1`, "struct task_struct *"},
		{`&curthread[1] - curthread`, "ptrdiff_t"},
		{`curthread->in_iowait`, "unsigned int"},
		{`curthread->anon_b`, "long"},
		{`*curthread`, "struct task_struct"},
		{`execname == "x"`, "int"},
		{`pid ? "a" : execname`, "string"},
		{`pid ? curthread : 0`, "struct task_struct *"},
		{`curthread->flags + 1L`, "long"},
		{`arg0 + 1u`, "int64_t"},
		{`(char)arg0`, "char"},
		{`-(char)arg0`, "int"},
		{`strlen("x")`, "size_t"},
		{`strtok(execname, ",")`, "string"},
		{`copyin(arg0, 4)`, "void *"},
		{`execname[0]`, "char"},
		{`curthread->st`, "enum state"},
		{`curthread->st + 1`, "int"},
		{`timestamp - 1`, "uint64_t"},
		{`uregs[1]`, "uint64_t"},
		{`(1, arg0)`, "int64_t"},
		{"`init_task.pid", "int"},
		{"&`vfs_read", "long (*)(void *)"},
		{"`per_cpu_offset[1]", "unsigned long"},
	} {
		if got := traced(t, "BEGIN { trace("+tt.src+"); }").Type().String(); got != tt.typ {
			t.Errorf("%s: %s, want %s", tt.src, got, tt.typ)
		}
	}
}

// Members lie where gcc puts them.
func TestMembers(t *testing.T) {
	m := traced(t, `BEGIN { trace(curthread->cred->gid); }`).(*Mem)
	if in, ok := m.Addr.(*Mem); m.Off != 4 || !ok || in.Off != 72 {
		t.Errorf("curthread->cred->gid: offset %d of %#v", m.Off, m.Addr)
	}
	b := traced(t, `BEGIN { trace(curthread->sched_class); }`).(*Mem)
	if b.Bits != 7 || (b.Off*8+b.BitOff) != 96*8+2 {
		t.Errorf("bit-field at byte %d bit %d, %d bits", b.Off, b.BitOff, b.Bits)
	}
	// The tenth task of an array, its second list pointer: scaled and folded.
	a := traced(t, `BEGIN { trace(curthread[3].tasks.prev); }`).(*Mem)
	if _, ok := a.Addr.(*Builtin); !ok || a.Off != 3*128+40 {
		t.Errorf("offset %d of %T, want %d", a.Off, a.Addr, 3*128+40)
	}
}

// Pointers that come from a user process stay there: every load through them
// reads user memory, and what is found is a user pointer again.
func TestUserMemory(t *testing.T) {
	m := traced(t, `syscall::read:entry { trace(*args[1]); }`).(*Mem)
	if !m.User {
		t.Error("*args[1] reads kernel memory")
	}
	m = traced(t, `struct n { struct n *next; int v; }; BEGIN { trace(((userland struct n *)arg0)->next->next->v); }`).(*Mem)
	for depth := 0; ; depth++ {
		if !m.User {
			t.Fatalf("depth %d reads kernel memory", depth)
		}
		next, ok := m.Addr.(*Mem)
		if !ok {
			if depth != 2 {
				t.Errorf("depth %d, want 2", depth)
			}
			break
		}
		m = next
	}
	if x := traced(t, `BEGIN { trace(((struct task_struct *)arg0)->pid); }`).(*Mem); x.User {
		t.Error("a plain cast reads user memory")
	}
}

// Inlines and translators leave nothing of themselves but Lets, and those only
// where a value would be computed more than once.
func TestExpansion(t *testing.T) {
	if k, ok := traced(t, `inline int N = 3; inline int f[int a, int b] = a * b + N; BEGIN { trace(f[2, 5]); }`).(*Const); !ok || k.Value != 13 {
		t.Errorf("f[2, 5] = %#v", k)
	}
	x := traced(t, `inline int sq[int a] = a * a; BEGIN { trace(sq[strlen(execname)]); }`)
	l, ok := x.(*Let)
	if !ok {
		t.Fatalf("%T, want a Let", x)
	}
	b := l.Body.(*Binary)
	for _, y := range []Expr{b.X, b.Y} {
		if r, ok := y.(*LetRef); !ok || r.Slot != l.Slot {
			t.Errorf("%#v is not the bound value", y)
		}
	}
	if _, ok := traced(t, `inline int sq[int a] = a * a; BEGIN { trace(sq[pid]); }`).(*Binary); !ok {
		t.Error("a variable is bound by a Let")
	}
	// Parameters hide globals within the body only.
	if k, ok := traced(t, `inline int y = 7; inline int f[int y] = y; inline int g[int a] = y; BEGIN { trace(f[1] * 100 + g[2]); }`).(*Const); !ok || k.Value != 107 {
		t.Errorf("scopes mixed up: %#v", k)
	}
}

// args[] is argN where nothing else is said, and the location where it is.
func TestArgs(t *testing.T) {
	b := traced(t, `syscall::read:entry { trace(args[2]); }`).(*Builtin)
	if b.ID != dif.BArg || b.N != 2 {
		t.Errorf("args[2] is %v %d", b.ID, b.N)
	}
	loc := &probe.Loc{Kind: probe.LocReg, Off: 8, Size: 4}
	src := `usdt:::p { trace(args[1]); }`
	env := newFakeEnv(t)
	env.probes = append(env.probes, &probe.Probe{ID: 99, Desc: probe.Desc{Provider: "usdt", Name: "p"},
		Args: []probe.Arg{{Native: types.TInt}, {Native: types.TInt, From: 1, Loc: loc}}})
	c := New(env, Options{})
	f, err := syntax.Parse("", []byte(src), syntax.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.File(f)
	if err != nil {
		t.Fatal(err)
	}
	b = p.Clauses[0].Body[0].(*Action).Args[0].(*Builtin)
	if b.ID != dif.BArgs || b.N != 1 || b.Loc != loc {
		t.Errorf("args[1] is %v %d %v", b.ID, b.N, b.Loc)
	}
}

// What a session keeps from one program to the next.
func TestSession(t *testing.T) {
	env := newFakeEnv(t)
	c := New(env, Options{})
	for i, src := range []string{
		`typedef int myint; myint g; inline int K = 2; BEGIN { g = K; @a[1] = count(); self->x = 1; this->l = 1; }`,
		`myint h; BEGIN { h = g + K; @a[2] = count(); trace(self->x); this->l = "another type"; }`,
		`END { printa(@a); trace(h); }`,
	} {
		f, err := syntax.Parse("", []byte(src), syntax.Options{IsType: c.IsType})
		if err != nil {
			t.Fatal(i, err)
		}
		p, err := c.File(f)
		if err != nil {
			t.Fatal(i, err)
		}
		if p.Clauses[0].Index != i {
			t.Errorf("clause %d has index %d", i, p.Clauses[0].Index)
		}
	}
	if len(c.Aggs) != 1 || c.Aggs[0].Name != "a" {
		t.Errorf("aggregations: %v", c.Aggs)
	}
}

// Options of the compiler.
func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		src  string
		opts func(*Options, *fakeEnv)
		tag  string // "" accepted
	}{
		{`nosuch:::x { trace(1); }`, func(o *Options, _ *fakeEnv) { o.ZDefs = true }, ""},
		{`lacking:::x { trace(1); }`, func(o *Options, _ *fakeEnv) { o.ZDefs = true }, ""},
		{`lacking:::x { trace(1); }`, nil, "D_PDESC_INVAL"},
		{`nosuch:::x { trace(args[0]); }`, func(o *Options, _ *fakeEnv) { o.ZDefs = true }, "D_ARGS_MULTI"},
		{`BEGIN { trace($1); trace($$2); }`, func(o *Options, _ *fakeEnv) { o.DefaultArgs = true }, ""},
		{`BEGIN { trace($1 + 1); trace($$1); }`, func(o *Options, e *fakeEnv) { e.macros["1"] = "42"; o.Args = []string{"42"} }, ""},
		{`BEGIN { trace($1 == "cat"); }`, func(o *Options, e *fakeEnv) { e.macros["1"] = "execname" }, ""},
		{`BEGIN { trace($1); }`, func(o *Options, e *fakeEnv) { e.macros["1"] = "99999999999999999999" }, "D_MACRO_OFLOW"},
		{`BEGIN { trace(1); }`, func(o *Options, _ *fakeEnv) { o.Args = []string{"x"} }, "D_MACRO_UNUSED"},
		{`BEGIN { trace(1); }`, func(o *Options, _ *fakeEnv) { o.Args, o.ArgRef = []string{"x"}, true }, ""},
		{`syscall::$1:entry { trace(1); }`, func(o *Options, e *fakeEnv) { o.Args = []string{"read"}; e.macros["1"] = "read" }, ""},
		{`BEGIN { @ = llquantize(1, 10, 0, 6, 20); }`, func(o *Options, _ *fakeEnv) { o.Version = "1.6" }, "D_FUNC_UNDEF"},
		{`BEGIN { trace(ucaller); }`, func(o *Options, _ *fakeEnv) { o.Version = "1.1" }, "D_IDENT_UNDEF"},
		{`BEGIN { trace(ucaller); }`, func(o *Options, _ *fakeEnv) { o.Version = "1.2" }, ""},
		{`BEGIN { trace(curthread); }`, func(o *Options, _ *fakeEnv) { o.AMin = "Evolving/Evolving/Common" }, "D_ATTR_MIN"},
		{"BEGIN { trace(`jiffies); }", func(o *Options, _ *fakeEnv) { o.KDefs = true }, "D_ASRELO"},
		{`BEGIN { trace(pid); }`, func(o *Options, _ *fakeEnv) { o.AMin = "Unstable/Unstable/Common" }, ""},
	} {
		_, _, e := checkText(t, tt.src, tt.opts)
		got := ""
		if e != nil {
			got = e.Tag
		}
		if got != tt.tag {
			t.Errorf("%s: %q (%v), want %q", tt.src, got, e, tt.tag)
		}
	}
}

// Slips of the finger are answered with what was meant.
func TestHints(t *testing.T) {
	for _, tt := range []struct{ src, hint string }{
		{`BEGIN { trace(execnam); }`, "did you mean execname?"},
		{`BEGIN { prinft("x"); }`, "did you mean printf()?"},
		{`BEGIN { trace(curthread->parnet); }`, "did you mean parent?"},
		{`syscall::raed:entry { trace(1); }`, "did you mean read?"},
		{`BEGIN { self->start = 1; trace(self->strat); }`, "did you mean self->start?"},
		{`BEGIN { self->start = 1; trace(start); }`, "did you mean self->start?"},
		{"BEGIN { trace(jiffies); }", "did you mean the kernel's `jiffies?"},
		{`BEGIN { @count = count(); printa(@cuont); }`, "did you mean @count?"},
		{`string a[3]; BEGIN { a[0] = "x"; }`, "arrays of strings are associative: string name[int]"},
		{`BEGIN { trace(zzzzzz); }`, ""},
	} {
		_, _, e := checkText(t, tt.src, nil)
		if e == nil || e.Hint != tt.hint {
			t.Errorf("%s: %v, want %q", tt.src, e, tt.hint)
			if e != nil {
				t.Logf("hint %q", e.Hint)
			}
		}
	}
}

// An argument is a number, a name or a string, by its form; quotation marks are
// not part of the string.
func TestArguments(t *testing.T) {
	for _, tt := range []struct{ arg, src, tag string }{
		{`"cat"`, `BEGIN /execname == $1/ { printf("%s", $1); }`, ""},
		{`"a string argument"`, `BEGIN { printf("%s", $1); }`, ""},
		{"a-b", `BEGIN { printf("%s", $1); }`, ""},
		{"/etc/passwd", `BEGIN { printf("%s", $1); }`, ""},
		{"-x", `BEGIN { printf("%s", $1); }`, ""},
		{"", `BEGIN { printf("%s", $1); }`, ""},
		{"-5", `BEGIN { printf("%d", $1); }`, ""},
		{"0x1F", `BEGIN { printf("%d", $1); }`, ""},
		{"1.5", `BEGIN { printf("%d", $1); }`, "D_PRINTF_ARG_TYPE"},
		{"pid", `BEGIN { printf("%d", $1); }`, ""},
		{"cat", `BEGIN { printf("%s", $1); }`, "D_IDENT_UNDEF"},
		{"12abc", `BEGIN { printf("%s", $1); }`, "D_SYNTAX"},
	} {
		_, _, e := checkText(t, tt.src, func(o *Options, env *fakeEnv) { env.macros["1"] = tt.arg })
		switch {
		case (e == nil) != (tt.tag == "") || e != nil && e.Tag != tt.tag:
			t.Errorf("%s with %q: %v, want %q", tt.src, tt.arg, e, tt.tag)
		case tt.tag == "D_IDENT_UNDEF" && e.Hint != "an argument that is a word names a variable: $$1 is its text":
			t.Errorf("hint %q", e.Hint)
		}
	}
}

func TestExtraneous(t *testing.T) {
	for arg, hint := range map[string]string{
		"{ exit(0); }": "predicate and actions belong into the argument of the description: -n 'BEGIN { … }'",
		"/pid == 1/":   "predicate and actions belong into the argument of the description: -n 'BEGIN { … }'",
		"/etc/passwd":  "",
		"word":         "",
	} {
		_, _, e := checkText(t, "BEGIN { }", func(o *Options, _ *fakeEnv) { o.Args = []string{arg} })
		if e == nil || e.Tag != "D_MACRO_UNUSED" || e.Hint != hint {
			t.Errorf("%s: %v, want hint %q", arg, e, hint)
		}
	}
}

// The stability of a clause is the least of what it uses.
func TestStability(t *testing.T) {
	_, p, e := checkText(t, "BEGIN { trace(curthread); trace(pid); } BEGIN { trace(`jiffies); } BEGIN { trace(pid); }", nil)
	if e != nil {
		t.Fatal(e)
	}
	for i, want := range []string{"Stable/Private/Common", "Private/Private/Unknown", "Stable/Stable/Common"} {
		if got := p.Clauses[i].StmtAttr.String(); got != want {
			t.Errorf("clause %d: %s, want %s", i, got, want)
		}
	}
}

// The table of identifiers holds together.
func TestIdents(t *testing.T) {
	seen := map[string]bool{}
	c := New(newFakeEnv(t), Options{})
	for i := range idents {
		id := &idents[i]
		if seen[id.name] {
			t.Errorf("%s twice", id.name)
		}
		seen[id.name] = true
		if err := c.attempt(func() {
			switch id.kind {
			case idFunc, idActFunc, idAggFunc:
				c.protoFor(syntax.Pos{}, id)
			case idScalar:
				c.protoType(syntax.Pos{}, id.typ)
			}
		}); err != nil {
			t.Errorf("%s: %v", id.name, err)
		}
	}
	for _, tt := range strings.Fields("arg9 args curpsinfo") {
		if tt != "curpsinfo" && !seen[tt] {
			t.Errorf("%s is missing", tt)
		}
	}
}

// -32 changes the program's own types, not the libraries' and D's.
func TestILP32(t *testing.T) {
	for _, tt := range []struct {
		src         string
		lp64, ilp32 int64
	}{
		{`sizeof (long)`, 8, 4},
		{`sizeof (unsigned long)`, 8, 4},
		{`sizeof (long long)`, 8, 8},
		{`sizeof (int)`, 4, 4},
		{`sizeof (userland char *)`, 8, 4},
		{`sizeof (char *)`, 8, 4},
		{`sizeof (int64_t)`, 8, 8},
		{`sizeof (size_t)`, 8, 4},
		{`sizeof (1L)`, 8, 4},
		{`sizeof (4294967295UL)`, 8, 4},
		{`sizeof (4294967296)`, 8, 8},
		{`sizeof ((char *)0)`, 8, 8}, // a value may be an address of the kernel
	} {
		for _, ilp32 := range []bool{false, true} {
			_, p, e := checkText(t, "BEGIN { trace("+tt.src+"); }", func(o *Options, _ *fakeEnv) { o.ILP32 = ilp32 })
			if e != nil {
				t.Errorf("%s: %v", tt.src, e)
				continue
			}
			want := tt.lp64
			if ilp32 {
				want = tt.ilp32
			}
			if k, ok := p.Clauses[0].Body[0].(*Action).Args[0].(*Const); !ok || k.Value != want {
				t.Errorf("%s, ILP32 %v: %v, want %d", tt.src, ilp32, k, want)
			}
		}
	}
}
