package symbol

import (
	"debug/elf"
	"debug/gosym"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The function table of the running test, a Go program, as the standard
// library reads it.
func TestGoTable(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o, err := Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := o.GoTable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := f.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}
	want, err := gosym.NewTable(nil, gosym.NewLineTable(b, f.Section(".text").Addr))
	if err != nil {
		t.Fatal(err)
	}
	if len(tab.Funcs) != len(want.Funcs) || len(tab.Funcs) < 1000 {
		t.Fatalf("%d functions, want %d", len(tab.Funcs), len(want.Funcs))
	}
	asm := map[string]bool{}
	for i, w := range want.Funcs {
		g := tab.Funcs[i]
		if g.Name != w.Name || g.Value != w.Entry || g.Size != w.End-w.Entry {
			t.Fatalf("function %d: %+v, want %s 0x%x…0x%x", i, g, w.Name, w.Entry, w.End)
		}
		if g.Asm {
			asm[g.Name] = true
		}
	}
	if !asm["runtime.rt0_go"] || !asm["runtime.memmove"] || asm["runtime.main"] {
		t.Errorf("written in assembly: %v", asm)
	}
	if f, ok := tab.At(o.Entry); !ok || f.Name != "_rt0_amd64_linux" {
		t.Errorf("at the entry 0x%x: %+v %v", o.Entry, f, ok)
	}
}

// What the compiler put into all callers has a name but no code.
func TestGoInlined(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\ngo 1.21\n")
	write("m.go", "package main\nfunc small(x int) int { return x + 1 }\nfunc main() { println(small(len(\"abc\"))) ; println(small(int(f()))) }\n//go:noinline\nfunc f() int { return 3 }\n")
	cmd := exec.Command("go", "build", "-o", "m", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIP-FEATURE: go build: %v\n%s", err, out)
	}
	o, err := Open(filepath.Join(dir, "m"))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := o.GoTable()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"main.small": true, "main.f": false, "main.none": false, "": false} {
		if got := tab.Inlined(name); got != want {
			t.Errorf("Inlined(%q) = %v, want %v", name, got, want)
		}
	}
}

func FuzzGoTable(f *testing.F) {
	head := func(magic byte) []byte {
		b := make([]byte, 256)
		b[0], b[1], b[2], b[3], b[6], b[7] = magic, 0xff, 0xff, 0xff, 1, 8
		b[8] = 1                         // one function
		b[32], b[40], b[64] = 72, 80, 90 // names, compilation units, functions
		b[94], b[98] = 16, 100           // its description, the end
		copy(b[73:], "f")
		return b
	}
	for _, m := range []byte{0xfa, 0xfb, 0xf0, 0xf1} {
		f.Add(head(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := parsePcln(b, 0)
		if err != nil {
			return
		}
		for i, fn := range tab.Funcs {
			if i > 0 && fn.Value < tab.Funcs[i-1].Value {
				t.Fatal("not by address")
			}
		}
		tab.At(1)
		tab.Inlined("f")
	})
}
