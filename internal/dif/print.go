package dif

import (
	"fmt"
	"strings"
)

// Print lists the code of a clause, one instruction a line, with the variables
// and records it uses by name.
func Print(o *Object, cl *Clause) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (line %d): %d registers", cl.Name, cl.Line, cl.NRegs)
	for k, t := range cl.Temps {
		fmt.Fprintf(&b, ", t%d[%d] %s", k+1, t.Size, t.Name)
	}
	b.WriteByte('\n')
	line := int32(0)
	for k := range cl.Code {
		i := &cl.Code[k]
		at := ""
		if i.Line != line {
			line = i.Line
			at = fmt.Sprintf("; line %d", line)
		}
		if i.Op == LabelOp {
			fmt.Fprintf(&b, "L%d:\n", i.Target)
			continue
		}
		fmt.Fprintf(&b, "%4d  %s\n", k, strings.TrimRight(fmt.Sprintf("%-52s %s", i.text(o), at), " "))
	}
	for k := range cl.Code {
		if i := &cl.Code[k]; i.Op == RecBegin {
			b.WriteString(o.Records[i.Sym].String())
		}
	}
	return b.String()
}

// String lists the actions of a record and their fields.
func (r *Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "record %d: %d bytes\n", r.ID, r.Size)
	for _, a := range r.Actions {
		fmt.Fprintf(&b, "      %s", a.Kind)
		for _, f := range a.Fields {
			fmt.Fprintf(&b, " %d+%d:%s", f.Off, f.Size, f.Kind)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// text is the instruction as Print shows it.
func (i *Ins) text(o *Object) string {
	var p []string
	add := func(format string, args ...any) { p = append(p, fmt.Sprintf(format, args...)) }
	info := ops[i.Op]
	if i.Dst != 0 && info.dst != noDst {
		add("r%d =", i.Dst)
	}
	op := i.Op.String()
	switch i.Op {
	case Ext, Load, TLoad:
		op += fmt.Sprintf("%c%d", map[bool]byte{true: 's', false: 'u'}[i.Signed], 8*i.Size)
	case Store, TStore, RecStore:
		op += fmt.Sprint(8 * i.Size)
	case Div, Mod:
		if !i.Signed {
			op = "u" + op
		}
	}
	p = append(p, op)
	if i.Space == SpaceUser {
		add("user")
	}
	b := func() string {
		if i.B != 0 {
			return fmt.Sprintf("r%d", i.B)
		}
		return fmt.Sprint(i.Imm)
	}
	addr := func() string {
		if i.Imm == 0 {
			return fmt.Sprintf("[r%d]", i.A)
		}
		return fmt.Sprintf("[r%d%+d]", i.A, i.Imm)
	}
	switch i.Op {
	case Jmp:
		add("L%d", i.Target)
	case Br:
		add("r%d %s %s, L%d", i.A, i.Cond, b(), i.Target)
	case Set:
		add("r%d %s %s", i.A, i.Cond, b())
	case Imm:
		add("%d", i.Imm)
	case Fault:
		add("%s", FaultKind(i.Imm))
	case Mov, Neg, Not, Ext:
		add("r%d", i.A)
	case Load:
		add("%s", addr())
	case Store:
		add("%s, r%d", addr(), i.B)
	case KSymAddr:
		add("%s`%s", o.KSyms[i.Sym].Module, o.KSyms[i.Sym].Name)
	case StrAddr:
		add("%q", o.Strings[i.Sym])
	case Builtin:
		add("%s", BuiltinID(i.Sym))
		switch BuiltinID(i.Sym) {
		case BArg, BArgs, BUregs, BRegs:
			add("[%s]", b())
		}
	case VarGet, VarAddr, VarSet, VarStr, VarMem, TVar, DynGet, DynSet, DynAddr, DynStr, DynMem, DynDel:
		d := o.Vars[i.Sym]
		add("%s%s", d.Class, d.Name)
		if i.Temp != 0 {
			add("[t%d]", i.Temp)
		}
		if i.A != 0 {
			add("r%d", i.A)
		}
		if i.Size != 0 {
			add("size %d", i.Size)
		}
		return strings.Join(p, " ")
	case Call:
		var args []string
		for _, r := range i.Args {
			args = append(args, fmt.Sprintf("r%d", r))
		}
		add("%s(%s)", Subr(i.Sym), strings.Join(args, ", "))
	case Act:
		var args []string
		for _, r := range i.Args {
			args = append(args, fmt.Sprintf("r%d", r))
		}
		add("%s(%s)", ActOp(i.Sym), strings.Join(args, ", "))
	case AggUpdate:
		a := o.Aggs[o.Forms[i.Sym].Agg]
		add("@%s form %d", a.Name, i.Sym)
		if i.Temp != 0 {
			add("key t%d", i.Temp)
		}
		if i.A != 0 {
			add("value r%d", i.A)
		}
		if i.B != 0 {
			add("incr r%d", i.B)
		}
		return strings.Join(p, " ")
	case RecBegin:
		add("%d", i.Sym)
		if i.A != 0 {
			add("speculation r%d", i.A)
		}
	case RecCommit:
		add("%d", i.Sym)
	case RecStore, RecStr, RecMem:
		add("+%d, r%d", i.Imm, i.A)
	case RecBuiltin, RecStack:
		add("+%d", i.Imm)
	}
	switch i.Op {
	case Add, Sub, Mul, Div, Mod, And, Or, Xor, Shl, Shr, Sar:
		add("r%d, %s", i.A, b())
	}
	if i.Temp != 0 {
		add("t%d+%d", i.Temp, i.Imm)
		if i.A != 0 {
			add("r%d", i.A)
		}
	}
	switch i.Op {
	case TBuiltin, RecBuiltin, TProbeStr:
		add("%s", BuiltinID(i.Sym))
	}
	switch i.Op {
	case TZero, TStr, TMem, TBuiltin, TStack, RecStr, RecMem, RecBuiltin, RecStack, Call:
		if i.Size != 0 {
			add("size %d", i.Size)
		}
	}
	if i.Pad {
		add("pad")
	}
	return strings.Join(p, " ")
}
