package symbol

import (
	"slices"
	"strings"
)

// What is told of processes as it happens. A process that has gone before its
// /proc could be read is known by it alone.

// NoteExec says that a process executes a program: its mappings are new.
func (s *Processes) NoteExec(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.get(pid)
	p.gens = slices.Insert(p.gens, 0, []*mapped(nil))
	if len(p.gens) > maxGens {
		p.gens = p.gens[:maxGens]
	}
	p.jit, p.dumps = nil, nil
}

// NoteFork says that a process has a new child, which begins with its mappings.
func (s *Processes) NoteFork(parent, child int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[parent]
	if p == nil || parent == child {
		return // a thread, or a process of which /proc tells
	}
	gens := make([][]*mapped, len(p.gens))
	for i := range gens {
		gens[i] = slices.Clone(p.gens[i])
	}
	s.procs[child] = &Process{PID: child, set: s, gens: gens}
}

// NoteMapping says that a process has mapped something executable.
func (s *Processes) NoteMapping(pid int, m Mapping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.get(pid)
	if len(p.gens) == 0 {
		// What it mapped before is in /proc, if it is still there.
		if p.refresh() != nil || len(p.gens) == 0 {
			p.gens = [][]*mapped{nil}
		}
	}
	m.Path, m.Deleted = strings.CutSuffix(m.Path, " (deleted)")
	gen := slices.DeleteFunc(slices.Clone(p.gens[0]), func(o *mapped) bool {
		return o.Start < m.End && m.Start < o.End
	})
	i, _ := slices.BinarySearchFunc(gen, m.Start, func(o *mapped, addr uint64) int {
		if o.Start < addr {
			return -1
		}
		return 1
	})
	p.gens[0] = slices.Insert(gen, i, &mapped{Mapping: m})
}

// maxEnded is how many processes that have ended are remembered.
const maxEnded = 16384

// NoteExit says that a process has ended. It stays known for a long while, not
// for ever.
func (s *Processes) NoteExit(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[pid]
	if p == nil {
		return
	}
	s.ended = append(s.ended, p)
	if len(s.ended) > maxEnded {
		if old := s.ended[0]; s.procs[old.PID] == old {
			delete(s.procs, old.PID)
		}
		s.ended = s.ended[1:]
	}
}
