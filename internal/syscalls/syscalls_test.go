package syscalls

import (
	"slices"
	"testing"
)

// The numbers are those of the kernel's system call tables, the arguments those
// of the manual pages.
func TestTable(t *testing.T) {
	for _, tt := range []struct {
		abi  ABI
		nr   int
		name string
	}{
		{AMD64, 0, "read"}, {AMD64, 59, "execve"}, {AMD64, 231, "exit_group"}, {AMD64, 435, "clone3"},
		{I386, 3, "read"}, {I386, 11, "execve"}, {I386, 252, "exit_group"}, {I386, 435, "clone3"},
		{AMD64, 400, ""}, {AMD64, -1, ""}, {AMD64, 1 << 20, ""},
	} {
		if got := Name(tt.abi, tt.nr); got != tt.name {
			t.Errorf("Name(%d, %d) = %q, want %q", tt.abi, tt.nr, got, tt.name)
		}
	}
}

func TestArgs(t *testing.T) {
	want := []Arg{{"int", "dfd"}, {"const char *", "filename"}, {"int", "flags"}, {"umode_t", "mode"}}
	if got := Args("openat"); !slices.Equal(got, want) {
		t.Errorf("openat: %v, want %v", got, want)
	}
	if got := Args("getppid"); got == nil || len(got) != 0 {
		t.Errorf("getppid: %v, want no arguments, known", got)
	}
	if got := Args("no_such_call"); got != nil {
		t.Errorf("no_such_call: %v", got)
	}
	for name, sig := range signatures {
		if len(sig) > 6 {
			t.Errorf("%s has %d arguments", name, len(sig))
		}
		for _, a := range Args(name) {
			if a.Type == "" || a.Name == "" {
				t.Errorf("%s: argument %+v", name, a)
			}
		}
	}
}
