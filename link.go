package godtrace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"godtrace/internal/bpf"
	"godtrace/internal/compile"
	"godtrace/internal/consume"
	"godtrace/internal/dif"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/provider"
	"godtrace/internal/symbol"
)

// running is a session between Go and its end.
type running struct {
	obj      *dif.Object
	enabled  []*bpf.Enabled
	atts     []*provider.Attachment
	probes   []io.Closer   // what holds the attached probes
	detached <-chan closed // set once the probes are being taken away
	links    []io.Closer   // what else to close at the end
	begin    int           // group to run by hand, -1 for none
	end      int
	consumer *consume.Consumer
	live     int // targets that have not ended
	nextEpid int
	later    []laterClause
	loading  []*loading
	gone     *gone
	unwind   *unwinding

	lastSkipped, lastMissed uint64 // valid once detached is set
}

// Go loads the enabling, attaches the probes, runs BEGIN and lets held
// processes run.
func (s *Session) Go() (err error) {
	if s.rt != nil {
		return errors.New(msgBadOptCtx)
	}
	s.flushNotes()
	r := &running{begin: -1, end: -1}
	if err := s.enable(r); err != nil {
		return err
	}
	cfg, err := s.loadConfig(r)
	if err != nil {
		return err
	}
	rt, err := bpf.Load(*cfg)
	if err != nil {
		return err
	}
	s.rt, s.running = rt, r
	r.consumer = s.newConsumer(r)
	if err := s.countRuns(); err != nil {
		return err
	}
	for i, a := range r.atts {
		if err := s.attach(r, a, rt.Program(i)); err != nil {
			return err
		}
	}
	if r.begin >= 0 {
		if err := s.act(func() error { return rt.RunManual(r.begin) }, "run BEGIN"); err != nil {
			return fmt.Errorf("failed to run BEGIN: %w", err)
		}
	}
	if err := s.watchLoading(r); err != nil {
		return err
	}
	if err := s.watchGone(r); err != nil {
		return err
	}
	if err := s.unwindStacks(r); err != nil {
		return err
	}
	rt.SetActivity(bpf.Active)
	for _, t := range s.targets {
		if err := r.unwind.stopForTables(t); err != nil {
			return err
		}
		if err := t.Release(); err != nil {
			return err
		}
		r.live++
		go func() {
			<-t.Done()
			s.wake()
		}()
	}
	return nil
}

// attach makes the probes of a group fire, but for BEGIN and END, which are run
// by hand.
func (s *Session) attach(r *running, a *provider.Attachment, prog *ebpf.Program) error {
	if a.Attach == nil {
		return nil
	}
	err := s.act(func() error {
		l, err := a.Attach(prog)
		if err == nil {
			r.probes = append(r.probes, l)
		}
		return err
	}, "link %s: %d probes", a.Group.Name, len(a.Group.Probes))
	if err != nil {
		return fmt.Errorf("failed to attach %s: %w", a.Group.Name, err)
	}
	if n := len(a.Refused); n > 0 {
		s.debugf("link %s: %d probes refused", a.Group.Name, n)
	}
	s.tell(a)
	return nil
}

// recordOverhead is how many bytes a buffer must have room for beside the data
// of a record: what libdtrace asks for on Linux, which is more than the header
// takes here. For the policies that it lacks it is the number of the enabling,
// with which records of Solaris begin, and its alignment.
func recordOverhead(policy bpf.BufPolicy) int {
	if policy == bpf.BufSwitch {
		return 56
	}
	return 8
}

// enable compiles all executed programs with the final options and forms the
// list of enabled probes, each with its clauses in program order.
func (s *Session) enable(r *running) error {
	comp := compile.New(s.compilerOptions())
	byProbe := map[*probe.Probe]*bpf.Enabled{}
	for _, p := range s.programs {
		for _, c := range p.checked.Clauses {
			dc, err := comp.Clause(c)
			if err != nil {
				return s.compileError(err, p.script)
			}
			if dc.Destructive && !s.opts.flag("destructive") {
				return errors.New("Destructive actions not allowed")
			}
			s.mayGrow(r, c, dc)
			for _, pr := range c.Probes {
				e := byProbe[pr]
				if e == nil {
					e = &bpf.Enabled{Index: len(r.enabled), Probe: pr}
					byProbe[pr] = e
					r.enabled = append(r.enabled, e)
				}
				e.Clauses = append(e.Clauses, dc)
			}
		}
	}
	for _, e := range r.enabled {
		if err := setUse(e); err != nil {
			return err
		}
	}
	r.obj = comp.Object()
	for _, rec := range r.obj.Records {
		if int64(recordOverhead(s.policy())+rec.Size) > s.opts.get("bufsize") {
			return errors.New("Enabling exceeds size of buffer")
		}
	}
	// Enablings are numbered in the order of the programs, clause by clause,
	// those of ERROR last.
	epid := 1
	for _, isError := range []bool{false, true} {
		for _, e := range r.enabled {
			if d := e.Probe.Desc; (d.Provider == "dtrace" && d.Name == "ERROR") == isError {
				e.Epid = epid
				epid += len(e.Clauses)
			}
		}
	}
	r.nextEpid = epid
	return nil
}

// setUse tells a probe's provider what its clauses make of it.
func setUse(e *bpf.Enabled) error {
	e.Probe.NoArgs = !slices.ContainsFunc(e.Clauses, readsArgs)
	e.Probe.Overrides = slices.ContainsFunc(e.Clauses, overrides)
	if e.Probe.Overrides && !provider.MayOverride(e.Probe) {
		return fmt.Errorf("return() not allowed for %s", e.Probe.Desc)
	}
	return nil
}

// readsArgs reports whether a clause uses arg0… or args[].
func readsArgs(c *dif.Clause) bool {
	return slices.ContainsFunc(c.Code, func(in dif.Ins) bool {
		switch in.Op {
		case dif.Builtin, dif.TBuiltin, dif.RecBuiltin:
			id := dif.BuiltinID(in.Sym)
			return id == dif.BArg || id == dif.BArgs
		}
		return false
	})
}

// overrides reports whether a clause has the action return().
func overrides(c *dif.Clause) bool {
	return slices.ContainsFunc(c.Code, func(in dif.Ins) bool {
		return in.Op == dif.Act && dif.ActOp(in.Sym) == dif.OpReturn
	})
}

// tell reports probes of an attached group that the kernel refused, and what
// else there is to know about it.
func (s *Session) tell(a *provider.Attachment) {
	if s.Handlers.Note == nil {
		return
	}
	const most = 10
	for i, r := range a.Refused {
		if i == most {
			s.Handlers.Note(fmt.Sprintf("and %d probes more were refused", len(a.Refused)-most))
			break
		}
		s.Handlers.Note(fmt.Sprintf("probe refused: %v", r.Err))
	}
	if n := len(a.Refused); n > 0 {
		s.Handlers.Note(fmt.Sprintf("%d of %d probes attached, %d skipped", len(a.Group.Probes)-n, len(a.Group.Probes), n))
	}
	for _, n := range a.Notes {
		s.Handlers.Note(n)
	}
}

// configure hands options to the provider they are for.
func (s *Session) configure(p provider.Provider) {
	switch p := p.(type) {
	case *provider.Fbt:
		p.Engine = fbtEngines[s.opts.get("fbt")]
		p.Return = fbtReturns[s.opts.get("fbtreturn")]
		p.Late = s.opts.flag("latemod")
	case *provider.Profile:
		p.CPU = int(s.opts.get("cpu"))
	case *provider.Cpc:
		p.CPU = int(s.opts.get("cpu"))
	case *provider.Instr:
		p.Allow = s.opts.flag("instr") || s.opts.flag("destructive")
	}
}

// loadConfig has the providers form programs.
func (s *Session) loadConfig(r *running) (*bpf.Config, error) {
	byProvider := map[provider.Provider][]*probe.Probe{}
	var errProbe *bpf.Enabled
	for _, e := range r.enabled {
		p := s.env.owner[e.Probe]
		if p == nil {
			return nil, fmt.Errorf("probe %s has no provider", e.Probe.Desc)
		}
		byProvider[p] = append(byProvider[p], e.Probe)
		if e.Probe.Desc.Provider == "dtrace" && e.Probe.Desc.Name == "ERROR" {
			errProbe = e
		}
	}
	for _, p := range s.env.providers {
		s.configure(p)
		atts, err := p.Groups(byProvider[p])
		if err != nil {
			return nil, err
		}
		for _, a := range atts {
			if a.Group.Kind == probe.KindManual {
				switch a.Group.Probes[0].Desc.Name {
				case "BEGIN":
					r.begin = len(r.atts)
				case "END":
					r.end = len(r.atts)
				}
			}
			r.atts = append(r.atts, a)
		}
	}
	cfg := &bpf.Config{
		Later:       r.laterClauses(),
		Object:      r.obj,
		Enabled:     r.enabled,
		Error:       errProbe,
		BufSize:     s.opts.get("bufsize"),
		BufPolicy:   s.policy(),
		SpecSize:    s.opts.get("specsize"),
		NSpec:       int(s.opts.get("nspec")),
		AggSize:     s.opts.get("aggsize"),
		DynVarSize:  s.opts.get("dynvarsize"),
		ScratchSize: s.opts.get("scratchsize"),
		MaxFrames:   s.opts.maxFrames(),
		UStack:      bpf.UStackMode(s.opts.get("ustackmode")),
		CPU:         -1,
		Trace:       s.Debug,
		Dump:        s.Disasm,
		LogSize:     s.opts.get("bpflogsize"),
		KSym:        kernelAddr,
	}
	if s.opts.flag("bpflog") {
		cfg.Log = s.VerifierLog
	}
	if len(s.targets) > 0 {
		cfg.Target = s.targets[0].PID
	}
	if cpu := int(s.opts.get("cpu")); cpu >= 0 {
		if online, err := kernel.OnlineCPUs(); err == nil && !slices.Contains(online, cpu) {
			return nil, fmt.Errorf("option cpu: CPU %d is not online", cpu)
		}
		cfg.CPU = cpu
	}
	for _, a := range r.atts {
		cfg.Groups = append(cfg.Groups, a.Group)
	}
	return cfg, nil
}

// kernelAddr is the address of a kernel symbol that a program names.
func kernelAddr(module, name string) (uint64, error) {
	k, err := symbol.KernelSymbols()
	if err != nil {
		return 0, err
	}
	addr, ok := k.Addr(module, name)
	if !ok {
		return 0, fmt.Errorf("kernel symbol %s: the kernel tells no address of it (CONFIG_KALLSYMS_ALL lists variables)", name)
	}
	return addr, nil
}

func (s *Session) debugf(format string, args ...any) {
	if s.Debug != nil {
		s.Debug(format, args...)
	}
}

// detach begins to take all probes away: most of the time is waiting for grace
// periods, in which what was recorded can be printed. What the kernel has
// skipped and missed is read before, for the last time.
func (r *running) detach() {
	if r.detached == nil {
		r.lastSkipped, r.lastMissed = r.skipped(), r.missed()
		r.detached = closeAll(r.probes)
	}
}

// close detaches, returns when nothing is attached any more, and tells how long
// that took, from the beginning of detaching.
func (r *running) close() (time.Duration, error) {
	r.detach()
	probes, links := <-r.detached, <-closeAll(r.links)
	return probes.took, errors.Join(probes.err, links.err)
}

// closed is how closing several things went.
type closed struct {
	took time.Duration
	err  error
}

// closeAll closes everything side by side, and tells when all of it is closed.
func closeAll(cs []io.Closer) <-chan closed {
	start := time.Now()
	done, errs := make(chan closed, 1), make(chan error, len(cs))
	for _, c := range cs {
		go func() { errs <- c.Close() }()
	}
	go func() {
		var all []error
		for range cs {
			all = append(all, <-errs)
		}
		done <- closed{time.Since(start), errors.Join(all...)}
	}()
	return done
}

// skipped is how many firings the kernel has skipped that programs do not tell.
func (r *running) skipped() (n uint64) {
	if r.detached != nil {
		return r.lastSkipped
	}
	for _, a := range r.atts {
		if a.Skipped != nil {
			n += a.Skipped()
		}
	}
	return n
}

// missed is how many returns the kernel has not seen.
func (r *running) missed() (n uint64) {
	if r.detached != nil {
		return r.lastMissed
	}
	for _, a := range r.atts {
		if a.Missed != nil {
			n += a.Missed()
		}
	}
	return n
}
