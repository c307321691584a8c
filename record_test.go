package godtrace

import (
	"reflect"
	"testing"

	"godtrace/internal/testkernel"
)

// runSession traces a program with handlers until it calls exit().
func runSession(t *testing.T, src string, h Handlers, options ...string) *Session {
	t.Helper()
	testkernel.RequireRoot(t)
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, o := range options {
		if err := s.SetOption(o, ""); err != nil {
			t.Fatal(err)
		}
	}
	p, err := s.Compile(src, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(p); err != nil {
		t.Fatal(err)
	}
	s.Handlers = h
	if err := s.Go(); err != nil {
		testkernel.SkipIfUnsupported(t, err)
		t.Fatal(err)
	}
	for {
		st, err := s.Work()
		if err != nil {
			t.Fatal(err)
		}
		if st == Done {
			return s
		}
	}
}

func TestRecords(t *testing.T) {
	testkernel.CheckLeaks(t)
	var got []*Record
	s := runSession(t, `BEGIN { trace(-3); trace("abc"); printf("%d %s|", (uint8_t)255, "x"); } BEGIN {} BEGIN { exit(2); }`,
		Handlers{Record: func(r *Record) error { got = append(got, r); return nil }})
	if s.ExitStatus() != 2 {
		t.Errorf("exit status %d, want 2", s.ExitStatus())
	}
	if len(got) != 3 {
		t.Fatalf("%d records, want 3", len(got))
	}
	want := []Action{
		{"trace", []any{int64(-3)}}, {"trace", []any{"abc"}}, {"printf", []any{uint64(255), "x"}},
	}
	if !reflect.DeepEqual(got[0].Actions, want) {
		t.Errorf("actions %v, want %v", got[0].Actions, want)
	}
	if v := got[0].Values(); !reflect.DeepEqual(v, []any{int64(-3), "abc", uint64(255), "x"}) {
		t.Errorf("values %v", v)
	}
	if len(got[1].Actions) != 0 {
		t.Errorf("an empty clause recorded %v", got[1].Actions)
	}
	for _, r := range got {
		if r.Probe.Provider != "dtrace" || r.Probe.Name != "BEGIN" || r.Probe.ID != 1 {
			t.Errorf("probe %+v, want dtrace:::BEGIN with ID 1", r.Probe)
		}
		if r.Time < got[0].Time || r.CPU != got[0].CPU {
			t.Errorf("time %d on CPU %d, after %d on %d in the same firing", r.Time, r.CPU, got[0].Time, got[0].CPU)
		}
	}
}

func TestStackValues(t *testing.T) {
	var vals []any
	runSession(t, `tick-10ms /arg0 != 0/ { stack(3); exit(0); }`,
		Handlers{Record: func(r *Record) error { vals = r.Values(); return nil }})
	if len(vals) < 1 {
		t.Fatal("nothing recorded")
	}
	stack, ok := vals[0].([]Symbol)
	if !ok || len(stack) == 0 || len(stack) > 3 {
		t.Fatalf("stack(3) recorded %v", vals[0])
	}
	for _, f := range stack {
		if f.Addr>>63 != 1 || f.PID != 0 {
			t.Errorf("frame %+v: not an address of the kernel", f)
		}
	}
}

// What is printed comes with the record it is of.
func TestBuffered(t *testing.T) {
	type text struct{ of, text string }
	var got []text
	h := Handlers{
		Record: func(r *Record) error {
			if r.Values()[0] == int64(1) {
				return ErrSkip
			}
			return nil
		},
		Buffered: func(r *Record, b []byte) error {
			of := ""
			if r != nil {
				of = r.Actions[0].Name
			}
			got = append(got, text{of, string(b)})
			return nil
		},
	}
	runSession(t, `BEGIN { printf("skipped %d\n", 1); } BEGIN { printf("kept %d\n", 2); } BEGIN { @ = count(); exit(0); }`, h, "quiet")
	want := []text{{"printf", "kept 2\n"}, {"", "\n"}, {"", "                1\n"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestAggregations(t *testing.T) {
	s := runSession(t, `BEGIN { @a["k", -1] = count(); @a["k", -1] = count(); @a["b", 2] = count(); @q = quantize(5); exit(0); }`, Handlers{})
	got, err := s.Aggregations()
	if err != nil {
		t.Fatal(err)
	}
	want := []Aggregation{
		{"a", "count", []AggRow{{Key: []any{"b", int64(2)}, Value: 1}, {Key: []any{"k", int64(-1)}, Value: 2}}},
		{"q", "quantize", []AggRow{{Value: 1, Buckets: []Bucket{{"2", 0}, {"4", 1}, {"8", 0}}}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
