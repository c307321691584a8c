package consume

import (
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/format"
	"godtrace/internal/probe"
	"godtrace/internal/types"
)

// Structured is the form of structured output: the option oformat.
type Structured uint8

// The forms of structured output. All but NDJSON have the shape of FreeBSD's
// dtrace(1): a top-level "dtrace" holding the list "probes", whose elements
// hold timestamp, cpu, id, provider, module, function, name and the list
// "output", one or more objects for each action.
const (
	JSON   Structured = iota + 1
	NDJSON            // each element of "probes" on a line of its own, nothing around it
	XML
	HTML
)

// NewSink makes c report in a structured form.
func (c *Consumer) NewSink(form Structured) Sink {
	s := &structured{c: c}
	switch form {
	case JSON:
		s.open, s.between, s.close = "{\"dtrace\": {\"probes\": [\n", ",\n", "\n]}}\n"
		s.write = writeJSON
	case NDJSON:
		s.between, s.close = "\n", "\n"
		s.write = writeJSON
	case XML:
		s.open, s.between, s.close = "<?xml version=\"1.0\"?>\n<dtrace>\n", "\n", "\n</dtrace>\n"
		s.write = func(w *strings.Builder, o object) { writeXML(w, "probes", o) }
	case HTML:
		s.between, s.close = "\n", "\n"
		s.write = writeHTML
	default:
		return nil
	}
	return s
}

// object is a list of members in order; a member's value is a string, an
// int64, uint64 or float64, an object or a list.
type (
	object []member
	member struct {
		key   string
		value any
	}
	list []any
)

// structured collects a firing's report and writes it as a whole.
type structured struct {
	c                    *Consumer
	open, between, close string
	write                func(*strings.Builder, object)

	head    object
	payload []byte // of the firing's record
	output  list
	begun   bool
	any     bool // something was written
	text    strings.Builder
}

func head(time uint64, cpu, id int, d probe.Desc) object {
	return object{
		{"timestamp", time}, {"cpu", int64(cpu)}, {"id", int64(id)}, {"provider", d.Provider},
		{"module", d.Module}, {"function", d.Func}, {"name", d.Name},
	}
}

func (s *structured) Firing(v *View) {
	s.head, s.output, s.payload = head(v.Time, v.CPU, v.Probe.ID, v.Probe.Desc), nil, v.payload
	s.begun = true
}

// Action adds the objects of an action.
func (s *structured) Action(a *dif.Action, vals []format.Value, text []byte) {
	add := func(key string, v any) { s.output = append(s.output, object{{key, v}}) }
	switch a.Kind {
	case dif.ActTrace:
		for _, v := range vals {
			s.output = append(s.output, s.traced(v))
		}
	case dif.ActPrintf:
		add("message", string(text))
		for _, v := range vals {
			s.output = append(s.output, s.traced(v))
		}
	case dif.ActSystem:
		add("system", string(text))
	case dif.ActTracemem:
		add("tracemem", hex.EncodeToString(vals[0].Bytes))
	case dif.ActPcap:
		add("pcap", hex.EncodeToString(packetOf(vals)))
	case dif.ActPrint:
		addr, data := s.c.typed(a, s.payload)
		o := typed(types.Tree(a.Type, data))
		if addr != 0 {
			o = append(o, member{"address", "0x" + strconv.FormatUint(addr, 16)})
		}
		s.output = append(s.output, object{{"type", list{o}}})
	case dif.ActStack, dif.ActUStack, dif.ActJStack, dif.ActSym, dif.ActUSym, dif.ActFunc, dif.ActUFunc,
		dif.ActMod, dif.ActUMod, dif.ActUAddr:
		for _, v := range vals {
			s.output = append(s.output, s.traced(v))
		}
	}
}

// typed is a value with its type; the value of a struct, union or array is a
// list of such objects.
func typed(p types.Printed) object {
	var o object
	if p.Member != "" {
		o = append(o, member{"member-name", p.Member})
	}
	o = append(o, member{"name", p.Type})
	switch v := p.Value.(type) {
	case nil: // it was not recorded
	case []types.Printed:
		parts := list{}
		for _, part := range v {
			parts = append(parts, typed(part))
		}
		o = append(o, member{"value", parts})
	default:
		o = append(o, member{"value", v})
	}
	return o
}

// traced is the object of one value.
func (s *structured) traced(v format.Value) object {
	switch v.Kind {
	case format.Stack, format.UStack:
		key := "stack-frames"
		if v.Kind == format.UStack {
			key = "ustack-frames"
		}
		return object{{key, s.frames(v)}}
	case format.Sym, format.USym, format.UAddr:
		key := map[format.Kind]string{format.Sym: "sym", format.USym: "usym", format.UAddr: "uaddr"}[v.Kind]
		return append(object{{key, s.plain(v)}}, placeMembers(s.c.Format.Place(v), "object")...)
	case format.Mod:
		return object{{"mod", s.plain(v)}}
	case format.UMod:
		return object{{"umod", s.plain(v)}}
	}
	return object{{"value", s.plain(v)}}
}

// plain is a value as a number or string.
func (s *structured) plain(v format.Value) any {
	switch v.Kind {
	case format.Signed:
		return int64(v.Int)
	case format.Unsigned:
		return v.Int
	case format.Float:
		return v.Float
	case format.String:
		return string(cstring(v.Bytes))
	case format.Bytes:
		return hex.EncodeToString(v.Bytes)
	case format.Stack, format.UStack:
		return s.frames(v)
	}
	return strings.TrimSpace(string(format.Trace(nil, v, &s.c.Format)))
}

// placeMembers are the known parts of a place; module is what its module is called.
func placeMembers(p format.Place, module string) object {
	var o object
	if p.Module != "" {
		o = append(o, member{module, p.Module})
	}
	if p.Name != "" {
		o = append(o, member{"name", p.Name})
	}
	if p.Offset != 0 {
		o = append(o, member{"offset", "0x" + strconv.FormatUint(p.Offset, 16)})
	}
	return o
}

func (s *structured) frames(v format.Value) list {
	opts := s.c.Format
	none := 0
	opts.StackIndent = &none
	out := list{}
	lines := strings.Split(strings.Trim(string(format.AppendStack(nil, v, &opts)), "\n"), "\n")
	for i, pc := range v.PCs {
		if pc == 0 {
			break
		}
		text := strings.TrimSpace(lines[0])
		if lines = lines[1:]; i < len(v.Notes) && strings.HasPrefix(v.Notes[i], "@") {
			text += "\n" + lines[0]
			lines = lines[1:]
		}
		o := object{{"symbol", text}}
		if v.Kind == format.Stack || pc != format.StackCut {
			o = append(o, placeMembers(opts.Frame(v, i), "module")...)
		}
		out = append(out, o)
	}
	return out
}

// Aggs adds an object for each aggregation.
func (s *structured) Aggs(tables []*agg.Table, rows []agg.Row, text []byte) {
	if !s.begun {
		// What is left at the end belongs to no firing.
		s.head, s.output = head(0, -1, -1, probe.Desc{Provider: "dtrace", Module: "INTERNAL", Func: "INTERNAL", Name: "AGGREGATION"})[1:], nil
		s.begun = true
	}
	if len(text) > 0 {
		s.output = append(s.output, object{{"message", string(text)}})
	}
	for i, t := range tables {
		data := list{}
		for _, r := range rows {
			d := r.Data[i]
			if d.Words == nil {
				continue // this key has no value here
			}
			keys := list{}
			for _, p := range r.Key {
				keys = append(keys, s.plain(format.KeyPart(p)))
			}
			data = append(data, append(object{{"keys", keys}}, datum(d)))
		}
		s.output = append(s.output, object{{"aggregation-data", data}, {"aggregation-name", t.Name}})
	}
}

// datum is the value of an aggregation under the name of its function, or its
// buckets.
func datum(d agg.Datum) member {
	if !d.Spec.Func.IsHistogram() {
		return member{d.Spec.Func.String(), d.Value()}
	}
	buckets := list{}
	for _, b := range d.Buckets() {
		var value any = b.Label
		if n, err := strconv.ParseInt(b.Label, 10, 64); err == nil {
			value = n
		}
		buckets = append(buckets, object{{"value", value}, {"count", b.Count}})
	}
	return member{"buckets", buckets}
}

func (s *structured) Done() error {
	s.begun = false
	out := s.output
	if out == nil {
		out = list{}
	}
	return s.emit(append(s.head, member{"output", out}))
}

func (s *structured) Drop(kind, cpu int, count, total uint64, msg string) error {
	return s.emit(object{
		{"cpu", int64(cpu)}, {"id", int64(-1)}, {"provider", "dtrace"}, {"module", "INTERNAL"}, {"function", "INTERNAL"},
		{"name", "DROP"}, {"count", count}, {"total", total}, {"kind", int64(kind)}, {"msg", msg},
	})
}

func (s *structured) emit(o object) error {
	s.text.Reset()
	if !s.any {
		s.text.WriteString(s.open)
	} else {
		s.text.WriteString(s.between)
	}
	s.any = true
	s.write(&s.text, o)
	_, err := io.WriteString(s.c.out, s.text.String())
	return err
}

func (s *structured) Close() error {
	end := s.close
	if !s.any {
		if s.open == "" {
			return nil
		}
		end = s.open + strings.TrimPrefix(s.close, "\n")
	}
	_, err := io.WriteString(s.c.out, end)
	return err
}

func writeJSON(w *strings.Builder, o object) { writeJSONValue(w, o) }

func writeJSONValue(w *strings.Builder, v any) {
	switch v := v.(type) {
	case object:
		w.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				w.WriteString(", ")
			}
			writeJSONValue(w, m.key)
			w.WriteString(": ")
			writeJSONValue(w, m.value)
		}
		w.WriteByte('}')
	case list:
		w.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				w.WriteString(", ")
			}
			writeJSONValue(w, e)
		}
		w.WriteByte(']')
	case float64:
		// JSON has no infinities: those are strings.
		b, err := json.Marshal(v)
		if err != nil {
			b = []byte(strconv.Quote(fmt.Sprint(v)))
		}
		w.Write(b)
	case string:
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.Encode(v) // a string always can be
		w.WriteString(strings.TrimSuffix(b.String(), "\n"))
	default:
		fmt.Fprint(w, v)
	}
}

// writeXML writes an element; a list is as many elements of its name.
func writeXML(w *strings.Builder, tag string, v any) {
	switch v := v.(type) {
	case list:
		for _, e := range v {
			writeXML(w, tag, e)
		}
	case object:
		fmt.Fprintf(w, "<%s>", tag)
		for _, m := range v {
			writeXML(w, m.key, m.value)
		}
		fmt.Fprintf(w, "</%s>", tag)
	default:
		text := escapeXML(v)
		if text == "" {
			fmt.Fprintf(w, "<%s/>", tag)
			return
		}
		fmt.Fprintf(w, "<%s>%s</%s>", tag, text, tag)
	}
}

func escapeXML(v any) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(fmt.Sprint(v))) // a Builder does not fail
	return b.String()
}

// writeHTML writes a line of data elements; what is nested is laid flat.
func writeHTML(w *strings.Builder, o object) {
	w.WriteString("<div class=\"line\">\n")
	first := true
	var flat func(key string, v any)
	flat = func(key string, v any) {
		switch v := v.(type) {
		case list:
			for _, e := range v {
				flat(key, e)
			}
		case object:
			for _, m := range v {
				flat(m.key, m.value)
			}
		default:
			if !first {
				w.WriteString("<div class=\"text\"></div>\n")
			}
			first = false
			fmt.Fprintf(w, "<div class=\"data\" data-tag=\"%s\">%s</div>\n", key, escapeXML(v))
		}
	}
	flat("", o)
	w.WriteString("</div>")
}
