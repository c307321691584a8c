package lib

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"godtrace/internal/btf"
	"godtrace/internal/dif"

	"golang.org/x/sys/unix"
)

// newKernelBench hands the offsets of the running kernel to the routine.
func newKernelBench(t testing.TB, v Variant, r *Routine) *bench {
	t.Helper()
	spec, err := btf.Kernel()
	if err != nil {
		t.Skip(err)
	}
	b := newBench(t, v, r, 256, 256, false)
	for i, m := range r.Members {
		off, err := spec.VMLinux.MemberOffset(m.Tag, m.Path)
		if err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint64(b.mem[b.state+8*i:], uint64(off))
	}
	return b
}

// currentTask is the address of this thread's task_struct.
func currentTask(t *testing.T, b *bench) uint64 {
	code := []uint64{ins(0x85, 0, 0, 0, 35),
		ins(0x18, 1, 2, 0, int32(b.m.FD())), 0,
		ins(0x7b, 1, 0, 0, 0), ins(0xb7, 0, 0, 0, 0), ins(0x95, 0, 0, 0, 0)}
	p, err := loadRaw(code, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	(&bench{prog: p}).run(t)
	return binary.LittleEndian.Uint64(b.mem)
}

func TestLocks(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, v := range variants {
		lock := func(s dif.Subr, word uint64) int64 {
			b := newKernelBench(t, v, Routines[s])
			off := binary.LittleEndian.Uint64(b.mem[b.state:])
			m := make([]byte, off+8)
			binary.LittleEndian.PutUint64(m[off:], word)
			r := b.call(t, m)
			if r.fault != 0 {
				t.Errorf("%v: %v", s, r)
			}
			return r.num
		}
		me := int64(currentTask(t, newKernelBench(t, v, Routines[dif.SMutexOwner])))
		if me >= 0 {
			t.Fatalf("current task at %#x", me)
		}
		// linux/rwlock: _QW_LOCKED 0xff, _QW_WAITING 0x100, _QR_BIAS 0x200;
		// the owner's low bits: MUTEX_FLAG_WAITERS, _HANDOFF, _PICKUP.
		for _, c := range []struct {
			s    dif.Subr
			word uint64
			want int64
		}{
			{dif.SMutexOwner, 0, 0},
			{dif.SMutexOwner, uint64(me) | 7, me},
			{dif.SMutexOwned, uint64(me) | 1, 1},
			{dif.SMutexOwned, uint64(me) + 64, 0},
			{dif.SMutexOwned, 0, 0},
			{dif.SRWIsWriter, 0, 0},
			{dif.SRWIsWriter, 0xff, 1},
			{dif.SRWIsWriter, 0x300, 1},
			{dif.SRWIsWriter, 0x400, 0},
			{dif.SRWWriteHeld, 0xff, 1},
			{dif.SRWWriteHeld, 0x300, 0},
			{dif.SRWReadHeld, 0x300, 1},
			{dif.SRWReadHeld, 0x1ff, 0},
		} {
			if got := lock(c.s, c.word); got != c.want {
				t.Errorf("%v: %v of lock word %#x is %#x, want %#x", v, c.s, c.word, got, c.want)
			}
		}
	}
}

func TestProgenyof(t *testing.T) {
	for _, v := range variants {
		b := newKernelBench(t, v, Routines[dif.SProgenyof])
		for pid, want := range map[int]int64{os.Getpid(): 1, os.Getppid(): 1, 0: 1, 1 << 22: 0, 2: 0} {
			if got := b.call(t, pid); got.num != want {
				t.Errorf("%v: progenyof(%d) = %v, want %d", v, pid, got, want)
			}
		}
	}
}

// TestPaths compares with /proc/self/fd.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	open := func(name string, flags int) int {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	deep := dir
	for range 20 {
		deep = filepath.Join(deep, "0123456789")
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	fds := []int{
		open("/", unix.O_RDONLY), open("/dev/null", unix.O_RDONLY), open("/proc/self/status", unix.O_RDONLY),
		open("/proc", unix.O_RDONLY), open(dir, unix.O_RDONLY), open(filepath.Join(dir, "file"), unix.O_CREAT|unix.O_RDWR),
		open(filepath.Join(dir, "gone"), unix.O_CREAT|unix.O_RDWR), open(deep, unix.O_PATH),
	}
	os.Remove(filepath.Join(dir, "gone"))
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	fds = append(fds, pipe[:]...)
	if fd, err := unix.Eventfd(0, 0); err == nil {
		fds = append(fds, fd)
	}
	if fd, err := unix.MemfdCreate("some name", 0); err == nil {
		fds = append(fds, fd)
	}
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		defer l.Close()
		f, _ := l.(*net.TCPListener).File()
		defer f.Close()
		fds = append(fds, int(f.Fd()))
	}
	spec, err := btf.Kernel()
	if err != nil {
		t.Skip(err)
	}
	fPath, err := spec.VMLinux.MemberOffset("file", "f_path")
	if err != nil {
		t.Fatal(err)
	}
	wd, _ := os.Getwd()
	for _, v := range variants {
		getf := newKernelBench(t, v, Routines[dif.SGetf])
		dPath := newKernelBench(t, v, Routines[dif.SDPath])
		for _, fd := range fds {
			want, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			if err != nil {
				t.Fatal(err)
			}
			file := getf.call(t, fd)
			if file.fault != 0 || file.num >= 0 {
				t.Errorf("%v: getf(%d) = %v at %#x", v, fd, file, file.addr)
				continue
			}
			got := dPath.call(t, file.num+fPath)
			if len(want) > 255 {
				want = want[:255]
			}
			if got.fault != 0 || got.str != want {
				t.Errorf("%v: d_path of descriptor %d = %v (at %#x), the kernel says %q", v, fd, got, got.addr, want)
			}
		}
		for _, fd := range []int{-1, 1 << 20, 1000} {
			if got := getf.call(t, fd); got.fault != 0 || got.num != 0 {
				t.Errorf("%v: getf(%d) = %v", v, fd, got)
			}
		}
		cwd := newKernelBench(t, v, CWD)
		if got := cwd.call(t, 0); got.str != wd {
			t.Errorf("%v: cwd = %v (at %#x), want %q", v, got, got.addr, wd)
		}
		if got := cwd.call(t, 1); got.str != "/" {
			t.Errorf("%v: root = %v (at %#x), want /", v, got, got.addr)
		}
	}
}
