// Package consume turns what eBPF programs left behind into what a user sees:
// records into ordered firings and their output, drained aggregations into
// tables, counters into drop messages. It reads records by their descriptions
// in package dif and knows nothing of how they were made.
package consume

import (
	"bytes"
	"encoding/binary"
	"math"
	"unsafe"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/format"
	"godtrace/internal/probe"
	"godtrace/internal/types"
)

// Header is a record's header (dif.Hdr…).
type Header struct {
	Time  uint64 // ns
	Rec   uint16 // index into Object.Records, or dif.RecFault
	Spec  uint16 // speculation, 0 for none
	Probe uint32 // index of the enabled probe
}

// ParseHeader reads the header of a record; rec is at least dif.HdrSize long.
func ParseHeader(rec []byte) Header {
	return Header{
		Time:  binary.LittleEndian.Uint64(rec[dif.HdrTime:]),
		Rec:   binary.LittleEndian.Uint16(rec[dif.HdrRec:]),
		Spec:  binary.LittleEndian.Uint16(rec[dif.HdrSpec:]),
		Probe: binary.LittleEndian.Uint32(rec[dif.HdrProbe:]),
	}
}

// Fault is a fault report (dif.RecFault).
type Fault struct {
	Clause int
	Line   int
	Kind   dif.FaultKind
	PC     int
	Addr   uint64
}

func parseFault(p []byte) Fault {
	return Fault{
		Clause: int(binary.LittleEndian.Uint32(p)),
		Line:   int(binary.LittleEndian.Uint32(p[4:])),
		Kind:   dif.FaultKind(binary.LittleEndian.Uint32(p[8:])),
		PC:     int(binary.LittleEndian.Uint32(p[12:])),
		Addr:   binary.LittleEndian.Uint64(p[16:]),
	}
}

// intAt reads an integer of size bytes, extended to 64 bits.
func intAt(b []byte, size int, signed bool) uint64 {
	switch size {
	case 1:
		if signed {
			return uint64(int8(b[0]))
		}
		return uint64(b[0])
	case 2:
		v := binary.LittleEndian.Uint16(b)
		if signed {
			return uint64(int16(v))
		}
		return uint64(v)
	case 4:
		v := binary.LittleEndian.Uint32(b)
		if signed {
			return uint64(int32(v))
		}
		return uint64(v)
	}
	return binary.LittleEndian.Uint64(b)
}

// probeString is the part of a probe's description that a built-in names.
func probeString(d *probe.Desc, id dif.BuiltinID) string {
	switch id {
	case dif.BProbeProv:
		return d.Provider
	case dif.BProbeMod:
		return d.Module
	case dif.BProbeFunc:
		return d.Func
	}
	return d.Name
}

// bounded cuts a string of a probe to what the field would hold of it.
func bounded(f *dif.Field, s string) string {
	if f.StrSize > 0 && len(s) >= f.StrSize {
		return s[:f.StrSize-1]
	}
	return s
}

// frames reads return addresses up to the first zero.
func frames(b []byte) []uint64 {
	var pcs []uint64
	for ; len(b) >= 8; b = b[8:] {
		pc := binary.LittleEndian.Uint64(b)
		if pc == 0 {
			break
		}
		pcs = append(pcs, pc)
	}
	return pcs
}

func cstring(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// value decodes a field of a record's payload. Its Bytes lie in the payload or
// in the probe's description, and must not be written to.
func value(v *format.Value, f *dif.Field, payload []byte, d *probe.Desc) {
	b := payload[f.Off : f.Off+f.Size]
	*v = format.Value{Size: uint8(f.Size)}
	switch f.Kind {
	case dif.FInt:
		v.Kind = format.Unsigned
		if f.Signed {
			v.Kind = format.Signed
		}
		v.Int = intAt(b, f.Size, f.Signed)
	case dif.FString:
		v.Kind, v.Bytes = format.String, cstring(b)
	case dif.FProbe:
		s := bounded(f, probeString(d, f.Builtin))
		v.Kind, v.Bytes = format.String, unsafe.Slice(unsafe.StringData(s), len(s))
	case dif.FBytes:
		v.Kind, v.Bytes = format.Bytes, b
	case dif.FFloat:
		v.Kind = format.Float
		if f.Size == 4 {
			v.Float = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		} else {
			v.Float = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
	case dif.FStack:
		v.Kind = format.Stack
		_, v.PCs = stack(f, b)
	case dif.FUStack:
		v.Kind = format.UStack
		v.PID, v.PCs = stack(f, b)
	case dif.FSym:
		v.Kind = format.Sym
		if f.Sym == dif.ActMod {
			v.Kind = format.Mod
		}
		v.Size, v.Int = 8, binary.LittleEndian.Uint64(b)
	case dif.FUSym:
		v.Kind = format.USym
		switch f.Sym {
		case dif.ActUMod:
			v.Kind = format.UMod
		case dif.ActUAddr:
			v.Kind = format.UAddr
		}
		v.Size, v.PID, v.Int = 8, int32(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:])
	}
}

// stack decodes the frames of a stack and, for a user's, the process. A value
// knows its depth; else the frames end at the first 0.
func stack(f *dif.Field, b []byte) (pid int32, pcs []uint64) {
	if f.Kind == dif.FUStack || f.Sized {
		pid = int32(binary.LittleEndian.Uint32(b))
	}
	switch {
	case f.Sized:
		depth := int64(binary.LittleEndian.Uint32(b[types.StackDepth:]))
		b = b[types.StackFrames:]
		if end := b[min(int64(len(b)), 8*depth):]; len(end) >= 8 && binary.LittleEndian.Uint64(end) == format.StackCut {
			depth++
		}
		b = b[:min(int64(len(b)), 8*depth)]
	case f.Kind == dif.FUStack:
		b = b[8:]
	}
	return pid, frames(b)
}

// tooDeep reports whether a field is the value of a stack that claims more
// frames than it has room for: a program can write to its depth.
func tooDeep(f *dif.Field, payload []byte) bool {
	return f.Sized && int(binary.LittleEndian.Uint32(payload[f.Off+types.StackDepth:])) > (f.Size-types.StackFrames)/8
}

// keyPart decodes a part of an aggregation key. str resolves the numbers of
// probe strings. Addresses that name the same function or module are made
// equal by start, so that they share a row.
func keyPart(f *dif.Field, key []byte, str func(uint32) string, start func(f *dif.Field, pid int32, addr uint64) uint64) agg.Part {
	b := key[f.Off : f.Off+f.Size]
	switch f.Kind {
	case dif.FString:
		return agg.Part{Kind: agg.String, Str: string(cstring(b))}
	case dif.FProbe:
		return agg.Part{Kind: agg.String, Str: bounded(f, str(binary.LittleEndian.Uint32(b)))}
	case dif.FBytes:
		return agg.Part{Kind: agg.Bytes, Str: string(b)}
	case dif.FStack:
		_, pcs := stack(f, b)
		return agg.Part{Kind: agg.Stack, PCs: pcs}
	case dif.FUStack:
		pid, pcs := stack(f, b)
		return agg.Part{Kind: agg.UStack, PID: pid, PCs: pcs}
	case dif.FSym:
		k := agg.Sym
		if f.Sym == dif.ActMod {
			k = agg.Mod
		}
		return agg.Part{Kind: k, Size: 8, Int: start(f, 0, binary.LittleEndian.Uint64(b))}
	case dif.FUSym:
		k := agg.USym
		switch f.Sym {
		case dif.ActUMod:
			k = agg.UMod
		case dif.ActUAddr:
			k = agg.UAddr
		}
		pid := int32(binary.LittleEndian.Uint64(b))
		return agg.Part{Kind: k, Size: 8, PID: pid, Int: start(f, pid, binary.LittleEndian.Uint64(b[8:]))}
	}
	k := agg.Unsigned
	if f.Signed {
		k = agg.Signed
	}
	return agg.Part{Kind: k, Size: uint8(f.Size), Int: intAt(b, f.Size, f.Signed)}
}
