package consume

import (
	"bytes"
	"reflect"
	"testing"

	"godtrace/internal/dif"
	"godtrace/internal/format"
	"godtrace/internal/probe"
	"godtrace/internal/types"
)

// places names addresses: those below 0x100 are in the kernel or the library,
// at 16 bytes from the function's start; others are unknown.
type places struct{}

func (places) KernelSym(addr uint64) format.Place {
	if addr >= 0x100 {
		return format.Place{}
	}
	return format.Place{Module: "vmlinux", Name: "kernel_clone", Offset: addr & 0xf}
}

func (places) UserSym(_ int32, addr uint64) format.Place {
	if addr >= 0x100 {
		return format.Place{}
	}
	return format.Place{Module: "libc.so.6", Name: "malloc", Offset: addr & 0xf}
}

func (places) Host(string) string    { return "" }
func (places) Service(uint16) string { return "" }

// The keys of each action are those of FreeBSD's dtrace(1): see its section on
// structured output.
func TestStructuredKeys(t *testing.T) {
	field := func(k dif.FieldKind, size int, sym dif.ActKind) []dif.Field {
		return []dif.Field{{Kind: k, Size: size, Sym: sym}}
	}
	const pid = 7
	point := types.NewStruct("D", "point", false, []types.Field{
		{Name: "x", Type: types.TInt}, {Name: "y", Type: types.TInt},
		{Name: "tag", Type: &types.Array{Elem: types.TChar, N: 4}}, {Name: "n", Type: &types.Array{Elem: types.TShort, N: 2}},
	})
	for _, c := range []struct {
		name    string
		action  dif.Action
		payload []uint64
		want    string
	}{
		{"stack", dif.Action{Kind: dif.ActStack, Fields: field(dif.FStack, 24, dif.ActStack)}, []uint64{0x14, 0x200, 0},
			`[{"stack-frames": [
				{"symbol": "vmlinux` + "`" + `kernel_clone+0x4", "module": "vmlinux", "name": "kernel_clone", "offset": "0x4"},
				{"symbol": "0x200"}]}]`},
		{"ustack", dif.Action{Kind: dif.ActUStack, Fields: field(dif.FUStack, 24, dif.ActUStack)}, []uint64{pid, 0x20, 0},
			`[{"ustack-frames": [{"symbol": "libc.so.6` + "`" + `malloc", "module": "libc.so.6", "name": "malloc"}]}]`},
		{"sym", dif.Action{Kind: dif.ActSym, Fields: field(dif.FSym, 8, dif.ActSym)}, []uint64{0x14},
			`[{"sym": "vmlinux` + "`" + `kernel_clone", "object": "vmlinux", "name": "kernel_clone", "offset": "0x4"}]`},
		{"usym", dif.Action{Kind: dif.ActUSym, Fields: field(dif.FUSym, 16, dif.ActUSym)}, []uint64{pid, 0x21},
			`[{"usym": "libc.so.6` + "`" + `malloc", "object": "libc.so.6", "name": "malloc", "offset": "0x1"}]`},
		{"uaddr", dif.Action{Kind: dif.ActUAddr, Fields: field(dif.FUSym, 16, dif.ActUAddr)}, []uint64{pid, 0x21},
			`[{"uaddr": "libc.so.6` + "`" + `malloc+0x1", "object": "libc.so.6", "name": "malloc", "offset": "0x1"}]`},
		{"mod", dif.Action{Kind: dif.ActMod, Fields: field(dif.FSym, 8, dif.ActMod)}, []uint64{0x14}, `[{"mod": "vmlinux"}]`},
		{"umod", dif.Action{Kind: dif.ActUMod, Fields: field(dif.FUSym, 16, dif.ActUMod)}, []uint64{pid, 0x14}, `[{"umod": "libc.so.6"}]`},
		{"tracemem", dif.Action{Kind: dif.ActTracemem, Fields: field(dif.FBytes, 4, 0)}, []uint64{0x04030201}, `[{"tracemem": "01020304"}]`},
		{"trace of a structure", dif.Action{Kind: dif.ActTrace, Fields: field(dif.FBytes, 8, 0)}, []uint64{0xff}, `[{"value": "ff00000000000000"}]`},
		{"print of a structure", dif.Action{Kind: dif.ActPrint, Type: point,
			Fields: []dif.Field{{Kind: dif.FInt, Size: 8}, {Kind: dif.FBytes, Off: 8, Size: 16}}}, []uint64{0xffff888100a1c000, 1<<32 - 2, 0x6f6c},
			`[{"type": [{"name": "struct point", "address": "0xffff888100a1c000", "value": [
				{"member-name": "x", "name": "int", "value": -2}, {"member-name": "y", "name": "int", "value": 0},
				{"member-name": "tag", "name": "char [4]", "value": "lo"},
				{"member-name": "n", "name": "short [2]", "value": [{"name": "short", "value": 0}, {"name": "short", "value": 0}]}]}]}]`},
		{"print of a number", dif.Action{Kind: dif.ActPrint, Type: types.TUint64, Fields: []dif.Field{{Kind: dif.FInt, Size: 8}}},
			[]uint64{1<<64 - 1}, `[{"type": [{"name": "uint64_t", "value": 18446744073709551615}]}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := &dif.Object{Records: []*dif.Record{{Size: 8 * len(c.payload), Actions: []dif.Action{c.action}}}}
			var out bytes.Buffer
			cons := New(obj, []Probe{{Probe: &probe.Probe{}}}, &out, nobody{})
			cons.Format.Resolver = places{}
			cons.Sink = cons.NewSink(NDJSON)
			if err := cons.Record(0, record(0, c.payload...)); err != nil {
				t.Fatal(err)
			}
			if err := cons.Finish(); err != nil {
				t.Fatal(err)
			}
			got := decode(t, out.String()).(map[string]any)["output"]
			if want := decode(t, c.want); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}
