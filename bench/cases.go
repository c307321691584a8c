package main

// A firing is one benchmark of what a probe adds to the call it fires on. The
// name is that of its minimal program; the texts say the same thing in the
// languages of the contestants. Counted tells that the contestant prints a
// count at its end that must reach the number of calls made.
type firing struct {
	name     string
	call     string // of test/trigger/syscalls
	d        string
	bpftrace string
	counted  bool
	patches  bool     // it is on a kernel function
	options  []string // of godtrace
}

var firings = []firing{
	{
		name: "count", call: "getppid", counted: true,
		d:        `syscall::getppid:entry { @ = count(); }`,
		bpftrace: `tracepoint:syscalls:sys_enter_getppid { @ = count(); }`,
	},
	{
		name: "execname", call: "getppid", counted: true,
		d:        `syscall::getppid:entry { @[execname] = count(); }`,
		bpftrace: `tracepoint:syscalls:sys_enter_getppid { @[comm] = count(); }`,
	},
	{
		name: "probefunc", call: "getppid", counted: true,
		d:        `syscall:::entry { @[probefunc] = count(); }`,
		bpftrace: `tracepoint:raw_syscalls:sys_enter { @[args.id] = count(); }`,
	},
	{
		name: "quantize", call: "read", counted: true,
		d:        `syscall::read:entry { @ = quantize(arg2); }`,
		bpftrace: `tracepoint:syscalls:sys_enter_read { @ = hist(args.count); }`,
	},
	{
		name: "false predicate", call: "getppid",
		d:        `syscall::getppid:entry /pid == 1/ { @ = count(); }`,
		bpftrace: `tracepoint:syscalls:sys_enter_getppid /pid == 1/ { @ = count(); }`,
	},
	{
		name: "latency", call: "read", counted: true,
		d:        `syscall::read:entry { self->ts = timestamp; } syscall::read:return /self->ts/ { @ = quantize(timestamp - self->ts); self->ts = 0; }`,
		bpftrace: `tracepoint:syscalls:sys_enter_read { @ts[tid] = nsecs; } tracepoint:syscalls:sys_exit_read /@ts[tid]/ { @ = hist(nsecs - @ts[tid]); delete(@ts, tid); }`,
	},
	{
		name: "printf 64 bytes", call: "read",
		d:        `syscall::read:entry { printf("%d %d %d %d %d %d %d %d\n", pid, tid, timestamp, arg0, arg1, arg2, arg0, arg2); }`,
		bpftrace: `tracepoint:syscalls:sys_enter_read { printf("%d %d %lld %d %lld %d %d %d\n", pid, tid, nsecs, args.fd, args.buf, args.count, args.fd, args.count); }`,
	},
}

// The record rate: two threads at full speed, one small record a call.
const (
	recordD        = `syscall::getppid:entry /execname == "syscalls"/ { printf("%d\n", timestamp); }`
	recordBpftrace = `tracepoint:syscalls:sys_enter_getppid /comm == "syscalls"/ { printf("%lld\n", nsecs); }`
)
