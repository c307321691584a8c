package main

import (
	"bufio"
	"fmt"
	"slices"

	"godtrace"
)

// list prints the probes that the programs match, or all of them.
func (d *dtrace) list() error {
	w := bufio.NewWriter(d.out)
	err := d.listTo(w)
	if ferr := w.Flush(); err == nil && ferr != nil {
		err = writeError(ferr)
	}
	return err
}

func (d *dtrace) listTo(w *bufio.Writer) error {
	fmt.Fprintf(w, "%5s %10s %17s %33s %s\n", "ID", "PROVIDER", "MODULE", "FUNCTION", "NAME")
	if len(d.requests) == 0 {
		ps, err := d.s.Probes()
		if err != nil {
			return failed("failed to list probes", err)
		}
		d.listProbes(w, ps)
		return nil
	}
	for _, r := range d.requests {
		last := ""
		for _, c := range r.prog.Clauses() {
			if c.Desc == last {
				continue
			}
			last = c.Desc
			if len(c.Probes) == 0 {
				d.message("failed to match %s: No probe matches description", c.Desc)
			}
			d.listProbes(w, c.Probes)
		}
	}
	return nil
}

func (d *dtrace) listProbes(w *bufio.Writer, ps []*godtrace.ProbeInfo) {
	for _, p := range ps {
		fmt.Fprintf(w, "%5d %10s %17s %33s %s\n", p.ID, p.Provider, p.Module, p.Func, p.Name)
		if d.verbose {
			desc, _ := p.Attributes()
			d.probeReport(w, p, desc)
		}
	}
}

// probeReport is what -v says of a probe; desc is the stability of the
// description it goes by.
func (d *dtrace) probeReport(w *bufio.Writer, p *godtrace.ProbeInfo, desc [3]string) {
	_, args := p.Attributes()
	fmt.Fprint(w, "\n\tProbe Description Attributes\n")
	attributes(w, desc)
	fmt.Fprint(w, "\n\tArgument Attributes\n")
	attributes(w, args)
	fmt.Fprint(w, "\n\tArgument Types\n")
	types := p.ArgTypes()
	for i, t := range types {
		fmt.Fprintf(w, "\t\targs[%d]: %s\n", i, t)
	}
	if len(types) == 0 {
		fmt.Fprint(w, "\t\tNone\n")
	}
	if m := d.s.Mechanism(p); m != "" {
		fmt.Fprintf(w, "\n\tmechanism: %s\n", m)
	}
	if d.flag("opcode") {
		if b := p.Opcode(); b != nil {
			fmt.Fprintf(w, "\n\topcode: % x\n", b)
		}
	}
	fmt.Fprint(w, "\n")
}

func attributes(w *bufio.Writer, a [3]string) {
	fmt.Fprintf(w, "\t\tIdentifier Names: %s\n\t\tData Semantics:   %s\n\t\tDependency Class: %s\n", a[0], a[1], a[2])
}

// stability prints the stability report of a program, and with -e what is
// known of its probes.
func (d *dtrace) stability(r *request) error {
	w := bufio.NewWriter(d.out)
	desc, stmt := r.prog.Stability()
	fmt.Fprintf(w, "\nStability attributes for %s %s:\n", r.desc, r.name)
	fmt.Fprint(w, "\n\tMinimum Probe Description Attributes\n")
	attributes(w, desc)
	fmt.Fprint(w, "\n\tMinimum Statement Attributes\n")
	attributes(w, stmt)
	if d.noExec {
		last := ""
		for _, c := range r.prog.Clauses() {
			if c.Desc == last {
				continue
			}
			last = c.Desc
			fmt.Fprintf(w, "\n%s\n", c.Desc)
			if p := alike(c.Probes); p != nil {
				d.probeReport(w, p, c.Attributes)
			}
		}
	} else {
		fmt.Fprint(w, "\n")
	}
	if err := w.Flush(); err != nil {
		return writeError(err)
	}
	return nil
}

// alike is a probe that can stand for all of them: their arguments are the
// same, of the same stability. Otherwise it is nil.
func alike(ps []*godtrace.ProbeInfo) *godtrace.ProbeInfo {
	if len(ps) == 0 {
		return nil
	}
	types := ps[0].ArgTypes()
	_, args := ps[0].Attributes()
	for _, p := range ps[1:] {
		_, a := p.Attributes()
		if a != args || !slices.Equal(p.ArgTypes(), types) {
			return nil
		}
	}
	return ps[0]
}
