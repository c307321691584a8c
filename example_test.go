package godtrace_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"godtrace"
)

// trace has a session trace a program until it calls exit().
func trace(s *godtrace.Session, src string) error {
	p, err := s.Compile(src, godtrace.CompileOptions{})
	if err != nil {
		return err
	}
	if _, err := s.Exec(p); err != nil {
		return err
	}
	if err := s.Go(); err != nil {
		return err
	}
	for {
		st, err := s.Work()
		if err != nil || st == godtrace.Done {
			return err
		}
	}
}

// The output of a program in D, as dtrace(1) prints it with -q.
func Example() {
	s, err := godtrace.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	s.Output = os.Stdout
	if err := s.SetOption("quiet", ""); err != nil {
		log.Fatal(err)
	}
	if err := trace(s, `BEGIN { printf("%d bottles", 99); exit(0); }`); err != nil {
		log.Fatal(err)
	}
	// Output: 99 bottles
}

// Records as Go values.
func ExampleHandlers_record() {
	s, err := godtrace.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	s.Handlers.Record = func(r *godtrace.Record) error {
		for _, a := range r.Actions {
			fmt.Println(r.Probe.Name, a.Name, a.Values)
		}
		return nil
	}
	if err := trace(s, `BEGIN { trace(-1); printf("%s: %d", "answer", 6 * 7); exit(0); }`); err != nil {
		log.Fatal(err)
	}
	// Output:
	// BEGIN trace [-1]
	// BEGIN printf [answer 42]
	// BEGIN exit [0]
}

// Aggregations as Go values.
func ExampleSession_Aggregations() {
	s, err := godtrace.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	err = trace(s, `BEGIN { @sizes["read"] = quantize(3); @sizes["read"] = quantize(4); exit(0); }`)
	if err != nil {
		log.Fatal(err)
	}
	aggs, err := s.Aggregations()
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range aggs {
		for _, row := range a.Rows {
			fmt.Println(a.Name, a.Func, row.Key, row.Value)
			for _, b := range row.Buckets {
				fmt.Println(b.Label, b.Count)
			}
		}
	}
	// Output:
	// sizes quantize [read] 2
	// 1 0
	// 2 1
	// 4 1
	// 8 0
}

// Errors in programs are values, too.
func ExampleCompileError() {
	s, err := godtrace.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	_, err = s.Compile("BEGIN { trace(nothing); }", godtrace.CompileOptions{})
	if e, ok := errors.AsType[*godtrace.CompileError](err); ok {
		fmt.Println(e.Tag, e)
	}
	// Output: D_IDENT_UNDEF in action list: failed to resolve nothing: Unknown variable name
}

// requests gives names of its own to places in a program.
type requests struct{ server string }

func (requests) Name() string { return "requests" }

func (r requests) Probes(d godtrace.ProbeDesc) ([]godtrace.Naming, error) {
	var out []godtrace.Naming
	for name, event := range map[string]string{"start": "entry", "done": "return"} {
		n := godtrace.Naming{
			Name: godtrace.ProbeDesc{Provider: "requests", Name: name},
			Of:   godtrace.ProbeDesc{Provider: "uprobe", Module: r.server, Func: "handle_request", Name: event},
		}
		if d.Match(n.Name) {
			out = append(out, n)
		}
	}
	return out, nil
}

// After this, requests:::start and requests:::done are probes as any other.
func ExampleRegister() {
	godtrace.Register(requests{"/usr/sbin/server"})
}
