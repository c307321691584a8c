package dif

import (
	"strings"
	"testing"

	"godtrace/internal/types"
)

func object() *Object {
	return &Object{
		StrSize: 256,
		Vars: []*Var{
			{Name: "n", Type: types.TInt64, Size: 8},
			{Name: "s", Type: types.TString, Size: 256, ByRef: true},
			{Name: "a", Type: types.TInt64, Size: 8, Keys: []Field{{Kind: FInt, Size: 8}}, KeySize: 8},
		},
		Records: []*Record{{Size: 16}},
		Strings: []string{"x"},
		Aggs:    []*Agg{{}},
		Forms:   []*AggForm{{KeySize: 16}},
	}
}

func clause(code ...Ins) *Clause {
	return &Clause{Name: "test", NRegs: 4, NLabels: 2, Temps: []Temp{{Size: 8}}, Code: code}
}

func TestVerify(t *testing.T) {
	ret := Ins{Op: Ret}
	for _, c := range []struct {
		name string
		code []Ins
		want string // part of the error; "" for none
	}{
		{"empty", nil, "does not end in ret"},
		{"no ret", []Ins{{Op: Imm, Dst: 1}}, "does not end in ret"},
		{"good", []Ins{{Op: Imm, Dst: 1}, {Op: Mov, Dst: 2, A: 1}, ret}, ""},
		{"unset", []Ins{{Op: Mov, Dst: 2, A: 1}, ret}, "register 1 is read but not set"},
		{"set on one path", []Ins{{Op: Imm, Dst: 1}, {Op: Br, Cond: EQ, A: 1, Target: 1}, {Op: Imm, Dst: 2}, {Op: LabelOp, Target: 1}, {Op: Mov, Dst: 3, A: 2}, ret}, "register 2"},
		{"set on both", []Ins{{Op: Imm, Dst: 1}, {Op: Br, Cond: EQ, A: 1, Target: 1}, {Op: Imm, Dst: 2}, {Op: Jmp, Target: 2}, {Op: LabelOp, Target: 1}, {Op: Imm, Dst: 2}, {Op: LabelOp, Target: 2}, {Op: Mov, Dst: 3, A: 2}, ret}, ""},
		{"backwards", []Ins{{Op: LabelOp, Target: 1}, {Op: Jmp, Target: 1}, ret}, "backwards"},
		{"no label", []Ins{{Op: Jmp, Target: 1}, ret}, "not there"},
		{"two labels", []Ins{{Op: LabelOp, Target: 1}, {Op: LabelOp, Target: 1}, ret}, "twice"},
		{"unreachable", []Ins{ret, {Op: Imm, Dst: 1}, ret}, "cannot be reached"},
		{"register range", []Ins{{Op: Imm, Dst: 5}, ret}, "register 5 of 4"},
		{"no result", []Ins{{Op: Imm}, ret}, "no register"},
		{"condition", []Ins{{Op: Imm, Dst: 1}, {Op: Br, A: 1, Target: 1}, {Op: LabelOp, Target: 1}, ret}, "no condition"},
		{"size", []Ins{{Op: Imm, Dst: 1}, {Op: Load, Dst: 2, A: 1, Size: 3}, ret}, "size 3"},
		{"temp bounds", []Ins{{Op: TZero, Temp: 1, Imm: 4, Size: 8}, ret}, "temporary of 8"},
		{"no temp", []Ins{{Op: TZero, Size: 8}, ret}, "no temporary"},
		{"temp number", []Ins{{Op: TZero, Temp: 2, Size: 8}, ret}, "temporary 2 of 1"},
		{"key too small", []Ins{{Op: AggUpdate, Temp: 1}, ret}, "of a temporary of 8"},
		{"key", []Ins{{Op: DynGet, Sym: 2, Temp: 1, Dst: 1}, ret}, ""},
		{"keyed as plain", []Ins{{Op: VarGet, Sym: 2, Dst: 1}, ret}, "mixed"},
		{"plain as keyed", []Ins{{Op: DynGet, Sym: 0, Temp: 1, Dst: 1}, ret}, "mixed"},
		{"reference as value", []Ins{{Op: VarGet, Sym: 1, Dst: 1}, ret}, "mixed"},
		{"too long", []Ins{{Op: StrAddr, Dst: 1}, {Op: VarStr, Sym: 1, A: 1, Size: 257}, ret}, "257 bytes into 256"},
		{"variable", []Ins{{Op: VarGet, Sym: 9, Dst: 1}, ret}, "variable 9 of 3"},
		{"string", []Ins{{Op: StrAddr, Sym: 1, Dst: 1}, ret}, "string 1 of 1"},
		{"record", []Ins{{Op: RecBegin}, {Op: RecCommit}, ret}, ""},
		{"record left open", []Ins{{Op: RecBegin}, ret}, "still open"},
		{"record twice", []Ins{{Op: RecBegin}, {Op: RecBegin}, {Op: RecCommit}, ret}, "still open"},
		{"not open", []Ins{{Op: Imm, Dst: 1}, {Op: RecStore, A: 1, Size: 8}, ret}, "no record is open"},
		{"outside payload", []Ins{{Op: Imm, Dst: 1}, {Op: RecBegin}, {Op: RecStore, A: 1, Size: 8, Imm: 9}, {Op: RecCommit}, ret}, "payload of 16"},
		{"open on one path", []Ins{{Op: Imm, Dst: 1}, {Op: Br, Cond: NE, A: 1, Target: 1}, {Op: RecBegin}, {Op: LabelOp, Target: 1}, ret}, "differ in the open record"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Verify(object(), clause(c.code...))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCond(t *testing.T) {
	vals := []int64{-1 << 63, -5, -1, 0, 1, 5, 1<<63 - 1}
	for c := EQ; c <= UGE; c++ {
		for _, a := range vals {
			for _, b := range vals {
				if Compare(c, a, b) == Compare(c.Negate(), a, b) {
					t.Errorf("%d %v %d equals its negation", a, c, b)
				}
				if Compare(c, a, b) != Compare(c.Swap(), b, a) {
					t.Errorf("%d %v %d differs from its swap", a, c, b)
				}
			}
		}
	}
}

func TestOptimize(t *testing.T) {
	r := Ins{Op: Ret}
	for _, c := range []struct {
		name string
		in   []Ins
		want int // instructions left
	}{
		{"dead", []Ins{{Op: Imm, Dst: 1}, {Op: Add, Dst: 2, A: 1, Imm: 3}, r}, 1},
		{"load may fault", []Ins{{Op: Imm, Dst: 1}, {Op: Load, Dst: 2, A: 1, Size: 8}, r}, 3},
		{"division may fault", []Ins{{Op: Imm, Dst: 1}, {Op: Imm, Dst: 2}, {Op: Div, Dst: 3, A: 1, B: 2}, r}, 3},
		{"set again", []Ins{{Op: Imm, Dst: 1}, {Op: Imm, Dst: 1, Imm: 2}, {Op: VarSet, A: 1}, r}, 3},
		{"copy", []Ins{{Op: VarGet, Dst: 1}, {Op: Mov, Dst: 2, A: 1}, {Op: VarSet, A: 2}, r}, 3},
		{"jump to next", []Ins{{Op: Jmp, Target: 1}, {Op: LabelOp, Target: 1}, r}, 1},
		{"unreachable", []Ins{{Op: Jmp, Target: 1}, {Op: VarGet, Dst: 1}, {Op: VarSet, A: 1}, {Op: LabelOp, Target: 1}, r}, 1},
		{"live on one path", []Ins{{Op: VarGet, Dst: 1}, {Op: Imm, Dst: 2}, {Op: Br, Cond: EQ, A: 1, Target: 1}, {Op: Imm, Dst: 2, Imm: 1}, {Op: LabelOp, Target: 1}, {Op: VarSet, A: 2}, r}, 7},
	} {
		cl := clause(c.in...)
		Optimize(object(), cl)
		if err := Verify(object(), cl); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if len(cl.Code) != c.want {
			t.Errorf("%s: %d instructions, want %d\n%s", c.name, len(cl.Code), c.want, Print(object(), cl))
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"c"}]}`, `[[[`, `{"a`, `"\`, `{}`, ``} {
		f.Add(s, "a[1].b")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		if v, ok := jsonFind(text, path); ok && len(v) > len(text) {
			t.Errorf("%q in %q gives %q", path, text, v)
		}
	})
}

func FuzzStrings(f *testing.F) {
	f.Add("/a/../b", "b", int64(-3), int64(2))
	f.Add("", "", int64(-1<<63), int64(1<<63-1))
	f.Fuzz(func(t *testing.T, s, sub string, a, b int64) {
		if len(cleanpath(s)) > len(s)+1 {
			t.Errorf("cleanpath(%q) = %q", s, cleanpath(s))
		}
		if r := substr(s, a, b, 256); !strings.Contains(s, r) {
			t.Errorf("substr(%q, %d, %d) = %q", s, a, b, r)
		}
		if k := index(s, sub, a); k >= 0 && !strings.HasPrefix(s[k:], sub) {
			t.Errorf("index(%q, %q, %d) = %d", s, sub, a, k)
		}
		if k := rindex(s, sub, a); k >= 0 && !strings.HasPrefix(s[k:], sub) {
			t.Errorf("rindex(%q, %q, %d) = %d", s, sub, a, k)
		}
		if b := basename(s); s != "" && !strings.Contains(s, b) {
			t.Errorf("basename(%q) = %q", s, b)
		}
		if d := dirname(s); d != "." && !strings.HasPrefix(s, d) {
			t.Errorf("dirname(%q) = %q", s, d)
		}
	})
}
