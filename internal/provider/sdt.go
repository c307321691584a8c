package provider

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/tracefs"
	"godtrace/internal/types"
)

// Sdt is the provider of the kernel's static tracepoints: sdt:GROUP::EVENT,
// with the fields of the event's record as arguments.
//
// The record exists for perf tracepoints only, so a probe whose arguments are
// read is one, with a program of its own. The others are raw tracepoints that
// share programs: those detach in 0.1 ms, perf tracepoints in 40 to 80, one
// after the other.
type Sdt struct {
	probes map[int]*probe.Probe // by number of the event
}

// sdtSite is a probe's Site.
type sdtSite struct{ event }

var sdtAttr = &probe.Attributes{
	Provider: probe.Attr{Name: "Evolving", Data: "Evolving", Class: "ISA"},
	Module:   probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Func:     probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Name:     probe.Attr{Name: "Private", Data: "Private", Class: "ISA"},
	Args:     probe.Attr{Name: "Private", Data: "Private", Class: "ISA"},
}

func newSdt() *Sdt { return &Sdt{probes: map[int]*probe.Probe{}} }

// Name implements Provider.
func (*Sdt) Name() string { return "sdt" }

// Probes implements Provider. A system without tracefs, or that keeps it from
// us, has none; that is an error only for those who ask for sdt by name.
func (p *Sdt) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if !probe.Glob(d.Provider, "sdt") || !mayBeTracepoint(d) {
		return nil, nil
	}
	evs, err := events(d.Module, d.Name)
	if err != nil {
		if d.Provider == "sdt" {
			return nil, fmt.Errorf("sdt probes: %w", err)
		}
		return nil, nil
	}
	var out []*probe.Probe
	for _, e := range evs {
		pr := p.probes[e.id]
		if pr == nil || pr.Site.(sdtSite).event != e { // numbers are given anew when modules come and go
			pr = &probe.Probe{
				ID:     baseSdt + e.id,
				Desc:   probe.Desc{Provider: "sdt", Module: e.group, Name: e.name},
				ArgsFn: func() []probe.Arg { return sdtArgs(e) },
				Attr:   sdtAttr,
				Site:   sdtSite{e},
			}
			p.probes[e.id] = pr
		}
		out = append(out, pr)
	}
	return out, nil
}

// sdtArgs are the fields of the record of an event.
func sdtArgs(e event) []probe.Arg {
	f, err := tracefs.ReadFormat(e.group, e.name)
	if err != nil {
		return nil
	}
	var out []probe.Arg
	for i, fd := range f.Fields {
		t := fieldType(fd)
		loc := &probe.Loc{Kind: probe.LocCtx, Off: int64(fd.Off), Size: fd.Size, Signed: fd.Signed}
		switch {
		case fd.Place == tracefs.DataLoc:
			loc = &probe.Loc{Kind: probe.LocCtxData, Off: int64(fd.Off)}
		case fd.Place == tracefs.RelLoc:
			loc = &probe.Loc{Kind: probe.LocCtxData, Off: int64(fd.Off), Disp: int64(fd.Off + fd.Size)}
		case byReference(t) || fd.Size > 8:
			loc = &probe.Loc{Kind: probe.LocCtxAddr, Off: int64(fd.Off)}
		}
		out = append(out, probe.Arg{Name: fd.Name, Native: t, From: i, Loc: loc})
	}
	return out
}

// byReference reports whether D handles values of the type by their address.
func byReference(t types.Type) bool {
	switch t := t.(type) {
	case *types.Array, *types.Struct:
		return true
	case *types.Typedef:
		return byReference(t.Type)
	case *types.Qualified:
		return byReference(t.Type)
	}
	return false
}

// Groups implements Provider.
func (p *Sdt) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	var out []*Attachment
	var raw []rawProbe
	for _, pr := range enabled {
		site := pr.Site.(sdtSite)
		if pr.NoArgs {
			raw = append(raw, rawProbe{pr, site.name, 0})
			continue
		}
		out = append(out, &Attachment{
			Group: &probe.Group{
				Kind: probe.KindTracepoint, Name: site.group + ":" + site.name,
				Probes: []*probe.Probe{pr}, AttachTo: site.name,
			},
			Attach: func(prog *ebpf.Program) (io.Closer, error) {
				c, err := attachTracepoint(prog, site.id)
				if err != nil {
					return nil, fmt.Errorf("tracepoint %s:%s: %w", site.group, site.name, err)
				}
				return c, nil
			},
		})
	}
	return append(out, rawGroups("sdt", raw)...), nil
}

// attachTracepoint gives prog to the perf event of a tracepoint. The kernel
// runs it on every CPU, whichever one the event was opened for.
func attachTracepoint(prog *ebpf.Program, id int) (io.Closer, error) {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_TRACEPOINT,
		Config:      uint64(id),
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_RAW,
		Sample:      1,
		Wakeup:      1,
	}
	cpus, err := kernel.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	ev, err := unix.PerfEventOpen(&attr, -1, cpus[0], -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("perf_event_open", err)
	}
	return attachPerf(prog, ev, 0)
}

// attachPerf gives prog to a perf event, with a cookie, and turns it on. The
// returned closer owns both the event and the link; on errors both are closed.
func attachPerf(prog *ebpf.Program, ev int, cookie uint64) (io.Closer, error) {
	// union bpf_attr for BPF_LINK_CREATE (include/uapi/linux/bpf.h), with
	// perf_event.bpf_cookie; Linux 5.15.
	create := struct {
		prog, target, typ, flags uint32
		cookie                   uint64
	}{uint32(prog.FD()), uint32(ev), bpfPerfEvent, 0, cookie}
	l, err := kernel.BPF(unix.BPF_LINK_CREATE, &create)
	runtime.KeepAlive(prog)
	if err != nil {
		unix.Close(ev)
		return nil, os.NewSyscallError("bpf link create", err)
	}
	if err := unix.IoctlSetInt(ev, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		unix.Close(l)
		unix.Close(ev)
		return nil, os.NewSyscallError("perf event enable", err)
	}
	return closers{fdCloser(l), fdCloser(ev)}, nil
}
