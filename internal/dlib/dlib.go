// Package dlib is the D library: translators and inlines that D programs find
// ready-made, embedded in the binary and parsed only when a program uses one
// of their names.
//
// In a library a translator may give a member several times, for kernels whose
// structures differ; the first that fits the running kernel counts.
package dlib

import (
	"embed"
	"maps"
	"strings"
	"sync"
)

//go:embed *.d
var files embed.FS

// Lookup finds the library that defines a name: a variable or function with
// kind "", a type with kind "type" (its name, or "struct tag"), or the library
// of that file name with kind "file".
func Lookup(kind, name string) (file string, text []byte, ok bool) {
	switch kind {
	case "":
		file, ok = index().names[name]
	case "type":
		file, ok = index().types[name]
	case "file":
		file, ok = name, true
	}
	if !ok {
		return "", nil, false
	}
	text, err := files.ReadFile(file)
	return file, text, err == nil
}

// Files are the names of the libraries.
func Files() []string {
	list, _ := files.ReadDir(".")
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

type table struct{ names, types map[string]string }

// index knows what is defined where. It reads no more than the first column of
// each line, where all definitions of the libraries begin.
var index = sync.OnceValue(buildIndex)

func buildIndex() table {
	t := table{map[string]string{}, map[string]string{}}
	for _, file := range Files() {
		text, _ := files.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			switch {
			case strings.HasPrefix(line, "inline "):
				decl, _, _ := strings.Cut(line, "=")
				decl, _, _ = strings.Cut(decl, "[")
				t.names[lastWord(decl)] = file
			case strings.HasPrefix(line, "typedef ") && strings.Contains(line, ";"):
				decl, _, _ := strings.Cut(line, ";")
				t.types[lastWord(decl)] = file
			case strings.HasPrefix(line, "} "):
				decl, _, _ := strings.Cut(line, ";")
				t.types[lastWord(decl)] = file
			}
			if i := strings.Index(line, "struct "); i == 0 || i > 0 && strings.HasPrefix(line, "typedef ") {
				if tag, _, brace := strings.Cut(line[i:], " {"); brace {
					t.types[tag] = file
				}
			}
		}
	}
	return t
}

// lastWord is the name a declaration ends with.
func lastWord(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexAny(s, " *")+1:]
}

// Inlines are the names that libraries define for expressions, and the library
// of each.
func Inlines() map[string]string { return maps.Clone(index().names) }
