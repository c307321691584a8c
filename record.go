package godtrace

import (
	"errors"
	"fmt"
	"strings"

	"godtrace/internal/agg"
	"godtrace/internal/consume"
	"godtrace/internal/dif"
	"godtrace/internal/format"
)

// ErrSkip, returned by Handlers.Record, leaves a record out of the output.
var ErrSkip = errors.New("skip this record")

// A Record is what one clause recorded in one firing of a probe.
type Record struct {
	CPU     int
	Time    uint64 // when it was recorded, in ns: the clock of the built-in timestamp
	Probe   *ProbeInfo
	Epid    int      // of the probe's first enabled clause
	Actions []Action // in the order of the clause; none for an empty clause
}

// An Action is one action of a record with the values it recorded.
//
// A value is an int64 or uint64 by the signedness of its D type (narrower
// integers are extended), a float64, a string, a []byte (structures, arrays,
// tracemem), a Symbol (sym, usym, uaddr, func, ufunc, mod, umod) or a
// []Symbol (stack, ustack, jstack), innermost first; where a user stack could
// not be walked to its end, the last one is named "[...]" and has no address.
type Action struct {
	Name   string // "trace", "printf", "stack", …
	Values []any
}

// A Symbol is an address in the kernel or in a process, and its name as far as
// it is known.
type Symbol struct {
	Addr   uint64
	PID    int    // of the process; 0: the kernel
	Module string // "vmlinux", "libc.so.6"; "" where not known
	Name   string // function or object; "" where not known
	Offset uint64 // of the address in what Name names
}

// String is module`name+0xoffset as far as it is known, else the address.
func (s Symbol) String() string {
	switch {
	case s.Name == "":
		return strings.TrimPrefix(fmt.Sprintf("%s`0x%x", s.Module, s.Addr), "`")
	case s.Offset == 0:
		return strings.TrimPrefix(s.Module+"`"+s.Name, "`")
	}
	return strings.TrimPrefix(fmt.Sprintf("%s`%s+0x%x", s.Module, s.Name, s.Offset), "`")
}

// Values are the values of all actions, one after the other.
func (r *Record) Values() []any {
	var out []any
	for _, a := range r.Actions {
		out = append(out, a.Values...)
	}
	return out
}

// handleRecords puts the handlers for records into a consumer.
func (s *Session) handleRecords(c *consume.Consumer) {
	h := &s.Handlers
	if h.Record == nil && h.Buffered == nil {
		return
	}
	// Record and Buffered are told of the same firing one after the other.
	var last *Record
	c.Chew = func(v *consume.View) (bool, error) {
		last = record(c, v)
		if h.Record == nil {
			return true, nil
		}
		err := h.Record(last)
		if errors.Is(err, ErrSkip) {
			return false, nil
		}
		return err == nil, err
	}
	if h.Buffered != nil {
		c.Print = func(v *consume.View, text []byte) error {
			if len(text) == 0 {
				return nil
			}
			if v == nil {
				return h.Buffered(nil, text)
			}
			return h.Buffered(last, text)
		}
	}
}

// record makes a Record of a firing.
func record(c *consume.Consumer, v *consume.View) *Record {
	r := &Record{CPU: v.CPU, Time: v.Time, Probe: probeInfo(v.Probe), Epid: v.Epid}
	for i := range v.Rec.Actions {
		a := &v.Rec.Actions[i]
		if a.Kind == dif.ActDefault {
			continue
		}
		act := Action{Name: a.Kind.String()}
		for _, val := range c.Values(v, a) {
			act.Values = append(act.Values, goValue(val, &c.Format))
		}
		r.Actions = append(r.Actions, act)
	}
	return r
}

// goValue is a value as Action describes it.
func goValue(v format.Value, o *format.Options) any {
	symbol := func(addr uint64, p format.Place) Symbol {
		s := Symbol{Addr: addr, Module: p.Module, Name: p.Name, Offset: p.Offset}
		if v.Kind != format.Stack && v.Kind != format.Sym && v.Kind != format.Mod {
			s.PID = int(v.PID)
		}
		return s
	}
	switch v.Kind {
	case format.Signed:
		return int64(v.Int)
	case format.Unsigned:
		return v.Int
	case format.Float:
		return v.Float
	case format.String:
		return string(v.Bytes)
	case format.Bytes:
		return append([]byte(nil), v.Bytes...)
	case format.Stack, format.UStack:
		out := []Symbol{}
		for i, pc := range v.PCs {
			if pc == 0 {
				break
			}
			if pc == format.StackCut && v.Kind == format.UStack {
				out = append(out, symbol(0, format.Place{Name: format.CutMark}))
				break
			}
			out = append(out, symbol(pc, o.Frame(v, i)))
		}
		return out
	}
	return symbol(v.Int, o.Place(v))
}

// An Aggregation is an aggregation's content at one moment.
type Aggregation struct {
	Name string // without the @
	Func string // "count", "quantize", …
	Rows []AggRow
}

// An AggRow is the value of one key.
type AggRow struct {
	Key     []any // as the values of an Action
	Value   int64 // normalized; for a histogram the sum of its counts
	Buckets []Bucket
}

// A Bucket is one line of a histogram as it is drawn: its label ("32", "< 0")
// and its normalized count.
type Bucket struct {
	Label string
	Count int64
}

// Aggregations reads all aggregations, in the order in which the program
// names them, rows sorted as the aggsort… options say. It is for use between
// Go and Close, also from handlers.
func (s *Session) Aggregations() ([]Aggregation, error) {
	r := s.running
	if r == nil {
		return nil, errors.New("Aggregations: tracing has not begun")
	}
	if !s.work.done {
		if err := s.snapshot(); err != nil {
			return nil, err
		}
	}
	c := r.consumer
	var out []Aggregation
	for _, t := range c.Tables {
		a := Aggregation{Name: t.Name, Func: t.Spec.Func.String()}
		for _, row := range t.Rows(c.Order) {
			a.Rows = append(a.Rows, aggRow(row, &c.Format))
		}
		out = append(out, a)
	}
	return out, nil
}

func aggRow(row agg.Row, o *format.Options) AggRow {
	out := AggRow{Value: row.Data[0].Value()}
	for _, p := range row.Key {
		out.Key = append(out.Key, goValue(format.KeyPart(p), o))
	}
	if row.Data[0].Spec.Func.IsHistogram() {
		for _, b := range row.Data[0].Buckets() {
			out.Buckets = append(out.Buckets, Bucket(b))
		}
	}
	return out
}
