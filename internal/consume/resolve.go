package consume

import (
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"godtrace/internal/dif"
	"godtrace/internal/format"
	"godtrace/internal/symbol"
)

// Resolver names addresses of the running system. It implements format.Resolver.
type Resolver struct {
	Procs *symbol.Processes
	// NoResolve leaves user addresses as places in files.
	NoResolve bool

	modules map[string]uint64
}

// NewResolver returns a resolver that has read nothing yet.
func NewResolver() *Resolver { return &Resolver{Procs: symbol.NewProcesses()} }

func place(l symbol.Loc) format.Place {
	return format.Place{Module: l.Module, Name: l.Name, Offset: l.Off}
}

// KernelSym names a kernel address.
func (r *Resolver) KernelSym(addr uint64) format.Place { return place(symbol.KernelLoc(addr)) }

// UserSym names an address of a process, also one that has gone if its
// mappings were noted while it lived.
func (r *Resolver) UserSym(pid int32, addr uint64) format.Place {
	if r.NoResolve {
		module, off := r.Procs.InFile(int(pid), addr)
		return format.Place{Module: module, Offset: off}
	}
	return place(r.Procs.Lookup(int(pid), addr))
}

// code is a user stack up to the first frame that cannot be code: a walk along
// frame pointers in a program built without them reads what happens to lie on
// the stack, and no frame is better than a wrong one. The innermost frame is
// where the process was.
func (r *Resolver) code(pid int32, pcs []uint64) []uint64 {
	for i := 1; i < len(pcs); i++ {
		if pcs[i] == format.StackCut {
			return pcs[:i+1]
		}
		if r.Procs.NotCode(int(pid), pcs[i]) {
			pcs[i] = format.StackCut
			return pcs[:i+1]
		}
	}
	return pcs
}

// Host is the name of an internet address.
func (*Resolver) Host(addr string) string {
	names, err := net.LookupAddr(addr)
	if err != nil || len(names) == 0 {
		return ""
	}
	return names[0]
}

// Service is the name of a port, from /etc/services.
func (*Resolver) Service(port uint16) string { return serviceName(port) }

// symbolStart is the address all addresses of one function (or, for mod() and
// umod(), one module) are counted under.
func (r *Resolver) symbolStart(f *dif.Field, pid int32, addr uint64) uint64 {
	if f.Sym == dif.ActUAddr || f.Sym == dif.ActUSym && r.NoResolve {
		return addr
	}
	var l symbol.Loc
	if f.Kind == dif.FUSym {
		l = r.Procs.Lookup(int(pid), addr)
	} else {
		l = symbol.KernelLoc(addr)
	}
	switch {
	case (f.Sym == dif.ActMod || f.Sym == dif.ActUMod) && l.Module != "":
		return r.moduleAddr(l.Module, addr)
	case l.Name != "":
		return addr - l.Off
	}
	return addr
}

// moduleAddr is one address for all of a module: the first that was seen.
func (r *Resolver) moduleAddr(module string, addr uint64) uint64 {
	if a, ok := r.modules[module]; ok {
		return a
	}
	if r.modules == nil {
		r.modules = map[string]uint64{}
	}
	r.modules[module] = addr
	return addr
}

// services maps ports to names, read once.
var services = sync.OnceValue(func() map[uint16]string {
	m := map[uint16]string{}
	b, err := os.ReadFile("/etc/services")
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0][0] == '#' {
			continue
		}
		port, _, _ := strings.Cut(f[1], "/")
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			if _, ok := m[uint16(n)]; !ok {
				m[uint16(n)] = f[0]
			}
		}
	}
	return m
})

func serviceName(port uint16) string { return services()[port] }
