// Package testkernel is what tests of the kernel half share: who may run them,
// which features may be missing, what must not be left behind, and where the
// programs to be traced are.
package testkernel

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/kernel"
)

// RequireRoot skips the test unless it runs as root.
func RequireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP-ROOT: needs root")
	}
}

// SkipIfUnsupported skips the test when err says, by type, that this kernel
// lacks a feature. Any other error is left to the caller.
func SkipIfUnsupported(t testing.TB, err error) {
	t.Helper()
	var missing interface {
		FeatureMissing() (name, since, workaround string)
	}
	if !errors.As(err, &missing) {
		return
	}
	name, since, _ := missing.FeatureMissing()
	t.Skipf("SKIP-FEATURE: %s (since %s)", name, since)
}

// Shows records that the test demonstrates a row of the list of behaviours
// (such as "3.2"); the matrix prints it beside the test.
func Shows(t testing.TB, rows ...string) {
	t.Helper()
	t.Attr("rows", strings.Join(rows, ","))
}

// InVM reports whether the test runs in a guest of the matrix, and the name of
// its kernel there ("6.1").
func InVM() (kernel string, ok bool) {
	kernel = os.Getenv("GODTRACE_GUEST")
	return kernel, kernel != ""
}

// Object is one BPF object, or perf event, that keeps something alive in the
// kernel. Perf events have no number; theirs is the descriptor's.
type Object struct {
	Kind string // "map", "prog", "link", "perf"
	ID   uint32
}

func (o Object) String() string { return fmt.Sprintf("%s %d", o.Kind, o.ID) }

// Held returns the objects that this process holds descriptors of, read from
// /proc/self/fd and fdinfo.
func Held() (map[Object]bool, error) {
	return HeldBy(os.Getpid())
}

// HeldBy is Held for another process.
func HeldBy(pid int) (map[Object]bool, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	fds, err := os.ReadDir(dir + "fd")
	if err != nil {
		return nil, err
	}
	held := make(map[Object]bool)
	for _, fd := range fds {
		to, err := os.Readlink(dir + "fd/" + fd.Name())
		if err != nil {
			continue // closed since
		}
		o := Object{}
		field := ""
		switch to {
		case "anon_inode:bpf-map":
			o.Kind, field = "map", "map_id:"
		case "anon_inode:bpf-prog":
			o.Kind, field = "prog", "prog_id:"
		case "anon_inode:bpf_link":
			o.Kind, field = "link", "link_id:"
		case "anon_inode:[perf_event]":
			o.Kind = "perf"
			fmt.Sscan(fd.Name(), &o.ID)
		default:
			continue
		}
		if field != "" {
			info, err := os.ReadFile(dir + "fdinfo/" + fd.Name())
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(info)) {
				if v, ok := strings.CutPrefix(line, field); ok {
					fmt.Sscan(v, &o.ID)
				}
			}
		}
		held[o] = true
	}
	return held, nil
}

// Loaded returns every BPF object of the machine, whoever holds it, with its
// name (links have none). It needs root.
func Loaded() (map[Object]string, error) {
	all := make(map[Object]string)
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("programs: %w", err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // gone since
		}
		name := ""
		if info, err := p.Info(); err == nil {
			name = info.Name
		}
		p.Close()
		all[Object{"prog", uint32(id)}] = name
	}
	for id := ebpf.MapID(0); ; {
		next, err := ebpf.MapGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("maps: %w", err)
		}
		id = next
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue
		}
		name := ""
		if info, err := m.Info(); err == nil {
			name = info.Name
		}
		m.Close()
		all[Object{"map", uint32(id)}] = name
	}
	// By number only: one that is being made cannot be opened yet.
	for id := uint32(0); ; {
		next := struct{ start, next, flags uint32 }{start: id}
		_, err := kernel.BPF(unix.BPF_LINK_GET_NEXT_ID, &next)
		if errors.Is(err, os.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("links: %w", err)
		}
		id = next.next
		all[Object{"link", id}] = ""
	}
}

// CheckLeaks fails the test if, when it ends, this process holds BPF objects
// or perf events that it did not hold now. Objects that are closed in the
// background have two seconds. Not for parallel tests.
func CheckLeaks(t testing.TB) {
	t.Helper()
	before, err := Held()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var left []string
		wait(func() bool {
			now, err := Held()
			if err != nil {
				t.Error(err)
				return true
			}
			left = left[:0]
			for o := range now {
				if !before[o] {
					left = append(left, o.String())
				}
			}
			return len(left) == 0
		})
		if len(left) > 0 {
			sort.Strings(left)
			t.Errorf("left open: %s", strings.Join(left, ", "))
		}
	})
}

// ours marks the processes that descend from this one.
const ours = "GODTRACE_TEST_PROCESS"

// heldByOthers returns what processes hold that do not descend from this one.
func heldByOthers() map[Object]bool {
	all := make(map[Object]bool)
	mark := []byte(ours + "=" + os.Getenv(ours))
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, _ := os.ReadFile("/proc/" + d.Name() + "/environ")
		if slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.Equal(v, mark) }) {
			continue
		}
		held, _ := HeldBy(pid) // nothing if it has ended
		maps.Copy(all, held)
	}
	return all
}

// CheckMachine fails the test if, when it ends, the machine has BPF objects
// that it did not have now. Those of other tracers, started by others and
// running, do not count. It is for tests that kill a tracer; the kernel has
// five seconds to reap it.
func CheckMachine(t testing.TB) {
	t.Helper()
	RequireRoot(t)
	if os.Getenv(ours) == "" {
		os.Setenv(ours, strconv.Itoa(os.Getpid()))
	}
	before, err := Loaded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var left []string
		wait(func() bool {
			now, err := Loaded()
			if err != nil {
				t.Error(err)
				return true
			}
			maps.DeleteFunc(now, func(o Object, _ string) bool { _, ok := before[o]; return ok })
			if len(now) > 0 {
				others := heldByOthers()
				maps.DeleteFunc(now, func(o Object, _ string) bool { return others[o] })
			}
			left = left[:0]
			for o, name := range now {
				left = append(left, o.String()+" "+name)
			}
			return len(left) == 0
		})
		if len(left) > 0 {
			sort.Strings(left)
			t.Errorf("left in the kernel: %s", strings.Join(left, ", "))
		}
	})
}

// wait asks done until it says yes or five seconds have gone.
func wait(done func() bool) {
	for end := time.Now().Add(5 * time.Second); !done() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
}

// AwaitCall returns once a process sleeps in a system call, given as proc(5) has
// it in /proc/PID/syscall or the beginning of that: the number, and arguments in
// hexadecimal.
func AwaitCall(t testing.TB, pid int, call string) {
	t.Helper()
	var b []byte
	for end := time.Now().Add(Patience()); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var err error
		if b, err = os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid)); err == nil && strings.HasPrefix(string(b), call+" ") {
			return
		}
	}
	t.Fatalf("process %d is not in call %q, but in %q", pid, call, b)
}

// moduleRoot is the folder of go.mod, found upwards from the working folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working folder")
		}
		dir = up
	}
}
