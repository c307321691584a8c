package tables

import "testing"

// Options of the command line.
func TestCommandLine(t *testing.T) {
	check(t, "2.1", []line{
		{name: "-32", cmd: `dtrace -32 -qn 'BEGIN { printf("%d", sizeof (long)); exit(0); }'`, out: "4\n"},
		{name: "-64", cmd: `dtrace -64 -qn 'BEGIN { printf("%d", sizeof (long)); exit(0); }'`, out: "8\n"},
		{name: "-a", cmd: `dtrace -a`, err: `^dtrace: -a: anonymous tracing is not yet supported$`, status: 1},
		{name: "-A", cmd: `dtrace -A -n BEGIN`, err: `^dtrace: -A: anonymous tracing is not yet supported$`, status: 1},
		{name: "-b", cmd: `dtrace -b 64k -qn 'BEGIN { printf("in 64k"); exit(0); }'`, out: "in 64k\n"},
		{name: "-b wrong", cmd: `dtrace -b much -n BEGIN`, err: `^dtrace: failed to set -b much: Invalid value for specified option$`, status: 1},
		{name: "-B", cmd: `dtrace -B -n 'BEGIN { trace(1); exit(0); }'`, err: `matched 1 probe`},
		{name: "-c", cmd: `dtrace -qn 'BEGIN { ok = $target > 1; } END { printf("%d", ok); }' -c /bin/true`, out: "1\n"},
		{name: "no -c", cmd: `dtrace -qn 'BEGIN { printf("%d", $target); exit(0); }'`, out: "0\n"},
		{name: "-C", cmd: `printf '#define N 7\nBEGIN { printf("%%d", N); exit(0); }\n' >x.d; dtrace -Cqs x.d`, out: "7\n"},
		{name: "-C with headers", cmd: `for h in stddef.h stdint.h sys/types.h sys/mman.h fcntl.h signal.h stdio.h pthread.h netinet/in.h; do
			[ $h = stddef.h -o -e /usr/include/$h -o -e /usr/include/x86_64-linux-gnu/$h ] || continue
			printf '#include <%s>\nBEGIN { trace(sizeof (int)); }\n' $h >x.d; dtrace -Ces x.d 2>&1; done`},
		{name: "-D", cmd: `dtrace -C -D N=8 -qn 'BEGIN { printf("%d", N); exit(0); }'`, out: "8\n"},
		{name: "-U", cmd: `printf '#ifdef __linux\nBEGIN { printf("on"); exit(0); }\n#else\nBEGIN { printf("off"); exit(0); }\n#endif\n' >x.d; dtrace -C -U __linux -qs x.d`, out: "off\n"},
		{name: "-I", cmd: `mkdir i; echo '#define N 9' >i/n.h; printf '#include "n.h"\nBEGIN { printf("%%d", N); exit(0); }\n' >x.d; dtrace -C -I i -qs x.d`, out: "9\n"},
		{name: "-H", cmd: `mkdir i; echo >i/n.h; printf '#include "n.h"\nBEGIN { exit(0); }\n' >x.d; dtrace -CH -I i -qs x.d`, out: "\n", err: `^\. i/n\.h$`},
		{name: "-X", cmd: `printf '#if __STDC__\nBEGIN { printf("c"); exit(0); }\n#else\nBEGIN { printf("a"); exit(0); }\n#endif\n' >x.d; dtrace -C -Xc -qs x.d; dtrace -C -Xa -qs x.d`, out: "c\na\n"},
		{name: "-d", cmd: `dtrace -d -e -n 'BEGIN{x=1+2*3;}'`, out: "*x = 1 + 2 * 3;*"},
		{name: "-e", cmd: `dtrace -e -n 'BEGIN { trace(1); }'; dtrace -e -n 'BEGIN { nothing; }'`, err: `^dtrace: invalid probe specifier BEGIN \{ nothing; \}: `, status: 1},
		{name: "-f", cmd: `dtrace -lf read`, out: "   ID   PROVIDER            MODULE                          FUNCTION NAME\n*    syscall           vmlinux                              read entry\n*"},
		{name: "-m", cmd: `dtrace -lm syscall:vmlinux | grep -c ' read entry$'`, out: "1\n"},
		{name: "-n", cmd: `dtrace -qn 'BEGIN { printf("n"); }' -n 'BEGIN /1 == 1/ { exit(0); }'`, out: "n\n"},
		{name: "-P", cmd: `dtrace -lP dtrace`, out: block(`
   ID   PROVIDER            MODULE                          FUNCTION NAME
    1     dtrace                                                     BEGIN
    2     dtrace                                                     END
    3     dtrace                                                     ERROR
`)},
		{name: "-i", cmd: `dtrace -qi '1 /1/ { printf("one"); exit(0); }'`, out: "one\n"},
		{name: "-F", cmd: `dtrace -Fn 'BEGIN { exit(0); }'`, out: "CPU FUNCTION                                 \n  - | :BEGIN                                  \n\n"},
		{name: "-G", cmd: `echo 'BEGIN {}' >x.d; dtrace -G -s x.d`, err: `^dtrace: `, status: 1},
		{name: "-h", cmd: `echo 'provider p { probe q(); };' >x.d; dtrace -h -s x.d`, err: `^dtrace: `, status: 1},
		{name: "-l", cmd: `dtrace -ln BEGIN`, out: block(`
   ID   PROVIDER            MODULE                          FUNCTION NAME
    1     dtrace                                                     BEGIN
`)},
		{name: "-lv", cmd: `dtrace -lvn BEGIN`, out: block(`
   ID   PROVIDER            MODULE                          FUNCTION NAME
    1     dtrace                                                     BEGIN

	Probe Description Attributes
		Identifier Names: Stable
		Data Semantics:   Stable
		Dependency Class: Common

	Argument Attributes
		Identifier Names: Stable
		Data Semantics:   Stable
		Dependency Class: Common

	Argument Types
		None

*`)},
		{name: "-L", cmd: `mkdir l; echo 'inline int seven = 7;' >l/seven.d; dtrace -L l -qn 'BEGIN { printf("%d", seven); exit(0); }'`, out: "7\n"},
		{name: "-o", cmd: `dtrace -qo f -n 'BEGIN { printf("1"); exit(0); }'; dtrace -qo f -n 'BEGIN { printf("2"); exit(0); }'; tr -d '\n' <f`, out: "12"},
		{name: "-p", cmd: `sleep 30 & dtrace -qn 'BEGIN { printf("%d", $target == '$!'); exit(0); }' -p $!; kill $!`, out: "1\n"},
		{name: "-p wrong", cmd: `dtrace -p x -n BEGIN`, err: `^dtrace: invalid pid: x$`, status: 1},
		{name: "-q", cmd: `dtrace -qn 'BEGIN { trace(1); exit(0); }'`, out: "1\n"},
		{name: "-s", cmd: `echo 'BEGIN { printf("%s %d", $$1, $2); exit(0); }' >x.d; dtrace -qs x.d a 2`, out: "a 2\n"},
		{name: "-s stdin", cmd: `echo 'BEGIN { printf("in"); exit(0); }' | dtrace -qs -`, out: "in\n"},
		{name: "-S", cmd: `dtrace -Se -n 'BEGIN { x = 5; }'`, err: `INS +OFF|OFF +OPCODE|DIFO`},
		{name: "-v", cmd: `dtrace -ven 'BEGIN { trace(1); }'`, out: `*Minimum Probe Description Attributes
		Identifier Names: Stable
		Data Semantics:   Stable
		Dependency Class: Common

	Minimum Statement Attributes
		Identifier Names: Stable
		Data Semantics:   Stable
		Dependency Class: Common
*`},
		{name: "-V", cmd: `dtrace -V | sed 's/[0-9.]*[0-9]/N/g'`, out: "dtrace: D N (godtrace N)\n"},
		{name: "-w", cmd: `dtrace -wqn 'BEGIN { system("echo did"); exit(0); }'`, out: "did\n*"},
		{name: "-w missing", cmd: `dtrace -qn 'BEGIN { system("echo did"); exit(0); }'`, err: `^dtrace: could not enable tracing: Destructive actions not allowed$`, status: 1},
		{name: "-x", cmd: `dtrace -x quiet -n 'BEGIN { printf("q"); exit(0); }'`, out: "q\n"},
		{name: "-x wrong", cmd: `dtrace -x nosuch -n BEGIN`, err: `^dtrace: failed to set -x nosuch: Invalid option name$`, status: 1},
		{name: "-O", cmd: `dtrace -x oformat=ndjson -n 'BEGIN { trace(3); exit(0); }'`, out: "{*\"name\": \"BEGIN\", \"output\": [{\"value\": 3}]}\n"},
		{name: "-Z", cmd: `dtrace -Zqn 'nosuch:::x { trace(1); }' -n 'BEGIN { printf("b"); exit(0); }'`, out: "b\n"},
		{name: "-Z missing", cmd: `dtrace -n nosuch:::x`, err: `^dtrace: invalid probe specifier nosuch:::x: probe description nosuch:::x does not match any probes$`, status: 1},
		{name: "env DTRACE_OPT_quiet", cmd: `DTRACE_OPT_quiet= dtrace -n 'BEGIN { printf("e"); exit(0); }'`, out: "e\n"},
		{name: "env DTRACE_DEBUG", cmd: `DTRACE_DEBUG=1 dtrace -qn 'BEGIN { exit(0); }'`, out: "\n", err: `^libdtrace DEBUG [0-9]+: `},
		{name: "status 0", cmd: `dtrace -qn 'BEGIN { exit(0); }'`, out: "\n"},
		{name: "status of exit()", cmd: `dtrace -qn 'BEGIN { exit(42); }'`, out: "\n", status: 42},
		{name: "status 1", cmd: `dtrace -n 'BEGIN {'`, err: `^dtrace: invalid probe specifier`, status: 1},
		{name: "status 2", cmd: `dtrace -l -V`, err: `^dtrace: only one of the \[-GhlV\] options can be specified at a time$`, status: 2},
		{name: "stdout full", cmd: `dtrace -n 'BEGIN { trace(1); exit(0); }' >/dev/full`, err: `^dtrace: failed to write to <stdout>: No space left on device$`, status: 1},
		{name: "stdout closed", cmd: `dtrace -n 'BEGIN { trace(1); exit(0); }' >&-`, err: `^dtrace: failed to write to <stdout>: Bad file descriptor$`, status: 1},
	})
}

// Actions; subroutines and their values are in test/meaning.
func TestActions(t *testing.T) {
	q := func(name, body, out string) line {
		return line{name: name, cmd: `dtrace -wqn 'BEGIN { ` + body + ` exit(0); }' `, out: out}
	}
	check(t, "2.4", []line{
		q("trace", `trace(7); trace("x");`, "7x\n"),
		q("tracemem", `tracemem("AB", 2);`, block(`

             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef
         0: 41 42                                            AB

`)),
		q("printf", `printf("%d-%s-%c-%x\n", 5, "s", 67, 255);`, "5-s-C-ff\n\n"),
		q("printa", `@["k"] = sum(3); printa("%s=%@d\n", @); clear(@); trunc(@);`, "k=3\n\n"),
		q("printa of two", `@a["k"] = sum(3); @b["k"] = count(); printa("%s %@d %@d\n", @a, @b); trunc(@a); trunc(@b);`, "k 3 1\n\n"),
		q("print", `p = (int *)alloca(4); *p = 9; print(p);`, "0x* = *\n                                            (int)9\n\n"),
		{name: "stack", cmd: `dtrace -qn 'syscall::exit_group:entry /pid == $target/ { stack(1); }' -c /bin/true`, out: "\n              *+0x*\n\n"},
		{name: "ustack", cmd: `dtrace -qn 'syscall::exit_group:entry /pid == $target/ { ustack(1); }' -c /bin/true`, out: "\n              *`*\n\n"},
		q("sym func mod", "mod((uint64_t)&`schedule); sym((uint64_t)&`schedule); func((uint64_t)&`schedule);", "*vmlinux*vmlinux`schedule*vmlinux`schedule*"),
		q("exit", `printf("a"); exit(0);`, "a\n"),
		q("normalize", `@ = sum(100); normalize(@, 10);`, "\n               10\n"),
		q("denormalize", `@ = sum(100); normalize(@, 10); denormalize(@);`, "\n              100\n"),
		q("clear", `@["k"] = sum(100); clear(@);`, "\n  k                                                                 0\n"),
		q("trunc", `@["a"] = sum(1); @["b"] = sum(2); @["c"] = sum(3); trunc(@, 2);`, "\n  b                                                                 2\n  c                                                                 3\n"),
		q("trunc of the smallest", `@["a"] = sum(1); @["b"] = sum(2); @["c"] = sum(3); trunc(@, -1);`, "\n  a                                                                 1\n"),
		q("trunc of all", `@["a"] = sum(1); trunc(@);`, "\n"),
		{name: "speculation commit", cmd: `dtrace -qn 'BEGIN { s = speculation(); } BEGIN { speculate(s); printf("kept"); } BEGIN { commit(s); } BEGIN { exit(0); }'`, out: "kept\n"},
		{name: "speculation discard", cmd: `dtrace -qn 'BEGIN { s = speculation(); } BEGIN { speculate(s); printf("lost"); } BEGIN { discard(s); } BEGIN { exit(0); }'`, out: "\n"},
		{name: "setopt", cmd: `dtrace -n 'BEGIN { setopt("quiet"); } BEGIN { printf("q"); exit(0); }'`, out: "*q\n"},
		q("freopen", `freopen("f"); printf("in"); freopen(""); system("cat f");`, "in*"),
		q("ftruncate", `freopen("f"); printf("long text"); ftruncate(); printf("short"); freopen(""); system("cat f");`, "short*"),
		q("system", `system("echo %d %s", 3, "x");`, "3 x\n*"),
		{name: "raise", cmd: `dtrace -wqn 'syscall::exit_group:entry /pid == $target/ { printf("raised"); raise(SIGUSR2); }' -c /bin/true`, out: "raised\n"},
		{name: "stop", cmd: `dtrace -wqn 'syscall::clock_nanosleep:entry /pid == $target && !n++/ { stop(); system("until grep -q stopped /proc/%d/status; do sleep 0.01; done; echo stopped; kill -CONT %d", pid, pid); }' -c 'sleep 0.01'`, out: "stopped\n*"},
		{name: "chill", cmd: `dtrace -wqn 'BEGIN { t = timestamp; } BEGIN { chill(1000000); } BEGIN { printf("%d", timestamp - t >= 1000000); exit(0); }'`, out: "1\n", needs: "may_goto"},
		{name: "breakpoint", cmd: `dtrace -wn 'BEGIN { breakpoint(); }'`, err: `breakpoint`, status: 1},
		{name: "panic", cmd: `dtrace -n 'BEGIN { panic(); }'`, err: `Destructive actions not allowed$`, status: 1}, // with -w it would
		{name: "return", cmd: `dtrace -x errtags -n 'BEGIN { return(1); }'`, err: `^dtrace: .*return|Destructive`, status: 1},
		q("subroutines", `printf("%s %d %s %s", strjoin("a", "b"), strlen("abc"), basename("/x/y"), lltostr(-3));`, "ab 3 y -3\n"),
	})
}
