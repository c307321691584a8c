package provider

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/kernel"
	"godtrace/internal/probe"
)

// Where entry and return of the same functions are probed, one link can do for
// both since Linux 6.10: a session, whose program the kernel runs on both
// sides. With two links each function has two callbacks, and until 6.14 ftrace
// then goes through a list of all in every call; with one it calls it directly.
//
// The programs of the two sides stay as they are. A third one, which is what is
// attached, asks which side it is and calls the other as a tail call.

const typeKprobeSession = 56 // BPF_TRACE_KPROBE_SESSION

// sideFunc is the kernel's function that tells the side.
const sideFunc = "bpf_session_is_return"

// haveSessions reports whether the kernel has sessions of kprobes, and lets the
// program that tells the sides load.
var haveSessions = sync.OnceValue(func() bool {
	if !haveMulti() {
		return false
	}
	s := new(session)
	if err := s.load(); err != nil {
		return false
	}
	s.Close()
	return true
})

// session is a link to be made of two attachments, entry and return, when both
// have their programs.
type session struct {
	progs [2]*ebpf.Program
	table *ebpf.Map // of those, which the one that is attached calls through
	side  int       // descriptor of that one; 0: none
}

// sessionGroups attaches functions of which both probes are enabled: entries
// and returns are in the same order, so that one cookie serves both.
func sessionGroups(entries, returns []*probe.Probe) []*Attachment {
	s := new(session)
	in := &Attachment{Group: indexGroup(probe.KindKprobe, "fbt", entries)}
	out := &Attachment{Group: indexGroup(probe.KindKretprobe, "fbt_ret", returns)}
	in.Group.AttachType, out.Group.AttachType = typeKprobeSession, typeKprobeSession
	in.Attach = func(prog *ebpf.Program) (io.Closer, error) {
		s.progs[0] = prog
		return closers{}, nil // attached with the other
	}
	out.Attach = func(prog *ebpf.Program) (io.Closer, error) {
		if s.progs[0] == nil {
			return nil, errors.New("the entry side of the session has no program")
		}
		s.progs[1] = prog
		if err := s.load(); err != nil {
			return nil, fmt.Errorf("session of kprobes: %w", err)
		}
		links, err := out.attachMulti(s.side, returns, false)
		// A function that is refused is on both sides.
		for _, r := range out.Refused {
			in.Refused = append(in.Refused, Refusal{entries[slices.Index(returns, r.Probe)], r.Err})
		}
		if err != nil {
			s.Close()
			return nil, err
		}
		out.count(links)
		out.Skipped = s.skipped
		return sessionCloser{links, s}, nil
	}
	return []*Attachment{in, out}
}

// load makes the program that is attached.
func (s *session) load() error {
	set, err := KernelBTF()
	if err != nil {
		return err
	}
	id, ok := set.VMLinux.FuncID(sideFunc)
	if !ok {
		return errors.New("the kernel's BTF has no " + sideFunc)
	}
	// The map must stay open: a table of programs is emptied with its last
	// descriptor.
	if s.table, err = ebpf.NewMap(&ebpf.MapSpec{Name: "sides", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 2}); err != nil {
		return err
	}
	insns := []uint64{
		0x16bf,                               // r6 = r1
		0x2085 | uint64(id)<<32,              // call sideFunc
		0x57 | 0xff<<32,                      // r0 &= 255: a bool
		0x3b7,                                // r3 = 0
		0x15 | 1<<16,                         // if r0 == 0 goto +1
		0x3b7 | 1<<32,                        // r3 = 1
		0x1218 | uint64(s.table.FD())<<32, 0, // r2 = table
		0x61bf,        // r1 = r6
		0x85 | 12<<32, // tail call
		0xb7,          // r0 = 0
		0x95,          // exit
	}
	if s.side, err = kernel.LoadProgram(insns, &kernel.ProgAttr{Type: progKprobe, AttachType: typeKprobeSession}); err != nil {
		s.Close()
		return err
	}
	for i, p := range s.progs {
		if p == nil {
			continue // to see whether it loads
		}
		if err := s.table.Put(uint32(i), p); err != nil {
			s.Close()
			return err
		}
	}
	return nil
}

// Close gives up what load made.
func (s *session) Close() error {
	if s.side > 0 {
		unix.Close(s.side)
		s.side = 0
	}
	return s.table.Close()
}

// skipped reads how many firings the kernel skipped because one was going on.
func (s *session) skipped() uint64 {
	return kernel.FDInfo(s.side)["recursion_misses"]
}

// sessionCloser takes the link away before what it runs.
type sessionCloser struct {
	links closers
	s     *session
}

func (c sessionCloser) Close() error { return errors.Join(c.links.Close(), c.s.Close()) }

// loadEmpty loads a program that returns 0 at once: to ask the verifier
// whether it admits an attachment.
func loadEmpty(typ, attach, btfID, btfObj uint32) (int, error) {
	insns := []uint64{0xb7, 0x95} // r0 = 0; exit
	return kernel.LoadProgram(insns, &kernel.ProgAttr{Type: typ, AttachType: attach, AttachBTF: btfID, AttachBTFObj: btfObj})
}
