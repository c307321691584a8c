// Boot runs one command in a guest: by hand, what the matrix does with tests.
//
//	go run ./test/vm/boot [-cpus N] [-mem MB] [-timeout D] [-mod NAME,...] [-packages NAME,...] [-add FILE,...] KERNEL COMMAND [ARG...]
//
// Added files and folders land in /add, which is the working folder and in
// PATH. The status is the command's; 125: the guest died or timed out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"godtrace/test/vm"
	"godtrace/test/vm/plan"
)

func main() {
	cpus := flag.Int("cpus", 2, "virtual CPUs")
	memory := flag.Int("mem", 2048, "memory in MiB")
	timeout := flag.Duration("timeout", 5*time.Minute, "for the whole run")
	modules := flag.String("mod", "", "kernel modules to load, by commas")
	packages := flag.String("packages", "", "Debian packages to take along, by commas")
	add := flag.String("add", "", "files and folders to take along, by commas")
	console := flag.Bool("console", false, "print the guest's console afterwards")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: boot [flags] KERNEL COMMAND [ARG...]")
		flag.PrintDefaults()
		os.Exit(2)
	}
	status, err := run(*cpus, *memory, *timeout, list(*modules), list(*packages), list(*add), *console, flag.Arg(0), flag.Args()[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "boot:", err)
		status = 125
	}
	os.Exit(status)
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func run(cpus, memory int, timeout time.Duration, modules, packages, add []string, console bool, version string, args []string) (int, error) {
	k, err := vm.Find(version)
	if err != nil {
		return 0, err
	}
	tmp, err := os.MkdirTemp("", "godtrace-boot")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	g := vm.Guest{
		Packages: packages,
		Kernel:   k, CPUs: cpus, Memory: memory, Timeout: timeout,
		Init:  filepath.Join(tmp, "init"),
		Files: make(map[string]string),
		Plan: plan.Plan{
			Env:      []string{"GODTRACE_GUEST=" + k.Version, "PATH=/add:/bin"},
			Modules:  modules,
			Commands: []plan.Command{{Name: "command", Dir: "/add", Args: args}},
		},
	}
	build := exec.Command("go", "build", "-o", g.Init, "godtrace/test/vm/init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build godtrace/test/vm/init: %v: %s", err, out)
	}
	for _, f := range add {
		g.Files["/add/"+filepath.Base(f)] = f
	}
	if len(add) == 0 {
		g.Files["/add/init"] = g.Init // so that the folder is there
	}
	rep, err := g.Run(context.Background())
	if rep != nil {
		for _, r := range rep.Results {
			os.Stdout.Write(r.Output)
		}
		for _, w := range rep.Warnings {
			fmt.Fprintln(os.Stderr, "kernel:", w)
		}
		if console {
			os.Stderr.Write(rep.Console)
		}
	}
	if err != nil {
		return 0, err
	}
	return rep.Results[0].Status, nil
}
