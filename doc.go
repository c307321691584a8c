// Package godtrace is DTrace for Linux as a library: what libdtrace is to
// dtrace(1), this package is to the godtrace command.
//
// A session is opened, programs in D are compiled and executed (made part of
// its enabling), and tracing runs from Go to Stop, while Work turns what the
// probes recorded into output:
//
//	s, err := godtrace.Open()
//	p, err := s.Compile(`syscall:::entry { @[execname] = count(); }`, godtrace.CompileOptions{})
//	_, err = s.Exec(p)
//	err = s.Go()
//	for {
//		st, err := s.Work()
//		if st == godtrace.Done { break }
//	}
//	err = s.Close()
//
// What is recorded comes out in several ways, which go together:
//
//   - as dtrace(1) prints it, on Session.Output, or in pieces, each with the
//     record it is of, to Handlers.Buffered;
//   - as values of Go types: each record to Handlers.Record, aggregations from
//     Session.Aggregations;
//   - in a structured form, with the option oformat (doc/structured.md).
//
// Drops and faults of the program go to Handlers.Drop and Handlers.Error; where
// a handler is missing, they end tracing: nothing is lost in silence.
//
// Register adds providers. Options are those of -x (doc/options.md), set by
// SetOption. Tracing needs CAP_BPF and CAP_PERFMON; Doctor says what else this
// system lacks, Hint what to do about an error. The folder examples has whole
// consumers.
package godtrace
