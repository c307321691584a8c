package symbol

import (
	"errors"
	"slices"
)

// Code is an executable mapping of a process and the object mapped there; Obj
// is nil for generated code and files that are no objects.
type Code struct {
	Mapping Mapping
	Obj     *Object
	Bias    uint64      // address = value in the object + Bias
	File    *ObjectFile // nil for generated code; where it has not been read, Obj is nil
}

var errChanging = errors.New("the process executes another program at this moment")

// Code reads what is mapped executable into a process, sorted by address, and
// where its stack begins: a number that tells the program it runs from the one
// before. Objects are read for it.
func (s *Processes) Code(pid int) (stack uint64, code []Code, err error) {
	for {
		stack, code, err = s.CodeRead(pid)
		done := true
		for _, c := range code {
			if c.File != nil && !c.File.read.Load() {
				c.File.Object()
				done = false
			}
		}
		if done {
			return stack, code, err
		}
	}
}

// CodeRead is Code at once: there are only those objects that have been read.
func (s *Processes) CodeRead(pid int) (stack uint64, code []Code, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.get(pid)
	for range 3 {
		if stack, err = p.refreshed(); err != nil {
			return 0, nil, err
		}
		if len(p.gens) > 1 && within(p.gens[1], p.gens[0]) {
			// It only mapped more. What programs before exec had mapped shall not
			// be forgotten for that.
			p.gens = slices.Delete(p.gens, 1, 2)
		}
		code = code[:0]
		for _, m := range p.gens[0] {
			if !m.Exec() {
				continue
			}
			if m.file == nil {
				m.file = p.file(m)
			}
			if m.file == nil || m.file.read.Load() {
				p.load(m)
			}
			code = append(code, Code{m.Mapping, m.obj, m.bias, m.file})
		}
		if stat, err := p.readProc("stat"); err == nil && statField(stat, 28) == stack {
			return stack, code, nil
		}
	}
	return 0, nil, errChanging
}

// within reports whether all code of one set of mappings is in another.
func within(old, now []*mapped) bool {
	for _, m := range old {
		if !m.Exec() {
			continue
		}
		o := lookup(now, m.Start)
		if o == nil || !o.Exec() || o.Start != m.Start || o.End != m.End || o.Inode != m.Inode || o.Off != m.Off {
			return false
		}
	}
	return true
}

// Base is the lowest address of the object as it was linked.
func (o *Object) Base() uint64 { return o.segs0() }
