package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"godtrace/test/vm"
	"godtrace/test/vm/plan"
)

// raw is what is kept of a run: its samples, and why there are none of others.
type raw struct {
	Machine  string
	Time     time.Time
	Samples  []sample
	Failures map[string]string
}

// inGuest runs the benchmarks in a guest of the kernel matrix: this program
// again, with the tools built here. Its last line of output is its raw result.
func (b *bench) inGuest(version, tmp string, args []string) error {
	k, err := vm.Find(version)
	if err != nil {
		return err
	}
	self, guestInit := filepath.Join(tmp, "bench"), filepath.Join(tmp, "init")
	for out, pkg := range map[string]string{self: "./bench", guestInit: "./test/vm/init"} {
		cmd := exec.Command("go", "build", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if msg, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", pkg, err, msg)
		}
	}
	files := map[string]string{"/bench/bench": self, "/bench/measure": b.measure, "/bench/syscalls": b.trigger, "/bench/godtrace": b.godtrace}
	if b.peers != nil && b.takesPart("bpftrace") {
		need, err := b.peers.needs("/usr/bin/bpftrace")
		if err != nil {
			return err
		}
		for _, f := range need {
			files[guestPeers+f] = filepath.Join(b.peers.root, f)
		}
	}
	g := vm.Guest{
		Kernel: k, Init: guestInit, Files: files, Memory: 4096, Timeout: time.Hour, CPUs: 2, Log: os.Stderr,
		Plan: plan.Plan{
			Env:      []string{"PATH=/bench:/bin", "GODTRACE_GUEST=" + k.Version},
			Commands: []plan.Command{{Name: "bench", Dir: "/bench", Args: append([]string{"/bench/bench", "-built", "/bench"}, args...)}},
		},
	}
	rep, err := g.Run(context.Background())
	if rep != nil {
		for _, w := range rep.Warnings {
			err = errors.Join(err, errors.New("the guest's kernel: "+w))
		}
	}
	if err != nil {
		return err
	}
	out := rep.Results[0].Output
	i := bytes.LastIndex(out, []byte("\n"+rawMark))
	if i < 0 {
		return fmt.Errorf("the guest's bench ended with status %d", rep.Results[0].Status)
	}
	var r raw
	if err := json.Unmarshal(out[i+1+len(rawMark):], &r); err != nil {
		return err
	}
	b.machine, b.samples, b.failures = r.Machine+", emulated", r.Samples, r.Failures
	return nil
}

const (
	rawMark    = "raw: "  // begins the raw result on the guest's output
	guestPeers = "/peers" // where the guest has the peers' files
)

// needs are the paths of a program and what the dynamic loader gives it, below
// the root.
func (p *peers) needs(program string) ([]string, error) {
	const loader = "/lib64/ld-linux-x86-64.so.2"
	out, err := exec.Command("chroot", p.root, loader, "--list", program).Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list %s: %w", loader, program, err)
	}
	paths := []string{program, loader}
	for line := range strings.Lines(string(out)) {
		// "	libz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f…)"
		if _, rest, ok := strings.Cut(line, " => /"); ok {
			path, _, _ := strings.Cut(rest, " ")
			paths = append(paths, "/"+path)
		}
	}
	return paths, nil
}
