package pid

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"godtrace/internal/testkernel"
)

// everything is every function of every object of the target.
const everything = "pid$target:::entry, pid$target:::return"

// TestPrograms traces programs that nobody here wrote, whole libraries of them,
// by -c. Each prints what it prints untraced and ends as it ends; and how often
// it and its children call the allocator is what a library preloaded into them
// counts. What else a row counts follows from what its script does.
func TestPrograms(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.7", "0.9", "3.4")
	counter := testkernel.Compile(t, "testdata/count.c", "-O2", "-shared", "-fPIC")
	python := "python3"
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		python = "/usr/bin/python3" // one on the path may be a script
	}
	for _, c := range []struct {
		name  string
		needs string // a program, if it is not the name
		make  func(t *testing.T) []string
		trace string // what is traced beside, everything if empty
		want  map[string]int
		// own tells that the program does without the C library's allocator.
		own bool
	}{
		{name: "bash", make: script("a.sh", `
			for i in {1..10}; do kill -0 $$; x=${i}abc; y=$(echo $x); [[ $y == 1* ]] && echo $y; done | sort | uniq -c | tail -3
			for i in {1..7}; do kill -0 $$; done
			[[ abc =~ ^a.c$ ]] && printf '%s %5.2f\n' yes 3.14159; exit 7`, "bash"),
			want: map[string]int{"libc.so.6:kill:entry": 7}},
		{name: "perl", make: script("a.pl", `
			my %h; $h{$_} = sprintf("%05.1f", sqrt $_) for 1..100; eval { die "x" }; print $@;
			for (1..13) { my @a = sort { $h{$a} <=> $h{$b} || $a <=> $b } keys %h; print $a[$_] }
			print getppid() > 0 for 1..11; print `+"`echo hello`"+`; exit 3`, "perl"),
			want: map[string]int{"a.out:Perl_pp_sort:entry": 13, "a.out:Perl_pp_sort:return": 13, "libc.so.6:getppid:return": 11}},
		{name: "python3", needs: python, make: script("a.py", `
import os, json, threading
print(json.dumps(sorted([str(i**3) for i in range(300)])[:9]))
for i in range(50): os.getppid()
ts = [threading.Thread(target=lambda: [os.getpgid(0) for i in range(5)]) for i in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
try: 1/0
except Exception as e: print(e)
os.abort()`, python, "-S"),
			trace: "pid$target:a.out:Py*:entry, pid$target:a.out:Py*:return, pid$target:libc.so.6::entry, pid$target:libc.so.6::return",
			want:  map[string]int{"libc.so.6:getppid:entry": 50, "libc.so.6:getppid:return": 50, "libc.so.6:getpgid:entry": 20, "libc.so.6:abort:entry": 1}},
		{name: "gcc", make: func(t *testing.T) []string {
			return []string{"gcc", "-O2", "-S", "-o-", source(t, "c.c", "#include <stdio.h>\nint main(void) { for (int i = 0; i < 9; i++) puts(\"x\"); return 0; }\n")}
		}},
		{name: "compiler", needs: "gcc", make: func(t *testing.T) []string {
			cc1, err := exec.Command("gcc", "-print-prog-name=cc1").Output()
			if err != nil {
				t.Skipf("SKIP-FEATURE: gcc: %v", err)
			}
			return []string{strings.TrimSpace(string(cc1)), "-quiet", "-O2", "-o", "-", source(t, "c.c", "int f(int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += p[i] / 3; return s; }\n")}
		}, trace: "pid$target:libc.so.6::entry, pid$target:libc.so.6::return"},
		{name: "C++ that throws", needs: "g++", make: func(t *testing.T) []string { return []string{testkernel.Compile(t, "testdata/throws.cc", "-O2")} },
			trace: everything + ", pid$target:a.out::", // every instruction of it
			want:  map[string]int{"a.out:_Z1fi:entry": 33, "a.out:_Z1fi:return": 20, "libstdc++*:__cxa_throw:entry": 13}},
		{name: "Rust", needs: "rustc", make: func(t *testing.T) []string {
			out := filepath.Join(t.TempDir(), "rusty")
			if msg, err := exec.Command("rustc", "-O", "-o", out, "testdata/rusty.rs").CombinedOutput(); err != nil {
				t.Skipf("SKIP-FEATURE: rustc: %v\n%s", err, msg)
			}
			return []string{out}
		}, want: map[string]int{"a.out:counted_work:entry": 4, "a.out:counted_work:return": 4}},
		{name: "go", make: func(t *testing.T) []string {
			return []string{"go", "build", "-a=false", "-o", filepath.Join(t.TempDir(), "x"), "../trigger/calls"}
		},
			trace: "pid$target:a.out:cmd*:entry, pid$target:a.out:cmd*:return, pid$target:a.out:os*:entry, pid$target:a.out:os*:return, pid$target:a.out:runtime.g*:return",
			want:  map[string]int{"a.out:main.main:entry": 1}, own: true},
	} {
		if _, vm := testkernel.InVM(); vm && c.name != "C++ that throws" {
			continue // what a guest has not; see TestUnharmed
		}
		t.Run(c.name, func(t *testing.T) {
			if c.needs == "" {
				c.needs = c.name
			}
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skipf("SKIP-FEATURE: %s", c.needs)
			}
			argv := c.make(t)
			dir := t.TempDir()
			os.Chmod(dir, 0o777)
			env := append(os.Environ(), "LC_ALL=C", "CGO_ENABLED=0")
			if !c.own {
				env = append(env, "COUNT_DIR="+dir, "LD_PRELOAD="+counter)
			}
			plain := exec.Command(argv[0], argv[1:]...)
			plain.Env = env
			var out, errb bytes.Buffer
			plain.Stdout, plain.Stderr = &out, &errb
			plain.Run()
			clear(dir)

			var d strings.Builder
			if !c.own {
				d.WriteString(`pid$target:libc.so.6:malloc:entry,pid$target:libc.so.6:calloc:entry,pid$target:libc.so.6:realloc:entry { @entry[probefunc] = count(); }
					pid$target:libc.so.6:malloc:return,pid$target:libc.so.6:calloc:return,pid$target:libc.so.6:realloc:return { @return[probefunc] = count(); }
					pid*:libc.so.6:malloc:entry,pid*:libc.so.6:calloc:entry,pid*:libc.so.6:realloc:entry/progenyof($target)/ { @all[pid, probefunc] = count(); }
					END { printa("entry %s %@d\n", @entry); printa("return %s %@d\n", @return); printa("all %d/%s %@d\n", @all); }` + "\n")
			}
			for i, desc := range slices.Sorted(maps.Keys(c.want)) {
				fmt.Fprintf(&d, "pid$target:%s { @want%d = count(); } END { printa(\"want %s %%@d\\n\", @want%d); }\n", desc, i, desc, i)
			}
			switch _, vm := testkernel.InVM(); {
			case oneByOne():
				c.trace = "pid$target:a.out:_Z*:"
			case vm:
				c.trace = "pid$target:libstdc++*:*throw*:entry, pid$target:libgcc_s*::entry, pid$target:libgcc_s*::return, pid$target:a.out::"
			case c.trace == "":
				c.trace = everything
			}
			fmt.Fprintf(&d, "%s { @ = count(); } END { printa(\"firings all %%@d\\n\", @); printf(\"target pid %%d\\n\", $target); }", c.trace)
			for i, a := range argv {
				if strings.ContainsAny(a, " '\"") {
					t.Fatalf("argument %d, %q, cannot be said to -c", i, a)
				}
			}
			results := filepath.Join(t.TempDir(), "out")
			tracer := exec.Command(testkernel.Godtrace(t), "-xaggsize=16m", "-o", results, "-n", d.String(), "-c", strings.Join(argv, " "))
			tracer.Env = env
			var tout, terr bytes.Buffer
			tracer.Stdout, tracer.Stderr = &tout, &terr
			if err := tracer.Run(); err != nil {
				t.Fatalf("%v\n%s", err, &terr)
			}
			testkernel.Lost(t, terr.String())
			if !bytes.Equal(tout.Bytes(), out.Bytes()) {
				t.Errorf("traced, it prints\n%s\nuntraced\n%s", &tout, &out)
			}
			if got := programErrors(terr.String()); got != errb.String() {
				t.Errorf("traced, it complains\n%s\nuntraced\n%s", got, &errb)
			}
			end := "has exited\n"
			if code := plain.ProcessState.ExitCode(); code > 0 {
				end = fmt.Sprintf("exited with status %d\n", code)
			} else if code < 0 {
				end = "terminated by SIG"
			}
			if !strings.Contains(terr.String(), end) {
				t.Errorf("traced, it does not end by %q:\n%s", end, &terr)
			}
			got := readCounts(t, results)
			for desc, n := range c.want {
				if got["want "+desc] != n {
					t.Errorf("%s fired %d times, want %d", desc, got["want "+desc], n)
				}
			}
			if got["firings all"] < 100 {
				t.Errorf("%d firings of all", got["firings all"])
			}
			if !c.own {
				compareAllocations(t, dir, got)
			}
		})
	}
}

// script makes a row's command of an interpreter and a script.
func script(name, text string, argv ...string) func(t *testing.T) []string {
	return func(t *testing.T) []string { return append(slices.Clone(argv), source(t, name, text)) }
}

func clear(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, n := range names {
		os.Remove(n)
	}
}

// readCounts reads lines "WORD NAME NUMBER".
func readCounts(t *testing.T, file string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]int{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if n := len(f); n > 3 {
			f = f[n-3:] // behind CPU, ID and probe
		}
		if len(f) == 3 && strings.Trim(f[2], "0123456789") == "" {
			n, err := strconv.Atoi(f[2])
			if err != nil {
				t.Fatalf("%q", line)
			}
			m[f[0]+" "+f[1]] = n
		}
	}
	return m
}

// compareAllocations holds counts against the files of testdata/count.c: those
// of the target since it began, those of its children altogether.
func compareAllocations(t *testing.T, dir string, got map[string]int) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	sum := 0
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil || len(b) < 56 {
			t.Fatalf("%s: %v", name, err)
		}
		pid, _ := strconv.Atoi(filepath.Base(name))
		for i, fn := range []string{"malloc", "calloc", "realloc"} {
			n := int(binary.NativeEndian.Uint64(b[8*i:]))
			if pid == got["target pid"] {
				n -= int(binary.NativeEndian.Uint64(b[32+8*i:]))
				for _, name := range []string{"entry", "return"} {
					if got[name+" "+fn] != n {
						t.Errorf("%s %s: %d times, want %d", fn, name, got[name+" "+fn], n)
					}
				}
			}
			if g := got[fmt.Sprintf("all %d/%s", pid, fn)]; g != n {
				t.Errorf("%s in process %d: %d times, want %d", fn, pid, g, n)
			}
			sum += n
		}
	}
	if sum == 0 {
		t.Errorf("%d processes counted no allocation", len(names))
	}
}

// A server is a program that is traced while it answers.
type server struct {
	name string
	// start returns the command of a server that listens on port, with dir to
	// write to.
	start func(t *testing.T, dir string, port int) *exec.Cmd
	// load makes n requests.
	load func(t *testing.T, dir string, port, n int)
	// ready, if not nil, waits until a server that listens also answers.
	ready func(t *testing.T, port int)
	// each request fires these once; the whole is traced beside.
	each  []string
	trace string
	extra string // options
	end   syscall.Signal
}

var servers = []server{
	{
		name: "nginx", end: syscall.SIGQUIT,
		start: func(t *testing.T, dir string, port int) *exec.Cmd {
			os.WriteFile(filepath.Join(dir, "index.html"), []byte(page), 0o644)
			conf := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/err;
				events {} http { access_log %[1]s/log; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f;
				uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s; server { listen 127.0.0.1:%[2]d; root %[1]s; } }`, dir, port)
			os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o644)
			return exec.Command(find(t, "nginx"), "-e", dir+"/err", "-c", dir+"/conf")
		},
		load: func(t *testing.T, dir string, port, n int) {
			for range n {
				r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(r.Body)
				r.Body.Close()
				if string(b) != page || err != nil {
					t.Fatalf("%q, %v", b, err)
				}
			}
		},
		each:  []string{"nginx:ngx_http_create_request:entry", "nginx:ngx_http_create_request:return", "nginx:ngx_http_process_request:entry"},
		trace: "pid$target:nginx::entry, pid$target:nginx::return, pid$target:libc.so.6::entry, pid$target:libc.so.6::return",
	},
	{
		name: "redis", end: syscall.SIGTERM,
		start: func(t *testing.T, dir string, port int) *exec.Cmd {
			return exec.Command(find(t, "redis-server"), "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--dir", dir)
		},
		load: func(t *testing.T, dir string, port, n int) {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			in := bufio.NewReader(c)
			for i := range n {
				fmt.Fprintf(c, "INCR counter\r\n")
				if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, ":") {
					t.Fatalf("%d: %q, %v", i, line, err)
				}
			}
		},
		each:  []string{"a.out:call:entry", "a.out:call:return", "a.out:processCommand:entry"},
		trace: "pid$target:a.out::entry, pid$target:a.out::return, pid$target:libc.so.6::entry, pid$target:libc.so.6::return",
	},
	{
		name: "postgres", end: syscall.SIGINT, extra: "-xfollowfork",
		start: func(t *testing.T, dir string, port int) *exec.Cmd {
			who, err := user.Lookup("postgres")
			if err != nil {
				t.Skip("SKIP-FEATURE: a user for postgres")
			}
			uid, _ := strconv.Atoi(who.Uid)
			gid, _ := strconv.Atoi(who.Gid)
			for d := dir; d != "/" && d != "/tmp"; d = filepath.Dir(d) {
				os.Chmod(d, 0o755)
			}
			data := filepath.Join(dir, "data")
			os.Mkdir(data, 0o700)
			os.Chown(data, uid, gid)
			run := func(name string, args ...string) *exec.Cmd {
				cmd := exec.Command(find(t, name), args...)
				cmd.Dir = "/"
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
				return cmd
			}
			find(t, "pgbench")
			if out, err := run("initdb", "-D", data, "-A", "trust", "-N", "-U", "postgres").CombinedOutput(); err != nil {
				t.Fatalf("initdb: %v\n%s", err, out)
			}
			return run("postgres", "-D", data, "-k", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "autovacuum=off", "-F")
		},
		ready: func(t *testing.T, port int) {
			isready := find(t, "pg_isready")
			for end := time.Now().Add(testkernel.Patience()); ; time.Sleep(20 * time.Millisecond) {
				out, err := exec.Command(isready, "-h", "127.0.0.1", "-p", strconv.Itoa(port)).CombinedOutput()
				if err == nil {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("postgres does not answer: %s", out)
				}
			}
		},
		load: func(t *testing.T, dir string, port, n int) {
			q := source(t, "one.sql", "select 1;\n")
			cmd := exec.Command(find(t, "pgbench"), "-n", "-f", q, "-c2", "-t", strconv.Itoa(n/2), "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "postgres", "postgres")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), fmt.Sprintf("actually processed: %d/%d", n, n)) {
				t.Fatalf("pgbench: %v\n%s", err, out)
			}
		},
		each:  []string{"postgres:pg_parse_query:entry", "postgres:pg_parse_query:return", "a.out:standard_ExecutorRun:return"},
		trace: "pid$target:postgres::entry, pid$target:postgres::return",
	},
}

const page = "a page\n"

// find is the path of a program that may not be on the path.
func find(t *testing.T, name string) string {
	t.Helper()
	// What Debian has on the path of postgres chooses among versions of it.
	more, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	for _, p := range append(more, "/usr/sbin/"+name) {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	p, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIP-FEATURE: %s", name)
	}
	return p
}

// TestServers traces servers, each function of them, while they answer: by -p
// and, those of one process, by -c. The number of requests is what was asked.
func TestServers(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.13")
	const requests = 60
	for _, s := range servers {
		for _, way := range []string{"-p", "-c"} {
			if way == "-c" && s.extra != "" {
				continue
			}
			t.Run(s.name+" "+way, func(t *testing.T) {
				dir, port := t.TempDir(), freePort(t)
				srv := s.start(t, dir, port)
				var d strings.Builder
				for i, desc := range s.each {
					// A clause of its own each: two descriptions of one probe are two enablings.
					fmt.Fprintf(&d, "pid$target:%s { @each%d = count(); } END { printa(\"each %s %%@d\\n\", @each%d); }\n", desc, i, desc, i)
				}
				fmt.Fprintf(&d, "%s { @ = count(); } END { printa(\"firings all %%@d\\n\", @); }", s.trace)
				results := filepath.Join(t.TempDir(), "out")
				args := []string{"-qxmaxprobes=1000000", "-o", results, "-n", d.String(), "-n", `BEGIN{system("echo traced >&2");}`, "-w"}
				if s.extra != "" {
					args = append(args, s.extra)
				}
				var tracer *testkernel.Tracer
				if way == "-p" {
					if err := srv.Start(); err != nil {
						t.Fatal(err)
					}
					ended := make(chan error, 1)
					go func() { ended <- srv.Wait() }()
					defer func() { srv.Process.Kill(); <-ended }()
					listening(t, port)
					if s.ready != nil {
						s.ready(t, port)
					}
					s.load(t, dir, port, 2)
					tracer = testkernel.Start(t, append(args, "-p", strconv.Itoa(srv.Process.Pid))...)
					waitFor(t, tracer, "traced\n")
					s.load(t, dir, port, requests)
					tracer.Interrupt()
					s.load(t, dir, port, 2) // not traced any more, it goes on
					srv.Process.Signal(s.end)
					err := <-ended
					ended <- nil
					if err != nil {
						t.Errorf("the server's end: %v", err)
					}
				} else {
					tracer = testkernel.Start(t, append(args, "-c", strings.Join(quoted(srv.Args), " "))...)
					waitFor(t, tracer, "traced\n")
					listening(t, port)
					s.load(t, dir, port, requests)
					child := childOf(t, tracer.Cmd.Process.Pid)
					syscall.Kill(child, s.end)
					if r := tracer.Wait(); r.Err != nil || strings.Contains(r.Stderr, "terminated by") {
						t.Errorf("%v\n%s", r.Err, r.Stderr)
					}
				}
				testkernel.Lost(t, tracer.Err.String())
				got := readCounts(t, results)
				for _, desc := range s.each {
					// What pgbench and a health check ask beside goes to no parser
					// more than twice.
					n := got["each "+desc]
					if s.name == "postgres" && n >= requests && n <= requests+2 {
						continue
					}
					if n != requests {
						t.Errorf("%s: %d times, want %d", desc, n, requests)
					}
				}
				if got["firings all"] < 20*requests {
					t.Errorf("%d firings of all", got["firings all"])
				}
			})
		}
	}
}

// quoted leaves out empty arguments: -c splits its command at blanks, and cannot
// say them.
func quoted(args []string) []string {
	var out []string
	for i, a := range args {
		if a == "" {
			out = out[:len(out)-1] // and the option it is the value of
			continue
		}
		if i == 0 {
			a, _ = exec.LookPath(a)
		}
		out = append(out, a)
	}
	return out
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func listening(t *testing.T, port int) {
	t.Helper()
	for end := time.Now().Add(testkernel.Patience()); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			c.Close()
			return
		}
	}
	t.Fatal("the server does not listen")
}

func waitFor(t *testing.T, tr *testkernel.Tracer, word string) {
	t.Helper()
	for end := time.Now().Add(testkernel.Patience()); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(tr.Err.String(), word) {
			return
		}
	}
	tr.Cmd.Process.Kill()
	t.Fatalf("no %q: %s", word, tr.Err.String())
}

// childOf is the process that a tracer started by -c.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	err := errors.New("none")
	for _, name := range list {
		b, _ := os.ReadFile(name)
		for _, f := range strings.Fields(string(b)) {
			var child int
			if child, err = strconv.Atoi(f); err == nil {
				return child
			}
		}
	}
	t.Fatalf("children of %d: %v", pid, err)
	return 0
}
