package btf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godtrace/internal/types"
)

func parse(t *testing.T, b *blob, name string, base *Spec) *Spec {
	t.Helper()
	s, err := Parse(b.bytes(), name, base)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKinds(t *testing.T) {
	s := parse(t, sample(), "vmlinux", nil)
	for id, want := range map[ID]string{
		0: "void", 1: "int", 2: "char", 3: "char", 4: "char *", 5: "char [16]", 6: "struct s", 7: "union {...}",
		8: "enum color", 9: "enum wide", 10: "s_t", 11: "const s_t", 12: "const volatile s_t",
		13: "int (int, char *, ...)", 14: "int (int, char *, ...)", 15: "const volatile s_t", 17: "double",
		19: "union later", 20: "char *restrict",
	} {
		got, err := s.Type(id)
		if err != nil || got.String() != want {
			t.Errorf("type %d: %v %v, want %s", id, got, err, want)
		}
		again, _ := s.Type(id)
		if again != got {
			t.Errorf("type %d is made twice", id)
		}
	}
	for _, id := range []ID{16, 18, 23, 1 << 30} {
		if got, err := s.Type(id); err == nil {
			t.Errorf("type %d: %v", id, got)
		}
	}
	if p, _ := s.Type(4); !types.IsUser(p) {
		t.Error("the tag user is lost")
	}
	st, _ := s.LookupType(types.StructTag, "s")
	if st.Size() != 40 || st.Align() != 8 {
		t.Errorf("struct s: size %d align %d", st.Size(), st.Align())
	}
	for _, tt := range []struct {
		tag, path string
		want      Member
	}{
		{"s", "a", Member{1, 0, 0, 4}},
		{"s", "f", Member{1, 32, 3, 4}},
		{"s", "p", Member{4, 64, 0, 8}},
		{"s", "comm", Member{5, 128, 0, 16}},
		{"s", "n", Member{1, 128, 0, 4}},
		{"old", "bits", Member{22, 10, 3, 4}},
	} {
		m, err := s.Member(tt.tag, tt.path)
		if err != nil || m != tt.want {
			t.Errorf("%s.%s: %+v %v, want %+v", tt.tag, tt.path, m, err, tt.want)
		}
	}
	if _, err := s.MemberOffset("s", "f"); err == nil {
		t.Error("a bit-field has an offset in bytes")
	}
	if e, c, ok := s.LookupEnumerator("BLUE"); !ok || c.Value != -1 || !e.Signed {
		t.Errorf("BLUE: %v %v", e, c)
	}
	if _, c, ok := s.LookupEnumerator("BIG"); !ok || c.Value != 1|2<<32 {
		t.Errorf("BIG: %v", c)
	}
	if id, proto, ok := s.Func("fn"); !ok || id != 14 || proto != 13 {
		t.Errorf("fn: %d %d", id, proto)
	}
	if tags := s.DeclTags(14); len(tags) != 1 || tags[0] != (DeclTag{"bpf_kfunc", -1}) {
		t.Errorf("tags of fn: %v", tags)
	}
	if vars, ok := s.Section(".data..percpu"); !ok || len(vars) != 1 || vars[0] != (SecVar{15, 8, 40}) {
		t.Errorf("section: %v", vars)
	}
	if u, ok := s.LookupType(types.UnionTag, "later"); !ok || !u.(*types.Struct).Incomplete {
		t.Errorf("union later: %v", u)
	}
	if _, ok := s.LookupType(types.StructTag, "later"); ok {
		t.Error("union later is a struct")
	}
}

// split makes a module's blob on sample(): it defines what the base declares
// and uses the base's types and strings.
func split(base *blob, inBase uint32) *blob {
	m := splitBlob(base)
	m.add("mod_s", KindStruct, false, 2, 16, m.str("own"), 6, 0, inBase, 1, 64) // 23
	m.add("later", KindUnion, false, 1, 4, m.str("x"), 1, 0)                    // 24
	m.add("", KindPtr, false, 0, 23)                                            // 25
	m.add("mod_e", KindEnum, false, 1, 4, m.str("MOD_CONST"), 7)                // 26
	return m
}

func TestSplit(t *testing.T) {
	b := sample()
	inBase := b.str("shared")
	base := parse(t, b, "vmlinux", nil)
	s := parse(t, split(b, inBase), "mod", base)
	got, err := s.Type(25)
	if err != nil || got.String() != "struct mod_s *" {
		t.Fatalf("type 25: %v %v", got, err)
	}
	fields := types.Elem(got).(*types.Struct).Members()
	if want, _ := base.Type(6); fields[0].Type != want || fields[1].Name != "shared" {
		t.Errorf("members %v", fields)
	}
	if id, ok := s.TypeID(KindStruct, "s"); !ok || id != 6 {
		t.Errorf("struct s of the base: %d", id)
	}
	if off, err := s.MemberOffset("mod_s", "own.p"); err != nil || off != 8 {
		t.Errorf("mod_s.own.p: %d %v", off, err)
	}
	if off, err := s.MemberOffset("mod_s", "shared"); err != nil || off != 8 {
		t.Errorf("mod_s.shared: %d %v", off, err)
	}
	for _, name := range []string{"later", "mod_s"} {
		if a, b := s.searched(name), s.hashed(name); len(a) != 1 || len(b) != 1 || a[0] != b[0] {
			t.Errorf("%s: search finds %v, hash %v", name, a, b)
		}
	}
}

func TestSet(t *testing.T) {
	b := sample()
	inBase := b.str("shared")
	dir := t.TempDir()
	for name, blob := range map[string][]byte{"vmlinux": b.bytes(), "mod": split(b, inBase).bytes(), "broken": []byte("not BTF")} {
		if err := os.WriteFile(filepath.Join(dir, name), blob, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := strings.Join(s.Modules(), " "); got != "broken mod" {
		t.Errorf("modules %s", got)
	}
	if _, err := s.Module("broken"); err == nil {
		t.Error("broken is opened")
	}
	if x, ok := s.LookupType(types.StructTag, "mod_s"); !ok || x.(*types.Struct).Scope != "mod" {
		t.Errorf("mod_s: %v", x)
	}
	if _, c, ok := s.LookupEnumerator("MOD_CONST"); !ok || c.Value != 7 {
		t.Errorf("MOD_CONST: %v", c)
	}
	fwd, _ := s.VMLinux.LookupType(types.UnionTag, "later")
	if def, ok := s.Definition(fwd.(*types.Struct)); !ok || def.Incomplete || def.Size() != 4 {
		t.Errorf("definition of union later: %v", def)
	}
	if spec, id, ok := s.Func("fn"); !ok || spec != s.VMLinux || id != 14 {
		t.Errorf("fn: %v %d", spec, id)
	}
	if _, err := OpenSet(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestDamage(t *testing.T) {
	good := sample().bytes()
	for name, f := range map[string]func([]byte) []byte{
		"empty":      func([]byte) []byte { return nil },
		"magic":      func(b []byte) []byte { b[0] = 0; return b },
		"big endian": func(b []byte) []byte { b[0], b[1] = b[1], b[0]; return b },
		"version":    func(b []byte) []byte { b[2] = 9; return b },
		"cut":        func(b []byte) []byte { return b[:len(b)-1] },
		"types":      func(b []byte) []byte { binary.LittleEndian.PutUint32(b[12:], 1<<31); return b },
		"no end":     func(b []byte) []byte { b[len(b)-1] = 'x'; return b },
	} {
		if s, err := Parse(f(bytes.Clone(good)), "x", nil); err == nil {
			t.Errorf("%s: %v", name, s)
		}
	}
	for name, f := range map[string]func(*blob){
		"kind":      func(b *blob) { b.types[7] = 31 },
		"kind 0":    func(b *blob) { b.types[7] = 0 },
		"cut short": func(b *blob) { b.types = b.types[:len(b.types)-1] },
		"vlen":      func(b *blob) { b.add("s", KindStruct, false, 9, 4) },
	} {
		b := sample()
		f(b)
		s, err := Parse(b.bytes(), "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Err() == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := s.Type(1); err == nil {
			t.Errorf("%s: type 1 is there", name)
		}
	}
}

// TestELF reads BTF out of an object that objcopy made.
func TestELF(t *testing.T) {
	objcopy, err := exec.LookPath("objcopy")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	raw, obj := filepath.Join(dir, "raw"), filepath.Join(dir, "obj")
	if err := os.WriteFile(raw, sample().bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objcopy, "--add-section", ".BTF="+raw, os.Args[0], obj).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s, err := Open(obj, "obj", nil)
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := s.TypeID(KindStruct, "s"); !ok || id != 6 {
		t.Errorf("struct s: %d", id)
	}
	if _, err := Open(os.Args[0], "self", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("a program without BTF: %v", err)
	}
	var bad *elf.FormatError
	if _, err := FromELF(strings.NewReader("xxxxxxxxxxxxxxxxxxxxxxxxxxxx"), "x", nil); !errors.As(err, &bad) {
		t.Errorf("no ELF: %v", err)
	}
}

// TestFaults puts every byte of a blob wrong in turn. Each must be an error or
// answer all questions.
func TestFaults(t *testing.T) {
	b := sample()
	inBase := b.str("shared")
	base := parse(t, b, "vmlinux", nil)
	for _, tt := range []struct {
		blob []byte
		base *Spec
	}{{b.bytes(), nil}, {split(b, inBase).bytes(), base}} {
		broken := 0
		for i := range tt.blob {
			for _, v := range []byte{0, 1, 0x7f, 0x80, 0xff, tt.blob[i] + 1, tt.blob[i] - 1} {
				in := bytes.Clone(tt.blob)
				in[i] = v
				s, err := Parse(in, "x", tt.base)
				if err == nil {
					walk(t, s)
					err = s.Err()
				}
				if err != nil {
					broken++
				}
			}
		}
		if broken == 0 {
			t.Error("no fault was noticed")
		}
	}
}
