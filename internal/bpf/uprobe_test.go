package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
)

//go:noinline
func traced(p uintptr) uintptr { return p + 1 }

// tracedOffset is where traced lies in its file: go test leaves the symbols out.
func tracedOffset(t *testing.T) uint64 {
	t.Helper()
	pc := uint64(reflect.ValueOf(traced).Pointer())
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var start, end, off uint64
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x", &start, &end, &rights, &off); n == 4 && start <= pc && pc < end {
			return pc - start + off
		}
	}
	t.Fatalf("0x%x is not mapped", pc)
	return 0
}

// A string in a page that nobody has touched yet: only a program that may
// sleep can read it.
func TestSleepable(t *testing.T) {
	testkernel.RequireRoot(t)
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, append(make([]byte, 4090), "untouched\x00"...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Kprobe programs, which read registers alike, never sleep.
	for _, sleepable := range []bool{false, true} {
		p := newProg()
		rec := p.record(16)
		// Go passes the first argument in rax, word 10 of pt_regs.
		cl := p.clause([]dif.Temp{{Size: 256, Align: 8}},
			dif.Ins{Op: dif.Builtin, Dst: 1, Sym: int32(dif.BRegs), Imm: 10},
			dif.Ins{Op: dif.Call, Dst: 2, Sym: int32(dif.SCopyinstr), Args: []dif.Reg{1}, Temp: 1, Size: 256},
			dif.Ins{Op: dif.RecBegin, Sym: rec},
			dif.Ins{Op: dif.RecStr, A: 2, Size: 16, Sym: rec},
			dif.Ins{Op: dif.RecCommit, Sym: rec})
		cfg := p.begin(cl)
		cfg.Groups[0] = &probe.Group{Kind: probe.KindUprobe, Name: "traced", Probes: cfg.Groups[0].Probes}
		if !sleepable {
			cfg.Groups[0].Kind, cfg.Groups[0].AttachType = probe.KindKprobe, attachUprobeMulti
		}
		r := load(t, cfg)
		ex, err := link.OpenExecutable("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		l, err := ex.UprobeMulti(nil, r.Program(0), &link.UprobeMultiOptions{Addresses: []uint64{tracedOffset(t)}})
		if errors.Is(features.HaveBPFLinkUprobeMulti(), ebpf.ErrNotSupported) {
			t.Skip("SKIP-FEATURE: uprobe.multi (since 6.6)")
		}
		if err != nil {
			t.Fatal(err)
		}
		r.SetActivity(Active)
		mem, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ, unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		if p := address(mem) + 4090; traced(p) != p+1 {
			t.Error("the traced function gave another value")
		}
		l.Close()
		unix.Munmap(mem)
		recs := records(r)
		if len(recs) != 1 {
			t.Fatalf("sleepable %v: %d records", sleepable, len(recs))
		}
		fault := le.Uint16(recs[0][dif.HdrRec:]) == dif.RecFault
		if sleepable && (fault || unix.ByteSliceToString(recs[0][dif.HdrSize:]) != "untouched") {
			t.Errorf("sleepable: record %x", recs[0])
		}
		if !sleepable && !fault {
			t.Errorf("not sleepable: record %x, expected a fault", recs[0])
		}
		r.Close()
	}
	runtime.KeepAlive(f)
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
