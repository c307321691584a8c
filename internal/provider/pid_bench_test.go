package provider

import (
	"os/exec"
	"strconv"
	"testing"

	"godtrace/internal/probe"
)

// BenchmarkPidLibc lists the functions of libc in a process: entries, and
// returns, which need every function's code to be walked.
func BenchmarkPidLibc(b *testing.B) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	for _, name := range []string{"entry", "return"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				ps, err := newPid().Probes(probe.Desc{Provider: "pid" + strconv.Itoa(cmd.Process.Pid), Module: "libc.so.6", Name: name})
				if err != nil || len(ps) == 0 {
					b.Fatal(len(ps), err)
				}
			}
		})
	}
}
