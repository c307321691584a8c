package lib

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"godtrace/internal/dif"
	"godtrace/internal/kernel"
	"godtrace/internal/testkernel"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A bench holds the loaded routine and the map value it works in:
// work | dst | state | four inputs | slack.
type bench struct {
	prog         *ebpf.Program
	m            *ebpf.Map
	mem          []byte
	base         uint64 // the value's address in the kernel
	r            *Routine
	dsize, ssize int
	dst, state   int
	in           [4]int
	insns        int
}

func ins(op uint8, dst, src uint8, off int16, imm int32) uint64 {
	return uint64(op) | uint64(dst)<<8 | uint64(src)<<12 | uint64(uint16(off))<<16 | uint64(uint32(imm))<<32
}

// link appends the closure of fn to main and resolves what refers to it; call is
// where main calls it. The result's second part is where functions begin.
func link(l *Library, main []uint64, calls map[int]string) ([]uint64, []int, error) {
	var names []string
	for _, n := range calls {
		names = append(names, n)
	}
	fns, err := l.Closure(names...)
	if err != nil {
		return nil, nil, err
	}
	at, starts := map[string]int{}, []int{0}
	out := append([]uint64(nil), main...)
	for _, f := range fns {
		at[f.Name] = len(out)
		starts = append(starts, len(out))
		out = append(out, f.Code...)
	}
	patch := func(i int, name string) {
		out[i] = out[i]&0xffffffff | uint64(uint32(at[name]-i-1))<<32
	}
	for i, n := range calls {
		patch(i, n)
	}
	for _, f := range fns {
		for _, r := range f.Refs {
			patch(at[f.Name]+r.At, r.Name)
		}
	}
	return out, starts, nil
}

func loadRaw(code []uint64, starts []int, funcInfo bool) (*ebpf.Program, error) {
	a := kernel.ProgAttr{Type: uint32(ebpf.RawTracepoint)}
	var info []uint32
	if funcInfo {
		fd, err := kernel.LoadBTF(FuncBTF())
		if err != nil {
			return nil, err
		}
		defer unix.Close(fd)
		for _, s := range starts {
			info = append(info, uint32(s), FuncType)
		}
		a.BTF, a.FuncInfoSize, a.FuncInfo, a.FuncInfoCnt = uint32(fd), 8, unsafe.Pointer(&info[0]), uint32(len(starts))
	}
	fd, err := kernel.LoadProgram(code, &a)
	if err != nil {
		log := make([]byte, 1<<24)
		a.LogLevel, a.LogSize, a.LogBuf = 1, uint32(len(log)), unsafe.Pointer(&log[0])
		fd2, err2 := kernel.LoadProgram(code, &a)
		if err2 == nil {
			unix.Close(fd2)
		}
		log = log[:bytes.IndexByte(log, 0)]
		if file := os.Getenv("GODTRACE_VERIFIER_LOG"); file != "" {
			os.WriteFile(file, log, 0o644)
		}
		if len(log) > 3000 {
			log = log[len(log)-3000:]
		}
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	return ebpf.NewProgramFromFD(fd)
}

// loops is how often a bench's program calls the routine: the word before the
// work area.
func newBench(t testing.TB, v Variant, r *Routine, dsize, ssize int, loops bool) *bench {
	t.Helper()
	testkernel.RequireRoot(t)
	l, err := Load(v)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{r: r, dsize: dsize, ssize: ssize}
	off := 64 + r.Work(ssize)
	place := func(n int) int {
		at := off
		off += round8(n)
		return at
	}
	b.dst = place(dsize)
	b.state = place(State(ssize))
	for i := range b.in {
		b.in[i] = place(max(ssize+16, 32))
	}
	off += Slack(dsize, ssize)
	b.m, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(off), MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.m.Close() })
	page := os.Getpagesize()
	if b.mem, err = unix.Mmap(b.m.FD(), 0, (off+page-1)&^(page-1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b.mem) })
	addr := func(reg uint8, off int) []uint64 {
		return []uint64{ins(0x18, reg, 2, 0, int32(b.m.FD())), ins(0, 0, 0, 0, int32(off))}
	}
	// value[0] = address of the value; value[8] = r0
	main := addr(6, 0)
	main = append(main, ins(0x7b, 6, 6, 0, 0))
	loop := len(main)
	main = append(main, addr(1, 64)...)
	main = append(main, addr(2, b.dst)...)
	main = append(main, ins(0xb7, 3, 0, 0, int32(dsize)), ins(0xb7, 4, 0, 0, int32(ssize)))
	main = append(main, addr(5, b.state)...)
	call := len(main)
	main = append(main, ins(0x85, 0, 1, 0, 0), ins(0x7b, 6, 0, 8, 0))
	if loops { // while --value[16] != 0 and the kernel permits
		main = append(main, ins(0xe5, 0, 0, 4, 0),
			ins(0x79, 1, 6, 16, 0), ins(0x07, 1, 0, 0, -1), ins(0x7b, 6, 1, 16, 0))
		main = append(main, ins(0x55, 1, 0, int16(loop-len(main)-1), 0))
	}
	main = append(main, ins(0xb7, 0, 0, 0, 0), ins(0x95, 0, 0, 0, 0))
	code, starts, err := link(l, main, map[int]string{call: r.Func})
	if err != nil {
		t.Fatal(err)
	}
	b.insns = len(code)
	if b.prog, err = loadRaw(code, starts, v == BPFLoop); err != nil {
		t.Fatalf("%s, %s, size %d: %v", r.Func, v, ssize, err)
	}
	t.Cleanup(func() { b.prog.Close() })
	b.run(t)
	b.base = binary.LittleEndian.Uint64(b.mem)
	return b
}

func (b *bench) run(t testing.TB) {
	if _, err := b.prog.Run(&ebpf.RunOptions{Context: make([]byte, 64)}); err != nil {
		t.Fatal(err)
	}
}

type result struct {
	fault dif.FaultKind
	addr  uint64
	num   int64
	str   string
	null  bool
}

const badAddr = 0xffff800000000123 // not canonical to any kernel mapping

// set stores the arguments: strings, []byte and numbers. A bound string has its
// NUL within ssize, as all strings of D have.
func (b *bench) set(args ...any) {
	w := b.mem[64:]
	i := 0
	put := func(v uint64) {
		binary.LittleEndian.PutUint64(w[Arg(i):], v)
		i++
	}
	for _, a := range args {
		switch a := a.(type) {
		case string:
			s := b.mem[b.in[i]:][:b.ssize+16]
			for k := range s {
				s[k] = 0xa5
			}
			s[copy(s[:b.ssize+8], a)] = 0
			put(b.base + uint64(b.in[i]))
		case []byte:
			copy(b.mem[b.in[i]:], a)
			put(b.base + uint64(b.in[i]))
		case int:
			put(uint64(a))
		case int64:
			put(uint64(a))
		case uint64:
			put(a)
		default:
			panic(fmt.Sprintf("argument %T", a))
		}
	}
	if d := b.r.Defaults; d != nil && i == b.r.First {
		for _, v := range d {
			put(uint64(v))
		}
	}
}

func (b *bench) call(t testing.TB, args ...any) result {
	t.Helper()
	// What a routine leaves behind must not matter to the next.
	for k := range b.mem[64:b.dst] {
		b.mem[64+k] = 0x5a
	}
	for k := range b.mem[b.dst : b.dst+round8(b.dsize)] {
		b.mem[b.dst+k] = 0x41
	}
	guard := b.mem[b.dst+round8(b.dsize) : b.dst+round8(b.dsize)+8]
	before := [8]byte(guard)
	b.set(args...)
	b.run(t)
	if !b.r.State && [8]byte(guard) != before {
		t.Fatalf("%s%q: wrote past the destination", b.r.Func, args)
	}
	w := b.mem[64:]
	r := result{fault: dif.FaultKind(binary.LittleEndian.Uint64(b.mem[8:]))}
	if r.fault != 0 {
		r.addr = binary.LittleEndian.Uint64(w[8:])
		return r
	}
	v := binary.LittleEndian.Uint64(w)
	r.num, r.null = int64(v), v == 0
	if at := v - b.base; at < uint64(len(b.mem)) {
		s := b.mem[at:]
		n := bytes.IndexByte(s, 0)
		r.str = string(s[:n])
		if at == uint64(b.dst) && n >= b.dsize {
			t.Fatalf("%s%q: a string of %d bytes in %d", b.r.Func, args, n, b.dsize)
		}
	}
	return r
}

// variants are those that the running kernel has.
var variants = func() []Variant {
	if !kernel.AtLeast(6, 9) {
		return []Variant{BPFLoop}
	}
	return []Variant{MayGoto, BPFLoop}
}()

var sizes = []int{8, 256, 4096, 65536}

// TestReproducible compiles the routines again.
func TestReproducible(t *testing.T) {
	if _, err := exec.LookPath("clang-14"); err != nil {
		t.Skip("SKIP-HERE: the objects are made by clang 14, which is not here")
	}
	dir := t.TempDir()
	if out, err := exec.Command("./generate.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob("obj/*.o")
	if err != nil || len(files) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	for _, name := range files {
		old, _ := os.ReadFile(name)
		now, err := os.ReadFile(filepath.Join(dir, filepath.Base(name)))
		if err != nil || !bytes.Equal(old, now) {
			t.Errorf("%s is not what the sources make now (%v): go generate", name, err)
		}
	}
}

// TestLoad reports what the verifier has to do for a call.
func TestLoad(t *testing.T) {
	for _, v := range variants {
		for s := dif.SNone; s < dif.NumSubrs; s++ {
			r := Routines[s]
			if r == nil {
				continue
			}
			var line strings.Builder
			for _, size := range sizes {
				b := newBench(t, v, r, size, size, false)
				info, err := b.prog.Info()
				if err != nil {
					t.Fatal(err)
				}
				n, _ := info.VerifiedInstructions()
				if n > 20000 {
					t.Errorf("%s, %s, size %d: the verifier walks %d instructions", r.Func, v, size, n)
				}
				fmt.Fprintf(&line, " %d", n)
				if size == sizes[0] {
					fmt.Fprintf(&line, " (of %d)", b.insns)
				}
			}
			t.Logf("%-9s %-14s verified%s", v, r.Func, line.String())
		}
	}
}
