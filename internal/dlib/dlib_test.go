package dlib

import (
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, tt := range []struct{ kind, name, file string }{
		{"", "curpsinfo", "proc.d"},
		{"", "fds", "io.d"},
		{"", "ENOENT", "errno.d"},
		{"", "R_RAX", "regs.d"},
		{"type", "psinfo_t", "proc.d"},
		{"type", "struct psinfo", "proc.d"},
		{"type", "ipaddr_t", "net.d"},
		{"file", "io.d", "io.d"},
		{"", "nosuch", ""},
		{"", "psinfo_t", ""},
		{"type", "task_struct", ""},
		{"file", "nosuch.d", ""},
	} {
		file, text, ok := Lookup(tt.kind, tt.name)
		if ok != (tt.file != "") || ok && (file != tt.file || len(text) == 0) {
			t.Errorf("Lookup(%q, %q) = %q, %d bytes, %v; want %q", tt.kind, tt.name, file, len(text), ok, tt.file)
		}
	}
}

// Lines that begin a definition are all in the first column, where the index
// looks for them.
func TestColumns(t *testing.T) {
	for _, file := range Files() {
		_, text, _ := Lookup("file", file)
		for n, line := range strings.Split(string(text), "\n") {
			if trimmed := strings.TrimLeft(line, " \t"); trimmed != line && (strings.HasPrefix(trimmed, "inline ") || strings.HasPrefix(trimmed, "typedef ")) {
				t.Errorf("%s:%d: definition is indented", file, n+1)
			}
		}
	}
}

func BenchmarkIndex(b *testing.B) {
	for b.Loop() {
		buildIndex()
	}
}
