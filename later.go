package godtrace

import (
	"errors"
	"fmt"

	"godtrace/internal/bpf"
	"godtrace/internal/check"
	"godtrace/internal/consume"
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/process"
	"godtrace/internal/provider"
)

// Probes may come up while tracing goes on: a process loads a library, or the
// kernel a module, that a description of the program means. The dynamic linker,
// or the list of modules, is watched; what then matches gets programs of its
// own, on the maps there are.

// laterClause is a clause whose description may match more.
type laterClause struct {
	user provider.Grower
	pid  int // or provider.KernelModules
	desc probe.Desc
	dc   *dif.Clause
}

// loading is a process whose linker is watched.
type loading struct {
	pid    int
	trap   interface{ Count() uint64 }
	seen   uint64
	target *process.Target // to be continued: it stops at every load; nil if it does not
}

// mayGrow notes a clause if its description may match more later.
func (s *Session) mayGrow(r *running, c *check.Clause, dc *dif.Clause) {
	if c.Desc == nil || c.Desc.ID > 0 {
		return
	}
	d := probe.Desc{Provider: c.Desc.Provider, Module: c.Desc.Module, Func: c.Desc.Func, Name: c.Desc.Name}
	for _, p := range s.env.providers {
		s.configure(p)
		if u, ok := p.(provider.Grower); ok {
			if pid := u.Grows(d, len(c.Probes)); pid != 0 {
				r.later = append(r.later, laterClause{u, pid, d, dc})
			}
		}
	}
}

// laterClauses are the clauses that Extend may be asked for.
func (r *running) laterClauses() []*dif.Clause {
	var out []*dif.Clause
	for _, l := range r.later {
		out = append(out, l.dc)
	}
	return out
}

// watchLoading watches the linkers of the processes in which descriptions may
// match more. Processes that we created stop at a load, so that the first call
// is seen; others are not ours to stop.
func (s *Session) watchLoading(r *running) error {
	host := s.userHost()
	watched := map[int]bool{}
	for _, l := range r.later {
		if watched[l.pid] {
			continue
		}
		watched[l.pid] = true
		w := &loading{pid: l.pid}
		if l.pid == provider.KernelModules {
			w.trap = provider.WatchModules()
			r.loading = append(r.loading, w)
			continue
		}
		for _, t := range s.targets {
			if t.PID == l.pid && t.Created {
				w.target = t
			}
		}
		trap, err := host.WatchLoading(l.pid, w.target != nil)
		if err != nil {
			return fmt.Errorf("failed to watch process %d load libraries: %w", l.pid, err)
		}
		if trap != nil {
			w.trap = trap
			r.loading = append(r.loading, w)
			r.links = append(r.links, trap)
		}
	}
	return nil
}

// grow looks for probes in what processes have loaded since.
func (s *Session) grow() error {
	r := s.running
	var errs []error
	for _, w := range r.loading {
		n := w.trap.Count()
		if n == w.seen {
			continue
		}
		w.seen = n
		if err := s.growIn(w.pid); err != nil {
			if w.pid == provider.KernelModules {
				err = fmt.Errorf("probes in modules that were loaded: %w", err)
			} else {
				err = fmt.Errorf("probes in libraries that process %d loaded: %w", w.pid, err)
			}
			errs = append(errs, err)
		}
		if w.target != nil {
			w.target.Continue()
		}
	}
	return errors.Join(errs...)
}

// growIn enables what matches in a process, or in the kernel, and did not before.
func (s *Session) growIn(pid int) error {
	r := s.running
	have := map[*probe.Probe]bool{}
	for _, e := range r.enabled {
		have[e.Probe] = true
	}
	byProbe := map[*probe.Probe]*bpf.Enabled{}
	byProvider := map[provider.Provider][]*probe.Probe{}
	var added []*bpf.Enabled
	// Once for all descriptions: they are to see the same probes, also while
	// more is being loaded.
	told := map[provider.Grower]bool{}
	for _, l := range r.later {
		if l.pid == pid && !told[l.user] {
			told[l.user] = true
			l.user.Loaded(pid)
		}
	}
	for _, l := range r.later {
		if l.pid != pid {
			continue
		}
		ps, err := s.env.Probes(l.desc)
		if err != nil {
			s.debugf("%s: %v", l.desc, err) // the function may be in the next library
			continue
		}
		for _, pr := range ps {
			if have[pr] {
				continue
			}
			e := byProbe[pr]
			if e == nil {
				e = &bpf.Enabled{Index: len(r.enabled) + len(added), Probe: pr}
				byProbe[pr] = e
				added = append(added, e)
				p := s.env.owner[pr]
				byProvider[p] = append(byProvider[p], pr)
			}
			e.Clauses = append(e.Clauses, l.dc)
		}
	}
	if len(added) == 0 {
		return nil
	}
	for _, e := range added {
		if err := setUse(e); err != nil {
			return err
		}
		e.Epid = r.nextEpid
		r.nextEpid += len(e.Clauses)
	}
	var atts []*provider.Attachment
	var groups []*probe.Group
	for _, p := range s.env.providers {
		if len(byProvider[p]) == 0 {
			continue
		}
		as, err := p.Groups(byProvider[p])
		if err != nil {
			return err
		}
		for _, a := range as {
			atts, groups = append(atts, a), append(groups, a.Group)
		}
	}
	first, err := s.rt.Extend(added, groups)
	if err != nil {
		return err
	}
	r.enabled, r.atts = append(r.enabled, added...), append(r.atts, atts...)
	for _, e := range added {
		r.consumer.Probes = append(r.consumer.Probes, consume.Probe{Probe: e.Probe, Epid: e.Epid})
	}
	for i, a := range atts {
		// What was loaded may be gone again already: the rest is traced on.
		if err := s.attach(r, a, s.rt.Program(first+i)); err != nil {
			s.note("%v", err)
		}
	}
	return nil
}
