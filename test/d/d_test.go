// Package d_test runs the D programs of this folder with the command itself:
// tst.<what>.d must print tst.<what>.out and, where that exists, tst.<what>.err;
// err.<TAG>.<what>.d must be refused with that tag. Of the latter those with a
// first line as below run here; the others need no kernel, and the checker's
// tests read them.
//
// The first line of a program may be a comment with what differs from
// "dtrace -s FILE":
//
//	/* flags: -q -c "/bin/echo $TRIGGER" args: 1 two exit: 3 */
//
// Flags are split as a shell does it; $TRIGGER is the folder of the programs in
// test/trigger. exit is the expected status of the command, 0 if not given.
// CPU numbers and probe IDs in the output are written as 0, lines of the
// programs in test/trigger are left out.
package d_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"godtrace/internal/testkernel"
)

var update = flag.Bool("update", false, "write .out files that do not exist yet, to be read before they are committed")

// limit is how long a program may take; emulation is ten times slower.
func limit() time.Duration {
	if _, vm := testkernel.InVM(); vm {
		return 2 * time.Minute
	}
	return 20 * time.Second
}

func TestPrograms(t *testing.T) {
	testkernel.RequireRoot(t)
	cmd := testkernel.Godtrace(t)
	trigger := filepath.Dir(testkernel.Trigger(t, "syscalls"))
	files, err := filepath.Glob("tst.*.d")
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(f, "tst."), ".d"), func(t *testing.T) {
			t.Parallel()
			run(t, cmd, trigger, f)
		})
	}
}

// Programs that are refused only with certain options, arguments or processes.
func TestRefused(t *testing.T) {
	testkernel.RequireRoot(t)
	cmd := testkernel.Godtrace(t)
	trigger := filepath.Dir(testkernel.Trigger(t, "syscalls"))
	testkernel.Trigger(t, "calls")
	files, err := filepath.Glob("err.*.d")
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !headerLine.Match(src) && !strings.HasPrefix(f, "err.D_PROC_") {
			continue
		}
		t.Run(strings.TrimSuffix(strings.TrimPrefix(f, "err."), ".d"), func(t *testing.T) {
			t.Parallel()
			flags, args, _ := header(t, string(src), trigger)
			c := exec.CommandContext(t.Context(), cmd, append(append([]string{"-e", "-xerrtags"}, flags...), append([]string{"-s", f}, args...)...)...)
			c.Env = append(os.Environ(), "LC_ALL=C", "LANGUAGE=")
			out, err := c.CombinedOutput()
			var ee *exec.ExitError
			if !errors.As(err, &ee) || ee.ExitCode() != 1 {
				t.Errorf("%v, want exit status 1", err)
			}
			want := "dtrace: failed to compile script " + f + ": [" + strings.Split(f, ".")[1] + "] "
			if !strings.Contains(string(out), want) {
				t.Errorf("no %q in:\n%s", want, out)
			}
		})
	}
}

func run(t *testing.T, cmd, trigger, file string) {
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flags, args, status := header(t, string(src), trigger)
	ctx, cancel := context.WithTimeout(t.Context(), limit())
	defer cancel()
	var c *exec.Cmd
	var stdout, stderr bytes.Buffer
	for tries := 5; ; tries-- {
		stdout.Reset()
		stderr.Reset()
		c = exec.CommandContext(ctx, cmd, append(append(flags, "-s", file), args...)...)
		c.Env = append(os.Environ(), "LC_ALL=C", "LANGUAGE=")
		c.Stdout, c.Stderr = &stdout, &stderr
		c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
		c.WaitDelay = 5 * time.Second
		err = c.Run()
		// Kernels from 7.0 on preempt firings and skip what fires meanwhile;
		// the tracer says so, and its result is not the program's.
		if tries == 1 || !preempted.MatchString(stderr.String()) {
			break
		}
	}
	var ee *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Errorf("did not end within %v", limit())
	case err != nil && !errors.As(err, &ee):
		t.Fatal(err)
	case c.ProcessState.ExitCode() != status:
		t.Errorf("exit status %d, want %d", c.ProcessState.ExitCode(), status)
	}
	base := strings.TrimSuffix(file, ".d")
	compare(t, base+".out", stdout.String(), true)
	ok := compare(t, base+".err", stderr.String(), false)
	if t.Failed() && ok {
		t.Logf("stderr:\n%s", stderr.String())
	}
}

// What differs from run to run: CPU and ID of a probe line, the report of a
// program of test/trigger, and what the kernel did not hand over.
var (
	preempted   = regexp.MustCompile(`(?m)^dtrace: \d+ firings? skipped by the kernel`)
	triggerLine = regexp.MustCompile(`(?m)^thread .*\n`)
	probeLine   = regexp.MustCompile(`(?m)^ {0,2}\d+ +\d+( +\S*:\S+ )`)
)

func compare(t *testing.T, file, got string, must bool) bool {
	t.Helper()
	got = triggerLine.ReplaceAllString(got, "")
	got = probeLine.ReplaceAllString(got, "  0      0$1")
	want, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		switch {
		case must && *update:
			if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		case must:
			t.Errorf("no %s for:\n%s", file, got)
		}
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", filepath.Ext(file)[1:], got, want)
		return false
	}
	return true
}

var headerLine = regexp.MustCompile(`^/\* *(.*?) *\*/`)

func header(t *testing.T, src, trigger string) (flags, args []string, status int) {
	t.Helper()
	m := headerLine.FindStringSubmatch(src)
	if m == nil {
		return nil, nil, 0
	}
	words := split(strings.ReplaceAll(m[1], "$TRIGGER", trigger))
	to := &[]string{}
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "flags:":
			to = &flags
		case "args:":
			to = &args
		case "exit:":
			var err error
			if i+1 < len(words) {
				status, err = strconv.Atoi(words[i+1])
			}
			if err != nil {
				t.Fatal(err)
			}
			i++
		default:
			*to = append(*to, words[i])
		}
	}
	return flags, args, status
}

// split splits at blanks; quotes keep words together.
func split(s string) (out []string) {
	word, in, quote := "", false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, in = c, true
		case quote == 0 && c == ' ':
			if in {
				out = append(out, word)
			}
			word, in = "", false
		default:
			word, in = word+string(c), true
		}
	}
	if in {
		out = append(out, word)
	}
	return out
}
