package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/testkernel"
)

// The interpreter and the programs must agree: random clauses are run by both.

// world is an empty machine: no memory can be read.
type world struct{}

func (world) Builtin(id dif.BuiltinID, index int64) (int64, dif.FaultKind) {
	if id == dif.BTid {
		return 1, 0
	}
	return 0, 0
}
func (world) BuiltinString(dif.BuiltinID) string                    { return "" }
func (world) Read(dif.Space, uint64, []byte) bool                   { return false }
func (world) WriteUser(uint64, []byte) bool                         { return false }
func (world) KSym(dif.KSym) (uint64, bool)                          { return 0, false }
func (world) Stack(dif.Space) []uint64                              { return nil }
func (world) Act(dif.ActOp, []int64) dif.FaultKind                  { return 0 }
func (world) Subr(dif.Subr, []int64) (int64, string, dif.FaultKind) { return 0, "", 0 }

// outcome is what a run leaves: payloads of records, values of aggregations.
type outcome struct {
	records [][]byte
	aggs    []string
}

func (o *outcome) add(form int, key []byte, w []int64) {
	o.aggs = append(o.aggs, fmt.Sprintf("%d %x %v", form, key, w))
}

func interpret(obj *dif.Object, e *Enabled, errs *Enabled, runs int) outcome {
	var o outcome
	m := dif.NewMachine(obj, world{})
	m.NSpec = 1
	m.Scratch = 256
	m.Emit = func(rec []byte) {
		o.records = append(o.records, append([]byte(nil), rec[dif.HdrRec:]...))
	}
	firing := func(e *Enabled) *dif.Firing {
		return &dif.Firing{Index: uint32(e.Index), ID: e.Probe.ID, Epid: e.Epid, Desc: e.Probe.Desc, Clauses: e.Clauses}
	}
	if errs != nil {
		m.Error = firing(errs)
	}
	for range runs {
		m.Fire(firing(e))
	}
	for i := range obj.Forms {
		m.Aggregation(i, func(key []byte, w []int64) { o.add(i, key, w) })
	}
	slices.Sort(o.aggs)
	return o
}

func execute(t testing.TB, cfg Config, runs int) outcome {
	t.Helper()
	var o outcome
	r := load(t, cfg)
	runtime.LockOSThread() // self-> is the thread's
	defer runtime.UnlockOSThread()
	for range runs {
		if err := r.RunManual(0); err != nil {
			t.Fatal(err)
		}
	}
	for _, rec := range records(r) {
		o.records = append(o.records, rec[dif.HdrRec:])
	}
	for form, vals := range snapshot(t, r) {
		for _, v := range vals {
			key := []byte(v.key)
			o.add(form, key, v.words)
		}
	}
	slices.Sort(o.aggs)
	r.Close()
	return o
}

func agree(t testing.TB, cfg Config, runs int) {
	t.Helper()
	want := interpret(cfg.Object, cfg.Enabled[0], cfg.Error, runs)
	got := execute(t, cfg, runs)
	bad := false
	if len(want.records) != len(got.records) {
		t.Errorf("%d records, the interpreter makes %d", len(got.records), len(want.records))
		bad = true
	}
	for i := range min(len(want.records), len(got.records)) {
		if !bytes.Equal(want.records[i], got.records[i]) {
			t.Errorf("record %d:\n got %x\nwant %x", i, got.records[i], want.records[i])
			bad = true
		}
	}
	if !slices.Equal(want.aggs, got.aggs) {
		t.Errorf("aggregations:\n got %v\nwant %v", got.aggs, want.aggs)
		bad = true
	}
	if bad {
		for _, cl := range cfg.Object.Clauses {
			for i, in := range cl.Code {
				t.Logf("%3d %v d=%d a=%d b=%d imm=%d size=%d signed=%v cond=%d target=%d sym=%d temp=%d", i, in.Op, in.Dst, in.A, in.B, in.Imm, in.Size, in.Signed, in.Cond, in.Target, in.Sym, in.Temp)
			}
		}
	}
}

var interesting = []int64{0, 1, -1, 2, 3, 7, 8, 10, 63, 64, 100, 255, 256, 1000, -1000, 1 << 31, -1 << 31, 1<<31 - 1, 1 << 32, 1<<63 - 1, -1 << 63, 0x123456789abcdef}

// source is where choices come from: a random generator, or a fuzzer's bytes.
type source interface{ pick(n int) int }

type randSource struct{ *rand.Rand }

func (r randSource) pick(n int) int { return r.IntN(n) }

type byteSource struct{ b []byte }

func (s *byteSource) pick(n int) int {
	if len(s.b) == 0 || n <= 1 {
		return 0
	}
	v := int(s.b[0])
	s.b = s.b[1:]
	return v % n
}

// randomClauses makes clauses from choices.
func randomClauses(s source, p *prog) []*dif.Clause {
	specs := []agg.Spec{
		{Func: agg.Count}, {Func: agg.Sum}, {Func: agg.Min}, {Func: agg.Max}, {Func: agg.Avg}, {Func: agg.Stddev}, {Func: agg.Quantize},
		{Func: agg.Lquantize, Base: -100, Limit: 1000, Step: 7}, {Func: agg.Llquantize, Factor: 10, Low: 0, High: 6, Steps: 20},
	}
	vars := []int32{
		p.variable(&dif.Var{Name: "g", Class: dif.Global, Size: 8}),
		p.variable(&dif.Var{Name: "s", Class: dif.Self, Size: 8}),
		p.variable(&dif.Var{Name: "t", Class: dif.This, Size: 8}),
	}
	keys := []dif.Field{{Kind: dif.FInt, Size: 8}, {Kind: dif.FInt, Size: 8, Off: 8}}
	dyn := []int32{
		p.variable(&dif.Var{Name: "a", Class: dif.Global, Size: 8, Keys: keys, KeySize: 16}),
		p.variable(&dif.Var{Name: "b", Class: dif.Self, Size: 8, Keys: keys, KeySize: 16}),
	}
	var forms, keyed []int32
	for range 2 + s.pick(3) {
		spec := specs[s.pick(len(specs))]
		forms = append(forms, p.form(spec, 0))
		keyed = append(keyed, p.form(spec, 16, keys...))
	}
	var out []*dif.Clause
	for range 1 + s.pick(3) {
		nreg := 3 + s.pick(12)
		reg := func() dif.Reg { return dif.Reg(1 + s.pick(nreg)) }
		num := func() int64 { return interesting[s.pick(len(interesting))] + int64(s.pick(3)) - 1 }
		temps := []dif.Temp{{Size: 16, Align: 8}, {Size: 16, Align: 8}, {Size: 16 + 120*s.pick(2), Align: 8}}
		var code []dif.Ins
		for r := 1; r <= nreg; r++ {
			code = append(code, dif.Ins{Op: dif.Imm, Dst: dif.Reg(r), Imm: num()})
		}
		for t := range temps {
			code = append(code, dif.Ins{Op: dif.TZero, Temp: int32(t + 1), Size: int32(temps[t].Size)})
		}
		operand := func(in dif.Ins) dif.Ins {
			if s.pick(2) == 0 {
				in.B = reg()
			} else {
				in.Imm = num()
			}
			return in
		}
		label := dif.Label(0)
		var pending []dif.Label
		conds := []dif.Cond{dif.EQ, dif.NE, dif.LT, dif.LE, dif.GT, dif.GE, dif.ULT, dif.ULE, dif.UGT, dif.UGE}
		arith := []dif.Op{dif.Add, dif.Sub, dif.Mul, dif.Div, dif.Mod, dif.And, dif.Or, dif.Xor, dif.Shl, dif.Shr, dif.Sar}
		sizes := []int32{1, 2, 4, 8}
		for range 5 + s.pick(40) {
			if len(pending) > 0 && s.pick(4) == 0 {
				code = append(code, dif.Ins{Op: dif.LabelOp, Target: pending[0]})
				pending = pending[1:]
			}
			var in dif.Ins
			switch s.pick(14) {
			case 0, 1, 2:
				op := arith[s.pick(len(arith))]
				in = operand(dif.Ins{Op: op, Dst: reg(), A: reg(), Signed: s.pick(2) == 0})
				if (op == dif.Div || op == dif.Mod) && in.B == 0 && in.Imm == 0 && s.pick(8) != 0 {
					in.Imm = 3
				}
			case 3:
				in = operand(dif.Ins{Op: dif.Set, Dst: reg(), A: reg(), Cond: conds[s.pick(len(conds))]})
			case 4:
				in = dif.Ins{Op: dif.Ext, Dst: reg(), A: reg(), Size: sizes[s.pick(4)], Signed: s.pick(2) == 0}
			case 5:
				in = dif.Ins{Op: []dif.Op{dif.Neg, dif.Not, dif.Mov}[s.pick(3)], Dst: reg(), A: reg()}
			case 6:
				label++
				pending = append(pending, label)
				in = operand(dif.Ins{Op: dif.Br, A: reg(), Cond: conds[s.pick(len(conds))], Target: label})
			case 7, 8:
				n := sizes[s.pick(4)]
				in = dif.Ins{Op: []dif.Op{dif.TStore, dif.TLoad}[s.pick(2)], Temp: int32(1 + s.pick(3)), Size: n, Imm: int64(n) * int64(s.pick(int(16/n))), Signed: s.pick(2) == 0}
				if in.Op == dif.TStore {
					in.A = reg()
				} else {
					in.Dst = reg()
				}
			case 9:
				in = dif.Ins{Op: dif.VarSet, Sym: vars[s.pick(3)], A: reg()}
			case 10:
				in = dif.Ins{Op: dif.VarGet, Sym: vars[s.pick(3)], Dst: reg()}
			case 11:
				in = dif.Ins{Op: []dif.Op{dif.DynSet, dif.DynGet, dif.DynDel}[s.pick(3)], Sym: dyn[s.pick(2)], Temp: 2}
				if in.Op == dif.DynSet {
					in.A = reg()
				} else if in.Op == dif.DynGet {
					in.Dst = reg()
				}
			case 12:
				in = dif.Ins{Op: dif.AggUpdate, Sym: forms[s.pick(len(forms))], A: reg()}
				if s.pick(3) == 0 {
					in.B = reg()
				}
			case 13:
				in = dif.Ins{Op: dif.AggUpdate, Sym: keyed[s.pick(len(keyed))], A: reg(), Temp: 1}
			}
			code = append(code, in)
		}
		for _, l := range pending {
			code = append(code, dif.Ins{Op: dif.LabelOp, Target: l})
		}
		rec := p.record(8 * nreg)
		code = append(code, dif.Ins{Op: dif.RecBegin, Sym: rec})
		for r := 1; r <= nreg; r++ {
			code = append(code, dif.Ins{Op: dif.RecStore, A: dif.Reg(r), Size: 8, Imm: int64(8 * (r - 1)), Sym: rec})
		}
		code = append(code, dif.Ins{Op: dif.RecCommit, Sym: rec})
		out = append(out, p.clause(temps, code...))
	}
	return out
}

func TestAgreement(t *testing.T) {
	n := 150
	if _, vm := testkernel.InVM(); vm {
		n = 15
	}
	if os.Getenv("GODTRACE_LONG") != "" {
		n = 5000
	}
	for seed := range n {
		p := newProg()
		cls := randomClauses(randSource{rand.New(rand.NewPCG(uint64(seed), 1))}, p)
		agree(t, p.begin(cls...), 2)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzAgreement(f *testing.F) {
	f.Add([]byte("some choices, one after another, made by a fuzzer's bytes"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newProg()
		cls := randomClauses(&byteSource{b}, p)
		cfg := p.begin(cls...)
		r, err := Load(cfg)
		var complex *TooComplexError
		if errors.As(err, &complex) {
			t.Skip(err)
		}
		if err == nil {
			r.Close()
		}
		agree(t, cfg, 2)
	})
}

// stringClauses makes clauses that work on strings.
func stringClauses(s source, p *prog) []*dif.Clause {
	p.obj.StrSize = []int{32, 64, 256}[s.pick(3)]
	size := p.obj.StrSize
	long := make([]byte, 300)
	for i := range long {
		long[i] = byte('a' + i%26)
	}
	var consts []int32
	for _, c := range []string{"", "a", "b", "hello", "hello, world", "/usr/bin/../lib//x/", "a:b:c", "l", ":", "12345", " -77x", "0x1f", string(long), string(long[:30]), "\xff\x80"} {
		consts = append(consts, p.str(c))
	}
	str := func(name string, class dif.VarClass, keys []dif.Field) int32 {
		return p.variable(&dif.Var{Name: name, Class: class, Size: size, ByRef: true, Keys: keys, KeySize: 8 * len(keys)})
	}
	keys := []dif.Field{{Kind: dif.FInt, Size: 8}}
	vars := []int32{str("g", dif.Global, nil), str("s", dif.Self, nil), str("t", dif.This, nil)}
	dyn := []int32{str("a", dif.Global, keys), str("b", dif.Self, keys)}
	form := p.form(agg.Spec{Func: agg.Count}, align(size, 8), dif.Field{Kind: dif.FString, Size: size})
	var out []*dif.Clause
	for range 1 + s.pick(2) {
		var code []dif.Ins
		next := dif.Reg(0)
		reg := func() dif.Reg { next++; return next }
		temps := []dif.Temp{{Size: 8, Align: 8}, {Size: align(size, 8), Align: 8}}
		emit := func(in dif.Ins) { code = append(code, in) }
		temp := func() int32 {
			temps = append(temps, dif.Temp{Size: align(size, 8), Align: 8})
			return int32(len(temps))
		}
		var made []dif.Reg // strings that calls made
		string_ := func() dif.Reg {
			d := reg()
			switch k := s.pick(8); {
			case k < 4:
				emit(dif.Ins{Op: dif.StrAddr, Dst: d, Sym: consts[s.pick(len(consts))]})
			case k == 4:
				emit(dif.Ins{Op: dif.VarAddr, Dst: d, Sym: vars[s.pick(3)]})
			case k == 5:
				emit(dif.Ins{Op: dif.DynAddr, Dst: d, Sym: dyn[s.pick(2)], Temp: 1})
			default:
				if len(made) == 0 {
					emit(dif.Ins{Op: dif.StrAddr, Dst: d, Sym: consts[3]})
					break
				}
				next--
				return made[s.pick(len(made))]
			}
			return d
		}
		number := func() dif.Reg {
			d := reg()
			emit(dif.Ins{Op: dif.Imm, Dst: d, Imm: int64(s.pick(12)) - 4})
			return d
		}
		var numbers []dif.Reg
		emit(dif.Ins{Op: dif.TZero, Temp: 1, Size: 8})
		for range 3 + s.pick(10) {
			call := func(sub dif.Subr, str bool, args ...dif.Reg) {
				in := dif.Ins{Op: dif.Call, Sym: int32(sub), Dst: reg(), Args: args}
				if str {
					in.Temp, in.Size = temp(), int32(size)
					made = append(made, in.Dst)
				} else {
					numbers = append(numbers, in.Dst)
				}
				emit(in)
			}
			switch s.pick(20) {
			case 0:
				emit(dif.Ins{Op: dif.VarStr, Sym: vars[s.pick(3)], A: string_(), Size: int32(size)})
			case 1:
				n := number()
				emit(dif.Ins{Op: dif.TStore, Temp: 1, A: n, Size: 8})
				emit(dif.Ins{Op: dif.DynStr, Sym: dyn[s.pick(2)], A: string_(), Size: int32(size), Temp: 1})
			case 2:
				emit(dif.Ins{Op: dif.DynDel, Sym: dyn[s.pick(2)], Temp: 1})
			case 3, 4:
				call(dif.SStrcmp, false, string_(), string_())
			case 5:
				call(dif.SStrlen, false, string_())
			case 6, 7:
				call(dif.SStrjoin, true, string_(), string_())
			case 8:
				if s.pick(2) == 0 {
					call(dif.SSubstr, true, string_(), number(), number())
				} else {
					call(dif.SSubstr, true, string_(), number())
				}
			case 9:
				call(dif.SIndex, false, string_(), string_())
			case 10:
				call(dif.SRindex, false, string_(), string_(), number())
			case 11:
				call(dif.SBasename, true, string_())
			case 12:
				call(dif.SDirname, true, string_())
			case 13:
				call(dif.SCleanpath, true, string_())
			case 14:
				call(dif.SLltostr, true, number())
			case 15:
				call(dif.SStrtoll, false, string_())
			case 16:
				call([]dif.Subr{dif.SToLower, dif.SToUpper}[s.pick(2)], true, string_())
			case 17:
				call(dif.SStrtok, true, string_(), string_())
			case 18:
				call([]dif.Subr{dif.SStrchr, dif.SStrrchr}[s.pick(2)], true, string_(), numbers0(&code, reg, int64("lhz:"[s.pick(4)])))
			case 19:
				emit(dif.Ins{Op: dif.TStr, Temp: 2, A: string_(), Size: int32(size), Pad: true})
				emit(dif.Ins{Op: dif.AggUpdate, Sym: form, Temp: 2})
			}
		}
		emit(dif.Ins{Op: dif.TStr, Temp: 2, A: string_(), Size: int32(size), Pad: true})
		a := reg()
		emit(dif.Ins{Op: dif.TempAddr, Temp: 2, Dst: a})
		rec := p.record(align(size, 8) + 8*len(numbers))
		emit(dif.Ins{Op: dif.RecBegin, Sym: rec})
		for i, n := range numbers {
			emit(dif.Ins{Op: dif.RecStore, A: n, Size: 8, Imm: int64(8 * i), Sym: rec})
		}
		emit(dif.Ins{Op: dif.RecMem, A: a, Size: int32(size), Imm: int64(8 * len(numbers)), Sym: rec})
		emit(dif.Ins{Op: dif.RecCommit, Sym: rec})
		out = append(out, p.clause(temps, code...))
	}
	return out
}

// numbers0 adds a constant.
func numbers0(code *[]dif.Ins, reg func() dif.Reg, v int64) dif.Reg {
	d := reg()
	*code = append(*code, dif.Ins{Op: dif.Imm, Dst: d, Imm: v})
	return d
}

func TestStringAgreement(t *testing.T) {
	n := 60
	if _, vm := testkernel.InVM(); vm {
		n = 10
	}
	if os.Getenv("GODTRACE_LONG") != "" {
		n = 1600
	}
	first, _ := strconv.Atoi(os.Getenv("GODTRACE_SEED"))
	for seed := first; seed < max(n, first+1); seed++ {
		p := newProg()
		cls := stringClauses(randSource{rand.New(rand.NewPCG(uint64(seed), 7))}, p)
		agree(t, p.begin(cls...), 2)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
