package godtrace

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"godtrace/internal/btf"
	"godtrace/internal/probe"
	"godtrace/internal/provider"
	"godtrace/internal/symbol"
	"godtrace/internal/types"
)

// env answers the checker's questions from the running system. It implements
// check.Env.
type env struct {
	providers []provider.Provider
	owner     map[*probe.Probe]provider.Provider
	macros    map[string]string

	btf func() (*btf.Set, error)
}

func newEnv(providers []provider.Provider) *env {
	return &env{
		providers: providers,
		owner:     map[*probe.Probe]provider.Provider{},
		macros:    map[string]string{},
		btf:       provider.KernelBTF,
	}
}

// Probes asks every provider.
func (e *env) Probes(d probe.Desc) ([]*probe.Probe, error) {
	var out []*probe.Probe
	for _, p := range e.providers {
		ps, err := p.Probes(d)
		if err != nil {
			return nil, err
		}
		for _, pr := range ps {
			e.owner[pr] = p
		}
		out = append(out, ps...)
	}
	return out, nil
}

// ProbeByID lists providers until one has the probe.
func (e *env) ProbeByID(id int) *probe.Probe {
	for _, p := range e.providers {
		ps, err := p.Probes(probe.Desc{})
		if err != nil {
			continue
		}
		for _, pr := range ps {
			if pr.ID == id {
				e.owner[pr] = p
				return pr
			}
		}
	}
	return nil
}

// LookupType looks in the kernel's BTF; a system without BTF knows no kernel types.
func (e *env) LookupType(module, kind, name string) types.Type {
	set, err := e.btf()
	if err != nil {
		return nil
	}
	space := typeSpace(kind)
	if module != "" {
		spec, err := set.Module(module)
		if err != nil {
			return nil
		}
		t, _ := spec.LookupType(space, name)
		return t
	}
	t, _ := set.LookupType(space, name)
	return t
}

// typeSpace is the name space of "struct", "union", "enum" and "" (a typedef).
func typeSpace(kind string) types.Space {
	switch kind {
	case "struct":
		return types.StructTag
	case "union":
		return types.UnionTag
	case "enum":
		return types.EnumTag
	}
	return types.TypedefName
}

// LookupEnumerator looks in the kernel's BTF.
func (e *env) LookupEnumerator(name string) (int64, types.Type, bool) {
	set, err := e.btf()
	if err != nil {
		return 0, nil, false
	}
	t, c, ok := set.LookupEnumerator(name)
	return c.Value, t, ok
}

// LookupSymbol looks for a variable or function: its type in BTF, its
// existence in kallsyms.
func (e *env) LookupSymbol(module, name string) (types.Type, bool) {
	if module == "kernel" {
		module = symbol.Vmlinux
	}
	if set, err := e.btf(); err == nil {
		if t := symbolType(set, module, name); t != nil {
			return t, true
		}
	}
	var t types.Type
	if set, err := e.btf(); err == nil && (module == "" || module == symbol.Vmlinux) {
		t = kernelVarType(set, name)
	}
	k, err := symbol.KernelSymbols()
	if err != nil {
		return nil, false
	}
	// A kernel without CONFIG_KALLSYMS_ALL lists no variables, so a program
	// that names a known one is told so when it is loaded, not that the
	// variable does not exist.
	listsVars := len(k.Named(symbol.Vmlinux, "init_task")) > 0
	return t, len(k.Named(module, name)) > 0 || t != nil && !listsVars
}

func symbolType(set *btf.Set, module, name string) types.Type {
	specs := []*btf.Spec{set.VMLinux}
	if module != "" {
		spec, err := set.Module(module)
		if err != nil {
			return nil
		}
		specs = []*btf.Spec{spec}
	}
	for _, s := range specs {
		if t, err := s.VarType(name); err == nil {
			return t
		}
		if t, err := s.FuncType(name); err == nil {
			return t
		}
	}
	return nil
}

// Macro is the value of a macro variable.
func (e *env) Macro(name string) (string, bool) {
	if v, ok := e.macros[name]; ok {
		return v, true
	}
	n := -1
	switch name {
	case "pid":
		n = os.Getpid()
	case "ppid":
		n = os.Getppid()
	case "uid":
		n = os.Getuid()
	case "euid":
		n = os.Geteuid()
	case "gid":
		n = os.Getgid()
	case "egid":
		n = os.Getegid()
	case "pgid":
		n, _ = unix.Getpgid(0) // of ourselves: it cannot fail
	case "sid":
		n, _ = unix.Getsid(0)
	case "projid", "taskid":
		n = 0
	}
	if n < 0 {
		return "", false
	}
	return strconv.Itoa(n), true
}
