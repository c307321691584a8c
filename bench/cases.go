package main

import (
	"slices"
	"strings"
)

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

// stackFirings walk a user stack of 20 frames: along frame pointers, which is what
// the kernel's helper does, and by unwind tables.
var stackFirings = func() (all []firing) {
	for name, mode := range map[string]string{"20 frames, frame pointers": "fp", "20 frames, tables": "auto"} {
		all = append(all, firing{
			name: name, call: "deep",
			d:        `syscall::getppid:entry /execname == "syscalls"/ { @[ustack(20)] = count(); }`,
			bpftrace: `tracepoint:syscalls:sys_enter_getppid /comm == "syscalls"/ { @[ustack(20)] = count(); }`,
			options:  []string{"-x", "ustackmode=" + mode},
		})
	}
	slices.SortFunc(all, func(a, b firing) int { return strings.Compare(a.name, b.name) })
	return all
}()

// The record rate: two threads at full speed, one small record a call.
const (
	recordD        = `syscall::getppid:entry /execname == "syscalls"/ { printf("%d\n", timestamp); }`
	recordBpftrace = `tracepoint:syscalls:sys_enter_getppid /comm == "syscalls"/ { printf("%lld\n", nsecs); }`
)
