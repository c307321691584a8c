package dif

import "fmt"

// Verify checks that a clause is well formed: what an executor may rely on.
//
//   - every operand names something that exists;
//   - a register is set on all paths before it is read;
//   - jumps go forward to a label that is there once;
//   - accesses stay within temporaries, keys within their declared size;
//   - a record is begun and committed on every path, one at a time, and its
//     fields lie within its payload;
//   - the code ends in Ret.
func Verify(o *Object, cl *Clause) error {
	v := &verifier{o: o, cl: cl, labels: make(map[Label]int), states: make(map[Label]*state)}
	return v.run()
}

// state is what is known at a point: registers set, the open record.
type state struct {
	set []uint64
	rec int32 // number of the open record, -1 for none
}

type verifier struct {
	o      *Object
	cl     *Clause
	labels map[Label]int
	states map[Label]*state // what the jumps to a label agree on
}

func (s *state) clone() *state { return &state{append([]uint64(nil), s.set...), s.rec} }

// run goes over the code once. Jumps only go forward, so that what holds at a
// label is what all paths to it agree on.
func (v *verifier) run() error {
	cl := v.cl
	if n := len(cl.Code); n == 0 || cl.Code[n-1].Op != Ret {
		return fmt.Errorf("dif: %s does not end in ret", cl.Name)
	}
	for k, i := range cl.Code {
		if i.Op != LabelOp {
			continue
		}
		if i.Target <= 0 || int(i.Target) > cl.NLabels {
			return v.err(k, "label %d of %d", i.Target, cl.NLabels)
		}
		if _, dup := v.labels[i.Target]; dup {
			return v.err(k, "label %d is there twice", i.Target)
		}
		v.labels[i.Target] = k
	}
	cur := &state{set: make([]uint64, cl.NRegs/64+1), rec: -1}
	for k := range cl.Code {
		i := &cl.Code[k]
		if int(i.Op) >= len(ops) || ops[i.Op].name == "" {
			return v.err(k, "no such operation %d", i.Op)
		}
		if i.Op == LabelOp {
			cur = meet(cur, v.states[i.Target])
			if cur != nil && cur.rec == -2 {
				return v.err(k, "paths that meet here differ in the open record")
			}
			continue
		}
		if cur == nil {
			return v.err(k, "cannot be reached")
		}
		if err := v.ins(k, i, cur); err != nil {
			return err
		}
		switch i.Op {
		case Jmp, Br:
			at, ok := v.labels[i.Target]
			if !ok {
				return v.err(k, "jump to label %d, which is not there", i.Target)
			}
			if at <= k {
				return v.err(k, "jump backwards to label %d", i.Target)
			}
			v.states[i.Target] = meet(v.states[i.Target], cur.clone())
			if i.Op == Jmp {
				cur = nil
			}
		case Ret:
			if cur.rec != -1 {
				return v.err(k, "record %d is still open", cur.rec)
			}
			cur = nil
		case Fault:
			cur = nil
		}
	}
	return nil
}

// meet is what holds on both paths; nil is a path that is not taken.
func meet(a, b *state) *state {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	for i := range a.set {
		a.set[i] &= b.set[i]
	}
	if a.rec != b.rec {
		a.rec = -2
	}
	return a
}

func (v *verifier) err(k int, format string, args ...any) error {
	return fmt.Errorf("dif: %s, instruction %d (%s): %s", v.cl.Name, k, v.cl.Code[k].Op, fmt.Sprintf(format, args...))
}

// ins checks instruction k in the state cur.
func (v *verifier) ins(k int, i *Ins, cur *state) error {
	info := ops[i.Op]
	var bad Reg
	i.Uses(func(r *Reg) {
		if *r < 0 || int(*r) > v.cl.NRegs || cur.set[*r/64]>>(*r%64)&1 == 0 {
			bad = *r
		}
	})
	if bad != 0 {
		return v.err(k, "register %d is read but not set on all paths", bad)
	}
	if info.use&uA != 0 && i.A == 0 || info.use&uB != 0 && i.B == 0 {
		return v.err(k, "operand missing")
	}
	if d := i.Def(); d != 0 {
		if d < 0 || int(d) > v.cl.NRegs {
			return v.err(k, "register %d of %d", d, v.cl.NRegs)
		}
		cur.set[d/64] |= 1 << (d % 64)
	} else if info.dst == hasDst {
		return v.err(k, "no register for the result")
	}
	if i.Op == Br || i.Op == Set {
		if i.Cond <= CondNone || i.Cond > UGE {
			return v.err(k, "no condition")
		}
	}
	switch i.Op {
	case Ext, Load, Store, TLoad, TStore, RecStore:
		switch i.Size {
		case 1, 2, 4, 8:
		default:
			return v.err(k, "size %d", i.Size)
		}
	}
	if err := v.temp(k, i); err != nil {
		return err
	}
	if err := v.sym(k, i); err != nil {
		return err
	}
	return v.record(k, i, cur)
}

// temp checks that an instruction stays within its temporary.
func (v *verifier) temp(k int, i *Ins) error {
	if ops[i.Op].temp == noTemp {
		return nil
	}
	if i.Temp < 0 || int(i.Temp) > len(v.cl.Temps) {
		return v.err(k, "temporary %d of %d", i.Temp, len(v.cl.Temps))
	}
	need, off := int64(i.Size), i.Imm
	switch i.Op {
	case DynGet, DynSet, DynAddr, DynStr, DynMem, DynDel:
		if i.Sym < 0 || int(i.Sym) >= len(v.o.Vars) {
			return v.err(k, "variable %d of %d", i.Sym, len(v.o.Vars))
		}
		need, off = int64(v.o.Vars[i.Sym].KeySize), 0
	case AggUpdate:
		if i.Sym < 0 || int(i.Sym) >= len(v.o.Forms) {
			return v.err(k, "aggregation form %d of %d", i.Sym, len(v.o.Forms))
		}
		need, off = int64(v.o.Forms[i.Sym].KeySize), 0
	case TProbeStr:
		need = 4
	case TempAddr:
		need = 0
	}
	if i.Temp == 0 {
		if ops[i.Op].temp == inTemp || need > 0 {
			return v.err(k, "no temporary, needs %d bytes", need)
		}
		return nil
	}
	if size := int64(v.cl.Temps[i.Temp-1].Size); off < 0 || need < 0 || off+need > size {
		return v.err(k, "bytes %d…%d of a temporary of %d", off, off+need, size)
	}
	return nil
}

// sym checks that what an instruction names is in the object.
func (v *verifier) sym(k int, i *Ins) error {
	n := -1
	what := ""
	switch i.Op {
	case KSymAddr:
		n, what = len(v.o.KSyms), "kernel symbol"
	case StrAddr:
		n, what = len(v.o.Strings), "string"
	case VarGet, VarSet, VarAddr, VarStr, VarMem, TVar, DynGet, DynSet, DynAddr, DynStr, DynMem, DynDel:
		n, what = len(v.o.Vars), "variable"
	case RecBegin, RecCommit:
		n, what = len(v.o.Records), "record"
	case Builtin, TBuiltin, RecBuiltin, TProbeStr:
		n, what = len(builtinNames), "built-in"
	case Call:
		n, what = len(subrNames), "subroutine"
	case Act:
		n, what = len(actOpNames), "action"
	}
	if n >= 0 && (i.Sym < 0 || int(i.Sym) >= n) {
		return v.err(k, "%s %d of %d", what, i.Sym, n)
	}
	if what != "variable" {
		return nil
	}
	d := v.o.Vars[i.Sym]
	keyed := i.Op >= DynGet && i.Op <= DynDel
	ref := map[Op]bool{VarAddr: true, VarStr: true, VarMem: true, DynAddr: true, DynStr: true, DynMem: true, TVar: true}[i.Op]
	switch {
	case keyed != (len(d.Keys) > 0):
		return v.err(k, "%s: keyed and plain access mixed", d.Name)
	case i.Op != DynDel && ref != d.ByRef:
		return v.err(k, "%s: access by value and by reference mixed", d.Name)
	case (i.Op == VarStr || i.Op == VarMem || i.Op == DynStr || i.Op == DynMem) && int(i.Size) > d.Size:
		return v.err(k, "%s: %d bytes into %d", d.Name, i.Size, d.Size)
	}
	return nil
}

func (v *verifier) record(k int, i *Ins, cur *state) error {
	switch i.Op {
	case RecBegin:
		if cur.rec != -1 {
			return v.err(k, "record %d is still open", cur.rec)
		}
		cur.rec = i.Sym
	case RecCommit:
		if cur.rec != i.Sym {
			return v.err(k, "record %d is open, not %d", cur.rec, i.Sym)
		}
		if n := v.o.Records[i.Sym].Size; n%8 != 0 || n < 0 {
			return v.err(k, "payload of %d bytes", n)
		}
		cur.rec = -1
	case RecStore, RecStr, RecMem, RecBuiltin, RecStack:
		if cur.rec < 0 {
			return v.err(k, "no record is open")
		}
		if n := v.o.Records[cur.rec].Size; i.Imm < 0 || i.Size <= 0 || i.Imm+int64(i.Size) > int64(n) {
			return v.err(k, "bytes %d…%d of a payload of %d", i.Imm, i.Imm+int64(i.Size), n)
		}
	}
	return nil
}
