package bpf

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"godtrace/internal/kernel"
)

// TooComplexError says that a clause makes a program the kernel does not take.
type TooComplexError struct {
	Line   int // D source line, 0 if not one line's fault
	Reason string
	Log    string // the verifier's, if it was the verifier
}

func (e *TooComplexError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d: program too complex: %s", e.Line, e.Reason)
	}
	return "program too complex: " + e.Reason
}

// VerifierError is a program the kernel refused for another reason: an error
// of godtrace's, or a feature the kernel lacks.
type VerifierError struct {
	Program string
	Line    int    // D source line of the refused instruction, 0 if unknown
	Insn    int    // its number
	Reason  string // the verifier's last words
	Log     string
	Err     error
}

func (e *VerifierError) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf("line %d: ", e.Line)
	}
	return fmt.Sprintf("%sthe kernel refused program %s at instruction %d: %s (%v)", where, e.Program, e.Insn, e.Reason, e.Err)
}

func (e *VerifierError) Unwrap() error { return e.Err }

// UnsupportedError says that a clause uses what the back end cannot do.
type UnsupportedError struct {
	Line int
	What string // "subroutine json()"
	Why  string
}

func (e *UnsupportedError) Error() string {
	s := fmt.Sprintf("line %d: %s is not supported", e.Line, e.What)
	if e.Why != "" {
		s += ": " + e.Why
	}
	return s
}

// VerifierLogEnv names the file the verifier's whole log is written to when a
// program is refused; "-" means standard error.
const VerifierLogEnv = "GODTRACE_VERIFIER_LOG"

var logInsn = regexp.MustCompile(`(?m)^(\d+): \([0-9a-f]{2}\) `)

var noHelper = regexp.MustCompile(`(?:cannot use helper|unknown func) (\w+)#\d+`)

// newVerifierError finds the refused instruction and its D line in a log.
func newVerifierError(name string, c *code, err error, log string) error {
	if file := os.Getenv(VerifierLogEnv); file != "" && log != "" {
		out := []byte(name + ":\n" + c.listing() + log + "\n")
		if file == "-" {
			os.Stderr.Write(out)
		} else {
			os.WriteFile(file, out, 0o644)
		}
	}
	e := &VerifierError{Program: name, Insn: -1, Log: log, Err: err}
	tail := log
	if len(tail) > 1<<16 {
		tail = tail[len(tail)-1<<16:]
	}
	if m := logInsn.FindAllStringSubmatch(tail, -1); len(m) > 0 {
		e.Insn, _ = strconv.Atoi(m[len(m)-1][1])
		for i := min(e.Insn, len(c.lines)-1); i >= 0 && e.Line == 0; i-- {
			e.Line = int(c.lines[i])
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(log), "\n") {
		switch {
		case strings.HasPrefix(line, "processed "), strings.HasPrefix(line, "verification time"),
			strings.HasPrefix(line, "stack depth"), line == "":
		default:
			if !logInsn.MatchString(line) {
				e.Reason = line
			}
		}
	}
	if m := noHelper.FindStringSubmatch(log); m != nil {
		f := &kernel.FeatureError{Name: "helper " + m[1], Since: "another version or configuration", Err: e}
		switch m[1] {
		case "bpf_probe_write_user":
			f.Since = "4.8, not locked down"
			f.Workaround = "copyout() and copyoutstr() write the memory of a process, which a locked-down kernel forbids every program: boot with lockdown=none"
		case "bpf_override_return":
			f.Since = "4.16, CONFIG_BPF_KPROBE_OVERRIDE"
			f.Workaround = "return() needs a kernel built for error injection, and a function that allows it"
		}
		return f
	}
	if strings.Contains(log, "failed to find the address for kernel symbol '__preempt_count'") || strings.Contains(log, "kernel symbol 'pcpu_hot'") {
		return &kernel.FeatureError{Name: "address of the preemption count", Since: "5.10, CONFIG_KALLSYMS_ALL", Workaround: "ipl can be had in probes of system calls and user functions only", Err: e}
	}
	for _, sign := range []string{"too large", "too many", "too complex", "combined stack size", "stack frames is too", "The sequence of"} {
		if strings.Contains(log[max(0, len(log)-2000):], sign) {
			return &TooComplexError{Line: e.Line, Reason: e.Reason, Log: log}
		}
	}
	return e
}
