package provider

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"godtrace/internal/dwarf"
	"godtrace/internal/probe"
	"godtrace/internal/types"
)

// argTyping is what the types of a probe's arguments come from, and what came.
type argTyping struct {
	sources []debugSource
	done    bool
	args    []probe.Arg
}

// debugSource is a function that a probe stands for.
type debugSource struct {
	file *userFile
	fn   *function
}

// typeArgs gives a probe at the entry or the return of a function its typed
// arguments, from the debugging information of the file: the parameters; or the
// offset of the returning instruction and the value returned. They are
// looked for when they are asked for.
func (s *pidSite) typeArgs(u *userFile, f *function) {
	if s == nil || slices.Contains(s.typing.sources, debugSource{u, f}) {
		return
	}
	t := &s.typing
	t.sources, t.done = append(t.sources, debugSource{u, f}), false
	s.probe.Args, s.probe.Types = nil, programTypes{u}
	s.probe.ArgsFn = func() []probe.Arg {
		if !t.done {
			t.done = true
			t.args, s.probe.ArgsErr = s.readArgs()
		}
		return t.args
	}
}

// readArgs are the arguments that all functions of the probe's name share.
func (s *pidSite) readArgs() ([]probe.Arg, error) {
	var all []probe.Arg
	for i, src := range s.typing.sources {
		args, err := src.args(s.ret)
		if err != nil {
			return nil, err
		}
		if i > 0 && !sameArgs(all, args) {
			return nil, errors.New("it stands for several functions, with different parameters")
		}
		all = args
	}
	return all, nil
}

// sameArgs reports whether two functions take the same arguments in the same
// places.
func sameArgs(a, b []probe.Arg) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.From != y.From || (x.Err == nil) != (y.Err == nil) || (x.Loc == nil) != (y.Loc == nil) ||
			x.Loc != nil && *x.Loc != *y.Loc || !slices.Equal(x.Parts, y.Parts) || !types.Identical(x.Native, y.Native) {
			return false
		}
	}
	return true
}

// args types the arguments of the function, or with ret its result.
func (src debugSource) args(ret bool) ([]probe.Arg, error) {
	obj := src.file.obj
	switch {
	case src.file.isGo():
		return nil, errors.New("it is a Go function, which the provider go types")
	case obj.Machine != elf.EM_X86_64 && obj.Machine != elf.EM_386:
		return nil, fmt.Errorf("%s is for another machine", obj.Path)
	}
	info, err := obj.DebugInfo()
	if err != nil {
		return nil, err
	}
	fn, err := info.FunctionAt(src.fn.Value)
	if errors.Is(err, dwarf.ErrNotFound) {
		return nil, fmt.Errorf("the debugging information of %s does not have it: it was compiled without -g", obj.Module())
	}
	if err != nil {
		return nil, err
	}
	if fn.Lang.IsAssembly() {
		return nil, errors.New("it was written in assembly")
	}
	word := int64(8)
	if obj.Machine == elf.EM_386 {
		word = 4
	}
	if ret {
		return resultArgs(fn, word), nil
	}
	places := fn.Places()
	out := make([]probe.Arg, len(places))
	for i := range places {
		out[i] = placedArg(fn.Params[i].Name, fn.Params[i].Type, &places[i], i, word)
	}
	return out, nil
}

// resultArgs are the arguments of a return probe.
func resultArgs(fn *dwarf.Function, word int64) []probe.Arg {
	out := []probe.Arg{{Name: "offset", Native: types.TInt}}
	if fn.Ret != nil {
		p := fn.Result()
		out = append(out, placedArg("", fn.Ret, &p, -1, word))
		out[1].From = 1
	}
	return out
}

// programTypes are the types of a file, by name.
type programTypes struct{ u *userFile }

// LookupType implements types.Lookuper.
func (p programTypes) LookupType(space types.Space, name string) (types.Type, bool) {
	info, err := p.u.obj.DebugInfo()
	if err != nil {
		return nil, false
	}
	return info.LookupType(space, name)
}

// LookupEnumerator implements types.Lookuper.
func (p programTypes) LookupEnumerator(name string) (*types.Enum, types.Enumerator, bool) {
	info, err := p.u.obj.DebugInfo()
	if err != nil {
		return nil, types.Enumerator{}, false
	}
	return info.LookupEnumerator(name)
}

// isInlined reports whether a function that has no symbol was inlined.
func (u *userFile) isInlined(name string) bool {
	info, err := u.obj.DebugInfo()
	return err == nil && info.Inlined(name)
}

// uregs are the indexes into uregs[], and so the words of struct pt_regs, by
// DWARF's numbers.
var uregs = [...]int{
	dwarf.RAX: 10, dwarf.RDX: 12, dwarf.RCX: 11, dwarf.RBX: 5, dwarf.RSI: 13, dwarf.RDI: 14,
	dwarf.RBP: 4, dwarf.RSP: 19, 9, 8, 7, 6, 3, 2, 1, 0,
}

// placedArg is an argument of a type at a place. That of index i of the integer
// registers is argi. word is the size of the program's words.
func placedArg(name string, t types.Type, p *dwarf.Place, i int, word int64) probe.Arg {
	a := probe.Arg{Name: name, Native: t, From: max(i, 0), Err: p.Err}
	if a.Err != nil {
		return a
	}
	for _, q := range p.Pieces {
		if q.Kind == dwarf.PieceReg && q.Reg >= dwarf.XMM0 {
			a.Err = fmt.Errorf("it is passed in %s, and probes cannot read floating-point registers", dwarf.RegName(q.Reg))
			return a
		}
		if (q.Kind == dwarf.PieceReg || q.Kind == dwarf.PieceMem) && q.Reg >= len(uregs) || q.Kind == dwarf.PieceNone {
			a.Err = fmt.Errorf("it lies in %s", p)
			return a
		}
	}
	size := int(t.Size())
	large := types.IsByRef(t) || size > 8
	loc := &probe.Loc{Size: size, Signed: types.IsSigned(t)}
	switch q := p.Pieces[0]; {
	case len(p.Pieces) > 1 || q.Kind == dwarf.PieceReg && large:
		off := 0
		for _, q := range p.Pieces {
			n := int(q.Size)
			if n == 0 {
				n = size
			}
			if q.Kind != dwarf.PieceReg || n > 8 || off+n > size {
				a.Err = fmt.Errorf("it lies in %s, which cannot be put together", p)
				return a
			}
			a.Parts = append(a.Parts, probe.Part{Reg: uregs[q.Reg], Off: off, Size: n})
			off += n
		}
		if !types.IsByRef(t) && !large { // a number, in pieces
			a.Err = fmt.Errorf("it lies in %s", p)
		}
		return a
	case q.Kind == dwarf.PieceReg:
		if i >= 0 && i < len(dwarf.IntRegs) && q.Reg == dwarf.IntRegs[i] {
			return a
		}
		loc.Kind, loc.Off = probe.LocReg, int64(uregs[q.Reg]*8)
	case q.Kind == dwarf.PieceCFA:
		// The CFA is where the stack was before the call.
		loc.Kind, loc.Off, loc.Disp, loc.User = probe.LocMem, int64(uregs[dwarf.RSP]*8), q.Off+word, true
	case q.Kind == dwarf.PieceMem:
		loc.Kind, loc.Off, loc.Disp, loc.User = probe.LocMem, int64(uregs[q.Reg]*8), q.Off, true
	case large:
		a.Err = errors.New("it is a constant, made by the compiler")
		return a
	default:
		loc.Kind, loc.Disp = probe.LocConst, q.Off
	}
	if types.IsFloat(t) {
		a.Err = errors.New("it is a floating-point number, with which D does not calculate")
	}
	a.Loc = loc
	return a
}
