/* flags: -q -c "/bin/cat /nonexistent/file" exit: 0 */
/* The C library opens with openat(2); ENOENT is 2. */
syscall::openat:entry
/pid == $target && copyinstr(arg1) == "/nonexistent/file"/
{
	self->path = copyinstr(arg1);
}

syscall::openat:return
/self->path != NULL/
{
	printf("%s: %s errno %d\n", self->path, (int)arg1 < 0 ? "failed" : "worked", errno);
	self->path = 0;
}
