package provider

import "golang.org/x/sys/unix"

// allowFiles makes room for n more open files, as far as the rights go: where
// there are no multi links, each probe takes two.
func allowFiles(n int) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur == unix.RLIM_INFINITY {
		return
	}
	l.Cur += uint64(n)
	if l.Cur > l.Max {
		l.Max = l.Cur
	}
	// Refused, the limit stays as it is, and the error is that of the file
	// that does not fit.
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}
