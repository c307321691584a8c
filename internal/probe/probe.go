// Package probe describes probes: their four-part names, matching, arguments.
// It is what providers, the checker and the back end know of one another.
package probe

import "godtrace/internal/types"

// Desc is provider:module:function:name. In a description to match, each part
// may be a glob pattern (* ? [..] \x) and "" matches everything.
type Desc struct{ Provider, Module, Func, Name string }

// String is the four parts with colons between them.
func (d Desc) String() string {
	return d.Provider + ":" + d.Module + ":" + d.Func + ":" + d.Name
}

// Part is one of the four: 0 is the provider, 3 the name.
func (d *Desc) Part(i int) string {
	return [4]string{d.Provider, d.Module, d.Func, d.Name}[i]
}

// Probe is one point of instrumentation.
type Probe struct {
	ID   int // what -l and the column ID show; from the range of its provider
	Desc Desc
	// Args is the typed argument list (args[]); nil where the provider gives only arg0..arg9.
	// ArgsFn computes it on demand when it is dear (BTF, DWARF).
	Args   []Arg
	ArgsFn func() []Arg
	// ArgsErr is why there are no typed arguments, once TypedArgs was asked.
	ArgsErr error
	// Types, if not nil, are those of the program the probe is in, for casts.
	Types types.Lookuper
	// Stability of the provider's parts, for -v.
	Attr *Attributes
	// Site is the provider's own data: what it needs to attach.
	Site any
	// Overrides is set by the session before groups are formed: a clause has the
	// action return(), which only some attachments allow.
	Overrides bool
	// NoArgs is set by the session before groups are formed: no clause reads an
	// argument, so that a cheaper attachment without them will do.
	NoArgs bool
}

// TypedArgs is Args, computed if need be.
func (p *Probe) TypedArgs() []Arg {
	if p.Args == nil && p.ArgsFn != nil {
		p.Args = p.ArgsFn()
	}
	return p.Args
}

// Arg is one element of args[].
type Arg struct {
	Name   string     // parameter name, "" where not known
	Native types.Type // the type the provider has
	Xlate  types.Type // the type D programs see; nil or identical: no translator needed
	From   int        // index of the native argument (argN) it is made from
	// Loc says where the argument lies when it is not simply argN of the probe. Of a
	// by-reference type, LocMem gives the address.
	Loc *Loc
	// Parts are the registers that hold a by-reference value between them.
	Parts []Part
	// Hole says why parts with Reg below 0 cannot be had, while others can.
	Hole string
	// Err says why the value cannot be had, although its type is known.
	Err error
}

// Part is the Size bytes at byte Off of a value, in the low bytes of the
// register that uregs[Reg] is.
type Part struct {
	Reg, Off, Size int
}

// LocKind says where a value lies in the context of a firing.
type LocKind uint8

const (
	LocArg     LocKind = iota // argN: as the kind of attachment defines it
	LocCtx                    // Size bytes at byte Off of the BPF context (tracepoint fields)
	LocReg                    // the register at byte Off of the probe's pt_regs
	LocMem                    // Size bytes at address (register at Off) + Disp; User address space
	LocConst                  // the constant Disp
	LocCtxAddr                // the address of byte Off of the BPF context (arrays in tracepoint records)
	LocCtxData                // the address of byte D+Disp of the context; D: low 16 bits of the u32 at Off
)

// Loc is a location; Size in bytes, Signed for sign extension.
type Loc struct {
	Kind   LocKind
	Off    int64
	Disp   int64
	Size   int
	Signed bool
	User   bool
}

// Attributes of a provider: name/data/class stability of provider, module,
// function, name and arguments, as in the stability report.
type Attributes struct{ Provider, Module, Func, Name, Args Attr }

// Attr is one stability triple: "Evolving", "Evolving", "ISA".
type Attr struct{ Name, Data, Class string }
