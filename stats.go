package godtrace

import (
	"fmt"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/ring"
)

// ProgramStats is what the kernel counted of one loaded program, which serves
// all probes of one attach point.
type ProgramStats struct {
	Name    string
	Probes  int
	Runs    uint64
	Nanos   uint64 // time in the program, with the 20 to 50 ns that the counting takes
	Skipped uint64 // firings that the kernel did not hand over
	Insns   int    // eBPF instructions
}

// Stats are the counts of each program since Go, in the order of loading. Runs
// and Nanos are counted under the option stats only.
func (s *Session) Stats() []ProgramStats {
	if s.rt == nil {
		return nil
	}
	out := make([]ProgramStats, len(s.running.atts))
	for i, st := range s.rt.Stats() {
		out[i] = ProgramStats{
			Name: st.Name, Probes: len(s.running.atts[i].Group.Probes),
			Runs: st.Runs, Nanos: st.Nanos, Skipped: st.Missed, Insns: st.Insns,
		}
	}
	return out
}

// countRuns has the kernel count runs until the session is closed (since 5.8).
func (s *Session) countRuns() error {
	if !s.opts.flag("stats") {
		return nil
	}
	c, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return fmt.Errorf("stats: %w", err)
	}
	s.running.links = append(s.running.links, c)
	return nil
}

// snapped is one turn of reading the rings, for the debug log.
type snapped struct {
	start          time.Time
	records, bytes []uint64 // by CPU
}

func (s *Session) beginSnap(rings *ring.Set) *snapped {
	if s.Debug == nil {
		return nil
	}
	return &snapped{time.Now(), make([]uint64, rings.NCPU()), make([]uint64, rings.NCPU())}
}

func (n *snapped) count(f func(int, []byte) error) func(int, []byte) error {
	if n == nil {
		return f
	}
	return func(cpu int, rec []byte) error {
		n.records[cpu]++
		n.bytes[cpu] += uint64(len(rec))
		return f(cpu, rec)
	}
}

// end writes a line for each CPU: its drops and the session's errors are those
// since the start.
func (n *snapped) end(s *Session, rings *ring.Set, err error) {
	if n == nil {
		return
	}
	for cpu := range rings.NCPU() {
		s.debugf("read records of CPU %d: %d records, %d bytes, drops %d, errors %d: %s, %d µs",
			cpu, n.records[cpu], n.bytes[cpu], rings.Drops(cpu), s.work.faults, outcome(err), time.Since(n.start).Microseconds())
	}
}

// act does one thing to the kernel and logs what came of it and how long it
// took.
func (s *Session) act(f func() error, what string, args ...any) error {
	start := time.Now()
	err := f()
	if s.Debug != nil {
		s.debugf("%s: %s, %d µs", fmt.Sprintf(what, args...), outcome(err), time.Since(start).Microseconds())
	}
	return err
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
