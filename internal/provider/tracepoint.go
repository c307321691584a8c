package provider

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"godtrace/internal/btf"
	"godtrace/internal/probe"
	"godtrace/internal/tracefs"
	"godtrace/internal/types"
)

// KernelBTF is the running kernel's types, opened once: reading them is what
// costs most when a session starts.
var KernelBTF = sync.OnceValues(btf.Kernel)

// Groups of events that are no tracepoints of the kernel: the function tracer's
// own records, events that somebody made at run time, and the tracepoints of
// single system calls, which the provider syscall stands for (they cost 77 ms
// each to detach).
var notTracepoints = []string{
	"ftrace", "syscalls", "kprobes", "uprobes", "eprobes", "fprobes",
	"tracepoints", "synthetic", "user_events",
}

// event is a tracepoint's event in tracefs.
type event struct {
	group, name string
	id          int
}

// events finds the events whose group and name match the patterns, in order of
// their numbers. Names that are no patterns are looked up and cost microseconds;
// a listing of all takes some 50 ms.
func events(group, name string) ([]event, error) {
	groups := []string{group}
	if group == "" || probe.IsGlob(group) {
		var err error
		if groups, err = tracefs.Groups(); err != nil {
			return nil, err
		}
	}
	var out []event
	for _, g := range groups {
		if !probe.Glob(group, g) || slices.Contains(notTracepoints, g) {
			continue
		}
		names := []string{name}
		if name == "" || probe.IsGlob(name) {
			var err error
			if names, err = tracefs.Events(g); err != nil {
				if errors.Is(err, os.ErrNotExist) {
					continue
				}
				return nil, err
			}
		}
		for _, n := range names {
			if !probe.Glob(name, n) {
				continue
			}
			id, err := tracefs.EventID(g, n)
			if errors.Is(err, os.ErrNotExist) {
				continue // no such event, or its module has just gone
			}
			if err != nil {
				return nil, err
			}
			out = append(out, event{g, n, id})
		}
	}
	slices.SortFunc(out, func(a, b event) int { return a.id - b.id })
	return out, nil
}

// mayBeTracepoint reports whether a description can mean a tracepoint, so that
// others cost no look-up: tracepoints have no function, their names are C
// identifiers, and none is called as a probe of the provider dtrace.
func mayBeTracepoint(d probe.Desc) bool {
	return probe.Glob(d.Func, "") && plainName(d.Name) &&
		!(d.Provider == "" && (d.Name == "BEGIN" || d.Name == "END" || d.Name == "ERROR"))
}

func plainName(pat string) bool {
	for i := 0; i < len(pat); i++ {
		switch c := pat[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_':
		case strings.IndexByte(`*?[]\!^-`, c) >= 0 && probe.IsGlob(pat):
		default:
			return false
		}
	}
	return true
}

// fieldType is the C type of a field of an event's record. Types that the
// kernel's BTF does not know become integers, or bytes, of the field's size.
func fieldType(f tracefs.Field) types.Type {
	t := cType(f.Type)
	if t == nil {
		t = sized(f)
	}
	if len(f.Dims) == 0 {
		return t
	}
	if f.Place != tracefs.Direct {
		return &types.Array{Elem: t, Flexible: true}
	}
	// One dimension may not be stated: it is what the size leaves.
	n := int64(f.Size)
	if sz := t.Size(); sz > 0 {
		n /= sz
	}
	for i := len(f.Dims) - 1; i >= 0; i-- {
		d := int64(f.Dims[i])
		if d == 0 || i == 0 {
			d = max(n, 1)
		}
		t = &types.Array{Elem: t, N: d}
		n /= d
	}
	return t
}

func sized(f tracefs.Field) types.Type {
	size := f.Size
	if len(f.Dims) > 0 {
		size = 1
	}
	pick := func(signed, unsigned types.Type) types.Type {
		if f.Signed {
			return signed
		}
		return unsigned
	}
	switch size {
	case 1:
		return pick(types.TSChar, types.TUChar)
	case 2:
		return pick(types.TShort, types.TUShort)
	case 4:
		return pick(types.TInt, types.TUInt)
	case 8:
		return pick(types.TLong, types.TULong)
	}
	return &types.Array{Elem: types.TUChar, N: int64(size)}
}

// cType reads a type as event formats write it: specifiers and pointers,
// without a declarator. It is nil for a type nobody knows.
func cType(s string) types.Type {
	base := strings.TrimRight(s, "* ")
	stars := strings.Count(s[len(base):], "*")
	isConst := false
	var words []string
	for _, w := range strings.Fields(base) {
		switch w {
		case "const":
			isConst = true
		case "volatile", "__user", "__rcu", "__percpu", "__iomem":
		default:
			words = append(words, w)
		}
	}
	var t types.Type
	if len(words) == 1 && words[0] == "void" {
		t = types.TVoid
	} else if b, ok := types.FromSpecifiers(words...); ok {
		t = b
	} else {
		space := types.TypedefName
		name := words[len(words)-1:]
		if len(words) == 2 {
			switch words[0] {
			case "struct":
				space = types.StructTag
			case "union":
				space = types.UnionTag
			case "enum":
				space = types.EnumTag
			default:
				return nil
			}
		} else if len(words) != 1 {
			return nil
		}
		if set, err := KernelBTF(); err == nil {
			if bt, ok := set.LookupType(space, name[0]); ok {
				t = bt
			}
		}
	}
	if t == nil {
		if stars == 0 {
			return nil
		}
		t = types.TVoid
	}
	if isConst {
		t = &types.Qualified{Const: true, Type: t}
	}
	for range stars {
		t = &types.Pointer{Elem: t}
	}
	return t
}
