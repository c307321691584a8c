package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
)

// Aggregations: updates in programs, and taking the values out.
//
// Forms whose keys and values have the same sizes share a hash, for a program
// may use 64 maps only. The first 8 bytes of a key are the CPU, the epoch << 16
// and the form << 32.
const formShift = 32

// aggregate emits the update of an aggregation: it finds the words of this CPU,
// of the epoch, and of the key, making them if need be.
func (f *fn) aggregate(in *dif.Ins) {
	c, p := f.c, f.p
	fm := &p.forms[in.Sym]
	done := c.newLabel()
	switch fm.kind {
	case formScalar, formProbe:
		// Rows by epoch and CPU, in one array element where that is allowed
		// to be so large: then no look-up is needed.
		m, off := p.scalars, fm.off
		if fm.kind == formProbe {
			m, off = fm.m, 0
		}
		c.call(fnCPU)
		c.mapValue(r1, p.data, offEpochIdx)
		c.load(8, r1, r1, 0)
		c.alu(opAdd, r0, r1)
		if m.entries == 1 {
			c.aluImm(opAnd, r0, int32(p.rows()-1))
		}
		if fm.kind == formProbe {
			c.aluImm(opMul, r0, int32(p.nprobes()))
			if i, ok := f.probeIndex(); ok {
				c.aluImm(opAdd, r0, int32(i))
			} else {
				c.alu(opAdd, r0, f.machine(pProbe, r1))
			}
		}
		if m.entries == 1 {
			c.aluImm(opMul, r0, int32(m.stride))
			c.mapValue(r1, m, off)
			c.alu(opAdd, r0, r1)
			break
		}
		c.store(4, fp, bufOff, r0)
		c.mapPtr(r1, m)
		c.addr(r2, fp, bufOff)
		c.call(fnMapLookup)
		c.jmpImm(jEQ, r0, 0, done)
		if off != 0 {
			c.aluImm(opAdd, r0, int32(off))
		}
	case formHash:
		have := c.newLabel()
		c.call(fnCPU)
		c.mapValue(r1, p.data, offEpochKey)
		c.load(8, r1, r1, 0)
		c.alu(opOr, r0, r1)
		if in.Sym != 0 {
			c.imm(r1, int64(in.Sym)<<formShift)
			c.alu(opOr, r0, r1)
		}
		b, off := f.tempMem(in.Temp, -8, r1)
		c.store(8, b, off, r0)
		c.mapPtr(r1, fm.m)
		f.tempPtr(r2, in.Temp, -8)
		c.call(fnMapLookup)
		c.jmpImm(jNE, r0, 0, have)
		c.mapPtr(r1, fm.m)
		f.tempPtr(r2, in.Temp, -8)
		c.mapValue(r3, p.data, p.zeroOff)
		c.imm(r4, 1) // BPF_NOEXIST
		c.call(fnMapUpdate)
		c.mapPtr(r1, fm.m)
		f.tempPtr(r2, in.Temp, -8)
		c.call(fnMapLookup)
		c.jmpImm(jEQ, r0, 0, f.dropAt(dropAgg, done))
		c.place(have)
	}
	f.updateWords(in, fm, done)
	c.place(done)
}

// updateWords applies the value to the raw words at r0; r1…r5 are lost.
func (f *fn) updateWords(in *dif.Ins, fm *formPlan, done label) {
	c := f.c
	incr := func(off int) { // of the histogram's bucket, at r0+off
		if in.B == 0 && in.Imm == 0 {
			c.imm(r2, 1)
		} else {
			f.operandTo(in, r2)
		}
		c.atomic(atAdd, r0, off, r2)
	}
	if fm.touch {
		c.storeImm(8, r0, 8*fm.words, 1)
	}
	switch s := fm.spec; s.Func {
	case agg.Count:
		c.imm(r1, 1)
		c.atomic(atAdd, r0, 0, r1)
	case agg.Sum:
		f.addReg(in.A, 0)
	case agg.Avg:
		c.imm(r1, 1)
		c.atomic(atAdd, r0, 0, r1)
		f.addReg(in.A, 8)
	case agg.Stddev:
		c.imm(r1, 1)
		c.atomic(atAdd, r0, 0, r1)
		f.addReg(in.A, 8)
		f.addSquare(in.A)
	case agg.Min, agg.Max:
		f.maximum(in.A, s.Func == agg.Min, done)
	case agg.Quantize:
		f.log2Bucket(in.A)
		c.jmpImm(jGT, r1, agg.QuantizeBuckets-1, done)
		c.aluImm(opLsh, r1, 3)
		c.alu(opAdd, r0, r1)
		incr(0)
	case agg.Lquantize:
		f.linearBucket(in.A, s)
		c.jmpImm(jGT, r1, int32(fm.words-1), done)
		c.aluImm(opLsh, r1, 3)
		c.alu(opAdd, r0, r1)
		incr(0)
	case agg.Llquantize:
		f.logLinearBucket(in.A, s)
		c.jmpImm(jGT, r1, int32(fm.words-1), done)
		c.aluImm(opLsh, r1, 3)
		c.alu(opAdd, r0, r1)
		incr(0)
	default:
		f.fail(in, "aggregating function %v", s.Func)
	}
}

// addReg adds v to the word at r0+off. An addition without a result does not
// change its register.
func (f *fn) addReg(v dif.Reg, off int) { f.c.atomic(atAdd, r0, off, f.get(v, r1)) }

// addSquare adds v*v to the 128 bits at r0+16 (low) and r0+24.
func (f *fn) addSquare(v dif.Reg) {
	c := f.c
	f.getTo(v, r1)
	c.mov(r2, r1)
	c.aluImm(opArsh, r2, 63)
	c.alu(opXor, r1, r2)
	c.alu(opSub, r1, r2) // |v|
	c.mov32(r2, r1)      // l
	c.aluImm(opRsh, r1, 32)
	c.mov(r3, r1) // h
	c.mov(r4, r1)
	c.alu(opMul, r4, r2) // h*l, to be added twice, shifted by 32
	c.alu(opMul, r2, r2) // l*l
	c.alu(opMul, r3, r3) // h*h
	// hi += 2*h*l >> 32; with h < 2^31 (or v the smallest) 2*h*l fits: h*l < 2^63.
	c.mov(r1, r4)
	c.aluImm(opRsh, r1, 31)
	c.alu(opAdd, r3, r1)
	c.aluImm(opLsh, r4, 33)
	c.alu(opAdd, r2, r4)
	noCarry := c.newLabel()
	c.jmpReg(jGE, r2, r4, noCarry)
	c.aluImm(opAdd, r3, 1)
	c.place(noCarry)
	// [lo, hi] += r2, r3
	c.mov(r1, r2)
	c.atomic(atAdd|atFetch, r0, 16, r1)
	c.alu(opAdd, r1, r2)
	noWrap := c.newLabel()
	c.jmpReg(jGE, r1, r2, noWrap)
	c.aluImm(opAdd, r3, 1)
	c.place(noWrap)
	c.atomic(atAdd, r0, 24, r3)
}

// maximum is the unsigned maximum with the encoded value, by compare and
// exchange: another attempt is needed only when a nested firing came between.
func (f *fn) maximum(v dif.Reg, min bool, done label) {
	c := f.c
	f.getTo(v, r2)
	c.imm64(0, r1, 1<<63)
	c.alu(opXor, r2, r1)
	if min {
		c.aluImm(opXor, r2, -1)
	}
	c.mov(r3, r0)
	again, less := c.newLabel(), c.newLabel()
	c.imm(r5, 8)
	c.place(again)
	c.load(8, r0, r3, 0)
	c.jmpReg(jLT, r0, r2, less)
	c.jmp(done)
	c.place(less)
	c.mov(r4, r0)
	c.atomic(atCmpXchg, r3, 0, r2)
	c.jmpReg(jEQ, r0, r4, done)
	c.aluImm(opSub, r5, 1)
	c.jmpImm(jNE, r5, 0, again)
	c.jmp(f.dropAt(dropAgg, done))
}

// log2Bucket puts quantize's bucket of v into r1; r0 is kept.
func (f *fn) log2Bucket(v dif.Reg) {
	c := f.c
	f.getTo(v, r2)
	c.mov(r3, r2)
	c.aluImm(opArsh, r3, 63) // -1 for negative values
	c.alu(opXor, r2, r3)
	c.alu(opSub, r2, r3) // |v|
	// r1 = bits in r2
	c.imm(r1, 0)
	zero := c.newLabel()
	c.jmpImm(jEQ, r2, 0, zero)
	c.imm(r1, 1)
	for _, n := range []int32{32, 16, 8, 4, 2, 1} {
		skip := c.newLabel()
		c.mov(r4, r2)
		c.aluImm(opRsh, r4, n)
		c.jmpImm(jEQ, r4, 0, skip)
		c.mov(r2, r4)
		c.aluImm(opAdd, r1, n)
		c.place(skip)
		c.opaque(r1)
		c.opaque(r2)
	}
	// 63 + bits, or 63 - bits, at least 0
	c.alu(opXor, r1, r3)
	c.alu(opSub, r1, r3)
	c.place(zero)
	c.aluImm(opAdd, r1, agg.QuantizeZero)
	in := c.newLabel()
	c.jmpImm(jSGE, r1, 0, in)
	c.imm(r1, 0)
	c.place(in)
}

// linearBucket puts lquantize's bucket of v into r1; r0 is kept.
func (f *fn) linearBucket(v dif.Reg, s agg.Spec) {
	c := f.c
	f.getTo(v, r2)
	c.imm(r1, 0)
	low, in := c.newLabel(), c.newLabel()
	c.jmpImm(jSLT, r2, int32(s.Base), low)
	c.aluImm(opSub, r2, int32(s.Base))
	if s.Step > 1 {
		c.aluImm(opDiv, r2, int32(s.Step))
	}
	c.jmpImm(jLE, r2, int32(s.Levels()), in)
	c.imm(r2, int64(s.Levels()))
	c.place(in)
	c.mov(r1, r2)
	c.aluImm(opAdd, r1, 1)
	c.place(low)
}

// logLinearBucket puts llquantize's bucket of v into r1; r0 is kept.
func (f *fn) logLinearBucket(v dif.Reg, s agg.Spec) {
	c := f.c
	half := int32(s.Words()-3) / 2
	per, skip := s.Steps-s.Steps/s.Factor, s.Steps/s.Factor
	f.getTo(v, r2)
	c.mov(r3, r2)
	c.aluImm(opArsh, r3, 63)
	c.alu(opXor, r2, r3)
	c.alu(opSub, r2, r3)
	have := c.newLabel()
	// r1 = distance from the bucket of zero
	c.imm(r1, 0)
	// The largest magnitude may end beyond the largest int64.
	top, factor, steps := uint64(1), uint64(s.Factor), uint64(s.Steps)
	for range s.Low {
		top *= factor
	}
	below := func(limit uint64, l label) {
		if limit <= math.MaxInt32 {
			c.jmpImm(jLT, r2, int32(limit), l)
			return
		}
		c.imm(r4, int64(limit))
		c.jmpReg(jLT, r2, r4, l)
	}
	below(top, have)
	mags := make([]label, s.High-s.Low+1)
	t := top
	for i := range mags {
		mags[i] = c.newLabel()
		t *= factor
		below(t, mags[i])
	}
	c.imm(r1, int64(half+1))
	c.jmp(have)
	t = top
	for i := range mags {
		c.place(mags[i])
		t *= factor
		if mag := s.Low + int64(i); mag == 0 {
			c.aluImm(opMul, r2, int32(s.Steps))
			c.imm(r4, int64(t))
			c.alu(opDiv, r2, r4)
		} else if t/steps > 1 {
			c.imm(r4, int64(t/steps))
			c.alu(opDiv, r2, r4)
		}
		c.imm(r4, int64(i)*per-skip+1)
		c.alu(opAdd, r2, r4)
		c.mov(r1, r2)
		c.jmp(have)
	}
	c.place(have)
	c.opaque(r1)
	c.alu(opXor, r1, r3)
	c.alu(opSub, r1, r3)
	c.aluImm(opAdd, r1, half+1)
}

// Taking values out.

type aggBuffers struct{ keys, values []byte }

// SnapshotAggs takes what was aggregated since the last snapshot out of the
// maps: it turns to the other epoch, waits until no firing uses the old one
// and calls f for each value: the form (index into Object.Forms), the CPU, the
// key tuple as laid out by the form, and the raw words (Spec.Words of them;
// package agg). key and words are good during the call only. Values of one key
// on several CPUs, and of several snapshots, are to be merged by the caller.
func (r *Runtime) SnapshotAggs(f func(form, cpu int, key []byte, words []int64) error) error {
	r.aggMu.Lock()
	defer r.aggMu.Unlock()
	p := r.plan
	any := false
	for i := range p.forms {
		any = any || p.forms[i].kind != formUnused
	}
	if !any {
		return nil
	}
	old := r.epoch
	r.epoch ^= 1
	r.word(offEpochIdx).Store(uint64(r.epoch) * uint64(r.ncpu))
	r.word(offEpochKey).Store(uint64(r.epoch) << 16)
	if err := r.Quiesce(); err != nil {
		return err
	}
	for i := range p.forms {
		var err error
		switch fm := &p.forms[i]; fm.kind {
		case formScalar:
			err = r.takeScalar(i, fm, old, f)
		case formProbe:
			err = r.takeByProbe(i, fm, old, f)
		case formHash:
			if fm.m.form == i {
				err = r.takeHash(fm, old, f)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func words(b []byte) []int64 { return unsafe.Slice((*int64)(unsafe.Pointer(&b[0])), len(b)/8) }

// take hands the value at b over and clears it.
func (fm *formPlan) take(b []byte, f func(words []int64) error) error {
	w := words(b[:fm.size()])
	some := false
	for _, v := range w {
		if v != 0 {
			some = true
			break
		}
	}
	if !some {
		return nil
	}
	err := f(w[:fm.words])
	clear(w)
	return err
}

func (r *Runtime) takeScalar(form int, fm *formPlan, old uint32, f func(int, int, []byte, []int64) error) error {
	p := r.plan
	for cpu := range r.ncpu {
		b := p.scalars.mem[(int(old)*r.ncpu+cpu)*p.scalars.stride+fm.off:]
		if err := fm.take(b, func(w []int64) error { return f(form, cpu, nil, w) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runtime) takeByProbe(form int, fm *formPlan, old uint32, f func(int, int, []byte, []int64) error) error {
	p := r.plan
	n := p.nprobes()
	af := p.obj.Forms[form]
	key := make([]byte, af.KeySize)
	all := p.enabled()
	for cpu := range r.ncpu {
		for _, e := range all {
			b := fm.m.mem[((int(old)*r.ncpu+cpu)*n+e.Index)*fm.m.stride:]
			err := fm.take(b, func(w []int64) error {
				for _, k := range af.Keys {
					part := e.Probe.Desc.Part(int(k.Builtin - dif.BProbeProv))
					binary.LittleEndian.PutUint32(key[k.Off:], p.strs.of(part))
				}
				return f(form, cpu, key, w)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// takeHash reads a map in batches and deletes the old epoch's elements.
func (r *Runtime) takeHash(fm *formPlan, old uint32, f func(int, int, []byte, []int64) error) error {
	m := fm.m
	chunk := min(m.entries, max(256, (1<<20)/m.valSize))
	var gone []byte
	var in, out uint64
	for first := true; ; first = false {
		if n := chunk * m.keySize; len(r.bufs.keys) < n {
			r.bufs.keys = make([]byte, n)
		}
		if n := chunk * m.valSize; len(r.bufs.values) < n {
			r.bufs.values = make([]byte, n)
		}
		n, err := m.lookupBatch(&in, &out, first, r.bufs.keys, r.bufs.values, chunk)
		if errors.Is(err, unix.ENOSPC) { // a bucket holds more than the batch
			chunk *= 2
			continue // the zero cursor is the beginning too
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("map %s: %w", m.name, err)
		}
		for i := range n {
			key := r.bufs.keys[i*m.keySize : (i+1)*m.keySize]
			who := binary.LittleEndian.Uint64(key)
			if uint32(uint16(who>>16)) != old {
				continue
			}
			gone = append(gone, key...)
			form := int(who >> formShift)
			v := words(r.bufs.values[i*m.valSize : i*m.valSize+8*r.plan.forms[form].words])
			if err := f(form, int(who&0xffff), key[8:], v); err != nil {
				return err
			}
		}
		if err != nil {
			break
		}
		in = out
	}
	if len(gone) == 0 {
		return nil
	}
	return m.deleteBatch(gone, len(gone)/m.keySize)
}
