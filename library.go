package godtrace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"godtrace/internal/dlib"
)

// library finds a D library for the checker: those of the directories of the
// option libdir by file name, the built-in ones also by what they define.
func (s *Session) library(kind, name string) (file string, text []byte, ok bool) {
	if kind == "file" {
		if path, ok := s.libs[name]; ok {
			text, err := os.ReadFile(path)
			return path, text, err == nil
		}
	}
	return dlib.Lookup(kind, name)
}

// loadLibraries loads the libraries of the directories of libdir, once. They
// name one another with #pragma D depends_on library; one that depends on what
// is not there is passed over.
func (s *Session) loadLibraries() error {
	if s.libs != nil || s.opts.flag("nolibs") {
		return nil
	}
	s.libs = map[string]string{}
	var names []string
	for _, dir := range slices.Concat(s.opts.str["syslibdir"], s.opts.str["libdir"]) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // as in DTrace: a directory of the search path need not be there
		}
		for _, e := range entries {
			if name := e.Name(); strings.HasSuffix(name, ".d") && s.libs[name] == "" {
				s.libs[name] = filepath.Join(dir, name)
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		if err := s.libraryDepends(name); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := s.check.Load(name); err != nil {
			return err
		}
	}
	return nil
}

// libraryDepends checks that the libraries a library wants are there: that is
// an error, whereas wanting a provider or a module that is not there is not.
func (s *Session) libraryDepends(name string) error {
	text, err := os.ReadFile(s.libs[name])
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		w := strings.Fields(line)
		if len(w) != 5 || w[0] != "#pragma" || w[1] != "D" || w[2] != "depends_on" || w[3] != "library" {
			continue
		}
		if _, _, ok := s.library("file", w[4]); !ok {
			return &CompileError{File: s.libs[name], Line: n, Tag: "D_PRAGMA_DEPEND",
				Msg: "program requires library " + w[4], tags: s.opts.flag("errtags")}
		}
	}
	return nil
}
