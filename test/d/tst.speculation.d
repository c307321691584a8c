/* flags: -q -c "/bin/cat /dev/null /nonexistent" */
#pragma D option nspec=200

/* Of the opens only those that fail are shown. */
syscall::openat:entry
/pid == $target && copyinstr(arg1) != "/etc/ld.so.preload"/
{
	self->spec = speculation();
}

syscall::openat:entry
/self->spec/
{
	speculate(self->spec);
	printf("%s\n", copyinstr(arg1));
}

syscall::openat:return
/self->spec && errno == 0/
{
	discard(self->spec);
	self->spec = 0;
}

syscall::openat:return
/self->spec && errno == 2/
{
	commit(self->spec);
	self->spec = 0;
}


