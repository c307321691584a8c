/* flags: -q -c "/bin/cat /etc/hostname /nonexistent" */
/* Only opens that fail are shown. */
syscall::openat:entry
/pid == $target/
{
	self->spec = speculation();
}

syscall::openat:entry
/self->spec/
{
	speculate(self->spec);
	printf("open\n");
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
	failed++;
}

END { printf("failed %s\n", failed > 0 ? "some" : "none"); }
