package tracefs

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// From kernel sources' Documentation/trace/events.rst and files of Linux 6.12.
const sample = `name: sched_wakeup
ID: 60
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t pid;	offset:24;	size:4;	signed:1;
	field:const char * name;	offset:32;	size:8;	signed:0;
	field:const char *name2;	offset:40;	size:8;	signed:0;
	field:__data_loc char[] path;	offset:48;	size:4;	signed:0;
	field:__rel_loc unsigned long[] args;	offset:52;	size:4;	signed:0;
	field:unsigned long args[6];	offset:56;	size:48;	signed:0;
	field:u8 m[4][ETH_ALEN];	offset:104;	size:24;	signed:0;

print fmt: "comm=%s pid=%d field:x y; offset:1", REC->comm, REC->pid
`

func TestParseFormat(t *testing.T) {
	f, err := ParseFormat(sample)
	if err != nil {
		t.Fatal(err)
	}
	want := []Field{
		{"comm", "char", []int{16}, 8, 16, false, Direct},
		{"pid", "pid_t", nil, 24, 4, true, Direct},
		{"name", "const char *", nil, 32, 8, false, Direct},
		{"name2", "const char *", nil, 40, 8, false, Direct},
		{"path", "char", []int{0}, 48, 4, false, DataLoc},
		{"args", "unsigned long", []int{0}, 52, 4, false, RelLoc},
		{"args", "unsigned long", []int{6}, 56, 48, false, Direct},
		{"m", "u8", []int{4, 0}, 104, 24, false, Direct},
	}
	if f.Name != "sched_wakeup" || f.ID != 60 || f.Print != `"comm=%s pid=%d field:x y; offset:1", REC->comm, REC->pid` {
		t.Errorf("got %q, ID %d, print %s", f.Name, f.ID, f.Print)
	}
	if !reflect.DeepEqual(f.Fields, want) {
		t.Errorf("fields:\n%v\nwant\n%v", f.Fields, want)
	}
}

func TestParseFormatRefuses(t *testing.T) {
	for _, text := range []string{
		"", "name: x\nID: y\n", "name: x\nfield:int;\toffset:0;\n",
		"name: x\nfield:int a;\toffset:-1;\n", "name: x\nfield:int a];\toffset:0;\n",
		"name: x\nfield: a;\toffset:0;\n", "print fmt: \"\"\n",
	} {
		if f, err := ParseFormat(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, f)
		}
	}
}

func FuzzParseFormat(f *testing.F) {
	f.Add(sample)
	f.Fuzz(func(t *testing.T, text string) {
		if f, err := ParseFormat(text); err == nil && f.Name == "" {
			t.Error("a format without a name")
		}
	})
}

func TestParseFunctions(t *testing.T) {
	got := parseFunctions("vfs_read\nnf_hook [nf_tables]\n__ftrace_invalid_address___16\n" +
		"ffffffff81001000 vfs_write\nffffffffc0001000 ext4_x [ext4]\n")
	want := []Function{
		{"vmlinux", "vfs_read", 0}, {"nf_tables", "nf_hook", 0},
		{"vmlinux", "vfs_write", 0xffffffff81001000}, {"ext4", "ext4_x", 0xffffffffc0001000},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The format files of the running kernel parse (one in seven: the kernel takes
// a millisecond for each), and each field lies within what its neighbours leave.
func TestKernelFormats(t *testing.T) {
	if _, err := Root(); err != nil {
		t.Skip(err)
	}
	groups, err := Groups()
	if err != nil {
		t.Skip(err)
	}
	n := 0
	for _, g := range groups {
		events, err := Events(g)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if n++; n%7 != 0 {
				continue
			}
			f, err := ReadFormat(g, e)
			if err != nil {
				t.Errorf("%s:%s: %v", g, e, err)
				continue
			}
			id, err := EventID(g, e)
			// ftrace's own events have no id file.
			if err == nil && id != f.ID || f.Name != e {
				t.Errorf("%s:%s: name %s, ID %d, id file %d", g, e, f.Name, f.ID, id)
			}
			end := 8
			for _, fd := range f.Fields {
				if fd.Off < end && g != "ftrace" {
					t.Errorf("%s:%s: field %s at %d begins before %d", g, e, fd.Name, fd.Off, end)
				}
				end = fd.Off + fd.Size
			}
		}
	}
	t.Logf("%d events", n)
}

// A mount of our own shows what the system's does.
func TestDetached(t *testing.T) {
	dir, err := detached()
	if err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat("/sys/kernel/tracing/events/sched"); err != nil {
		t.Skip(err)
	}
	got, err1 := filepath.Glob(dir + "/events/sched/*")
	want, err2 := filepath.Glob("/sys/kernel/tracing/events/sched/*")
	if err1 != nil || err2 != nil || len(got) != len(want) || len(got) == 0 {
		t.Errorf("%d entries, %v; the system's: %d, %v", len(got), err1, len(want), err2)
	}
}
