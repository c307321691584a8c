package provider

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
	"godtrace/internal/tracefs"
	"godtrace/internal/types"
)

// kernelEvents is the kernel's own list of events, without those that the
// providers leave out.
func kernelEvents(t *testing.T) map[string]bool {
	t.Helper()
	testkernel.RequireRoot(t)
	root, err := tracefs.Root()
	if err != nil {
		t.Skip("SKIP-FEATURE: tracefs:", err)
	}
	b, err := os.ReadFile(filepath.Join(root, "available_events"))
	if err != nil {
		t.Skip("SKIP-FEATURE: available_events:", err)
	}
	want := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		g, name, _ := strings.Cut(strings.TrimSpace(line), ":")
		if !slices.Contains(notTracepoints, g) {
			want[g+":"+name] = true
		}
	}
	return want
}

func TestSdtLists(t *testing.T) {
	testkernel.Shows(t, "1.4")
	want := kernelEvents(t)
	for _, p := range []Provider{newSdt(), newRawtp()} {
		got := map[string]bool{}
		ids := map[int]bool{}
		ps, err := p.Probes(probe.Desc{Provider: p.Name()})
		if err != nil {
			t.Fatal(err)
		}
		for _, pr := range ps {
			if ids[pr.ID] {
				t.Errorf("%s: ID %d twice", p.Name(), pr.ID)
			}
			ids[pr.ID] = true
			if pr.Desc.Module == "" && p.Name() == "rawtp" {
				if !strings.HasSuffix(pr.Desc.Name, "_tp") {
					t.Logf("tracepoint without event: %s", pr.Desc.Name)
				}
				continue
			}
			name := pr.Desc.Module + ":" + pr.Desc.Name
			if got[name] || !want[name] {
				t.Errorf("%s: %s: listed before: %v, known to the kernel: %v", p.Name(), name, got[name], want[name])
			}
			got[name] = true
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d events, the kernel has %d", p.Name(), len(got), len(want))
		}
		again, err := p.Probes(probe.Desc{Provider: p.Name(), Name: "sched_switch"})
		if err != nil || len(again) != 1 || !slices.Contains(ps, again[0]) {
			t.Errorf("%s: sched_switch alone: %v, %v, want the probe of the list", p.Name(), again, err)
		}
	}
}

// A description that cannot mean a tracepoint must not cost a listing.
func TestSdtQuickNo(t *testing.T) {
	kernelEvents(t)
	sdt, raw := newSdt(), newRawtp()
	descs := []probe.Desc{
		{Name: "BEGIN"}, {Name: "tick-1s"}, {Func: "read", Name: "entry"}, {Provider: "syscall"},
		{Provider: "profile", Name: "tick-1s"}, {Name: "END"},
	}
	took := time.Hour
	for range 5 { // the least of them: other programs run as well
		start := time.Now()
		for _, d := range descs {
			for _, p := range []Provider{sdt, raw} {
				if ps, err := p.Probes(d); err != nil || len(ps) != 0 {
					t.Errorf("%s: %v: %v, %v", p.Name(), d, ps, err)
				}
			}
		}
		took = min(took, time.Since(start))
	}
	if _, emulated := testkernel.InVM(); took > 50*time.Millisecond && !emulated {
		t.Errorf("%d descriptions took %v", len(descs), took)
	} else {
		t.Logf("%d descriptions took %v", len(descs), took)
	}
}

// The arguments of sched_switch as include/trace/events/sched.h has them (since
// Linux 5.18).
func TestTracepointArgs(t *testing.T) {
	kernelEvents(t)
	show := func(p Provider) (out []string) {
		ps, err := p.Probes(probe.Desc{Provider: p.Name(), Module: "sched", Name: "sched_switch"})
		if err != nil || len(ps) != 1 {
			t.Fatal(ps, err)
		}
		for _, a := range ps[0].TypedArgs() {
			out = append(out, types.Decl(a.Native, a.Name))
		}
		return out
	}
	got := show(newSdt())
	want := []string{
		"char prev_comm[16]", "pid_t prev_pid", "int prev_prio", "long prev_state",
		"char next_comm[16]", "pid_t next_pid", "int next_prio",
	}
	if !slices.Equal(normal(got), normal(want)) {
		t.Errorf("sdt:\n%q\nwant\n%q", got, want)
	}
	got = show(newRawtp())
	want = []string{"bool", "struct task_struct *", "struct task_struct *", "unsigned int"} // BTF keeps no names
	if !slices.Equal(normal(got), normal(want)) {
		t.Errorf("rawtp:\n%q\nwant\n%q", got, want)
	}
}

// normal takes out what printers of declarations may do differently.
func normal(decls []string) (out []string) {
	for _, d := range decls {
		out = append(out, strings.NewReplacer(" ", "", "unsignedint", "uint").Replace(d))
	}
	return out
}

// Every field's type is as large as the kernel says the field is.
func TestFieldTypes(t *testing.T) {
	kernelEvents(t)
	for _, group := range []string{"sched", "block", "net", "tcp", "irq", "task", "filelock", "kmem", "writeback", "ext4", "xdp"} {
		evs, err := events(group, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range evs {
			f, err := tracefs.ReadFormat(e.group, e.name)
			if err != nil {
				t.Fatal(err)
			}
			for _, fd := range f.Fields {
				typ := fieldType(fd)
				if fd.Place == tracefs.Direct && typ.Size() != int64(fd.Size) {
					t.Errorf("%s:%s: %s (%s %v): %s of %d bytes, want %d", e.group, e.name, fd.Name, fd.Type, fd.Dims, typ, typ.Size(), fd.Size)
				}
			}
		}
	}
}

// counter loads a program that counts its firings in this process by cookie.
func counter(t *testing.T, typ ebpf.ProgramType, attach ebpf.AttachType) (*ebpf.Program, *ebpf.Map) {
	t.Helper()
	return counterTo(t, typ, attach, "")
}

func counterTo(t *testing.T, typ ebpf.ProgramType, attach ebpf.AttachType, to string) (*ebpf.Program, *ebpf.Map) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(os.Getpid()), "out"),
		asm.Mov.Imm(asm.R0, 0),
	}
	if typ != ebpf.RawTracepoint || rawCookies() {
		ins = append(ins, asm.Mov.Reg(asm.R1, asm.R6), asm.FnGetAttachCookie.Call())
	}
	ins = append(ins,
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "counter", Type: typ, AttachType: attach, AttachTo: to, License: "GPL", Instructions: ins})
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	t.Cleanup(func() { prog.Close() })
	return prog, m
}

func counted(t *testing.T, m *ebpf.Map, cookie int) (n uint64) {
	t.Helper()
	if err := m.Lookup(uint32(cookie), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// renameAndLock makes task_rename fire renames times and flock_lock_inode 2*locks
// times in this process.
func renameAndLock(t *testing.T, renames, locks int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var name [16]byte
	if err := unix.Prctl(unix.PR_GET_NAME, uintptr(ptr(&name)), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	for range renames {
		if err := unix.Prctl(unix.PR_SET_NAME, uintptr(ptr(&name)), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	for range locks {
		for _, how := range []int{unix.LOCK_EX, unix.LOCK_UN} {
			if err := unix.Flock(int(f.Fd()), how); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.Close()
}

func attach(t *testing.T, a *Attachment, prog *ebpf.Program) io.Closer {
	t.Helper()
	c, err := a.Attach(prog)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.Refused {
		t.Errorf("%v: %v", r.Probe.Desc, r.Err)
	}
	return c
}

func TestTracepointsFire(t *testing.T) {
	kernelEvents(t)
	for _, p := range []Provider{newSdt(), newRawtp()} {
		for _, noArgs := range []bool{true, false} {
			var enabled []*probe.Probe
			for _, n := range []string{"task:task_rename", "filelock:flock_lock_inode"} {
				g, name, _ := strings.Cut(n, ":")
				ps, err := p.Probes(probe.Desc{Provider: p.Name(), Module: g, Name: name})
				if err != nil || len(ps) != 1 {
					t.Fatal(n, ps, err)
				}
				ps[0].NoArgs = noArgs
				enabled = append(enabled, ps[0])
			}
			atts, err := p.Groups(enabled)
			if err != nil {
				t.Fatal(err)
			}
			if noArgs && rawCookies() && len(atts) != 1 {
				t.Errorf("%s: %d programs without arguments, want one", p.Name(), len(atts))
			}
			counts := map[*probe.Probe]func() uint64{}
			for _, a := range atts {
				typ := ebpf.RawTracepoint
				if a.Group.Kind == probe.KindTracepoint {
					typ = ebpf.TracePoint
				}
				prog, m := counter(t, typ, 0)
				c := attach(t, a, prog)
				defer c.Close()
				for i, pr := range a.Group.Probes {
					key := 0
					if a.Group.Keys != nil {
						key = int(a.Group.Keys[i])
					}
					counts[pr] = func() uint64 { return counted(t, m, key) }
				}
			}
			renameAndLock(t, 70, 30)
			for pr, want := range map[*probe.Probe]uint64{enabled[0]: 70, enabled[1]: 60} {
				if got := counts[pr](); got != want {
					t.Errorf("%v (no arguments: %v) fired %d times, want %d", pr.Desc, noArgs, got, want)
				}
			}
		}
	}
}

// All tracepoints at once, without arguments: what sdt::: costs.
func TestAllTracepointsAttach(t *testing.T) {
	want := kernelEvents(t)
	if !rawCookies() {
		t.Skip("SKIP-FEATURE: cookies of raw tracepoints (since 6.10)")
	}
	p := newSdt()
	ps, err := p.Probes(probe.Desc{Provider: "sdt"})
	if err != nil {
		t.Fatal(err)
	}
	for _, pr := range ps {
		pr.NoArgs = true
	}
	atts, err := p.Groups(ps)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	refused := 0
	var cs closers
	for _, a := range atts {
		prog, _ := counter(t, ebpf.RawTracepoint, 0)
		c, err := a.Attach(prog)
		if err != nil {
			t.Fatal(err)
		}
		cs = append(cs, c)
		for _, r := range a.Refused {
			t.Logf("%v: %v", r.Probe.Desc, r.Err)
		}
		refused += len(a.Refused)
	}
	up := time.Since(start)
	if err := cs.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%d of %d attached in %v, detached in %v", len(want)-refused, len(want), up, time.Since(start)-up)
	if refused > len(want)/100 {
		t.Errorf("%d of %d tracepoints refused", refused, len(want))
	}
}

func ptr[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }
