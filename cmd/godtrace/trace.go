package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"godtrace"
)

// slowAttach is after what time attaching is worth a word.
const slowAttach = time.Second

// trace runs the enabling to its end. It returns the status of exit().
func (d *dtrace) trace() (int, error) {
	s := d.s
	switch {
	case d.discard:
		s.Output = io.Discard
	case d.file != nil:
		s.Output = d.file
	default:
		s.Output = newOutput(d.io.out, &d.stop)
	}
	s.Handlers = godtrace.Handlers{
		Drop:    func(x godtrace.Drop) error { d.message("%s", x.Msg); return nil },
		Error:   d.programFault,
		Process: func(_ int, msg string) { d.notice("%s", msg) },
		Note:    func(msg string) { d.notice("%s", msg) },
		Stopping: func() {
			// Away from the ^C of the terminal, even in quiet mode.
			if !d.testing && d.s.Option("oformat") <= 0 {
				s.Output.Write([]byte{'\n'})
			}
		},
	}
	unwatch := d.watchSignals()
	defer unwatch()
	if err := d.enable(); err != nil {
		return 0, err
	}
	for {
		st, err := s.Work()
		if err != nil {
			if werr := writeError(err); werr != nil {
				return 0, werr
			}
			return 0, failed("processing aborted", err)
		}
		if st == godtrace.Done {
			if d.flag("stats") {
				printStats(d.io.err, s.Stats())
				printWalks(d.io.err, s.UStackStats())
			}
			return s.ExitStatus(), nil
		}
	}
}

// enable starts tracing. It says so when that takes long and somebody is there
// to wait.
func (d *dtrace) enable() error {
	if isTerminal(d.io.err) && !d.flag("quiet") {
		t := time.AfterFunc(slowAttach, func() { d.message("attaching %d probes ...", d.total) })
		defer t.Stop()
	}
	if err := d.s.Go(); err != nil {
		if werr := writeError(err); werr != nil {
			return werr
		}
		return failed("could not enable tracing", err)
	}
	if d.flag("destructive") {
		d.notice("allowing destructive actions")
	}
	return nil
}

func (d *dtrace) programFault(f godtrace.ProgramFault) error {
	d.message("%s", f.Msg)
	if d.flag("errexit") {
		return errors.New("Abort due to error")
	}
	return nil
}

// printStats shows what tracing cost: a line for each loaded program and their
// sum. A program serves all probes of its attach point.
func printStats(w io.Writer, all []godtrace.ProgramStats) {
	const form = "%-24s %8v %12v %14v %8v %8v\n"
	fmt.Fprintf(w, form, "PROGRAM", "PROBES", "RUNS", "NS", "NS/RUN", "SKIPPED")
	line := func(s godtrace.ProgramStats) {
		fmt.Fprintf(w, form, s.Name, s.Probes, s.Runs, s.Nanos, s.Nanos/max(s.Runs, 1), s.Skipped)
	}
	sum := godtrace.ProgramStats{Name: "total"}
	for _, s := range all {
		line(s)
		sum.Probes += s.Probes
		sum.Runs += s.Runs
		sum.Nanos += s.Nanos
		sum.Skipped += s.Skipped
	}
	line(sum)
}

// printWalks shows by what method user stacks were walked, if any were.
func printWalks(w io.Writer, n godtrace.UStackStats) {
	if n != (godtrace.UStackStats{}) {
		fmt.Fprintf(w, "user stacks: %d by unwind tables, %d of them not to the end; %d along frame pointers\n", n.Whole+n.Cut, n.Cut, n.NoTables)
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
