// Package tracefs reads the kernel's own trace files: which events there are
// and how their records are laid out, which functions can be traced.
package tracefs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Root is the folder of the trace files: where the system has mounted them, or
// else a mount of our own that only this process sees and that ends with it.
var Root = sync.OnceValues(func() (string, error) {
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if _, err := os.Stat(dir + "/events"); err == nil {
			return dir, nil
		}
	}
	dir, err := detached()
	if err != nil {
		return "", fmt.Errorf("tracefs is not mounted on /sys/kernel/tracing: %w", err)
	}
	return dir, nil
})

// detached makes a read-only mount that is attached nowhere: the descriptor,
// which stays open, is the only way to it (Linux 5.2).
func detached() (string, error) {
	fs, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return "", os.NewSyscallError("fsconfig", err)
	}
	mnt, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return "", os.NewSyscallError("fsmount", err)
	}
	return "/proc/self/fd/" + strconv.Itoa(mnt), nil
}

// Path is a file of tracefs.
func Path(elem ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	return path.Join(append([]string{root}, elem...)...), nil
}

// Groups are the names of the groups of events, sorted.
func Groups() ([]string, error) { return folders("events") }

// Events are the names of the events of a group, sorted.
func Events(group string) ([]string, error) { return folders("events", group) }

func folders(elem ...string) ([]string, error) {
	dir, err := Path(elem...)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// EventID is the number by which perf and the trace buffers know an event.
// The error is os.ErrNotExist where there is no such event.
func EventID(group, name string) (int, error) {
	if strings.ContainsRune(group, '/') || strings.ContainsRune(name, '/') || group == "" || name == "" {
		return 0, os.ErrNotExist
	}
	file, err := Path("events", group, name, "id")
	if err != nil {
		return 0, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return id, nil
}

// ReadFormat reads the layout of an event's record.
func ReadFormat(group, name string) (*Format, error) {
	file, err := Path("events", group, name, "format")
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f, err := ParseFormat(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

// Format is the layout of an event's record.
type Format struct {
	Name   string
	ID     int
	Fields []Field // the event's own, without those common to all events
	Print  string  // the kernel's print format: a C string and expressions
}

// Placement says what the bytes of a field are.
type Placement uint8

const (
	Direct  Placement = iota // the value itself
	DataLoc                  // u32: length<<16 | offset of the data from the start of the record
	RelLoc                   // u32: the same, from the end of the field
)

// Field is one field of an event's record.
type Field struct {
	Name   string
	Type   string // C type without name and dimensions: "unsigned int", "const char *", "char"
	Dims   []int  // dimensions of an array, 0 for one that is not stated
	Off    int    // bytes from the start of the record
	Size   int    // bytes in the record itself
	Signed bool
	Place  Placement
}

var errFormat = errors.New("unexpected form of an event format")

// ParseFormat parses the text of a format file:
//
//	name: sched_switch
//	ID: 372
//	format:
//		field:char prev_comm[16];	offset:8;	size:16;	signed:0;
//
//	print fmt: "…", …
func ParseFormat(text string) (*Format, error) {
	f := new(Format)
lines:
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, rest, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		rest = strings.TrimSpace(rest)
		switch key {
		case "name":
			f.Name = rest
		case "ID":
			n, err := strconv.Atoi(rest)
			if err != nil {
				return nil, fmt.Errorf("%w: %q", errFormat, line)
			}
			f.ID = n
		case "print fmt":
			f.Print = rest
			break lines // the rest of the text may be anything
		case "field":
			fd, err := parseField(rest)
			if err != nil {
				return nil, fmt.Errorf("%w: %q", err, line)
			}
			if !strings.HasPrefix(fd.Name, "common_") {
				f.Fields = append(f.Fields, fd)
			}
		}
	}
	if f.Name == "" {
		return nil, fmt.Errorf("%w: no name", errFormat)
	}
	return f, nil
}

// parseField parses "DECL; offset:N; size:N; signed:N;".
func parseField(s string) (Field, error) {
	var f Field
	parts := strings.Split(s, ";")
	for _, p := range parts[1:] {
		key, val, ok := strings.Cut(strings.TrimSpace(p), ":")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(val, 10, 32)
		if err != nil || n < 0 {
			return f, errFormat
		}
		switch key {
		case "offset":
			f.Off = int(n)
		case "size":
			f.Size = int(n)
		case "signed":
			f.Signed = n != 0
		}
	}
	decl := strings.TrimSpace(parts[0])
	if rest, ok := strings.CutPrefix(decl, "__data_loc "); ok {
		decl, f.Place = rest, DataLoc
	} else if rest, ok := strings.CutPrefix(decl, "__rel_loc "); ok {
		decl, f.Place = rest, RelLoc
	}
	// The dimensions stand behind the name, or behind the type: "char[] name".
	var ok bool
	if decl, f.Dims, ok = cutDims(decl); !ok {
		return f, errFormat
	}
	i := strings.LastIndexAny(decl, " *")
	if i < 0 || i == len(decl)-1 {
		return f, errFormat
	}
	f.Name = decl[i+1:]
	typ := strings.TrimSpace(decl[:i+1])
	if strings.HasSuffix(typ, "]") {
		var more []int
		if typ, more, ok = cutDims(typ); !ok {
			return f, errFormat
		}
		f.Dims = append(f.Dims, more...)
	}
	f.Type = strings.Join(strings.Fields(typ), " ")
	if f.Type == "" {
		return f, errFormat
	}
	return f, nil
}

// cutDims takes "[N][M]" off the end. A dimension that is no number (the
// kernel prints some constants by name) counts as not stated: the size tells.
func cutDims(s string) (string, []int, bool) {
	var dims []int
	for strings.HasSuffix(s, "]") {
		i := strings.LastIndexByte(s, '[')
		if i < 0 {
			return s, nil, false
		}
		n, err := strconv.Atoi(strings.TrimSpace(s[i+1 : len(s)-1]))
		if err != nil || n < 0 {
			n = 0
		}
		dims = append([]int{n}, dims...)
		s = strings.TrimSpace(s[:i])
	}
	return s, dims, true
}

// Function is one that ftrace, and so fentry and multi links, can attach to.
type Function struct {
	Module string // "vmlinux" for what is built in
	Name   string
	Addr   uint64 // 0 where the kernel does not tell (before Linux 6.5)
}

// Functions reads the list of traceable functions in the kernel's order,
// without the place-holders of disabled ones. A name may occur several times:
// static functions share names.
func Functions() ([]Function, error) {
	file, err := Path("available_filter_functions_addrs")
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		file, _ = Path("available_filter_functions")
		b, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	return parseFunctions(string(b)), nil
}

// CanTraceFunctions reports whether the list of Functions can be opened, which
// is cheap; reading it is not.
func CanTraceFunctions() bool {
	file, err := Path("available_filter_functions")
	if err != nil {
		return false
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// parseFunctions parses lines of "[ADDR ]NAME[ [MODULE]]".
func parseFunctions(s string) []Function {
	out := make([]Function, 0, len(s)/24)
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(line, "\n")
		f := Function{Module: "vmlinux"}
		// With addresses they are 16 digits wide; no function's name is a number.
		if word, rest, ok := strings.Cut(line, " "); ok && len(word) == 16 {
			if a, err := strconv.ParseUint(word, 16, 64); err == nil {
				f.Addr, line = a, rest
			}
		}
		name, rest, _ := strings.Cut(line, " ")
		if name == "" || strings.HasPrefix(name, "__ftrace_invalid_address__") {
			continue
		}
		f.Name = name
		if i := strings.IndexByte(rest, '['); i >= 0 {
			if m, _, ok := strings.Cut(rest[i+1:], "]"); ok {
				f.Module = m
			}
		}
		out = append(out, f)
	}
	return out
}
