package btf

import (
	"errors"
	"os"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
	"godtrace/internal/types"

	cbtf "github.com/cilium/ebpf/btf"
)

// TestAgainstGeneralReader compares every type of the running kernel with what
// cilium/ebpf's reader, written independently, says of it.
func TestAgainstGeneralReader(t *testing.T) {
	testkernel.Shows(t, "3.20")
	set := openKernel(t)
	defer set.Close()
	f, err := os.Open(KernelDir + "/vmlinux")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ref, err := cbtf.LoadSpecFromReader(f)
	if err != nil {
		t.Fatal(err)
	}
	s := set.VMLinux
	structs, members, enums, funcs := 0, 0, 0, 0
	last := ID(0)
	for want, err := range ref.All() {
		if err != nil {
			t.Fatal(err)
		}
		id32, err := ref.TypeID(want)
		if err != nil {
			t.Fatal(err)
		}
		id := ID(id32)
		last = max(last, id)
		wantName := want.TypeName()
		if tag, ok := want.(*cbtf.TypeTag); ok {
			wantName = tag.Value
		}
		if got := s.TypeName(id); got != wantName {
			t.Fatalf("type %d: name %q, want %q", id, got, want.TypeName())
		}
		switch want := want.(type) {
		case *cbtf.Struct:
			structs++
			members += compareMembers(t, s, id, int64(want.Size), want.Members)
		case *cbtf.Union:
			structs++
			members += compareMembers(t, s, id, int64(want.Size), want.Members)
		case *cbtf.Enum:
			enums++
			got := mustType(t, s, id).(*types.Enum)
			if got.Bytes != int64(want.Size) || got.Signed != want.Signed || len(got.Values) != len(want.Values) {
				t.Errorf("enum %d: %+v, want %+v", id, got, want)
				continue
			}
			for i, v := range want.Values {
				g := got.Values[i]
				wantVal := int64(v.Value)
				if want.Size <= 4 && want.Signed {
					wantVal = int64(int32(v.Value))
				}
				if g.Name != v.Name || g.Value != wantVal {
					t.Errorf("enum %d: %v, want %v", id, g, v)
				}
			}
		case *cbtf.Func:
			funcs++
			proto := want.Type.(*cbtf.FuncProto)
			got := mustType(t, s, id).(*types.Func)
			n := len(proto.Params)
			if got.Variadic {
				n--
			}
			if len(got.Params) != n {
				t.Errorf("%s: %d parameters, want %d", want.Name, len(got.Params), n)
				continue
			}
			for i, p := range got.Params {
				if p.Name != proto.Params[i].Name || !sameSize(p.Type, proto.Params[i].Type) {
					t.Errorf("%s: parameter %d %v, want %v", want.Name, i, p, proto.Params[i])
				}
			}
		case *cbtf.Int:
			got := mustType(t, s, id).(*types.Basic)
			if got.Bytes != int64(want.Size) || got.Signed != (want.Encoding == cbtf.Signed) || (got.Kind == types.Bool) != (want.Encoding == cbtf.Bool) {
				t.Errorf("%s: %+v, want %+v", want.Name, got, want)
			}
		case *cbtf.Typedef, *cbtf.Pointer, *cbtf.Array, *cbtf.Const:
			if got := mustType(t, s, id); !sameSize(got, want) {
				t.Errorf("type %d %s: size %d differs from %v", id, got, got.Size(), want)
			}
		}
	}
	if int(last) != s.Len() {
		t.Errorf("%d types, want %d", s.Len(), last)
	}
	if structs < 1000 || members < 10000 || enums < 100 || funcs < 1000 {
		t.Errorf("only %d structs, %d members, %d enums, %d functions compared", structs, members, enums, funcs)
	}
	t.Logf("%d structs, %d members, %d enums, %d functions agree", structs, members, enums, funcs)
}

func mustType(t *testing.T, s *Spec, id ID) types.Type {
	t.Helper()
	got, err := s.Type(id)
	if err != nil {
		t.Fatalf("type %d: %v", id, err)
	}
	return got
}

func sameSize(got types.Type, want cbtf.Type) bool {
	n, err := cbtf.Sizeof(want)
	if err != nil {
		n = 0
	}
	return got.Size() == int64(n) || got == types.TVoid
}

func compareMembers(t *testing.T, s *Spec, id ID, size int64, want []cbtf.Member) int {
	t.Helper()
	got := mustType(t, s, id).(*types.Struct)
	if got.Bytes != size {
		t.Errorf("%s (%d): size %d, want %d", got, id, got.Bytes, size)
	}
	fields := got.Members()
	if len(fields) != len(want) {
		t.Errorf("%s (%d): %d members, want %d", got, id, len(fields), len(want))
		return 0
	}
	for i, w := range want {
		f := fields[i]
		if f.Name != w.Name || f.BitOff != int64(w.Offset) || f.Bits != int64(w.BitfieldSize) || !sameSize(f.Type, w.Type) {
			t.Errorf("%s (%d): member %+v, want %+v", got, id, f, w)
		}
		if w.Name == "" || w.BitfieldSize > 0 {
			continue
		}
		m, err := s.MemberOf(id, w.Name)
		if err != nil || m.BitOff != int64(w.Offset) || m.Size != f.Type.Size() {
			t.Errorf("%s (%d): Member(%s) = %+v, %v; want offset %d size %d", got, id, w.Name, m, err, w.Offset, f.Type.Size())
		}
	}
	return len(want)
}

// TestLookup asks both ways of finding a name, and both must agree.
func TestLookup(t *testing.T) {
	set := openKernel(t)
	defer set.Close()
	s := set.VMLinux
	s.index()
	for i := ID(1); int(i) < s.Len(); i += 997 {
		name := s.TypeName(i)
		if name == "" {
			continue
		}
		a, b := s.searched(name), s.hashed(name)
		if len(a) == 0 || len(a) != len(b) {
			t.Fatalf("%s: search finds %v, hash %v", name, a, b)
		}
		found := false
		for j := range a {
			found = found || a[j] == i
			if a[j] != b[j] {
				t.Errorf("%s: search finds %v, hash %v", name, a, b)
			}
		}
		if !found {
			t.Errorf("%s: type %d not among %v", name, i, a)
		}
	}
	for _, name := range []string{"no_such_type", "", "task_struc", "ask_struct"} {
		if ids := s.searched(name); name != "" && ids != nil {
			t.Errorf("%s: found %v", name, ids)
		}
		if ids := s.IDs(name); ids != nil {
			t.Errorf("%s: found %v", name, ids)
		}
	}
}

func TestKernelNames(t *testing.T) {
	set := openKernel(t)
	defer set.Close()
	if _, err := set.VMLinux.MemberOffset("task_struct", "no_such_member"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no_such_member: %v", err)
	}
	if _, err := set.VMLinux.MemberOffset("no_such_struct", "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no_such_struct: %v", err)
	}
	e, c, ok := set.LookupEnumerator("PIDTYPE_TGID") // include/linux/pid_types.h: second constant
	if !ok || c.Value != 1 || e.Tag != "pid_type" {
		t.Errorf("PIDTYPE_TGID: %v %v %v", e, c, ok)
	}
	if _, _, ok := set.LookupEnumerator("PIDTYPE_NONE_SUCH"); ok {
		t.Error("PIDTYPE_NONE_SUCH found")
	}
	task, ok := set.LookupType(types.StructTag, "task_struct")
	if !ok {
		t.Fatal("no task_struct")
	}
	_, f, ok := types.FindMember(task, "comm")
	if !ok || f.Type.String() != "char [16]" { // TASK_COMM_LEN
		t.Errorf("comm: %+v", f)
	}
	// fs/read_write.c
	fn, err := set.VMLinux.FuncType("vfs_read")
	if err != nil {
		t.Fatal(err)
	}
	want := "ssize_t (struct file *, char *, size_t, loff_t *)"
	if fn.String() != want || fn.Params[2].Name != "count" {
		t.Errorf("vfs_read is %s, want %s", fn, want)
	}
	if _, ok := set.LookupType(types.TypedefName, "loff_t"); !ok {
		t.Error("no loff_t")
	}
	if _, err := set.Module("../vmlinux"); !errors.Is(err, ErrNotFound) {
		t.Errorf("module ../vmlinux: %v", err)
	}
	for _, m := range set.Modules() {
		spec, err := set.Module(m)
		if err != nil || spec.Err() != nil {
			t.Errorf("module %s: %v %v", m, err, spec.Err())
		}
	}
	if vars, ok := set.VMLinux.Section(".data..percpu"); ok {
		if len(vars) == 0 || !strings.HasPrefix(set.VMLinux.Kind(vars[0].Var).String(), "var") {
			t.Errorf("per-CPU variables: %v", vars)
		}
	}
}
