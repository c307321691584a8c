package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"godtrace"
)

// The command runs in scripts under both its names: this test binary is it.
func TestMain(m *testing.M) {
	command := func() { os.Exit(run(os.Args, stdio{os.Stdin, os.Stdout, os.Stderr})) }
	testscript.Main(m, map[string]func(){"godtrace": command, "dtrace": command})
}

// The scripts are dtrace(1) as its users see it: words, statuses, messages.
// The condition root wants the right to load programs; lines of it are skipped
// without, whole scripts begin with [!root] skip.
func TestScripts(t *testing.T) {
	testscript.RunT(quiet{t}, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Condition: func(cond string) (bool, error) {
			return cond == "root" && mayTrace(), nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"count": count,
		},
	})
}

// quiet keeps the output of scripts that pass to itself: lists of probes are
// long.
type quiet struct{ *testing.T }

func (t quiet) Verbose() bool { return false }

func (t quiet) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(quiet{t}) })
}

// mayTrace says whether this process has the rights that tracing needs.
func mayTrace() bool {
	caps, err := godtrace.Capabilities()
	if err != nil {
		return false
	}
	for _, c := range caps {
		if c.Needed && !c.Have {
			return false
		}
	}
	return true
}

// count N TEXT [FILE] fails unless as many lines of the file (or the standard
// output) contain the text.
func count(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: count N TEXT [FILE]")
	}
	file := "stdout"
	if len(args) == 3 {
		file = args[2]
	}
	n := 0
	for line := range strings.Lines(ts.ReadFile(file)) {
		if strings.Contains(line, args[1]) {
			n++
		}
	}
	if got := strings.TrimSpace(args[0]); got != strconv.Itoa(n) {
		ts.Fatalf("%d lines of %s contain %q, want %s:\n%s", n, file, args[1], got, ts.ReadFile(file))
	}
}
