/* flags: -q -c /bin/true */
/* Somewhere in the program or its C library. */
syscall::exit_group:entry
/pid == $target/
{
	printf("%d\n", ustackdepth > 0);
}
