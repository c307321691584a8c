package provider

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"godtrace/internal/kernel"
	"godtrace/internal/probe"
)

// Cpc is the provider of probes on the counters of processors:
// cpc:::EVENT-MODE-[MASK-]COUNT fires on every CPU, each time an event has
// happened COUNT times. MODE is user, kernel or all. Events are those that
// perf_event_open(2) numbers for all machines, those of software among them,
// and rHEX, which is a number of the processor's own; MASK is its unit mask.
type Cpc struct {
	// CPU is the only one whose events count; negative: all.
	CPU    int
	probes map[string]*probe.Probe
	order  []*probe.Probe
	listed bool
	// opens says whether the system has an event; a test may answer itself.
	opens func(*unix.PerfEventAttr) bool
}

// cpcEvent is an event as perf_event_open(2) numbers it. low is the least COUNT.
type cpcEvent struct {
	typ    uint32
	config uint64
	low    uint64
}

// minCount bounds the load of events that go by the clock of the processor.
const minCount = 10_000

var cpcEvents, cpcNames = func() (map[string]cpcEvent, []string) {
	m := map[string]cpcEvent{}
	var names []string
	add := func(name string, typ uint32, config, low uint64) {
		m[name] = cpcEvent{typ, config, low}
		names = append(names, name)
	}
	for config, name := range []string{
		unix.PERF_COUNT_HW_CPU_CYCLES: "cpu_cycles", unix.PERF_COUNT_HW_INSTRUCTIONS: "instructions",
		unix.PERF_COUNT_HW_CACHE_REFERENCES: "cache_references", unix.PERF_COUNT_HW_CACHE_MISSES: "cache_misses",
		unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS: "branches", unix.PERF_COUNT_HW_BRANCH_MISSES: "branch_misses",
		unix.PERF_COUNT_HW_BUS_CYCLES:              "bus_cycles",
		unix.PERF_COUNT_HW_STALLED_CYCLES_FRONTEND: "stalled_cycles_frontend",
		unix.PERF_COUNT_HW_STALLED_CYCLES_BACKEND:  "stalled_cycles_backend",
		unix.PERF_COUNT_HW_REF_CPU_CYCLES:          "ref_cycles",
	} {
		add(name, unix.PERF_TYPE_HARDWARE, uint64(config), minCount)
	}
	many := []string{"loads", "stores", "prefetches"}
	// Caches, what is done to them, and how that ends: a byte of config each.
	for cache, c := range []string{"L1_dcache", "L1_icache", "LLC", "dTLB", "iTLB", "branch", "node"} {
		for op, o := range []string{"load", "store", "prefetch"} {
			add(c+"_"+many[op], unix.PERF_TYPE_HW_CACHE, uint64(cache|op<<8), minCount)
			add(c+"_"+o+"_misses", unix.PERF_TYPE_HW_CACHE, uint64(cache|op<<8|1<<16), minCount)
		}
	}
	add("cpu_clock", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK, minCount)
	add("task_clock", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK, minCount)
	for name, config := range map[string]uint64{
		"page_faults": unix.PERF_COUNT_SW_PAGE_FAULTS, "minor_faults": unix.PERF_COUNT_SW_PAGE_FAULTS_MIN,
		"major_faults": unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ, "context_switches": unix.PERF_COUNT_SW_CONTEXT_SWITCHES,
		"cpu_migrations": unix.PERF_COUNT_SW_CPU_MIGRATIONS, "alignment_faults": unix.PERF_COUNT_SW_ALIGNMENT_FAULTS,
		"emulation_faults": unix.PERF_COUNT_SW_EMULATION_FAULTS,
	} {
		add(name, unix.PERF_TYPE_SOFTWARE, config, 1)
	}
	slices.Sort(names)
	return m, names
}()

var cpcAttr = &probe.Attributes{
	Provider: probe.Attr{Name: "Evolving", Data: "Evolving", Class: "CPU"},
	Module:   probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Func:     probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Name:     probe.Attr{Name: "Evolving", Data: "Evolving", Class: "CPU"},
	Args:     probe.Attr{Name: "Evolving", Data: "Evolving", Class: "Common"},
}

func newCpc() *Cpc {
	return &Cpc{CPU: -1, probes: map[string]*probe.Probe{}, opens: func(attr *unix.PerfEventAttr) bool {
		cpus, err := kernel.OnlineCPUs()
		if err != nil {
			return false
		}
		fd, err := unix.PerfEventOpen(attr, -1, cpus[0], -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err == nil {
			unix.Close(fd)
		}
		for _, e := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL, unix.ENODEV} {
			if errors.Is(err, e) {
				return false
			}
		}
		return true // what else is wrong is told when it is enabled
	}}
}

// parseCpc reads EVENT-MODE-[MASK-]COUNT.
func parseCpc(name string) (*unix.PerfEventAttr, bool) {
	part := strings.Split(name, "-")
	if len(part) < 3 || len(part) > 4 {
		return nil, false
	}
	attr := &unix.PerfEventAttr{Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitDisabled}
	low := uint64(minCount)
	raw := false
	if ev, ok := cpcEvents[part[0]]; ok {
		attr.Type, attr.Config, low = ev.typ, ev.config, ev.low
	} else if hex, ok := strings.CutPrefix(part[0], "r"); ok {
		n, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			return nil, false
		}
		attr.Type, attr.Config, raw = unix.PERF_TYPE_RAW, n, true
	} else {
		return nil, false
	}
	switch part[1] {
	case "user":
		attr.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv
	case "kernel":
		attr.Bits |= unix.PerfBitExcludeUser
	case "all":
	default:
		return nil, false
	}
	if len(part) == 4 {
		mask, err := strconv.ParseUint(part[2], 0, 8)
		if err != nil || !raw {
			return nil, false
		}
		attr.Config |= mask << 8
	}
	n, err := strconv.ParseUint(part[len(part)-1], 10, 63)
	if err != nil || n < low {
		return nil, false
	}
	attr.Sample = n
	return attr, true
}

// get makes the probe name; nil if the name means nothing here.
func (p *Cpc) get(name string) *probe.Probe {
	if pr, ok := p.probes[name]; ok {
		return pr
	}
	attr, ok := parseCpc(name)
	if !ok || !p.opens(attr) {
		p.probes[name] = nil
		return nil
	}
	pr := &probe.Probe{ID: baseCpc + len(p.order), Desc: probe.Desc{Provider: "cpc", Name: name}, Attr: cpcAttr, Site: attr}
	p.probes[name] = pr
	p.order = append(p.order, pr)
	return pr
}

// Name implements Provider.
func (*Cpc) Name() string { return "cpc" }

// Probes implements Provider: a name that is no pattern is made on demand. One
// probe of each event the system has stands for those there could be.
func (p *Cpc) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if !probe.Glob(d.Provider, "cpc") || !probe.Glob(d.Module, "") || !probe.Glob(d.Func, "") {
		return nil, nil
	}
	if d.Name != "" && !probe.IsGlob(d.Name) {
		if d.Provider == "" && !strings.Contains(d.Name, "-") {
			return nil, nil
		}
		if pr := p.get(d.Name); pr != nil {
			return []*probe.Probe{pr}, nil
		}
		return nil, nil
	}
	if !p.listed {
		p.listed = true
		for _, name := range cpcNames {
			p.get(name + "-all-1000000000")
		}
	}
	var out []*probe.Probe
	for _, pr := range p.order {
		if d.Match(pr.Desc) {
			out = append(out, pr)
		}
	}
	return out, nil
}

// Groups implements Provider.
func (p *Cpc) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	return eventGroup("cpc", enabled, p.CPU, func(pr *probe.Probe) (unix.PerfEventAttr, bool) {
		return *pr.Site.(*unix.PerfEventAttr), false
	})
}
