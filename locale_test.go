package godtrace

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

func le(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// numeric is a compiled LC_NUMERIC as localedef(1) writes it.
func numeric(sep, sizes string) []byte {
	text := ".\x00" + sep + "\x00" + sizes + "\x00"
	return append(le(0x20031115^lcNumeric, 3, 20, 22, uint32(23+len(sep))), text...)
}

func TestGrouping(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "de_DE.utf8"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "de_DE.utf8", "LC_NUMERIC"), numeric(".", "\x03\x03"), 0o644); err != nil {
		t.Fatal(err)
	}
	// An archive of one locale: head, a row of the hash, the name, the record, the data.
	en := numeric(",", "\x03\x03")
	head := make([]uint32, 14)
	head[0], head[2], head[3], head[4] = 0xde020109, 56, 1, 1
	b := append(le(head...), le(1, 68, 80)...)
	b = append(b, "en_US.utf8\x00\x00"...)
	b = append(b, le(1, 0, 0, 100, uint32(len(en)))...)
	b = append(b, en...)
	if err := os.WriteFile(filepath.Join(dir, "locale-archive"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"C": "", "POSIX": "", "xx_YY": "", "../etc": "",
		"de_DE.utf8": ".", "de_DE.UTF-8": ".", "en_US.UTF-8": ",", "en_US.utf8": ",",
	} {
		got := ""
		if g := readGrouping(dir, name); g != nil {
			got = g.Sep
			if string(g.Sizes) != "\x03\x03" {
				t.Errorf("%s: groups of %v", name, g.Sizes)
			}
		}
		if got != want {
			t.Errorf("%s: separator %q, want %q", name, got, want)
		}
	}
}

func FuzzGrouping(f *testing.F) {
	f.Add(numeric(",", "\x03"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseNumeric(b)
		parseNumeric(fromArchive(b, "en_US.utf8"))
	})
}
