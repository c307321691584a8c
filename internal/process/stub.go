package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A created process is a stub at first, which waits and then turns itself into
// the target. Whatever the stub calls once probes are armed would be seen as
// the target's own, so it has to be silent: it is stopped between two of its
// own instructions, and its next call is execve. Of what it waits for it learns
// without a call as well: the gate is a byte of its program, in a file that the
// tracer writes to.
//
// Should the tracer die, the kernel continues the stub (Create), which finds the
// gate half open then and reads from a pipe that nobody will write to.

// stubName is argv[0] of a created process until its exec.
const stubName = "godtrace: waiting to exec"

// What the gate says; 0 at first.
const (
	openGate = iota + 1
	halfOpen
)

// The stub's descriptors: the gate it waits on if it was continued by anyone but
// us, and where it reports that it is there, and the errno of a failed exec.
const (
	gateFD   = 3
	reportFD = 4
)

// stubFile is the path of the stub's program and the file itself. Where there is
// none for this processor, or executable memory files are forbidden
// (vm.memfd_noexec=2), this very binary takes its place, with no file: it waits
// in read, and calls of its language's runtime may be seen before the exec.
//
// Its descriptor is well above those that the child is given: os.StartProcess
// takes the numbers that follow theirs for its own use in the child.
func stubFile(inUse ...*os.File) (path string, file *os.File) {
	self := ownProgram()
	if len(stubProgram) == 0 {
		return self, nil
	}
	fd, err := unix.MemfdCreate("godtrace", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if err == unix.EINVAL { // before 6.3 all of them were executable
		fd, err = unix.MemfdCreate("godtrace", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return self, nil
	}
	if n, err := unix.Write(fd, stubProgram); err != nil || n != len(stubProgram) {
		unix.Close(fd)
		return self, nil
	}
	above := uintptr(0)
	for _, f := range inUse {
		above = max(above, f.Fd())
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, int(above)+len(inUse)+8)
	unix.Close(fd)
	if err != nil {
		return self, nil
	}
	return fmt.Sprintf("/proc/self/fd/%d", high), os.NewFile(uintptr(high), "stub")
}

// ownProgram is the path of this binary.
func ownProgram() string {
	self, err := os.Executable()
	if err != nil {
		return "/proc/self/exe"
	}
	return self
}

// openTo sets the gate in the stub's program.
func openTo(stub *os.File, gate byte) error {
	_, err := stub.WriteAt([]byte{gate}, int64(len(stubProgram)-1))
	return err
}

// stopStub returns once the stub is stopped among its own instructions.
func (t *Target) stopStub() error {
	if err := t.proc.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var info unix.Siginfo
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_PID, t.PID, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
	}
	if err != nil || info.Code != cldStopped {
		return err // or it has ended, which is found out when it is to go on
	}
	// Now that stop is over for whoever waits for the next one.
	if err := unix.Waitid(unix.P_PID, t.PID, &info, unix.WSTOPPED|unix.WNOHANG, nil); err != nil {
		return err
	}
	return openTo(t.stub, halfOpen)
}

// awaitRead returns once process pid sleeps in the read of its gate, or has
// ended. /proc/PID/syscall (proc(5)) shows the number of the call and its
// arguments in hexadecimal while a process sleeps.
func awaitRead(pid int) {
	want := fmt.Sprintf("%d 0x%x ", unix.SYS_READ, gateFD)
	const ended = "-1 0x0 0x0" // no stack any more
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		if err != nil || len(b) == 0 || strings.HasPrefix(string(b), want) || strings.HasPrefix(string(b), ended) {
			return
		}
		time.Sleep(20 * time.Microsecond)
	}
}

// This binary in the stub's place. That happens in init, before anything else
// of the program runs. The thread must be the main one: probes filtered by pid
// were seen not to fire when another thread did the exec.
func init() {
	if len(os.Args) < 3 || os.Args[0] != stubName {
		return
	}
	runtime.LockOSThread()
	syscall.CloseOnExec(gateFD)
	syscall.CloseOnExec(reportFD)
	syscall.Write(reportFD, []byte{'g'})
	var b [1]byte
	n, err := syscall.Read(gateFD, b[:])
	for err == syscall.EINTR {
		n, err = syscall.Read(gateFD, b[:])
	}
	if n != 1 {
		os.Exit(127) // the tracer went away
	}
	err = syscall.Exec(os.Args[1], os.Args[2:], os.Environ())
	var errno syscall.Errno
	errors.As(err, &errno)
	syscall.Write(reportFD, []byte{byte(errno)})
	os.Exit(127)
}
