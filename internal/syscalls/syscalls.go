// Package syscalls is the one table of Linux system calls: numbers and names
// for the 64-bit and the 32-bit (compat) interface of x86-64.
package syscalls

import "strings"

// ABI tells the two system call interfaces of an x86-64 kernel apart.
type ABI uint8

const (
	AMD64 ABI = iota // the syscall instruction
	I386             // int 0x80 and its like from 32-bit code
)

// Max is one more than the highest number of any table.
const Max = max(len(amd64), len(i386))

// Name of call nr, or "" if there is none.
func Name(abi ABI, nr int) string {
	t := amd64[:]
	if abi == I386 {
		t = i386[:]
	}
	if nr < 0 || nr >= len(t) {
		return ""
	}
	return t[nr]
}

// Arg is a declared argument: its C type and its name.
type Arg struct{ Type, Name string }

// Args are the declared arguments of the 64-bit call of that name, nil where
// they are not known (calls newer than the table).
func Args(name string) []Arg {
	sig, ok := signatures[name]
	if !ok {
		return nil
	}
	args := make([]Arg, len(sig))
	for i, s := range sig {
		n := strings.LastIndexAny(s, " *") + 1
		args[i] = Arg{Type: strings.TrimSpace(s[:n]), Name: s[n:]}
	}
	return args
}
