package types

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Binutils reads what WriteCTF writes.
func TestWriteCTF(t *testing.T) {
	for _, tool := range []string{"objcopy", "objdump"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	c := NewCScope()
	d := NewDScope(c)
	node := &Struct{Tag: "node", Scope: "D", Bytes: 32, AlignB: 8}
	node.Fields = []Field{
		{Name: "next", Type: &Pointer{Elem: node}},
		{Name: "task", Type: &Pointer{Elem: &Struct{Tag: "task_struct", Scope: "vmlinux", Bytes: 9000}}, Off: 8},
		{Name: "low", Type: TUInt, Off: 16, BitOff: 128, Bits: 3},
		{Name: "high", Type: TUInt, Off: 16, BitOff: 131, Bits: 5},
		{Name: "name", Type: &Array{Elem: TChar, N: 8}, Off: 20},
	}
	d.Define(StructTag, "node", node)
	d.Define(TypedefName, "call_t", &Typedef{Name: "call_t", Scope: "D", Type: &Pointer{Elem: &Func{Ret: TInt, Params: []Param{{Type: TLong}}, Variadic: true}}})
	d.Define(EnumTag, "color", &Enum{Tag: "color", Scope: "D", Bytes: 4, Values: []Enumerator{{"RED", 3}, {"BLUE", -1}}})
	d.Define(TypedefName, "cc_t", &Typedef{Name: "cc_t", Scope: "D", Type: &Qualified{Const: true, Volatile: true, Type: TChar}})

	dir := t.TempDir()
	dump := func(s *Scope) string {
		var b bytes.Buffer
		if err := s.WriteCTF(&b); err != nil {
			t.Fatal(err)
		}
		file, obj := filepath.Join(dir, "ctf"), filepath.Join(dir, "o")
		if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("objcopy", "--remove-section=*", "--add-section", ".ctf="+file, exe, obj).CombinedOutput(); err != nil {
			t.Skipf("objcopy: %v\n%s", err, out)
		}
		out, err := exec.Command("objdump", "--ctf=.ctf", obj).CombinedOutput()
		if err != nil {
			if strings.Contains(string(out), "unrecognized option") {
				t.Skip("objdump was built without CTF")
			}
			t.Fatalf("objdump: %v\n%s", err, out)
		}
		return string(out)
	}
	got := dump(d)
	for _, want := range []string{
		"struct node (size 0x20)", "next: ID", "struct node *", "task_struct", "low", "name: ID", "char [8]",
		"[0x83] high: ID", "unsigned int:5", "RED: 3", "BLUE: -1", "call_t", "int (*) (long, ...)", "const volatile char", "string", "uint64_t",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in what objdump prints:\n%s", want, got)
			break
		}
	}
	if got := dump(c); !strings.Contains(got, "unsigned long long") {
		t.Errorf("C's own types: %s", got)
	}
}
