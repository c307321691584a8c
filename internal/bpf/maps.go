package bpf

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"godtrace/internal/dif"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/ring"
)

// errSize has DTrace's words for buffers that cannot hold one element.
var errSize = errors.New("Enabling exceeds size of buffer")

// maxEntries is how many keys the hash of an aggregation holds if aggsize does
// not ask for more than by default.
const maxEntries = 1 << 16

// newMap makes a map that is closed with the Runtime.
func (r *Runtime) newMap(s mapSpec) (*bpfMap, error) {
	m, err := newMap(r.cfg.Trace, s)
	if err == nil {
		r.maps = append(r.maps, m)
	}
	return m, err
}

// makeMaps makes all that the programs of a load work on.
func (r *Runtime) makeMaps() error {
	p := r.plan
	var err error
	if p.data, err = r.newMap(mapSpec{name: "data", typ: mapArray, key: 4, val: p.dataSize, entries: 1, flags: flagMmapable}); err != nil {
		return err
	}
	if err := r.makeOwn(p); err != nil {
		return err
	}
	if p.ring, r.rings, p.ringGeo, err = r.makeRings("records", orDefault(r.cfg.BufSize, 4<<20), r.cfg.BufPolicy == BufRing, p.needRing); err != nil {
		return err
	}
	if p.specRing, r.spec, p.specGeo, err = r.makeRings("spec", max(orDefault(r.cfg.SpecSize, 4<<20), 256<<10), false, p.needSpec); err != nil {
		return err
	}
	if err := r.makeAggs(); err != nil {
		return err
	}
	if p.needUnwind {
		if p.unwind, err = newUnwind(r); err != nil {
			return err
		}
	}
	if err := r.makeThreadLocals(); err != nil {
		return err
	}
	if err := r.makeDynamic(); err != nil {
		return err
	}
	if p.needTAI {
		r.setTAI()
	}
	return nil
}

// orDefault is n, or def where an option was not set.
func orDefault(n, def int64) int64 {
	if n > 0 {
		return n
	}
	return def
}

// makeOwn makes what no two plans share: constants and scratch memory.
func (r *Runtime) makeOwn(p *plan) (err error) {
	if size := align(len(p.roData), 8); size > 8 {
		if p.ro, err = r.newMap(mapSpec{name: "const", typ: mapArray, key: 4, val: size, entries: 1, flags: flagRdonlyProg}); err != nil {
			return err
		}
		if err := p.ro.setFrozen(append(p.roData, make([]byte, 8)...)[:size]); err != nil {
			return err
		}
	}
	if p.needScratch {
		p.scratch, err = r.newMap(mapSpec{name: "scratch", typ: mapArray, key: 4, val: p.scratchSize, entries: p.ncpu * levels})
	}
	return err
}

// makeRings makes rings of size bytes for each CPU, or of what the kernel takes;
// none if there is no need.
func (r *Runtime) makeRings(name string, size int64, overwrite bool, need bool) (*bpfMap, *ring.Set, ring.Geometry, error) {
	p := r.plan
	if !need {
		s, err := ring.NewSet(nil, 0, ring.Geometry{Size: 8}, false)
		return nil, s, ring.Geometry{}, err
	}
	if overwrite {
		// A record and the copy of its first word: what is written last, such
		// as that of exit(), must not be lost whatever bufsize says.
		size = max(size, int64(align(p.largest, 8)+8))
	}
	spec := mapSpec{name: name, typ: mapArray, key: 4, entries: p.ncpu, flags: flagMmapable}
	geo := ring.Fit(size, int64(p.largest), valueLimit())
	for {
		spec.val = int(geo.Stride)
		m, err := r.newMap(spec)
		if (errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOMEM)) && geo.Size > 4096 {
			geo = ring.Fit(geo.Size/2, int64(p.largest), 0)
			continue
		}
		if err != nil {
			return nil, nil, geo, err
		}
		s, err := ring.NewSet(m.mem, p.ncpu, geo, overwrite)
		return m, s, geo, err
	}
}

// valueLimit is the largest array value: before 6.12 the kernel's largest
// kmalloc; 0: none.
func valueLimit() int64 {
	if !kernel.AtLeast(6, 12) {
		return 4 << 20
	}
	return 0
}

// makeAggs makes the maps of aggregations: a table of rows for all that have no
// key, one for each whose key is the probe's, and hashes for the others, of
// which those of one shape share one.
func (r *Runtime) makeAggs() (err error) {
	p := r.plan
	for i := range p.forms {
		if fm := &p.forms[i]; (fm.kind == formScalar || fm.kind == formProbe) && r.cfg.AggSize > 0 && r.cfg.AggSize < int64(8+8*fm.words) {
			return errSize
		}
	}
	if p.scalarSize > 0 {
		if p.scalars, err = r.newRows("aggs", 1, align(p.scalarSize, 64)); err != nil {
			return err
		}
	}
	type shape struct{ key, value int }
	hashes, sharers := map[shape]*bpfMap{}, map[shape]int{}
	total := 0
	for i := range p.forms {
		if fm := &p.forms[i]; fm.kind == formHash {
			sharers[shape{fm.key, fm.size()}]++
			total++
		}
	}
	for i := range p.forms {
		fm := &p.forms[i]
		switch fm.kind {
		case formProbe:
			if fm.m, err = r.newRows(fmt.Sprintf("agg%d", i), p.nprobes(), fm.size()); err != nil {
				return err
			}
		case formHash:
			s := shape{fm.key, fm.size()}
			if hashes[s] == nil {
				size := orDefault(r.cfg.AggSize, 4<<20) * int64(sharers[s]) / int64(total)
				n := min(size*int64(p.ncpu)/int64(s.key+s.value), max(maxEntries, size/64))
				if n == 0 || size < int64(8+s.value) {
					return errSize
				}
				if hashes[s], err = r.newMap(mapSpec{name: fmt.Sprintf("agg%d", i), typ: mapHash, key: s.key, val: s.value, entries: int(n)}); err != nil {
					return err
				}
				hashes[s].form = i
			}
			fm.m = hashes[s]
		}
	}
	return nil
}

// newRows makes a table of rows by epoch and CPU, each of n elements of stride
// bytes.
func (r *Runtime) newRows(name string, n, stride int) (*bpfMap, error) {
	p := r.plan
	val, entries := p.rows()*n*stride, 1
	if val > 2<<20 {
		val, entries = stride, 2*p.ncpu*n
	}
	m, err := r.newMap(mapSpec{name: name, typ: mapArray, key: 4, val: val, entries: entries, flags: flagMmapable})
	if err == nil {
		m.stride = stride
	}
	return m, err
}

// makeThreadLocals makes the task storage of self->, and what stands for it
// where goroutines have it.
func (r *Runtime) makeThreadLocals() error {
	p := r.plan
	if p.storageSize <= 8 && !p.selfDyn() {
		return nil
	}
	fd, err := loadStorageBTF(p.storageSize)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	p.storage, err = r.newMap(mapSpec{name: "self", typ: mapTaskStorage, key: 4, val: p.storageSize, flags: flagNoPrealloc, btf: fd, btfVal: 3})
	if errors.Is(err, unix.E2BIG) {
		return &TooComplexError{Reason: fmt.Sprintf("thread-local variables of %d bytes; the kernel keeps at most 64 KB", p.storageSize)}
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(r.cfg.Groups, func(g *probe.Group) bool { return g.Go != nil }) {
		n := orDefault(r.cfg.DynVarSize, 1<<20) / int64(goKeySize+p.storageSize)
		p.goroutines, err = r.newMap(mapSpec{name: "goroutines", typ: mapHash, key: goKeySize, val: p.storageSize, entries: int(max(n, 1))})
	}
	return err
}

// selfDyn reports whether a thread-local array is used: its keys hold the
// thread's number, which task storage keeps.
func (p *plan) selfDyn() bool {
	for i, v := range p.obj.Vars {
		if p.vars[i].used && v.Class == dif.Self && v.Keys != nil {
			return true
		}
	}
	return false
}

// makeDynamic makes a hash for each associative array. They divide dynvarsize
// once they would hold more than 8192 elements each.
func (r *Runtime) makeDynamic() (err error) {
	p := r.plan
	dyns := 0
	for i := range p.vars {
		if p.vars[i].used && p.obj.Vars[i].Keys != nil {
			dyns++
		}
	}
	for i, v := range p.obj.Vars {
		vp := &p.vars[i]
		if !vp.used || v.Keys == nil {
			continue
		}
		key := vp.prefix + align(v.KeySize, 8)
		n := orDefault(r.cfg.DynVarSize, 1<<20) / int64(key+vp.slot)
		if n == 0 {
			return errSize
		}
		if n > 8192 {
			n = max(n/int64(dyns), 8192)
		}
		if vp.dyn, err = r.newMap(mapSpec{name: "var_" + v.Name, typ: mapHash, key: key, val: vp.slot, entries: int(n)}); err != nil {
			return err
		}
	}
	return nil
}

// setTAI tells programs how far TAI is ahead of UTC, whole seconds. The clocks
// are read side by side.
func (r *Runtime) setTAI() {
	var tai, utc unix.Timespec
	unix.ClockGettime(unix.CLOCK_TAI, &tai)
	unix.ClockGettime(unix.CLOCK_REALTIME, &utc)
	d := time.Duration(tai.Nano() - utc.Nano()).Round(time.Second)
	r.word(offTAI).Store(uint64(d))
}
