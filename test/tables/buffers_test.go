package tables

import "testing"

// Buffers, speculation, faults and drops.
func TestBuffers(t *testing.T) {
	fault := func(name, expr, err string) line {
		return line{name: "fault " + name, cmd: `dtrace -qn 'int zero; BEGIN { ` + expr + ` } ERROR { printf("%d", arg4); exit(0); }'`, out: "*", err: `^dtrace: error in \S+ for probe ID 1 \(dtrace:::BEGIN\): ` + err}
	}
	spec := func(name, program, tag string) line {
		return line{name: name, cmd: `dtrace -x errtags -en '` + program + `'`, err: `\[` + tag + `\]`, status: 1}
	}
	check(t, "2.9a", []line{
		{name: "switch", cmd: `dtrace -qx bufpolicy=switch -n 'tick-1ms { printf("%d ", ++n); } tick-1ms /n == 5/ { exit(0); }'`, out: "1 2 3 4 5 \n"},
		{name: "fill prints at the end", cmd: `dtrace -qx bufpolicy=fill -n 'BEGIN { printf("a"); } tick-5ms { printf("b"); exit(0); }'`, out: "ab\n"},
		{name: "ring prints at exit", cmd: `dtrace -qx bufpolicy=ring -n 'BEGIN { printf("a"); } tick-5ms { printf("b"); exit(0); }'`, out: "ab\n"},
		{name: "BEGIN first, END last", cmd: `dtrace -qn 'END { printf("end"); } tick-1ms { printf("tick "); exit(0); } BEGIN { printf("begin "); }'`, out: "begin tick end\n"},
		{name: "nothing after exit", cmd: `dtrace -qn 'tick-1ms { printf("%d", ++n); exit(0); } tick-1ms /n > 1/ { printf("more"); } END { printf(" end"); }'`, out: "1 end\n"},
		{name: "speculation none left", cmd: `dtrace -qn 'BEGIN { a = speculation(); b = speculation(); printf("%d %d", a, b); exit(0); }'`, out: "1 0\n", err: `^dtrace: 1 failed speculation \(no speculative buffer available\)$`},
		{name: "speculate 0", cmd: `dtrace -qn 'BEGIN { speculate(0); printf("lost"); } BEGIN { commit(0); } BEGIN { printf("on"); exit(0); }'`, out: "on\n"},
		{name: "commit of several clauses", cmd: `dtrace -qn 'BEGIN { s = speculation(); } BEGIN { speculate(s); printf("a"); } BEGIN { speculate(s); printf("b"); } BEGIN { commit(s); } BEGIN { exit(0); }'`, out: "ab\n"},
		{name: "not committed is lost", cmd: `dtrace -qn 'BEGIN { s = speculation(); } BEGIN { speculate(s); printf("a"); } BEGIN { exit(0); }'`, out: "\n"},
		spec("speculate after recording", `BEGIN { trace(1); speculate(1); }`, "D_SPEC_DREC"),
		spec("two speculate", `BEGIN { speculate(1); speculate(2); }`, "D_SPEC_SPEC"),
		spec("speculate aggregation", `BEGIN { speculate(1); @ = count(); }`, "D_AGG_SPEC"),
		spec("speculate destructive", `BEGIN { speculate(1); system("x"); }`, "D_ACT_SPEC"),
		spec("speculate exit", `BEGIN { speculate(1); exit(0); }`, "D_EXIT_SPEC"),
		spec("commit after recording", `BEGIN { trace(1); commit(1); }`, "D_COMM_DREC"),
		spec("recording after commit", `BEGIN { commit(1); trace(1); }`, "D_DREC_COMM"),
		spec("speculate after commit", `BEGIN { commit(1); speculate(1); }`, "D_SPEC_COMM"),
		{name: "anonymous", cmd: `dtrace -A -n BEGIN`, err: `-A: anonymous tracing`, status: 1},
		fault("address", `trace(*(int *)8);`, `invalid address \(0x8\) at BPF pc [0-9]+$`),
		fault("division", `trace(1 / zero);`, `divide-by-zero at BPF pc [0-9]+$`),
		fault("scratch", `n = 100000; p = alloca(n);`, `out of scratch space at BPF pc [0-9]+$`),
		{name: "fault number of address", cmd: `dtrace -qn 'BEGIN { trace(*(int *)8); } ERROR { printf("%d %d", arg4, arg5); exit(0); }'`, out: "1 8\n", err: `invalid address`},
		{name: "fault number of division", cmd: `dtrace -qn 'int z; BEGIN { trace(1 % z); } ERROR { printf("%d", arg4); exit(0); }'`, out: "4\n", err: `divide-by-zero`},
		{name: "fault number of scratch", cmd: `dtrace -qn 'BEGIN { n = 100000; p = alloca(n); } ERROR { printf("%d", arg4); exit(0); }'`, out: "5\n", err: `out of scratch space`},
		{name: "the clause is abandoned", cmd: `dtrace -qn 'BEGIN { printf("a"); trace(*(int *)8); printf("b"); } BEGIN { printf("c"); exit(0); }'`, out: "*c\n", err: `invalid address`},
		{name: "fault in ERROR", cmd: `dtrace -qn 'BEGIN { trace(*(int *)8); } ERROR { trace(*(int *)8); } tick-50ms { exit(0); }'`, out: "\n", err: `^dtrace: 1 error in ERROR probe enabling$`},
		{name: "principal drops", cmd: `dtrace -qx bufsize=4k -x switchrate=1hz -n 'syscall:::entry /pid == $target/ { printf("%600d", 1); }' -c 'dd if=/dev/zero of=/dev/null bs=1 count=20000 status=none' >/dev/null`, err: `^dtrace: [0-9]+ drops? on CPU [0-9]+$`},
		{name: "principal drops tagged", cmd: `dtrace -qx droptags -x bufsize=4k -x switchrate=1hz -n 'syscall:::entry /pid == $target/ { printf("%600d", 1); }' -c 'dd if=/dev/zero of=/dev/null bs=1 count=20000 status=none' >/dev/null`, err: `^dtrace: \[DTRACEDROP_PRINCIPAL\] [0-9]+ drops? on CPU [0-9]+$`},
		{name: "aggregation drops", cmd: `dtrace -qx aggsize=1k -n 'syscall:::entry /pid == $target/ { @[n++] = count(); }' -c 'dd if=/dev/zero of=/dev/null bs=1 count=20000 status=none' >/dev/null`, err: `^dtrace: [0-9]+ aggregation drops? on CPU [0-9]+$`},
		{name: "dynamic variable drops", cmd: `dtrace -qx dynvarsize=1k -n 'syscall:::entry /pid == $target/ { a[n++] = 1; }' -c 'dd if=/dev/zero of=/dev/null bs=1 count=1000 status=none' >/dev/null`, err: `^dtrace: [0-9]+ dynamic variable drops?`},
		{name: "speculative drops", cmd: `dtrace -qx specsize=16 -n 'BEGIN { s = speculation(); } BEGIN { speculate(s); printf("%d %d %d", 1, 2, 3); } BEGIN { commit(s); } BEGIN { exit(0); }'`, out: "\n", err: `^dtrace: 1 speculative drop on CPU [0-9]+$|^dtrace: 1 speculative drop$`},
		{name: "no match", cmd: `dtrace -n syscall::nosuch:`, err: `probe description syscall::nosuch: does not match any probes`, status: 1},
		{name: "destructive", cmd: `dtrace -n 'BEGIN { stop(); }'`, err: `Destructive actions not allowed$`, status: 1},
		{name: "process end", cmd: `dtrace -n 'BEGIN {}' -c /bin/true >/dev/null`, err: `^dtrace: pid [0-9]+ has exited$`},
		{name: "process killed", cmd: `dtrace -wn 'syscall::exit_group:entry /pid == $target/ { raise(SIGKILL); }' -c /bin/true >/dev/null`, err: `^dtrace: pid [0-9]+ terminated by SIGKILL$`},
	})
}
