package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// tools are the programs that take part; an empty path is a contestant that
// is not there.
type tools struct {
	godtrace string
	trigger  string // test/trigger/syscalls
	measure  string
	peers    *peers // nil: none
}

// argv of a contestant's one-liner, and the root it runs in.
func (t *tools) argv(who, d, bpftrace string, options ...string) (args []string, root string, err error) {
	switch who {
	case "godtrace":
		return append([]string{t.godtrace, "-q", "-n", d}, options...), "", nil
	case "bpftrace":
		if t.peers == nil {
			return nil, "", errors.New("not installed")
		}
		return []string{"/usr/bin/bpftrace", "-q", "-e", bpftrace}, t.peers.root, nil
	case "dtrace":
		if t.peers == nil {
			return nil, "", errors.New("not installed")
		}
		return []string{"/usr/sbin/dtrace", "-q", "-n", d}, t.peers.root, nil
	}
	return nil, "", fmt.Errorf("%s takes no part", who)
}

// started is one process under test.
type started struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

// tracer starts a contestant and waits until it has attached: until it holds
// links or perf events, and holds no more a tenth of a second later.
func (t *tools) tracer(who, d, bpftrace string, stdout io.Writer, options ...string) (*started, error) {
	args, root, err := t.argv(who, d, bpftrace, options...)
	if err != nil {
		return nil, err
	}
	s := &started{cmd: exec.Command(args[0], args[1:]...)}
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	if stdout != nil {
		s.cmd.Stdout = stdout
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	if root != "" {
		s.cmd.Dir = "/"
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	last := 0
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		held, err := testkernel.HeldBy(s.cmd.Process.Pid)
		if err != nil || time.Now().After(end) || s.exited() {
			s.cmd.Process.Kill()
			s.cmd.Wait()
			return nil, fmt.Errorf("did not attach: %s", firstLine(s.stderr.String()))
		}
		n := 0
		for o := range held {
			if o.Kind == "link" || o.Kind == "perf" {
				n++
			}
		}
		// A raw tracepoint opened the old way is a link too.
		if n > 0 && n == last {
			return s, nil
		}
		last = n
	}
}

func (s *started) exited() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, s.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// peak is the most resident memory so far, in KiB.
func (s *started) peak() int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			return kb
		}
	}
	return 0
}

// interrupt ends the tracer as a user does.
func (s *started) interrupt() error {
	s.cmd.Process.Signal(os.Interrupt)
	kill := time.AfterFunc(30*time.Second, func() { s.cmd.Process.Kill() })
	defer kill.Stop()
	if err := s.cmd.Wait(); err != nil && !strings.Contains(err.Error(), "interrupt") {
		return fmt.Errorf("%w: %s", err, firstLine(s.stderr.String()))
	}
	return nil
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return "no message"
}

// loop is the traced program, which waits before each round.
type loop struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (t *tools) loop(args ...string) (*loop, error) {
	l := &loop{cmd: exec.Command(t.trigger, append([]string{"-wait"}, args...)...)}
	l.cmd.Stderr = os.Stderr
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.out = bufio.NewScanner(out)
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	if !l.out.Scan() || l.out.Text() != "ready" {
		l.close()
		return nil, fmt.Errorf("%s: said %q", t.trigger, l.out.Text())
	}
	return l, nil
}

// once runs a round: calls made, and the nanoseconds of thread CPU time each.
func (l *loop) once(threads int) (calls uint64, cpu float64, err error) {
	if _, err := io.WriteString(l.in, "go\n"); err != nil {
		return 0, 0, err
	}
	for range threads {
		if !l.out.Scan() {
			return 0, 0, errors.New("the traced program ended")
		}
		var n uint64
		f := strings.Fields(l.out.Text())
		for i := 0; i+1 < len(f); i += 2 {
			switch f[i] {
			case "calls":
				n, _ = strconv.ParseUint(f[i+1], 10, 64)
			case "cpu-ns/call":
				v, _ := strconv.ParseFloat(f[i+1], 64)
				cpu += v / float64(threads)
			}
		}
		calls += n
	}
	return calls, cpu, nil
}

func (l *loop) close() {
	l.in.Close()
	l.cmd.Wait()
}

// sample is one measurement, as kept in the raw data.
type sample struct {
	Bench, Who, Unit string
	Round            int
	Value            float64
	Note             string `json:",omitempty"`
}

const passesPerRound = 3 // of the traced loop, while one tracer is attached

// firingRound measures one contestant once: nanoseconds of CPU per call.
func (t *tools) firingRound(f firing, who string, calls int) (values []float64, note string, err error) {
	l, err := t.loop("-call", f.call, "-n", fmt.Sprint(calls), "-rounds", fmt.Sprint(passesPerRound+1), "-cpu", "0")
	if err != nil {
		return nil, "", err
	}
	defer l.close()

	var counted func() (uint64, error)
	switch who {
	case "none":
	case "minimal":
		m, err := startMinimal(f.name)
		if err != nil {
			return nil, "", err
		}
		defer m.close()
		counted = m.count
		if f.name == "false predicate" {
			counted = nil
		}
	default:
		var null io.Writer
		if !f.counted {
			null = io.Discard
			if file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
				defer file.Close()
				null = file
			}
		}
		s, err := t.tracer(who, f.d, f.bpftrace, null, f.options...)
		if err != nil {
			return nil, "", err
		}
		stopped := false
		stop := func() error {
			if stopped {
				return nil
			}
			stopped = true
			return s.interrupt()
		}
		defer stop()
		counted = func() (uint64, error) {
			note = fmt.Sprintf("peak %d KiB", s.peak())
			if err := stop(); err != nil {
				return 0, err
			}
			if lost := losses(s.stderr.String()); lost > 0 {
				note += fmt.Sprintf(", %d lost", lost)
			}
			if !f.counted {
				return uint64(calls) * (passesPerRound + 1), nil
			}
			return sumCounts(s.stdout.String()), nil
		}
	}
	made := uint64(0)
	for pass := range passesPerRound + 1 {
		n, cpu, err := l.once(1)
		if err != nil {
			return nil, "", err
		}
		made += n
		if pass > 0 { // the first warms up
			values = append(values, cpu)
		}
	}
	if counted != nil {
		got, err := counted()
		if err != nil {
			return nil, "", err
		}
		if got < made {
			return nil, "", fmt.Errorf("counted %d of %d calls", got, made)
		}
	}
	return values, note, nil
}

// A line of a count ("  syscalls  400000", "@[1]: 7") ends in its number; one
// of a distribution has the number behind the bar (dtrace) or before it
// (bpftrace).
var (
	lastNumber = regexp.MustCompile(`([0-9]+)\s*$`)
	bpfBar     = regexp.MustCompile(`^[\[(].*[)\]]\s+([0-9]+)\s+\|`)
)

func sumCounts(out string) (sum uint64) {
	for line := range strings.Lines(out) {
		m := bpfBar.FindStringSubmatch(line)
		if m == nil {
			m = lastNumber.FindStringSubmatch(strings.TrimRight(line, "\n"))
		}
		if m != nil {
			n, _ := strconv.ParseUint(m[1], 10, 64)
			sum += n
		}
	}
	return sum
}

var loss = regexp.MustCompile(`(?i)\b([0-9]+) (?:[a-z ]*)drops?\b|lost ([0-9]+) events`)

// losses adds up what a tracer says it lost.
func losses(text string) (sum uint64) {
	for _, m := range loss.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseUint(m[1]+m[2], 10, 64)
		sum += n
	}
	return sum
}

// start runs the one-liner that does nothing: wall and CPU in ms, peak KiB.
func (t *tools) start(who string) (wall, cpu, rss float64, err error) {
	var args []string
	var root string
	if who == "none" {
		args = []string{"/bin/true"}
	} else if args, root, err = t.argv(who, `BEGIN { exit(0); }`, `BEGIN { exit() }`); err != nil {
		return 0, 0, 0, err
	}
	cmd := exec.Command(t.measure, args...)
	cmd.Env = append(os.Environ(), "MEASURE_ROOT="+root)
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, 0, err
	}
	var ns, cpuNs, kb, status float64
	if _, err := fmt.Sscan(string(out), &ns, &cpuNs, &kb, &status); err != nil {
		return 0, 0, 0, err
	}
	if status != 0 {
		said := exec.Command(args[0], args[1:]...)
		said.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		said.Dir = "/"
		why, _ := said.CombinedOutput()
		return ns / 1e6, cpuNs / 1e6, kb, fmt.Errorf("status %v after %.0f ms: %s", status, ns/1e6, firstLine(string(why)))
	}
	return ns / 1e6, cpuNs / 1e6, kb, nil
}

// recordsRound has two threads call at full speed for a time, each call a
// record: how many a second were made, how many came out, how many the tracer
// says it lost.
func (t *tools) recordsRound(who string, length time.Duration) (made, got, lost uint64, seconds float64, err error) {
	const threads = 2
	l, err := t.loop("-call", "getppid", "-for", length.String(), "-threads", fmt.Sprint(threads))
	if err != nil {
		return 0, 0, 0, 0, err
	}
	defer l.close()
	pr, pw, err := os.Pipe()
	if err != nil {
		return 0, 0, 0, 0, err
	}
	defer pr.Close()
	lines := make(chan uint64, 1)
	go func() {
		var n uint64
		buf := make([]byte, 1<<20)
		for {
			k, err := pr.Read(buf)
			n += uint64(bytes.Count(buf[:k], []byte("\n")))
			if err != nil {
				lines <- n
				return
			}
		}
	}()
	s, err := t.tracer(who, recordD, recordBpftrace, pw)
	pw.Close()
	if err != nil {
		<-lines
		return 0, 0, 0, 0, err
	}
	start := time.Now()
	made, _, err = l.once(threads)
	seconds = time.Since(start).Seconds()
	if e := s.interrupt(); err == nil {
		err = e
	}
	got = <-lines
	return made, got, losses(s.stderr.String()), seconds, err
}

// straceRound measures strace counting the loop's calls: wall nanoseconds per
// call, since the cost is another process's.
func (t *tools) straceRound(calls int) (float64, error) {
	if t.peers == nil {
		return 0, errors.New("not installed")
	}
	dir, err := os.MkdirTemp("", "bench-strace")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	// The peers' root shares /tmp, so that the traced program is there.
	target := filepath.Join(dir, "syscalls")
	if err := exec.Command("cp", t.trigger, target).Run(); err != nil {
		return 0, err
	}
	cmd := exec.Command("/usr/bin/strace", "-f", "-c", "-o", "/dev/null", "-e", "trace=getppid",
		target, "-n", fmt.Sprint(calls))
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: t.peers.root}
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(out))
	for i := 0; i+1 < len(f); i++ {
		if f[i] == "ns/call" {
			return strconv.ParseFloat(f[i+1], 64)
		}
	}
	return 0, fmt.Errorf("strace: the loop said %q", out)
}
