// Measure runs a command with its output thrown away and prints four numbers:
// wall and CPU time in nanoseconds, peak resident memory in KiB, and the exit
// status. It is a program of its own, and a small one, because a process
// starts with the peak memory of the one that forked it.
package main

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Stderr.WriteString("usage: measure COMMAND [ARG...]\n")
		os.Exit(2)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		os.Stderr.WriteString("measure: " + err.Error() + "\n")
		os.Exit(2)
	}
	attr := &os.ProcAttr{Files: []*os.File{null, null, null}, Env: os.Environ()}
	if root := os.Getenv("MEASURE_ROOT"); root != "" {
		attr.Sys = &syscall.SysProcAttr{Chroot: root}
		attr.Dir = "/"
	}
	start := time.Now()
	p, err := os.StartProcess(os.Args[1], os.Args[1:], attr)
	if err != nil {
		os.Stderr.WriteString("measure: " + err.Error() + "\n")
		os.Exit(2)
	}
	state, err := p.Wait()
	wall := time.Since(start)
	if err != nil {
		os.Stderr.WriteString("measure: " + err.Error() + "\n")
		os.Exit(2)
	}
	cpu := state.UserTime() + state.SystemTime()
	rss := state.SysUsage().(*syscall.Rusage).Maxrss
	for _, n := range []int64{int64(wall), int64(cpu), rss, int64(state.ExitCode())} {
		os.Stdout.WriteString(strconv.FormatInt(n, 10) + " ")
	}
	os.Stdout.WriteString("\n")
}
