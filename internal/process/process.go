// Package process creates (-c) and grabs (-p) the programs that a session
// traces, and follows them to their end. No ptrace is held at any time: a
// created process waits on a pipe before its exec until the probes are armed,
// so that SIGKILL of the tracer leaves nothing behind.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Target is a process of interest to the session.
type Target struct {
	PID     int
	Name    string // its command, for messages
	Path    string // of the file a created process executes
	Created bool
	state   state
	stub    *os.File // its program, with the gate; nil if that is our own
	gate    *os.File // write a byte: go
	report  *os.File
	proc    *os.Process
	pidfd   int
	done    chan struct{}
	once    sync.Once
	status  syscall.WaitStatus
	known   bool // status is
}

// state is how far a created process has come.
type state uint8

const (
	held    state = iota // before its exec
	stopped              // after it, by SIGSTOP
	running
)

// Create starts cmd, a command line split at blanks as dtrace(1) does (no
// shell, no quotes), held before its exec until Release.
//
// env changes its environment: NAME=VALUE sets a variable, NAME takes it away.
func Create(cmd string, env ...string) (*Target, error) {
	argv := strings.Fields(cmd)
	if len(argv) == 0 {
		return nil, errors.New("-c needs a command")
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, fmt.Errorf("failed to execute %s: %w", argv[0], lookupErrno(err))
	}
	gateR, gateW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer gateR.Close()
	repR, repW, err := os.Pipe()
	if err != nil {
		gateW.Close()
		return nil, err
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr, gateR, repW}
	attr := &os.ProcAttr{
		Env:   environ(env),
		Files: files,
		// Should we die while it is stopped, it runs on.
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGCONT},
	}
	args := append([]string{stubName, path}, argv...)
	program, stub := stubFile(files...)
	p, err := os.StartProcess(program, args, attr)
	if err != nil && stub != nil { // who may execute what can be restricted
		stub.Close()
		stub = nil
		p, err = os.StartProcess(ownProgram(), args, attr)
	}
	repW.Close()
	if err != nil {
		gateW.Close()
		repR.Close()
		return nil, fmt.Errorf("failed to execute %s: %w", argv[0], err)
	}
	t := &Target{PID: p.Pid, Name: argv[0], Path: path, Created: true, stub: stub, gate: gateW, report: repR, proc: p, done: make(chan struct{})}
	t.pidfd, err = unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("pidfd of %d: %w", p.Pid, err)
	}
	if err := t.hold(); err != nil {
		t.Close()
		return nil, fmt.Errorf("failed to hold %s: %w", argv[0], err)
	}
	return t, nil
}

// lookupErrno is what execve would have said of a command that was not found.
func lookupErrno(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return syscall.ENOENT
	case errors.Is(err, fs.ErrPermission):
		return syscall.EACCES
	}
	return err
}

// hold returns once the stub can be left alone.
func (t *Target) hold() error {
	var ready [1]byte
	if _, err := t.report.Read(ready[:]); err != nil {
		return err
	}
	if t.stub != nil {
		return t.stopStub()
	}
	awaitRead(t.PID)
	return nil
}

// Grab takes an interest in the running process pid.
func Grab(pid int) (*Target, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if err == unix.ESRCH || err == unix.EINVAL {
			return nil, fmt.Errorf("failed to grab pid %d: %w", pid, unix.ESRCH)
		}
		return nil, fmt.Errorf("failed to grab pid %d: %w", pid, err)
	}
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return &Target{PID: pid, Name: strings.TrimSpace(string(name)), pidfd: fd, done: make(chan struct{})}, nil
}

// Held reports whether a created process has not executed its program yet.
func (t *Target) Held() bool { return t.Created && t.state == held }

// exec lets a created process execute its program. The error is that of the exec.
func (t *Target) exec() error {
	err := error(nil)
	if t.stub != nil {
		err = openTo(t.stub, openGate)
		t.stub.Close()
	}
	// The byte is for one that was continued in between, by Ctrl-Z and fg.
	if _, werr := t.gate.Write([]byte{1}); err == nil {
		err = werr
	}
	if t.stub != nil && err == nil {
		err = t.proc.Signal(syscall.SIGCONT)
	}
	if err != nil {
		return fmt.Errorf("%s is gone before it began: %w", t.Name, err)
	}
	t.gate.Close()
	// The pipe closes on exec; a byte is the errno of one that failed.
	var b [1]byte
	n, _ := t.report.Read(b[:])
	t.report.Close()
	t.state = running
	if n == 1 {
		t.Kill()
		return fmt.Errorf("failed to execute %s: %w", t.Name, syscall.Errno(b[0]))
	}
	return nil
}

// RunToStop lets a created process run until something stops it by SIGSTOP;
// Release continues it.
func (t *Target) RunToStop() error {
	if !t.Held() {
		return fmt.Errorf("%s runs already", t.Name)
	}
	if err := t.exec(); err != nil {
		return err
	}
	return t.awaitStop()
}

func (t *Target) awaitStop() error {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, t.PID, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return fmt.Errorf("waiting for %s to stop: %w", t.Name, err)
		}
	}
	if info.Code != cldStopped {
		return fmt.Errorf("%s ended before its program began", t.Name)
	}
	t.state = stopped
	return nil
}

// cldStopped is CLD_STOPPED of <signal.h>: why a child changed state.
const cldStopped = 5

// Release lets a created process exec and run, or run on from where it was
// stopped. The error is that of the exec. From now on Done tells its end.
func (t *Target) Release() error {
	switch {
	case !t.Created:
	case t.state == stopped:
		t.state = running
		if err := t.proc.Signal(syscall.SIGCONT); err != nil {
			return fmt.Errorf("%s is gone before it began: %w", t.Name, err)
		}
	case t.state == held:
		if err := t.exec(); err != nil {
			return err
		}
	}
	go t.watch()
	return nil
}

// Continue lets a process that was stopped on its way run on.
func (t *Target) Continue() { t.proc.Signal(syscall.SIGCONT) }

// watch waits for the end of the process and closes done.
func (t *Target) watch() {
	if t.Created {
		if st, err := t.proc.Wait(); err == nil {
			t.status, t.known = st.Sys().(syscall.WaitStatus), true
		}
	} else {
		fds := []unix.PollFd{{Fd: int32(t.pidfd), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(fds, -1); err != unix.EINTR {
				break
			}
		}
	}
	close(t.done)
}

// Done is closed when the process has ended.
func (t *Target) Done() <-chan struct{} { return t.done }

// Ended says in dtrace(1)'s words how the process ended. Valid after Done.
// How a grabbed process ended is not ours to know.
func (t *Target) Ended() string {
	switch {
	case t.known && t.status.Signaled():
		return fmt.Sprintf("pid %d terminated by %s", t.PID, unix.SignalName(t.status.Signal()))
	case t.known && t.status.ExitStatus() != 0:
		return fmt.Sprintf("pid %d exited with status %d", t.PID, t.status.ExitStatus())
	}
	return fmt.Sprintf("pid %d has exited", t.PID)
}

// Kill ends a created process and reaps it. A grabbed one is left alone.
func (t *Target) Kill() {
	if !t.Created {
		return
	}
	t.proc.Kill()
	select {
	case <-t.done:
	default:
		t.once.Do(func() { t.proc.Wait() })
	}
}

// Close lets go: a created process that still runs is killed, a grabbed one
// runs on.
func (t *Target) Close() {
	if t.Created {
		select {
		case <-t.done:
		default:
			t.proc.Kill()
			// Reaped here or by watch: a zombie would outlive us where init is slack.
			t.proc.Wait()
		}
		t.gate.Close()
		t.report.Close()
		t.stub.Close()
	}
	unix.Close(t.pidfd)
}

// environ is the environment of this process with changes.
func environ(changes []string) []string {
	env := os.Environ()
	for _, change := range changes {
		name, _, set := strings.Cut(change, "=")
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if set {
			env = append(env, change)
		}
	}
	return env
}
