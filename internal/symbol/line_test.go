package symbol

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Source lines against addr2line, from the object itself and from a separate
// debug file.
func TestLine(t *testing.T) {
	bin := build(t, program, "-O1", "-g", "-Wl,--build-id=none")
	split := filepath.Join(t.TempDir(), "t")
	tool(t, "objcopy", "--only-keep-debug", bin, split+".debug")
	tool(t, "objcopy", "--strip-debug", "--strip-unneeded", "--add-gnu-debuglink="+split+".debug", bin, split)
	for _, file := range []string{bin, split} {
		o, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		main, ok := o.Named("main")
		if !ok {
			t.Fatal("no main")
		}
		for off := uint64(0); off < main.Size; off += 7 {
			want := tool(t, "addr2line", "-e", bin, fmt.Sprintf("%#x", main.Value+off))
			want, _, _ = strings.Cut(strings.TrimSpace(want), " ") // "(discriminator 1)"
			name, line, err := o.Line(main.Value + off)
			if got := fmt.Sprintf("%s:%d", name, line); err != nil || got != want {
				t.Errorf("%s, main+%#x: %s, %v; want %s", filepath.Base(file), off, got, err, want)
			}
		}
		if _, _, err := o.Line(0); err == nil {
			t.Error("a line for address 0")
		}
	}
}
