package process

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"godtrace/internal/symbol"
	"godtrace/internal/testkernel"
)

// watch begins to watch, until the test ends, what processes do; their events
// are for the processes that it returns.
func watch(t *testing.T) (*Events, *symbol.Processes) {
	t.Helper()
	testkernel.RequireRoot(t)
	testkernel.CheckLeaks(t)
	e, err := WatchEvents()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, symbol.NewProcesses()
}

// Who polls is woken by what a process does, and can read of it then.
func TestEventsWake(t *testing.T) {
	e, procs := watch(t)
	var fds []unix.PollFd
	for _, fd := range e.Files() {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for range 3 {
		cmd := exec.Command("true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		var forked, mapped, ended bool
		for !ended {
			if n, err := unix.Poll(fds, 30000); n <= 0 {
				t.Fatalf("poll: %d, %v", n, err)
			}
			for _, c := range e.Drain(procs) {
				if c.PID == pid {
					forked = forked || c.Parent != 0
					mapped = mapped || c.Parent == 0 && !c.Ended
					ended = ended || c.Ended
				}
			}
		}
		if !forked || !mapped {
			t.Errorf("process %d: forked %v, mapped %v", pid, forked, mapped)
		}
		cmd.Wait()
	}
}

// A process in a root of its own that has gone before anybody looked: its file
// is known by another process that has it mapped.
func TestEventsOfGoneElsewhere(t *testing.T) {
	e, procs := watch(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/inside", b, 0o755); err != nil {
		t.Fatal(err)
	}
	o, err := symbol.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	fn, ok := o.Named("godtrace/internal/process.TestEventsOfGone")
	if !ok {
		t.Fatal("the test has no symbols")
	}
	inside := func(arg ...string) *exec.Cmd {
		cmd := exec.Command("/inside", arg...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		cmd.Dir, cmd.Env = "/", []string{}
		return cmd
	}
	lookup := func(pid int) symbol.Loc { return procs.Lookup(pid, fn.Value+1) }
	gone := inside("-test.run=NothingOfThatName")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	e.Drain(procs)
	if l := lookup(gone.Process.Pid); l.Module != "inside" || l.Name != "" {
		t.Errorf("nobody has seen the file: %v", l)
	}
	lives := inside("-test.run=TestWaitsForInput")
	lives.Env = []string{"WAIT=1"}
	in, _ := lives.StdinPipe()
	out, _ := lives.StdoutPipe()
	if err := lives.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if l := lookup(lives.Process.Pid); l.Name != fn.Name {
		t.Errorf("the process that lives: %v", l)
	}
	in.Close()
	lives.Wait()
	again := inside("-test.run=NothingOfThatName")
	if err := again.Run(); err != nil {
		t.Fatal(err)
	}
	e.Drain(procs)
	if l := lookup(again.Process.Pid); l.Name != fn.Name || l.Off != 1 || l.Module != "inside" {
		t.Errorf("process %d: %v, want inside`%s+0x1", again.Process.Pid, l, fn.Name)
	}
}

// TestWaitsForInput is the program of another test.
func TestWaitsForInput(t *testing.T) {
	if os.Getenv("WAIT") == "" {
		return
	}
	os.Stdout.WriteString("x")
	os.Stdin.Read(make([]byte, 1))
}

// Processes that have gone before anybody looked are known by what they mapped.
func TestEventsOfGone(t *testing.T) {
	e, procs := watch(t)
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
