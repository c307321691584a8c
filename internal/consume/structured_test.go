package consume

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"io"
	"reflect"
	"strings"
	"testing"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/format"
	"godtrace/internal/probe"
	"godtrace/internal/types"
)

type nobody struct{}

func (nobody) Snapshot() error                { return nil }
func (nobody) SetOption(string, string) error { return nil }
func (nobody) Fault(FaultInfo) error          { return nil }
func (nobody) SpecDone(int)                   {}
func (nobody) Speculations() error            { return nil }
func (nobody) ProbeString(uint32) string      { return "" }

// record is a firing of probe 0 with a payload of 8-byte words.
func record(rec uint16, words ...uint64) []byte {
	b := make([]byte, dif.HdrSize)
	binary.LittleEndian.PutUint64(b[dif.HdrTime:], 42)
	binary.LittleEndian.PutUint16(b[dif.HdrRec:], rec)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// traceOnce has a consumer report one firing of each kind of record and what
// is aggregated.
func traceOnce(t *testing.T, form Structured) string {
	t.Helper()
	f, err := format.Parse("<%d> & \"%s\"\n")
	if err != nil {
		t.Fatal(err)
	}
	num := dif.Field{Kind: dif.FInt, Size: 8, Signed: true, Type: types.TLong}
	str := dif.Field{Kind: dif.FString, Off: 8, Size: 8}
	obj := &dif.Object{
		Records: []*dif.Record{
			{ID: 0, Size: 8, Actions: []dif.Action{{Kind: dif.ActTrace, Fields: []dif.Field{num}}}},
			{ID: 1, Size: 16, Actions: []dif.Action{{Kind: dif.ActPrintf, Format: f, Fields: []dif.Field{num, str}}}},
			{ID: 2, Actions: []dif.Action{{Kind: dif.ActDefault}}},
		},
		Aggs: []*dif.Agg{
			{ID: 0, Name: "n", Spec: agg.Spec{Func: agg.Count}},
			{ID: 1, Name: "q", Spec: agg.Spec{Func: agg.Quantize}},
		},
	}
	p := &probe.Probe{ID: 7, Desc: probe.Desc{Provider: "syscall", Module: "vmlinux", Func: "read", Name: "entry"}}
	var out bytes.Buffer
	c := New(obj, []Probe{{Probe: p, Epid: 1}}, &out, nobody{})
	c.Sink = c.NewSink(form)
	minus3 := int64(-3)
	for _, r := range [][]byte{record(0, uint64(minus3)), record(1, 5, 0x3e62), record(2)} {
		if err := c.Record(3, r); err != nil {
			t.Fatal(err)
		}
	}
	c.Tables[0].Update(0, agg.Key{{Kind: agg.String, Str: "a<b"}, {Kind: agg.Signed, Size: 8, Int: 9}}, 0, 1)
	c.Tables[1].Update(0, nil, 5, 1)
	if err := c.PrintAggs(); err != nil {
		t.Fatal(err)
	}
	if err := c.Sink.Drop(0, 1, 2, 3, "2 drops on CPU 1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Newline(); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// wantProbes is what the firings above are in the words of FreeBSD's dtrace(1).
const wantProbes = `[
 {"timestamp": 42, "cpu": 3, "id": 7, "provider": "syscall", "module": "vmlinux", "function": "read", "name": "entry",
  "output": [{"value": -3}]},
 {"timestamp": 42, "cpu": 3, "id": 7, "provider": "syscall", "module": "vmlinux", "function": "read", "name": "entry",
  "output": [{"message": "<5> & \"b>\"\n"}, {"value": 5}, {"value": "b>"}]},
 {"timestamp": 42, "cpu": 3, "id": 7, "provider": "syscall", "module": "vmlinux", "function": "read", "name": "entry",
  "output": []},
 {"cpu": -1, "id": -1, "provider": "dtrace", "module": "INTERNAL", "function": "INTERNAL", "name": "AGGREGATION",
  "output": [{"aggregation-data": [{"keys": ["a<b", 9], "count": 1}], "aggregation-name": "n"}]},
 {"cpu": -1, "id": -1, "provider": "dtrace", "module": "INTERNAL", "function": "INTERNAL", "name": "AGGREGATION",
  "output": [{"aggregation-data": [{"keys": [], "buckets": [
    {"value": 2, "count": 0}, {"value": 4, "count": 1}, {"value": 8, "count": 0}]}], "aggregation-name": "q"}]},
 {"cpu": 1, "id": -1, "provider": "dtrace", "module": "INTERNAL", "function": "INTERNAL", "name": "DROP",
  "count": 2, "total": 3, "kind": 0, "msg": "2 drops on CPU 1"}
]`

func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

func TestJSON(t *testing.T) {
	got := decode(t, traceOnce(t, JSON))
	want := decode(t, `{"dtrace": {"probes": `+wantProbes+`}}`)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestNDJSON(t *testing.T) {
	out := traceOnce(t, NDJSON)
	want := decode(t, wantProbes).([]any)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for i, l := range lines {
		if got := decode(t, l); !reflect.DeepEqual(got, want[i]) {
			t.Errorf("line %d: got %v\nwant %v", i, got, want[i])
		}
	}
}

func TestXML(t *testing.T) {
	out := traceOnce(t, XML)
	var doc struct {
		XMLName xml.Name `xml:"dtrace"`
		Probes  []struct {
			Name   string `xml:"name"`
			Output []struct {
				Value   *string `xml:"value"`
				Message string  `xml:"message"`
				Data    []struct {
					Keys  []string `xml:"keys"`
					Count string   `xml:"count"`
				} `xml:"aggregation-data"`
			} `xml:"output"`
		} `xml:"probes"`
	}
	if err := xml.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if len(doc.Probes) != 6 {
		t.Fatalf("%d probes, want 6", len(doc.Probes))
	}
	if v := doc.Probes[0].Output[0].Value; v == nil || *v != "-3" {
		t.Errorf("value of trace(-3): %v", v)
	}
	if m := doc.Probes[1].Output[0].Message; m != "<5> & \"b>\"\n" {
		t.Errorf("message %q", m)
	}
	if d := doc.Probes[3].Output[0].Data[0]; d.Count != "1" || !reflect.DeepEqual(d.Keys, []string{"a<b", "9"}) {
		t.Errorf("aggregation %+v", d)
	}
}

// HTML is well-formed, each value in an element tagged with its key.
func TestHTML(t *testing.T) {
	out := traceOnce(t, HTML)
	d := xml.NewDecoder(strings.NewReader("<html>" + out + "</html>"))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
	}
	for _, want := range []string{
		`<div class="data" data-tag="function">read</div>`, `<div class="data" data-tag="value">-3</div>`,
		`<div class="data" data-tag="keys">a&lt;b</div>`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// Nothing recorded is an empty list, not an empty file.
func TestStructuredEmpty(t *testing.T) {
	var out bytes.Buffer
	c := New(&dif.Object{}, nil, &out, nobody{})
	c.Sink = c.NewSink(JSON)
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	want := decode(t, `{"dtrace": {"probes": []}}`)
	if got := decode(t, out.String()); !reflect.DeepEqual(got, want) {
		t.Errorf("got %s", out.String())
	}
}
