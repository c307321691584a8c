package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func rawRead(fd int, buf *[64]byte) {
	unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(buf)), uintptr(len(buf)))
}

func rawNanosleep(ts *unix.Timespec) {
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(ts)), 0, 0)
}
