package pid

import (
	"os"
	"regexp"
	"testing"

	"godtrace/internal/testkernel"
)

// Frames of code that a program made while it ran go by the names it tells: in
// a jitdump, which it maps, or in /tmp/perf-PID.map.
func TestMadeCode(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "makes.c", `
		#include <fcntl.h>
		#include <stdint.h>
		#include <stdio.h>
		#include <string.h>
		#include <sys/mman.h>
		#include <unistd.h>
		__attribute__((noinline)) int callee(void) { int n = getppid() > 0; __asm__ volatile(""); return n; }
		struct header { uint32_t magic, version, size, machine, pad, pid; uint64_t time, flags; };
		struct load { uint32_t kind, size; uint64_t time; uint32_t pid, tid; uint64_t vma, addr, code_size, number; char name[8]; };
		int main(int argc, char **argv) {
			/* push %rbp; mov %rsp,%rbp; mov $callee,%rax; call *%rax; pop %rbp; ret */
			unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
			uint64_t at = (uint64_t)callee;
			char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			char name[200];
			memcpy(code + 6, &at, 8);
			memcpy(page + 256, code, sizeof code);
			if (argc > 1) {
				struct header h = {0x4a695444, 1, sizeof h, 62, 0, getpid()};
				struct load l = {0, sizeof l + sizeof code, 1, getpid(), getpid(), (uint64_t)page + 256, (uint64_t)page + 256, sizeof code, 1, "made_it"};
				snprintf(name, sizeof name, "%s/jit-%d.dump", argv[1], getpid());
				int fd = open(name, O_RDWR | O_CREAT, 0644);
				if (write(fd, &h, sizeof h) < 0 || write(fd, &l, sizeof l) < 0 || write(fd, code, sizeof code) < 0) return 1;
				mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
			} else {
				snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
				FILE *f = fopen(name, "w");
				fprintf(f, "%lx %zx made_it\n", (unsigned long)page + 256, sizeof code);
				fclose(f);
			}
			int n = 0;
			for (int i = 0; i < 50; i++, usleep(20000)) /* how it is to be walked is found out meanwhile */
				n = ((int (*)(void))(page + 256))();
			return n - 1;
		}`), "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
	for _, c := range []struct{ args, module string }{{" " + t.TempDir(), `jit-\d+\.dump`}, {"", `perf-\d+\.map`}} {
		r := testkernel.Trace(t, "-qn", "syscall::getppid:entry/pid==$target/{@[ustack()]=count();}", "-xswitchrate=50hz", "-c", prog+c.args).OK(t)
		if m := regexp.MustCompile(`perf-\d+\.map`).FindString(r.Stdout); m != "" {
			os.Remove("/tmp/" + m)
		}
		want := regexp.MustCompile("makes`callee\\+0x[0-9a-f]+\n +" + c.module + "`made_it\\+0x10\n +makes`main\\+0x[0-9a-f]+\n")
		if !want.MatchString(r.Stdout) {
			t.Errorf("no %v:\n%s%s", want, r.Stdout, r.Stderr)
		}
	}
}
