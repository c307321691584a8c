package btf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"godtrace/internal/types"
)

// KernelDir is where a running kernel shows its BTF, one file for vmlinux and
// one for each module.
const KernelDir = "/sys/kernel/btf"

// Set is the BTF of a kernel: vmlinux and the modules on it, each opened when
// first asked about. Names are looked for in vmlinux first, then in the modules
// in the order of their names.
type Set struct {
	VMLinux *Spec

	dir     string
	once    sync.Once
	modules []string

	mu   sync.Mutex
	open map[string]opened
}

type opened struct {
	spec *Spec
	err  error
}

// Kernel opens the BTF of the running kernel. Only vmlinux's header is read.
func Kernel() (*Set, error) {
	s, err := OpenSet(KernelDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	return s, err
}

// OpenSet opens a directory laid out as KernelDir.
func OpenSet(dir string) (*Set, error) {
	v, err := Open(filepath.Join(dir, "vmlinux"), "vmlinux", nil)
	if err != nil {
		return nil, err
	}
	return &Set{VMLinux: v, dir: dir}, nil
}

// Modules are the names of the modules that have BTF, sorted.
func (s *Set) Modules() []string {
	s.once.Do(func() {
		files, _ := os.ReadDir(s.dir)
		for _, f := range files {
			if f.Name() != "vmlinux" {
				s.modules = append(s.modules, f.Name())
			}
		}
	})
	return s.modules
}

// Module is the BTF of a module, or of "vmlinux" (also called "kernel" and "").
func (s *Set) Module(name string) (*Spec, error) {
	switch name {
	case "", "vmlinux", "kernel":
		return s.VMLinux, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.open[name]; ok {
		return o.spec, o.err
	}
	var o opened
	if name != filepath.Base(name) {
		o.err = fmt.Errorf("module %s: %w", name, ErrNotFound)
	} else {
		o.spec, o.err = Open(filepath.Join(s.dir, name), name, s.VMLinux)
	}
	if s.open == nil {
		s.open = map[string]opened{}
	}
	s.open[name] = o
	return o.spec, o.err
}

// each calls f with vmlinux and then every module until f returns true. A
// module that left in the meantime is passed over.
func (s *Set) each(f func(*Spec) bool) {
	if f(s.VMLinux) {
		return
	}
	for _, name := range s.Modules() {
		if m, err := s.Module(name); err == nil && f(m) {
			return
		}
	}
}

// find is the first Spec that has a type of one of the kinds and that name of
// its own, and the number of the type.
func (s *Set) find(name string, kinds ...Kind) (spec *Spec, id ID) {
	s.each(func(m *Spec) bool {
		for _, k := range kinds {
			for _, i := range m.IDs(name) {
				if m.Kind(i) == k {
					spec, id = m, i
					return true
				}
			}
		}
		return false
	})
	return spec, id
}

// LookupType finds a named type in vmlinux or any module.
func (s *Set) LookupType(space types.Space, name string) (types.Type, bool) {
	spec, id := s.find(name, kindsOf(space)...)
	if spec == nil {
		return s.VMLinux.LookupType(space, name) // perhaps declared
	}
	t, err := spec.Type(id)
	return t, err == nil
}

// LookupEnumerator finds an enumeration constant in vmlinux or any module.
func (s *Set) LookupEnumerator(name string) (e *types.Enum, c types.Enumerator, ok bool) {
	s.each(func(m *Spec) bool {
		e, c, ok = m.enumerator(name)
		return ok
	})
	return e, c, ok
}

// Func finds a function in vmlinux or any module.
func (s *Set) Func(name string) (spec *Spec, id ID, ok bool) {
	spec, id = s.find(name, KindFunc)
	return spec, id, spec != nil
}

// Var finds a variable in vmlinux or any module.
func (s *Set) Var(name string) (spec *Spec, id ID, ok bool) {
	spec, id = s.find(name, KindVar)
	return spec, id, spec != nil
}

// Definition finds the definition of a struct or union that its own blob only
// declares, in vmlinux or any module. A complete t is returned as it is.
func (s *Set) Definition(t *types.Struct) (*types.Struct, bool) {
	if !t.Incomplete {
		return t, true
	}
	kind := KindStruct
	if t.Union {
		kind = KindUnion
	}
	spec, id := s.find(t.Tag, kind)
	if spec == nil {
		return t, false
	}
	def, err := spec.Type(id)
	if err != nil {
		return t, false
	}
	return def.(*types.Struct), true
}

// Close unmaps all blobs.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := []error{s.VMLinux.Close()}
	for _, o := range s.open {
		if o.spec != nil {
			errs = append(errs, o.spec.Close())
		}
	}
	return errors.Join(errs...)
}
