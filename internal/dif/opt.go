package dif

// A pass rewrites the code of a clause without changing what it does. Faults
// and their order are part of what it does.
type pass struct {
	name   string
	reason string
	run    func(*Object, *Clause)
}

// passes in the order they run. There are few: the compiler folds constants
// and makes branches of conditions as it goes, and the kernel's JIT and
// verifier do the rest. Every instruction saved is saved on every firing.
var passes = []pass{
	{"copies", "conversions that cost nothing leave moves behind; readers take the source while it is unchanged", copies},
	{"unreachable", "constant conditions leave code behind that nothing jumps to", unreachable},
	{"jumps", "a jump to the next instruction is left by empty branches", jumps},
	{"dead", "values of assignments and unused parts of translators are computed for nobody", dead},
}

// Optimize runs the passes over cl.
func Optimize(o *Object, cl *Clause) {
	for _, p := range passes {
		p.run(o, cl)
	}
}

// copies replaces reads of a register that is a copy or a constant by the
// source, within straight-line code.
func copies(_ *Object, cl *Clause) {
	src := make(map[Reg]Reg)
	con := make(map[Reg]int64)
	forget := func(d Reg) {
		delete(src, d)
		delete(con, d)
		for k, v := range src {
			if v == d {
				delete(src, k)
			}
		}
	}
	for k := range cl.Code {
		i := &cl.Code[k]
		if i.Op == LabelOp {
			clear(src)
			clear(con)
			continue
		}
		i.Uses(func(r *Reg) {
			if s, ok := src[*r]; ok {
				*r = s
			}
		})
		if i.B != 0 && ops[i.Op].use&uBOpt != 0 && immOperand(i.Op) {
			if c, ok := con[i.B]; ok {
				i.B, i.Imm = 0, c
			}
		}
		d := i.Def()
		if d == 0 {
			continue
		}
		forget(d)
		switch i.Op {
		case Mov:
			if i.A != d {
				src[d] = i.A
			}
		case Imm:
			con[d] = i.Imm
		}
	}
}

// immOperand reports operations whose b may be the constant Imm. Where Imm
// already means something else (AggUpdate's 0 is 1) it may not.
func immOperand(o Op) bool { return o == Br || o == Set || o >= Add && o <= Sar || o == Builtin }

// unreachable removes what follows a jump up to the next label.
func unreachable(_ *Object, cl *Clause) {
	targets := make(map[Label]bool)
	out := cl.Code[:0]
	live := true
	for _, i := range cl.Code {
		if i.Op == LabelOp && (live || targets[i.Target]) {
			live = true
		}
		if !live {
			continue
		}
		if i.Op == Jmp || i.Op == Br {
			targets[i.Target] = true
		}
		out = append(out, i)
		if i.Op == Jmp || i.Op == Ret || i.Op == Fault {
			live = false
		}
	}
	cl.Code = out
}

// jumps removes jumps to the instruction that follows, and labels nothing jumps to.
func jumps(_ *Object, cl *Clause) {
	for changed := true; changed; {
		changed = false
		targets := make(map[Label]int)
		for _, i := range cl.Code {
			if i.Op == Jmp || i.Op == Br {
				targets[i.Target]++
			}
		}
		out := cl.Code[:0]
		code := cl.Code
		for k, i := range code {
			if i.Op == LabelOp && targets[i.Target] == 0 {
				changed = true
				continue
			}
			if i.Op == Jmp || i.Op == Br {
				next := k + 1
				for next < len(code) && code[next].Op == LabelOp && code[next].Target != i.Target {
					next++
				}
				if next < len(code) && code[next].Op == LabelOp {
					changed = true
					continue
				}
			}
			out = append(out, i)
		}
		cl.Code = out
	}
}

// dead removes pure instructions whose result nobody reads, from the end on.
// Registers are not SSA: an assignment is dead where none of the paths from
// it reads the register before it is set again.
func dead(_ *Object, cl *Clause) {
	live := make(map[Reg]bool)
	at := make(map[Label]map[Reg]bool) // live sets at labels; jumps only go forward
	keep := make([]bool, len(cl.Code))
	for k := len(cl.Code) - 1; k >= 0; k-- {
		i := &cl.Code[k]
		switch i.Op {
		case LabelOp:
			m := make(map[Reg]bool, len(live))
			for r := range live {
				m[r] = true
			}
			at[i.Target] = m
		case Ret, Fault:
			clear(live)
		case Jmp:
			clear(live)
			for r := range at[i.Target] {
				live[r] = true
			}
		case Br:
			for r := range at[i.Target] {
				live[r] = true
			}
		}
		d := i.Def()
		if d != 0 && i.Pure() && !live[d] {
			continue
		}
		keep[k] = true
		if d != 0 {
			if !live[d] && ops[i.Op].dst == optDst {
				i.Dst = 0
			}
			delete(live, d)
		}
		i.Uses(func(r *Reg) { live[*r] = true })
	}
	out := cl.Code[:0]
	for k, i := range cl.Code {
		if keep[k] {
			out = append(out, i)
		}
	}
	cl.Code = out
}
