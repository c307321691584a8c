// Init is the first process of a guest: it makes the file systems that tests
// expect, runs the plan, reports, and switches the machine off.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/test/vm/plan"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this is the first process of a test guest")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Println("init:", err) // to the console, which the host keeps
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	for _, m := range []struct{ kind, dir, data string }{
		{"devtmpfs", "/dev", ""},
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"devpts", "/dev/pts", "mode=620,ptmxmode=666"},
		{"tmpfs", "/dev/shm", ""},
		{"tmpfs", "/run", ""},
		{"tmpfs", "/tmp", "mode=1777"},
		{"tracefs", "/sys/kernel/tracing", ""},
		{"debugfs", "/sys/kernel/debug", ""},
		{"bpf", "/sys/fs/bpf", ""},
		{"cgroup2", "/sys/fs/cgroup", ""},
	} {
		os.MkdirAll(m.dir, 0o755)
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, m.data); err != nil && !errors.Is(err, unix.EBUSY) {
			fmt.Printf("init: mount %s: %v\n", m.dir, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		os.Symlink(to, "/dev/"+name)
	}
	unix.Sethostname([]byte("guest"))
	unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 524288}) // as systemd
	os.Setenv("PATH", "/bin:/trigger")
	os.Setenv("HOME", "/root")
	os.Setenv("TERM", "dumb")
	exec.Command("/bin/ip", "link", "set", "lo", "up").Run()

	port, err := os.OpenFile("/dev/ttyS1", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	if err := raw(port); err != nil {
		return fmt.Errorf("ttyS1: %w", err)
	}
	text, err := os.ReadFile(plan.File)
	if err != nil {
		return err
	}
	var p plan.Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("%s: %w", plan.File, err)
	}
	for _, v := range p.Env {
		name, value, _ := strings.Cut(v, "=")
		os.Setenv(name, value)
	}
	for _, m := range p.Modules {
		if out, err := exec.Command("/bin/modprobe", m).CombinedOutput(); err != nil {
			fmt.Printf("init: modprobe %s: %v: %s\n", m, err, out)
		}
	}
	go reap()
	for _, c := range p.Commands {
		fmt.Fprintf(port, "%s%s\n", plan.Begin, c.Name)
		start := time.Now()
		status := command(c, port)
		taint, _ := os.ReadFile("/proc/sys/kernel/tainted")
		fmt.Fprintf(port, "\n%s%s %d %s %.1f\n", plan.End, c.Name, status,
			strings.TrimSpace(string(taint)), time.Since(start).Seconds())
	}
	fmt.Fprintf(port, "%s\n", plan.Off)
	unix.IoctlSetInt(int(port.Fd()), unix.TCSBRK, 1) // tcdrain: all is sent
	return nil
}

// raw takes the line discipline off a serial port: bytes go as they are.
func raw(f *os.File) error {
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
	return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
}

// command runs one command in a session of its own and returns its status as
// a shell would. What it leaves running in that session is killed.
func command(c plan.Command, out io.Writer) int {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(out, "init:", err)
		return 125
	}
	defer r.Close()
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		fmt.Fprintln(out, "init:", err)
		return 127
	}
	copied := make(chan struct{})
	go func() {
		io.Copy(out, r)
		close(copied)
	}()
	if c.Timeout > 0 {
		quit := time.AfterFunc(c.Timeout, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT) })
		kill := time.AfterFunc(c.Timeout+5*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer quit.Stop()
		defer kill.Stop()
	}
	err = cmd.Wait()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	// A daemon that left the session may still hold the pipe.
	select {
	case <-copied:
	case <-time.After(2 * time.Second):
	}
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		if s := e.Sys().(syscall.WaitStatus); s.Signaled() {
			return 128 + int(s.Signal())
		}
		return e.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(out, "init:", err)
		return 126
	}
	return 0
}

// reap collects the orphans that fall to the first process. A command of the
// plan is its own session leader and is left to command's Wait; an orphan is
// any other zombie child.
func reap() {
	for range time.Tick(200 * time.Millisecond) {
		dirs, _ := os.ReadDir("/proc")
		for _, d := range dirs {
			stat, err := os.ReadFile("/proc/" + d.Name() + "/stat")
			if err != nil {
				continue
			}
			// pid (comm) state ppid pgrp session; comm may hold anything.
			i := bytes.LastIndexByte(stat, ')')
			var state string
			var ppid, pgrp, session, pid int
			if i < 0 {
				continue
			}
			if n, _ := fmt.Sscan(string(stat[i+1:]), &state, &ppid, &pgrp, &session); n != 4 || state != "Z" || ppid != 1 {
				continue
			}
			if fmt.Sscan(d.Name(), &pid); pid != 0 && pid != session {
				syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}
