package symbol

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"testing"
)

const kallsyms = `0000000000000000 A fixed_percpu_data
0000000000001000 A cpu_debug_store
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 T vfs_read
ffffffff81000100 t helper
ffffffff81000200 T vfs_write
ffffffff81000300 d table
ffffffff82000000 B _end
ffffffffc0002000 t helper	[ext4]
ffffffffc0001000 T ext4_open	[ext4]
ffffffffc0100000 t bpf_prog_6deef7357e7b4530_x	[bpf]
`

func testKernel(t *testing.T) *Kernel {
	t.Helper()
	k, err := ReadKallsyms(strings.NewReader(kallsyms))
	if err != nil {
		t.Fatal(err)
	}
	k.ranges = readModules(strings.NewReader("ext4 12288 1 - Live 0xffffffffc0001000\n"))
	return k
}

func TestModulesMore(t *testing.T) {
	modules := func(s string) moduleRanges { return readModules(strings.NewReader(s)) }
	before := modules("ext4 12288 1 - Live 0xffffffffc0001000\ndummy 4096 0 - Live 0xffffffffc0005000\n")
	for text, want := range map[string]bool{
		"": false,
		"ext4 12288 7 jbd2, Live 0xffffffffc0001000\n": false, // others use it
		"ext4 12288 1 - Live 0xffffffffc0009000\n":     true,  // loaded again
		"brd 4096 1 - Live 0xffffffffc0001000\n":       true,
	} {
		if got := modules(text).hasMore(before); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestKernelLookup(t *testing.T) {
	k := testKernel(t)
	for _, test := range []struct {
		addr uint64
		want string
	}{
		{0xffffffff81000000, "vmlinux`_stext"},
		{0xffffffff81000054, "vmlinux`vfs_read+0x14"},
		{0xffffffff81000040, "vmlinux`vfs_read"},
		{0xffffffff81fffff0, "vmlinux`table+0xfffcf0"},
		{0xffffffff82000000, "0xffffffff82000000"},
		{0xffffffffc0001004, "ext4`ext4_open+0x4"},
		{0xffffffffc0002001, "ext4`helper+0x1"},
		{0xffffffffc0003fff, "ext4`helper+0x1fff"},
		{0xffffffffc0004000, "0xffffffffc0004000"},
		{0xffffffffc0100010, "bpf`bpf_prog_6deef7357e7b4530_x+0x10"},
		{0xffffffffc0200000, "0xffffffffc0200000"},
		{0x10, "0x10"},
		{0, "0x0"},
		{0x8000000000000000, "0x8000000000000000"},
	} {
		if got := k.Lookup(test.addr).String(); got != test.want {
			t.Errorf("%#x: got %s, want %s", test.addr, got, test.want)
		}
	}
	if a, ok := k.Addr("ext4", "helper"); !ok || a != 0xffffffffc0002000 {
		t.Errorf("ext4`helper = %#x, %v", a, ok)
	}
	if n := len(k.Named("", "helper")); n != 2 {
		t.Errorf("%d symbols named helper, want 2", n)
	}
	if _, ok := k.Addr("", "absent"); ok {
		t.Error("found a symbol that is not there")
	}
	if n := k.Size(0xffffffff81000040); n != 0xc0 {
		t.Errorf("size of vfs_read %#x, want 0xc0", n)
	}
}

func TestReadKallsymsErrors(t *testing.T) {
	if _, err := ReadKallsyms(strings.NewReader("0000000000000000 T a\n0000000000000000 T b\n")); !errors.Is(err, ErrRestricted) {
		t.Errorf("all zero: %v", err)
	}
	for _, s := range []string{"", "xyz\n", "ffff\n", "ffff T\n"} {
		if _, err := ReadKallsyms(strings.NewReader(s)); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
}

// Every text symbol of the running kernel resolves to the first name that
// /proc/kallsyms lists for its address.
func TestRunningKernel(t *testing.T) {
	k, err := KernelSymbols()
	if err != nil {
		t.Skip(err)
	}
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	lines, last := 0, ""
	for sc.Scan() {
		lines++
		fs := strings.Fields(sc.Text())
		if len(fs) != 3 || fs[0] == last || fs[0][0] < '8' || fs[2] == "_end" {
			continue
		}
		last = fs[0]
		if lines%16 != 0 {
			continue
		}
		var addr uint64
		for _, c := range []byte(fs[0]) {
			addr = addr<<4 | uint64(hexDigit(c))
		}
		if fs[1] != "T" && fs[1] != "t" {
			continue
		}
		if l := k.Lookup(addr + 0); l.Module != Vmlinux || l.Name != fs[2] || l.Off != 0 {
			t.Fatalf("%s %s: got %s", fs[0], fs[2], l)
		}
	}
	if lines < k.Len() {
		t.Errorf("%d lines, %d symbols", lines, k.Len())
	}
}

func FuzzKallsyms(f *testing.F) {
	f.Add(kallsyms, uint64(0xffffffff81000054))
	f.Fuzz(func(t *testing.T, s string, addr uint64) {
		k, err := ReadKallsyms(strings.NewReader(s))
		if (k == nil) == (err == nil) {
			t.Fatal("either a table or an error")
		}
		if k != nil {
			k.ranges = readModules(strings.NewReader(s))
			_ = k.Lookup(addr).String()
			k.Addr("", "x")
		}
	})
}

func BenchmarkReadKallsyms(b *testing.B) {
	for b.Loop() {
		f, err := os.Open("/proc/kallsyms")
		if err != nil {
			b.Skip(err)
		}
		if _, err := ReadKallsyms(f); err != nil {
			b.Skip(err)
		}
		f.Close()
	}
}

func BenchmarkKernelLookup(b *testing.B) {
	k, err := KernelSymbols()
	if err != nil {
		b.Skip(err)
	}
	a := k.At(k.Len() / 2).Addr
	for b.Loop() {
		k.Lookup(a + 4)
	}
}
