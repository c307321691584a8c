package godtrace

import (
	"encoding/binary"
	"sync"

	"godtrace/internal/dif"
	"godtrace/internal/process"
)

// User addresses are resolved when they are printed, which may be after the
// process has gone. So where a program records any, note is taken of what
// processes map while they do, and the mappings of those that were there before
// are read when they are first seen in an aggregation's keys.

// gone is what a session does about processes that may go.
type gone struct {
	mu     sync.Mutex // events are told of in their order
	events *process.Events
	unwind *unwinding
	pids   map[int]bool  // their mappings have been read
	keys   [][]dif.Field // user addresses in the keys of each aggregation form
}

func isUser(f *dif.Field) bool { return f.Kind == dif.FUStack || f.Kind == dif.FUSym }

// watchGone prepares for processes that go, if the program records user addresses.
func (s *Session) watchGone(r *running) error {
	found := false
	for _, rec := range r.obj.Records {
		for i := range rec.Actions {
			for j := range rec.Actions[i].Fields {
				found = found || isUser(&rec.Actions[i].Fields[j])
			}
		}
	}
	keys := make([][]dif.Field, len(r.obj.Forms))
	for i, form := range r.obj.Forms {
		for j := range form.Keys {
			if isUser(&form.Keys[j]) {
				keys[i] = append(keys[i], form.Keys[j])
				found = true
			}
		}
	}
	if !found && s.rt.Unwind() == nil {
		return nil
	}
	events, err := process.WatchEvents()
	if err != nil {
		return err
	}
	r.gone = &gone{events: events, pids: map[int]bool{}, keys: keys}
	r.links = append(r.links, r.gone)
	for _, t := range s.targets {
		if !t.Held() {
			s.procs.Snapshot(t.PID)
			r.gone.pids[t.PID] = true
		}
	}
	return nil
}

// note takes note of what processes have mapped.
func (g *gone) note(s *Session) {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.unwind.changed(g.events.Drain(s.procs))
	}
}

// Close ends the collection of events and the reading of tables, which waits
// for them.
func (g *gone) Close() error {
	g.unwind.close()
	return g.events.Close()
}

// noteKey reads the mappings of the process of a key, when it is new.
func (g *gone) noteKey(s *Session, form int, key []byte) {
	if g == nil {
		return
	}
	for i := range g.keys[form] {
		f := &g.keys[form][i]
		if f.Off+8 > len(key) {
			continue
		}
		pid := int(int32(binary.LittleEndian.Uint64(key[f.Off:])))
		if pid > 0 && !g.pids[pid] {
			g.pids[pid] = true
			s.procs.Process(pid)
		}
	}
}
