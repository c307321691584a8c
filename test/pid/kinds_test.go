package pid

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// Instructions by their class: how often each ran, whether a branch was taken,
// and where it leads, of a function whose course is plain.
func TestInstructionClasses(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "classes.c", `
		#include <stdio.h>
		__asm__(".text\n .type callee, @function\n callee: ret\n .size callee, .-callee\n"
			".type course, @function\n course: xor %eax, %eax\n mov $10, %ecx\n"
			"1: test $1, %ecx\n je 2f\n add $1, %eax\n"
			"2: loop 1b\n jrcxz 3f\n nop\n 3: call callee\n lock decl -4(%rsp)\n ret\n .size course, .-course\n");
		extern int course(void);
		extern void callee(void);
		int main(void) { int n = course(); printf("callee %lx %d\n", (unsigned long)callee, n); return 0; }`), "-O1", "-no-pie")
	r := testkernel.Trace(t, "-qn", `uinstr$target:a.out:course: { @[probename, arg1] = count(); }
		uinstr$target:a.out:course:call { printf("calls %x\n", arg2); }
		uinstr$target:a.out:course:loop { @back = sum(arg2 - arg0); }
		uinstr$target:a.out:course:ret { printf("unknown %d\n", arg2); }
		END { printa("class %s %d %@d\n", @); printa("back %@d\n", @back); }`, "-c", prog).OK(t)
	// ECX goes from 10 to 1: je is taken where it is even, loop but for the
	// last time, and then jrcxz is. jrcxz and je are two bytes, add is three.
	for _, want := range []string{"class je 1 5\n", "class je 0 5\n", "class add 0 5\n", "class loop 1 9\n", "class loop 0 1\n", "class jcxz 1 1\n", "class call 1 1\n", "class ret 1 1\n", "unknown 0\n", "back -110\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("no %q:\n%s", want, r.Stdout)
		}
	}
	if n := strings.Count(r.Stdout, "class "); n != 8 {
		t.Errorf("%d classes, want 8:\n%s", n, r.Stdout)
	}
	m := regexp.MustCompile(`(?m)^callee (\S+) 5$`).FindStringSubmatch(r.Stdout)
	if m == nil || !strings.Contains(r.Stdout, "calls "+m[1]+"\n") {
		t.Errorf("the call does not lead to %v:\n%s", m, r.Stdout)
	}
	for _, c := range []struct{ desc, want string }{
		{"uinstr$target:a.out:course:nosuch", "[D_PROC_NAME] 'nosuch' is no class of instructions"},
		{"uinstr$target:a.out:course:lock", `[D_PROC_CREATEFAIL] failed to create probes in 'course': the kernel does not put probes on the instruction, "lock dec"`},
		{"uinstr$target:a.out:course:syscall", "[D_PDESC_ZERO]"},
		{"uinstr$target:a.out:-:call", "[D_PROC_FUNC] expected a function"},
		{"uinstr$target:a.out:nosuch:call", "[D_PROC_FUNC] failed to lookup 'nosuch'"},
	} {
		if r := testkernel.Trace(t, "-xerrtags", "-n", c.desc, "-c", prog); exitCode(r.Err) != 1 || !strings.Contains(r.Stderr, c.want) {
			t.Errorf("%s: %v, want %q:\n%s", c.desc, r.Err, c.want, r.Stderr)
		}
	}
}

// In a 32-bit program arguments lie on the stack; its stack resolves.
func TestProgram32(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.30")
	const text = `
		#include <stdio.h>
		__attribute__((noinline)) int add(int a, int b, long long c, char d) { __asm__ volatile(""); return a - b + (int)c + d; }
		__attribute__((noinline)) int outer(int x) { int r = add(x, 2*x, (7LL << 32) + x, 'z'); __asm__ volatile(""); return r + 1; }
		int main(void) { int s = 0; for (int i = 1; i <= 5; i++) s += outer(i); printf("sum %d\n", s); fflush(stdout); return 3; }`
	for _, flags := range []string{"-O1", "-O2 -fcf-protection=full", "-O1 -static"} {
		prog := testkernel.Compile(t, source(t, "narrow.c", text), append(strings.Fields(flags), "-m32", "-fno-omit-frame-pointer")...)
		if err := exec.Command(prog).Run(); exitCode(err) != 3 {
			t.Skipf("SKIP-FEATURE: 32-bit programs: %v", err)
		}
		d := `pid$target:a.out:add:entry { printf("add %d %d %d %d %c\n", (int)arg0, (int)arg1, (int)arg2, (int)arg3, (char)arg4); @s[ustack()] = count(); }
			pid$target:a.out:add:return { @ = sum((int)arg1); }
			pid$target:libc.so.6:write:entry /arg0 == 1/ { printf("write %d bytes: %s", (int)arg2, copyinstr(arg1, arg2 + 1)); }
			uinstr$target:a.out:outer:call /arg1/ { @calls = count(); }
			END { printa("returned %@d\n", @); printa("called %@d\n", @calls); }`
		if strings.Contains(flags, "static") {
			d = strings.Replace(d, "libc.so.6:write", "a.out:__write", 1)
		}
		r := testkernel.Trace(t, "-n", d, "-q", "-c", prog).OK(t)
		for _, want := range []string{
			"sum 615\n", "add 1 2 1 7 z\n", "add 5 10 5 7 z\n", "returned 610\n", "called 5\n", "write 8 bytes: sum 615\n",
		} {
			// add returns a-b+c+d = x-2x+x+122, which is 122; outer adds 1.
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("%s: no %q:\n%s%s", flags, want, r.Stdout, r.Stderr)
			}
		}
		if m := regexp.MustCompile("narrow`add\n +narrow`outer\\+0x[0-9a-f]+\n +narrow`main\\+0x[0-9a-f]+\n[^@]* 5\n").FindString(r.Stdout); m == "" {
			t.Errorf("%s: no stack of add, outer and main five times:\n%s", flags, r.Stdout)
		}
	}
}

// Where the result is not known, because a function ends by jumping to another,
// a clause that asks for arguments is told so.
func TestTailNote(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "4.14")
	prog := testkernel.Compile(t, source(t, "tails.c", `
		__attribute__((noinline)) int leaf(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
		__attribute__((noinline)) int tail(int x) { __asm__ volatile("" : "+r"(x)); return leaf(x + 1); }
		int main(void) { return tail(1) + leaf(1) - 5; }`), "-O2")
	const note = "the function may end by a jump to another, at +0x"
	for _, c := range []struct {
		d    string
		want bool
	}{
		{"pid$target:a.out:tail:return { trace(arg1); }", true},
		{"pid$target:a.out:tail:return { @ = count(); }", false},
		{"pid$target:a.out:leaf:return { trace(arg1); }", false},
	} {
		r := testkernel.Trace(t, "-n", c.d, "-c", prog).OK(t)
		if strings.Contains(r.Stderr, note) != c.want {
			t.Errorf("%s: %v\n%s", c.d, c.want, r.Stderr)
		}
		if strings.Contains(r.Stderr, "arg1 is not the result") != c.want {
			t.Errorf("%s:\n%s", c.d, r.Stderr)
		}
	}
	r := testkernel.Trace(t, "-lvn", "pid$target:a.out:tail:return", "-c", prog)
	if !strings.Contains(r.Stdout, "a jump out") {
		t.Errorf("-lv does not show the jump:\n%s", r.Stdout)
	}
}

// A 32-bit Go program: each call counts once, though the stack grows.
func TestGo32(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.30", "4.14")
	prog := filepath.Join(t.TempDir(), "calls")
	build := exec.Command("go", "build", "-o", prog, "../trigger/calls")
	build.Env = append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0")
	if msg, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	if err := exec.Command(prog, "1").Run(); err != nil {
		t.Skipf("SKIP-FEATURE: 32-bit programs: %v", err)
	}
	r := testkernel.Trace(t, "-qn", `
		pid$target:a.out:main.leaf:entry,pid$target:a.out:main.deep:entry,pid$target:a.out:main.big:entry{@e[probefunc]=count();}
		pid$target:a.out:main.leaf:return,pid$target:a.out:main.deep:return,pid$target:a.out:main.big:return{@r[probefunc]=count();}
		END{printa("got %s %@d %@d\n",@e,@r)}`, "-c", prog+" 30").OK(t)
	got := counts(r.Stdout, "got")
	n := 0
	for line := range strings.Lines(r.Stdout) {
		f := strings.Fields(line)
		if len(f) == 3 && strings.HasPrefix(f[0], "main.") {
			n++
			if want := f[1] + " " + f[1]; got[f[0]] != want {
				t.Errorf("%s: calls, returns %q; the program counts %q", f[0], got[f[0]], want)
			}
		}
	}
	if n != 3 {
		t.Errorf("the program counts %d functions, want 3:\n%s\n%s", n, r.Stdout, r.Stderr)
	}
}
