//go:build amd64

package agree_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"godtrace/internal/bpf"
	"godtrace/internal/compile"
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/provider"
	"godtrace/internal/testkernel"
	"godtrace/test/meaning"
)

// liveEnv has the running system's probes and no types of its kernel.
type liveEnv struct {
	*meaning.Env
	p provider.Provider
}

func (e liveEnv) Probes(d probe.Desc) ([]*probe.Probe, error) { return e.p.Probes(d) }

// process is a World whose user memory is that of this process.
type process struct{ *meaning.World }

func (p process) Read(s dif.Space, addr uint64, b []byte) bool {
	if s != dif.SpaceUser || len(b) == 0 {
		return p.World.Read(s, addr, b)
	}
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	n, err := unix.ProcessVMReadv(os.Getpid(), local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	return err == nil && n == len(b)
}

// TestSystemCalls makes system calls with chosen arguments under a program
// that prints them, and has the interpreter print the same.
func TestSystemCalls(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckLeaks(t)
	var sys provider.Provider
	for _, p := range provider.All() {
		if p.Name() == "syscall" {
			sys = p
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	src := fmt.Sprintf(`
syscall::access:entry /pid == %[1]d && tid == %[2]d/
{
	n++;
	printf("%%d %%x %%x %%x %%x %%x %%x\n", n, arg0, arg1, arg2, arg3, arg4, arg5);
	printf("%%d %%u %%d %%d\n", (int)arg1, (unsigned char)arg2, (short)arg3, arg4 < arg5);
	printf("%%s %%s %%s\n", probeprov, probefunc, probename);
	self->n = n;
}
syscall::access:entry /pid == %[1]d && tid == %[2]d/
{
	this->s = copyinstr(arg0);
	printf("[%%s] %%d [%%s]\n", this->s, strlen(this->s), copyinstr(arg0, 5));
	this->p = (char *)copyin(arg0, 4);
	printf("%%d %%d\n", this->p[0], this->p[3]);
	@[copyinstr(arg0)] = sum(arg1);
}
syscall::access:return /self->n && tid == %[2]d/
{
	printf("return %%d errno %%d of %%d\n", (int)arg1 < 0, errno, self->n);
	self->n = 0;
}
`, os.Getpid(), unix.Gettid())
	p, err := meaning.Compile(src, liveEnv{meaning.NewEnv(), sys}, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}

	var probes []*probe.Probe
	cfg := bpf.Config{Object: p.Obj, CPU: -1, BufSize: 1 << 20, NSpec: 1, AggSize: 1 << 20, DynVarSize: 1 << 20, ScratchSize: 16 << 10}
	for i, e := range p.Enabled {
		probes = append(probes, e.Probe)
		cfg.Enabled = append(cfg.Enabled, &bpf.Enabled{Index: i, Probe: e.Probe, Clauses: e.Clauses, Epid: e.Epid})
	}
	atts, err := sys.Groups(probes)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range atts {
		cfg.Groups = append(cfg.Groups, a.Group)
	}
	rt, err := bpf.Load(cfg)
	if err != nil {
		t.Fatalf("%v%s", err, logTail(err))
	}
	defer rt.Close()
	for i, a := range atts {
		l, err := a.Attach(rt.Program(i))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	rt.SetActivity(bpf.Active)

	w := world()
	w.Num[dif.BTid] = int64(unix.Gettid())
	x := meaning.Interpret(p, w, true)
	x.Machine.World = process{w}
	entry := p.Find(meaning.ParseDesc("syscall::access:entry"))
	ret := p.Find(meaning.ParseDesc("syscall::access:return"))
	out := meaning.NewOutput(p, true)
	out.OnSnapshot = func() error { return rt.SnapshotAggs(out.Consumer.AddAgg) }
	out.OnProbeString = rt.ProbeString

	// Paths that are not there, an address that is not: what the calls say is
	// known beforehand.
	paths := []string{"/nonexistent", "/nonexistent/with a space", "none", ""}
	fire := func(path uintptr, args [5]uintptr, errno int64) {
		_, _, e := unix.RawSyscall6(unix.SYS_ACCESS, path, args[0], args[1], args[2], args[3], args[4])
		if int64(e) != errno {
			t.Fatalf("access: %v, expected errno %d", e, errno)
		}
		w.Args = []int64{int64(path), int64(args[0]), int64(args[1]), int64(args[2]), int64(args[3]), int64(args[4]), 0, 0, 0, 0}
		if err := x.Fire(entry); err != nil {
			t.Fatal(err)
		}
		w.Args = []int64{-errno, -errno, 0, 0, 0, 0, 0, 0, 0, 0}
		w.Num[dif.BErrno] = errno
		if err := x.Fire(ret); err != nil {
			t.Fatal(err)
		}
	}
	const all = ^uintptr(0)
	for i, s := range paths {
		b := append([]byte(s), make([]byte, 8)...)
		for _, a := range [][5]uintptr{{0, 1, 2, 3, 4}, {0, all, 1 << 15, 1 << 31, 1 << 63}, {4, 255, 0x8000, all, 0}, {uintptr(i), 0x123456789abcdef, 0xffff, 5, 5}} {
			fire(uintptr(unsafe.Pointer(&b[0])), [5]uintptr{a[0] & 7, a[1], a[2], a[3], a[4]}, int64(unix.ENOENT))
		}
		runtime.KeepAlive(b)
	}
	fire(16, [5]uintptr{0, 0, 0, 0, 0}, int64(unix.EFAULT))

	if err := rt.Rings().Merge(^uint64(0), func(_ int, rec []byte) error { return out.Consumer.Record(0, rec) }); err != nil {
		t.Fatal(err)
	}
	got, err := out.End()
	if err != nil {
		t.Fatal(err)
	}
	want, err := x.End()
	if err != nil {
		t.Fatal(err)
	}
	if d := firstDiff(got, want); d != "" || len(want) < 1000 {
		t.Errorf("%s\neBPF:\n%s\ninterpreter:\n%s", d, got, want)
	}
	if d := firstDiff(fmt.Sprint(out.Faults), fmt.Sprint(x.Faults)); d != "" {
		t.Error(d)
	}
	if len(x.Faults) != 1 {
		t.Errorf("faults: %q, want that of the bad address", x.Faults)
	}
}
