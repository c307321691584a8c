// Package pid holds the tests of the pid provider on running programs. What a
// program called it counts itself; the tracer's counts are held against that.
package pid

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"godtrace/internal/testkernel"
)

// source writes a program's text to a file.
func source(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// counts reads lines "NAME NUMBER…" that begin with a word.
func counts(out, word string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) > 2 && f[0] == word {
			m[f[1]] = strings.Join(f[2:], " ")
		}
	}
	return m
}

const shapes = `
pid$target:a.out:leaf:entry, pid$target:a.out:frame:entry, pid$target:a.out:tail:entry, pid$target:a.out:cond:entry,
pid$target:a.out:viatable:entry, pid$target:a.out:sw:entry, pid$target:a.out:cold:entry, pid$target:a.out:recurse:entry,
pid$target:a.out:pointer:entry, pid$target:a.out:early:entry, pid$target:a.out:jumper:entry
{ @e[probefunc] = count(); }
pid$target:a.out:leaf:return, pid$target:a.out:frame:return, pid$target:a.out:tail:return, pid$target:a.out:cond:return,
pid$target:a.out:viatable:return, pid$target:a.out:sw:return, pid$target:a.out:cold:return, pid$target:a.out:recurse:return,
pid$target:a.out:pointer:return, pid$target:a.out:early:return, pid$target:a.out:jumper:return
{ @r[probefunc] = count(); @s[probefunc] = sum(arg1); }
END { printa("got %s %@d %@d %@d\n", @e, @r, @s); }
`

// Every call and every return of functions of all shapes is seen, whatever the
// compiler made of them: frames, tail calls always and on a condition, through
// tables, switches, parts split off, recursion, threads, longjmp.
func TestShapes(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.9", "3.23")
	builds := []string{
		"-O0", "-O1", "-O2", "-O3 -fno-omit-frame-pointer", "-Os", "-O2 -fcf-protection=full",
		"-O2 -no-pie -fno-pie", "-O2 -static", "-O2 -static-pie", "-O2 -fno-asynchronous-unwind-tables -fno-jump-tables",
		"-m32 -O0", "-m32 -O2 -fcf-protection=full", "-m32 -O2 -static",
	}
	if _, vm := testkernel.InVM(); vm {
		builds = []string{"-O0", "-O2 -fcf-protection=full", "-O2 -static"} // emulated, it takes its time
	}
	for _, flags := range builds {
		t.Run(flags, func(t *testing.T) {
			prog := testkernel.Compile(t, "testdata/calls.c", strings.Fields(flags)...)
			d := shapes
			if strings.Contains(flags, "-m32") {
				d = strings.Replace(d, "arg1", "(int)arg1", 1) // a long of the program
				if err := exec.Command(prog, "1").Run(); err != nil {
					t.Skipf("SKIP-FEATURE: 32-bit programs: %v", err)
				}
			}
			r := testkernel.Trace(t, "-qn", d, "-c", prog+" 40").OK(t)
			got := counts(r.Stdout, "got")
			n := 0
			for line := range strings.Lines(r.Stdout) {
				f := strings.Fields(line)
				if len(f) < 3 || f[0] == "got" {
					continue
				}
				n++
				g := strings.Fields(got[f[0]])
				if len(g) != 3 || g[0] != f[1] || g[1] != f[2] || len(f) > 3 && g[2] != f[3] {
					t.Errorf("%s: calls, returns, sum %v; the program counts %v", f[0], g, f[1:])
				}
			}
			if n != 11 {
				t.Errorf("%d functions counted by the program, want 11:\n%s", n, r.Stdout)
			}
		})
	}
}

// Names as users write them: the executable, shortened libraries, a version
// that is not there, the instruction at an offset, an address.
func TestNames(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.17", "3.4", "3.23")
	prog := testkernel.Compile(t, source(t, "names.c", `
		#include <stdlib.h>
		__attribute__((noinline)) int f(int x) { __asm__ volatile("nop; nopl 0(%rax)"); return x + 1; }
		int main(void) { for (int i = 0; i < 7; i++) f(i); for (int i = 0; i < 9; i++) free(calloc(1, 333)); return 0; }`), "-O1", "-fno-builtin", "-fcf-protection=none", "-no-pie")
	addr := ""
	if out, err := exec.Command("nm", prog).Output(); err == nil {
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 3 && f[2] == "f" {
				addr = strings.TrimLeft(f[0], "0")
			}
		}
	}
	for _, c := range []struct{ desc, count, note string }{
		{"a.out:f:entry", "7", ""},
		{"names:f:entry", "7", ""},
		{"a.out:f:0", "7", ""},
		{"a.out:f:1", "7", ""}, // behind the nop
		{"a.out:f:return", "7", ""},
		{"*:f:entry", "7", ""},
		{":f:entry", "7", ""},
		{"nam*:f:ent*", "7", ""},
		{"a.out:-:" + addr, "7", ""},
		{"libc.so.6:calloc:entry/arg1==333/", "9", ""},
		{"libc:calloc:entry/arg1==333/", "9", ""},
		{"libc.so:calloc:entry/arg1==333/", "9", ""},
		{"libc.so.7:calloc:entry/arg1==333/", "9", "taken for libc.so.6"},
		{"/lib/x86_64-linux-gnu/libc.so.6:calloc:entry/arg1==333/", "9", ""},
	} {
		t.Run(c.desc, func(t *testing.T) {
			if strings.HasSuffix(c.desc, ":-:") {
				t.Skip("SKIP-FEATURE: nm")
			}
			r := testkernel.Trace(t, "-n", "pid$target:"+c.desc+"{@=count()}", "-c", prog).OK(t)
			if got := strings.TrimSpace(r.Stdout); got != c.count {
				t.Errorf("counted %q, want %s\n%s", got, c.count, r.Stderr)
			}
			if !strings.Contains(r.Stderr, c.note) {
				t.Errorf("no word of %q:\n%s", c.note, r.Stderr)
			}
		})
	}
}

// Descriptions that mean nothing, in the words and with the tags of dtrace(1).
func TestRefusals(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.7", "3.23")
	prog := testkernel.Compile(t, source(t, "refused.c", `
		__attribute__((noinline)) void locked(int *p) { __asm__ volatile("lock decl (%0)" :: "r"(p)); }
		__attribute__((noinline)) void over(void) { __builtin_unreachable(); }
		int main(void) { int x; locked(&x); return 0; }`), "-O1", "-fcf-protection=none")
	for _, c := range []struct{ desc, want string }{
		{"pid$target:a.out:nosuch:entry", "[D_PROC_FUNC] failed to lookup 'nosuch' in module 'refused'"},
		{"pid$target:a.out:main:nosuch", "[D_PROC_NAME] 'nosuch' is an invalid probe name"},
		{"pid$target:a.out:main:ffff", "[D_PROC_OFF] offset 0xffff outside of function 'main'"},
		{"pid$target:a.out:main:1", "[D_PROC_ALIGN] offset 0x1 is not aligned on an instruction"},
		{"pid$target:a.out:locked:entry", `[D_PROC_CREATEFAIL] failed to create entry probe for 'locked': the kernel does not put probes on its first instruction, "lock dec"`},
		{"pid$target:nosuch:main:entry", "[D_PDESC_ZERO] probe description pid"},
		{"pid$target:libc.so.6:-:1", "[D_PROC_LIB] only the a.out module is valid with the '-' function"},
		{"pid$target:a.out:-:*", "[D_PROC_NAME] only individual addresses may be specified with the '-' function"},
		{"pid0:a.out:main:entry", "[D_PROC_BADPID] 'pid0' does not contain a valid pid"},
		{"pidgin:a.out:main:entry", "[D_PDESC_ZERO] probe description pidgin:a.out:main:entry does not match any probes"},
		{"pid4194305:a.out:main:entry", "[D_PROC_GRAB] failed to grab process 4194305"},
		{"pid2:a.out:main:entry", "[D_PROC_GRAB] failed to grab process 2"},
		{"pid$pid:a.out:main:entry", "[D_PROC_DYN] process "},
		{"uprobe:/nosuch:main:entry", "[D_PROC_LIB] failed to open /nosuch: no such file or directory"},
		{"uprobe:/etc/hostname:main:entry", "[D_PROC_LIB] failed to read /etc/hostname"},
	} {
		r := testkernel.Trace(t, "-xerrtags", "-n", c.desc, "-c", prog)
		if code := exitCode(r.Err); code != 1 || !strings.Contains(r.Stderr, c.want) {
			t.Errorf("%s: status %d, want 1 and %q:\n%s", c.desc, code, c.want, r.Stderr)
		}
	}
	r := testkernel.Trace(t, "-xmaxprobes=100", "-n", "pid$target:libc.so.6::entry", "-c", prog)
	want := regexp.MustCompile(`probe description pid\d+:libc\.so\.6::entry matches \d{4} probes, limit 100 \(raise with -x maxprobes=\)`)
	if exitCode(r.Err) != 1 || !want.MatchString(r.Stderr) {
		t.Errorf("over the limit: %v\n%s", r.Err, r.Stderr)
	}
}

func exitCode(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// What could be meant by a name that is not there.
func TestHints(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "hints.cc", `
		namespace shop { struct cart { __attribute__((noinline)) long total(long n) { __asm__ volatile(""); return 3 * n; } }; }
		template <class T> __attribute__((noinline)) T doubled(T x) { __asm__ volatile(""); return x + x; }
		extern "C" __attribute__((noinline)) void purchase(void) { __asm__ volatile(""); }
		int main(void) { shop::cart c; purchase(); return c.total(0) + doubled<int>(0) + doubled<long>(0); }`), "-O1")
	symbols, err := exec.Command("nm", prog).Output()
	if err != nil {
		t.Skip("SKIP-FEATURE: nm")
	}
	named := func(part string) []string {
		return regexp.MustCompile(`\S*`+part+`\S*`).FindAllString(string(symbols), -1)
	}
	total, doubled := named("total"), named("doubled")
	slices.Sort(doubled)
	if len(total) != 1 || len(doubled) != 2 {
		t.Fatalf("%q %q", total, doubled)
	}
	for _, c := range []struct{ desc, want string }{
		{"a.out:purchas:entry", "hint: did you mean purchase?"},
		{"a.out:total:entry", "hint: its symbol is " + total[0]},
		{"a.out:doubled:return", "hint: its symbol is " + doubled[0] + ", " + doubled[1]},
		{"a.out:malloc:entry", "hint: libc.so.6 has a function of that name"},
		{"libc.so.6:purchase:entry", "hint: hints has a function of that name"},
		{"libc:mallloc:entry", "hint: did you mean malloc?"},
		{"libnosuch.so:quux:entry", "hint: so far the process has mapped hints, "},
		{"pid*:nosuchprog:quux:entry", "a file is named by its path: uprobe:/PATH/nosuchprog:quux:entry"},
	} {
		if !strings.HasPrefix(c.desc, "pid*") {
			c.desc = "pid$target:" + c.desc
		}
		r := testkernel.Trace(t, "-n", c.desc, "-c", prog)
		if exitCode(r.Err) != 1 || !strings.Contains(r.Stderr, c.want) {
			t.Errorf("%s: %v, want %q:\n%s", c.desc, r.Err, c.want, r.Stderr)
		}
	}
}

// Every function of libc, entry and return, in programs that nobody here
// wrote: they print what they print untraced and end as they end.
func TestUnharmed(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.9")
	dir := t.TempDir()
	bash := filepath.Join(dir, "a.sh")
	os.WriteFile(bash, []byte("for i in 1 2 3; do echo $i | cat; x=$(echo $i); done; [[ abc =~ ^a.c$ ]] && printf '%s %5.2f\\n' yes 3.14159; kill -USR1 $$; exit 7\n"), 0o644)
	throw := filepath.Join(dir, "throw.cc")
	os.WriteFile(throw, []byte(`
		#include <iostream>
		#include <stdexcept>
		#include <string>
		__attribute__((noinline)) int f(int i) { if (i % 3 == 0) throw std::runtime_error("thrown " + std::to_string(i)); return i; }
		int main() { int s = 0; for (int i = 0; i < 10; i++) try { s += f(i); } catch (std::exception &e) { std::cout << e.what() << "\n"; } std::cout << s << std::endl; return 5; }`), 0o644)
	cmds := []string{"ls --nosuch", "gcc --version"} // the others are in TestPrograms
	kernel, vm := testkernel.InVM()
	oneByOne := kernel == "6.1" // no multi links: a grace period, emulated, for each probe
	if vm {
		cmds = []string{"bash " + bash, throw}
	}
	for _, cmd := range cmds {
		t.Run(filepath.Base(strings.Fields(cmd)[0]), func(t *testing.T) {
			if cmd == throw {
				cmd = testkernel.Compile(t, throw, "-O2")
			}
			argv := strings.Fields(cmd)
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Skipf("SKIP-FEATURE: %s", argv[0])
			}
			plain := exec.Command(argv[0], argv[1:]...)
			want, _ := plain.CombinedOutput()
			desc := "pid$target:libc.so.6::entry,pid$target:libc.so.6::return{@=count()}"
			switch {
			case oneByOne && strings.Contains(cmd, "throw"):
				desc = "pid$target:a.out:_Z*:,pid$target:libgcc_s*:_Unwind_*:entry,pid$target:libgcc_s*:_Unwind_*:return{@=count()}"
			case oneByOne:
				desc = "pid$target:libc.so.6:*alloc*:entry,pid$target:libc.so.6:_IO_*put*:entry,pid$target:libc.so.6:_IO_*put*:return{@=count()}"
			case strings.Contains(cmd, "throw"):
				desc = "pid$target:a.out::,pid$target:libstdc++*:*throw*:entry,pid$target:libgcc_s*::entry,pid$target:libgcc_s*::return{@=count()}"
			}
			r := testkernel.Trace(t, "-n", desc+"END{printa(\"\\ncounted %@d\\n\",@)}", "-c", cmd)
			got, count, ok := strings.Cut(r.Stdout, "\ncounted ")
			all := got + programErrors(r.Stderr)
			for line := range strings.Lines(string(want)) {
				// Its output and its errors come by ways of their own.
				if !strings.Contains(all, line) {
					t.Errorf("traced, it does not print %q:\n%s", line, all)
				}
			}
			if n, _ := strconv.Atoi(strings.TrimSpace(count)); !ok || n < 100 && !oneByOne || n == 0 {
				t.Errorf("counted %q", count)
			}
			end := "has exited"
			if code := plain.ProcessState.ExitCode(); code > 0 {
				end = fmt.Sprintf("exited with status %d", code)
			} else if code < 0 {
				end = "terminated by SIG"
			}
			if !strings.Contains(r.Stderr, end) {
				t.Errorf("it did not end by %q:\n%s", end, r.Stderr)
			}
		})
	}
}

// programErrors are the lines of standard error that are not the tracer's.
func programErrors(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "dtrace: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// A tracer that is killed leaves its target running and its text as it was.
func TestKill(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.14")
	prog := testkernel.Compile(t, source(t, "loop.c", `
		#include <unistd.h>
		__attribute__((noinline)) long work(long x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
		int main(void) { for (long n = 0;; n = work(n)) if (n % 100 == 0) { write(1, ".", 1); usleep(100); } }`), "-O1")
	target := exec.Command(prog)
	out, err := target.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { target.Process.Kill(); target.Wait() }()
	pid := target.Process.Pid
	tracer := exec.Command(testkernel.Godtrace(t), "-qn",
		fmt.Sprintf("BEGIN{printf(\"on\\n\");} pid%d:a.out:work:entry,pid%d:a.out:work:return{@=count();} tick-100ms{printa(\"n %%@d\\n\",@);}", pid, pid), "-p", strconv.Itoa(pid), "-xswitchrate=20hz")
	trout, err := tracer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	seen := ""
	for end := time.Now().Add(20 * time.Second); !strings.Contains(seen, "n ") && time.Now().Before(end); {
		n, err := trout.Read(buf)
		if err != nil {
			break
		}
		seen += string(buf[:n])
	}
	if !strings.Contains(seen, "n ") {
		t.Fatalf("the tracer counted nothing: %q", seen)
	}
	if sameText(t, pid, prog) {
		t.Error("no uprobe in the target's text while it is traced: the comparison is void")
	}
	tracer.Process.Kill()
	tracer.Wait()
	time.Sleep(100 * time.Millisecond)
	for n := 0; n < 1<<20; { // what it wrote before
		k, err := out.Read(buf)
		if err != nil {
			t.Fatal("the target ended")
		}
		if n += k; k < len(buf) {
			break
		}
	}
	if _, err := out.Read(buf); err != nil {
		t.Errorf("the target makes no progress: %v", err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(b); !strings.Contains(s, "TracerPid:\t0\n") || strings.Contains(s, "State:\tT") || strings.Contains(s, "State:\tt") {
		t.Errorf("status:\n%s", s)
	}
	if !sameText(t, pid, prog) {
		t.Error("the target's text differs from its file")
	}
}

// sameText compares the executable mapping of a program with its file.
func sameText(t *testing.T, pid int, prog string) bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) .*` + regexp.QuoteMeta(prog) + `$`).FindStringSubmatch(string(maps))
	if m == nil {
		t.Fatalf("no text of %s:\n%s", prog, maps)
	}
	num := func(s string) int64 { n, _ := strconv.ParseInt(s, 16, 64); return n }
	file, err := os.ReadFile(prog)
	if err != nil {
		t.Fatal(err)
	}
	file = file[num(m[3]):min(int64(len(file)), num(m[3])+num(m[2])-num(m[1]))]
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	text := make([]byte, len(file))
	if _, err := mem.ReadAt(text, num(m[1])); err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(text, file)
}

// A library function is traced in whichever process calls it, also in those
// that begin later.
func TestEveryProcess(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.7")
	prog := testkernel.Compile(t, source(t, "later.c", `
		#include <stdlib.h>
		int main(void) { for (int i = 0; i < 5; i++) free(calloc(77, 333)); return 0; }`), "-O1", "-fno-builtin")
	for _, desc := range []string{"pid*:libc.so.6:calloc:entry", "pid*:libc:calloc:entry", "uprobe:/lib/x86_64-linux-gnu/libc.so.6:calloc:entry"} {
		t.Run(desc, func(t *testing.T) {
			if _, err := os.Stat("/lib/x86_64-linux-gnu/libc.so.6"); err != nil {
				t.Skip("SKIP-FEATURE: glibc as Debian has it")
			}
			tracer := exec.Command(testkernel.Godtrace(t), "-qn", desc+`/arg0==77 && arg1==333/{@[pid]=count();} BEGIN{printf("on\n");} END{printa("p %d %@d\n",@);}`, "-xswitchrate=50hz")
			out, err := tracer.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := tracer.Start(); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 1<<16)
			n, err := out.Read(buf)
			if err != nil || string(buf[:n]) != "on\n" {
				tracer.Process.Kill()
				t.Fatalf("%q, %v", buf[:n], err)
			}
			want := map[string]string{}
			for range 2 {
				cmd := exec.Command(prog)
				if err := cmd.Run(); err != nil {
					t.Fatal(err)
				}
				want[strconv.Itoa(cmd.Process.Pid)] = "5"
			}
			tracer.Process.Signal(os.Interrupt)
			var rest bytes.Buffer
			rest.ReadFrom(out)
			tracer.Wait()
			got := counts(rest.String(), "p")
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("counted %v, want %v", got, want)
			}
		})
	}
}

// A function in a library that is loaded while tracing goes on is traced from
// its first call.
func TestLoadedLater(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.6")
	lib := testkernel.Compile(t, source(t, "libmore.c", `
		int before = 1;
		__attribute__((constructor)) void init(void) { before = 2; }
		__attribute__((noinline)) int more(int x) { return x + before; }`), "-O1", "-shared", "-fPIC", "-fcf-protection=none")
	so := lib + ".so"
	if err := os.Rename(lib, so); err != nil {
		t.Fatal(err)
	}
	prog := testkernel.Compile(t, source(t, "opener.c", `
		#include <dlfcn.h>
		#include <stdio.h>
		int main(int c, char **v) {
			void *h = dlopen(v[1], RTLD_NOW);
			int (*f)(int) = h ? dlsym(h, "more") : 0;
			if (!f) { puts(dlerror()); return 1; }
			for (int i = 0; i < 4; i++) f(i);
			return 0; }`), "-O1")
	for _, desc := range []string{"pid$target:libmore*:more:entry", "pid$target:libmore.so:more:entry", "pid$target:libmore:more:entry", "pid$target::more:entry", "pid$target:libmore.so:mor*:return"} {
		t.Run(desc, func(t *testing.T) {
			r := testkernel.Trace(t, "-qZn", desc+"{@[probemod,probefunc,strlen(probefunc)]=count();} pid$target:libmore*:init:entry{@[\"init\",\"\",0]=count()} END{printa(\"%s %s %d %@d\\n\",@);}", "-c", prog+" "+so).OK(t)
			if want := "init  0 1\nlibmore.so more 4 4\n"; strings.TrimRight(r.Stdout, "\n")+"\n" != want {
				t.Errorf("got %q, want %q\n%s", r.Stdout, want, r.Stderr)
			}
		})
	}
}

// Its enablings have numbers of their own, behind those that there were.
func TestLoadedLaterNumbers(t *testing.T) {
	testkernel.RequireRoot(t)
	lib := testkernel.Compile(t, source(t, "liblate.c", `__attribute__((noinline)) int late(int x) { return x; }`), "-O1", "-shared", "-fPIC")
	prog := testkernel.Compile(t, source(t, "opens.c", `
		#include <dlfcn.h>
		int main(int c, char **v) { ((int (*)(int))dlsym(dlopen(v[1], RTLD_NOW), "late"))(0); return 0; }`), "-O1")
	r := testkernel.Trace(t, "-qZn", `BEGIN{printf("%d ", epid)} pid$target:liblate*:late:entry{printf("%d ", epid)} pid$target:liblate*:late:return{printf("%d ", epid)} END{printf("%d\n", epid)}`,
		"-c", prog+" "+lib).OK(t)
	if got := strings.TrimSpace(r.Stdout); got != "1 3 4 2" {
		t.Errorf("BEGIN, the later ones, END are enablings %q, want 1 3 4 2", got)
	}
}

// How far the program has come when probes are looked for: from the first
// instruction of the linker, before initializers, or before the program.
func TestEvalTime(t *testing.T) {
	testkernel.RequireRoot(t)
	lib := testkernel.Compile(t, source(t, "libinit.c", `
		__attribute__((noinline)) void called(void) { __asm__ volatile(""); }
		__attribute__((constructor)) void init(void) { called(); }`), "-O1", "-shared", "-fPIC", "-Wl,-soname,libinit.so")
	dir := filepath.Dir(lib)
	if err := os.Rename(lib, filepath.Join(dir, "libinit.so")); err != nil {
		t.Fatal(err)
	}
	prog := testkernel.Compile(t, source(t, "uses.c", `
		void called(void);
		int main(void) { called(); called(); return 0; }`), "-O1", "-L"+dir, "-Wl,-rpath,"+dir, "-Wl,--no-as-needed", "-linit")
	script := source(t, "script", "#!"+prog+"\n")
	os.Chmod(script, 0o755)
	for _, c := range []struct{ when, cmd, want string }{
		{"exec", prog, "3"}, {"preinit", prog, "3"}, {"postinit", prog, "2"}, {"main", prog, "2"}, {"preinit", script, "3"}, {"main", script, "2"},
	} {
		r := testkernel.Trace(t, "-qZn", "pid$target:libinit*:called:entry{@=count()}", "-xevaltime="+c.when, "-c", c.cmd).OK(t)
		if got := strings.TrimSpace(r.Stdout); got != c.want {
			t.Errorf("evaltime=%s: counted %q, want %s\n%s", c.when, got, c.want, r.Stderr)
		}
	}
}

// The option followfork: probes of a process fire in its children as well, and
// in nobody else.
func TestFollowFork(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.15")
	prog := testkernel.Compile(t, source(t, "forks.c", `
		#include <sys/wait.h>
		#include <unistd.h>
		__attribute__((noinline)) int f(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
		int main(void) {
			f(0);
			for (int i = 0; i < 3; i++)
				if (!fork()) { f(i); if (!fork()) { f(i); _exit(0); } wait(0); _exit(0); } else wait(0);
			return 0; }`), "-O1")
	other := exec.Command("sh", "-c", "while :; do "+prog+"; sleep 0.02; done")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	for _, c := range []struct{ option, want string }{{"followfork", "7 7"}, {"followfork=off", "1 1"}} {
		r := testkernel.Trace(t, "-qn", "pid$target:a.out:f:entry{@=count()} pid$target:a.out:f:return/arg1<9/{@r=count()} END{printa(\"%@d %@d\",@,@r)}", "-x"+c.option, "-c", prog).OK(t)
		if got := strings.TrimSpace(r.Stdout); got != c.want {
			t.Errorf("%s: counted %q, want %q", c.option, got, c.want)
		}
	}
}

// The stack of a process resolves after it has gone, also of one that was
// nobody's target. Such a one is gone before its unwind tables are read, so its
// frame pointers have to do.
func TestGone(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "gone.c", `
		#include <sys/syscall.h>
		#include <unistd.h>
		__attribute__((noinline)) void inner(void) { syscall(SYS_exit_group, 0); }
		__attribute__((noinline)) void outer(void) { inner(); __asm__ volatile(""); }
		int main(void) { outer(); return 0; }`), "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
	want := regexp.MustCompile("gone`outer\\+0x[0-9a-f]+\n *gone`main\\+0x[0-9a-f]+\n")
	for _, c := range []struct{ cmd, mode string }{{prog, "auto"}, {prog, "fp"}, {"sh -c " + prog, "fp"}} {
		cmd := c.cmd
		r := testkernel.Trace(t, "-xustackmode="+c.mode, "-qn", `syscall::exit_group:entry/execname=="gone"/{@[ustack()]=count(); ustack();}`, "-c", cmd).OK(t)
		if n := len(want.FindAllString(r.Stdout, -1)); n != 2 {
			t.Errorf("%s: %d stacks with outer and main, want 2:\n%s", cmd, n, r.Stdout)
		}
	}
}

// A Go program survives probes on its functions, also where their stacks move,
// and each call counts once: a function whose stack must grow begins anew.
func TestGo(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Trigger(t, "calls")
	for range 3 {
		r := testkernel.Trace(t, "-qn", `
			pid$target:a.out:main.leaf:entry,pid$target:a.out:main.deep:entry,pid$target:a.out:main.big:entry{@e[probefunc]=count();}
			pid$target:a.out:main.leaf:return,pid$target:a.out:main.deep:return,pid$target:a.out:main.big:return{@r[probefunc]=count();}
			pid$target:a.out:main.leaf:return{@s[probefunc]=sum(uregs[R_RAX]);}
			pid$target:a.out:main.deep:return{@s[probefunc]=sum(uregs[R_RAX]);}
			pid$target:a.out:main.big:return{@s[probefunc]=sum(uregs[R_RAX]);}
			END{printa("got %s %@d %@d %@d\n",@e,@r,@s)}`, "-c", prog+" 30").OK(t)
		got := counts(r.Stdout, "got")
		n := 0
		for line := range strings.Lines(r.Stdout) {
			f := strings.Fields(line)
			if len(f) == 3 && strings.HasPrefix(f[0], "main.") {
				n++
				if want := f[1] + " " + f[1] + " " + f[2]; got[f[0]] != want {
					t.Errorf("%s: calls, returns, sum %q; the program counts %q", f[0], got[f[0]], want)
				}
			}
		}
		if n != 3 {
			t.Errorf("the program counts %d functions, want 3:\n%s\n%s", n, r.Stdout, r.Stderr)
		}
	}
	r := testkernel.Trace(t, "-xpidreturn=address", "-n", "pid$target:a.out:main.leaf:return", "-c", prog)
	if exitCode(r.Err) != 1 || !strings.Contains(r.Stderr, "a Go program does not survive") {
		t.Errorf("return probes by address in Go: %v\n%s", r.Err, r.Stderr)
	}
}

// Functions of which a variant is chosen when a program starts go by their names.
func TestIndirect(t *testing.T) {
	testkernel.RequireRoot(t)
	prog := testkernel.Compile(t, source(t, "strings.c", `
		#include <string.h>
		#include <unistd.h>
		int main(int c, char **v) {
			char a[333], b[333];
			int wait = c > 1;
			memset(b, 1, 333);
			for (int i = 0; i < 11; i++) c += strlen(v[0]);
			for (int i = 0; i < 13; i++) memcpy(a, b, 333);
			for (int i = 0; i < 17; i++) c += strchr(v[0], 'x') != 0;
			if (wait) { write(1, "", 1); pause(); }
			return 0; }`), "-O0", "-fno-builtin")
	// A process in which the choice has been made.
	other := exec.Command(prog, "wait")
	ready, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"pid$target:libc.so.6", "pid*:libc.so.6", "uprobe:/lib/x86_64-linux-gnu/libc.so.6"} {
		d := strings.ReplaceAll(`LIB:strlen:entry,LIB:strchr:entry/pid==$target/{@[probefunc]=count()} LIB:memcpy:entry/pid==$target && arg2==333/{@[probefunc]=count()}
			LIB:strlen:return,LIB:strchr:return/pid==$target/{@r[probefunc]=count()}
			END{printa("e %s %@d\n",@); printa("r %s %@d\n",@r);}`, "LIB", from)
		r := testkernel.Trace(t, "-qn", d, "-c", prog).OK(t)
		e, ret := counts(r.Stdout, "e"), counts(r.Stdout, "r")
		// The dynamic linker and the C library call some of them for themselves.
		if e["memcpy"] != "13" || !atLeast(e["strlen"], 11) || !atLeast(e["strchr"], 17) || ret["strlen"] != e["strlen"] || ret["strchr"] != e["strchr"] {
			t.Errorf("%s: entries %v, returns %v\n%s", from, e, ret, r.Stderr)
		}
	}
}

func atLeast(s string, n int) bool {
	v, err := strconv.Atoi(s)
	return err == nil && v >= n
}
