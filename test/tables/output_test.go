package tables

import "testing"

// The look of the output.
func TestOutput(t *testing.T) {
	on := func(name, body, out string) line {
		return line{name: name, cmd: `dtrace -n 'BEGIN { ` + body + ` exit(0); }'`, out: "CPU     ID                    FUNCTION:NAME\n  -      #                           :BEGIN " + out + "\n"}
	}
	q := func(name, body, out string) line {
		return line{name: name, cmd: `dtrace -qn 'BEGIN { ` + body + ` exit(0); }'`, out: out}
	}
	const kind = "  ------------- Distribution ------------- count    \n"
	at := `syscall::exit_group:entry /pid == $target/ { `
	check(t, "2.10", []line{
		on("header and line", ``, "\n"),
		on("trace 1 byte", `trace((char)1);`, "   1\n"),
		on("trace 2 bytes", `trace((short)-2);`, "    -2\n"),
		on("trace 4 bytes", `trace(3);`, "          3\n"),
		on("trace 8 bytes", `trace((long)-4);`, "                  -4\n"),
		on("trace unsigned", `trace((unsigned long)-1);`, " 18446744073709551615\n"),
		on("trace string", `trace("text");`, "  text                             \n"),
		q("trace quiet", `trace((char)1); trace((short)2); trace(3); trace(4L); trace("s");`, "1234s\n"),
		on("trace bytes", `trace(*(uint64_t (*)[2])alloca(16));`, block(`

             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef
         0: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................

`)),
		{name: "flow", cmd: `dtrace -Fn 'BEGIN {} syscall::exit_group:entry /pid == $target/ { exit(0); }' -c /bin/true`, out: "CPU FUNCTION                                 \n  - | :BEGIN                                  \n*  => exit_group                            \n\n"},
		{name: "flow nested", cmd: `dtrace -Fn 'syscall::getppid:entry, syscall::getppid:return /pid == $target/ {}' -c '/bin/sh -c "exec dd if=/dev/zero of=/dev/null count=0 status=none"' | head -1`, out: "CPU FUNCTION                                 \n"},
		{name: "list", cmd: `dtrace -ln dtrace:::END`, out: block(`
   ID   PROVIDER            MODULE                          FUNCTION NAME
    2     dtrace                                                     END
`)},
		{name: "list with arguments", cmd: `dtrace -lvn syscall::read:entry | tail -n +3 | head -13`, out: block(`

	Probe Description Attributes
		Identifier Names: Private
		Data Semantics:   Private
		Dependency Class: Unknown

	Argument Attributes
		Identifier Names: *
		Data Semantics:   *
		Dependency Class: ISA

	Argument Types
		args[0]: *
`)},
		{name: "matched description", cmd: `dtrace -n 'BEGIN,END { exit(0); }' >/dev/null`, err: `^dtrace: description 'BEGIN,END ' matched 2 probes$`},
		{name: "matched script", cmd: `echo 'BEGIN { exit(0); }' >x.d; dtrace -s x.d >/dev/null`, err: `^dtrace: script 'x.d' matched 1 probe$`},
		// printf().
		q("printf c", `printf("[%c][%3c][%-3c]", 65, 66, 67);`, "[A][  B][C  ]\n"),
		q("printf d i", `printf("[%d][%i][%5d][%-5d][%05d][%+d][% d][%hd][%ld][%lld]", 1, -2, 3, 4, 5, 6, 7, (short)8, 9L, 10LL);`, "[1][-2][    3][4    ][00005][+6][ 7][8][9][10]\n"),
		q("printf o u x X", `printf("[%o][%u][%x][%X][%#o][%#x]", 8, 3000000000U, 255, 255, 8, 255);`, "[10][3000000000][ff][FF][010][0xff]\n"),
		q("printf s", `printf("[%s][%6s][%-6s][%.2s]", "abc", "abc", "abc", "abc");`, "[abc][   abc][abc   ][ab]\n"),
		q("printf S", `printf("%S", "a\tb\n");`, "a\\tb\\n\\0\n"),
		q("printf C", `printf("%C%C", 65, 10);`, "A\\n\n"),
		q("printf p", `printf("%p", (void *)255);`, "ff\n"),
		q("printf %", `printf("100%%");`, "100%\n"),
		q("printf *", `printf("[%*d][%.*s]", 5, 42, 2, "abc");`, "[   42][ab]\n"),
		q("printf any size", `printf("%d %x", (char)-1, (uint64_t)-1);`, "-1 ffffffffffffffff\n"),
		q("printf a", "printf(\"%a\", &`schedule);", "vmlinux`schedule\n"),
		{name: "printf A", cmd: `dtrace -qn '` + at + `printf("%A", ucaller); }' -c /bin/true`, out: "*`*\n"},
		{name: "printf k", cmd: `dtrace -qn '` + at + `@[stack(1)] = count(); } END { printa("%k %@d\n", @); }' -c /bin/true`, out: "\n*+0x*\n 1\n\n"},
		q("printf Y", `printf("%Y", (uint64_t)1132214400 * 1000000000);`, "2005 Nov 17 08:00:00\n"),
		q("printf T", `printf("%T", (uint64_t)1132214400 * 1000000000);`, "Thu, 17 Nov 2005 08:00:00 UTC\n"),
		q("printf I P", `this->a = (uint32_t *)alloca(4); *this->a = htonl(0x7f000001); printf("%s %d", inet_ntoa(this->a), 80);`, "127.0.0.1 80\n"),
		q("printf newline", `printf("a\nb\n");`, "a\nb\n\n"),
		// Aggregations.
		q("count", `@ = count();`, "\n                1\n"),
		q("sum with keys", `@["k", 1, (char)2] = sum(3);`, "\n  k                                                         1   2                3\n"),
		q("avg min max stddev", `@a = avg(4); printa(@a); clear(@a); trunc(@a); @b = min(-5); printa(@b); trunc(@b); @c = max(6); printa(@c); trunc(@c); @d = stddev(1); @d = stddev(3); printa(@d); trunc(@d);`,
			"\n                4\n\n               -5\n\n                6\n\n                1\n\n"),
		q("printa default", `@["a"] = count(); @["b"] = count(); @["b"] = count(); printa(@); trunc(@);`, "\n  a                                                                 1\n  b                                                                 2\n\n"),
		q("printa of several, missing is 0", `@x["a"] = sum(1); @x["b"] = sum(2); @y["b"] = sum(3); printa("%s %@d %@d\n", @x, @y); trunc(@x); trunc(@y);`, "a 1 0\nb 2 3\n\n"),
		q("quantize", `@ = quantize(3); @ = quantize(3); @ = quantize(5); @ = quantize(0);`, "\n\n           value"+kind+
			"              -1 |                                         0        \n"+
			"               0 |@@@@@@@@@@                               1        \n"+
			"               1 |                                         0        \n"+
			"               2 |@@@@@@@@@@@@@@@@@@@@                     2        \n"+
			"               4 |@@@@@@@@@@                               1        \n"+
			"               8 |                                         0        \n\n"),
		q("quantize with a key", `@["key"] = quantize(1);`, "\n  key                                               \n           value"+kind+
			"               0 |                                         0        \n"+
			"               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1        \n"+
			"               2 |                                         0        \n\n"),
		q("quantize negative", `@ = quantize(-3);`, "\n\n           value"+kind+
			"              -4 |                                         0        \n"+
			"              -2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1        \n"+
			"              -1 |                                         0        \n\n"),
		q("quantize negative counts", `@ = quantize(3, -1);`, "\n\n           value"+kind+
			"               1                                         | 0        \n"+
			"               2 @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@| -1       \n"+
			"               4                                         | 0        \n\n"),
		q("lquantize", `@ = lquantize(5, 0, 10, 2); @ = lquantize(-1, 0, 10, 2); @ = lquantize(99, 0, 10, 2);`, "\n\n           value"+kind+
			"             < 0 |@@@@@@@@@@@@@                            1        \n"+
			"               0 |                                         0        \n"+
			"               2 |                                         0        \n"+
			"               4 |@@@@@@@@@@@@@                            1        \n"+
			"               6 |                                         0        \n"+
			"               8 |                                         0        \n"+
			"           >= 10 |@@@@@@@@@@@@@                            1        \n\n"),
		q("llquantize", `@ = llquantize(25, 10, 0, 2, 10);`, "\n\n           value"+kind+
			"              10 |                                         0        \n"+
			"              20 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1        \n"+
			"              30 |                                         0        \n\n"),
		// Stacks and memory.
		{name: "stack", cmd: `dtrace -qn '` + at + `stack(2); }' -c /bin/true`, out: "\n              *+0x*\n              *+0x*\n\n"},
		{name: "stack as a key", cmd: `dtrace -qn '` + at + `@[stack(1)] = count(); }' -c /bin/true`, out: "\n\n              *+0x*\n                1\n"},
		{name: "ustack", cmd: `dtrace -qn '` + at + `ustack(1); }' -c /bin/true`, out: "\n              *`*0x*\n\n"},
		on("tracemem", `tracemem("0123456789ABCDEFGH", 18);`, block(`

             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef
         0: 30 31 32 33 34 35 36 37 38 39 41 42 43 44 45 46  0123456789ABCDEF
        10: 47 48                                            GH

`)),
		{name: "print", cmd: `dtrace -qn 'struct s { int a; char b[2]; enum { NO, YES } c; struct { long d; } e; }; BEGIN { p = (struct s *)alloca(sizeof (struct s)); p->a = -1; p->b[0] = 120; p->c = YES; p->e.d = 2; print(p); exit(0); }'`, out: "0x* = *\n" +
			"                                            (struct s) {\n" +
			"                                             .a = (int)-1,\n" +
			"                                             .b = (char [2]) [\n" +
			"                                              (char)'x',\n" +
			"                                             ],\n" +
			"                                             .c = (enum)YES,\n" +
			"                                             .e = (struct) {\n" +
			"                                              .d = (long)2,\n" +
			"                                             },\n" +
			"                                            }\n\n"},
		{name: "-S", cmd: `dtrace -Sen 'BEGIN { x = 5; }' 2>&1 | grep -cE '^(INS|NAME) '`, out: "*"},
		{name: "stability report", cmd: `dtrace -ven 'BEGIN { trace(execname); }' | head -13`, out: block(`

Stability attributes for description BEGIN :

	Minimum Probe Description Attributes
		Identifier Names: Stable
		Data Semantics:   Stable
		Dependency Class: Common

	Minimum Statement Attributes
		Identifier Names: Stable
		Data Semantics:   Stable
		Dependency Class: Common

`)},
	})
}
