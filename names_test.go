package godtrace

import (
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// The names that Linux has beside those of other systems are what /proc says
// of this process.
func TestLinuxNames(t *testing.T) {
	testkernel.RequireRoot(t)
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := s.Compile(`syscall::getpgid:entry /pid == $pid/
		{ printf("%s %u %d %s", comm_leader, netns, pidns_pid, cgroupname); exit(0); }`, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(p); err != nil {
		t.Fatal(err)
	}
	// Since 7.0 other firings may be skipped; this one is looked for.
	s.Handlers.Drop = func(d Drop) error {
		if d.Kind != "DTRACEDROP_RECURSION" {
			return errors.New(d.Msg)
		}
		return nil
	}
	var got []any
	s.Handlers.Record = func(r *Record) error { got = r.Values(); return nil }
	if err := s.Go(); err != nil {
		testkernel.SkipIfUnsupported(t, err)
		t.Fatal(err)
	}
	if _, err := unix.Getpgid(0); err != nil {
		t.Fatal(err)
	}
	for {
		st, err := s.Work()
		if err != nil {
			t.Fatal(err)
		}
		if st == Done {
			break
		}
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := os.Readlink("/proc/self/ns/net") // net:[4026531833]
	if err != nil {
		t.Fatal(err)
	}
	netns, err := strconv.ParseUint(strings.Trim(strings.TrimPrefix(ns, "net:"), "[]"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 4 {
		t.Fatalf("recorded %v", got)
	}
	if got[0] != strings.TrimSpace(string(comm)) || got[1] != netns || got[2] != int64(os.Getpid()) {
		t.Errorf("leader %v, network %v, pid %v; want %s, %d, %d", got[0], got[1], got[2], comm, netns, os.Getpid())
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(groups)) {
		if of2, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			if want := strings.TrimPrefix(path.Base(of2), "/"); got[3] != want {
				t.Errorf("cgroup %q, want %q", got[3], want)
			}
		}
	}
}
