#!/usr/sbin/dtrace -Cs
/*
 * Everything a clause may hold.
 */
#pragma D option quiet
#pragma	D option	bufsize=4m
#ident "x"

dtrace:::BEGIN { start = timestamp; }

syscall::read*:entry, syscall::[a-w]*_at:entry,
syscall::!open:entry
/ pid == $target && execname != "godtrace" && (arg0 / 2) > 3 /
{
	self->ts = timestamp;
	self->path[arg0, execname] = copyinstr(arg1)	// a comment
	;
	this->x = (int)arg2 + (uint64_t)-1;
	@reads[execname, probefunc] = count();
	@ = quantize(arg2);
	@_ = quantize(arg2);
	@lq["a" "b"] = lquantize(arg2, 0, 100, 10);
}

syscall::read:return
/self->ts/
{
	if (arg0 > 0) {
		printf("%s\t%d\n", execname, arg0);
	} else if (errno == 4)
		;
	else if (x) y++; else { --z; { trace(1) } }
	self->ts = 0
}

profile-997, tick-1sec, fbt:::-entry /arg0/ { }
io:::start,io:::done { printf("%d", args[0]->b_bcount); }
123 { trace(curthread->t_procp->p_user.u_comm); trace(`kmem_flags + genunix`lbolt); }
pid$target:a.out:ma?n:1c { ustack(); }
uprobe:/usr/lib/libc.so.6:malloc:entry /arg0/ { @[ustack()] = sum(arg0); }
BEGIN { trace(x ? y : z ? 1 : 2, 3); a = b = c, d += 1; e <<= 2; f >>= 3; g ^= h | i & j; }
BEGIN { trace(p && q || r ^^ s); trace(!a == ~b); trace(- -c - --d + +e++ + f-- - -1); trace(*&x); trace(&*y); }
BEGIN { trace(sizeof (int)); trace(sizeof x); trace(sizeof (struct foo *[3])); trace(offsetof(struct foo, bar)); }
BEGIN { trace(stringof x); trace(stringof(y)); trace((string)z); trace(xlate <psinfo_t> (p).pr_pid); trace(xlate <psinfo_t *> (p)->pr_pid); }
BEGIN { trace($1); trace($$1); trace($target); trace($$name); trace(this->a[1]); trace(self->b->c.d[2][3]); }
BEGIN { trace('a'); trace('\n'); trace('ab'); trace(0x1FUL); trace(017); trace(1ull); trace("\a\b\f\n\r\t\v\"\\\101\x42\?\q"); }
BEGIN { trace((foo_t *)x); trace((const struct foo *)x); trace(((int (*)(int, char *))p) != 0); trace((x)); trace((x) + 1); trace((a) (b)); }
BEGIN /a/ { self->if = this->self; x = y->struct.int; }
ERROR,END {}
