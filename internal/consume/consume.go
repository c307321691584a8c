package consume

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/format"
	"godtrace/internal/probe"
	"godtrace/internal/types"
)

// Probe is an enabled probe; records carry its index.
type Probe struct {
	Probe *probe.Probe
	Epid  int
}

// Host is what the consumer asks of its session.
type Host interface {
	// Snapshot brings the tables up to date with what the maps hold.
	Snapshot() error
	// SetOption is the action setopt().
	SetOption(name, value string) error
	// Fault reports a fault of a D program. An error ends tracing.
	Fault(FaultInfo) error
	// SpecDone makes a speculation available again.
	SpecDone(id int)
	// Speculations moves the records of speculations to the consumer, by way
	// of Speculative, as far as they are complete.
	Speculations() error
	// ProbeString is the string an aggregation key holds the number of.
	ProbeString(n uint32) string
}

// FaultInfo is a fault with what messages need.
type FaultInfo struct {
	Fault
	CPU    int
	Probe  *probe.Probe
	Epid   int
	Clause *dif.Clause
	Msg    string // as dtrace(1) prints it, without newline
}

// View is what a firing looks like to a library client.
type View struct {
	CPU   int
	Time  uint64
	Probe *probe.Probe
	Epid  int
	Rec   *dif.Record

	payload []byte
}

// A Sink takes a consumer's reports in place of text. Values and text belong
// to the consumer: a sink that keeps them copies them.
type Sink interface {
	// Firing begins the report of a firing; a sequence of Action and Aggs
	// follows, then Done.
	Firing(v *View)
	// Action is something recorded: its values, and the text it prints as.
	Action(a *dif.Action, vals []format.Value, text []byte)
	// Aggs are aggregations shown side by side, and the text they print as
	// where printa() gave a format. Without Firing before it is the end of
	// tracing that shows them.
	Aggs(tables []*agg.Table, rows []agg.Row, text []byte)
	Done() error
	// Drop is a loss of data. kind is a number of DTrace's DTRACEDROP_….
	Drop(kind, cpu int, count, total uint64, msg string) error
	// Close ends the output.
	Close() error
}

// Consumer prints records and aggregations. It belongs to one goroutine.
type Consumer struct {
	Obj     *dif.Object
	Probes  []Probe
	Host    Host
	Resolve *Resolver
	Format  format.Options
	Order   agg.Order
	Flow    bool // option flowindent
	// PrintSize is how many bytes of a value print() shows; 0 for all.
	PrintSize int
	// Testing leaves out what differs from run to run: CPU and probe ID.
	Testing bool
	// Chew, if set, is called before a firing is printed; false leaves it out.
	Chew func(v *View) (print bool, err error)
	// Print, if set, takes what would be printed: the text of a firing, or with
	// v nil what belongs to none. The text is valid until it returns.
	Print func(v *View, text []byte) error
	// Sink, if set, is told what would be printed, and nothing is printed.
	Sink Sink
	// Pause, if set, is called before a command is run for system(), and what
	// it returns after: the session may run at another priority.
	Pause func() (resume func())
	// Dissect has pcap() tell what packets are with the help of tshark.
	Dissect bool
	// Panic takes the machine down.
	Panic func() error
	// Status is the argument of exit(), once seen.
	Status int
	Exited bool
	// Tables hold the aggregations, by ID.
	Tables []*agg.Table

	out     *output
	printed *View // the firing whose text is in buf
	buf     []byte
	view    View // of the record being printed
	vals    []format.Value
	parts   agg.Key
	heading bool
	flows   map[int]*format.Flow
	last    map[int]int // probe index of the CPU's line before, for Flow
	specs   map[uint16][]specRec
	fresh   bool // the tables are up to date for this batch
	specsIn bool // so are the speculations
	packets packets
}

type specRec struct {
	cpu int
	rec []byte
}

// New returns a consumer that prints to w.
func New(obj *dif.Object, probes []Probe, w io.Writer, h Host) *Consumer {
	c := &Consumer{
		Obj: obj, Probes: probes, Host: h, Resolve: NewResolver(),
		out:   &output{w: bufio.NewWriterSize(w, 64<<10), base: w},
		flows: map[int]*format.Flow{}, last: map[int]int{}, specs: map[uint16][]specRec{},
	}
	c.Format.Resolver, c.Format.StrSize = c.Resolve, obj.StrSize
	for _, a := range obj.Aggs {
		c.Tables = append(c.Tables, agg.NewTable(a.Name, a.ID, a.Spec))
	}
	return c
}

// output is where printing goes: the session's writer or, after freopen(), a file.
type output struct {
	w    *bufio.Writer
	base io.Writer
	file *os.File // freopen()'s, nil for base
	err  error
}

func (o *output) Write(b []byte) (int, error) {
	// What is printed at once leaves at once: a traced command that shares the
	// output does not write into the middle of a line.
	if len(b) > o.w.Available() {
		if err := o.w.Flush(); err != nil && o.err == nil {
			o.err = err
		}
	}
	n, err := o.w.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// Finish ends the output.
func (c *Consumer) Finish() error {
	if err := c.endPackets(); err != nil {
		return err
	}
	if c.Sink != nil {
		if err := c.Sink.Close(); err != nil {
			return err
		}
	}
	return c.Flush()
}

// Flush hands everything printed to the operating system. The error is the
// first that any write met.
func (c *Consumer) Flush() error {
	if err := c.out.w.Flush(); err != nil && c.out.err == nil {
		c.out.err = err
	}
	if err := c.packets.flush(); err != nil && c.out.err == nil {
		c.out.err = err
	}
	return c.out.err
}

// Values are the values that an action of a firing recorded. Their Bytes are
// valid until the firing's handler returns.
func (c *Consumer) Values(v *View, a *dif.Action) []format.Value {
	out := make([]format.Value, len(a.Fields))
	for i := range a.Fields {
		value(&out[i], &a.Fields[i], v.payload, &v.Probe.Desc)
	}
	return out
}

// BeginBatch is called before the records of a batch: printa() takes one
// snapshot a batch.
func (c *Consumer) BeginBatch() { c.fresh, c.specsIn = false, false }

// Speculative takes in a record of a speculation. rec is copied.
func (c *Consumer) Speculative(cpu int, rec []byte) {
	id := ParseHeader(rec).Spec
	c.specs[id] = append(c.specs[id], specRec{cpu, append([]byte(nil), rec...)})
}

// Record prints one record of a CPU: header and payload.
func (c *Consumer) Record(cpu int, rec []byte) error {
	h := ParseHeader(rec)
	payload := rec[dif.HdrSize:]
	if int(h.Probe) >= len(c.Probes) {
		return fmt.Errorf("corrupt record on CPU %d: probe %d of %d", cpu, h.Probe, len(c.Probes))
	}
	p := &c.Probes[h.Probe]
	if h.Rec == dif.RecFault {
		return c.fault(cpu, p, payload)
	}
	if int(h.Rec) >= len(c.Obj.Records) {
		return fmt.Errorf("corrupt record on CPU %d: kind %d of %d", cpu, h.Rec, len(c.Obj.Records))
	}
	r := c.Obj.Records[h.Rec]
	if len(payload) < r.Size {
		return fmt.Errorf("corrupt record on CPU %d: %d bytes, expected %d", cpu, len(payload), r.Size)
	}
	if settles(r) {
		return c.settle(r, payload)
	}
	c.view = View{CPU: cpu, Time: h.Time, Probe: p.Probe, Epid: p.Epid, Rec: r}
	return c.print(&c.view, int(h.Probe), payload)
}

// settles says whether all that a clause does is to decide about speculations.
// Data-recording actions cannot be beside commit(), but beside discard().
func settles(r *dif.Record) bool {
	only := len(r.Actions) > 0
	for i := range r.Actions {
		switch r.Actions[i].Kind {
		case dif.ActCommit:
			return true
		case dif.ActDiscard:
		default:
			only = false
		}
	}
	return only
}

// settle handles such a record: it has no line of its own, what it committed
// stands for it.
func (c *Consumer) settle(r *dif.Record, payload []byte) error {
	for i := range r.Actions {
		var err error
		switch a := &r.Actions[i]; a.Kind {
		case dif.ActCommit:
			err = c.commit(a, payload)
		case dif.ActDiscard:
			err = c.discard(a, payload)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// speculation takes the records of the speculation that an action names.
func (c *Consumer) speculation(a *dif.Action, payload []byte) ([]specRec, error) {
	id := uint16(c.intArg(a, 0, payload))
	// Everything speculated before the batch began is in by now.
	if !c.specsIn {
		c.specsIn = true
		if err := c.Host.Speculations(); err != nil {
			return nil, err
		}
	}
	recs := c.specs[id]
	delete(c.specs, id)
	c.Host.SpecDone(int(id))
	return recs, nil
}

func (c *Consumer) commit(a *dif.Action, payload []byte) error {
	recs, err := c.speculation(a, payload)
	if err != nil {
		return err
	}
	for _, s := range recs {
		h := ParseHeader(s.rec)
		p := &c.Probes[h.Probe]
		v := View{CPU: s.cpu, Time: h.Time, Probe: p.Probe, Epid: p.Epid, Rec: c.Obj.Records[h.Rec]}
		if err := c.print(&v, int(h.Probe), s.rec[dif.HdrSize:]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Consumer) discard(a *dif.Action, payload []byte) error {
	_, err := c.speculation(a, payload)
	return err
}

func (c *Consumer) intArg(a *dif.Action, i int, payload []byte) uint64 {
	if i >= len(a.Fields) {
		return 0
	}
	f := &a.Fields[i]
	return intAt(payload[f.Off:], f.Size, f.Signed)
}

// print prints the line of a firing and what its actions recorded.
func (c *Consumer) print(v *View, index int, payload []byte) error {
	v.payload = payload
	c.printed = v
	if c.Chew != nil {
		ok, err := c.Chew(v)
		if err != nil || !ok {
			return err
		}
	}
	c.buf = c.buf[:0]
	d := &v.Probe.Desc
	if c.Sink != nil {
		c.Sink.Firing(v)
		for i := range v.Rec.Actions {
			if err := c.report(&v.Rec.Actions[i], v, d, payload); err != nil {
				return err
			}
		}
		return c.Sink.Done()
	}
	c.head(v, index)
	for i := range v.Rec.Actions {
		if err := c.action(&v.Rec.Actions[i], v, d, payload); err != nil {
			c.emit() // what comes before it
			return err
		}
	}
	if !c.Format.Quiet {
		c.buf = append(c.buf, '\n')
	}
	return c.emit()
}

func (c *Consumer) emit() error {
	if c.Print != nil {
		text := c.buf
		c.buf = c.buf[:0]
		return c.Print(c.printed, text)
	}
	_, err := c.out.Write(c.buf)
	c.buf = c.buf[:0]
	return err
}

// head begins the line: CPU, ID and name, or the indented form.
func (c *Consumer) head(v *View, index int) {
	d := &v.Probe.Desc
	skip := 0
	if !c.heading {
		c.heading = true
		if c.Flow || !c.Format.Quiet {
			if c.Testing {
				skip = len("CPU ")
				if !c.Flow {
					skip = len("CPU     ID ")
				}
			}
			c.buf = append(c.buf, format.Header(nil, c.Flow)[skip:]...)
		}
	}
	switch {
	case c.Flow:
		f := c.flows[v.CPU]
		if f == nil {
			f = new(format.Flow)
			c.flows[v.CPU] = f
		}
		prev, ok := c.last[v.CPU]
		again := ok && prev == index && format.KindOfFlow(d.Name) == format.FlowEntry
		c.last[v.CPU] = index
		line := f.Line(nil, v.CPU, d.Provider, d.Func, d.Name, again)
		if c.Testing {
			line = line[len("CPU "):]
		}
		c.buf = append(c.buf, line...)
	case !c.Format.Quiet:
		line := format.ProbeLine(nil, v.CPU, v.Probe.ID, d.Func, d.Name)
		if c.Testing {
			line = line[len("CPU     ID "):]
		}
		c.buf = append(c.buf, line...)
	}
}

// report tells the sink of one action of a record, and does what the action
// does to the consumer.
func (c *Consumer) report(a *dif.Action, v *View, d *probe.Desc, payload []byte) error {
	defer func() { c.buf = c.buf[:0] }()
	if a.Kind == dif.ActPrinta {
		tables, rows, err := c.rows(a)
		if err != nil {
			return err
		}
		if a.Format != nil {
			if err := c.printRows(a, rows); err != nil {
				return err
			}
		}
		c.Sink.Aggs(tables, rows, c.buf)
		return nil
	}
	if err := c.action(a, v, d, payload); err != nil {
		return err
	}
	c.Sink.Action(a, c.values(a, payload, d), c.buf)
	return nil
}

// action prints one action of a record, or does at consumer time what it asks for.
func (c *Consumer) action(a *dif.Action, v *View, d *probe.Desc, payload []byte) error {
	if slices.ContainsFunc(a.Fields, func(f dif.Field) bool { return tooDeep(&f, payload) }) {
		return errors.New("Data record has incorrect size")
	}
	switch a.Kind {
	case dif.ActTrace, dif.ActStack, dif.ActUStack, dif.ActJStack,
		dif.ActSym, dif.ActFunc, dif.ActMod, dif.ActUSym, dif.ActUFunc, dif.ActUMod, dif.ActUAddr:
		for i := range a.Fields {
			c.buf = c.trace(&a.Fields[i], payload, d)
		}
	case dif.ActTracemem:
		f := &a.Fields[0]
		n := f.Size
		if len(a.Fields) > 1 {
			if m := int64(c.intArg(a, 1, payload)); m >= 0 && m < int64(n) {
				n = int(m)
			}
		}
		c.buf = format.DumpBytes(c.buf, payload[f.Off:f.Off+n])
	case dif.ActPrintf:
		var err error
		if c.buf, err = a.Format.Append(c.buf, c.values(a, payload, d), &c.Format); err != nil {
			return err
		}
	case dif.ActPrint:
		return c.printTyped(a, payload)
	case dif.ActPrinta:
		return c.printa(a)
	case dif.ActExit:
		c.Status, c.Exited = int(int32(c.intArg(a, 0, payload))), true
	case dif.ActSystem:
		return c.system(a, payload, d)
	case dif.ActFreopen:
		return c.freopen(a, payload, d)
	case dif.ActFtruncate:
		return c.ftruncate()
	case dif.ActSetopt:
		return c.setopt(a, v, payload)
	case dif.ActClear:
		return c.withTable(a, (*agg.Table).Clear)
	case dif.ActTrunc:
		n := int64(0)
		if len(a.Fields) > 0 {
			n = int64(c.intArg(a, 0, payload))
		}
		return c.withTable(a, func(t *agg.Table) { t.Trunc(n) })
	case dif.ActNormalize:
		n := int64(c.intArg(a, 0, payload))
		if n == 0 {
			return nil
		}
		return c.withTable(a, func(t *agg.Table) { t.Normal = n })
	case dif.ActDenormalize:
		return c.withTable(a, func(t *agg.Table) { t.Normal = 0 })
	case dif.ActDiscard:
		return c.discard(a, payload)
	case dif.ActPcap:
		return c.pcap(a, v, payload)
	case dif.ActPanic:
		return c.panic()
	}
	return nil
}

func (c *Consumer) trace(f *dif.Field, payload []byte, d *probe.Desc) []byte {
	var v format.Value
	c.value(&v, f, payload, d)
	return format.Trace(c.buf, v, &c.Format)
}

func (c *Consumer) value(v *format.Value, f *dif.Field, payload []byte, d *probe.Desc) {
	value(v, f, payload, d)
	if v.Kind == format.UStack {
		v.PCs = c.Resolve.code(v.PID, v.PCs)
	}
}

func (c *Consumer) values(a *dif.Action, payload []byte, d *probe.Desc) []format.Value {
	n := len(a.Fields)
	c.vals = slices.Grow(c.vals[:0], n)[:n]
	for i := range a.Fields {
		c.value(&c.vals[i], &a.Fields[i], payload, d)
	}
	return c.vals
}

func (c *Consumer) printTyped(a *dif.Action, payload []byte) error {
	addr, data := c.typed(a, payload)
	var w strings.Builder
	if err := types.Print(&w, a.Type, data, types.PrintOpts{Addr: addr, Indent: types.PrintIndent}); err != nil {
		return err
	}
	c.buf = append(c.buf, w.String()...)
	return nil
}

// typed is what print() recorded: where the value was, 0 if nowhere, and as
// much of it as printsize allows.
func (c *Consumer) typed(a *dif.Action, payload []byte) (addr uint64, data []byte) {
	f := &a.Fields[0]
	if len(a.Fields) > 1 {
		addr, f = c.intArg(a, 0, payload), &a.Fields[1]
	}
	size := f.Size
	if c.PrintSize > 0 {
		size = min(size, c.PrintSize)
	}
	return addr, payload[f.Off : f.Off+size]
}

// snapshot brings the tables up to date, once a batch.
func (c *Consumer) snapshot() error {
	if c.fresh {
		return nil
	}
	c.fresh = true
	return c.Host.Snapshot()
}

func (c *Consumer) withTable(a *dif.Action, f func(*agg.Table)) error {
	if err := c.snapshot(); err != nil {
		return err
	}
	for _, id := range a.Aggs {
		f(c.Tables[id])
	}
	return nil
}

// rows are the rows that printa() shows: aggregations side by side where there
// are several.
func (c *Consumer) rows(a *dif.Action) ([]*agg.Table, []agg.Row, error) {
	if err := c.snapshot(); err != nil {
		return nil, nil, err
	}
	tables := make([]*agg.Table, len(a.Aggs))
	for i, id := range a.Aggs {
		tables[i] = c.Tables[id]
		tables[i].Printed = true
	}
	return tables, agg.Join(tables, c.Order), nil
}

func (c *Consumer) printa(a *dif.Action) error {
	_, rows, err := c.rows(a)
	if err != nil {
		return err
	}
	if a.Format == nil {
		c.buf = append(c.buf, '\n')
		c.buf = format.Rows(c.buf, rows, &c.Format)
		return nil
	}
	return c.printRows(a, rows)
}

func (c *Consumer) printRows(a *dif.Action, rows []agg.Row) error {
	for _, r := range rows {
		var err error
		if c.buf, err = a.Format.AppendRow(c.buf, r, &c.Format); err != nil {
			return err
		}
	}
	return nil
}

// PrintAggs prints what printa() has not printed: what happens at the end of tracing.
func (c *Consumer) PrintAggs() error {
	c.printed = nil
	for _, t := range agg.Unprinted(c.Tables, c.Order) {
		if c.Sink != nil {
			c.Sink.Aggs([]*agg.Table{t}, t.Rows(c.Order), nil)
			if err := c.Sink.Done(); err != nil {
				return err
			}
			continue
		}
		c.buf = format.Rows(c.buf, t.Rows(c.Order), &c.Format)
		if err := c.emit(); err != nil {
			return err
		}
	}
	return nil
}

// Newline prints an empty line.
func (c *Consumer) Newline() error {
	if c.Sink != nil {
		return nil
	}
	c.printed = nil
	c.buf = append(c.buf[:0], '\n')
	return c.emit()
}

// AddAgg merges a drained value into its table.
func (c *Consumer) AddAgg(form, cpu int, key []byte, words []int64) error {
	if form < 0 || form >= len(c.Obj.Forms) {
		return fmt.Errorf("corrupt aggregation: form %d of %d", form, len(c.Obj.Forms))
	}
	f := c.Obj.Forms[form]
	c.parts = c.parts[:0]
	for i := range f.Keys {
		p := keyPart(&f.Keys[i], key, c.Host.ProbeString, c.Resolve.symbolStart)
		if p.Kind == agg.UStack {
			p.PCs = c.Resolve.code(p.PID, p.PCs)
		}
		c.parts = append(c.parts, p)
	}
	c.Tables[f.Agg].Add(cpu, c.parts, words)
	return nil
}

// text renders the format of an action to a string.
func (c *Consumer) text(a *dif.Action, payload []byte, d *probe.Desc) (string, error) {
	b, err := a.Format.Append(nil, c.values(a, payload, d), &c.Format)
	return string(b), err
}

// system runs a command in its place among the output.
func (c *Consumer) system(a *dif.Action, payload []byte, d *probe.Desc) error {
	cmd, err := c.text(a, payload, d)
	if err != nil {
		return err
	}
	if err := c.emit(); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	sh := exec.Command("/bin/sh", "-c", cmd)
	sh.Stdin, sh.Stdout, sh.Stderr = os.Stdin, c.out.forCommands(), os.Stderr
	var said *os.File // what goes into structured output. No pipe, which a command left running would hold open.
	if c.Sink != nil {
		fd, err := unix.MemfdCreate("system()", unix.MFD_CLOEXEC)
		if err != nil {
			return os.NewSyscallError("memfd_create", err)
		}
		said = os.NewFile(uintptr(fd), "system()")
		defer said.Close()
		sh.Stdout = said
	}
	// As in DTrace, what the command makes of it does not matter to tracing.
	if c.Pause != nil {
		defer c.Pause()()
	}
	_ = sh.Run()
	if said != nil {
		if _, err := said.Seek(0, io.SeekStart); err != nil {
			return err
		}
		text, err := io.ReadAll(said)
		c.buf = append(c.buf, text...)
		return err
	}
	return nil
}

// forCommands is where commands write to: into our own output, but if that is
// a file of the session's (-o) to standard output, as in DTrace.
func (o *output) forCommands() io.Writer {
	if o.file != nil {
		return o.file
	}
	switch w := o.base.(type) {
	case interface{ File() *os.File }:
		return w.File() // no copying in between: the command sees a terminal where there is one
	case *os.File:
		return os.Stdout
	}
	return o.base
}

func (o *output) current() io.Writer {
	if o.file != nil {
		return o.file
	}
	return o.base
}

// freopenRestore is what the checker makes of freopen("").
const freopenRestore = "."

// freopen turns the output to a file, or back.
func (c *Consumer) freopen(a *dif.Action, payload []byte, d *probe.Desc) error {
	if c.Sink != nil {
		return nil // parts of structured output have no meaning
	}
	name, err := c.text(a, payload, d)
	if err != nil {
		return err
	}
	if err := c.emit(); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	if c.out.file != nil {
		if err := c.out.file.Close(); err != nil {
			return err
		}
		c.out.file = nil
	}
	if name != freopenRestore {
		if c.out.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666); err != nil {
			return fmt.Errorf("freopen: %w", err)
		}
	}
	c.out.w.Reset(c.out.current())
	return nil
}

// ftruncate empties the output if it is a file.
func (c *Consumer) ftruncate() error {
	if c.Sink != nil {
		return nil
	}
	c.buf = c.buf[:0]
	c.out.w.Reset(c.out.current())
	f, ok := c.out.current().(*os.File)
	if !ok {
		return nil
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("ftruncate: %w", err)
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// panic takes the machine down. What was printed before is out by then.
func (c *Consumer) panic() error {
	if c.Panic == nil {
		return errors.New("panic(): there is no machine to panic")
	}
	if err := c.emit(); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	if err := c.Panic(); err != nil {
		return fmt.Errorf("panic(): %w", err)
	}
	return nil
}

// setopt sets an option; what it does not do is a fault of the program.
func (c *Consumer) setopt(a *dif.Action, v *View, payload []byte) error {
	val := ""
	if len(a.Strs) > 1 {
		val = a.Strs[1]
	}
	why := c.Host.SetOption(a.Strs[0], val)
	if why == nil {
		return nil
	}
	// What was printed before comes before the message.
	if err := c.emit(); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	if val == "" {
		val = "1"
	}
	f := FaultInfo{Fault: Fault{Kind: dif.FltLibrary, Line: a.Line}, CPU: v.CPU, Probe: v.Probe, Epid: v.Epid}
	name := "unknown clause"
	if v.Rec.Clause < len(c.Obj.Clauses) {
		f.Clause = c.Obj.Clauses[v.Rec.Clause]
		name = f.Clause.Name
	}
	f.Msg = fmt.Sprintf("error in %s for probe ID %d (%s): couldn't set option \"%s\" to \"%s\": %v\n",
		name, v.Probe.ID, v.Probe.Desc, a.Strs[0], val, why)
	return c.Host.Fault(f)
}

// faultText are the words of dtrace_faultstr().
var faultText = map[dif.FaultKind]string{
	dif.FltBadAddr:   "invalid address",
	dif.FltBadAlign:  "invalid alignment",
	dif.FltIllOp:     "illegal operation",
	dif.FltDivZero:   "divide-by-zero",
	dif.FltNoScratch: "out of scratch space",
	dif.FltKPriv:     "invalid kernel access",
	dif.FltUPriv:     "invalid user access",
	dif.FltTupOflow:  "tuple stack overflow",
	dif.FltBadStack:  "bad stack",
	dif.FltLibrary:   "library-level fault",
	dif.FltBadSize:   "invalid size",
	dif.FltBadIndex:  "index out of bounds",
}

func (c *Consumer) fault(cpu int, p *Probe, payload []byte) error {
	if len(payload) < 24 {
		return fmt.Errorf("corrupt fault report on CPU %d", cpu)
	}
	f := FaultInfo{Fault: parseFault(payload), CPU: cpu, Probe: p.Probe, Epid: p.Epid}
	name := "unknown clause"
	if f.Fault.Clause < len(c.Obj.Clauses) {
		f.Clause = c.Obj.Clauses[f.Fault.Clause]
		name = f.Clause.Name
	}
	what := faultText[f.Kind]
	if what == "" {
		what = "unknown fault"
	}
	details := ""
	switch f.Kind {
	case dif.FltBadAddr, dif.FltBadAlign, dif.FltBadStack, dif.FltBadSize:
		details = fmt.Sprintf(" (0x%x)", f.Addr)
	case dif.FltBadIndex:
		details = fmt.Sprintf(" (%d)", int64(f.Addr))
	}
	// The offset is that of the instruction in the clause's intermediate code,
	// what -S lists; the words are those users of DTrace on Linux know.
	f.Msg = fmt.Sprintf("error in %s for probe ID %d (%s): %s%s at BPF pc %d",
		name, p.Probe.ID, p.Probe.Desc, what, details, f.PC)
	return c.Host.Fault(f)
}
