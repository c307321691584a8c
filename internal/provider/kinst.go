package provider

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"godtrace/internal/insn"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
)

// Kinst is the provider of single instructions of kernel functions:
// kinst:MODULE:FUNC:OFFSET, the offset in bytes, on boundaries of the running
// text only. Without an offset it is every instruction of the function.
// arg0… and regs[] are the registers as the instruction finds them.
type Kinst struct {
	probes map[instPlace]*probe.Probe
}

// instPlace is a place in a function, and the Site of the probe on it.
type instPlace struct {
	addr   uint64
	module string
	name   string
	off    int
}

var kinstAttr = &probe.Attributes{
	Provider: probe.Attr{Name: "Evolving", Data: "Evolving", Class: "ISA"},
	Module:   probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Func:     probe.Attr{Name: "Private", Data: "Private", Class: "ISA"},
	Name:     probe.Attr{Name: "Private", Data: "Private", Class: "ISA"},
	Args:     probe.Attr{Name: "Private", Data: "Private", Class: "ISA"},
}

func newKinst() *Kinst { return &Kinst{probes: map[instPlace]*probe.Probe{}} }

// Name implements Provider.
func (*Kinst) Name() string { return "kinst" }

var errNoKprobes = &kernel.FeatureError{Name: "kprobes", Since: "Linux 4.17 with CONFIG_KPROBE_EVENTS", Workaround: "use the providers sdt and rawtp, which need no patching of kernel text"}

// Probes implements Provider. The function must be named in full.
func (p *Kinst) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if !asksFor(d.Provider, "kinst") || !exact(d.Func) {
		return nil, nil
	}
	if !haveKprobes() {
		return nil, errNoKprobes
	}
	module := d.Module
	if probe.IsGlob(module) {
		module = ""
	}
	fs, err := kernelFuncs(module, d.Func)
	if err != nil {
		return nil, fmt.Errorf("kinst probes: %w", err)
	}
	var out []*probe.Probe
	for _, f := range fs {
		if !probe.Glob(d.Module, f.module) {
			continue
		}
		offs, err := f.boundaries()
		if err != nil {
			return nil, fmt.Errorf("kinst: %s: %w", f.name, err)
		}
		if exact(d.Name) {
			off, err := strconv.ParseUint(d.Name, 0, 31)
			if err != nil {
				return nil, fmt.Errorf("kinst: %s: expected an offset in bytes, such as 0x1f", d.Name)
			}
			if !slices.Contains(offs, int(off)) {
				return nil, fmt.Errorf("kinst: %s: no instruction begins at offset %s (the nearest: %s)", f.name, d.Name, nearest(offs, int(off)))
			}
			offs = []int{int(off)}
		}
		for _, off := range offs {
			if pr := p.get(f, off); exact(d.Name) || probe.Glob(d.Name, pr.Desc.Name) {
				out = append(out, pr)
			}
		}
	}
	return out, nil
}

func (p *Kinst) get(f kernelFunc, off int) *probe.Probe {
	at := instPlace{f.addr + uint64(off), f.module, f.name, off}
	pr := p.probes[at]
	if pr == nil {
		pr = &probe.Probe{
			ID:   baseKinst + len(p.probes),
			Desc: probe.Desc{Provider: "kinst", Module: f.module, Func: f.name, Name: fmt.Sprintf("0x%x", off)},
			Attr: kinstAttr,
			Site: at,
		}
		p.probes[at] = pr
	}
	return pr
}

// nearest names the boundaries around an offset.
func nearest(offs []int, off int) string {
	i, _ := slices.BinarySearch(offs, off)
	var near []string
	for _, j := range []int{i - 1, i} {
		if j >= 0 && j < len(offs) {
			near = append(near, fmt.Sprintf("0x%x", offs[j]))
		}
	}
	return strings.Join(near, ", ")
}

// Groups implements Provider: one program, one kprobe each.
func (*Kinst) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	if len(enabled) == 0 {
		return nil, nil
	}
	var ts []target
	for i, pr := range enabled {
		at := pr.Site.(instPlace)
		ts = append(ts, target{pr, at.name, at.addr, uint64(i)})
	}
	a := &Attachment{Group: indexGroup(probe.KindKprobe, "kinst", enabled)}
	a.Attach = func(prog *ebpf.Program) (io.Closer, error) { return a.kprobes(prog, ts, false) }
	return []*Attachment{a}, nil
}

// returnGroups puts return probes of functions on their return instructions:
// the firing knows which one it was, no return address is touched, and none is
// missed for want of a free slot. What it cannot see are tail calls, which are
// told in the notes.
func returnGroups(prs []*probe.Probe) ([]*Attachment, error) {
	a := &Attachment{Group: indexGroup(probe.KindKretprobe, "fbt_ret_insn", prs)}
	a.Group.Conds = true
	var ts []target
	for i, pr := range prs {
		fn := pr.Site.(fbtSite).fn
		fs, err := kernelFuncs(fn.module, fn.name)
		if err != nil {
			return nil, err
		}
		if len(fs) == 0 {
			return nil, fmt.Errorf("%s: the symbol table has no such function", pr.Desc)
		}
		for _, f := range fs {
			exits, err := f.exits()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", pr.Desc, err)
			}
			n := len(ts)
			for _, x := range exits {
				switch x.Kind {
				case insn.ExitRet, insn.ExitThunk:
					// The high half of the cookie is arg0 of the firing.
					cookie := uint64(x.Off)<<32 | uint64(i)
					if cc, ok := x.Cond(); ok {
						cookie |= uint64(probe.CondOf(cc)) << probe.CondShift
					}
					ts = append(ts, target{pr, f.name, x.Addr, cookie})
				default:
					a.Notes = append(a.Notes, fmt.Sprintf("%s: %s at +0x%x: returns by way of it do not fire", pr.Desc, x.Kind, x.Off))
				}
			}
			if len(ts) == n {
				a.Notes = append(a.Notes, fmt.Sprintf("%s: no return instruction", pr.Desc))
			}
		}
	}
	a.Attach = func(prog *ebpf.Program) (io.Closer, error) { return a.kprobes(prog, ts, false) }
	return []*Attachment{a}, nil
}
