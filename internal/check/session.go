package check

import "godtrace/internal/types"

// SetOptions changes the options for the programs that follow. Types,
// variables and everything else defined so far stays.
func (c *Checker) SetOptions(o Options) {
	c.opts = o
	if v, ok := parseVersion(o.Version); ok {
		c.vmax = v
	}
	if a, ok := ParseAttr(o.AMin); ok {
		c.amin = a
	}
}

// Scopes are the types that C has by itself or by include files, and those
// that D has or programs have declared.
func (c *Checker) Scopes() (ctypes, dtypes *types.Scope) { return c.cTypes, c.dTypes }

// LeastAttr is the least stability among those given, part by part. A part
// that is not a word of the stability report counts as the least of all.
func LeastAttr(attrs ...[3]string) [3]string {
	least := maxAttr
	for _, a := range attrs {
		p, _ := ParseAttr(a[0] + "/" + a[1] + "/" + a[2])
		least = least.min(p)
	}
	return [3]string{least.Name.String(), least.Data.String(), least.Class.String()}
}

// Identifier is a name that D predefines.
type Identifier struct {
	Name string
	Kind string // "variable", "subroutine", "action", "aggregating function" or "refused"
}

// Identifiers lists every name that D predefines, for listings and for tests
// that want to miss none.
func Identifiers() []Identifier {
	kinds := [...]string{
		idScalar: "variable", idArgs: "variable", idRegs: "variable", idFunc: "subroutine",
		idActFunc: "action", idAggFunc: "aggregating function", idRefused: "refused",
	}
	out := make([]Identifier, len(idents))
	for i, id := range idents {
		out[i] = Identifier{id.name, kinds[id.kind]}
	}
	return out
}
