// Package tables holds the tables of what DTrace has against the command, line
// by line: options of the command line (2.1), actions and subroutines (2.4),
// options (2.7), buffers, speculation, faults and drops (2.9a), and the look of
// the output (2.10). Expected output is that of the manuals.
package tables

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"godtrace/internal/testkernel"
)

// line is one line of a table.
type line struct {
	name string // of the line; beside the table's number it names the test
	// cmd is for a shell whose dtrace is the command.
	cmd string
	// out is standard output to the byte, but for CPU and ID of probe lines,
	// which are "-" and "#". "*" is anything.
	out string
	err string // what standard error must match, if anything
	// status is that of the shell's last command.
	status int
	// needs is a feature; a kernel without it must be named as such.
	needs string
}

// block is text that begins on a line of its own in the source.
func block(text string) string { return strings.TrimPrefix(text, "\n") }

// limit ends a line that hangs.
const limit = 2 * time.Minute

func check(t *testing.T, row string, lines []line) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, row)
	bin := t.TempDir()
	if err := os.Symlink(testkernel.Godtrace(t), filepath.Join(bin, "dtrace")); err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		t.Run(strings.ReplaceAll(l.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			run(t, bin, l)
		})
	}
}

var (
	probeLine = regexp.MustCompile(`(?m)^( {0,2}\d+)( +\d+)( +\S*:\S+ )`)
	flowLine  = regexp.MustCompile(`(?m)^ {0,2}\d+( +(?:[-=]>|<[-=]|\|) )`)
)

func run(t *testing.T, bin string, l line) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", l.cmd)
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C", "LANGUAGE=", "TZ=UTC")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("does not end:\n%s\n%s", out.String(), errs.String())
	}
	if l.needs != "" && strings.Contains(errs.String(), "this kernel has no "+l.needs+" (since ") {
		t.Logf("this kernel has not what it needs: %s", errs.String())
		return
	}
	got := probeLine.ReplaceAllString(out.String(), "  -      #$3")
	got = flowLine.ReplaceAllString(got, "  -$1")
	pattern := `\A(?s:` + strings.ReplaceAll(regexp.QuoteMeta(l.out), `\*`, `.*`) + `)\z`
	if !regexp.MustCompile(pattern).MatchString(got) {
		t.Errorf("output:\n%s\nwant:\n%s", got, l.out)
	}
	if !regexp.MustCompile(`(?m)` + l.err).MatchString(errs.String()) {
		t.Errorf("messages:\n%s\nwant %s", errs.String(), l.err)
	}
	if n := c.ProcessState.ExitCode(); n != l.status {
		t.Errorf("status %d, want %d\n%s", n, l.status, errs.String())
	}
	if t.Failed() {
		t.Log(l.cmd)
	}
}
