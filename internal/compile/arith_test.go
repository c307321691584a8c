package compile

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"godtrace/internal/check"
	"godtrace/internal/dif"
	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// world is the synthetic surroundings of a firing.
type world struct {
	args    []int64
	num     map[dif.BuiltinID]int64
	strs    map[dif.BuiltinID]string
	user    map[uint64][]byte
	kernel  map[uint64][]byte
	syms    map[string]uint64
	kstack  []uint64
	ustack  []uint64
	acts    []string
	written map[uint64][]byte
}

func (w *world) Builtin(id dif.BuiltinID, index int64) (int64, dif.FaultKind) {
	if id == dif.BArg || id == dif.BArgs {
		if index >= 0 && index < int64(len(w.args)) {
			return w.args[index], 0
		}
		return 0, 0
	}
	return w.num[id], 0
}
func (w *world) BuiltinString(id dif.BuiltinID) string { return w.strs[id] }

func (w *world) Read(s dif.Space, addr uint64, p []byte) bool {
	mem := w.kernel
	if s == dif.SpaceUser {
		mem = w.user
	}
	for base, b := range mem {
		if off := addr - base; addr >= base && off <= uint64(len(b)) && uint64(len(p)) <= uint64(len(b))-off {
			copy(p, b[addr-base:])
			return true
		}
	}
	return false
}

func (w *world) WriteUser(addr uint64, p []byte) bool {
	if w.written == nil {
		w.written = make(map[uint64][]byte)
	}
	w.written[addr] = append([]byte(nil), p...)
	return true
}

func (w *world) KSym(s dif.KSym) (uint64, bool) {
	a, ok := w.syms[s.Name]
	return a, ok
}

func (w *world) Stack(s dif.Space) []uint64 {
	if s == dif.SpaceUser {
		return w.ustack
	}
	return w.kstack
}

func (w *world) Subr(s dif.Subr, args []int64) (int64, string, dif.FaultKind) {
	w.acts = append(w.acts, fmt.Sprint(s, args))
	return 0, "", 0
}

func (w *world) Act(op dif.ActOp, args []int64) dif.FaultKind {
	w.acts = append(w.acts, fmt.Sprint(op, args))
	return 0
}

// run compiles the clauses and fires them once; it gives the records.
func run(t *testing.T, w *world, clauses ...*check.Clause) (*dif.Machine, [][]byte) {
	t.Helper()
	c := New(Options{})
	f := &dif.Firing{ID: 1, Epid: 1, Desc: probe.Desc{Provider: "p", Module: "m", Func: "f", Name: "n"}}
	for _, cl := range clauses {
		d, err := c.Clause(cl)
		if err != nil {
			t.Fatal(err)
		}
		f.Clauses = append(f.Clauses, d)
	}
	m := dif.NewMachine(c.Object(), w)
	var recs [][]byte
	m.Emit = func(b []byte) { recs = append(recs, b) }
	m.Fire(f)
	return m, recs
}

var ctypes = map[string]types.Type{
	"int8_t": types.TInt8, "uint8_t": types.TUint8, "int16_t": types.TInt16, "uint16_t": types.TUint16,
	"int": types.TInt, "unsigned": types.TUInt, "long": types.TLong, "ulong": types.TULong, "_Bool": types.TBool,
}

var optoken = map[string]syntax.Token{
	"+": syntax.Add, "-": syntax.Sub, "*": syntax.Mul, "/": syntax.Div, "%": syntax.Mod, "&": syntax.And,
	"|": syntax.Or, "^": syntax.Xor, "<<": syntax.Shl, ">>": syntax.Shr, "~": syntax.Not, "!": syntax.LNot,
	"<": syntax.Lt, "<=": syntax.Le, ">": syntax.Gt, ">=": syntax.Ge, "==": syntax.Eq, "!=": syntax.Ne,
}

func arg(n int, t types.Type) check.Expr {
	return &check.Builtin{E: check.E{T: t}, ID: dif.BArg, N: n}
}

func num(v int64, t types.Type) check.Expr { return &check.Const{E: check.E{T: t}, Value: v} }

func trace(x check.Expr) check.Stmt {
	return &check.Action{Kind: dif.ActTrace, Args: []check.Expr{x}, Type: x.Type()}
}

// evaluator compiles a clause that traces exprs as longs, and runs it.
type evaluator struct {
	w *world
	m *dif.Machine
	f *dif.Firing
	n int
	b []byte
}

func newEvaluator(t *testing.T, exprs ...check.Expr) *evaluator {
	t.Helper()
	e := &evaluator{w: &world{}, n: len(exprs)}
	cl := &check.Clause{}
	for _, x := range exprs {
		cl.Body = append(cl.Body, trace(&check.Conv{E: check.E{T: types.TLong}, X: x}))
	}
	c := New(Options{})
	d, err := c.Clause(cl)
	if err != nil {
		t.Fatal(err)
	}
	e.m = dif.NewMachine(c.Object(), e.w)
	e.m.Emit = func(b []byte) { e.b = b[dif.HdrSize:] }
	e.f = &dif.Firing{Clauses: []*dif.Clause{d}}
	return e
}

func (e *evaluator) eval(args ...int64) []int64 {
	e.b = nil
	e.w.args = args
	e.m.Fire(e.f)
	out := make([]int64, e.n)
	for k := range out {
		if e.b == nil || len(e.b) < 8*k+8 {
			return nil
		}
		out[k] = int64(binary.LittleEndian.Uint64(e.b[8*k:]))
	}
	return out
}

// TestArith compares every operator, width and conversion with what gcc made
// of them (testdata/arith.c), for values in registers and for constants.
func TestArith(t *testing.T) {
	file, err := os.Open("testdata/arith.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	cache := make(map[string]*evaluator)
	lines := 0
	for sc := bufio.NewScanner(z); sc.Scan(); lines++ {
		w := strings.Fields(sc.Text())
		n := func(k int) int64 {
			// Unsigned longs above the largest long are printed as negative.
			v, err := strconv.ParseInt(w[k], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		typ := ctypes[w[1]]
		if typ == nil {
			t.Fatalf("%s: no type %s", sc.Text(), w[1])
		}
		key := strings.Join(w[:3], " ")
		var build func(x, y check.Expr) []check.Expr
		var args, want []int64
		switch w[0] {
		case "bin", "shift":
			build = func(x, y check.Expr) []check.Expr {
				rt := typ
				if _, ok := conds[optoken[w[2]]]; ok {
					rt = types.TInt
				}
				return []check.Expr{&check.Binary{E: check.E{T: rt}, Op: optoken[w[2]], X: x, Y: y}}
			}
			args, want = []int64{n(3), n(4)}, []int64{n(5)}
		case "un":
			build = func(x, _ check.Expr) []check.Expr {
				rt := typ
				if w[2] == "!" {
					rt = types.TInt
				}
				return []check.Expr{&check.Unary{E: check.E{T: rt}, Op: optoken[w[2]], X: x}}
			}
			args, want = []int64{n(3), 0}, []int64{n(4)}
		case "conv":
			build = func(x, _ check.Expr) []check.Expr {
				return []check.Expr{&check.Conv{E: check.E{T: ctypes[w[2]]}, X: x}}
			}
			args, want = []int64{n(3), 0}, []int64{n(4)}
		case "assign":
			build = func(x, y check.Expr) []check.Expr {
				v := &check.Var{Class: dif.This, Name: "v", Type: typ}
				ref := &check.VarRef{E: check.E{T: typ}, Var: v}
				y = &check.Conv{E: check.E{T: types.TInt}, X: y}
				op := types.Type(types.TInt)
				if typ.Size() == 8 {
					op = types.TLong
				}
				set := &check.Assign{E: check.E{T: typ}, Op: syntax.Assign_, LHS: ref, RHS: x}
				do := &check.Assign{E: check.E{T: typ}, Op: optoken[w[2][:1]], OpType: op, LHS: ref, RHS: y}
				return []check.Expr{&check.Comma{E: check.E{T: typ}, X: set, Y: do}, ref}
			}
			args, want = []int64{n(3), n(4)}, []int64{n(5), n(5)}
		case "inc":
			key = strings.Join(w[:2], " ")
			build = func(x, _ check.Expr) []check.Expr {
				v := &check.Var{Class: dif.This, Name: "v", Type: typ}
				ref := &check.VarRef{E: check.E{T: typ}, Var: v}
				reset := func(y check.Expr) check.Expr {
					set := &check.Assign{E: check.E{T: typ}, Op: syntax.Assign_, LHS: ref, RHS: x}
					return &check.Comma{E: check.E{T: typ}, X: set, Y: y}
				}
				inc := func(d int64, post bool) check.Expr {
					return &check.IncDec{E: check.E{T: typ}, LHS: ref, Delta: d, Post: post}
				}
				return []check.Expr{reset(inc(1, true)), ref, reset(inc(-1, true)), ref, reset(inc(1, false)), reset(inc(-1, false))}
			}
			args, want = []int64{n(2), 0}, []int64{n(3), n(4), n(5), n(6), n(7), n(8)}
		default:
			t.Fatalf("%s: not understood", sc.Text())
		}
		check1 := func(how string, got []int64) {
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s (%s): got %v, want %v", sc.Text(), how, got, want)
			}
		}
		e := cache[key]
		if e == nil {
			rhs := typ
			if w[0] == "shift" || w[0] == "assign" {
				rhs = types.TInt
			}
			e = newEvaluator(t, build(arg(0, typ), arg(1, rhs))...)
			cache[key] = e
		}
		check1("registers", e.eval(args...))
		// Constant folding, for some of them: it costs a compilation each.
		if lines%7 == 0 {
			check1("constants", newEvaluator(t, build(num(args[0], typ), num(args[1], typ))...).eval())
			check1("constant on the right", newEvaluator(t, build(arg(0, typ), num(args[1], typ))...).eval(args...))
			check1("constant on the left", newEvaluator(t, build(num(args[0], typ), arg(1, typ))...).eval(args...))
		}
	}
	if lines < 10000 {
		t.Errorf("only %d lines in testdata/arith.txt.gz", lines)
	}
}

func TestDivisionByZero(t *testing.T) {
	for _, op := range []syntax.Token{syntax.Div, syntax.Mod} {
		for _, y := range []check.Expr{num(0, types.TInt), arg(1, types.TInt)} {
			x := &check.Binary{E: check.E{T: types.TInt}, Op: op, X: arg(0, types.TInt), Y: y}
			w := &world{args: []int64{1, 0}}
			_, recs := run(t, w, &check.Clause{Body: []check.Stmt{trace(x)}})
			if len(recs) != 1 || binary.LittleEndian.Uint16(recs[0][dif.HdrRec:]) != dif.RecFault {
				t.Fatalf("%v: records %x, want one fault", op, recs)
			}
			if k := dif.FaultKind(binary.LittleEndian.Uint32(recs[0][dif.HdrSize+8:])); k != dif.FltDivZero {
				t.Errorf("%v: fault %v", op, k)
			}
		}
	}
}
