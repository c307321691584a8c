/* flags: -q -c /bin/true */
/* The kernel's own record of the process agrees with the built-in variables. */
syscall::exit_group:entry
/pid == $target/
{
	printf("%d %d %s\n", curthread->tgid == pid, curthread->pid == tid, stringof(curthread->comm) == execname ? "same" : "other");
	printf("%s\n", execname);
}
