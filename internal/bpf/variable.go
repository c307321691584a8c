package bpf

import (
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/types"
)

// Variables: globals in the map data, this-> in scratch, self-> in the thread's
// storage, arrays in hashes of their own.

// selfPtr makes sure that pSelf was looked for, creating the storage if create.
// It returns the register that holds it; 0 there means that there is none.
func (f *fn) selfPtr(create bool, tmp reg) reg {
	c := f.c
	l := f.loc[f.pseudo(pSelf)]
	have := c.newLabel()
	switch s := f.state.self; {
	case s == selfHave, s == selfLooked && !create:
		return f.getLoc(l, tmp)
	case s != selfNo:
		c.jmpImm(jNE, f.getLoc(l, r1), 0, have)
	}
	in := &f.cl.Code[f.idx]
	f.inGo(in, func(abi *probe.GoABI) { f.goSelf(in, abi, create) }, func() {
		c.call(fnCurrentTaskBTF)
		c.mapPtr(r1, f.p.storage)
		c.mov(r2, r0)
		c.imm(r3, 0)
		flags := int64(0)
		if create {
			flags = 1 // BPF_LOCAL_STORAGE_GET_F_CREATE
		}
		c.imm(r4, flags)
		c.call(fnTaskStorageGet)
	})
	f.putLoc(l, r0)
	c.place(have)
	f.state.self = selfLooked
	return f.getLoc(l, tmp)
}

// threadNumber puts the thread's number into r0, or goes to none.
func (f *fn) threadNumber(create bool, none label) {
	c := f.c
	s := f.selfPtr(create, r3)
	c.jmpImm(jEQ, s, 0, none)
	c.load(8, r0, s, 0)
	if !create {
		return
	}
	have := c.newLabel()
	c.jmpImm(jNE, r0, 0, have)
	c.mapValue(r1, f.p.data, offThreads)
	c.imm(r0, 1)
	c.atomic(atAdd|atFetch, r1, 0, r0)
	c.aluImm(opAdd, r0, 1)
	c.store(8, s, 0, r0)
	c.place(have)
}

// varMem is the place of a global or this-> variable.
func (f *fn) varMem(sym int32, tmp reg) (reg, int) {
	vp := &f.p.vars[sym]
	if f.p.obj.Vars[sym].Class == dif.This {
		s := f.machine(pScratch, tmp)
		if vp.off <= 32000 {
			return s, vp.off
		}
		f.c.addr(tmp, s, vp.off)
		return tmp, 0
	}
	f.c.mapValue(tmp, f.p.data, vp.off)
	return tmp, 0
}

// variable emits an access to a variable without keys. One of a thread that has
// no storage yet reads as zero; where storage cannot be had for a store, that is
// a dynamic variable drop.
func (f *fn) variable(in *dif.Ins) {
	c := f.c
	v := f.p.obj.Vars[in.Sym]
	vp := &f.p.vars[in.Sym]
	self := v.Class == dif.Self
	switch in.Op {
	case dif.VarGet:
		if !self {
			b, off := f.varMem(in.Sym, r1)
			o := f.out(in.Dst)
			c.load(8, o, b, off)
			f.put(in.Dst, o)
			return
		}
		s := f.selfPtr(false, r3)
		none := c.newLabel()
		c.imm(r0, 0)
		c.jmpImm(jEQ, s, 0, none)
		c.load(8, r0, s, vp.off)
		c.place(none)
		c.opaque(r0)
		f.put(in.Dst, r0)
	case dif.VarSet:
		if !self {
			b, off := f.varMem(in.Sym, r1)
			f.storeReg(8, b, off, in.A)
			return
		}
		k, isK := f.constant(in.A)
		clear := isK && k == 0
		s := f.selfPtr(!clear, r3)
		done := c.newLabel()
		if clear {
			c.jmpImm(jEQ, s, 0, done)
		} else {
			c.jmpImm(jEQ, s, 0, f.dropAt(dropDynamic, done))
		}
		f.storeReg(8, s, vp.off, in.A)
		if clear {
			f.goForget(in, s)
		}
		c.place(done)
	case dif.VarAddr:
		if f.remat[in.Dst] != nil {
			return
		}
		if !self {
			b, off := f.varMem(in.Sym, r0)
			c.addr(r0, b, off)
			c.opaque(r0)
			f.put(in.Dst, r0)
			return
		}
		s := f.selfPtr(false, r3)
		none, have := c.newLabel(), c.newLabel()
		c.jmpImm(jEQ, s, 0, none)
		c.addr(r0, s, vp.off)
		c.opaque(r0)
		c.jmp(have)
		c.place(none)
		c.mapValue(r0, f.p.data, f.p.zeroOff)
		c.opaque(r0)
		c.place(have)
		f.put(in.Dst, r0)
	case dif.VarStr, dif.VarMem:
		done := c.newLabel()
		if self {
			s := f.selfPtr(true, r3)
			c.jmpImm(jEQ, s, 0, f.dropAt(dropDynamic, done))
			c.addr(r1, s, vp.off)
		} else {
			b, off := f.varMem(in.Sym, r1)
			c.addr(r1, b, off)
		}
		f.assignMem(in, v.Size)
		c.place(done)
	}
}

// assignMem copies the string or the bytes at A to r1, the place of a variable
// of size bytes.
func (f *fn) assignMem(in *dif.Ins, size int) {
	n := int(in.Size)
	if n == 0 || n > size {
		n = size
	}
	switch in.Op {
	case dif.VarStr, dif.DynStr:
		f.readStr(in, n)
	default:
		f.readMem(in, n)
	}
}

// tvar copies a by-reference variable into a temporary.
func (f *fn) tvar(in *dif.Ins) {
	c := f.c
	vp := &f.p.vars[in.Sym]
	n := min(int(in.Size), vp.slot)
	if f.p.obj.Vars[in.Sym].Class == dif.Self {
		s := f.selfPtr(false, r3)
		none, have := c.newLabel(), c.newLabel()
		c.jmpImm(jEQ, s, 0, none)
		c.addr(r3, s, vp.off)
		c.opaque(r3)
		c.jmp(have)
		c.place(none)
		c.mapValue(r3, f.p.data, f.p.zeroOff)
		c.opaque(r3)
		c.place(have)
	} else {
		b, off := f.varMem(in.Sym, r3)
		c.addr(r3, b, off)
		c.opaque(r3)
	}
	f.tempPtr(r1, in.Temp, int(in.Imm))
	c.imm(r2, int64(n))
	c.call(fnProbeReadKernel) // our own memory: never fails
	if n < int(in.Size) {
		b, off := f.tempMem(in.Temp, int(in.Imm)+n, r1)
		f.zero(b, off, int(in.Size)-n)
	}
}

// dynKey completes the key of an array in its temporary, or goes to none.
func (f *fn) dynKey(in *dif.Ins, create bool, none label) {
	if f.p.vars[in.Sym].prefix == 0 {
		return
	}
	f.threadNumber(create, none)
	b, off := f.tempMem(in.Temp, -8, r1)
	f.c.store(8, b, off, r0)
}

// dynArgs sets up map and key for a helper.
func (f *fn) dynArgs(in *dif.Ins) {
	f.c.mapPtr(r1, f.p.vars[in.Sym].dyn)
	f.tempPtr(r2, in.Temp, -f.p.vars[in.Sym].prefix)
}

// dynamic emits an access to an element of an array. Storing zero deletes it, as
// in D; an element that finds no room is a dynamic variable drop.
func (f *fn) dynamic(in *dif.Ins) {
	c := f.c
	v := f.p.obj.Vars[in.Sym]
	done := c.newLabel()
	switch in.Op {
	case dif.DynGet, dif.DynAddr:
		none := c.newLabel()
		f.dynKey(in, false, none)
		f.dynArgs(in)
		c.call(fnMapLookup)
		c.jmpImm(jEQ, r0, 0, none)
		if in.Op == dif.DynGet {
			c.load(8, r0, r0, 0)
		}
		c.opaque(r0)
		c.jmp(done)
		c.place(none)
		if in.Op == dif.DynGet || types.IsString(v.Type) {
			c.imm(r0, 0)
		} else {
			c.mapValue(r0, f.p.data, f.p.zeroOff)
		}
		c.opaque(r0)
		c.place(done)
		f.put(in.Dst, r0)
	case dif.DynDel:
		f.dynKey(in, false, done)
		f.dynArgs(in)
		c.call(fnMapDelete)
		c.place(done)
	case dif.DynSet:
		drop := f.dropAt(dropDynamic, done)
		k, isK := f.constant(in.A)
		del := c.newLabel()
		if isK && k == 0 {
			f.dynKey(in, false, done)
			c.jmp(del)
		} else {
			var absent, remove = c.newLabel(), del
			f.dynKey(in, true, drop)
			f.dynArgs(in)
			c.call(fnMapLookup)
			c.jmpImm(jEQ, r0, 0, absent)
			a := f.get(in.A, r1)
			if !isK {
				c.jmpImm(jEQ, a, 0, remove)
			}
			c.store(8, r0, 0, a)
			c.jmp(done)
			c.place(absent)
			a = f.get(in.A, r1)
			if !isK {
				c.jmpImm(jEQ, a, 0, done)
			}
			c.store(8, fp, bufOff, a)
			f.dynArgs(in)
			c.addr(r3, fp, bufOff)
			c.imm(r4, 0)
			c.call(fnMapUpdate)
			c.jmpImm(jNE, r0, 0, drop)
			c.jmp(done)
			if isK {
				c.place(del)
				c.place(done)
				return
			}
		}
		c.place(del)
		f.dynArgs(in)
		c.call(fnMapDelete)
		c.place(done)
	case dif.DynStr, dif.DynMem:
		drop := f.dropAt(dropDynamic, done)
		have := c.newLabel()
		f.dynKey(in, true, drop)
		f.dynArgs(in)
		c.call(fnMapLookup)
		c.jmpImm(jNE, r0, 0, have)
		f.dynArgs(in)
		c.mapValue(r3, f.p.data, f.p.zeroOff)
		c.imm(r4, 0)
		c.call(fnMapUpdate)
		f.dynArgs(in)
		c.call(fnMapLookup)
		c.jmpImm(jEQ, r0, 0, drop)
		c.place(have)
		c.mov(r1, r0)
		f.assignMem(in, v.Size)
		c.place(done)
	}
}
