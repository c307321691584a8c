package symbol

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"godtrace/internal/testkernel"
)

// tool runs a program, or skips the test where it is not installed.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// build compiles a C program and returns its path.
func build(t *testing.T, src string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	c := filepath.Join(dir, "t.c")
	if err := os.WriteFile(c, []byte(src), 0o666); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "t")
	tool(t, "gcc", append([]string{"-o", bin, c}, flags...)...)
	return bin
}

// The program prints addresses and what they are, then waits for a byte.
const program = `
#include <stdio.h>
#include <unistd.h>
#include <string.h>
#include <sys/auxv.h>
int zeroed[100000];
int data = 7;
static __attribute__((noinline)) int local(int x) { return x + getpid(); }
int main(int argc, char **argv) {
	printf("%p t` + "`" + `main+0x3\n", (char *)main + 3);
	printf("%p t` + "`" + `local\n", local);
	printf("%p t` + "`" + `data+0x1\n", (char *)&data + 1);
	printf("%p t` + "`" + `zeroed+0x61a7c\n", (char *)&zeroed[99999]);
	printf("%p libc.so.6` + "`" + `write+0x4\n", (char *)write + 4);
	printf("%p libc.so.6` + "`" + `puts\n", puts);
	printf("%#lx [vdso]\n", getauxval(AT_SYSINFO_EHDR));
	printf("0x10 0x10\n");
	local(argc);
	puts("");
	fflush(stdout);
	char c;
	return read(0, &c, 1) < 0;
}`

func TestProcess(t *testing.T) {
	for _, flags := range [][]string{{"-O1"}, {"-O1", "-no-pie"}, {"-O2", "-Wl,-z,separate-code"}, {"-O2", "-Wl,-z,noseparate-code"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			bin := build(t, program, flags...)
			cmd := exec.Command(bin)
			stdin, _ := cmd.StdinPipe()
			stdout, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			set := NewProcesses()
			type point struct {
				addr uint64
				want string
			}
			var points []point
			sc := bufio.NewScanner(stdout)
			for sc.Scan() && sc.Text() != "" {
				a, want, _ := strings.Cut(sc.Text(), " ")
				addr, err := strconv.ParseUint(strings.TrimPrefix(a, "0x"), 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				points = append(points, point{addr, want})
			}
			if len(points) < 8 {
				t.Fatalf("the program printed %d lines", len(points))
			}
			check := func(when string) {
				for _, p := range points {
					l := set.Lookup(cmd.Process.Pid, p.addr)
					if got := l.String(); got != p.want && l.Mod() != p.want {
						t.Errorf("%s: %#x: got %s, want %s", when, p.addr, got, p.want)
					}
				}
			}
			os.Remove(bin) // what is mapped is deleted now
			if err := set.Snapshot(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
			check("alive")
			stdin.Close()
			cmd.Wait()
			check("gone")
			set.Forget(cmd.Process.Pid)
			if got := set.Sym(cmd.Process.Pid, points[0].addr); got != fmt.Sprintf("%#x", points[0].addr) {
				t.Errorf("forgotten: got %s", got)
			}
		})
	}
}

// Names of stubs, against objdump's.
func TestPLT(t *testing.T) {
	testkernel.Shows(t, "1.2")
	for _, flags := range [][]string{
		{"-O1", "-Wl,-z,lazy"}, {"-O1", "-Wl,-z,now"}, {"-O1", "-fcf-protection=full", "-Wl,-z,ibtplt"},
		{"-O1", "-no-pie"}, {"-O1", "-s"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			comparePLT(t, build(t, program, flags...), 1)
		})
	}
	t.Run("libstdc++", func(t *testing.T) {
		lib, _ := filepath.Glob("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
		if len(lib) == 0 {
			t.Skip("no libstdc++")
		}
		comparePLT(t, lib[0], 1000)
	})
}

func comparePLT(t *testing.T, bin string, atLeast int) {
	t.Helper()
	out := tool(t, "objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", bin)
	o, err := Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint64]string{}
	for _, s := range o.Symbols() {
		if s.PLT {
			got[s.Value] = s.Name
		}
	}
	n := 0
	for line := range strings.Lines(out) {
		a, name, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), ">:"), " <")
		if !ok || !strings.HasSuffix(strings.TrimSpace(line), ">:") || !strings.HasSuffix(name, "@plt") {
			continue
		}
		addr, err := strconv.ParseUint(a, 16, 64)
		if err != nil {
			continue
		}
		n++
		// objdump prints the version as well.
		want, _, _ := strings.Cut(name, "@")
		if g, _, _ := strings.Cut(got[addr], "@"); g != want {
			t.Errorf("%#x: got %q, want %q", addr, got[addr], name)
		}
	}
	if n < atLeast && !strings.Contains(out, "*ABS*") {
		t.Errorf("objdump shows %d stubs, want at least %d", n, atLeast)
	}
}

// Symbols of a library, against nm.
func TestNM(t *testing.T) {
	const lib = "/lib/x86_64-linux-gnu/libc.so.6"
	out := tool(t, "nm", "-D", "--defined-only", lib)
	o, err := Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]uint64{}
	for _, s := range o.Symbols() {
		if s.Dynamic {
			have[s.Name+" "+strconv.FormatUint(s.Value, 16)] = s.Value
		}
	}
	n := 0
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 3 || !strings.Contains("TtWiDdVRB", f[1]) {
			continue
		}
		n++
		name, _, _ := strings.Cut(f[2], "@")
		if _, ok := have[name+" "+strings.TrimLeft(f[0], "0")]; !ok {
			t.Errorf("missing: %s", strings.TrimSpace(line))
		}
	}
	if n < 2000 {
		t.Errorf("nm shows %d symbols", n)
	}
	id := tool(t, "readelf", "-n", lib)
	if o.BuildID == "" || !strings.Contains(id, o.BuildID) {
		t.Errorf("build-id %q is not in\n%s", o.BuildID, id)
	}
}

func TestDebugLinkAndStrip(t *testing.T) {
	bin := build(t, program, "-O1", "-Wl,--build-id=none")
	tool(t, "objcopy", "--only-keep-debug", bin, bin+".debug")
	tool(t, "strip", bin)
	o, err := Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := o.Named("local"); ok {
		t.Fatal("stripped, and yet there is a symbol")
	}
	tool(t, "objcopy", "--add-gnu-debuglink="+bin+".debug", bin)
	if o, err = Open(bin); err != nil {
		t.Fatal(err)
	}
	if s, ok := o.Named("local"); !ok || !s.Func() || o.Debug != bin+".debug" {
		t.Errorf("by debug link: %+v, %v, from %q", s, ok, o.Debug)
	}
	// A debug file of another build must not be believed.
	if err := os.WriteFile(bin+".debug", []byte("other"), 0o666); err != nil {
		t.Fatal(err)
	}
	if o, err = Open(bin); err != nil {
		t.Fatal(err)
	}
	if _, ok := o.Named("local"); ok {
		t.Error("took a debug file with the wrong checksum")
	}
}

func TestMiniDebugInfo(t *testing.T) {
	bin := build(t, program, "-O1")
	mini := bin + ".mini"
	tool(t, "objcopy", "-S", "--remove-section=.gnu_debuglink", "--keep-symbol=local", bin, mini)
	tool(t, "xz", mini)
	tool(t, "strip", bin)
	tool(t, "objcopy", "--add-section=.gnu_debugdata="+mini+".xz", bin)
	o, err := Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := o.Named("local"); !ok || s.Dynamic {
		t.Errorf("local: %+v, %v", s, ok)
	}
}

// The test's own program is Go: its functions are found after strip as well.
func TestStrippedGo(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "go.test")
	tool(t, "strip", "-o", bin, exe)
	full, err := Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	const name = "godtrace/internal/symbol.TestStrippedGo"
	s, ok := o.Named(name)
	if !ok {
		t.Fatalf("%d symbols, none of them %s", o.NumSymbols(), name)
	}
	w, ok := full.Named(name)
	if ok && (w.Value != s.Value || s.Size == 0) {
		t.Errorf("got %+v, want %+v", s, w)
	}
}

func TestPrefer(t *testing.T) {
	o := &Object{}
	o.setSymbols([]Symbol{
		{Name: "__libc_write", Value: 16, Size: 8, Type: 2, Bind: 1},
		{Name: "write", Value: 16, Size: 8, Type: 2, Bind: 2},
		{Name: "__write", Value: 16, Size: 8, Type: 2, Bind: 1},
		{Name: "local_write", Value: 16, Size: 8, Type: 2, Bind: 0},
		{Name: "outer", Value: 0, Size: 100, Type: 2, Bind: 1},
	})
	for _, test := range []struct {
		value uint64
		want  string
	}{{16, "write"}, {23, "write"}, {24, "outer"}, {99, "outer"}, {100, ""}} {
		if s, _ := o.Lookup(test.value); s.Name != test.want {
			t.Errorf("%d: got %q, want %q", test.value, s.Name, test.want)
		}
	}
}

func TestParseMaps(t *testing.T) {
	const text = `00400000-00401000 r-xp 00001000 fd:01 42                                 /tmp/a b (deleted)
7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0                          [vdso]
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 
`
	got, err := ParseMaps(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Path != "/tmp/a b" || !got[0].Deleted || !got[0].Exec() || got[0].Module() != "a b" ||
		got[0].Off != 0x1000 || got[0].Inode != 42 || got[1].Module() != "[vdso]" || got[2].Path != "" || got[2].Exec() {
		t.Errorf("got %+v", got)
	}
	if _, err := ParseMaps(strings.NewReader("nonsense\n")); err == nil {
		t.Error("no error")
	}
}

func TestJITMap(t *testing.T) {
	got := parseJIT("0x2000 10 old\n1000 20 LazyCompile:~f /a b.js:1\n2000 10 new\nbad line\n3000 10 half")
	if len(got) != 2 || got[0] != (jitSym{0x1000, 0x20, "LazyCompile:~f /a b.js:1"}) || got[1] != (jitSym{0x2000, 0x10, "new"}) {
		t.Errorf("got %+v", got)
	}
}

func FuzzMaps(f *testing.F) {
	f.Add("00400000-00401000 r-xp 00001000 fd:01 42 /tmp/a\n")
	f.Fuzz(func(t *testing.T, s string) {
		ParseMaps(strings.NewReader(s))
		parseJIT(s)
	})
}

func FuzzObject(f *testing.F) {
	if exe, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(exe, uint64(0x2000))
	}
	f.Fuzz(func(t *testing.T, b []byte, value uint64) {
		o, err := newObject(bytes.NewReader(b), "fuzz")
		if err != nil {
			return
		}
		o.loadSymbols(nil)
		o.Lookup(value)
		o.Functions()
		o.Offset(value)
	})
}

func BenchmarkOpenLibc(b *testing.B) {
	for b.Loop() {
		if _, err := Open("/lib/x86_64-linux-gnu/libc.so.6"); err != nil {
			b.Skip(err)
		}
	}
}

func BenchmarkProcessLookup(b *testing.B) {
	set := NewProcesses()
	pid := os.Getpid()
	p, err := set.Process(pid)
	if err != nil {
		b.Skip(err)
	}
	var addr uint64
	for _, m := range p.Mappings() {
		if m.Exec() {
			addr = m.Start + 0x1234
			break
		}
	}
	for b.Loop() {
		set.Lookup(pid, addr)
	}
}

func TestPart(t *testing.T) {
	o := &Object{}
	o.setSymbols([]Symbol{
		{Name: "f", Value: 100, Size: 50, Type: 2}, {Name: "f.cold", Value: 10, Size: 20, Type: 2},
		{Name: "g", Value: 200, Size: 50, Type: 2},
	})
	for _, test := range []struct {
		name  string
		value uint64
		want  bool
	}{{"f", 15, true}, {"f.cold", 120, true}, {"g", 15, false}, {"f", 210, false}, {"f", 500, false}} {
		if got := o.Part(test.name)(test.value); got != test.want {
			t.Errorf("%d in a part of %s: %v", test.value, test.name, got)
		}
	}
}

// An address of this program lies in its file where its bytes do.
func TestInFile(t *testing.T) {
	addr := uint64(reflect.ValueOf(TestInFile).Pointer())
	module, off := NewProcesses().InFile(os.Getpid(), addr)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if module != filepath.Base(exe) {
		t.Errorf("module %q, want %q", module, filepath.Base(exe))
	}
	f, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, 16)
	if _, err := f.ReadAt(got, int64(off)); err != nil {
		t.Fatal(err)
	}
	if want := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), 16); !bytes.Equal(got, want) {
		t.Errorf("at %#x of the file: %x, in memory: %x", off, got, want)
	}
	if module, off := NewProcesses().InFile(os.Getpid(), 0x10); module != "" || off != 0 {
		t.Errorf("address 0x10: %q, %#x", module, off)
	}
}
