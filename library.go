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
		if err := s.check.Load(name); err != nil {
			return err
		}
	}
	return nil
}
