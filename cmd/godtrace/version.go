package main

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Version of godtrace and of the D language it takes.
const (
	version  = "0.1.0"
	dVersion = "2.0"
)

// version is dtrace -V.
func (d *dtrace) version() int {
	fmt.Fprintf(d.io.out, "%s: D %s (godtrace %s)\n", pname, dVersion, version)
	if d.verbose {
		versionMain(nil, d.io)
	}
	return exitOK
}

func versionMain(_ []string, io stdio) int {
	fmt.Fprintf(io.out, "godtrace %s, D %s, %s %s/%s\n", version, dVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		fmt.Fprintf(io.out, "%s %s %s\n", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]))
	}
	return exitOK
}
