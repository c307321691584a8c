package format

import (
	"strconv"
	"strings"
)

// Header is the first line of the output: of flow indented output if flow.
func Header(b []byte, flow bool) []byte {
	if flow {
		return append(b, "CPU FUNCTION                                 \n"...)
	}
	return append(b, "CPU     ID                    FUNCTION:NAME\n"...)
}

// ProbeLine begins the line of a firing: CPU, probe id, function:name.
func ProbeLine(b []byte, cpu, id int, function, name string) []byte {
	b = decimal(b, cpu, 3)
	b = append(b, ' ')
	b = decimal(b, id, 6)
	b = append(b, ' ')
	b = repeat(b, ' ', 32-len(function)-1-len(name))
	b = append(b, function...)
	b = append(b, ':')
	b = append(b, name...)
	return append(b, ' ')
}

// FlowKind says what a firing does to the indentation.
type FlowKind uint8

// The kinds of flow.
const (
	FlowNone FlowKind = iota
	FlowEntry
	FlowReturn
)

// KindOfFlow goes by the name of a probe: entry and return, and names that end
// in -entry and -return.
func KindOfFlow(name string) FlowKind {
	switch {
	case name == "entry" || strings.HasSuffix(name, "-entry"):
		return FlowEntry
	case name == "return" || strings.HasSuffix(name, "-return"):
		return FlowReturn
	}
	return FlowNone
}

// Flow is the indentation of one CPU's calls with option flowindent. The zero
// Flow is at the outermost level.
type Flow struct {
	indent int
}

// Line begins the line of a firing and moves the indentation. again says that
// the firing is one more clause of the probe the line before was about (at an
// entry), or that the line after will be (at a return): such a line is not a
// call or a return of its own.
func (f *Flow) Line(b []byte, cpu int, provider, function, name string, again bool) []byte {
	kind := KindOfFlow(name)
	if again {
		kind = FlowNone
	}
	prefix := "| "
	switch {
	case kind == FlowEntry && provider == "syscall":
		prefix = " => "
	case kind == FlowEntry:
		prefix = " -> "
	case kind == FlowReturn && provider == "syscall":
		prefix = " <= "
	case kind == FlowReturn:
		prefix = " <- "
	}
	if kind == FlowReturn && f.indent > 0 {
		f.indent -= 2
	}
	b = decimal(b, cpu, 3)
	b = append(b, ' ')
	n := len(b)
	b = repeat(b, ' ', f.indent)
	b = append(b, prefix...)
	b = append(b, function...)
	if kind == FlowNone {
		b = append(b, ':')
		b = append(b, name...)
	}
	b = repeat(b, ' ', 41-(len(b)-n))
	if kind == FlowEntry {
		f.indent += 2
	}
	return append(b, ' ')
}

// decimal appends n right-aligned.
func decimal(b []byte, n, width int) []byte {
	var buf [20]byte
	d := strconv.AppendInt(buf[:0], int64(n), 10)
	b = repeat(b, ' ', width-len(d))
	return append(b, d...)
}
