package symbol

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Who cannot wait is told which objects nobody has read yet.
func TestCodeRead(t *testing.T) {
	s := NewProcesses()
	_, code, err := s.CodeRead(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	self, _ := os.Executable()
	here := func(code []Code) (o *Object, f *ObjectFile) {
		for _, c := range code {
			if c.Mapping.Path == self {
				return c.Obj, c.File
			}
		}
		return nil, nil
	}
	if o, f := here(code); o != nil || f == nil {
		t.Errorf("before anybody read it: %v, %v", o, f)
	}
	_, code, err = s.Code(os.Getpid())
	if o, f := here(code); err != nil || o == nil || f.Object() != o {
		t.Errorf("read: %v, %v, %v", o, f, err)
	}
	_, code, err = s.CodeRead(os.Getpid())
	if o, f := here(code); err != nil || o == nil || f.Object() != o {
		t.Errorf("read before: %v, %v, %v", o, f, err)
	}
}

// What is mapped executable, whose program it is, and what is forgotten when
// more is mapped.
func TestCode(t *testing.T) {
	s := NewProcesses()
	stack, code, err := s.Code(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	here := 0
	for i, c := range code {
		if !c.Mapping.Exec() || i > 0 && c.Mapping.Start < code[i-1].Mapping.End {
			t.Errorf("%+v", c.Mapping)
		}
		if c.Obj != nil && c.Obj.Path == c.Mapping.Path && c.Mapping.Path != "[vdso]" {
			here++
		}
	}
	// The stack is where the kernel says it begins, in the mapping of that name.
	maps, _ := s.Process(os.Getpid())
	if !slices.ContainsFunc(maps.Mappings(), func(m Mapping) bool { return m.Path == "[stack]" && m.Start <= stack && stack < m.End }) {
		t.Errorf("the stack begins at 0x%x", stack)
	}
	if here == 0 {
		t.Errorf("no objects in %v", code)
	}
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	again, more, err := s.Code(os.Getpid())
	if err != nil || again != stack || len(more) != len(code)+1 {
		t.Errorf("%v: stack 0x%x, %d mappings; before 0x%x, %d", err, again, len(more), stack, len(code))
	}
	if n := len(s.procs[os.Getpid()].gens); n != 1 {
		t.Errorf("%d sets of mappings, want the newest alone", n)
	}
	other := exec.Command("sleep", "100")
	if err := other.Start(); err != nil {
		t.Skip(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	if theirs, _, err := s.Code(other.Process.Pid); err != nil || theirs == stack {
		t.Errorf("%v: another program's stack begins at 0x%x too", err, theirs)
	}
	if _, _, err := s.Code(1 << 22); err == nil {
		t.Error("a process that is not there has code")
	}
}
