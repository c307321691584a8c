package tables

import "testing"

// What options do; their defaults, times and values are in the root package's
// TestOptions.
func TestOptions(t *testing.T) {
	q := func(option, body, out string) line {
		return line{name: option, cmd: `dtrace -qx '` + option + `' -n 'BEGIN { ` + body + ` exit(0); }'`, out: out}
	}
	refused := func(option, err string) line {
		return line{name: option + " refused", cmd: `dtrace -x '` + option + `' -n 'BEGIN { exit(0); }'`, err: err, status: 1}
	}
	const value = `: Invalid value for specified option$`
	sum := `@["b"] = sum(1); @["a"] = sum(2); @["c"] = sum(3);`
	row := func(key, n string) string {
		return "  " + key + "                                                                 " + n + "\n"
	}
	// A tick that fires once BEGIN is over, so that the second aggregation is another clause's.
	two := `@x["b"] = sum(1); @x["a"] = sum(2); @y["b"] = sum(5); @y["a"] = sum(4); printa(@x, @y); trunc(@x); trunc(@y);`
	twoRow := func(key, x, y string) string {
		return "  " + key + "                                                                 " + x + "                " + y + "\n"
	}
	check(t, "2.7", []line{
		// Memory.
		q("bufsize=16k", `printf("16k");`, "16k\n"),
		refused("bufsize=59", `^dtrace: could not enable tracing: Enabling exceeds size of buffer$`),
		{name: "bufpolicy=fill", cmd: `dtrace -qx bufpolicy=fill -x bufsize=4k -n 'tick-1ms { printf("%1000d", 1); } END { printf("end"); }' | tr -d ' \n'`, out: "111*"},
		{name: "bufpolicy=ring", cmd: `dtrace -qx bufpolicy=ring -x bufsize=4k -n 'tick-1ms { printf("%d ", n++); } tick-1ms /n > 1000/ { exit(0); }' | tr ' ' '\n' | grep -v '^$' | tail -1`, out: "1000\n"},
		q("bufsize=1g", `printf("b");`, "b\n"),
		q("bufresize=manual", `printf("m");`, "m\n"),
		{name: "aggsize", cmd: `dtrace -x aggsize=8 -n 'BEGIN { @ = count(); exit(0); }'`, err: `Enabling exceeds size of buffer$`, status: 1},
		{name: "dynvarsize", cmd: `dtrace -qx dynvarsize=1k -n 'syscall:::entry { a[n++] = 1; } tick-100ms { exit(0); }'`, out: "\n", err: `^dtrace: [0-9]+ dynamic variable drops`},
		{name: "specsize", cmd: `dtrace -qx specsize=16 -n 'BEGIN { s = speculation(); } BEGIN { speculate(s); printf("%d %d %d", 1, 2, 3); } BEGIN { commit(s); } BEGIN { exit(0); }'`, out: "\n", err: `^dtrace: 1 speculative drop`},
		{name: "nspec", cmd: `dtrace -qx nspec=2 -n 'BEGIN { a = speculation(); b = speculation(); c = speculation(); printf("%d %d %d", a, b, c); exit(0); }'`, out: "1 2 0\n", err: `^dtrace: 1 failed speculation \(no speculative buffer available\)$`},
		q("strsize=5", `printf("%s", strjoin("abc", "def"));`, "abcd\n"),
		{name: "scratchsize", cmd: `dtrace -qx scratchsize=16 -n 'BEGIN { n = 64; p = alloca(n); exit(0); } ERROR { printf("scratch %d", arg4); exit(0); }'`, out: "scratch 5\n", err: `: out of scratch space at BPF pc [0-9]+$`},
		// Stacks.
		{name: "stackframes", cmd: `dtrace -qx stackframes=2 -n 'syscall::exit_group:entry /pid == $target/ { stack(); }' -c /bin/true | grep -c +0x`, out: "2\n"},
		{name: "ustackframes", cmd: `dtrace -qx ustackframes=1 -n 'syscall::exit_group:entry /pid == $target/ { ustack(); }' -c /bin/true | grep -c '^  '`, out: "1\n"},
		{name: "jstackframes", cmd: `dtrace -qx jstackframes=1 -x jstackstrsize=100 -n 'syscall::exit_group:entry /pid == $target/ { jstack(); }' -c /bin/true | grep -c '^  '`, out: "1\n"},
		{name: "maxframes", cmd: `dtrace -qx maxframes=3 -n 'syscall::exit_group:entry /pid == $target/ { stack(); }' -c /bin/true | grep -c +0x`, out: "3\n"},
		{name: "cpu", cmd: `dtrace -qx cpu=0 -n 'tick-5ms { printf("%d", cpu); exit(0); }'`, out: "0\n"},
		{name: "cpu that is not there", cmd: `dtrace -x cpu=8191 -n 'BEGIN { exit(0); }'`, err: `could not enable tracing: option cpu: CPU 8191 is not online$`, status: 1},
		// Housekeeping.
		{name: "statusrate", cmd: `dtrace -qx statusrate=300ms -n 'BEGIN { t = timestamp; exit(0); } END { printf("%d", timestamp - t >= 200000000); }'`, out: "1\n"},
		q("cleanrate=1ms", `printf("c");`, "c\n"),
		q("destructive", `system("echo on");`, "on\n*"),
		q("temporal", `printf("t");`, "t\n"),
		{name: "noresolve", cmd: `dtrace -qx noresolve -n 'syscall::exit_group:entry /pid == $target/ { ustack(1); }' -c /bin/true`, out: "\n              *:0x*\n\n"},
		{name: "bpflog", cmd: `dtrace -qx bpflog -x bpflogsize=1m -n 'BEGIN { exit(0); }'`, out: "\n", err: `^BPF: `},
		q("lockmem=unlimited", `printf("l");`, "l\n"),
		q("pcapsize=64", `printf("p");`, "p\n"),
		// What setopt() changes as well.
		{name: "switchrate", cmd: `dtrace -qx switchrate=20ms -n 'BEGIN { printf("early\n"); } tick-30s { exit(0); }' >f & P=$!; until grep -q early f 2>/dev/null; do sleep 0.05; done; kill -INT $P; kill -TERM $P; wait $P; head -1 f`, out: "early\n"},
		q("aggrate=10ms", `@ = count();`, "\n                1\n"),
		q("aggsortkey", sum, "\n"+row("a", "2")+row("b", "1")+row("c", "3")),
		q("aggsortrev", sum, "\n"+row("c", "3")+row("a", "2")+row("b", "1")),
		q("aggsortpos=1", two, "\n"+twoRow("a", "2", "4")+twoRow("b", "1", "5")+"\n"),
		q("aggsortpos=0", two, "\n"+twoRow("b", "1", "5")+twoRow("a", "2", "4")+"\n"),
		{name: "aggsortkeypos", cmd: `dtrace -qx aggsortkey -x aggsortkeypos=1 -n 'BEGIN { @[1, 9] = count(); @[2, 8] = count(); printa("%d,%d;", @); trunc(@); exit(0); }'`, out: "2,8;1,9;\n"},
		{name: "flowindent", cmd: `dtrace -x flowindent -n 'BEGIN { exit(0); }'`, out: "CPU FUNCTION                                 \n  - | :BEGIN                                  \n\n"},
		{name: "quiet", cmd: `dtrace -x quiet -n 'BEGIN { printf("q"); exit(0); }'`, out: "q\n"},
		{name: "quiet by setopt", cmd: `dtrace -n 'BEGIN { setopt("quiet"); } tick-1ms { printf("q"); exit(0); }'`, out: "*q\n"},
		q("quietresize", `printf("q");`, "q\n"),
		{name: "rawbytes", cmd: `dtrace -qx rawbytes -n 'struct s { char c[2]; }; BEGIN { p = (struct s *)alloca(sizeof (struct s)); p->c[0] = 65; trace(*p); exit(0); }'`, out: block(`

             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef
         0: 41 00                                            A.

`)},
		{name: "stackindent", cmd: `dtrace -qx stackindent=3 -n 'syscall::exit_group:entry /pid == $target/ { stack(1); }' -c /bin/true`, out: "\n   *+0x*\n\n"},
		q("demangle=off", `printf("d");`, "d\n"),
		{name: "printsize", cmd: `dtrace -qx printsize=4 -n 'struct s { int a; int b; }; BEGIN { p = (struct s *)alloca(sizeof (struct s)); p->a = 1; p->b = 2; print(p); exit(0); }'`, out: "0x* = *\n                                            (struct s) {\n                                             .a = (int)1,\n                                             ...\n                                            }\n\n"},
		{name: "agghist", cmd: `dtrace -qx agghist -n 'BEGIN { @["a"] = sum(10); @["b"] = sum(30); exit(0); }'`, out: "\n\n              key  ------------- Distribution ------------- count    \n                a |@@@@@@@@@@                               10       \n                b |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           30       \n"},
		{name: "aggpack", cmd: `dtrace -qx aggpack -x encoding=ascii -n 'BEGIN { @["a"] = quantize(1); @["a"] = quantize(2); exit(0); }'`, out: "*a*x*"},
		// The largest bar is 95 % of the width.
		{name: "aggzoom", cmd: `dtrace -qx aggzoom -n 'BEGIN { @ = quantize(1); @ = quantize(4); @ = quantize(4); exit(0); }'`, out: block(`


           value  ------------- Distribution ------------- count    
               0 |                                         0        
               1 |@@@@@@@@@@@@@@@@@@@                      1        
               2 |                                         0        
               4 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@   2        
               8 |                                         0        

`)},
		{name: "errexit", cmd: `dtrace -x errexit -n 'BEGIN { trace(*(int *)8); }'`, out: "*", err: `Abort due to error`, status: 1},
		// The compiler.
		{name: "aggpercpu", cmd: `dtrace -qx aggpercpu -n 'BEGIN { @ = sum(7); exit(0); }'`, out: "*7*\n*"},
		{name: "amin", cmd: `dtrace -x amin=Evolving/Evolving/Common -x errtags -n 'BEGIN { trace(curthread->pid); }'`, err: `\[D_ATTR_MIN\]`, status: 1},
		{name: "argref", cmd: `dtrace -x argref -qn 'BEGIN { printf("a"); exit(0); }' unused`, out: "a\n"},
		{name: "cpp", cmd: `echo '#if 1
BEGIN { printf("c"); exit(0); }
#endif' >x.d; dtrace -x cpp -qs x.d`, out: "c\n"},
		{name: "cpphdrs", cmd: `echo >n.h; echo '#include "n.h"
BEGIN { exit(0); }' >x.d; dtrace -x cpp -x cpphdrs -qs x.d`, out: "\n", err: `^\. .*n\.h$`},
		{name: "cpppath", cmd: `printf '#!/bin/sh\nshift $#; sed s/NAME/cpp/\n' >cpp; chmod +x cpp; dtrace -C -x cpppath=$PWD/cpp -qn 'BEGIN { printf("NAME"); exit(0); }'`, out: "cpp\n"},
		{name: "cppargs", cmd: `printf '#!/bin/sh\ncat >/dev/null; echo "BEGIN { printf(\\"$#\\"); exit(0); }"\n' >cpp; chmod +x cpp; dtrace -C -x cpppath=$PWD/cpp -qn BEGIN >a; dtrace -C -x cpppath=$PWD/cpp -x 'cppargs=-a -b' -qn BEGIN >b; echo $(($(head -1 b) - $(head -1 a)))`, out: "2\n"},
		{name: "define and undef", cmd: `dtrace -C -x define=N=3 -x undef=M -qn 'BEGIN { printf("%d", N); exit(0); }'`, out: "3\n"},
		{name: "incdir", cmd: `mkdir i; echo 'BEGIN { printf("i"); exit(0); }' >i/n.h; echo '#include "n.h"' >x.d; dtrace -C -x incdir=i -qs x.d`, out: "i\n"},
		{name: "stdc", cmd: `echo '#if __STDC__
BEGIN { printf("c"); exit(0); }
#endif' >x.d; dtrace -C -x stdc=c -qs x.d`, out: "c\n"},
		{name: "ctypes and dtypes", cmd: `dtrace -x ctypes=c -x dtypes=d -qn 'struct mine { int x; }; BEGIN { exit(0); }'; grep -c mine d; grep -c mine c`, out: "\n1\n0\n", status: 1},
		{name: "debug", cmd: `dtrace -x debug -qn 'BEGIN { exit(0); }'`, out: "\n", err: `^libdtrace DEBUG [0-9]+: `},
		{name: "defaultargs", cmd: `dtrace -x defaultargs -qn 'BEGIN { printf("%d%s", $1, $$2); exit(0); }'`, out: "0\n"},
		{name: "disasm", cmd: `dtrace -x disasm=8 -qn 'BEGIN { exit(0); }'`, out: "\n", err: `^Disassembly of `},
		{name: "droptags", cmd: `dtrace -qx droptags -x nspec=1 -n 'BEGIN { a = speculation(); b = speculation(); exit(0); }'`, out: "\n", err: `^dtrace: \[DTRACEDROP_SPECUNAVAIL\] 1 failed speculation`},
		{name: "empty", cmd: `: >x.d; dtrace -x empty -es x.d; dtrace -x errtags -es x.d`, err: `\[D_EMPTY\]`, status: 1},
		{name: "encoding", cmd: `dtrace -qx aggpack -x encoding=utf8 -n 'BEGIN { @["a"] = quantize(1); exit(0); }'`, out: "*█*"},
		{name: "errtags", cmd: `dtrace -x errtags -n 'BEGIN { nothing; }'`, err: `\[D_IDENT_UNDEF\] in action list: failed to resolve nothing: Unknown variable name$`, status: 1},
		{name: "evaltime", cmd: `for e in exec preinit postinit main; do dtrace -x evaltime=$e -qn 'BEGIN { printf("'$e'"); exit(0); }' -c /bin/true; done`, out: "exec\npreinit\npostinit\nmain\n"},
		refused("evaltime=never", `^dtrace: failed to set -x evaltime`+value),
		{name: "iregs", cmd: `dtrace -x iregs=3 -n BEGIN`, err: `Insufficient registers to generate code$`, status: 1},
		{name: "tregs", cmd: `dtrace -x tregs=2 -n 'BEGIN { @[1, 2, 3] = count(); }'`, err: `Insufficient tuple registers to generate code$`, status: 1},
		{name: "kdefs and knodefs", cmd: "dtrace -x linkmode=dynamic -x knodefs -qn 'BEGIN { printf(\"%d\", &`schedule != NULL); exit(0); }'; dtrace -x linkmode=dynamic -x kdefs -qn 'BEGIN { trace(&`schedule); }'", out: "1\n", err: `relocation remains against kernel symbol`, status: 1},
		{name: "linkmode", cmd: "dtrace -x linkmode=static -qn 'BEGIN { printf(\"%d\", &`schedule != NULL); exit(0); }'", out: "1\n"},
		{name: "libdir", cmd: `mkdir l; echo 'inline int five = 5;' >l/x.d; dtrace -x libdir=l -qn 'BEGIN { printf("%d", five); exit(0); }'`, out: "5\n"},
		{name: "syslibdir", cmd: `mkdir l; echo 'inline int six = 6;' >l/x.d; dtrace -x syslibdir=l -qn 'BEGIN { printf("%d", six); exit(0); }'`, out: "6\n"},
		{name: "nolibs", cmd: `dtrace -x nolibs -n 'BEGIN { trace(SIGKILL); }'`, err: `failed to resolve SIGKILL`, status: 1},
		{name: "pspec", cmd: `echo 'BEGIN { printf("p"); exit(0); }' >x.d; dtrace -x pspec -qs x.d`, out: "p\n"},
		{name: "setenv and unsetenv", cmd: `A=1 dtrace -x setenv=B=2 -x unsetenv=A -qn BEGIN -c env | grep -E '^(A|B)='`, out: "B=2\n"},
		{name: "oformat", cmd: `dtrace -x oformat=json -n 'BEGIN { exit(0); }' | head -1`, out: "{\"dtrace\": {\"probes\": [\n"},
		{name: "tree", cmd: `dtrace -x tree=3 -en 'BEGIN { x = 5; }' 2>&1 | grep -c '^Parse tree (Pass'`, out: "2\n"},
		{name: "verbose", cmd: `dtrace -x verbose -en 'BEGIN { x = 5; }'`, err: `OPCODE`},
		{name: "version", cmd: `dtrace -x version=1.0 -en 'BEGIN { trace(strtoll("1")); }'`, err: `strtoll`, status: 1},
		{name: "version to come", cmd: `dtrace -x version=2.0.4 -en BEGIN && dtrace -x version=2.0.5 -en BEGIN`, err: `failed to set -x version: Operation not supported`, status: 1},
		{name: "zdefs", cmd: `dtrace -x zdefs -en nosuch:::`},
		{name: "by pragma", cmd: `printf '#pragma D option quiet\n#pragma D option strsize=4\nBEGIN { printf("%%s", "abcdef"); exit(0); }\n' >x.d; dtrace -s x.d`, out: "abc\n"},
		{name: "wrong by pragma", cmd: `printf '#pragma D option nosuch\nBEGIN {}\n' >x.d; dtrace -x errtags -s x.d`, err: `\[D_PRAGMA_OPTSET\] line 1: failed to set option 'nosuch'`, status: 1},
		{name: "setopt too late", cmd: `dtrace -qn 'BEGIN { setopt("bufsize", "1m"); exit(0); }'`, out: "\n", err: `couldn't set option "bufsize" to "1m": Operation illegal when tracing is active$`},
		// About making objects, or the insides of other implementations: taken, and no more.
		{name: "accepted", cmd: `for o in core=x ctfpath=x debugassert=mutexes dofstashpath=x late=dynamic lazyload ldpath=x linknommap linktype=dof modpath=x objcopypath=x pgmax=4 preallocate=1m procfspath=/proc strip sysslice udefs unodefs useruid=5 grabanon; do dtrace -x $o -qn 'BEGIN { printf("."); exit(0); }' | tr -d '\n' || echo $o; done`, out: "...................."},
	})
}
