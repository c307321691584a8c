package bpf

import "godtrace/internal/probe"

// Since 7.0 a program on a tracepoint may be preempted. Whatever then fires on
// its CPU the kernel skips, until the program is on again and ends, and its
// unfinished record holds back those of the others. Such programs take that
// back: from their first instruction to their last the CPU is theirs.

// holds reports whether the group's program keeps its CPU while it runs.
func (p *plan) holds(gp *groupPlan) bool {
	switch gp.g.Kind {
	case probe.KindRawTP, probe.KindSysEnter, probe.KindSysExit:
		off, on := p.preemptIDs()
		return off != 0 && on != 0
	}
	return false
}

// preemptIDs are the BTF numbers of bpf_preempt_disable and bpf_preempt_enable
// where they are needed, or 0.
func (p *plan) preemptIDs() (off, on int32) {
	if p.release < 7<<8 {
		return 0, 0
	}
	if p.preemptOff == 0 {
		if spec, err := p.kernelTypes(); err == nil {
			a, _ := spec.FuncID("bpf_preempt_disable")
			b, _ := spec.FuncID("bpf_preempt_enable")
			p.preemptOff, p.preemptOn = int32(a), int32(b)
		}
	}
	return p.preemptOff, p.preemptOn
}
