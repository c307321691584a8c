package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"godtrace/internal/dwarf"
	"godtrace/internal/probe"
	"godtrace/internal/types"
)

// goDebug is the debugging information of a Go program, read when it is first
// asked for.
type goDebug struct {
	open func() (*dwarf.File, error)
}

func newGoDebug(u *userFile) *goDebug {
	return &goDebug{open: sync.OnceValues(func() (*dwarf.File, error) { return dwarf.Load(u.f, u.name) })}
}

// member is the offset of a member of a struct.
func (g *goDebug) member(tag, name string) (int64, bool) {
	file, err := g.open()
	if err != nil {
		return 0, false
	}
	t, err := file.Struct(tag)
	if err != nil {
		return 0, false
	}
	bits, _, ok := types.FindMember(t, name)
	return bits / 8, ok
}

// arguments has args[] of a probe found when it is asked for: of an entry the
// parameters; of a return the place where it is, as arg0, and the results.
func (g *goDebug) arguments(pr *probe.Probe, f *goFile, fn *goFunc) {
	ret := pr.Site.(*pidSite).ret
	pr.ArgsFn = func() []probe.Arg {
		args, err := g.typed(f, fn, ret)
		if err != nil {
			pr.ArgsErr = err
			return []probe.Arg{}
		}
		return args
	}
}

var errGoInstances = errors.New("it has several instances, whose types differ")

// typed are the typed arguments of a function.
func (g *goDebug) typed(f *goFile, fn *goFunc, ret bool) ([]probe.Arg, error) {
	file, err := g.open()
	if errors.Is(err, dwarf.ErrNone) {
		return nil, errors.New("the program has no debugging information (it was linked with -s or -w, or stripped)")
	}
	if err != nil {
		return nil, err
	}
	// Of assembly the wrapper has the declaration.
	instances := []*goFunc{fn}
	if fn.Asm {
		instances = nil
		for i := range f.funcs {
			if o := &f.funcs[i]; o.Name == fn.Name && !o.Asm {
				instances = []*goFunc{o}
			}
		}
		if instances == nil {
			return nil, errors.New("it is written in assembly, and the debugging information does not have its declaration")
		}
	} else if strings.Contains(fn.name, "[...]") {
		instances = nil
		for i := range f.funcs {
			if o := &f.funcs[i]; o.pkg == fn.pkg && o.name == fn.name && !o.wrapper {
				instances = append(instances, o)
			}
		}
	}
	var args []probe.Arg
	for i, o := range instances {
		d, err := file.FunctionAt(o.Value)
		if errors.Is(err, dwarf.ErrNotFound) {
			return nil, errors.New("the debugging information does not have the function")
		}
		if err != nil {
			return nil, err
		}
		as := goArgs(d, fn.stack, ret, f.version >= showsAll)
		if i > 0 && !slices.EqualFunc(args, as, sameArg) {
			return nil, errGoInstances
		}
		args = as
	}
	return args, nil
}

func sameArg(a, b probe.Arg) bool {
	return types.Identical(a.Native, b.Native) && (a.Loc == nil) == (b.Loc == nil) && (a.Loc == nil || *a.Loc == *b.Loc) &&
		(a.Err == nil) == (b.Err == nil) && slices.Equal(a.Parts, b.Parts)
}

// Go's calling convention on x86-64 (ABIInternal, in the compiler's
// abi-internal.md): the parts of values go to the next registers as long as all
// parts of a value do; else the value goes to the stack, above the return
// address. Results do the same anew, behind the parameters on the stack.

// goInts are the integer registers, as offsets in struct pt_regs; goFloats is
// how many vector registers there are, which probes do not see.
var goInts = []int64{regAX, regBX, regCX, regDI, regSI, regR8, regR9, regR10, regR11}

const goFloats = 15

// Offsets in struct pt_regs, arch/x86/include/asm/ptrace.h.
const (
	regBX  = 40
	regR11 = 48
	regR10 = 56
	regR9  = 64
	regR8  = 72
	regAX  = 80
	regCX  = 88
	regDX  = 96
	regSI  = 104
	regDI  = 112
	regSP  = 152
)

// dwarfInts are the numbers DWARF has for goInts.
var dwarfInts = []int{0, 3, 2, 5, 4, 8, 9, 10, 11}

// goLeaf is a part of a value that goes into a register.
type goLeaf struct {
	off   int64
	typ   types.Type
	float bool
	reg   int // index of the integer register
}

// goValue is where a parameter or result lies.
type goValue struct {
	typ    types.Type
	leaves []goLeaf // in registers
	stack  int64    // else: bytes above the return address
	onStk  bool
}

// goAssign gives places to values in a row, the stack beginning at byte at
// above the return address. It returns where the stack ends.
func goAssign(list []types.Type, stack bool, at int64) ([]goValue, int64) {
	var out []goValue
	ints, floats := 0, 0
	for _, t := range list {
		v := goValue{typ: t}
		n, fl := ints, floats
		ok := !stack
		if ok {
			v.leaves, ok = goLeaves(nil, t, 0, 0)
		}
		for i := range v.leaves {
			if l := &v.leaves[i]; l.float {
				floats++
			} else {
				l.reg = ints
				ints++
			}
		}
		if !ok || ints > len(goInts) || floats > goFloats {
			ints, floats = n, fl
			align := max(t.Align(), 1)
			at = (at + align - 1) / align * align
			v.leaves, v.onStk, v.stack = nil, true, at
			at += t.Size()
		}
		out = append(out, v)
	}
	return out, (at + 7) &^ 7
}

// goLeaves takes a type apart; false for types that do not go into registers:
// arrays of several elements.
func goLeaves(out []goLeaf, t types.Type, off int64, depth int) ([]goLeaf, bool) {
	if depth > 64 || len(out) > len(goInts)+goFloats {
		return out, false
	}
	switch x := types.Underlying(t).(type) {
	case *types.Array:
		if x.N == 1 {
			return goLeaves(out, x.Elem, off, depth+1)
		}
		return out, x.N == 0
	case *types.Struct:
		ok := !x.Union && !x.Incomplete
		for _, m := range x.Members() {
			if ok {
				out, ok = goLeaves(out, m.Type, off+m.Off, depth+1)
			}
		}
		return out, ok
	case *types.Basic:
		return append(out, goLeaf{off: off, typ: t, float: x.Kind == types.Float}), x.Bytes > 0
	case *types.Func:
		return append(out, goLeaf{off: off, typ: types.TUintptr}), true
	}
	return append(out, goLeaf{off: off, typ: t}), true
}

// showsAll is the first version whose debugging information has parameters
// without a name.
const showsAll = 1<<8 | 23

// goArgs places the parameters, or the results, of a function.
//
// Functions made from generic ones get a parameter that the debugging
// information hardly ever shows, a dictionary, and until Go 1.22 parameters without
// a name are not shown either. What the compiler says of the places of others
// tells: the arrangement is chosen that agrees with it best; the compiler errs
// sometimes. Of a version that does not show all parameters, where none agrees
// those have a place of which it is told.
func goArgs(d *dwarf.Function, stack, ret, all bool) []probe.Arg {
	var params, results []dwarf.Param
	for _, p := range d.Params {
		if p.Result {
			results = append(results, p)
		} else {
			params = append(params, p)
		}
	}
	typesOf := func(list []dwarf.Param) []types.Type {
		var out []types.Type
		for _, p := range list {
			out = append(out, p.Type)
		}
		return out
	}
	generic := strings.Contains(d.Name, "[")
	hidden := []int{-1, 0, 1} // where the dictionary is; -1: there is none
	if slices.ContainsFunc(params, isDictionary) {
		hidden = []int{-1}
	} else if generic {
		hidden = []int{0, 1, -1}
		if strings.Contains(d.Name, "]).") || strings.Contains(d.Name, "].") {
			hidden = []int{1, 0, -1} // a method: behind the receiver
		}
	}
	var in []goValue
	var end int64
	least := len(params) + 1
	for _, h := range hidden {
		if h > len(params) {
			continue
		}
		list := typesOf(params)
		if h >= 0 {
			list = slices.Insert(list, h, types.Type(types.TUintptr))
		}
		vals, e := goAssign(list, stack, 0)
		if h >= 0 {
			vals = slices.Delete(vals, h, h+1)
		}
		wrong := 0
		for k := range vals {
			if !vals[k].agrees(params[k].Entry) {
				wrong++
			}
		}
		if wrong < least {
			in, end, least = vals, e, wrong
		}
	}
	agreed := all || least == 0
	if !ret {
		var out []probe.Arg
		for k := range in {
			if isDictionary(params[k]) {
				continue
			}
			a := in[k].arg(params[k].Name)
			if !agreed && !in[k].told(params[k].Entry) {
				a = probe.Arg{Name: a.Name, Native: a.Native, Err: errGoPlace}
			}
			out = append(out, a)
		}
		return out
	}
	vals, _ := goAssign(typesOf(results), stack, end)
	out := []probe.Arg{{Name: "offset", Native: types.TULong, From: 0}}
	for k := range vals {
		a := vals[k].arg(results[k].Name)
		if !agreed && vals[k].onStk {
			a = probe.Arg{Name: a.Name, Native: a.Native, Err: errGoPlace}
		}
		out = append(out, a)
	}
	return out
}

// isDictionary reports the parameter that generic functions get, which code that
// was not optimised shows.
func isDictionary(p dwarf.Param) bool { return p.Name == ".dict" }

// agrees reports whether what the compiler says of a place does not speak
// against v. Code that was not optimised has parameters on the stack that come in
// registers, so that a place there says nothing of those.
func (v *goValue) agrees(told []dwarf.Piece) bool {
	var ints []int
	for i, p := range told {
		switch {
		case p.Kind == dwarf.PieceCFA && i == 0 && p.Off >= 0 && v.onStk:
			return v.stack == p.Off
		case p.Kind != dwarf.PieceReg:
			return true
		case p.Reg < 17: // no vector register
			ints = append(ints, p.Reg)
		}
	}
	if v.onStk {
		return len(told) == 0
	}
	var want []int
	for _, l := range v.leaves {
		if !l.float {
			want = append(want, dwarfInts[l.reg])
		}
	}
	return len(ints) < len(want) || slices.Equal(ints, want)
}

// told reports whether the compiler says where all of the value is, and that
// it is v's place.
func (v *goValue) told(pieces []dwarf.Piece) bool {
	return len(pieces) > 0 && v.agrees(pieces) && (v.onStk || len(pieces) == len(v.leaves))
}

var errGoPlace = errors.New("the debugging information does not tell where it lies")

const goFloat = "it is, or holds, a floating-point number in a vector register, which probes do not see"

// arg is the value as an argument.
func (v *goValue) arg(name string) probe.Arg {
	if strings.HasPrefix(name, "~") {
		name = ""
	}
	a := probe.Arg{Name: name, Native: v.typ}
	scalar := types.IsScalar(v.typ)
	if v.onStk {
		a.Loc = &probe.Loc{Kind: probe.LocMem, Off: regSP, Disp: 8 + v.stack, Size: int(v.typ.Size()), Signed: types.IsSigned(v.typ), User: true}
		return a
	}
	a.Parts = []probe.Part{}
	for _, l := range v.leaves {
		switch {
		case l.float && !types.IsByRef(v.typ):
			a.Parts, a.Err = nil, errors.New(goFloat)
			return a
		case l.float:
			a.Hole = goFloat
			a.Parts = append(a.Parts, probe.Part{Reg: -1, Off: int(l.off), Size: int(l.typ.Size())})
			continue
		case scalar:
			a.Parts = nil
			a.Loc = &probe.Loc{Kind: probe.LocReg, Off: goInts[l.reg], Size: int(l.typ.Size()), Signed: types.IsSigned(l.typ)}
			return a
		}
		a.Parts = append(a.Parts, probe.Part{Reg: int(goInts[l.reg] / 8), Off: int(l.off), Size: int(l.typ.Size())})
	}
	return a
}

// String describes the value's place, for tests: "RAX+RBX", "stack 8".
func (v *goValue) String() string {
	if v.onStk {
		return fmt.Sprintf("stack %d", v.stack)
	}
	names := []string{"RAX", "RBX", "RCX", "RDI", "RSI", "R8", "R9", "R10", "R11"}
	var out []string
	for _, l := range v.leaves {
		if l.float {
			out = append(out, "X")
			continue
		}
		out = append(out, names[l.reg])
	}
	return strings.Join(out, "+")
}
