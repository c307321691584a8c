package provider

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"godtrace/internal/dwarf"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
	"godtrace/internal/types"
)

func TestSplitGoName(t *testing.T) {
	for _, c := range []struct{ name, pkg, fn string }{
		{"main.main", "main", "main"},
		{"main.main.func1", "main", "main.func1"},
		{"net/http.(*Server).Serve", "net/http", "(*Server).Serve"},
		{"gopkg.in/yaml%2ev3.(*Decoder).Decode", "gopkg.in/yaml.v3", "(*Decoder).Decode"},
		{"example.org/a.b/c.f", "example.org/a.b/c", "f"},
		{"main.Map[go.shape.int,go.shape.struct { x/y.T }]", "main", "Map[...]"},
		{"a/b.(*List[go.shape.string]).Push.func2", "a/b", "(*List[...]).Push.func2"},
		{"type:.eq.[2]string", "", "type:.eq.[2]string"},
		{"type..hash.main.T", "", "type..hash.main.T"},
		{"struct { sync.Mutex; x/y.T }.Lock", "", "struct { sync.Mutex; x/y.T }.Lock"},
		{"main.f-range1", "main", "f-range1"},
		{"_rt0_amd64_linux", "", "_rt0_amd64_linux"},
		{"cmpbody", "", "cmpbody"},
		{"", "", ""},
	} {
		if pkg, fn := splitGoName(c.name); pkg != c.pkg || fn != c.fn {
			t.Errorf("%s: %q %q, want %q %q", c.name, pkg, fn, c.pkg, c.fn)
		}
	}
}

func TestGoVersion(t *testing.T) {
	for s, want := range map[string]goVersion{
		"go1.21.3": 1<<8 | 21, "go1.18": 1<<8 | 18, "go1.22rc1 X:nocoverageredesign": 1<<8 | 22,
		"devel go1.24-abcdef": 1<<8 | 24, "": 0, "devel +abc": 0, "go1.": 0, "go1.999": 0,
	} {
		if got := parseGoVersion(s); got != want {
			t.Errorf("%q: %x, want %x", s, got, want)
		}
	}
}

// Struct g's member goid as the runtime's sources declare it.
func TestGoid(t *testing.T) {
	for v, want := range map[goVersion]int64{1<<8 | 17: 152, 1<<8 | 22: 152, 1<<8 | 23: 160, 1<<8 | 24: 160, 1<<8 | 25: 152} {
		f := &goFile{version: v}
		if got := f.goidOffset(); got != want {
			t.Errorf("go1.%d: %d, want %d", v&0xff, got, want)
		}
	}
}

// The example of Go's internal/abi-internal.md, "Assignment", and cases of its rules.
func TestGoAssign(t *testing.T) {
	word := types.TUint64
	pair := &types.Array{Elem: word, N: 2}
	str := types.NewStruct("C", "string", false, []types.Field{{Name: "str", Type: types.NewPointer(types.TUChar)}, {Name: "len", Type: word}})
	xy := types.NewStruct("C", "xy", false, []types.Field{{Name: "x", Type: word}, {Name: "y", Type: pair}})
	nothing := types.NewStruct("C", "nothing", false, nil)
	one := &types.Array{Elem: str, N: 1}
	float := &types.Basic{Kind: types.Float, Name: "float64", Bytes: 8}
	for _, c := range []struct {
		name        string
		params      []types.Type
		want        []string
		results     []types.Type
		wantResults []string
		stack       bool
	}{
		// func f(a1 uint8, a2 [2]uintptr, a3 uint8) (r1 struct{x uintptr; y [2]uintptr}, r2 string)
		{"the specification's", []types.Type{types.TUChar, pair, types.TUChar}, []string{"RAX", "stack 0", "RBX"},
			[]types.Type{xy, str}, []string{"stack 16", "RAX+RBX"}, false},
		{"too many words", []types.Type{str, str, str, str, str, word}, []string{"RAX+RBX", "RCX+RDI", "RSI+R8", "R9+R10", "stack 0", "R11"}, nil, nil, false},
		{"floats have their own", []types.Type{word, float, word}, []string{"RAX", "X", "RBX"}, nil, nil, false},
		{"arrays of one, structs of nothing", []types.Type{one, nothing, word}, []string{"RAX+RBX", "", "RCX"}, nil, nil, false},
		{"ABI0", []types.Type{types.TUChar, str, types.TInt}, []string{"stack 0", "stack 8", "stack 24"}, []types.Type{word}, []string{"stack 32"}, true},
	} {
		show := func(vs []goValue) []string {
			var out []string
			for i := range vs {
				out = append(out, vs[i].String())
			}
			return out
		}
		in, end := goAssign(c.params, c.stack, 0)
		if got := show(in); !slices.Equal(got, c.want) {
			t.Errorf("%s: parameters %q, want %q", c.name, got, c.want)
		}
		res, _ := goAssign(c.results, c.stack, end)
		if got := show(res); !slices.Equal(got, c.wantResults) {
			t.Errorf("%s: results %q, want %q", c.name, got, c.wantResults)
		}
	}
}

// Parameters lie where the compiler says that they do, for all functions of a
// program of which it says anything.
func TestGoPlaces(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIP-FEATURE: go")
	}
	prog := testkernel.Trigger(t, "goroutines")
	p := newGo(newPid())
	f, err := p.open(prog, prog)
	if err != nil {
		t.Fatal(err)
	}
	file, err := dwarf.Open(prog)
	if err != nil {
		t.Fatal(err)
	}
	functions, told, wrong := 0, 0, 0
	for i := range f.funcs {
		fn := &f.funcs[i]
		if fn.pkg == "" || fn.Asm {
			continue
		}
		d, err := file.FunctionAt(fn.Value)
		if errors.Is(err, dwarf.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", fn.Name, err)
			continue
		}
		functions++
		for k, a := range goArgs(d, fn.stack, false, false) {
			if errors.Is(a.Err, errGoPlace) {
				t.Logf("%s: %s %v: the compiler says %v", fn.Name, a.Name, a.Native, d.Params[k].Entry)
				wrong++
			}
			if k < len(d.Params) && len(d.Params[k].Entry) > 0 {
				told++
			}
		}
	}
	// Go 1.26 errs in one function of the runtime, by the code it generates.
	if functions < 1000 || told < 1000 || wrong > 3 {
		t.Errorf("%d functions, %d parameters whose place is told", functions, told)
	}
	t.Logf("%d functions, %d parameters whose place is told", functions, told)
}

// A description names one function if a function has that very name.
func TestGoNames(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIP-FEATURE: go")
	}
	prog := testkernel.Trigger(t, "goroutines")
	p := newGo(newPid())
	for _, c := range []struct {
		fn   string
		want []string
	}{
		{"main.(*point).move", []string{"main.(*point).move"}},
		{"main.(*list[...]).push", []string{"main.(*list[...]).push"}},
		{"main.w??d?", []string{"main.words"}},
		{"main.*move", []string{"main.(*point).move"}},
		{`main.(\*point).m*`, []string{"main.(*point).move"}},
	} {
		ps, err := p.Probes(probe.Desc{Provider: "go", Module: prog, Func: c.fn, Name: "entry"})
		if err != nil {
			t.Errorf("%s: %v", c.fn, err)
			continue
		}
		var got []string
		for _, pr := range ps {
			if pr.Desc.Provider != "go" || pr.Desc.Module != prog || pr.Desc.Name != "entry" {
				t.Errorf("%s: %v", c.fn, pr.Desc)
			}
			got = append(got, pr.Desc.Func)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.fn, got, c.want)
		}
	}
	_, err := p.Probes(probe.Desc{Provider: "go", Module: prog, Func: "main.nosuch", Name: "entry"})
	if err == nil || !strings.Contains(err.Error(), "failed to lookup 'nosuch' in package 'main'") {
		t.Errorf("%v", err)
	}
}
