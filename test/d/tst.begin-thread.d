/* flags: -q */
/* BEGIN and END fire in the thread that a process begins with. */
BEGIN
{
	printf("%d %d\n", tid == pid, curthread->pid == pid);
	exit(0);
}

END
{
	printf("%d\n", tid == pid);
}
