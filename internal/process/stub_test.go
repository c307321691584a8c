package process

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The stub is stopped among its instructions when Create returns, under its own
// name, and becomes the target.
func TestStub(t *testing.T) {
	for range 50 {
		target, err := Create("/bin/true")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile("/proc/" + strconv.Itoa(target.PID) + "/stat"); !strings.Contains(string(b), ") T ") {
			t.Fatalf("the stub is not stopped: %s %v", b, err)
		}
		if comm, _ := os.ReadFile("/proc/" + strconv.Itoa(target.PID) + "/comm"); string(comm) != "godtrace\n" {
			t.Fatalf("its name is %q", comm)
		}
		if err := target.Release(); err != nil {
			t.Fatal(err)
		}
		<-target.Done()
		if got := target.Ended(); got != "pid "+strconv.Itoa(target.PID)+" has exited" {
			t.Fatal(got)
		}
		target.Close()
	}
}

// Free descriptors below those of the pipes, which os.StartProcess then takes.
func TestStubDescriptors(t *testing.T) {
	for free := range 12 {
		var held []*os.File
		for range 12 {
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, f)
		}
		for i, f := range held {
			if i >= free {
				f.Close()
			}
		}
		for i, f := range held {
			if i%2 == 0 {
				f.Close()
			}
		}
		target, err := Create("/bin/true")
		if err != nil {
			t.Fatalf("with %d descriptors free: %v", free, err)
		}
		target.Close()
		for _, f := range held {
			f.Close()
		}
	}
}

// A stub that a signal ends before its exec, and programs that cannot be executed.
func TestStubEnds(t *testing.T) {
	target, err := Create("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(target.PID, syscall.SIGKILL)
	if err := target.Release(); err == nil {
		<-target.Done()
		if got := target.Ended(); !strings.Contains(got, "SIGKILL") {
			t.Error(got)
		}
	}
	target.Close()

	file := t.TempDir() + "/script"
	if err := os.WriteFile(file, []byte("neither ELF nor #!"), 0o755); err != nil {
		t.Fatal(err)
	}
	if target, err = Create(file); err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if err := target.Release(); err == nil || !strings.HasSuffix(err.Error(), syscall.ENOEXEC.Error()) {
		t.Errorf("error %v, want %v", err, syscall.ENOEXEC)
	}
}

// One that somebody else continues waits on, asleep.
func TestStubContinued(t *testing.T) {
	target, err := Create("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	syscall.Kill(target.PID, syscall.SIGCONT)
	awaitRead(target.PID)
	if err := target.Release(); err != nil {
		t.Fatal(err)
	}
	<-target.Done()
	if got := target.Ended(); got != "pid "+strconv.Itoa(target.PID)+" has exited" {
		t.Error(got)
	}
}

// This very binary in the stub's place.
func TestOwnStub(t *testing.T) {
	defer func(program []byte) { stubProgram = program }(stubProgram)
	stubProgram = nil
	target, err := Create("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if b, _ := os.ReadFile("/proc/" + strconv.Itoa(target.PID) + "/syscall"); !strings.HasPrefix(string(b), "0 0x3 ") {
		t.Errorf("it is not in read(3): %s", b)
	}
	if err := target.Release(); err != nil {
		t.Fatal(err)
	}
	<-target.Done()
}

// When its tracer goes before the exec, the stub goes too and executes nothing.
func TestStubAlone(t *testing.T) {
	if os.Getenv("GODTRACE_TEST_CREATE") != "" {
		target, err := Create("/bin/touch " + os.Getenv("GODTRACE_TEST_CREATE"))
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString(strconv.Itoa(target.PID) + "\n")
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	file := t.TempDir() + "/touched"
	cmd := exec.Command(os.Args[0], "-test.run=^TestStubAlone$")
	cmd.Env = append(os.Environ(), "GODTRACE_TEST_CREATE="+file)
	out, _ := cmd.Output()
	pid, _, _ := strings.Cut(string(out), "\n")
	if pid == "" {
		t.Fatalf("no pid: %q", out)
	}
	for {
		if b, err := os.ReadFile("/proc/" + pid + "/stat"); err != nil || strings.Contains(string(b), ") Z ") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the target was executed")
	}
}
