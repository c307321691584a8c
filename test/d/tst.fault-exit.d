/* flags: -q exit: 3 */
/* An exit() in ERROR ends the firing in which the fault was. */
BEGIN
{
	trace(*(char *)0);
}

BEGIN
{
	printf("after the fault\n");
	exit(0);
}

ERROR
{
	printf("fault %d at %d\n", arg4, arg5);
	exit(3);
}

END
{
	printf("END\n");
}
