package provider

import (
	"testing"

	"golang.org/x/sys/unix"

	"godtrace/internal/probe"
)

// Numbers of events are those of include/uapi/linux/perf_event.h.
func TestParseCpc(t *testing.T) {
	user, kernel := uint64(unix.PerfBitExcludeKernel|unix.PerfBitExcludeHv), uint64(unix.PerfBitExcludeUser)
	for _, c := range []struct {
		name           string
		typ            uint32
		config, period uint64
		bits           uint64
	}{
		{"cpu_clock-all-10000", 1, 0, 10000, 0},
		{"cpu_clock-user-1000000", 1, 0, 1000000, user},
		{"page_faults-kernel-1", 1, 2, 1, kernel},
		{"instructions-all-50000", 0, 1, 50000, 0},
		{"branches-all-50000", 0, 4, 50000, 0},
		{"ref_cycles-all-50000", 0, 9, 50000, 0},
		{"L1_dcache_loads-all-50000", 3, 0, 50000, 0},
		{"LLC_store_misses-all-50000", 3, 2 | 1<<8 | 1<<16, 50000, 0},
		{"dTLB_prefetches-all-50000", 3, 3 | 2<<8, 50000, 0},
		{"rc0-all-20000", 4, 0xc0, 20000, 0},
		{"rc4-all-0x20-20000", 4, 0x20c4, 20000, 0},
	} {
		a, ok := parseCpc(c.name)
		if !ok || a.Type != c.typ || a.Config != c.config || a.Sample != c.period || a.Bits&^unix.PerfBitDisabled != c.bits {
			t.Errorf("%s: %+v, %v", c.name, a, ok)
		}
	}
	for _, name := range []string{
		"", "cpu_clock", "cpu_clock-all", "cpu_clock-100000", "cpu_clock-some-100000", "nosuch-all-100000",
		"cpu_clock-all-100", "cpu_clock-all-0x20-100000", "cpu_clock-all--1", "page_faults-all-0", "r-all-100000",
		"rc4-all-0x100-20000", "rc4-all-1-2-20000", "cpu_clock-all-99999999999999999999",
	} {
		if a, ok := parseCpc(name); ok {
			t.Errorf("%s: %+v, want none", name, a)
		}
	}
}

// What the system does not have is no probe.
func TestCpcProbes(t *testing.T) {
	p := newCpc()
	p.opens = func(a *unix.PerfEventAttr) bool { return a.Type == unix.PERF_TYPE_SOFTWARE }
	find := func(d probe.Desc) []*probe.Probe {
		ps, err := p.Probes(d)
		if err != nil {
			t.Fatal(err)
		}
		return ps
	}
	if ps := find(probe.Desc{Provider: "cpc"}); len(ps) != 9 {
		t.Errorf("%d probes, want the 9 events of software", len(ps))
	}
	if ps := find(probe.Desc{Provider: "cpc", Name: "instructions-all-100000"}); len(ps) != 0 {
		t.Errorf("%v", ps)
	}
	one := find(probe.Desc{Name: "cpu_clock-user-100000"})
	if len(one) != 1 || one[0] != find(probe.Desc{Provider: "cpc", Name: "cpu_clock-u*"})[0] {
		t.Errorf("%v", one)
	}
	if ps := find(probe.Desc{Provider: "cpc", Module: "x", Name: "cpu_clock-user-100000"}); len(ps) != 0 {
		t.Errorf("%v", ps)
	}
}
