/* flags: -q -c "$TRIGGER/syscalls -call getppid -n 100" */
/* Calls and returns pair up: what a call put away its return finds. */
syscall::getppid:entry
/pid == $target/
{
	begun[tid, probefunc] = timestamp;
}

syscall::getppid:return
/begun[tid, probefunc] != 0/
{
	@pairs = count();
	begun[tid, probefunc] = 0;
}

END
{
	printa("%@d pairs\n", @pairs);
}
