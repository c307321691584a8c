package provider

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/kernel"
	"godtrace/internal/probe"
)

// Profile is the provider of probes that fire by the clock: profile-N on every
// CPU, tick-N on one. They are cpu-clock perf events with a fixed period (the
// frequency mode drifts at high rates).
type Profile struct {
	// CPU is the only one whose time counts; negative: all.
	CPU    int
	probes map[string]*probe.Probe
	order  []*probe.Probe
}

// profileSite is a probe's Site.
type profileSite struct {
	period uint64 // ns
	tick   bool
}

var profileAttr = &probe.Attributes{
	Provider: probe.Attr{Name: "Evolving", Data: "Evolving", Class: "Common"},
	Module:   probe.Attr{Name: "Unstable", Data: "Unstable", Class: "Common"},
	Func:     probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Name:     probe.Attr{Name: "Evolving", Data: "Evolving", Class: "Common"},
	Args:     probe.Attr{Name: "Evolving", Data: "Evolving", Class: "Common"},
}

// minPeriod bounds the load a probe can put on the system: 5000 Hz, as in DTrace.
const minPeriod = 200_000

func newProfile() *Profile {
	p := &Profile{CPU: -1, probes: map[string]*probe.Probe{}}
	for _, n := range []string{"97", "199", "499", "997", "1999", "4001", "4999"} {
		p.add("profile-" + n)
	}
	for _, n := range []string{"1", "10", "100", "500", "1000", "5000"} {
		p.add("tick-" + n)
	}
	return p
}

// add makes the probe name; nil if the name means nothing.
func (p *Profile) add(name string) *probe.Probe {
	site, ok := parseProfile(name)
	if !ok {
		return nil
	}
	pr := &probe.Probe{
		ID:   baseProfile + len(p.order),
		Desc: probe.Desc{Provider: "profile", Name: name},
		Attr: profileAttr,
		Site: site,
	}
	p.probes[name] = pr
	p.order = append(p.order, pr)
	return pr
}

// units of profile-N and tick-N, in ns; hz (and none) is a frequency.
var units = map[string]uint64{
	"ns": 1, "nsec": 1, "us": 1e3, "usec": 1e3, "ms": 1e6, "msec": 1e6,
	"s": 1e9, "sec": 1e9, "m": 60e9, "min": 60e9, "h": 3600e9, "hour": 3600e9,
	"d": 86400e9, "day": 86400e9,
}

func parseProfile(name string) (profileSite, bool) {
	var s profileSite
	rest, ok := strings.CutPrefix(name, "profile-")
	if !ok {
		if rest, ok = strings.CutPrefix(name, "tick-"); !ok {
			return s, false
		}
		s.tick = true
	}
	i := 0
	for i < len(rest) && '0' <= rest[i] && rest[i] <= '9' {
		i++
	}
	n, err := strconv.ParseUint(rest[:i], 10, 64)
	if err != nil || n == 0 {
		return s, false
	}
	switch unit := strings.ToLower(rest[i:]); unit {
	case "", "hz":
		s.period = 1e9 / n
	default:
		u, ok := units[unit]
		if !ok || n > (1<<63)/u {
			return s, false
		}
		s.period = n * u
	}
	return s, s.period >= minPeriod
}

// Name implements Provider.
func (*Profile) Name() string { return "profile" }

// Probes implements Provider: a name that is no pattern is made on demand.
func (p *Profile) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if !probe.Glob(d.Provider, "profile") || !probe.Glob(d.Module, "") || !probe.Glob(d.Func, "") {
		return nil, nil
	}
	if d.Name != "" && !probe.IsGlob(d.Name) {
		pr := p.probes[d.Name]
		if pr == nil {
			pr = p.add(d.Name)
		}
		if pr == nil {
			return nil, nil
		}
		return []*probe.Probe{pr}, nil
	}
	var out []*probe.Probe
	for _, pr := range p.order {
		if d.Match(pr.Desc) {
			out = append(out, pr)
		}
	}
	return out, nil
}

// Groups implements Provider: all clock probes share one program.
func (p *Profile) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	return eventGroup("profile", enabled, p.CPU, func(pr *probe.Probe) (unix.PerfEventAttr, bool) {
		site := pr.Site.(profileSite)
		return unix.PerfEventAttr{
			Type:   unix.PERF_TYPE_SOFTWARE,
			Config: unix.PERF_COUNT_SW_CPU_CLOCK,
			Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Sample: site.period,
			Bits:   unix.PerfBitDisabled,
		}, site.tick
	})
}

// eventGroup attaches probes by a perf event of each on every CPU, or on one
// alone where the probe asks for that; the only CPU is cpu if that is not
// negative. One program serves all: the cookie of an event is its dispatch key.
func eventGroup(name string, enabled []*probe.Probe, cpu int, event func(*probe.Probe) (attr unix.PerfEventAttr, one bool)) ([]*Attachment, error) {
	if len(enabled) == 0 {
		return nil, nil
	}
	g := indexGroup(probe.KindPerf, name, enabled)
	attach := func(prog *ebpf.Program) (io.Closer, error) {
		cpus, err := kernel.OnlineCPUs()
		if err != nil {
			return nil, err
		}
		if cpu >= 0 {
			cpus = []int{cpu}
		}
		var cs closers
		for i, pr := range enabled {
			attr, one := event(pr)
			on := cpus
			if one {
				on = cpus[:1]
			}
			for _, cpu := range on {
				c, err := attachEvent(prog, cpu, attr, g.Keys[i])
				if err != nil {
					cs.Close()
					return nil, fmt.Errorf("%s: perf event on CPU %d: %w", pr.Desc.Name, cpu, err)
				}
				cs = append(cs, c)
			}
		}
		return cs, nil
	}
	return []*Attachment{{Group: g, Attach: attach}}, nil
}

type fdCloser int

func (fd fdCloser) Close() error { return unix.Close(int(fd)) }

// attachEvent opens an event on cpu and gives it prog. The returned closer owns
// both the event and the link.
func attachEvent(prog *ebpf.Program, cpu int, attr unix.PerfEventAttr, cookie uint64) (io.Closer, error) {
	ev, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("perf_event_open", err)
	}
	return attachPerf(prog, ev, cookie)
}

// bpfPerfEvent is the attach type BPF_PERF_EVENT.
const bpfPerfEvent = 41
