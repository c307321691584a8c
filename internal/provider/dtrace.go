package provider

import "godtrace/internal/probe"

// Dtrace is the provider of the session's own probes: BEGIN, END and ERROR.
// The session runs the former two by hand; ERROR fires in the context of the
// fault, from within whatever program faulted.
type Dtrace struct{ probes []*probe.Probe }

var dtraceAttr = &probe.Attributes{
	Provider: probe.Attr{Name: "Stable", Data: "Stable", Class: "Common"},
	Module:   probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Func:     probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Name:     probe.Attr{Name: "Stable", Data: "Stable", Class: "Common"},
	Args:     probe.Attr{Name: "Stable", Data: "Stable", Class: "Common"},
}

func newDtrace() *Dtrace {
	p := new(Dtrace)
	for i, name := range []string{"BEGIN", "END", "ERROR"} {
		p.probes = append(p.probes, &probe.Probe{
			ID:   baseDtrace + i,
			Desc: probe.Desc{Provider: "dtrace", Name: name},
			Attr: dtraceAttr,
		})
	}
	return p
}

// Name implements Provider.
func (*Dtrace) Name() string { return "dtrace" }

// Probes implements Provider.
func (p *Dtrace) Probes(d probe.Desc) ([]*probe.Probe, error) {
	var out []*probe.Probe
	for _, pr := range p.probes {
		if d.Match(pr.Desc) {
			out = append(out, pr)
		}
	}
	return out, nil
}

// Groups implements Provider: a program each for BEGIN and END, none for ERROR.
func (*Dtrace) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	var out []*Attachment
	for _, pr := range enabled {
		if pr.Desc.Name == "ERROR" {
			continue
		}
		out = append(out, &Attachment{Group: &probe.Group{
			Kind: probe.KindManual, Name: pr.Desc.Name, Probes: []*probe.Probe{pr},
		}})
	}
	return out, nil
}
