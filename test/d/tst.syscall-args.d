/* flags: -q -c /bin/true */
/* The program leaves with status 0. */
syscall::exit_group:entry
/pid == $target/
{
	printf("%s %d %s %s\n", probefunc, arg0, probename, execname);
}
