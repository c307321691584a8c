package provider

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"

	"godtrace/internal/symbol"
)

// Places in a dynamic linker where the set of loaded objects has changed: its
// own static probes (Debian and others build it with them), else the function
// it calls for debuggers.
const (
	linkerStarted = "rtld\x00init_complete\x00" // all that the program needs is mapped and relocated
	linkerLoaded  = "rtld\x00map_complete\x00"  // dlopen has mapped more
)

// LinkerStarted is the address, in a dynamic linker's file, of the instruction
// at which everything a program needs is mapped and relocated and no
// initializer has run, if it comes by there for the nth time.
func LinkerStarted(o *symbol.Object) (addr uint64, nth int, ok bool) {
	if addr, ok := linkerMark(o, linkerStarted); ok {
		return addr, 1, true
	}
	s, ok := o.Named(debugState)
	if strings.Contains(o.Module(), "musl") {
		return s.Value, 1, ok
	}
	return s.Value, 2, ok // glibc: for the first time before it maps anything
}

// debugState is the function that linkers call for debuggers to stop at.
const debugState = "_dl_debug_state"

func linkerMark(o *symbol.Object, mark string) (uint64, bool) {
	_, b, err := o.Section(".note.stapsdt")
	if err != nil {
		return 0, false
	}
	base := uint64(0)
	if h, _, err := o.Section(".stapsdt.base"); err == nil {
		base = h.Addr
	}
	return findMark(b, base, mark)
}

// findMark looks for a static probe, "provider\x00name\x00", among notes; base is
// where the section .stapsdt.base lies now.
func findMark(b []byte, base uint64, mark string) (uint64, bool) {
	le := binary.LittleEndian
	for len(b) >= 12 {
		name, desc := (uint64(le.Uint32(b))+3)&^3, (uint64(le.Uint32(b[4:]))+3)&^3
		if 12+name+desc > uint64(len(b)) {
			break
		}
		d := b[12+name : 12+name+desc]
		b = b[12+name+desc:]
		// address, address of .stapsdt.base as linked, semaphore, provider, name
		if len(d) > 24 && bytes.HasPrefix(d[24:], []byte(mark)) {
			return le.Uint64(d) + base - le.Uint64(d[8:]), true
		}
	}
	return 0, false
}

// WatchLoading sets a trap where a process has loaded libraries. It is nil for
// a process without a dynamic linker.
func (h *Host) WatchLoading(pid int, stop bool) (*Trap, error) {
	proc, err := h.Procs.Process(pid)
	if err != nil {
		return nil, err
	}
	for _, o := range proc.Objects() {
		if !strings.HasPrefix(o.Mapping.Module(), "ld-") && !strings.HasPrefix(o.Mapping.Module(), "ld.so") {
			continue
		}
		var at []uint64
		for _, mark := range []string{linkerStarted, linkerLoaded} {
			if v, ok := linkerMark(o.Object, mark); ok {
				at = append(at, v)
			}
		}
		if len(at) < 2 {
			s, ok := o.Named(debugState)
			if !ok {
				continue
			}
			at = []uint64{s.Value}
		}
		var offs []uint64
		for _, v := range at {
			if off, ok := o.Offset(v); ok {
				offs = append(offs, off)
			}
		}
		f, err := os.Open(procPath(pid, "root") + o.Mapping.Path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		when := StopNever
		if stop {
			when = StopAlways
		}
		return SetTrap(pid, f, offs, when)
	}
	return nil, nil
}
