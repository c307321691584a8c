package probe

import (
	"path"
	"testing"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		pat, s string
		want   bool
	}{
		{"", "anything", true},
		{"*", "", true},
		{"read", "read", true},
		{"read", "pread", false},
		{"*read*", "preadv", true},
		{"mu*", "munmap", true},
		{"mu*", "mmap", false},
		{"?ead", "read", true},
		{"?ead", "ead", false},
		{"[rp]*", "pread", true},
		{"[!rp]*", "pread", false},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[]]x", "]x", true},
		{"a[b", "a[b", false},
		{`a\*b`, "a*b", true},
		{`a\*b`, "axb", false},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbYbZ", false},
		{"**", "x", true},
		{"x", "", false},
	}
	for _, tt := range tests {
		if got := Glob(tt.pat, tt.s); got != tt.want {
			t.Errorf("Glob(%q, %q) = %v, want %v", tt.pat, tt.s, got, tt.want)
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b?c", "aXbYc")
	f.Add("[a-z]*", "q")
	f.Fuzz(func(t *testing.T, pat, s string) {
		got := Glob(pat, s)
		// Where only * and ? occur, path.Match has the same rules.
		for _, c := range []byte(pat + s) {
			if c == '[' || c == '\\' || c == '/' || c >= 0x80 {
				return
			}
		}
		if want, err := path.Match(pat, s); err == nil && pat != "" && got != want {
			t.Errorf("Glob(%q, %q) = %v, path.Match says %v", pat, s, got, want)
		}
	})
}
