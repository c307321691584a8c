package testkernel

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

type lacking struct{}

func (lacking) Error() string { return "no time machine" }
func (lacking) FeatureMissing() (name, since, workaround string) {
	return "time machine", "Linux 9.9", "wait"
}

func TestSkipIfUnsupported(t *testing.T) {
	rec := &recorder{TB: t}
	SkipIfUnsupported(rec, fmt.Errorf("attach: %w", os.ErrPermission))
	SkipIfUnsupported(rec, nil)
	if rec.skip != "" {
		t.Errorf("skipped on an error of another type: %s", rec.skip)
	}
	SkipIfUnsupported(rec, fmt.Errorf("attach: %w", lacking{}))
	if want := "SKIP-FEATURE: time machine (since Linux 9.9)"; rec.skip != want {
		t.Errorf("skip text %q, want %q", rec.skip, want)
	}
}

// recorder is a testing.TB whose skips are only remembered.
type recorder struct {
	testing.TB
	skip string
}

func (r *recorder) Skipf(format string, args ...any) { r.skip = fmt.Sprintf(format, args...) }

func TestHeldAndLoaded(t *testing.T) {
	RequireRoot(t)
	CheckLeaks(t)
	CheckMachine(t)
	before, err := Held()
	if err != nil {
		t.Fatal(err)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "leak_me", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	o := Object{"map", uint32(id)}
	held, err := Held()
	if err != nil || before[o] || !held[o] {
		t.Errorf("%v: held before %v, with the map open %v (%v)", o, before[o], held[o], err)
	}
	all, err := Loaded()
	if err != nil || all[o] != "leak_me" {
		t.Errorf("Loaded()[%v] = %q, %v", o, all[o], err)
	}
	m.Close()
	if held, _ := Held(); held[o] {
		t.Errorf("%v: held after Close", o)
	}
}

func TestTrigger(t *testing.T) {
	out, err := exec.Command(Trigger(t, "syscalls"), "-n", "1000").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "calls 1000 ") {
		t.Fatalf("%v: %s", err, out)
	}
}
