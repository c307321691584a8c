package bpf

import (
	"fmt"

	"godtrace/internal/probe"
)

// Extend loads programs for probes that have come up since Load, as those of a
// library that a process has just loaded. Their clauses must be among
// Config.Later, their indexes above those in use. The programs work on the
// maps there are; what is constant, and scratch memory, is their own. It
// returns the number of the first group, for Program. It must not run beside
// other methods but those that a firing may meet.
func (r *Runtime) Extend(enabled []*Enabled, groups []*probe.Group) (first int, err error) {
	base := r.plan
	cfg := r.cfg
	cfg.Enabled, cfg.Groups, cfg.names = enabled, groups, base.strs
	p, err := newPlan(&cfg, r.ncpu)
	if err != nil {
		return 0, err
	}
	if p.dataSize != base.dataSize || p.storageSize != base.storageSize || p.scalarSize != base.scalarSize || p.largest > base.largest {
		return 0, fmt.Errorf("probes that came later need memory of another shape: data %d, %d; thread %d, %d; aggregations %d, %d; records %d, %d",
			p.dataSize, base.dataSize, p.storageSize, base.storageSize, p.scalarSize, base.scalarSize, p.largest, base.largest)
	}
	p.data, p.scalars, p.ring, p.specRing, p.storage = base.data, base.scalars, base.ring, base.specRing, base.storage
	p.goroutines, p.goPrograms = base.goroutines, base.programs()
	p.ringGeo, p.specGeo = base.ringGeo, base.specGeo
	p.unwind = base.unwind
	for i := range p.forms {
		p.forms[i].m = base.forms[i].m
	}
	for i := range p.vars {
		p.vars[i].dyn = base.vars[i].dyn
	}
	if err := r.makeOwn(p); err != nil {
		return 0, err
	}
	first = len(r.progs)
	for _, gp := range p.groups {
		prog, n, err := r.loadGroup(p, gp)
		if err != nil {
			for _, prog := range r.progs[first:] {
				prog.Close()
			}
			r.progs, r.insns = r.progs[:first], r.insns[:first]
			return 0, err
		}
		r.progs, r.insns = append(r.progs, prog), append(r.insns, n)
	}
	base.strs = p.strs
	r.cfg.Groups = append(r.cfg.Groups[:first:first], groups...)
	return first, nil
}
