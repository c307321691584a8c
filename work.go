package godtrace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/agg"
	"godtrace/internal/bpf"
	"godtrace/internal/consume"
	"godtrace/internal/kernel"
)

// Status is what Work says about the session.
type Status uint8

const (
	Okay Status = iota // more may come
	Done               // tracing has ended and everything was printed
)

// Handlers are told what happens beside the output. A nil handler for drops or
// faults makes Work fail instead: neither is ever passed over in silence.
type Handlers struct {
	// Record is told of each record before it is printed. ErrSkip leaves the
	// record out: it is not printed, and what its actions ask of the consumer
	// (printa(), system(), exit status) is not done. Any other error ends tracing.
	Record func(*Record) error
	// Buffered gets the output instead of Session.Output: the text of a record,
	// or with r nil what belongs to none (aggregations at the end). Structured
	// output (option oformat) goes to Session.Output all the same.
	Buffered func(r *Record, text []byte) error
	// Drop is told of lost data, in dtrace(1)'s words.
	Drop func(Drop) error
	// Error is told of faults of the program.
	Error func(ProgramFault) error
	// Process is told of the end of a process of -c or -p.
	Process func(pid int, msg string)
	// SetOption is told of options that the action setopt() set.
	SetOption func(name, value string)
	// Note is told what is not an error but should be known: probes that the
	// kernel refused while others were attached, returns that cannot be seen.
	Note func(msg string)
	// Stopping is told that Stop takes effect, before END and what remains are
	// printed; what was printed before has been written.
	Stopping func()
}

// Drop is a kind of data that was lost since the last report.
type Drop struct {
	Kind  string // DTRACEDROP_…
	CPU   int    // -1: not counted by CPU
	Count uint64
	Total uint64
	Msg   string
}

// ProgramFault is a fault of a clause at run time; the clause was abandoned.
type ProgramFault struct {
	CPU   int
	Probe *ProbeInfo
	Epid  int
	Fault int // DTRACEFLT_…
	Addr  uint64
	Line  int // of the D program
	Msg   string
}

// pollEvery is how often a running session looks at the state of its programs.
// It costs a few memory reads.
const pollEvery = 5 * time.Millisecond

// session state of Work.
type workState struct {
	nextSwitch, nextAgg, nextStatus time.Time
	drops                           bpf.Drops
	missed                          uint64 // returns of kernel functions
	faults                          uint64
	done                            bool
}

func (s *Session) newConsumer(r *running) *consume.Consumer {
	probes := make([]consume.Probe, len(r.enabled))
	for i, e := range r.enabled {
		probes[i] = consume.Probe{Probe: e.Probe, Epid: e.Epid}
	}
	out := s.Output
	if out == nil {
		out = io.Discard
	}
	c := consume.New(r.obj, probes, out, host{s})
	c.Testing, c.Dissect, c.Panic = s.Testing, true, crash
	c.Resolve.Procs = s.procs
	c.Format.Grouping = numericLocale()
	s.applyOutputOptions(c)
	if s.opts.flag("aggpercpu") {
		if cpus, err := kernel.OnlineCPUs(); err == nil {
			for _, t := range c.Tables {
				t.CPUs = cpus[len(cpus)-1] + 1
			}
		}
	}
	s.handleRecords(c)
	if form := s.opts.get("oformat"); form > 0 {
		c.Sink = c.NewSink(consume.Structured(form))
	}
	return c
}

// applyOutputOptions passes on the options that may change while tracing.
func (s *Session) applyOutputOptions(c *consume.Consumer) {
	c.Format.Quiet = s.opts.flag("quiet")
	c.Format.RawBytes = s.opts.flag("rawbytes")
	c.Format.NoResolve = s.opts.flag("noresolve")
	c.Resolve.NoResolve = c.Format.NoResolve
	s.procs.SetDemangle(s.opts.flag("demangle"))
	indent := int(s.opts.get("stackindent"))
	c.Format.StackIndent = &indent
	if len(s.targets) > 0 {
		c.Format.Target = int32(s.targets[0].PID)
	}
	c.Format.Agg.Hist = s.opts.flag("agghist")
	c.Format.Agg.Pack = s.opts.flag("aggpack")
	c.Format.Agg.Zoom = s.opts.flag("aggzoom")
	switch s.opts.get("encoding") {
	case 0:
		c.Format.Agg.Encoding = agg.ASCII
	case 1:
		c.Format.Agg.Encoding = agg.UTF8
	}
	c.Flow = s.opts.flag("flowindent")
	c.PrintSize = int(s.opts.get("printsize"))
	c.Order = agg.Order{ByKey: s.opts.flag("aggsortkey"), Rev: s.opts.flag("aggsortrev")}
	if n := s.opts.get("aggsortpos"); n > 0 {
		c.Order.Pos = int(n)
	}
	if n := s.opts.get("aggsortkeypos"); n > 0 {
		c.Order.KeyPos = int(n)
	}
}

// wake makes a waiting Work look again.
func (s *Session) wake() {
	select {
	case s.stopping <- struct{}{}:
	default:
	}
}

// Stop asks for the end of tracing, as Ctrl-C does: the next Work runs END and
// finishes. It may be called from any goroutine.
func (s *Session) Stop() {
	s.stopAsked.Store(true)
	s.wake()
}

// ExitStatus is the argument of exit(), or 0.
func (s *Session) ExitStatus() int {
	if s.running == nil || s.running.consumer == nil {
		return s.status
	}
	return s.running.consumer.Status
}

// Work waits until something is due, then prints what has been recorded. It
// returns at least once every interval of the option switchrate.
func (s *Session) Work() (Status, error) {
	r := s.running
	if r == nil {
		return Done, errors.New("Work: tracing has not begun")
	}
	w := &s.work
	if w.done {
		return Done, nil
	}
	relax := hurry()
	defer func() { relax() }()
	r.consumer.Pause = func() (resume func()) {
		relax()
		return func() { relax = hurry() }
	}
	now := time.Now()
	if w.nextSwitch.IsZero() {
		w.nextSwitch = now.Add(s.switchRate())
		w.nextAgg = now.Add(s.rate("aggrate"))
		w.nextStatus = now.Add(s.rate("statusrate"))
	}
	for {
		if s.ended() {
			w.done = true
			if s.stopAsked.Load() && s.Handlers.Stopping != nil {
				s.Handlers.Stopping()
			}
			return Done, s.finish()
		}
		s.running.gone.note(s)
		s.running.unwind.poll()
		if err := s.grow(); err != nil {
			return Done, s.abort(err)
		}
		now = time.Now()
		worked := false
		if pressure := s.pressure(); pressure || !now.Before(w.nextSwitch) {
			if !pressure {
				w.nextSwitch = now.Add(s.switchRate())
			}
			if err := s.consume(false); err != nil {
				return Done, s.abort(err)
			}
			worked = !pressure
		}
		if !now.Before(w.nextAgg) {
			w.nextAgg = now.Add(s.rate("aggrate"))
			if err := s.snapshot(); err != nil {
				return Done, s.abort(err)
			}
		}
		if !now.Before(w.nextStatus) {
			w.nextStatus = now.Add(s.rate("statusrate"))
			if err := s.reportDrops(); err != nil {
				return Done, s.abort(err)
			}
		}
		if worked {
			return Okay, nil
		}
		wait := min(pollEvery, time.Until(w.nextSwitch), time.Until(w.nextAgg), time.Until(w.nextStatus))
		// Slept through on this very thread, which the kernel then wakes at once:
		// the runtime's timers would first have to get hold of a CPU.
		if ts := unix.NsecToTimespec(int64(wait)); wait > 0 {
			_ = unix.Nanosleep(&ts, nil)
		}
	}
}

// switchRate is how often rings are emptied. With speculations it is also how
// soon a committed or discarded one is free again (option cleanrate).
func (s *Session) switchRate() time.Duration {
	d := s.rate("switchrate")
	if s.rt.SpecRings() != nil {
		d = min(d, s.rate("cleanrate"))
	}
	return d
}

func (s *Session) rate(name string) time.Duration {
	return max(time.Duration(s.opts.get(name)), 100*time.Microsecond)
}

func (s *Session) policy() bpf.BufPolicy { return bpf.BufPolicy(s.opts.get("bufpolicy")) }

// pressure says that a ring fills up before its time.
func (s *Session) pressure() bool {
	if s.policy() != bpf.BufSwitch {
		return false
	}
	rings := s.rt.Rings()
	for cpu := range rings.NCPU() {
		if rings.Used(cpu) > rings.Geometry().Cap/8 {
			return true
		}
	}
	return false
}

// noticed says whether it is time to look for exit(): at once, unless the
// program asks for a slower pace by the option statusrate.
func (s *Session) noticed() bool {
	_, set := s.opts.val["statusrate"]
	return !set || !time.Now().Before(s.work.nextStatus)
}

// ended says whether there is a reason to end tracing: exit(), Stop, the end
// of all processes, a full buffer.
func (s *Session) ended() bool {
	if a, _ := s.rt.Activity(); a >= bpf.Draining && s.noticed() {
		return true
	}
	if s.stopAsked.Load() {
		return true
	}
	for _, t := range s.targets {
		if s.reported[t] {
			continue
		}
		select {
		case <-t.Done():
			s.reported[t] = true
			s.running.live--
			if s.Handlers.Process != nil {
				s.Handlers.Process(t.PID, t.Ended())
			}
		default:
		}
	}
	if len(s.targets) > 0 && s.running.live == 0 {
		return true
	}
	if s.policy() == bpf.BufFill {
		rings := s.rt.Rings()
		for cpu := range rings.NCPU() {
			if rings.Full(cpu) {
				return true
			}
		}
	}
	return false
}

// consume prints what the rings hold. Records younger than the moment it
// began wait for the next turn, when those of other CPUs are there as well;
// the last turn takes all.
func (s *Session) consume(last bool) error {
	if !last && s.policy() != bpf.BufSwitch {
		return nil
	}
	r := s.running
	until := uint64(math.MaxUint64)
	if !last {
		until = monotonic()
	}
	r.gone.note(s)
	r.consumer.BeginBatch()
	rings := s.rt.Rings()
	snap := s.beginSnap(rings)
	err := rings.Merge(until, snap.count(r.consumer.Record))
	snap.end(s, rings, err)
	if err != nil {
		return err
	}
	return r.consumer.Flush()
}

// monotonic is the clock of the built-in timestamp, in ns.
func monotonic() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return math.MaxUint64
	}
	return uint64(ts.Nano())
}

// snapshot moves what was aggregated to the consumer's tables.
func (s *Session) snapshot() error {
	if len(s.running.obj.Aggs) == 0 {
		return nil
	}
	return s.act(func() error {
		s.running.gone.note(s)
		return s.rt.SnapshotAggs(func(form, cpu int, key []byte, words []int64) error {
			s.running.gone.noteKey(s, form, key)
			return s.running.consumer.AddAgg(form, cpu, key, words)
		})
	}, "read %d aggregations", len(s.running.obj.Aggs))
}

// finish ends tracing: nothing but END fires any more, everything recorded is
// printed, and at last what was aggregated.
func (s *Session) finish() error {
	r, c := s.running, s.running.consumer
	err := func() error {
		s.rt.SetActivity(bpf.Draining)
		r.detach()
		if err := s.rt.Quiesce(); err != nil {
			return err
		}
		s.rt.Rings().Freeze()
		if s.policy() == bpf.BufSwitch {
			if err := s.consume(true); err != nil {
				return err
			}
		}
		if r.end >= 0 {
			if err := s.act(func() error { return s.rt.RunManual(r.end) }, "run END"); err != nil {
				return fmt.Errorf("failed to run END: %w", err)
			}
			s.rt.Rings().Freeze()
		}
		if err := s.consume(true); err != nil {
			return err
		}
		if err := s.snapshot(); err != nil {
			return err
		}
		s.rt.SetActivity(bpf.Stopped)
		if err := s.reportDrops(); err != nil {
			return err
		}
		if err := c.Newline(); err != nil {
			return err
		}
		return c.PrintAggs()
	}()
	if err != nil {
		return s.abort(err)
	}
	s.status = c.Status
	return c.Finish()
}

// abort ends tracing after an error that leaves no way to go on: what was
// printed before it is out.
func (s *Session) abort(err error) error {
	s.work.done = true
	s.rt.SetActivity(bpf.Stopped)
	s.status = s.running.consumer.Status
	if ferr := s.running.consumer.Finish(); ferr != nil && !errors.Is(err, ferr) {
		err = errors.Join(err, ferr)
	}
	return err
}

// host is the session as its consumer sees it.
type host struct{ *Session }

func (h host) Snapshot() error             { return h.snapshot() }
func (h host) SpecDone(id int)             { h.rt.FreeSpeculation(id) }
func (h host) ProbeString(n uint32) string { return h.rt.ProbeString(n) }

func (h host) SetOption(name, value string) error {
	if err := h.opts.set(name, value, anyTime); err != nil {
		return err
	}
	h.applyOutputOptions(h.running.consumer)
	if h.Handlers.SetOption != nil {
		h.Handlers.SetOption(name, value)
	}
	return nil
}

func (h host) Speculations() error {
	rings := h.rt.SpecRings()
	if rings == nil {
		return nil
	}
	if err := h.rt.Quiesce(); err != nil {
		return err
	}
	return rings.Merge(math.MaxUint64, func(cpu int, rec []byte) error {
		if h.rt.SpecRoom(cpu, rec) {
			h.running.consumer.Speculative(cpu, rec)
		}
		return nil
	})
}

func (h host) Fault(f consume.FaultInfo) error {
	h.work.faults++
	if h.Handlers.Error == nil {
		return fmt.Errorf("%s", f.Msg)
	}
	return h.Handlers.Error(ProgramFault{
		CPU: f.CPU, Probe: probeInfo(f.Probe), Epid: f.Epid,
		Fault: int(f.Kind), Addr: f.Addr, Line: f.Line, Msg: f.Msg,
	})
}

// dropKind is a row of the table of drops: DTrace's number, its tag and its words.
type dropKind struct {
	number          int // -1: DTrace does not have it
	tag, what, tail string
}

var (
	dropPrincipal   = dropKind{0, "DTRACEDROP_PRINCIPAL", "drop", ""}
	dropAggregation = dropKind{1, "DTRACEDROP_AGGREGATION", "aggregation drop", ""}
	dropDynamic     = dropKind{2, "DTRACEDROP_DYNAMIC", "dynamic variable drop", ""}
	dropSpec        = dropKind{5, "DTRACEDROP_SPEC", "speculative drop", ""}
	dropSpecBusy    = dropKind{6, "DTRACEDROP_SPECBUSY", "failed speculation", " (available buffer(s) still busy)"}
	dropSpecUnavail = dropKind{7, "DTRACEDROP_SPECUNAVAIL", "failed speculation", " (no speculative buffer available)"}
	dropError       = dropKind{9, "DTRACEDROP_DBLERROR", "error", " in ERROR probe enabling"}
	// Kinds that DTrace does not have.
	dropNested    = dropKind{-1, "DTRACEDROP_NESTED", "nested firing drop", ""}
	dropRecursion = dropKind{-1, "DTRACEDROP_RECURSION", "firing", " skipped by the kernel (probe fired within a probe)"}
	dropReturns   = dropKind{-1, "DTRACEDROP_RETURNS", "return", " missed by the kernel (too many tasks in the function at once)"}
)

// reportDrops tells the handler what was lost since it was last told.
func (s *Session) reportDrops() error {
	now, old := s.rt.Drops(), s.work.drops
	now.Recursion += s.running.skipped()
	s.work.drops = now
	var errs []error
	tell := func(k dropKind, cpu int, n, o uint64) {
		if n <= o {
			return
		}
		var b strings.Builder
		if s.opts.flag("droptags") {
			fmt.Fprintf(&b, "[%s] ", k.tag)
		}
		fmt.Fprintf(&b, "%d %s", n-o, k.what)
		if n-o > 1 {
			b.WriteByte('s')
		}
		b.WriteString(k.tail)
		if cpu >= 0 {
			fmt.Fprintf(&b, " on CPU %d", cpu)
		}
		if sink := s.running.consumer.Sink; sink != nil {
			errs = append(errs, sink.Drop(k.number, cpu, n-o, n, b.String()))
		}
		d := Drop{Kind: k.tag, CPU: cpu, Count: n - o, Total: n, Msg: b.String()}
		if s.Handlers.Drop == nil {
			errs = append(errs, errors.New(d.Msg))
			return
		}
		errs = append(errs, s.Handlers.Drop(d))
	}
	perCPU := func(k dropKind, n, o []uint64) {
		for cpu, v := range n {
			var ov uint64
			if cpu < len(o) {
				ov = o[cpu]
			}
			tell(k, cpu, v, ov)
		}
	}
	perCPU(dropPrincipal, now.Principal, old.Principal)
	perCPU(dropAggregation, now.Aggregation, old.Aggregation)
	tell(dropDynamic, -1, now.Dynamic, old.Dynamic)
	tell(dropSpec, -1, sum(now.Speculative), sum(old.Speculative))
	tell(dropSpecBusy, -1, now.SpecBusy, old.SpecBusy)
	tell(dropSpecUnavail, -1, now.SpecUnavail, old.SpecUnavail)
	tell(dropError, -1, now.ErrorInError, old.ErrorInError)
	perCPU(dropNested, now.Nested, old.Nested)
	tell(dropRecursion, -1, now.Recursion, old.Recursion)
	missed, before := s.running.missed(), s.work.missed
	s.work.missed = missed
	tell(dropReturns, -1, missed, before)
	s.rt.SetMissed(now.Recursion + missed)
	return errors.Join(errs...)
}

func sum(v []uint64) (n uint64) {
	for _, x := range v {
		n += x
	}
	return n
}

var _ consume.Host = host{}

// crash panics the kernel, by the magic system request: no eBPF program may. The
// system's dump, if there is one, is written as for any panic.
func crash() error {
	err := os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return &kernel.FeatureError{Name: "magic system requests", Since: "CONFIG_MAGIC_SYSRQ"}
	}
	return err
}
