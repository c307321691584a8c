package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"godtrace"
)

// stallGrace is how long a reader that takes nothing is waited for once
// tracing was asked to stop.
const stallGrace = 2 * time.Second

// chunk is how much a pipe that poll(2) calls writable takes without blocking:
// PIPE_BUF.
const chunk = 4096

var errStalled = errors.New("the reader takes no more data")

// interrupts counts the signals that asked for the end.
type interrupts struct{ n atomic.Int32 }

func (i *interrupts) any() bool       { return i.n.Load() > 0 }
func (i *interrupts) impatient() bool { return i.n.Load() > 1 }

// output is standard output as a pipe, terminal or socket. A write waits for
// the reader, but not for ever once tracing is to stop: a reader that has gone
// to sleep must not make Ctrl-C wait. When the user is impatient, the rest is
// thrown away.
type output struct {
	f    *os.File
	stop *interrupts
}

// newOutput is f, wrapped if writing to it may have to wait.
func newOutput(f *os.File, stop *interrupts) interface{ Write([]byte) (int, error) } {
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
		return f
	}
	return &output{f, stop}
}

// File is the file itself, for commands that are to write to it.
func (o *output) File() *os.File { return o.f }

func (o *output) Write(b []byte) (int, error) {
	done := 0
	var stalled time.Time // since when, while stopping, nothing was taken
	for done < len(b) {
		if o.stop.impatient() {
			return len(b), nil
		}
		fds := []unix.PollFd{{Fd: int32(o.f.Fd()), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 100)
		if err != nil && err != unix.EINTR {
			return done, o.error(err)
		}
		if n > 0 {
			n, err = unix.Write(int(o.f.Fd()), b[done:min(done+chunk, len(b))])
			if err != nil && err != unix.EINTR && err != unix.EAGAIN {
				return done, o.error(err)
			}
		}
		switch {
		case n > 0:
			done += n
			stalled = time.Time{}
		case !o.stop.any():
		case stalled.IsZero():
			stalled = time.Now()
		case time.Since(stalled) > stallGrace:
			return done, o.error(errStalled)
		}
	}
	return done, nil
}

// closed reports whether f was closed when this process began. Go's runtime
// then opens /dev/null in its place, to which every write succeeds. A
// /dev/null of that kind is told from one that was handed down by who opened
// it: since the exec of this process its credentials are an object of their
// own, which only files opened since refer to.
func closed(f *os.File) bool {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return true
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) || flags&unix.O_ACCMODE != unix.O_RDWR {
		return false
	}
	s, err := godtrace.Open()
	if err != nil {
		return false
	}
	defer s.Close()
	const ours = 7
	p, err := s.Compile(fmt.Sprintf("BEGIN { exit(curthread->files->fdt->fd[%d]->f_cred == curthread->cred ? %d : 0); }", f.Fd(), ours),
		godtrace.CompileOptions{})
	if err != nil {
		return false
	}
	if _, err := s.Exec(p); err != nil {
		return false
	}
	if err := s.Go(); err != nil {
		return false // without the right to look, the benefit of the doubt
	}
	for {
		if st, err := s.Work(); err != nil || st == godtrace.Done {
			return err == nil && s.ExitStatus() == ours
		}
	}
}

func (o *output) error(err error) error {
	return &fs.PathError{Op: "write", Path: o.f.Name(), Err: err}
}

// writeError is the message for output that cannot be written, or nil if err
// is another error.
func writeError(err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok || e.Op != "write" {
		return nil
	}
	name := e.Path
	if name == os.Stdout.Name() {
		name = "<stdout>"
	}
	return failed("failed to write to "+name, e.Err)
}
