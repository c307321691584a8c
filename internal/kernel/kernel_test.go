package kernel

import (
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestVersion(t *testing.T) {
	for release, want := range map[string]int{
		"6.1.0-37-amd64": Version(6, 1), "6.12-rc1": Version(6, 12), "7.2": Version(7, 2), "7.0+": Version(7, 0), "": 0, "linux": 0,
	} {
		if got := versionOf(release); got != want {
			t.Errorf("%q: %#x, want %#x", release, got, want)
		}
	}
	if Version(6, 12) <= Version(6, 9) || Version(7, 0) <= Version(6, 300) {
		t.Error("versions do not compare by their numbers")
	}
	if !AtLeast(2, 6) || AtLeast(1000, 0) {
		t.Errorf("%s: AtLeast", Release())
	}
}

func TestCPUs(t *testing.T) {
	for list, want := range map[string][]int{"0": {0}, "0-3,5": {0, 1, 2, 3, 5}, "7,0-1": {0, 1, 7}} {
		if got, err := parseCPUs(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
	for _, list := range []string{"", "a", "3-1", "0-", "0-99999999"} {
		if got, err := parseCPUs(list); err == nil {
			t.Errorf("%q: %v, no error", list, got)
		}
	}
	// This thread may run on some of them.
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	cpus, err := OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * int(unsafe.Sizeof(may)) {
		if may.IsSet(i) && !slices.Contains(cpus, i) {
			t.Errorf("CPU %d is in use, but not among %v", i, cpus)
		}
	}
}

func TestFDInfo(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("seven 7"); err != nil {
		t.Fatal(err)
	}
	if got := FDInfo(int(f.Fd()))["pos"]; got != 7 {
		t.Errorf("position %d after 7 bytes", got)
	}
	if m := FDInfo(-1); m != nil {
		t.Errorf("no such descriptor: %v", m)
	}
}

// The attributes of a call live on the stack, and so may what they point to:
// both are found wherever the stack has moved.
func TestBPFOnMovingStack(t *testing.T) {
	attr := struct{ typ, keySize, valSize, entries uint32 }{unix.BPF_MAP_TYPE_ARRAY, 4, 8, 1}
	fd, err := BPF(unix.BPF_MAP_CREATE, &attr)
	if err != nil {
		t.Skipf("SKIP-ROOT: %v", err)
	}
	defer unix.Close(fd)
	type elem struct {
		fd         uint32
		key, value unsafe.Pointer
		_          uint64
	}
	for depth := range 300 {
		done := make(chan error)
		go func() { // a new stack, which is small
			var err error
			descend(depth, func() {
				key, value := uint32(0), uint64(depth)
				if _, err = BPF(unix.BPF_MAP_UPDATE_ELEM, &elem{fd: uint32(fd), key: unsafe.Pointer(&key), value: unsafe.Pointer(&value)}); err != nil {
					return
				}
				value = 0
				_, err = BPF(unix.BPF_MAP_LOOKUP_ELEM, &elem{fd: uint32(fd), key: unsafe.Pointer(&key), value: unsafe.Pointer(&value)})
				if err == nil && value != uint64(depth) {
					t.Errorf("depth %d: read %d", depth, value)
				}
			})
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatalf("depth %d: %v", depth, err)
		}
	}
}

//go:noinline
func descend(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	descend(n-1, f)
}
