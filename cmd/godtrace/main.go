// Command godtrace is dtrace(1) for Linux and the tools that grew around it, in
// one binary. Under the name dtrace, or with an option as its first word, it is
// dtrace(1); a bare first word selects another front end.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	_ "time/tzdata" // TZ means the same on systems without the data, or with less of it

	"godtrace"
)

// Exit statuses of dtrace(1).
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// stdio is where a front end reads and writes.
type stdio struct {
	in       *os.File
	out, err *os.File
}

// A frontEnd is a command of its own: its first word, and what it does with
// the words after it. argv[0] is its name.
type frontEnd struct {
	name  string
	about string
	run   func(argv []string, io stdio) int
}

// frontEnds are what a bare first word or the name of a link can select; one
// file each.
var frontEnds []frontEnd

func init() {
	// BEGIN and END fire in the thread they are run by: the process's first one,
	// so that tid is pid there, and curthread the task that commands have.
	runtime.LockOSThread()
	frontEnds = []frontEnd{
		{"dtrace", "trace with programs in D: dtrace(1)", dtraceMain},
		{"doctor", "what this kernel and this user can do, what is missing", doctorMain},
		{"selfcheck", "what probes do to the text of a kernel function, and that it is undone", selfcheckMain},
		{"help", "help on a topic", helpMain},
		{"version", "version of godtrace, of D and of the kernel", versionMain},
	}
}

func findFrontEnd(name string) *frontEnd {
	i := slices.IndexFunc(frontEnds, func(f frontEnd) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &frontEnds[i]
}

func main() {
	if err := godtrace.DropSetuid(); err != nil {
		fmt.Fprintln(os.Stderr, "godtrace:", err)
		os.Exit(exitError)
	}
	os.Exit(run(os.Args, stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// run chooses the front end.
func run(argv []string, io stdio) int {
	if f := findFrontEnd(filepath.Base(argv[0])); f != nil {
		return f.run(argv, io)
	}
	switch {
	case len(argv) == 1:
		printFrontEnds(io.err)
		return exitUsage
	case argv[1] == "--version":
		return versionMain(argv[1:], io)
	case strings.HasPrefix(argv[1], "-"):
		return dtraceMain(argv, io)
	}
	if f := findFrontEnd(argv[1]); f != nil {
		return f.run(argv[1:], io)
	}
	fmt.Fprintf(io.err, "godtrace: no such command: %s\n", argv[1])
	if strings.ContainsAny(argv[1], ":{") {
		fmt.Fprintf(io.err, "godtrace: to enable probes: godtrace -n '%s'\n", argv[1])
	} else if strings.HasSuffix(argv[1], ".d") {
		fmt.Fprintf(io.err, "godtrace: to run a script: godtrace -s %s\n", argv[1])
	}
	printFrontEnds(io.err)
	return exitUsage
}

func printFrontEnds(w io.Writer) {
	fmt.Fprint(w, "Usage: godtrace -option …          dtrace(1): see godtrace --help\n")
	fmt.Fprint(w, "       godtrace command [args …]\n\nCommands:\n")
	for _, f := range frontEnds {
		fmt.Fprintf(w, "  %-10s %s\n", f.name, f.about)
	}
}
