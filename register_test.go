package godtrace

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// ids names system calls after what they are about.
type ids struct{}

func (ids) Name() string { return "ids" }

func (ids) Probes(d ProbeDesc) ([]Naming, error) {
	var out []Naming
	for name, call := range map[string]string{"parent": "getppid", "group": "getpgid"} {
		n := Naming{ProbeDesc{"ids", "", "", name}, ProbeDesc{"syscall", "", call, "entry"}}
		if d.Match(n.Name) {
			out = append(out, n)
		}
	}
	return out, nil
}

// broken has a probe that nothing stands behind.
type broken struct{}

func (broken) Name() string { return "broken" }

func (broken) Probes(d ProbeDesc) ([]Naming, error) {
	if d.Provider != "broken" {
		return nil, nil
	}
	if d.Name == "failing" {
		return nil, errors.New("failed on purpose")
	}
	return []Naming{{ProbeDesc{"broken", "", "", "p"}, ProbeDesc{"syscall", "", "no_such_call", "entry"}}}, nil
}

func init() {
	Register(ids{})
	Register(broken{})
}

func TestRegisterTaken(t *testing.T) {
	for _, p := range []Provider{ids{}, takenName{}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a second provider %s was registered", p.Name())
				}
			}()
			Register(p)
		}()
	}
}

type takenName struct{ ids }

func (takenName) Name() string { return "syscall" }

func TestRegisteredErrors(t *testing.T) {
	for src, want := range map[string]string{
		"broken:::p {}":       "broken:::p: syscall::no_such_call:entry matches 0 probes, expected one",
		"broken:::failing {}": "provider broken: failed on purpose",
	} {
		s, err := Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Compile(src, CompileOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", src, err, want)
		}
		s.Close()
	}
}

// Probes of a registered provider fire beside those that they stand for, with
// the same arguments, under their own names.
func TestRegistered(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckLeaks(t)
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := s.Compile(`ids::: /pid == $pid/ { @[probeprov, probename, arg0] = count(); }
		syscall::getpgid:entry /pid == $pid/ { @[probeprov, probename, arg0] = count(); }`, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Exec(p); n != 3 || err != nil {
		t.Fatalf("%d probes matched, %v; want 3", n, err)
	}
	if err := s.Go(); err != nil {
		testkernel.SkipIfUnsupported(t, err)
		t.Fatal(err)
	}
	const calls = 5
	for range calls {
		if _, err := unix.Getpgid(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
	for {
		st, err := s.Work()
		if err != nil {
			t.Fatal(err)
		}
		if st == Done {
			break
		}
	}
	aggs, err := s.Aggregations()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, r := range aggs[0].Rows {
		if r.Key[2] == int64(os.Getpid()) {
			got[r.Key[0].(string)+":"+r.Key[1].(string)] = r.Value
		}
	}
	if len(got) != 2 || got["ids:group"] != calls || got["syscall:entry"] != calls {
		t.Errorf("counted %v, want %d of each", got, calls)
	}
}
