// Package bpf turns DIF into eBPF programs and maps, loads them and gives
// access to what they collect. It is the only emitter of eBPF.
//
// The session hands over the object, the enabled probes and the groups that the
// providers formed; it gets loaded programs, by group, and a Runtime to steer
// and drain them.
package bpf

import (
	"godtrace/internal/dif"
	"godtrace/internal/probe"
)

// Enabled is one enabled probe: Index is its place in Config.Enabled and what
// record headers carry. Clauses run in order. Epid is the number of the first
// enabling; that of Clauses[i] is Epid+i.
type Enabled struct {
	Index   int
	Probe   *probe.Probe
	Clauses []*dif.Clause
	Epid    int
}

// BufPolicy is the option bufpolicy.
type BufPolicy uint8

const (
	BufSwitch BufPolicy = iota
	BufFill
	BufRing
)

// UStackMode is how user stacks are walked.
type UStackMode uint8

const (
	UStackAuto   UStackMode = iota // by unwind tables; by frame pointers in processes without
	UStackFP                       // by frame pointers
	UStackUnwind                   // by unwind tables; what has none is not walked
)

// Config is everything a load depends on.
type Config struct {
	Object  *dif.Object
	Enabled []*Enabled
	Groups  []*probe.Group
	// Error are the clauses of dtrace:::ERROR, run in the context of a fault; nil if none.
	Error *Enabled
	// Buffers, bytes per CPU.
	BufSize     int64
	BufPolicy   BufPolicy
	SpecSize    int64
	NSpec       int
	AggSize     int64
	DynVarSize  int64
	ScratchSize int64 // alloca space of a firing
	UStack      UStackMode
	MaxFrames   int // option maxframes: most frames that stackdepth and ustackdepth count; 0: 127
	Target      int // $target's pid, for progenyof and the like; 0: none
	CPU         int // option cpu: only this CPU records; -1: all
	// Trace, if not nil, gets one line per BPF action (object, size, result, µs).
	Trace func(format string, args ...any)
	// Dump, if not nil, gets the eBPF listing of each program (-xdisasm).
	Dump func(name string, listing string)
	// Log, if not nil, gets the verifier's log of each program (-xbpflog), of
	// LogSize bytes at most.
	Log     func(name string, log string)
	LogSize int64
	// Types is the kernel's BTF, asked only when a clause needs an offset; nil: opened when needed.
	Types TypeInfo
	// KSym gives the address of a kernel symbol; nil: programs naming one are refused.
	KSym func(module, name string) (uint64, error)
	// Later are clauses for which Runtime.Extend may load more probes.
	Later []*dif.Clause
	// names are the numbers of strings given out before, for Extend.
	names interner
}

// Activity is the state every firing reads first.
type Activity uint32

const (
	WarmUp   Activity = iota // only BEGIN runs
	Active                   // everything but END runs
	Draining                 // exit() was called: nothing but END
	Stopped                  // nothing
)

// Drops are counts since the start, per CPU where DTrace tells them so.
type Drops struct {
	Principal    []uint64 // per CPU: no room in the record ring
	Speculative  []uint64 // per CPU: no room in the speculation ring
	Aggregation  []uint64 // per CPU: no room in an aggregation map
	Dynamic      uint64   // dynamic variable could not be had
	SpecBusy     uint64   // speculation(): all buffers busy being committed or discarded
	SpecUnavail  uint64   // speculation(): none available
	Nested       []uint64 // per CPU: no scratch level left for a nested firing
	ErrorInError uint64   // faults of the clauses of ERROR
	Recursion    uint64   // firings the kernel skipped (recursion_misses)
}

// TypeInfo answers questions about the running kernel's types; *btf.Spec does.
type TypeInfo interface {
	// MemberOffset is the offset in bytes of a member ("se.sum_exec_runtime") of struct tag.
	MemberOffset(tag, path string) (int64, error)
}
