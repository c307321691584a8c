package provider

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/btf"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
)

// Rawtp is the provider of raw tracepoints: rawtp:GROUP::NAME, with the
// arguments that the kernel's code gives the tracepoint, typed by BTF. Those
// that have no event in tracefs have no group.
type Rawtp struct {
	probes map[string]*probe.Probe // by name
	bare   map[string]int          // place among the tracepoints without an event
}

// rawtpSite is a probe's Site: the name of the tracepoint, which is the probe's.
type rawtpSite struct{}

func newRawtp() *Rawtp { return &Rawtp{probes: map[string]*probe.Probe{}} }

// Name implements Provider.
func (*Rawtp) Name() string { return "rawtp" }

// traceTypedef begins the name of the typedef that BTF has for each tracepoint:
// a pointer to its prototype, with a first argument of the tracing system's own.
const traceTypedef = "btf_trace_"

// Probes implements Provider.
func (p *Rawtp) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if !probe.Glob(d.Provider, "rawtp") || !mayBeTracepoint(d) {
		return nil, nil
	}
	var out []*probe.Probe
	evs, err := events(d.Module, d.Name)
	if err != nil && d.Provider == "rawtp" && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("raw tracepoints: %w", err)
	}
	for _, e := range evs {
		out = append(out, p.get(e.group, e.name, baseRawtp+e.id))
	}
	if !probe.Glob(d.Module, "") {
		return out, nil
	}
	names, err := p.bareNames(d)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		out = append(out, p.get("", name, baseBareTP+p.bare[name]))
	}
	return out, nil
}

func (p *Rawtp) get(group, name string, id int) *probe.Probe {
	pr := p.probes[name]
	if pr == nil || pr.ID != id || pr.Desc.Module != group {
		pr = &probe.Probe{
			ID:     id,
			Desc:   probe.Desc{Provider: "rawtp", Module: group, Name: name},
			ArgsFn: func() []probe.Arg { return rawtpArgs(name) },
			Attr:   sdtAttr,
			Site:   rawtpSite{},
		}
		p.probes[name] = pr
	}
	return pr
}

// bareNames are the tracepoints without an event that match d, sorted. By the
// kernel's convention their names end in _tp, so that a description of any
// provider (BEGIN) costs no look into BTF.
func (p *Rawtp) bareNames(d probe.Desc) ([]string, error) {
	exact := d.Name != "" && !probe.IsGlob(d.Name)
	if exact && d.Provider == "" && !strings.HasSuffix(d.Name, "_tp") {
		return nil, nil
	}
	set, err := KernelBTF()
	if err != nil {
		return nil, nil
	}
	if exact {
		if _, ok := set.VMLinux.TypeID(btf.KindTypedef, traceTypedef+d.Name); !ok {
			return nil, nil
		}
	}
	if p.bare == nil {
		evs, err := events("", "")
		if err != nil {
			return nil, nil
		}
		if p.bare, err = bareTracepoints(set, evs); err != nil {
			return nil, err
		}
	}
	var out []string
	for name := range p.bare {
		if probe.Glob(d.Name, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// bareTracepoints numbers the tracepoints of vmlinux that have no event, by name.
func bareTracepoints(set *btf.Set, evs []event) (map[string]int, error) {
	have := map[string]bool{}
	for _, e := range evs {
		have[e.name] = true
	}
	var names []string
	for id := range set.VMLinux.All(btf.KindTypedef) {
		if name, ok := strings.CutPrefix(set.VMLinux.TypeName(id), traceTypedef); ok && !have[name] {
			names = append(names, name)
		}
	}
	if err := set.VMLinux.Err(); err != nil {
		return nil, err
	}
	slices.Sort(names)
	out := map[string]int{}
	for i, name := range names {
		out[name] = i
	}
	return out, nil
}

// prototype finds the prototype of a tracepoint in vmlinux or any module.
func prototype(name string) (*btf.Spec, []btf.Param, bool) {
	set, err := KernelBTF()
	if err != nil {
		return nil, nil, false
	}
	spec := set.VMLinux
	id, ok := spec.TypeID(btf.KindTypedef, traceTypedef+name)
	for _, m := range set.Modules() {
		if ok {
			break
		}
		if spec, err = set.Module(m); err == nil {
			id, ok = spec.TypeID(btf.KindTypedef, traceTypedef+name)
		}
	}
	if !ok {
		return nil, nil, false
	}
	// typedef → pointer → prototype
	_, params, _, err := spec.Proto(spec.Ref(spec.Ref(id)))
	if err != nil || len(params) == 0 {
		return nil, nil, false
	}
	return spec, params[1:], true
}

// maxTPArgs is how many arguments a tracepoint can have: the kernel has no
// bpf_trace_runN for more.
const maxTPArgs = 12

// rawtpArgs are the typed arguments of a tracepoint, nil where BTF has none.
func rawtpArgs(name string) []probe.Arg {
	spec, params, ok := prototype(name)
	if !ok {
		return nil
	}
	out := make([]probe.Arg, 0, len(params))
	for i, p := range params {
		t, err := spec.Type(p.Type)
		if err != nil {
			return nil
		}
		out = append(out, probe.Arg{Name: p.Name, Native: t, From: i})
	}
	return out
}

// rawProbe is a probe on a raw tracepoint: its name and how many ctx words the
// program may read.
type rawProbe struct {
	pr    *probe.Probe
	tp    string
	nargs int
}

// Groups implements Provider.
func (p *Rawtp) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	var raw []rawProbe
	for _, pr := range enabled {
		n := 0
		if _, params, ok := prototype(pr.Desc.Name); ok && !pr.NoArgs {
			n = min(len(params), maxTPArgs)
		}
		raw = append(raw, rawProbe{pr, pr.Desc.Name, n})
	}
	return rawGroups("rawtp", raw), nil
}

// rawGroups arranges raw tracepoints into programs. The kernel attaches no
// program that reads more words than the tracepoint has, so that one program
// serves those with the same number of arguments; it tells them apart by
// cookies. Without cookies each has its own.
func rawGroups(name string, raw []rawProbe) []*Attachment {
	if len(raw) == 0 {
		return nil
	}
	slices.SortStableFunc(raw, func(a, b rawProbe) int { return cmp.Compare(a.nargs, b.nargs) })
	var out []*Attachment
	for len(raw) > 0 {
		n := 1
		for n < len(raw) && raw[n].nargs == raw[0].nargs && rawCookies() {
			n++
		}
		out = append(out, rawGroup(name, raw[:n:n]))
		raw = raw[n:]
	}
	return out
}

func rawGroup(name string, raw []rawProbe) *Attachment {
	g := &probe.Group{Kind: probe.KindRawTP, Name: name + "_" + strconv.Itoa(raw[0].nargs), NArgs: raw[0].nargs}
	if len(raw) == 1 {
		g.Name = raw[0].tp
		g.AttachTo = raw[0].tp
	}
	for i, r := range raw {
		g.Probes = append(g.Probes, r.pr)
		if len(raw) > 1 {
			g.Keys = append(g.Keys, uint64(i))
		}
	}
	a := &Attachment{Group: g}
	a.Attach = func(prog *ebpf.Program) (io.Closer, error) {
		var cs closers
		for i, r := range raw {
			fd, err := openRawTracepoint(r.tp, prog.FD(), uint64(i))
			runtime.KeepAlive(prog)
			if err != nil {
				a.Refused = append(a.Refused, Refusal{r.pr, rawError(r.tp, err)})
				continue
			}
			cs = append(cs, fdCloser(fd))
		}
		if len(cs) == 0 {
			return nil, a.Refused[0].Err
		}
		return cs, nil
	}
	return a
}

func rawError(name string, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("raw tracepoint %s: the kernel has no such tracepoint", name)
	}
	return fmt.Errorf("raw tracepoint %s: %w", name, err)
}

// openRawTracepoint attaches a program to a raw tracepoint, with a cookie, which
// the link library has no field for. A cookie of 0 is what kernels without
// cookies want.
func openRawTracepoint(name string, prog int, cookie uint64) (int, error) {
	b, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, err := rawTracepointOpen(b, prog, cookie)
	return fd, os.NewSyscallError("bpf raw tracepoint open", err)
}

// rawTracepointOpen is the call itself; without a name it attaches a program
// where it was loaded for.
func rawTracepointOpen(name *byte, prog int, cookie uint64) (int, error) {
	attr := struct {
		name   *byte
		prog   uint32
		_      uint32
		cookie uint64
	}{name, uint32(prog), 0, cookie}
	return kernel.BPF(unix.BPF_RAW_TRACEPOINT_OPEN, &attr)
}

// rawCookies reports whether raw tracepoints can have cookies (Linux 6.10): a
// kernel that knows them complains about the descriptor, an older one about
// the attribute.
var rawCookies = sync.OnceValue(func() bool {
	_, err := openRawTracepoint("sched_switch", -1, 1)
	return errors.Is(err, unix.EBADF)
})
