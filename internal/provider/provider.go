// Package provider holds the providers: each names the probes that a
// description matches, tells where their arguments lie, and attaches loaded
// programs. No provider emits code: what a firing does is decided by the
// clauses, and how a program finds its arguments by the Kind of its Group.
//
// A new provider is one file with a type that implements Provider and one row
// in All.
package provider

import (
	"errors"
	"io"

	"github.com/cilium/ebpf"

	"godtrace/internal/probe"
)

// A Provider makes probes.
type Provider interface {
	// Name is the provider's name, or its stem where the pid is part of it.
	Name() string
	// Probes returns the probes that match d, in listing order and always the
	// same *Probe for the same probe; providers that make probes on demand
	// (profile, pid) make those that d names. IDs are set: the range begins at
	// the provider's base, so they do not depend on what else was listed.
	Probes(d probe.Desc) ([]*probe.Probe, error)
	// Groups arranges enabled probes of this provider into programs.
	Groups(enabled []*probe.Probe) ([]*Attachment, error)
}

// Hinter is a provider that knows what to do about a description that matches
// nothing; hint is what is said if it does not.
type Hinter interface {
	Hint(desc, hint string) string
}

// Attachment is a group of probes and the way to attach its program.
type Attachment struct {
	Group *probe.Group
	// Attach makes the probes of the group fire into prog. The closer detaches
	// them. It is nil for groups that are run by hand (BEGIN, END).
	Attach func(prog *ebpf.Program) (io.Closer, error)
	// Refused are the probes that Attach could not attach while others of the
	// group were; it is to be read after Attach.
	Refused []Refusal
	// Missed, if not nil, is how many returns the kernel has not seen so far
	// because it had no room to remember them. It is for as long as the attachment
	// is not closed.
	Missed func() uint64
	// Skipped, if not nil, is how many firings the kernel has skipped because one
	// was going on, beside those that it tells of the program; for as long too.
	Skipped func() uint64
	// Notes are what a user who asks for details should know about the
	// attachment; they are complete when the Attachment is returned.
	Notes []string
}

// Refusal says why a probe was not attached.
type Refusal struct {
	Probe *probe.Probe
	Err   error
}

// Probe IDs: every provider has a range, so that a probe has the same ID
// whatever else a session looked at.
const (
	baseDtrace   = 1
	baseSyscall  = 4
	baseProfile  = 3000
	baseCpc      = 7000
	baseSdt      = 10_000  // + number of the event, below 65536
	baseRawtp    = 80_000  // + number of the event
	baseBareTP   = 150_000 // + place among the tracepoints without an event
	baseFbt      = 200_000 // + 2 * number in vmlinux's BTF, + 1 for return
	baseFbtMore  = 650_000 // the other functions that can be traced, in the kernel's order
	baseRawfbt   = 750_000 // + 2 * place among the functions of the symbol table
	baseKinst    = 970_000
	baseCounter  = 990_000
	baseInstr    = 10_000_000
	baseUser     = 160_000 // probes in programs, numbered as they are made
	baseUserMore = 50_000_000
	baseNamed    = 60_000_000 // probes under the names of registered providers
)

// userID is the ID of the n-th probe in a user program: short as long as possible.
func userID(n int) int {
	if id := baseUser + n; id < baseFbt {
		return id
	}
	return baseUserMore + n
}

// All returns a fresh instance of every provider, in listing order.
func All() []Provider {
	pid := newPid()
	return []Provider{newDtrace(), newProfile(), newCpc(), newSyscall(), newSdt(), newRawtp(), newFbt(), newRawfbt(), newKinst(), newInstr(), newCounter(), pid, newGo(pid)}
}

// closers closes all of them at once: many closings wait for a grace period
// each, and waiting side by side takes as long as one.
type closers []io.Closer

func (cs closers) Close() error {
	errs := make([]error, len(cs))
	done := make(chan int)
	for i, c := range cs {
		go func() {
			errs[i] = c.Close()
			done <- i
		}()
	}
	for range cs {
		<-done
	}
	return errors.Join(errs...)
}
