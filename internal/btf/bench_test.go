package btf

import "testing"

// wanted are names a typical script makes godtrace look up.
var wanted = []struct{ tag, member string }{
	{"task_struct", "tgid"}, {"task_struct", "pid"}, {"task_struct", "comm"}, {"task_struct", "mm"},
	{"task_struct", "real_parent"}, {"task_struct", "cred"}, {"file", "f_path.dentry"}, {"dentry", "d_name.name"},
	{"inode", "i_ino"}, {"sock", "__sk_common.skc_daddr"}, {"sk_buff", "len"}, {"cred", "uid.val"},
	{"pt_regs", "ip"}, {"mm_struct", "pgd"}, {"bio", "bi_iter.bi_sector"},
}

func openKernel(tb testing.TB) *Set {
	s, err := Kernel()
	if err != nil {
		tb.Skip(err)
	}
	return s
}

func BenchmarkOpenIndex(b *testing.B) {
	openKernel(b).Close()
	for b.Loop() {
		s := openKernel(b)
		if err := s.VMLinux.Err(); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

func BenchmarkOpen15Members(b *testing.B) {
	openKernel(b).Close()
	for b.Loop() {
		s := openKernel(b)
		for _, w := range wanted {
			if _, err := s.VMLinux.Member(w.tag, w.member); err != nil {
				b.Fatal(err)
			}
		}
		s.Close()
	}
}

func BenchmarkOpen1Member(b *testing.B) {
	openKernel(b).Close()
	for b.Loop() {
		s := openKernel(b)
		if _, err := s.VMLinux.Member("task_struct", "tgid"); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

func BenchmarkTaskStruct(b *testing.B) {
	for b.Loop() {
		s := openKernel(b)
		t, ok := s.LookupType(1, "task_struct")
		if !ok || t.Align() < 8 {
			b.Fatal(t)
		}
		s.Close()
	}
}

func BenchmarkHashTable(b *testing.B) {
	for b.Loop() {
		s := openKernel(b)
		s.VMLinux.index()
		s.VMLinux.hashed("task_struct")
		s.Close()
	}
}

func BenchmarkSearch(b *testing.B) {
	s := openKernel(b)
	s.VMLinux.index()
	for b.Loop() {
		s.VMLinux.searched("task_struct")
	}
}

func BenchmarkEnumerator(b *testing.B) {
	s := openKernel(b)
	s.VMLinux.enumerator("x")
	for b.Loop() {
		s.VMLinux.enumerator("PIDTYPE_TGID")
	}
}
