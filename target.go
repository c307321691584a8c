package godtrace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"godtrace/internal/process"
	"godtrace/internal/provider"
	"godtrace/internal/symbol"
)

// The option evaltime: how far a created process has come when probes in its
// program and libraries are looked for.
const (
	evalExec     = iota // its program and the dynamic linker are mapped
	evalPreinit         // its libraries are, and relocated
	evalPostinit        // they have been initialized
	evalMain            // the same: the program's own first instruction
)

// userHost is the session as providers of user probes see it.
func (s *Session) userHost() *provider.Host {
	return &provider.Host{
		Procs:  s.procs,
		Ready:  s.ready,
		Notice: s.note,
		Debug:  s.debugf,
		Option: s.opts.get,
	}
}

// note tells the user something beside the output; until there is somebody to
// tell, it is kept.
func (s *Session) note(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	if s.Handlers.Note == nil {
		s.notes = append(s.notes, msg)
		return
	}
	s.Handlers.Note(msg)
}

func (s *Session) flushNotes() {
	if s.Handlers.Note != nil {
		for _, n := range s.notes {
			s.Handlers.Note(n)
		}
	}
	s.notes = nil
}

// ready has a process at the point where its probes can be looked for. Only a
// target that was created and still waits to execute its program is not.
func (s *Session) ready(pid int) error {
	for _, t := range s.targets {
		if t.PID == pid && t.Held() {
			return s.advance(t)
		}
	}
	return nil
}

// advance lets a created process run to the point that evaltime names, where
// it is stopped.
func (s *Session) advance(t *process.Target) error {
	stop, err := s.stopOnWay(t)
	if err != nil {
		return err
	}
	if err := t.RunToStop(); err != nil {
		stop.Close()
		return err
	}
	s.background(stop)
	return nil
}

// background closes what takes a grace period to close, while other things are
// done; Close waits for it.
func (s *Session) background(c io.Closer) {
	s.closing.Go(func() { c.Close() })
}

// stopOnWay arranges for a created process to stop on its way.
func (s *Session) stopOnWay(t *process.Target) (io.Closer, error) {
	name, err := programOf(t.Path)
	if err != nil {
		return nil, err
	}
	obj, err := symbol.Open(name)
	if err != nil {
		return nil, err
	}
	when := s.opts.get("evaltime")
	at, nth := obj.Entry, 1
	if when <= evalPreinit && obj.Interp != "" {
		linker, err := symbol.Open(obj.Interp)
		if err != nil {
			return nil, err
		}
		// Linkers without a mark are left at the program's first instruction.
		if v, n, ok := provider.LinkerStarted(linker); when == evalExec {
			name, obj, at = obj.Interp, linker, linker.Entry
		} else if ok {
			name, obj, at, nth = obj.Interp, linker, v, n
		}
	}
	off, ok := obj.Offset(at)
	if !ok {
		return nil, fmt.Errorf("%s: its entry 0x%x is not in the file", name, at)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return provider.SetTrap(t.PID, f, []uint64{off}, nth)
}

// programOf is the ELF file that executing a file comes down to: scripts name
// their interpreter in the first line.
func programOf(name string) (string, error) {
	for range 5 { // as deep as the kernel goes
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		line, err := bufio.NewReaderSize(f, 256).ReadSlice('\n')
		f.Close()
		rest, ok := bytes.CutPrefix(line, []byte("#!"))
		if !ok {
			return name, nil
		}
		words := strings.Fields(string(rest))
		if err != nil || len(words) == 0 {
			return "", fmt.Errorf("%s: no interpreter after #!", name)
		}
		name = words[0]
		if !strings.Contains(name, "/") {
			if name, err = exec.LookPath(name); err != nil {
				return "", err
			}
		}
	}
	return "", fmt.Errorf("%s: too many interpreters in a row", name)
}
