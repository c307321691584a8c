package godtrace

import (
	"cmp"
	"slices"

	"godtrace/internal/check"
)

// ClauseInfo is one clause under one of its probe descriptions.
type ClauseInfo struct {
	// Desc is the description, all four parts: provider:module:function:name.
	Desc   string
	Probes []*ProbeInfo // what it matches now
	// Attributes is the least stability of the parts that Desc names: name,
	// data, dependency class.
	Attributes [3]string
}

// Clauses lists the program's clauses in order, a clause with several
// descriptions once for each.
func (p *Program) Clauses() []ClauseInfo {
	out := make([]ClauseInfo, len(p.checked.Clauses))
	for i, c := range p.checked.Clauses {
		d := c.Desc
		out[i].Desc = d.Provider + ":" + d.Module + ":" + d.Func + ":" + d.Name
		out[i].Attributes = attrText(c.DescAttr)
		for _, pr := range c.Probes {
			out[i].Probes = append(out[i].Probes, probeInfo(pr))
		}
		slices.SortStableFunc(out[i].Probes, func(a, b *ProbeInfo) int { return cmp.Compare(a.ID, b.ID) })
	}
	return out
}

// Stability is the least stability of the program's probe descriptions and of
// what its statements use: name, data, dependency class.
func (p *Program) Stability() (desc, stmt [3]string) {
	d := check.Attr{Name: check.Standard, Data: check.Standard, Class: check.ClassCommon}
	s := d
	for _, c := range p.checked.Clauses {
		d, s = leastAttr(d, c.DescAttr), leastAttr(s, c.StmtAttr)
	}
	return attrText(d), attrText(s)
}

func leastAttr(a, b check.Attr) check.Attr {
	return check.Attr{Name: min(a.Name, b.Name), Data: min(a.Data, b.Data), Class: min(a.Class, b.Class)}
}

func attrText(a check.Attr) [3]string {
	return [3]string{a.Name.String(), a.Data.String(), a.Class.String()}
}
