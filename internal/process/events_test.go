package process

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"godtrace/internal/symbol"
	"godtrace/internal/testkernel"
)

// Processes that have gone before anybody looked are known by what they mapped.
func TestEventsOfGone(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckLeaks(t)
	e, err := WatchEvents()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	procs := symbol.NewProcesses()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		cmd := exec.Command(self, "-test.run=NothingOfThatName")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
			t.Fatal("it has not gone")
		}
		e.Drain(procs)
		o, err := symbol.Open(self)
		if err != nil {
			t.Fatal(err)
		}
		// A Go test binary is linked to fixed addresses.
		fn, ok := o.Named("godtrace/internal/process.TestEventsOfGone")
		if !ok {
			t.Fatal("the test has no symbols")
		}
		if l := procs.Lookup(pid, fn.Value+1); l.Name != fn.Name || l.Off != 1 || l.Module != o.Module() {
			t.Errorf("process %d: %v, want %s+0x1", pid, l, fn.Name)
		}
	}
}
