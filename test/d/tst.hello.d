/* flags: */
dtrace:::BEGIN
{
	trace("hello, world");
	exit(0);
}
