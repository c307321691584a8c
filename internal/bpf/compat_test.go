package bpf

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
)

// A 32-bit system call has a number and registers of its own: int $0x80 with 20
// in eax is getpid, where 64-bit code's 20 is writev. Its first argument is ebx.
func TestCompat(t *testing.T) {
	testkernel.RequireRoot(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIP-FEATURE: 32-bit system calls (since amd64)")
	}
	p := newProg()
	wide := p.form(agg.Spec{Func: agg.Count}, 0)
	narrow := p.form(agg.Spec{Func: agg.Sum}, 0)
	clWide := p.clause(nil, append(mine(), dif.Ins{Op: dif.AggUpdate, Sym: wide})...)
	clNarrow := p.clause(nil, append(mine(),
		dif.Ins{Op: dif.Builtin, Dst: 1, Sym: int32(dif.BArg)},
		dif.Ins{Op: dif.AggUpdate, A: 1, Sym: narrow})...)
	cfg := p.sysEnter([]*dif.Clause{clWide}, map[string]uint64{"writev": 20})
	pr := &probe.Probe{Desc: probe.Desc{Provider: "syscall", Func: "getpid32"}}
	cfg.Enabled = append(cfg.Enabled, &Enabled{Index: 1, Probe: pr, Clauses: []*dif.Clause{clNarrow}, Epid: 2})
	g := cfg.Groups[0]
	g.Probes, g.Keys = append(g.Probes, pr), append(g.Keys, 1<<32|20)
	r := load(t, cfg)
	attach(t, r, 0, "sys_enter")

	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(code)
	// push rbx; mov ebx, 7; mov eax, 20; int 0x80; pop rbx; ret
	copy(code, "\x53\xbb\x07\x00\x00\x00\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")
	if err := unix.Mprotect(code, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		t.Fatal(err)
	}
	at := uintptr(unsafe.Pointer(&code[0]))
	entry := &at
	getpid32 := *(*func() uintptr)(unsafe.Pointer(&entry))
	if got := int32(getpid32()); got != int32(unix.Getpid()) {
		t.Skipf("SKIP-FEATURE: 32-bit system calls (since CONFIG_IA32_EMULATION): getpid gives %d", got)
	}
	r.SetActivity(Active)
	for range 10 {
		getpid32()
	}
	s := snapshot(t, r)
	if len(s[int(wide)]) != 0 {
		t.Errorf("counted as writev: %v", s[int(wide)])
	}
	if v := s[int(narrow)]; len(v) != 1 || v[0].words[0] != 70 {
		t.Errorf("sum of the first arguments: %v, want 70", v)
	}
}
