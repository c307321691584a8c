package provider

import (
	"fmt"
	"strings"

	"godtrace/internal/probe"
	"godtrace/internal/symbol"
)

// Rawfbt is the provider of every function in the kernel's symbol table by its
// raw name, those with .isra.0 and the like included. Its probes are always
// kprobes and have no typed arguments.
type Rawfbt struct {
	probes map[int]*kfunc // by place in the symbol table
}

func newRawfbt() *Rawfbt { return &Rawfbt{probes: map[int]*kfunc{}} }

// Name implements Provider.
func (*Rawfbt) Name() string { return "rawfbt" }

// asksFor reports whether a description asks for a provider by its name or a
// part of it. The providers whose probes are other ways to what another one
// has, or that have very many, are not part of "any provider".
func asksFor(pattern, name string) bool {
	return strings.Trim(pattern, "*") != "" && probe.Glob(pattern, name)
}

// Probes implements Provider.
func (p *Rawfbt) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if !asksFor(d.Provider, "rawfbt") || !matchesSide(d.Name) {
		return nil, nil
	}
	named := d.Provider == "rawfbt"
	if !haveKprobes() {
		if named {
			return nil, errNoKprobes
		}
		return nil, nil
	}
	k, err := symbol.KernelSymbols()
	if err != nil {
		if named {
			return nil, fmt.Errorf("rawfbt probes: %w", err)
		}
		return nil, nil
	}
	first := map[string]*kfunc{} // by module and name: one probe for all namesakes
	var out []*probe.Probe
	n := -1
	for i := range k.Len() {
		s := k.At(i)
		if !s.Func() {
			continue
		}
		n++
		if !probe.Glob(d.Func, s.Name) || !probe.Glob(d.Module, s.Module) || forbidden().contain(s.Addr) {
			continue
		}
		key := s.Module + ":" + s.Name
		if f := first[key]; f != nil {
			if p.probes[i] == nil {
				p.probes[i] = f
				f.addrs = append(f.addrs, s.Addr)
			}
			continue
		}
		f := p.probes[i]
		if f == nil {
			f = &kfunc{module: s.Module, name: s.Name, addrs: []uint64{s.Addr}}
			f.makeProbes("rawfbt", baseRawfbt+2*n, fbtAttr)
			p.probes[i] = f
		}
		first[key] = f
		for i, side := range sides {
			if probe.Glob(d.Name, side) {
				out = append(out, f.probes[i])
			}
		}
	}
	return out, nil
}

// Groups implements Provider.
func (*Rawfbt) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	var out []*Attachment
	var perSide [2][]*probe.Probe
	for _, pr := range enabled {
		side := 0
		if pr.Site.(fbtSite).ret {
			side = 1
		}
		perSide[side] = append(perSide[side], pr)
	}
	for side, prs := range perSide {
		if len(prs) > 0 {
			out = append(out, kprobeGroup("rawfbt", prs, side == 1))
		}
	}
	return out, nil
}
