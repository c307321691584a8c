package provider

import (
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"godtrace/internal/probe"
	"godtrace/internal/syscalls"
	"godtrace/internal/types"
)

// Syscall is the provider of system call entries and returns: module vmlinux
// for 64-bit calls, compat for 32-bit ones.
//
// All its probes share two raw tracepoints, sys_enter and sys_exit, which
// dispatch on the call's number. The perf tracepoints of single calls would
// cost more per firing and 77 ms each to detach.
type Syscall struct {
	probes []*probe.Probe // made on first use
}

// syscallSite is a probe's Site.
type syscallSite struct {
	abi syscalls.ABI
	nr  int
	ret bool
}

// compatKey marks the dispatch key of a 32-bit call (see probe.KindSysEnter).
const compatKey = 1 << 32

var syscallAttr = &probe.Attributes{
	Provider: probe.Attr{Name: "Evolving", Data: "Evolving", Class: "Common"},
	Module:   probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Func:     probe.Attr{Name: "Unstable", Data: "Unstable", Class: "ISA"},
	Name:     probe.Attr{Name: "Evolving", Data: "Evolving", Class: "Common"},
	Args:     probe.Attr{Name: "Unstable", Data: "Unstable", Class: "ISA"},
}

func newSyscall() *Syscall { return new(Syscall) }

// Name implements Provider.
func (*Syscall) Name() string { return "syscall" }

// make fills the list: 64-bit calls first, by number, entry before return.
func (p *Syscall) make() {
	id := baseSyscall
	all := make([]probe.Probe, 0, 4*syscalls.Max)
	for _, abi := range []syscalls.ABI{syscalls.AMD64, syscalls.I386} {
		module := "vmlinux"
		if abi == syscalls.I386 {
			module = "compat"
		}
		for nr := 0; nr < syscalls.Max; nr++ {
			name := syscalls.Name(abi, nr)
			if name == "" {
				continue
			}
			for _, side := range []string{"entry", "return"} {
				all = append(all, probe.Probe{
					ID:   id,
					Desc: probe.Desc{Provider: "syscall", Module: module, Func: name, Name: side},
					Attr: syscallAttr,
					Site: syscallSite{abi, nr, side == "return"},
				})
				all[len(all)-1].ArgsFn = syscallArgs(abi, name, side)
				id++
			}
		}
	}
	p.probes = make([]*probe.Probe, len(all))
	for i := range all {
		p.probes[i] = &all[i]
	}
}

// syscallArgs types the arguments of a call as the kernel declares them, and
// its result. Pointers point into the caller's memory. The 32-bit calls are not
// declared anywhere a program could read; they have arg0… only.
func syscallArgs(abi syscalls.ABI, name, side string) func() []probe.Arg {
	if abi != syscalls.AMD64 {
		return nil
	}
	if side == "return" {
		return func() []probe.Arg { return []probe.Arg{{Name: "ret", Native: types.TLong}} }
	}
	return func() []probe.Arg {
		var out []probe.Arg
		for i, a := range syscalls.Args(name) {
			t := cType(a.Type)
			if t == nil {
				t = types.TLong
			}
			if p, ok := t.(*types.Pointer); ok {
				user := *p
				user.User = true
				t = &user
			}
			out = append(out, probe.Arg{Name: a.Name, Native: t, From: i})
		}
		return out
	}
}

// Probes implements Provider. The module compat must be named or matched by a
// pattern: a description without a module means the system's own calls.
func (p *Syscall) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if !probe.Glob(d.Provider, "syscall") {
		return nil, nil
	}
	if p.probes == nil {
		p.make()
	}
	if d.Module == "" {
		d.Module = "vmlinux"
	}
	var out []*probe.Probe
	for _, pr := range p.probes {
		if d.Match(pr.Desc) {
			out = append(out, pr)
		}
	}
	return out, nil
}

// Groups implements Provider.
func (*Syscall) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	enter := &probe.Group{Kind: probe.KindSysEnter, Name: "sys_enter"}
	exit := &probe.Group{Kind: probe.KindSysExit, Name: "sys_exit"}
	for _, pr := range enabled {
		site := pr.Site.(syscallSite)
		g := enter
		if site.ret {
			g = exit
		}
		key := uint64(site.nr)
		if site.abi == syscalls.I386 {
			key |= compatKey
		}
		g.Probes = append(g.Probes, pr)
		g.Keys = append(g.Keys, key)
	}
	var out []*Attachment
	for _, g := range []*probe.Group{enter, exit} {
		if len(g.Probes) == 0 {
			continue
		}
		out = append(out, &Attachment{Group: g, Attach: func(prog *ebpf.Program) (io.Closer, error) {
			l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: g.Name, Program: prog})
			if err != nil {
				return nil, fmt.Errorf("raw tracepoint %s: %w", g.Name, err)
			}
			return l, nil
		}})
	}
	return out, nil
}
