package godtrace

import (
	"fmt"
	"slices"
	"sync"

	"godtrace/internal/probe"
	"godtrace/internal/provider"
)

// ProbeDesc is a probe's name or, in a description, a pattern for each part of
// it: *, ?, [...]; "" matches everything.
type ProbeDesc struct{ Provider, Module, Func, Name string }

func (d ProbeDesc) String() string { return probe.Desc(d).String() }

// Match reports whether the description d matches the name.
func (d ProbeDesc) Match(name ProbeDesc) bool { return probe.Desc(d).Match(probe.Desc(name)) }

// A Provider makes probes under names of its own out of those of the providers
// that godtrace has: stable names for places in a program or in the kernel
// that move from version to version.
type Provider interface {
	// Name is the provider's name, or what its providers' names begin with.
	Name() string
	// Probes returns at least those of its probes that d matches. It is called
	// often: it must be quick where d matches nothing.
	Probes(d ProbeDesc) ([]Naming, error)
}

// A Naming is a probe of a Provider: a full name, and the one probe of another
// provider that it stands for, such as uprobe:/usr/lib/libx.so:f:entry,
// fbt::vfs_read:return or rawtp:sched::sched_switch. Arguments are that probe's.
type Naming struct{ Name, Of ProbeDesc }

var registered struct {
	sync.Mutex
	all []Provider
}

// Register adds a provider to all sessions opened from now on. As it is meant
// for initialization, it panics where the name is taken or empty.
func Register(p Provider) {
	registered.Lock()
	defer registered.Unlock()
	name := p.Name()
	taken := slices.ContainsFunc(registered.all, func(q Provider) bool { return q.Name() == name }) ||
		slices.ContainsFunc(provider.All(), func(q provider.Provider) bool { return q.Name() == name })
	if taken || name == "" {
		panic(fmt.Sprintf("godtrace.Register: provider %q: no name or one that is taken", name))
	}
	registered.all = append(registered.all, p)
}

// providers are a session's providers, in listing order.
func providers() []provider.Provider {
	registered.Lock()
	defer registered.Unlock()
	built := provider.All()
	out := slices.Clone(built)
	for i, p := range registered.all {
		list := func(d probe.Desc) ([]provider.Naming, error) {
			ns, err := p.Probes(ProbeDesc(d))
			out := make([]provider.Naming, len(ns))
			for i, n := range ns {
				out[i] = provider.Naming{Desc: probe.Desc(n.Name), Of: probe.Desc(n.Of)}
			}
			return out, err
		}
		out = append(out, provider.NewNamed(p.Name(), i, list, built))
	}
	return out
}
