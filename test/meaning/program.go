// Package meaning runs D programs on synthetic firings with the interpreter
// of DIF and prints what dtrace(1) would print: no kernel takes part. Its
// tests are tables of programs with the output that a manual or a C compiler
// promises; package agree runs the same programs as eBPF.
package meaning

import (
	"bytes"
	"fmt"
	"strings"

	"godtrace/internal/check"
	"godtrace/internal/compile"
	"godtrace/internal/consume"
	"godtrace/internal/dif"
	"godtrace/internal/dlib"
	"godtrace/internal/probe"
	"godtrace/internal/syntax"
)

// Enabled is a probe with the clauses enabled on it, in program order.
type Enabled struct {
	Probe   *probe.Probe
	Clauses []*dif.Clause
	Epid    int
}

// Program is a compiled D program. Enabled are its probes in the order in
// which they are first named; record headers carry the index.
type Program struct {
	Obj     *dif.Object
	Enabled []*Enabled
	File    *syntax.File
	Options map[string]string // set by pragmas
}

// Compile compiles D source. opt's zero value is DTrace's defaults.
func Compile(src string, env check.Env, opt compile.Options) (*Program, error) {
	p := &Program{Options: map[string]string{}}
	c := check.New(env, check.Options{
		Library:   dlib.Lookup,
		SetOption: func(name, value string) error { p.Options[name] = value; return nil },
	})
	f, err := syntax.Parse("", []byte(src), syntax.Options{Script: true, PSpec: true, IsType: c.IsType, Macros: env.Macro})
	if err != nil {
		return nil, err
	}
	p.File = f
	prog, err := c.File(f)
	if err != nil {
		return nil, err
	}
	comp := compile.New(opt)
	of := map[*probe.Probe]*Enabled{}
	for _, cl := range prog.Clauses {
		d, err := comp.Clause(cl)
		if err != nil {
			return nil, err
		}
		for _, pr := range cl.Probes {
			e := of[pr]
			if e == nil {
				e = &Enabled{Probe: pr}
				of[pr] = e
				p.Enabled = append(p.Enabled, e)
			}
			e.Clauses = append(e.Clauses, d)
		}
	}
	p.Obj = comp.Object()
	epid := 1
	for _, e := range p.Enabled {
		e.Epid = epid
		epid += len(e.Clauses)
	}
	return p, nil
}

// Find is the index of the enabled probe that a description matches, or -1.
func (p *Program) Find(desc probe.Desc) int {
	for i, e := range p.Enabled {
		if desc.Match(e.Probe.Desc) {
			return i
		}
	}
	return -1
}

// ParseDesc reads "provider:module:function:name" with parts missing on the left.
func ParseDesc(s string) probe.Desc {
	parts := strings.Split(s, ":")
	for len(parts) < 4 {
		parts = append([]string{""}, parts...)
	}
	return probe.Desc{Provider: parts[0], Module: parts[1], Func: parts[2], Name: parts[3]}
}

// Output turns records and aggregations into text, as the command does.
type Output struct {
	Consumer *consume.Consumer
	// Faults are the faults of the program, "line 3: divide-by-zero".
	Faults []string
	// The engine's part in what the consumer asks for; nil: nothing to do.
	OnSnapshot     func() error
	OnSpeculations func() error
	OnSpecDone     func(id int)
	OnProbeString  func(n uint32) string
	OnPanic        func()

	buf bytes.Buffer
}

// NewOutput is the output of p's records; quiet is the option.
func NewOutput(p *Program, quiet bool) *Output {
	o := new(Output)
	probes := make([]consume.Probe, len(p.Enabled))
	for i, e := range p.Enabled {
		probes[i] = consume.Probe{Probe: e.Probe, Epid: e.Epid}
	}
	o.Consumer = consume.New(p.Obj, probes, &o.buf, host{o})
	o.Consumer.Format.Quiet = quiet
	o.Consumer.Panic = func() error {
		if o.OnPanic != nil {
			o.OnPanic()
		}
		return nil
	}
	for name, val := range p.Options {
		// The options that change what is printed.
		_ = o.SetOption(name, val)
	}
	return o
}

// SetOption sets one of the options that change what is printed.
func (o *Output) SetOption(name, value string) error {
	c, on := o.Consumer, value != "0" && value != "disable" && value != "off"
	switch name {
	case "quiet":
		c.Format.Quiet = on
	case "flowindent":
		c.Flow = on
	case "rawbytes":
		c.Format.RawBytes = on
	case "aggsortkey":
		c.Order.ByKey = on
	case "aggsortrev":
		c.Order.Rev = on
	case "agghist":
		c.Format.Agg.Hist = on
	case "aggpack":
		c.Format.Agg.Pack = on
	case "aggzoom":
		c.Format.Agg.Zoom = on
	default:
		return fmt.Errorf("option %s is not known here", name)
	}
	return nil
}

// End prints the aggregations that no printa() printed, and gives everything
// printed.
func (o *Output) End() (string, error) {
	if o.OnSnapshot != nil {
		if err := o.OnSnapshot(); err != nil {
			return "", err
		}
	}
	if err := o.Consumer.PrintAggs(); err != nil {
		return "", err
	}
	if err := o.Consumer.Finish(); err != nil {
		return "", err
	}
	return o.buf.String(), nil
}

// host answers the consumer.
type host struct{ o *Output }

func (h host) Snapshot() error {
	if h.o.OnSnapshot == nil {
		return nil
	}
	return h.o.OnSnapshot()
}

func (h host) Speculations() error {
	if h.o.OnSpeculations == nil {
		return nil
	}
	return h.o.OnSpeculations()
}

func (h host) SpecDone(id int) {
	if h.o.OnSpecDone != nil {
		h.o.OnSpecDone(id)
	}
}

func (h host) ProbeString(n uint32) string {
	if h.o.OnProbeString == nil {
		return ""
	}
	return h.o.OnProbeString(n)
}

func (h host) SetOption(name, value string) error { return h.o.SetOption(name, value) }

func (h host) Fault(f consume.FaultInfo) error {
	h.o.Faults = append(h.o.Faults, fmt.Sprintf("line %d: %s", f.Line, f.Kind))
	return nil
}

// Interpreter is the execution of a program by the interpreter of DIF.
type Interpreter struct {
	*Output
	Machine *dif.Machine
	prog    *Program
	world   *World
	err     error
}

// Interpret prepares the execution of p in w.
func Interpret(p *Program, w *World, quiet bool) *Interpreter {
	x := &Interpreter{Output: NewOutput(p, quiet), Machine: dif.NewMachine(p.Obj, w), prog: p, world: w}
	m := x.Machine
	x.OnSnapshot = func() error {
		return m.TakeAggregations(func(form int, key []byte, words []int64) error {
			return x.Consumer.AddAgg(form, int(w.Num[dif.BCPU]), key, words)
		})
	}
	x.OnProbeString = m.ProbeString
	x.OnPanic = func() { w.Acts = append(w.Acts, "panic()") }
	m.Emit = func(rec []byte) {
		cpu := int(w.Num[dif.BCPU])
		if consume.ParseHeader(rec).Spec != 0 {
			x.Consumer.Speculative(cpu, rec)
			return
		}
		if err := x.Consumer.Record(cpu, rec); err != nil && x.err == nil {
			x.err = err
		}
	}
	if i := p.Find(probe.Desc{Provider: "dtrace", Name: "ERROR"}); i >= 0 {
		m.Error = x.firing(i)
	}
	return x
}

func (x *Interpreter) firing(i int) *dif.Firing {
	e := x.prog.Enabled[i]
	return &dif.Firing{Index: uint32(i), ID: e.Probe.ID, Epid: e.Epid, Desc: e.Probe.Desc, Clauses: e.Clauses}
}

// Fire fires enabled probe i. After exit() only END fires.
func (x *Interpreter) Fire(i int) error {
	if d := x.prog.Enabled[i].Probe.Desc; x.Machine.Exited && !(d.Provider == "dtrace" && d.Name == "END") {
		return nil
	}
	x.Consumer.BeginBatch()
	x.Machine.Fire(x.firing(i))
	return x.err
}
