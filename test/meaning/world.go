package meaning

import (
	"fmt"

	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/types"
)

// World is a synthetic machine: what a firing finds there is what a test put
// there. It implements dif.World.
type World struct {
	Args   []int64
	Num    map[dif.BuiltinID]int64
	Str    map[dif.BuiltinID]string
	Uregs  map[int64]int64
	Regs   map[int64]int64
	User   Memory
	Kernel Memory
	KSyms  map[string]uint64
	Stacks [2][]uint64 // by dif.Space
	// Subrs answers the subroutines that ask the kernel something.
	Subrs map[dif.Subr]Answer
	// Acts are the actions on processes and the system, as written in D.
	Acts []string
}

// Answer is the result of a subroutine: a number or a string.
type Answer struct {
	Num int64
	Str string
}

// Memory is pieces of memory by address.
type Memory map[uint64][]byte

// at is n bytes at addr, or nil.
func (m Memory) at(addr uint64, n int) []byte {
	for base, b := range m {
		if addr >= base && addr+uint64(n) <= base+uint64(len(b)) {
			return b[addr-base:][:n]
		}
	}
	return nil
}

// Builtin implements dif.World.
func (w *World) Builtin(id dif.BuiltinID, index int64) (int64, dif.FaultKind) {
	table := map[int64]int64(nil)
	switch id {
	case dif.BArg, dif.BArgs:
		if index >= 0 && index < int64(len(w.Args)) {
			return w.Args[index], 0
		}
		return 0, 0
	case dif.BUregs:
		table = w.Uregs
	case dif.BRegs:
		table = w.Regs
	default:
		return w.Num[id], 0
	}
	v, ok := table[index]
	if !ok {
		return 0, dif.FltIllOp
	}
	return v, 0
}

// BuiltinString implements dif.World.
func (w *World) BuiltinString(id dif.BuiltinID) string { return w.Str[id] }

// Read implements dif.World.
func (w *World) Read(s dif.Space, addr uint64, p []byte) bool {
	m := w.Kernel
	if s == dif.SpaceUser {
		m = w.User
	}
	b := m.at(addr, len(p))
	copy(p, b)
	return b != nil
}

// WriteUser implements dif.World.
func (w *World) WriteUser(addr uint64, p []byte) bool {
	b := w.User.at(addr, len(p))
	copy(b, p)
	return b != nil
}

// KSym implements dif.World.
func (w *World) KSym(s dif.KSym) (uint64, bool) {
	a, ok := w.KSyms[s.Name]
	return a, ok
}

// Stack implements dif.World.
func (w *World) Stack(s dif.Space) []uint64 { return w.Stacks[s] }

// Subr implements dif.World.
func (w *World) Subr(s dif.Subr, args []int64) (int64, string, dif.FaultKind) {
	a, ok := w.Subrs[s]
	if !ok {
		return 0, "", dif.FltIllOp
	}
	return a.Num, a.Str, 0
}

// Act implements dif.World.
func (w *World) Act(op dif.ActOp, args []int64) dif.FaultKind {
	s := op.String() + "("
	for i, a := range args {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(a)
	}
	w.Acts = append(w.Acts, s+")")
	return 0
}

// Env knows a few probes, types and symbols, enough for every built-in and
// subroutine. It implements check.Env.
type Env struct {
	Macros map[string]string
	probes []*probe.Probe
	types  map[string]types.Type
}

// NewEnv returns an Env without macro arguments.
func NewEnv() *Env {
	e := &Env{Macros: map[string]string{
		"pid": "100", "ppid": "1", "uid": "1000", "euid": "1001", "gid": "2000", "egid": "2001",
		"sid": "50", "pgid": "60", "target": "77",
	}, types: map[string]types.Type{}}
	task := types.NewStruct("vmlinux", "task_struct", false, []types.Field{
		{Name: "pid", Type: types.TInt},
		{Name: "tgid", Type: types.TInt},
		{Name: "flags", Type: types.TUInt, Bits: 3},
		{Name: "more", Type: types.TInt, Bits: 5},
		{Name: "comm", Type: &types.Array{Elem: types.TChar, N: 16}},
	})
	e.types["struct task_struct"] = task
	e.types["struct file"] = types.NewStruct("vmlinux", "file", false, []types.Field{
		{Name: "f_flags", Type: types.TUInt}, {Name: "f_pos", Type: types.TLong},
	})
	e.types["struct sk_buff"] = types.NewStruct("vmlinux", "sk_buff", false, []types.Field{
		{Name: "len", Type: types.TUInt}, {Name: "data_len", Type: types.TUInt}, {Name: "data", Type: types.NewPointer(types.TUChar)},
	})
	for _, tag := range []string{"path", "mutex"} {
		e.types["struct "+tag] = types.NewStruct("vmlinux", tag, false, []types.Field{{Name: "n", Type: types.TLong}})
	}
	e.types["struct in6_addr"] = types.NewStruct("vmlinux", "in6_addr", false, []types.Field{{Name: "s6_addr", Type: &types.Array{Elem: types.TUChar, N: 16}}})
	lock := types.NewStruct("vmlinux", "rwlock", false, []types.Field{{Name: "raw", Type: types.TInt}})
	e.types["rwlock_t"] = &types.Typedef{Name: "rwlock_t", Type: lock, Scope: "vmlinux"}
	user := &types.Pointer{Elem: types.TChar, User: true}
	size := types.TSize
	for _, p := range []*probe.Probe{
		{Desc: probe.Desc{Provider: "dtrace", Name: "BEGIN"}},
		{Desc: probe.Desc{Provider: "dtrace", Name: "END"}},
		{Desc: probe.Desc{Provider: "dtrace", Name: "ERROR"}},
		{Desc: probe.Desc{Provider: "syscall", Module: "vmlinux", Func: "read", Name: "entry"},
			Args: []probe.Arg{{Name: "fd", Native: types.TInt}, {Name: "buf", Native: user, From: 1}, {Name: "count", Native: size, From: 2}}},
		{Desc: probe.Desc{Provider: "syscall", Module: "vmlinux", Func: "read", Name: "return"}, Args: []probe.Arg{{Native: types.TLong}}},
		{Desc: probe.Desc{Provider: "syscall", Module: "vmlinux", Func: "write", Name: "entry"},
			Args: []probe.Arg{{Name: "fd", Native: types.TInt}, {Name: "buf", Native: user, From: 1}, {Name: "count", Native: size, From: 2}}},
		{Desc: probe.Desc{Provider: "syscall", Module: "vmlinux", Func: "write", Name: "return"}, Args: []probe.Arg{{Native: types.TLong}}},
		{Desc: probe.Desc{Provider: "profile", Name: "tick-1s"}},
		{Desc: probe.Desc{Provider: "fbt", Module: "vmlinux", Func: "vfs_read", Name: "entry"},
			Args: []probe.Arg{{Name: "file", Native: types.NewPointer(e.types["struct file"])}, {Name: "task", Native: types.NewPointer(task), From: 1}}},
		{Desc: probe.Desc{Provider: "fbt", Module: "vmlinux", Func: "vfs_read", Name: "return"}},
	} {
		p.ID = len(e.probes) + 1
		e.probes = append(e.probes, p)
	}
	return e
}

// Probes implements check.Env.
func (e *Env) Probes(d probe.Desc) (out []*probe.Probe, err error) {
	for _, p := range e.probes {
		if d.Match(p.Desc) {
			out = append(out, p)
		}
	}
	return out, nil
}

// AddProbe adds a probe without arguments.
func (e *Env) AddProbe(d probe.Desc) *probe.Probe {
	p := &probe.Probe{ID: len(e.probes) + 1, Desc: d}
	e.probes = append(e.probes, p)
	return p
}

// ProbeByID implements check.Env.
func (e *Env) ProbeByID(id int) *probe.Probe {
	if id < 1 || id > len(e.probes) {
		return nil
	}
	return e.probes[id-1]
}

// LookupType implements check.Env.
func (e *Env) LookupType(module, kind, name string) types.Type {
	if kind != "" {
		name = kind + " " + name
	}
	if t, ok := e.types[name]; ok {
		return t
	}
	return nil
}

// LookupEnumerator implements check.Env.
func (e *Env) LookupEnumerator(name string) (int64, types.Type, bool) { return 0, nil, false }

// LookupSymbol implements check.Env.
func (e *Env) LookupSymbol(module, name string) (types.Type, bool) {
	switch name {
	case "jiffies":
		return types.TULong, true
	case "init_task":
		return e.types["struct task_struct"], true
	}
	return nil, false
}

// Macro implements check.Env.
func (e *Env) Macro(name string) (string, bool) {
	v, ok := e.Macros[name]
	return v, ok
}
