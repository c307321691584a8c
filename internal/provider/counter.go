package provider

import (
	"fmt"
	"strconv"
	"strings"

	"godtrace/internal/insn"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/symbol"
)

// Counter is the provider of the places in the kernel's code that change a
// variable by counting: counter:MODULE:SYMBOL:FUNC-0xOFFSET, found by looking
// for increments, decrements, additions and subtractions on its memory. SYMBOL
// may be followed by a member (.nr_running) or an offset (-0x10); the probe is
// on the instruction, with the arguments of the provider instr.
//
// A compiler that loads, adds and stores again, or goes through a pointer,
// hides its counting from it.
type Counter struct{ probes map[instPlace]*probe.Probe }

func newCounter() *Counter { return &Counter{probes: map[instPlace]*probe.Probe{}} }

// Name implements Provider.
func (*Counter) Name() string { return "counter" }

// Probes implements Provider. The variable must be named in full.
func (p *Counter) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if d.Provider != "counter" || !exact(d.Func) {
		return nil, nil
	}
	if !haveKprobes() {
		return nil, errNoKprobes
	}
	lo, hi, err := variable(d.Func)
	if err != nil {
		return nil, err
	}
	k, err := symbol.KernelSymbols()
	if err != nil {
		return nil, err
	}
	var out []*probe.Probe
	last := uint64(0)
	probed := kprobed()
	for s := range k.All() {
		n := k.Size(s.Addr)
		if !s.Func() || s.Addr == last || n == 0 || n > maxKernelFunc || !probe.Glob(d.Module, s.Module) ||
			strings.HasPrefix(s.Name, "__pfx_") || forbidden().contain(s.Addr) {
			continue
		}
		last = s.Addr
		f := kernelFunc{s.Module, s.Name, s.Addr, int(n)}
		code, err := probed.text(f)
		if err != nil {
			if _, ok := err.(*kernel.FeatureError); ok {
				return nil, err
			}
			continue
		}
		for _, a := range countSites(code, f.addr, lo, hi) {
			if pr := p.get(f, d.Func, a.Off); probe.Glob(d.Name, pr.Desc.Name) {
				out = append(out, pr)
			}
		}
	}
	return out, nil
}

func (p *Counter) get(f kernelFunc, variable string, off int) *probe.Probe {
	at := instPlace{f.addr + uint64(off), f.module, variable, off}
	pr := p.probes[at]
	if pr == nil {
		pr = &probe.Probe{
			ID:   baseCounter + len(p.probes),
			Desc: probe.Desc{Provider: "counter", Module: f.module, Func: variable, Name: fmt.Sprintf("%s-0x%x", f.name, off)},
			Attr: kinstAttr,
			Site: at,
		}
		p.probes[at] = pr
	}
	return pr
}

// variable gives the addresses [lo, hi) of SYMBOL, SYMBOL.MEMBER… or
// SYMBOL-0xOFFSET. Those of per-CPU variables are as kallsyms has them, which
// is how instructions with a GS prefix name them.
func variable(name string) (lo, hi uint64, err error) {
	base, rest := name, ""
	if i := strings.IndexAny(name, ".-"); i > 0 {
		base, rest = name[:i], name[i:]
	}
	k, err := symbol.KernelSymbols()
	if err != nil {
		return 0, 0, err
	}
	syms := k.Named("", base)
	if len(syms) != 1 || syms[0].Func() {
		return 0, 0, fmt.Errorf("counter %s: the kernel has %d variables of that name, expected one", base, len(syms))
	}
	lo = syms[0].Addr
	hi = lo + max(k.Size(lo), 1)
	switch {
	case rest == "":
		return lo, hi, nil
	case rest[0] == '-':
		off, err := strconv.ParseUint(rest[1:], 0, 32)
		if err != nil || lo+off >= hi {
			return 0, 0, fmt.Errorf("counter %s: %s is no offset in the variable's %d bytes", base, rest[1:], hi-lo)
		}
		return lo + off, lo + off + 1, nil
	}
	set, err := KernelBTF()
	if err != nil {
		return 0, 0, err
	}
	spec, id, ok := set.Var(base)
	if !ok {
		return 0, 0, fmt.Errorf("counter %s: BTF has no type for it: give an offset, such as %s-0x8", name, base)
	}
	m, err := spec.MemberOf(spec.Ref(id), rest[1:])
	if err != nil {
		return 0, 0, fmt.Errorf("counter %s: %w", name, err)
	}
	return lo + uint64(m.Off()), lo + uint64(m.Off()+max(m.Size, 1)), nil
}

// countSites finds the instructions of code that count in the memory [lo, hi).
func countSites(code []byte, addr, lo, hi uint64) (out []insn.At) {
	insn.Walk(code, addr, func(a insn.At) bool {
		if !a.HasModRM || a.ModRM>>6 != 0 || !changes(a.Insn) {
			return true
		}
		m, ok := a.Mem()
		if !ok || m.Base != insn.NoReg || m.Index != insn.NoReg {
			return true
		}
		to := uint64(m.Disp)
		if m.RIP {
			to += a.Next()
		}
		if lo <= to && to < hi {
			out = append(out, a)
		}
		return true
	})
	return out
}

// changes reports whether an instruction adds to or subtracts from its memory
// operand (Intel SDM, volume 2, opcodes of INC, DEC, ADD, SUB and XADD).
func changes(in insn.Insn) bool {
	if in.Vex != insn.NoVex {
		return false
	}
	switch in.Class() {
	case insn.Inc, insn.Dec, insn.Xadd:
		return true
	case insn.Add, insn.Sub:
		// The forms with a register as destination have bit 1 set.
		return in.Op >= 0x80 || in.Op&2 == 0
	}
	return false
}

// Groups implements Provider.
func (p *Counter) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	return instructionGroup("counter", enabled)
}
