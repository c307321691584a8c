package check

import (
	"testing"

	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// A small kernel, declared in D itself.
const fakeKernel = `
typedef unsigned int uid_t;
typedef unsigned int gid_t;
typedef unsigned int dev_t;
enum state { TASK_RUNNING, TASK_INTERRUPTIBLE, TASK_DEAD = 128 };
struct list_head { struct list_head *next, *prev; };
struct cred { unsigned int uid, gid; };
struct task_struct {
	volatile long state;
	void *stack;
	unsigned int flags;
	enum state st;
	int prio;
	struct list_head tasks;
	int pid, tgid;
	struct task_struct *real_parent;
	struct task_struct *parent;
	const struct cred *cred;
	char comm[16];
	unsigned in_execve:1, in_iowait:1;
	unsigned sched_class:7;
	int (*fn)(int);
	union { int anon_a; long anon_b; };
	struct nsproxy *nsproxy;
};
struct file { struct path *f_path; unsigned f_flags; long f_pos; };
struct path { void *mnt; void *dentry; };
struct mutex { long owner; };
typedef struct { int raw; } rwlock_t;
struct in6_addr { unsigned char s6_addr[16]; };
typedef unsigned int ipaddr_t;
struct sk_buff { unsigned len, data_len; unsigned char *data; };
typedef struct { double d; } floaty_t;
int jiffies;
`

type fakeEnv struct {
	kernel *Checker
	probes []*probe.Probe
	macros map[string]string
}

func newFakeEnv(t testing.TB) *fakeEnv {
	t.Helper()
	e := &fakeEnv{macros: map[string]string{"pid": "4711", "ppid": "1", "uid": "0", "gid": "0", "euid": "0", "egid": "0", "sid": "3", "pgid": "2"}}
	f, err := syntax.Parse("", []byte(fakeKernel), syntax.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.kernel = New(noKernel{}, Options{})
	if _, err := e.kernel.File(f); err != nil {
		t.Fatal(err)
	}
	task := types.NewPointer(e.typ("struct task_struct"))
	psinfo := types.NewPointer(&types.Typedef{Name: "psinfo_t", Type: &types.Struct{Tag: "psinfo", Scope: "D", Incomplete: true}})
	fake := &types.Struct{Tag: "unknowable", Scope: "D", Incomplete: true}
	for _, p := range []*probe.Probe{
		{Desc: probe.Desc{Provider: "dtrace", Name: "BEGIN"}},
		{Desc: probe.Desc{Provider: "dtrace", Name: "END"}},
		{Desc: probe.Desc{Provider: "dtrace", Name: "ERROR"}},
		{Desc: probe.Desc{Provider: "syscall", Module: "vmlinux", Func: "read", Name: "entry"},
			Args: []probe.Arg{{Name: "fd", Native: types.TInt}, {Name: "buf", Native: &types.Pointer{Elem: types.TChar, User: true}, From: 1}, {Name: "count", Native: types.TSize, From: 2}}},
		{Desc: probe.Desc{Provider: "syscall", Module: "vmlinux", Func: "read", Name: "return"}, Args: []probe.Arg{{Native: types.TInt}}},
		{Desc: probe.Desc{Provider: "syscall", Module: "vmlinux", Func: "getpid", Name: "entry"}},
		{Desc: probe.Desc{Provider: "profile", Name: "tick-1s"}},
		{Desc: probe.Desc{Provider: "profile", Name: "profile-97"}},
		{Desc: probe.Desc{Provider: "proc", Module: "vmlinux", Func: "do_execveat_common", Name: "exec"}, Args: []probe.Arg{{Native: types.TCharPtr, Xlate: types.TString}}},
		{Desc: probe.Desc{Provider: "proc", Module: "vmlinux", Func: "copy_process", Name: "create"}, Args: []probe.Arg{{Native: task, Xlate: psinfo}}},
		{Desc: probe.Desc{Provider: "odd", Name: "untyped"}, Args: []probe.Arg{{}}},
		{Desc: probe.Desc{Provider: "odd", Name: "noxlate"}, Args: []probe.Arg{{Native: types.TInt, Xlate: types.NewPointer(fake)}}},
		{Desc: probe.Desc{Provider: "fbt", Module: "vmlinux", Func: "vfs_read", Name: "entry"},
			Args: []probe.Arg{{Native: types.NewPointer(e.typ("struct file"))}, {Native: types.TCharPtr, From: 1}}},
		{Desc: probe.Desc{Provider: "fbt", Module: "vmlinux", Func: "vfs_read", Name: "return"}, Args: []probe.Arg{{Native: types.TInt}, {Native: types.TLong, From: 1}}},
	} {
		p.ID = len(e.probes) + 1
		e.probes = append(e.probes, p)
	}
	return e
}

func (e *fakeEnv) typ(s string) types.Type {
	n, err := syntax.ParseType(s, syntax.Options{})
	if err != nil {
		panic(err)
	}
	return e.kernel.typeOf(n)
}

// lacking is the error of a provider that the kernel lacks something for.
type lacking struct{}

func (lacking) Error() string                                    { return "this kernel lacks it" }
func (lacking) FeatureMissing() (name, since, workaround string) { return }

func (e *fakeEnv) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if d.Provider == "lacking" {
		return nil, lacking{}
	}
	var out []*probe.Probe
	for _, p := range e.probes {
		if probe.Glob(d.Provider, p.Desc.Provider) && probe.Glob(d.Module, p.Desc.Module) && probe.Glob(d.Func, p.Desc.Func) && probe.Glob(d.Name, p.Desc.Name) {
			out = append(out, p)
		}
	}
	return out, nil
}

func (e *fakeEnv) ProbeByID(id int) *probe.Probe {
	if id > len(e.probes) {
		return nil
	}
	return e.probes[id-1]
}

func (e *fakeEnv) LookupType(module, kind, name string) types.Type {
	if module != "" && module != "vmlinux" {
		return nil
	}
	t, _ := e.kernel.dTypes.LookupType(typeSpace(kind), name)
	return t
}

func (e *fakeEnv) LookupEnumerator(name string) (int64, types.Type, bool) {
	t, c, ok := e.kernel.dTypes.LookupEnumerator(name)
	return c.Value, t, ok
}

func (e *fakeEnv) LookupSymbol(module, name string) (types.Type, bool) {
	if module != "" && module != "vmlinux" {
		return nil, false
	}
	switch name {
	case "jiffies":
		return &types.Qualified{Volatile: true, Type: types.TULong}, true
	case "init_task":
		return e.typ("struct task_struct"), true
	case "per_cpu_offset":
		return &types.Array{Elem: types.TULong, N: 8}, true
	case "vfs_read":
		return &types.Func{Ret: types.TLong, Params: []types.Param{{Type: types.TVoidPtr}}}, true
	case "typeless":
		return nil, true
	}
	return nil, false
}

func (e *fakeEnv) Macro(name string) (string, bool) {
	v, ok := e.macros[name]
	return v, ok
}

// noKernel knows nothing.
type noKernel struct{}

func (noKernel) Probes(probe.Desc) ([]*probe.Probe, error)                { return nil, nil }
func (noKernel) ProbeByID(int) *probe.Probe                               { return nil }
func (noKernel) LookupType(_, _, _ string) types.Type                     { return nil }
func (noKernel) LookupEnumerator(string) (v int64, t types.Type, ok bool) { return }
func (noKernel) LookupSymbol(_, _ string) (t types.Type, ok bool)         { return }
func (noKernel) Macro(string) (string, bool)                              { return "", false }

// checkText parses and checks a program with a fresh checker.
func checkText(t testing.TB, src string, mod func(*Options, *fakeEnv)) (*Checker, *Program, *syntax.Error) {
	t.Helper()
	env := newFakeEnv(t)
	opts := Options{}
	if mod != nil {
		mod(&opts, env)
	}
	c := New(env, opts)
	f, err := syntax.Parse("", []byte(src), syntax.Options{IsType: c.IsType, Macros: env.Macro})
	if err != nil {
		return c, nil, err.(*syntax.Error)
	}
	p, err := c.File(f)
	if err != nil {
		return c, nil, err.(*syntax.Error)
	}
	return c, p, nil
}
