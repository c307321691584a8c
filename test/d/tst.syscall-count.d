/* flags: -q -c "$TRIGGER/syscalls -call getppid -n 5000" */
/* Calls of the target alone; it makes 5000 of them by its own count. */
syscall::getppid:entry
/pid == $target/
{
	@entries = count();
}

syscall::getppid:return
/pid == $target/
{
	@returns = count();
}

END
{
	printa("%@d\n", @entries);
	printa("%@d\n", @returns);
}
