package provider

import (
	"fmt"
	"strings"

	"godtrace/internal/probe"
)

// A Naming is a probe of a Named provider: a name for a probe of another.
type Naming struct {
	Desc probe.Desc // the name
	Of   probe.Desc // the probe; no patterns
}

// Named is a provider that gives names of its own to probes of others: what
// clients of the library register.
type Named struct {
	name   string
	list   func(probe.Desc) ([]Naming, error)
	others []Provider
	base   int
	probes map[probe.Desc]*probe.Probe
	of     map[*probe.Probe]named
}

// named is the probe that a probe stands for.
type named struct {
	probe *probe.Probe
	owner Provider
}

// NewNamed makes a provider. list returns the probes that match a description,
// or more; the empty one asks for all. nth tells registered providers apart.
func NewNamed(name string, nth int, list func(probe.Desc) ([]Naming, error), others []Provider) *Named {
	return &Named{name: name, list: list, others: others, base: baseNamed + nth*100_000,
		probes: map[probe.Desc]*probe.Probe{}, of: map[*probe.Probe]named{}}
}

// Name implements Provider.
func (p *Named) Name() string { return p.name }

// Probes implements Provider.
func (p *Named) Probes(d probe.Desc) ([]*probe.Probe, error) {
	all, err := p.list(d)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.name, err)
	}
	var out []*probe.Probe
	for _, n := range all {
		if !d.Match(n.Desc) {
			continue
		}
		pr, err := p.get(n)
		if err != nil {
			return nil, err
		}
		out = append(out, pr)
	}
	return out, nil
}

func (p *Named) get(n Naming) (*probe.Probe, error) {
	if pr := p.probes[n.Desc]; pr != nil {
		return pr, nil
	}
	if !strings.HasPrefix(n.Desc.Provider, p.name) || n.Desc.Name == "" {
		return nil, fmt.Errorf("provider %s: probe %s: expected a provider that begins with %s, and a name", p.name, n.Desc, p.name)
	}
	var found []named
	for _, o := range p.others {
		if n.Of.Provider == "dtrace" {
			break // BEGIN, END and ERROR are the session's own
		}
		ps, err := o.Probes(n.Of)
		if err != nil {
			return nil, fmt.Errorf("provider %s: probe %s: %w", p.name, n.Desc, err)
		}
		for _, pr := range ps {
			found = append(found, named{pr, o})
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("provider %s: probe %s: %s matches %d probes, expected one", p.name, n.Desc, n.Of, len(found))
	}
	pr := new(probe.Probe)
	*pr = *found[0].probe
	pr.Desc, pr.ID = n.Desc, p.base+len(p.probes)
	p.probes[n.Desc], p.of[pr] = pr, found[0]
	return pr, nil
}

// Groups implements Provider: those of the probes' owners, with our probes in
// place of theirs.
func (p *Named) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	var out []*Attachment
	for _, o := range p.others {
		var theirs []*probe.Probe
		ours := map[*probe.Probe]*probe.Probe{}
		for _, pr := range enabled {
			n := p.of[pr]
			if n.owner != o {
				continue
			}
			if ours[n.probe] != nil {
				return nil, fmt.Errorf("provider %s: %s and %s are the same probe, %s", p.name, ours[n.probe].Desc, pr.Desc, n.probe.Desc)
			}
			n.probe.NoArgs = n.probe.NoArgs && pr.NoArgs
			theirs, ours[n.probe] = append(theirs, n.probe), pr
		}
		if len(theirs) == 0 {
			continue
		}
		as, err := o.Groups(theirs)
		if err != nil {
			return nil, err
		}
		for _, a := range as {
			for i, pr := range a.Group.Probes {
				a.Group.Probes[i] = ours[pr]
			}
		}
		out = append(out, as...)
	}
	return out, nil
}
