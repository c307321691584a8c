package main

import (
	"fmt"

	"godtrace"
)

// list prints the probes that the programs match, or all of them.
func (d *dtrace) list() error {
	fmt.Fprintf(d.out, "%5s %10s %17s %33s %s\n", "ID", "PROVIDER", "MODULE", "FUNCTION", "NAME")
	if len(d.requests) == 0 {
		ps, err := d.s.Probes()
		if err != nil {
			return failed("failed to list probes", err)
		}
		return d.listProbes(ps)
	}
	for _, r := range d.requests {
		if err := d.listProbes(r.prog.Probes()); err != nil {
			return err
		}
	}
	return nil
}

func (d *dtrace) listProbes(ps []*godtrace.ProbeInfo) error {
	for _, p := range ps {
		if _, err := fmt.Fprintf(d.out, "%5d %10s %17s %33s %s\n", p.ID, p.Provider, p.Module, p.Func, p.Name); err != nil {
			return err
		}
	}
	return nil
}
