/* flags: -q -c /bin/true */
/* A stack knows whose it is; the kernel's is nobody's. */
syscall::exit_group:entry
/pid == $target/
{
	printf("%d %d\n", stack(2).pid, ustack(2).pid == pid);
}
