package provider

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"godtrace/internal/insn"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
)

// A function made by hand; the bytes are objdump's.
var sample = []byte{
	0xf3, 0x0f, 0x1e, 0xfa, // endbr64
	0x31, 0xc0, // xor %eax,%eax
	0xf0, 0xff, 0x07, // lock incl (%rdi)
	0xf0, 0x0f, 0xb1, 0x16, // lock cmpxchg %edx,(%rsi)
	0x74, 0x02, // je +2
	0xf3, 0xaa, // rep stos %al,%es:(%rdi)
	0xe8, 0xfb, 0xff, 0x0f, 0x00, // call +0x100000-5
	0xc3,                         // ret
	0xcc, 0x90, 0x0f, 0x1f, 0x00, // int3; nop; nopl (%rax)
}

func TestInstrLists(t *testing.T) {
	testkernel.Shows(t, "1.21", "1.25")
	// No kernel has text here, so none refuses probes here.
	const base = 0xfffffffffe000000
	f := kernelFunc{"vmlinux", "f", base, len(sample)}
	text := func(kernelFunc) ([]byte, error) { return sample, nil }
	for _, tt := range []struct {
		d    probe.Desc
		want string
	}{
		{probe.Desc{}, "endbr+0 inc+6 lock+6 cmpxchg+9 lock+9 je+13 rep+15 call+17 ret+22"},
		{probe.Desc{Func: "f-lock"}, "lock+6 lock+9"},
		{probe.Desc{Func: "*-j*"}, "je+13"},
		{probe.Desc{Func: "f-*ll"}, "call+17"},
		{probe.Desc{Name: fmt.Sprintf("0x%x", uint64(base+9))}, "cmpxchg+9 lock+9"},
		{probe.Desc{Func: "g-*"}, ""},
	} {
		ps, err := newInstr().list(tt.d, []kernelFunc{f}, text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pr := range ps {
			addr, err := strconv.ParseUint(pr.Desc.Name, 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimPrefix(pr.Desc.Func, "f-")+"+"+strconv.Itoa(int(addr-f.addr)))
		}
		slices.SortStableFunc(got, func(a, b string) int {
			_, x, _ := strings.Cut(a, "+")
			_, y, _ := strings.Cut(b, "+")
			i, _ := strconv.Atoi(x)
			j, _ := strconv.Atoi(y)
			return i - j
		})
		// xor has no class of its own.
		if g := strings.Join(got, " "); g != tt.want {
			t.Errorf("%v: %q, want %q", tt.d, g, tt.want)
		}
	}
}

func TestInstrCookie(t *testing.T) {
	const addr = 0xffffffff81000000
	for _, tt := range []struct {
		code   []byte
		flags  uint64
		taken  bool
		target uint64
		rcx    uint64
	}{
		{[]byte{0x74, 0x02}, 1 << 6, true, addr + 4, 0}, // je
		{[]byte{0x74, 0x02}, 0, false, addr + 4, 0},
		{[]byte{0x75, 0xfe}, 0, true, addr, 0},                                  // jne to itself
		{[]byte{0x0f, 0x8c, 0, 1, 0, 0}, 1 << 7, true, addr + 0x106, 0},         // jl
		{[]byte{0x0f, 0x8c, 0, 1, 0, 0}, 1<<7 | 1<<11, false, addr + 0x106, 0},  // jl, SF == OF
		{[]byte{0xe8, 0x00, 0x00, 0xf0, 0xff}, 0, true, addr + 5 - 0x100000, 0}, // call
		{[]byte{0xc3}, 0, true, 0, 0},                                           // ret
		{[]byte{0xff, 0xd0}, 0, true, 0, 0},                                     // call *%rax
		{[]byte{0x90}, ^uint64(1 << 5), false, 0, 0},                            // nop
		{[]byte{0xe2, 0x10}, 1 << 6, false, addr + 0x12, 1},                     // loop
		{[]byte{0xe2, 0x10}, 1 << 6, true, addr + 0x12, 0},                      // loop: counts down first
		{[]byte{0xe2, 0x10}, 0, true, addr + 0x12, 2},
		{[]byte{0xe1, 0x10}, 1 << 6, true, addr + 0x12, 2}, // loope
		{[]byte{0xe1, 0x10}, 0, false, addr + 0x12, 2},
		{[]byte{0xe1, 0x10}, 1 << 6, false, addr + 0x12, 1},
		{[]byte{0xe0, 0x10}, 1 << 6, false, addr + 0x12, 2}, // loopne
		{[]byte{0xe0, 0x10}, 0, true, addr + 0x12, 2},
		{[]byte{0xe0, 0x10}, 0, false, addr + 0x12, 1},
		{[]byte{0xe3, 0x10}, 1 << 6, true, addr + 0x12, 0}, // jrcxz
		{[]byte{0xe3, 0x10}, 1 << 6, false, addr + 0x12, 1 << 32},
		{[]byte{0x67, 0xe3, 0x10}, 0, true, addr + 0x13, 1 << 32},    // jecxz
		{[]byte{0x67, 0xe2, 0x10}, 0, false, addr + 0x13, 1<<32 + 1}, // loop by ecx
	} {
		in, err := insn.Decode(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		c := instrCookie(77, insn.At{Insn: in, Addr: addr})
		var target uint64
		if d := int32(c >> 32); d != 0 {
			target = addr + uint64(int64(d))
		}
		cond := probe.Cond(c >> probe.CondShift & 0xfff)
		if c&probe.KeyMask != 77 || cond.Holds(tt.flags, tt.rcx) != tt.taken {
			t.Errorf("% x: key %d, taken %v; want 77, %v", tt.code, c&probe.KeyMask, cond.Holds(tt.flags, tt.rcx), tt.taken)
		}
		// A jump to itself has the same difference as no target.
		if target != tt.target && tt.target != addr {
			t.Errorf("% x: target %x, want %x", tt.code, target, tt.target)
		}
	}
}

// A probe is the same whenever and by whatever description it is found.
func TestInstrSame(t *testing.T) {
	const base = 0xfffffffffe000000
	text := func(f kernelFunc) ([]byte, error) { return sample, nil }
	var fs []kernelFunc
	for i := range 50 {
		fs = append(fs, kernelFunc{"vmlinux", fmt.Sprintf("f%d", i), base + uint64(i*len(sample)), len(sample)})
	}
	p := newInstr()
	found := map[string]*probe.Probe{}
	for _, d := range []struct {
		desc probe.Desc
		fs   []kernelFunc
		n    int
	}{
		{probe.Desc{Func: "*-lock"}, fs[20:30], 20}, {probe.Desc{Func: "*-je"}, fs[10:25], 15}, {probe.Desc{Func: "*-lock"}, fs, 100},
		{probe.Desc{}, fs[:5], 45}, {probe.Desc{}, fs, 450}, {probe.Desc{}, fs, 450}, {probe.Desc{Func: "*-ret"}, fs[49:], 1},
	} {
		ps, err := p.list(d.desc, d.fs, text)
		if err != nil || len(ps) != d.n {
			t.Fatalf("%v: %d probes, %v; want %d", d.desc, len(ps), err, d.n)
		}
		for _, pr := range ps {
			key := pr.Desc.String()
			if found[key] == nil {
				found[key] = pr
			} else if found[key] != pr {
				t.Errorf("%s: another one", key)
			}
		}
	}
	if len(found) != 450 || len(p.known) != 450 {
		t.Errorf("%d probes, %d known; want 450", len(found), len(p.known))
	}
}

// All locked instructions of the running kernel begin with the prefix, and one
// of them counts what it should.
func TestInstrKernel(t *testing.T) {
	testkernel.Shows(t, "1.21", "1.25", "1.26")
	p := newInstr()
	locks := probesOf(t, p, probe.Desc{Func: "*-lock"})
	if len(locks) < 200 {
		t.Errorf("%d locked instructions in the kernel", len(locks))
	}
	for _, pr := range locks {
		addr, _ := strconv.ParseUint(pr.Desc.Name, 0, 64)
		b, err := KernelText(addr, 4)
		if err != nil {
			t.Fatal(err)
		}
		// Other prefixes may come before it.
		if !slices.Contains(b, 0xf0) {
			t.Errorf("%v: % x", pr.Desc, b)
		}
	}
	calls := probesOf(t, p, probe.Desc{Func: "iterate_dir-call*"})
	all := probesOf(t, p, probe.Desc{Func: "iterate_dir-*"})
	for _, pr := range all {
		if strings.HasSuffix(pr.Desc.Func, "-call") != slices.Contains(calls, pr) {
			t.Errorf("%v: among the calls: %v", pr.Desc, slices.Contains(calls, pr))
		}
	}
}

// Listing a million probes.
func TestInstrScale(t *testing.T) {
	testkernel.Shows(t, "1.26")
	if os.Getenv("GODTRACE_GUEST") == "" {
		t.Skip("SKIP-FEATURE: kprobes are asked for in the matrix only")
	}
	p := newInstr()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	ps := probesOf(t, p, probe.Desc{})
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	classes := map[string]int{}
	for _, pr := range ps {
		_, c, _ := strings.Cut(pr.Desc.Func, "-")
		classes[c]++
	}
	mb := (after.Sys - before.Sys) >> 20
	t.Logf("%d probes in %v, %d MB from the system, %d MB in use: %v", len(ps), took, mb, (after.HeapAlloc-before.HeapAlloc)>>20, classes)
	if len(ps) < 300_000 || mb > 300 {
		t.Errorf("%d probes in %d MB; a kernel has more than 300000, and they are to take less than 300 MB", len(ps), mb)
	}
	runtime.KeepAlive(ps)
}

// Three places count in the variable at 0xffffffff82000000, which is 0x1000000
// from the code; the bytes are objdump's.
func TestCounting(t *testing.T) {
	testkernel.Shows(t, "1.11")
	const addr, counter = 0xffffffff81000000, 0xffffffff82000000
	var code []byte
	var want []int
	put := func(counts bool, b ...byte) {
		if counts {
			want = append(want, len(code))
		}
		code = append(code, b...)
	}
	rel := func(n int) (b []byte) { // displacement of an instruction that ends n bytes further
		return binary.LittleEndian.AppendUint32(nil, uint32(counter-addr-uint64(len(code)+n)))
	}
	put(true, append([]byte{0xff, 0x05}, rel(6)...)...)                  // incl counter(%rip)
	put(false, append([]byte{0x8b, 0x05}, rel(6)...)...)                 // mov counter(%rip),%eax
	put(true, append([]byte{0xf0, 0x48, 0xff, 0x05}, rel(8)...)...)      // lock incq counter(%rip)
	put(false, append([]byte{0x03, 0x05}, rel(6)...)...)                 // add counter(%rip),%eax
	put(false, 0xff, 0x05, 0, 0, 0, 0)                                   // incl (%rip): another place
	put(true, append(append([]byte{0x48, 0x83, 0x05}, rel(8)...), 1)...) // addq $1,counter(%rip)
	put(false, 0xff, 0x00)                                               // incl (%rax)
	put(false, append([]byte{0xff, 0x15}, rel(6)...)...)                 // call *counter(%rip)
	var got []int
	for _, a := range countSites(code, addr, counter, counter+8) {
		got = append(got, a.Off)
	}
	if !slices.Equal(got, want) {
		t.Errorf("counting at %v, want %v", got, want)
	}
	if got := countSites(code, addr, counter+8, counter+16); got != nil {
		t.Errorf("counting in another variable: %v", got)
	}
}

// BenchmarkInstrList lists the text of the test program in pieces as large as
// functions.
func BenchmarkInstrList(b *testing.B) {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	sec := f.Section(".text")
	code, err := sec.Data()
	if err != nil {
		b.Fatal(err)
	}
	const piece = 512
	var fs []kernelFunc
	for off := 0; off+piece <= len(code); off += piece {
		fs = append(fs, kernelFunc{"vmlinux", "f" + strconv.Itoa(off), sec.Addr + uint64(off), piece})
	}
	n := 0
	for b.Loop() {
		ps, err := newInstr().list(probe.Desc{}, fs, func(f kernelFunc) ([]byte, error) {
			return code[f.addr-sec.Addr:][:f.size], nil
		})
		if err != nil {
			b.Fatal(err)
		}
		n = len(ps)
	}
	b.ReportMetric(float64(n), "probes")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/probe")
}
