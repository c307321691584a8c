package dwarf

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godtrace/internal/types"
)

// built are the programs made so far, by what they are made of.
var built struct {
	dir   string
	progs map[string]string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dwarf")
	if err != nil {
		panic(err)
	}
	built.dir, built.progs = dir, map[string]string{}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// build compiles a program; without the compiler the test is skipped.
func build(t testing.TB, source string, flags ...string) string {
	t.Helper()
	cc := map[string]string{".c": "gcc", ".cc": "g++", ".rs": "rustc"}[filepath.Ext(source)]
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("SKIP-FEATURE: %s", cc)
	}
	key := fmt.Sprint(source, flags)
	if prog := built.progs[key]; prog != "" {
		return prog
	}
	out := filepath.Join(built.dir, fmt.Sprint("prog", len(built.progs)))
	args := append([]string{"-g", "-o", out, filepath.Join("testdata", source)}, flags...)
	if msg, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Skipf("SKIP-FEATURE: %s %s: %v\n%s", cc, strings.Join(args, " "), err, msg)
	}
	built.progs[key] = out
	return out
}

func open(t testing.TB, name string) *File {
	t.Helper()
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func function(t testing.TB, f *File, name string) *Function {
	t.Helper()
	fns, err := f.Function(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(fns) != 1 {
		t.Fatalf("%d functions %s", len(fns), name)
	}
	return &fns[0]
}

// says runs a program and returns its lines as fields.
func says(t *testing.T, prog string) (lines [][]string) {
	t.Helper()
	out, err := exec.Command(prog).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// Sizes, alignments and offsets are those that the compiler prints, in all
// versions and packings of the debugging information.
func TestTypes(t *testing.T) {
	for _, flags := range []string{"-gdwarf-5", "-gdwarf-4", "-gdwarf-3", "-gdwarf-2",
		"-gdwarf-5 -gz", "-gdwarf-4 -gz=zlib-gnu", "-gdwarf64", "-m32", "-O2", "-fdebug-types-section"} {
		t.Run(flags, func(t *testing.T) {
			prog := build(t, "shapes.c", strings.Fields(flags)...)
			f := open(t, prog)
			named := map[string]types.Type{}
			for _, p := range function(t, f, "root").Params {
				e := types.Elem(p.Type)
				if !types.IsUser(p.Type) || e == nil {
					t.Fatalf("%s is no pointer into the program: %s", p.Name, p.Type)
				}
				named[e.String()] = e
			}
			for _, l := range says(t, prog) {
				name, member, _ := strings.Cut(l[1], ".")
				s := named[l[0]+" "+name]
				if s == nil {
					t.Fatalf("no type %s %s", l[0], name)
				}
				got := fmt.Sprint(s.Size(), s.Align())
				if member != "" {
					off, m, ok := types.FindMember(s, member)
					if got = fmt.Sprint(off/8, m.Type.Size()); !ok {
						got = "no member"
					}
					if l[2] == "bits" {
						got = "bits " + setBits(s.Size(), off, m.Bits)
					}
				}
				if want := strings.Join(l[2:], " "); got != want {
					t.Errorf("%s %s: %s, want %s", l[0], l[1], got, want)
				}
			}
		})
	}
}

// setBits is an object of n bytes, in hex, in which some bits are set.
func setBits(n, off, bits int64) string {
	b := make([]byte, n)
	for i := off; i < off+bits && i/8 < n; i++ {
		b[i/8] |= 1 << (i % 8)
	}
	return fmt.Sprintf("%x", b)
}

// Types are printed as C declares them.
func TestDeclarations(t *testing.T) {
	f := open(t, build(t, "shapes.c"))
	node := types.Elem(function(t, f, "root").Params[0].Type)
	want := map[string]string{
		"next": "struct node *next", "name": "const char *name", "n": "volatile int n", "leaves": "struct leaf leaves[3]",
		"u": "union num u", "color": "enum color color", "call": "int (*call)(struct node *, const char *, ...)",
		"grid": "word grid[2][5]", "flag": "_Bool flag", "ld": "long double ld", "later": "struct later *later", "tail": "unsigned char tail[]",
	}
	for name, decl := range want {
		_, m, ok := types.FindMember(node, name)
		if got := types.Decl(m.Type, m.Name); !ok || got != decl {
			t.Errorf("%q, want %q", got, decl)
		}
	}
	for name, values := range map[string]map[string]int64{
		"color": {"RED": 0, "GREEN": 5, "BLUE": 6}, "sign": {"MINUS": -3, "PLUS": 3}, "wide": {"WIDE": 0x123456789abc},
	} {
		_, m, _ := types.FindMember(node, name)
		e := types.Underlying(m.Type).(*types.Enum)
		for c, v := range values {
			if got, ok := e.Const(c); !ok || got != v {
				t.Errorf("%s is %d, want %d", c, got, v)
			}
		}
		if e.Signed != (name == "sign") {
			t.Errorf("enum %s: signed is %v", name, e.Signed)
		}
	}
}

// passing are the functions of shapes.c for how arguments are passed.
var passing = []string{"plain", "many", "mixed", "bypair", "bymix", "bylarge", "spill", "small", "stack", "vector", "giveslarge", "givespair", "varied", "root"}

// Of code that was not optimised the compiler does not say where parameters lie at
// the entry. Places finds what it says of the same functions when it optimises.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		source      string
		names       []string
		version     string
		plain, fast string
	}{
		{"shapes.c", passing, "-gdwarf-5", "-O0", "-O2"},
		{"shapes.c", passing, "-gdwarf-4", "-O0", "-O2"},
		{"shapes.cc", []string{"send", "take", "give", "twice<long int>", "root"}, "-gdwarf-5", "-O0", "-O2"},
		{"shapes.cc", []string{"send", "take", "give", "twice<long int>", "root"}, "-gdwarf-4", "-O0", "-O2"},
		{"shapes.rs", []string{"greet", "maybe"}, "-Cdwarf-version=5", "-Copt-level=0", "-Copt-level=2"},
		{"shapes.rs", []string{"greet", "maybe"}, "-Cdwarf-version=4", "-Copt-level=0", "-Copt-level=2"},
	} {
		t.Run(c.source+" "+c.version, func(t *testing.T) {
			plain := open(t, build(t, c.source, c.plain, c.version))
			opt := open(t, build(t, c.source, c.fast, c.version))
			said := 0
			for _, name := range c.names {
				fn, says := function(t, plain, name), function(t, opt, name)
				places := fn.Places()
				if len(places) != len(says.Params) || len(places) == 0 {
					t.Fatalf("%s: %d parameters, want %d", name, len(places), len(says.Params))
				}
				for i, p := range says.Params {
					if fn.Params[i].Name != p.Name || fn.Params[i].Type.String() != p.Type.String() {
						t.Errorf("%s: %v and %v", name, fn.Params[i], p)
					}
					if p.Entry == nil || p.Entry[0].Kind == PieceNone {
						continue // it came to lie elsewhere at once, or is not used
					}
					said++
					if got, want := places[i].String(), (Place{Pieces: p.Entry}).String(); got != want {
						t.Errorf("%s(%s): %s, want %s", name, p.Name, got, want)
					}
				}
			}
			if said < len(c.names) {
				t.Errorf("the compiler says where %d parameters lie", said)
			}
		})
	}
}

// Sizes of pieces add up to the value.
func TestPieces(t *testing.T) {
	for _, opt := range []string{"-O0", "-O2"} {
		f := open(t, build(t, "shapes.c", opt))
		for _, name := range passing {
			fn := function(t, f, name)
			for i, p := range fn.Places() {
				var n int64
				for _, q := range p.Pieces {
					n += q.Size
				}
				if want := fn.Params[i].Type.Size(); len(p.Pieces) > 1 && n != want {
					t.Errorf("%s: %s has pieces of %d bytes, want %d", name, fn.Params[i].Name, n, want)
				}
			}
		}
	}
}

// Entries that dwz has shared, within a file and among files, are found.
func TestShared(t *testing.T) {
	if _, err := exec.LookPath("dwz"); err != nil {
		t.Skip("SKIP-FEATURE: dwz")
	}
	dir := t.TempDir()
	alone, one, two := filepath.Join(dir, "alone"), filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for name, from := range map[string]string{alone: build(t, "shapes.c"), one: build(t, "shapes.c"), two: build(t, "shapes.c", "-O2")} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{alone}, {"-m", filepath.Join(dir, "common"), one, two}} {
		if out, err := exec.Command("dwz", args...).CombinedOutput(); err != nil {
			t.Fatalf("dwz: %v\n%s", err, out)
		}
	}
	whole := open(t, build(t, "shapes.c"))
	for _, file := range []string{alone, one} {
		f := open(t, file)
		for _, name := range append(passing, "root") {
			want, got := function(t, whole, name), function(t, f, name)
			for i, p := range want.Places() {
				if g := got.Places()[i]; g.String() != p.String() {
					t.Errorf("%s: %s(%s): %s, want %s", filepath.Base(file), name, want.Params[i].Name, g, p)
				}
				if g, w := layout(got.Params[i].Type), layout(want.Params[i].Type); g != w {
					t.Errorf("%s: %s(%s): %s, want %s", filepath.Base(file), name, want.Params[i].Name, g, w)
				}
			}
		}
	}
}

// layout is a type with the members of what it points to.
func layout(t types.Type) string {
	s := t.String()
	if e := types.Elem(t); e != nil {
		if st, ok := types.Underlying(e).(*types.Struct); ok {
			for _, m := range st.Members() {
				s += fmt.Sprint("; ", m.Off, ".", m.BitOff, ":", m.Bits, " ", types.Decl(m.Type, m.Name))
			}
		}
	}
	return s
}

// What is not there is said.
func TestMissing(t *testing.T) {
	prog := build(t, "shapes.c", "-O2")
	f := open(t, prog)
	var in *InlinedError
	if _, err := f.Function("inlined"); !errors.As(err, &in) || !f.Inlined("inlined") {
		t.Errorf("inlined: %v", err)
	}
	if _, err := f.Function("nothing"); !errors.Is(err, ErrNotFound) || f.Inlined("nothing") {
		t.Errorf("nothing: %v", err)
	}
	if _, err := f.FunctionAt(1); !errors.Is(err, ErrNotFound) {
		t.Errorf("at 1: %v", err)
	}
	if f.Inlined("plain") {
		t.Error("plain is inlined")
	}
	// The compiler made a copy without the parameter.
	fn := function(t, f, "lost")
	if len(fn.Params) != 3 || fn.Params[1].Name != "unused" {
		t.Fatalf("lost has %+v", fn.Params)
	}
	if err := fn.Places()[1].Err; err == nil || !strings.Contains(err.Error(), "'unused'") {
		t.Errorf("unused: %v", err)
	}
	stripped := filepath.Join(t.TempDir(), "s")
	if out, err := exec.Command("strip", "-o", stripped, prog).CombinedOutput(); err != nil {
		t.Skipf("SKIP-FEATURE: strip: %s", out)
	}
	if _, err := Open(stripped); !errors.Is(err, ErrNone) {
		t.Errorf("stripped: %v", err)
	}
}

// FunctionAt finds by the symbol's value what Function finds by name.
func TestFunctionAt(t *testing.T) {
	prog := build(t, "shapes.c")
	ef, err := elf.Open(prog)
	if err != nil {
		t.Fatal(err)
	}
	defer ef.Close()
	syms, err := ef.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	f := open(t, prog)
	for _, name := range passing {
		for _, s := range syms {
			if s.Name != name {
				continue
			}
			n++
			if fn, err := f.FunctionAt(s.Value); err != nil || fn.Name != name || !fn.External {
				t.Errorf("%s: %+v, %v", name, fn, err)
			}
		}
	}
	if n != len(passing) {
		t.Errorf("%d functions, want %d", n, len(passing))
	}
}

// Classes have the members of their bases, by the offsets that the compiler
// prints; references are pointers.
func TestClasses(t *testing.T) {
	for _, opt := range []string{"-O0", "-O2"} {
		prog := build(t, "shapes.cc", opt)
		f := open(t, prog)
		conn := types.Elem(function(t, f, "root").Params[0].Type)
		for _, l := range says(t, prog) {
			off, _, ok := types.FindMember(conn, l[0])
			if got := fmt.Sprint(off / 8); !ok || got != l[1] {
				t.Errorf("%s at %s, want %s", l[0], got, l[1])
			}
		}
		if _, _, ok := types.FindMember(conn, "count"); ok {
			t.Error("a static member has a place")
		}
		send := function(t, f, "send")
		for i, want := range []string{"struct net::Conn *const", "const struct net::Conn *", "int *"} {
			if got := send.Params[i].Type.String(); got != want {
				t.Errorf("parameter %d of send: %s, want %s", i, got, want)
			}
		}
		if send.Linkage == "" || send.Linkage == send.Name {
			t.Errorf("send has the symbol %q", send.Linkage)
		}
		// The object is passed by its address, and returned where the caller says.
		if p := function(t, f, "take").Places()[1]; len(p.Pieces) != 1 || p.Pieces[0].Kind != PieceMem {
			t.Errorf("o of take: %s", p)
		}
	}
}

func TestRust(t *testing.T) {
	prog := build(t, "shapes.rs")
	f := open(t, prog)
	greet := function(t, f, "greet")
	conn := types.Elem(greet.Params[0].Type)
	for _, l := range says(t, prog) {
		off, _, ok := types.FindMember(conn, l[0])
		if got := fmt.Sprint(off / 8); !ok || got != l[1] {
			t.Errorf("%s at %s, want %s", l[0], got, l[1])
		}
	}
	for _, m := range []string{"data_ptr", "length"} {
		if _, _, ok := types.FindMember(greet.Params[1].Type, m); !ok {
			t.Errorf("%s has no %s", greet.Params[1].Type, m)
		}
	}
	_, state, _ := types.FindMember(conn, "state")
	for _, m := range []string{"discriminant", "Idle", "Busy", "Named"} {
		if _, _, ok := types.FindMember(state.Type, m); !ok {
			t.Errorf("%s has no %s", state.Type, m)
		}
	}
	if got := fmt.Sprint(greet.Places()); got != "[%rdi %rsi, %rdx %rcx]" {
		t.Errorf("greet: %s", got)
	}
	maybe := function(t, f, "maybe").Places()
	for i, want := range []string{"%rdi, %rsi", "a value of type () has no size", "memory at %rdx+0", "%rcx, %r8"} {
		if got := maybe[i].String(); got != want {
			t.Errorf("parameter %d of maybe: %s, want %s", i, got, want)
		}
	}
}

// Damaged files give errors, and end.
func TestDamaged(t *testing.T) {
	for _, flags := range []string{"-gdwarf-5", "-gdwarf-4 -O2"} {
		whole, err := os.ReadFile(build(t, "shapes.c", strings.Fields(flags)...))
		if err != nil {
			t.Fatal(err)
		}
		ef, err := elf.NewFile(bytes.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 300 {
			b := bytes.Clone(whole)
			for _, s := range ef.Sections {
				if strings.HasPrefix(s.Name, ".debug_") && s.Size > 0 && r.IntN(3) == 0 {
					for range 1 + r.IntN(4) {
						b[s.Offset+uint64(r.Int64N(int64(s.FileSize)))] = byte(r.Uint32())
					}
				}
			}
			if i%4 == 0 {
				b[r.IntN(64)] = byte(r.Uint32())
			}
			exercise(b)
		}
	}
}

// exercise asks a file for what there is to ask.
func exercise(b []byte) {
	f, err := New(b, "damaged")
	if err != nil {
		return
	}
	for _, name := range append(passing, "lost", "inlined") {
		fns, err := f.Function(name)
		if err != nil {
			continue
		}
		for i := range fns {
			fn := &fns[i]
			fn.Places()
			for _, p := range fn.Params {
				describe(p.Type, 0)
			}
			if fn.Ret != nil {
				fn.Result()
				describe(fn.Ret, 0)
			}
			f.FunctionAt(fn.Entry)
		}
	}
}

// describe looks into a type as printing it does.
func describe(t types.Type, depth int) string {
	if depth > 4 {
		return t.String()
	}
	t.Size()
	t.Align()
	if e := types.Elem(t); e != nil {
		describe(e, depth+1)
	}
	if s, ok := types.Underlying(t).(*types.Struct); ok {
		for _, m := range s.Members() {
			describe(m.Type, depth+1)
		}
		types.FindMember(s, "no such member")
	}
	types.Identical(t, t)
	return t.String()
}

func FuzzFile(f *testing.F) {
	for _, flags := range []string{"-gdwarf-5", "-gdwarf-4 -O2", "-gdwarf-5 -gz"} {
		if b, err := os.ReadFile(build(f, "shapes.c", strings.Fields(flags)...)); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) { exercise(b) })
}
