package provider

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"godtrace/internal/insn"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/symbol"
)

// Instr is the provider of kernel instructions by kind:
// instr:MODULE:FUNC-CLASS:0xADDRESS, so that instr::*-lock: is every locked
// instruction. An instruction with a LOCK or REP prefix has a probe for that
// and one for what it is. Arguments: arg0 the address; arg1 whether the branch
// there will be taken; arg2 where to, 0 if that is not in the instruction.
//
// There are a million of them, so they are listed only for those who ask for
// the provider by name.
type Instr struct {
	// Allow lifts the limit on how many are enabled at once.
	Allow bool

	known []*probe.Probe // those made so far, by ID
}

// instrSite is a probe's Site: the function it is in. Its address is its name.
type instrSite struct{ kernelFunc }

// maxInstr is how many instructions can be probed without Allow: every one is a
// trap of a microsecond.
const maxInstr = 1000

func newInstr() *Instr { return new(Instr) }

// Name implements Provider.
func (*Instr) Name() string { return "instr" }

// unlisted are classes of which every function is full and that tell nothing.
var unlisted = []insn.Class{insn.Other, insn.Push, insn.Pop}

// Probes implements Provider.
func (p *Instr) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if !asksFor(d.Provider, "instr") || exact(d.Name) && !strings.HasPrefix(d.Name, "0x") {
		return nil, nil
	}
	named := d.Provider == "instr"
	if !haveKprobes() {
		if named {
			return nil, errNoKprobes
		}
		return nil, nil
	}
	fs, err := p.functions(d)
	if err != nil {
		return nil, fmt.Errorf("instr probes: %w", err)
	}
	return p.list(d, fs, kprobed().text)
}

// functions are those that can have probes of a description, by address.
func (p *Instr) functions(d probe.Desc) ([]kernelFunc, error) {
	// A function part such as vfs_read-call* names the function in full: the
	// names of functions have no hyphens.
	fn, _, ok := strings.Cut(d.Func, "-")
	if ok && exact(fn) && (d.Module == "" || exact(d.Module)) {
		return kernelFuncs(d.Module, fn)
	}
	k, err := symbol.KernelSymbols()
	if err != nil {
		return nil, err
	}
	var addr uint64
	if exact(d.Name) {
		if addr, err = strconv.ParseUint(d.Name, 0, 64); err != nil {
			return nil, nil
		}
	}
	pat := d.Func
	if ok {
		pat = fn
	} else if strings.ContainsAny(pat, "*") {
		pat = "" // the star may reach across the hyphen
	}
	// Beyond the kernel's text are functions of its start, whose memory has been
	// given to others, and data that passes for code in the symbol table.
	from, _ := k.Addr(symbol.Vmlinux, "_stext")
	to, haveEnd := k.Addr(symbol.Vmlinux, "_etext")
	var out []kernelFunc
	last := uint64(0)
	for s := range k.All() {
		if s.Module == symbol.Vmlinux && haveEnd && (s.Addr < from || s.Addr >= to) {
			continue
		}
		// Of several names for one place the first is the kernel's own choice;
		// __pfx_ names what is before a function.
		if strings.HasPrefix(s.Name, "__pfx_") || !s.Func() || s.Addr == last || !probe.Glob(d.Module, s.Module) || !probe.Glob(pat, s.Name) {
			continue
		}
		n := k.Size(s.Addr)
		if n == 0 || n > maxKernelFunc || addr != 0 && addr-s.Addr >= n {
			continue
		}
		last = s.Addr
		out = append(out, kernelFunc{s.Module, s.Name, s.Addr, int(n)})
	}
	return out, nil
}

// list walks the functions' text. Functions that do not decode to their end
// count up to there; those the kernel allows no probes in do not count.
func (p *Instr) list(d probe.Desc, fs []kernelFunc, text func(kernelFunc) ([]byte, error)) ([]*probe.Probe, error) {
	var out []*probe.Probe
	var names [256]string // FUNC-CLASS of the function at hand
	var slab []probe.Probe
	var texts strings.Builder // names, one behind the other
	var digits []byte
	var body []insn.At
	made := 0
	one := exact(d.Name)
	for _, f := range fs {
		if forbidden().contain(f.addr) {
			continue
		}
		code, err := text(f)
		var missing *kernel.FeatureError
		if errors.As(err, &missing) {
			return nil, err
		}
		if err != nil {
			continue // the text of modules and of init may be gone
		}
		clear(names[:])
		site := &instrSite{f}
		body = instructions(body[:0], code, f.addr)
		for _, a := range body {
			for i, c := range [2]insn.Class{a.Class(), prefixClass(a.Insn)} {
				if slices.Contains(unlisted, c) {
					continue
				}
				if names[c] == "" {
					names[c] = f.name + "-" + c.String()
					if !probe.Glob(d.Func, names[c]) {
						names[c] = "-"
					}
				}
				if names[c] == "-" {
					continue
				}
				digits = strconv.AppendUint(append(digits[:0], "0x"...), a.Addr, 16)
				if one && d.Name != string(digits) || !one && !probe.Glob(d.Name, string(digits)) {
					continue
				}
				id := baseInstr + int(2*(a.Addr&(1<<32-1))) + i
				pr := p.find(id)
				if pr == nil {
					made++
					if len(slab) == 0 {
						// As many as there were, but not a page for one.
						slab = make([]probe.Probe, min(max(made/4, 16), 4096))
					}
					if texts.Cap()-texts.Len() < len(digits) {
						texts = strings.Builder{}
						texts.Grow(len(slab) * len(digits))
					}
					n := texts.Len()
					texts.Write(digits)
					pr, slab = &slab[0], slab[1:]
					*pr = probe.Probe{
						ID:   id,
						Desc: probe.Desc{Provider: "instr", Module: f.module, Func: names[c], Name: texts.String()[n:]},
						Attr: kinstAttr,
						Site: site,
					}
				}
				out = append(out, pr)
			}
		}
	}
	byID := func(a, b *probe.Probe) int { return cmp.Compare(a.ID, b.ID) }
	if !slices.IsSortedFunc(out, byID) {
		slices.SortFunc(out, byID)
	}
	p.know(out, made)
	return out, nil
}

// find is the probe with that ID, if it was made before.
func (p *Instr) find(id int) *probe.Probe {
	i, ok := slices.BinarySearchFunc(p.known, id, func(pr *probe.Probe, id int) int { return cmp.Compare(pr.ID, id) })
	if !ok {
		return nil
	}
	return p.known[i]
}

// know remembers what was listed, of which so many are new. Lists are not
// changed: the first is the memory as well.
func (p *Instr) know(list []*probe.Probe, made int) {
	switch {
	case made == 0:
		return
	case made == len(list) && len(p.known) == 0:
		p.known = slices.Clip(list)
		return
	}
	all := make([]*probe.Probe, 0, len(p.known)+made)
	old := p.known
	for _, pr := range list {
		for len(old) > 0 && old[0].ID < pr.ID {
			all, old = append(all, old[0]), old[1:]
		}
		if len(old) > 0 && old[0] == pr {
			old = old[1:]
		}
		all = append(all, pr)
	}
	p.known = append(all, old...)
}

// instructions appends those of a function to body, but for what is between
// functions and behind returns: traps and no-operations that nothing reaches.
func instructions(body []insn.At, code []byte, addr uint64) []insn.At {
	end := 0
	insn.Walk(code, addr, func(a insn.At) bool {
		if a.Map == insn.Map1 && a.Op == 0xcc {
			return true
		}
		body = append(body, a)
		if a.Class() != insn.Nop {
			end = len(body)
		}
		return true
	})
	return body[:end]
}

// prefixClass is the class an instruction has by its prefix, or Other.
func prefixClass(in insn.Insn) insn.Class {
	switch {
	case in.Is(insn.LockClass):
		return insn.LockClass
	case in.Is(insn.RepClass):
		return insn.RepClass
	}
	return insn.Other
}

// never is a condition that no RFLAGS meet: bit 5 is always clear.
const never = probe.Cond(1 << 5)

// condition is that under which the instruction branches.
func condition(in insn.Insn) probe.Cond {
	const je = 4
	var narrow probe.Cond
	if in.Prefix&insn.AdSize != 0 {
		narrow = probe.CondNarrow
	}
	switch cc, ok := in.Cond(); {
	case ok:
		return probe.CondOf(cc)
	case in.Class() == insn.JCXZ:
		return probe.CondEmpty | narrow
	case in.Class() == insn.Loop:
		switch in.Op {
		case 0xe0:
			return probe.CondCount | narrow | probe.CondOf(je+1)
		case 0xe1:
			return probe.CondCount | narrow | probe.CondOf(je)
		}
		return probe.CondCount | narrow
	}
	if _, ok := in.Taken(0, 0); ok {
		return 0
	}
	return never
}

// instrCookie describes an instruction to the program (see probe.KindInstr).
func instrCookie(key int, a insn.At) uint64 {
	c := condition(a.Insn)
	cookie := uint64(key) | uint64(c)<<probe.CondShift
	if t, ok := a.Target(); ok {
		cookie |= uint64(uint32(t-a.Addr)) << 32
	}
	return cookie
}

// Groups implements Provider.
func (p *Instr) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	if len(enabled) == 0 {
		return nil, nil
	}
	if len(enabled) > maxInstr && !p.Allow {
		return nil, fmt.Errorf("%d instructions to be probed, more than %d: set the option instr (-x instr) to allow it", len(enabled), maxInstr)
	}
	if len(enabled) > probe.KeyMask {
		return nil, fmt.Errorf("%d instructions to be probed: the most is %d", len(enabled), probe.KeyMask)
	}
	return instructionGroup("instr", enabled)
}

// instructionGroup attaches probes on instructions, one program for all.
func instructionGroup(name string, enabled []*probe.Probe) ([]*Attachment, error) {
	if len(enabled) == 0 {
		return nil, nil
	}
	a := &Attachment{Group: &probe.Group{Kind: probe.KindInstr, Name: name, Probes: enabled}}
	var ts []target
	probed := kprobed()
	for i, pr := range enabled {
		addr, err := instructionAddr(pr)
		if err != nil {
			return nil, err
		}
		code, err := KernelText(addr, insn.MaxLen)
		if err != nil {
			return nil, err
		}
		probed.restore(code, addr)
		in, err := insn.Decode(code)
		if err != nil {
			return nil, fmt.Errorf("%s: the instruction is not there any more: %w", pr.Desc, err)
		}
		a.Group.Keys = append(a.Group.Keys, uint64(i))
		ts = append(ts, target{pr, pr.Desc.Func, addr, instrCookie(i, insn.At{Insn: in, Addr: addr})})
	}
	a.Attach = func(prog *ebpf.Program) (io.Closer, error) { return a.kprobes(prog, ts, false) }
	return []*Attachment{a}, nil
}

// instructionAddr is where a probe of the providers instr, kinst and counter is.
func instructionAddr(pr *probe.Probe) (uint64, error) {
	if at, ok := pr.Site.(instPlace); ok {
		return at.addr, nil
	}
	return strconv.ParseUint(pr.Desc.Name, 0, 64)
}

// Opcode is the beginning of the instruction that a probe in the kernel is on:
// for the entry of a function its first one. It is nil for other probes.
func Opcode(pr *probe.Probe) []byte {
	var addr uint64
	switch site := pr.Site.(type) {
	case fbtSite:
		if site.ret {
			return nil
		}
		fs, err := kernelFuncs(site.fn.module, site.fn.name)
		if err != nil || len(fs) == 0 {
			return nil
		}
		addr = fs[0].addr
	case instPlace, *instrSite:
		var err error
		if addr, err = instructionAddr(pr); err != nil {
			return nil
		}
	default:
		return nil
	}
	code, err := KernelText(addr, insn.MaxLen)
	if err != nil {
		return nil
	}
	in, err := insn.Decode(code)
	if err != nil {
		return nil
	}
	return code[:in.Len]
}
