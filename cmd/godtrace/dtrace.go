package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"godtrace"
)

// pname begins every message, whatever name the binary goes by: scripts look for it.
const pname = "dtrace"

// mode is what dtrace(1) was asked to do.
type mode uint8

const (
	modeExec   mode = iota // enable and trace
	modeVers               // -V
	modeLink               // -G
	modeList               // -l
	modeHeader             // -h
)

// request is one program of the command line.
type request struct {
	spec godtrace.ProbeSpec
	arg  string // the text, or the name of the script
	desc string // "description" or "script", for messages
	name string // the text up to its predicate or action, or the name of the script
	prog *godtrace.Program
}

// dtrace is one run of dtrace(1).
type dtrace struct {
	io    stdio
	s     *godtrace.Session
	words []word
	// args are the macro arguments: args[0] is $0.
	args     []string
	requests []*request
	mode     mode
	noExec   bool
	verbose  bool
	zdefs    bool
	testing  bool
	discard  bool // -B
	ofile    string
	out      io.Writer // g_ofp: standard output or the file of -o
	file     *os.File  // of -o
	stop     interrupts
	total    int // probes matched
}

// fatal is an error that ends the command, to be printed after the prefix.
type fatal struct {
	msg    string
	hint   string
	status int
}

func (e *fatal) Error() string { return e.msg }

func fatalf(format string, args ...any) error {
	return &fatal{msg: fmt.Sprintf(format, args...), status: exitError}
}

func usagef(format string, args ...any) error {
	return &fatal{msg: fmt.Sprintf(format, args...), status: exitUsage}
}

// failed is "what: why", with the hint that comes with why.
func failed(what string, err error) error {
	return &fatal{msg: what + ": " + strerror(err), hint: godtrace.Hint(err), status: exitError}
}

// dtraceMain is the front end dtrace.
func dtraceMain(argv []string, io stdio) int {
	d := &dtrace{io: io, out: io.out}
	_, d.testing = os.LookupEnv("_DTRACE_TESTING")
	if len(argv) == 1 {
		return usage(io.err)
	}
	if argv[1] == "--help" {
		if len(argv) == 2 {
			usage(io.out)
			fmt.Fprintf(io.out, "\nMore: godtrace help %s\n", strings.Join(helpTopics(), " | "))
			return exitOK
		}
		return helpMain(argv[1:], io)
	}
	words, err := getopt(argv[1:])
	if err != nil {
		d.message("%v", err)
		return usage(io.err)
	}
	d.words = words
	status, err := d.run(argv[0])
	if d.s != nil {
		if cerr := d.s.Close(); err == nil && cerr != nil {
			err = failed("failed to clean up", cerr)
		}
	}
	if err == nil {
		return status
	}
	f, ok := errors.AsType[*fatal](err)
	if !ok {
		f = &fatal{msg: strerror(err), hint: godtrace.Hint(err), status: exitError}
	}
	d.message("%s", f.msg)
	if f.hint != "" && !d.testing {
		d.message("hint: %s", f.hint)
	}
	return f.status
}

// message prints a line on standard error.
func (d *dtrace) message(format string, args ...any) {
	fmt.Fprintf(d.io.err, pname+": "+format+"\n", args...)
}

// notice is a message that the option quiet suppresses.
func (d *dtrace) notice(format string, args ...any) {
	if !d.flag("quiet") {
		d.message(format, args...)
	}
}

func (d *dtrace) flag(name string) bool { return d.s.Option(name) > 0 }

// run goes over the command line in dtrace(1)'s order: what it is to do, then
// the options, then processes, then programs.
func (d *dtrace) run(arg0 string) (int, error) {
	if err := d.modes(arg0); err != nil {
		return 0, err
	}
	switch d.mode {
	case modeVers:
		return d.version(), nil
	}
	s, err := godtrace.Open()
	if err != nil {
		return 0, failed("failed to initialize dtrace", err)
	}
	d.s = s
	if err := s.SetOptionsFromEnv(); err != nil {
		d.message("%v", err)
	}
	if err := d.options(); err != nil {
		return 0, err
	}
	if err := d.processes(); err != nil {
		return 0, err
	}
	for _, r := range d.requests {
		if err := d.compile(r); err != nil {
			return 0, err
		}
	}
	switch d.mode {
	case modeLink:
		return 0, fatalf("-G: making ELF objects is not yet supported")
	case modeHeader:
		return 0, fatalf("-h: making header files is not yet supported")
	}
	if d.ofile != "" {
		f, err := os.OpenFile(d.ofile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
		if err != nil {
			return 0, failed(fmt.Sprintf("failed to open output file '%s'", d.ofile), err)
		}
		defer f.Close()
		d.out, d.file = f, f
	} else if !d.discard && (d.mode == modeList || !d.noExec) && closed(d.io.out) {
		return 0, failed("failed to write to <stdout>", syscall.EBADF)
	}
	if d.mode == modeList {
		return exitOK, d.list()
	}
	for _, r := range d.requests {
		if err := d.exec(r); err != nil {
			return 0, err
		}
	}
	if d.noExec {
		return exitOK, nil
	}
	if d.total == 0 && !d.flag("zdefs") {
		if len(d.requests) > 0 {
			return 0, fatalf("no probes matched")
		}
		return 0, fatalf("no probes specified")
	}
	return d.trace()
}

// modes is the pass over the options that say what to do; it collects the
// operands.
func (d *dtrace) modes(arg0 string) error {
	d.args = []string{arg0}
	n := 0
	for _, w := range d.words {
		switch w.opt {
		case 0:
			d.args = append(d.args, w.arg)
		case 'a', 'A':
			return fatalf("-%c: anonymous tracing is not yet supported", w.opt)
		case 'e':
			d.noExec = true
		case 'h':
			d.mode, d.zdefs, d.noExec = modeHeader, true, true
			n++
		case 'G':
			d.mode, d.zdefs, d.noExec = modeLink, true, true
			n++
		case 'l':
			d.mode, d.zdefs = modeList, true
			n++
		case 'V':
			d.mode = modeVers
			n++
		case 'v':
			d.verbose = true
		}
	}
	if n > 1 {
		return usagef("only one of the [-GhlV] options can be specified at a time")
	}
	return nil
}

// optionNames are the options that set an option of the session.
var optionNames = map[byte]string{
	'b': "bufsize", 'C': "cpp", 'D': "define", 'F': "flowindent", 'H': "cpphdrs", 'I': "incdir",
	'L': "libdir", 'q': "quiet", 'U': "undef", 'w': "destructive", 'X': "stdc", 'Z': "zdefs",
}

// specs are the options that carry a program.
var specs = map[byte]godtrace.ProbeSpec{
	'f': godtrace.SpecFunc, 'i': godtrace.SpecID, 'm': godtrace.SpecMod, 'n': godtrace.SpecName,
	'P': godtrace.SpecProvider, 's': godtrace.SpecNone,
}

// options is the pass over the options that set things.
func (d *dtrace) options() error {
	for _, w := range d.words {
		if spec, ok := specs[w.opt]; ok {
			d.requests = append(d.requests, &request{spec: spec, arg: w.arg})
			continue
		}
		if name, ok := optionNames[w.opt]; ok {
			if err := d.s.SetOption(name, w.arg); err != nil {
				return failed(strings.TrimRight(fmt.Sprintf("failed to set -%c %s", w.opt, w.arg), " "), err)
			}
			continue
		}
		switch w.opt {
		case 'B':
			d.discard = true
		case 'o':
			d.ofile = w.arg
		case '3':
			d.s.ILP32 = true
		case '6':
			d.s.ILP32 = false
		case 'd':
			d.s.Source = d.io.out
		case 'S':
			d.s.Listing = d.io.err
		case 'x':
			name, value, _ := strings.Cut(w.arg, "=")
			if err := d.s.SetOption(name, value); err != nil {
				return failed("failed to set -x "+name, err)
			}
		}
	}
	if d.discard {
		if d.mode != modeExec {
			return usagef("-B not valid in combination with [-Gl] options")
		}
		if d.ofile != "" {
			return usagef("-B not valid in combination with -o option")
		}
		d.out = io.Discard
	}
	if d.zdefs {
		if err := d.s.SetOption("zdefs", ""); err != nil {
			return err
		}
	}
	if d.testing {
		d.s.Testing = true
		if err := d.s.SetOption("quietresize", ""); err != nil {
			return failed("cannot set quietresize for testing", err)
		}
	}
	if os.Getenv("DTRACE_DEBUG") != "" || d.flag("debug") {
		d.s.Debug = func(format string, args ...any) {
			fmt.Fprintf(d.io.err, "libdtrace DEBUG %d: "+format+"\n", append([]any{time.Now().Unix()}, args...)...)
		}
	}
	d.s.VerifierLog = func(name, log string) {
		for line := range strings.Lines("verifier log for " + name + ":\n" + log) {
			fmt.Fprintf(d.io.err, "BPF: %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	if d.flag("verbose") {
		d.s.Listing = d.io.err
	}
	if d.flag("disasm") {
		d.s.Disasm = func(name, listing string) { fmt.Fprintf(d.io.err, "\nDisassembly of %s:\n%s", name, listing) }
	}
	return nil
}

// processes is the pass over -c and -p.
func (d *dtrace) processes() error {
	target := false
	for _, w := range d.words {
		switch w.opt {
		case 'c':
			if err := d.s.Create(w.arg); err != nil {
				return err
			}
			if strings.ContainsAny(w.arg, "'\"") && !d.testing {
				d.notice("hint: -c splits its command at blanks, quotes and all: put what needs a shell into a script")
			}
		case 'p':
			pid, err := strconv.ParseInt(w.arg, 10, 32)
			if err != nil || pid <= 0 {
				return fatalf("invalid pid: %s", w.arg)
			}
			if err := d.s.Grab(int(pid)); err != nil {
				return grabError(err)
			}
		case 'W':
			if err := d.await(w.arg); err != nil {
				return err
			}
		default:
			continue
		}
		target = true
	}
	if target && !godtrace.HostPIDs() {
		d.notice("hint: in a PID namespace other than the host's, pid is not what $target is: compare pidns_pid")
	}
	return nil
}

// awaitEvery is how often await looks.
const awaitEvery = 2 * time.Millisecond

// await waits for a process of that name to begin, and grabs it.
func (d *dtrace) await(name string) error {
	seen := map[string]bool{}
	look := func(tell func(pid int) error) error {
		dirs, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if seen[dir] {
				continue
			}
			comm, err := os.ReadFile(dir + "/comm")
			if err != nil {
				continue // it is gone
			}
			if strings.TrimSpace(string(comm)) != name {
				continue // it may still exec a program of that name
			}
			seen[dir] = true
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				return err
			}
			if err := tell(pid); err != nil {
				return err
			}
		}
		return nil
	}
	if err := look(func(int) error { return nil }); err != nil {
		return err
	}
	d.notice("waiting for a process named %s to begin", name)
	var found int
	for found == 0 {
		time.Sleep(awaitEvery)
		if err := look(func(pid int) error { found = pid; return nil }); err != nil {
			return err
		}
	}
	if err := d.s.Grab(found); err != nil {
		return grabError(err)
	}
	return nil
}

// grabError has the words of dtrace(1), which do not say which process, and
// ours as a hint.
func grabError(err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err
	}
	return &fatal{msg: strerror(errno), hint: err.Error(), status: exitError}
}

// compile makes a program of a request.
func (d *dtrace) compile(r *request) error {
	if r.spec == godtrace.SpecNone {
		src, err := d.read(r.arg)
		if err != nil {
			return failed("failed to open "+r.arg, err)
		}
		r.desc, r.name = "script", r.arg
		args := append([]string{r.arg}, d.args[1:]...)
		r.prog, err = d.s.Compile(string(src), godtrace.CompileOptions{Spec: r.spec, File: r.arg, Args: args})
		if err != nil {
			return failed("failed to compile script "+r.arg, err)
		}
		return nil
	}
	var err error
	r.prog, err = d.s.Compile(r.arg, godtrace.CompileOptions{Spec: r.spec, Args: d.args})
	if err != nil {
		return failed("invalid probe specifier "+r.arg, err)
	}
	r.desc, r.name = "description", r.arg
	if i := strings.IndexAny(r.arg, "{/;"); i >= 0 {
		r.name = r.arg[:i]
	}
	return nil
}

// read reads a script; "-" is standard input.
func (d *dtrace) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(d.io.in)
	}
	b, err := os.ReadFile(name)
	if err == nil && bytes.IndexByte(b, 0) >= 0 {
		return nil, errors.New("not a D script: it contains null bytes")
	}
	return b, err
}

// exec makes a program part of the enabling and reports on it.
func (d *dtrace) exec(r *request) error {
	matches := 0
	if !d.noExec {
		var err error
		if matches, err = d.s.Exec(r.prog); err != nil {
			return failed(fmt.Sprintf("failed to enable '%s'", r.name), err)
		}
		s := "s"
		if matches == 1 {
			s = ""
		}
		d.notice("%s '%s' matched %d probe%s", r.desc, r.name, matches, s)
	}
	d.total += matches
	if d.verbose {
		return d.stability(r)
	}
	return nil
}

// strerror words an error as dtrace(1) does: system errors in C's words, and
// without the operation that the error is of.
func strerror(err error) string {
	if e, ok := err.(*os.PathError); ok {
		err = e.Err
	}
	msg := err.Error()
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		if before, ok := strings.CutSuffix(msg, e.Error()); ok && (before == "" || strings.HasSuffix(before, ": ")) {
			r, n := utf8.DecodeRuneInString(e.Error())
			msg = before + string(unicode.ToUpper(r)) + e.Error()[n:]
		}
	}
	return msg
}
