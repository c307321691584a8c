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
package godtrace
