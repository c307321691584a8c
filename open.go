package godtrace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godtrace/internal/bpf"
	"godtrace/internal/check"
	"godtrace/internal/probe"
	"godtrace/internal/process"
	"godtrace/internal/provider"
	"godtrace/internal/symbol"
)

// Session is a DTrace session: libdtrace's handle. Its methods are not safe
// for concurrent use but for Stop.
type Session struct {
	// Output is where Work prints. Set it before Go; nil discards.
	Output io.Writer
	// Source, if set, gets every program as it was understood (-d).
	Source io.Writer
	// Listing, if set, gets the intermediate code of every program (-S).
	Listing io.Writer
	// Debug, if set, gets a line for every action on the kernel.
	Debug func(format string, args ...any)
	// Handlers are told of drops, errors, the ends of processes and options
	// set by programs.
	Handlers Handlers

	// Disasm, if set, gets the eBPF listing of each program.
	Disasm func(name, listing string)
	// ILP32 gives D the data model of 32-bit programs, in types and in what the
	// preprocessor defines (-32).
	ILP32 bool
	// VerifierLog, if set, gets the verifier's log of each program, where the
	// option bpflog asks for it.
	VerifierLog func(name, log string)
	// Testing leaves out of the output what differs from run to run (CPU and
	// probe numbers).
	Testing bool

	opts     options
	env      *env
	check    *check.Checker
	nargs    int               // macro arguments now defined
	source   string            // file name of the program being compiled
	libs     map[string]string // file names of libraries in libdir: their paths
	programs []*Program
	guard    *guard // the policy we are under, nil: none
	guarded  bool   // it is known which
	targets  []*process.Target

	rt        *bpf.Runtime
	running   *running
	work      workState
	status    int
	stopping  chan struct{}
	stopAsked atomic.Bool
	reported  map[*process.Target]bool // ended, and the handler was told
	procs     *symbol.Processes
	notes     []string       // for Handlers.Note, from before it was set
	closing   sync.WaitGroup // things being closed meanwhile
}

// Open makes a session. Nothing of the kernel is touched before probes are
// looked up.
func Open() (*Session, error) {
	s := &Session{opts: newOptions(), env: newEnv(providers()), stopping: make(chan struct{}, 1), reported: map[*process.Target]bool{}, procs: symbol.NewProcesses()}
	for _, p := range s.env.providers {
		if u, ok := p.(provider.User); ok {
			u.SetHost(s.userHost())
		}
	}
	s.check = check.New(s.env, s.checkOptions())
	return s, nil
}

// SetOption sets an option as -x name=value does; value is "" for a switch.
func (s *Session) SetOption(name, value string) error {
	stage := compileTime
	if s.rt != nil {
		stage = anyTime
	}
	return s.opts.set(name, value, stage)
}

// SetOptionsFromEnv sets options from DTRACE_OPT_… in the environment.
func (s *Session) SetOptionsFromEnv() error { return s.opts.setEnv() }

// Option is the value of an option, its default, or Unset.
func (s *Session) Option(name string) int64 { return s.opts.get(name) }

// OptionString is the last text a string option was set to.
func (s *Session) OptionString(name string) string {
	if l := s.opts.str[name]; len(l) > 0 {
		return l[len(l)-1]
	}
	return ""
}

// ProbeInfo describes a probe.
type ProbeInfo struct {
	ID                           int
	Provider, Module, Func, Name string
	probe                        *probe.Probe
}

func probeInfo(p *probe.Probe) *ProbeInfo {
	return &ProbeInfo{ID: p.ID, Provider: p.Desc.Provider, Module: p.Desc.Module, Func: p.Desc.Func, Name: p.Desc.Name, probe: p}
}

// ArgTypes are the types of args[0], args[1], … as D sees them.
func (p *ProbeInfo) ArgTypes() []string {
	var out []string
	for _, a := range p.probe.TypedArgs() {
		t := a.Xlate
		if t == nil {
			t = a.Native
		}
		if t == nil {
			out = append(out, "(unknown)")
			continue
		}
		out = append(out, t.String())
	}
	return out
}

// Attributes are the stability attributes of the probe's description (the
// least of its parts', as far as it has them) and of its arguments.
func (p *ProbeInfo) Attributes() (desc, args [3]string) {
	a := p.probe.Attr
	if a == nil {
		u := [3]string{"Private", "Private", "Unknown"}
		return u, u
	}
	triple := func(a probe.Attr) [3]string { return [3]string{a.Name, a.Data, a.Class} }
	var parts [][3]string
	for i, attr := range []probe.Attr{a.Provider, a.Module, a.Func, a.Name} {
		if p.probe.Desc.Part(i) != "" {
			parts = append(parts, triple(attr))
		}
	}
	return check.LeastAttr(parts...), triple(a.Args)
}

// Probes lists every probe that providers know without being asked for by name.
func (s *Session) Probes() ([]*ProbeInfo, error) {
	ps, err := s.env.Probes(probe.Desc{})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(ps, func(a, b *probe.Probe) int { return a.ID - b.ID })
	out := make([]*ProbeInfo, len(ps))
	for i, p := range ps {
		out[i] = probeInfo(p)
	}
	return out, nil
}

// Mechanism says by which of several ways the kernel reaches a probe, such as
// "fentry"; "" where there is one way only.
func (s *Session) Mechanism(p *ProbeInfo) string {
	owner := s.env.owner[p.probe]
	m, ok := owner.(interface{ Mechanism(*probe.Probe) string })
	if !ok {
		return ""
	}
	s.configure(owner)
	return m.Mechanism(p.probe)
}

// Opcode is the instruction of the kernel that a probe is on, as it is now; nil
// for probes that are not on one.
func (p *ProbeInfo) Opcode() []byte { return provider.Opcode(p.probe) }

// Create starts a command, to be held until Go (-c). $target is its pid. The
// options setenv and unsetenv change its environment.
func (s *Session) Create(cmd string) error {
	t, err := process.Create(cmd, slices.Concat(s.opts.str["setenv"], s.opts.str["unsetenv"])...)
	if err != nil {
		return err
	}
	s.addTarget(t)
	return nil
}

// Grab takes an interest in a running process (-p). $target is its pid.
func (s *Session) Grab(pid int) error {
	if err := s.applyPolicy(); err != nil {
		return err
	}
	if err := s.guard.checkGrab(pid); err != nil {
		return err
	}
	t, err := process.Grab(pid)
	if err != nil {
		return err
	}
	s.addTarget(t)
	return nil
}

func (s *Session) addTarget(t *process.Target) {
	if len(s.targets) == 0 {
		s.env.macros["target"] = fmt.Sprint(t.PID)
	}
	s.targets = append(s.targets, t)
}

// Kill ends the processes that Create started. Unlike other methods it may be
// called from any goroutine: for a way out that does not wait for Close.
func (s *Session) Kill() {
	for _, t := range s.targets {
		t.Kill()
	}
}

// Close detaches all probes, unloads everything and lets go of the processes.
func (s *Session) Close() error {
	var err error
	if s.running != nil {
		var took time.Duration
		took, err = s.running.close()
		s.debugf("unlink %d: %s, %d µs", len(s.running.probes), outcome(err), took.Microseconds())
		s.running = nil
	}
	if s.rt != nil {
		err = errors.Join(err, s.rt.Close())
		s.rt = nil
	}
	for _, t := range s.targets {
		t.Close()
	}
	s.targets = nil
	s.closing.Wait()
	return err
}

// ErrPrivilege is wrapped by errors that come of lacking a capability.
var ErrPrivilege = os.ErrPermission
