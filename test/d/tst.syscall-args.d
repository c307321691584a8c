/* flags: -q -c "/bin/sh -c 'exit 0'" */
/* execname is that of the caller: the shell leaves with status 0. */
syscall::exit_group:entry
/pid == $target/
{
	printf("%s %d %s %s\n", probefunc, arg0, probename, execname);
}
