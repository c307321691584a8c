BEGIN
{
	trace(strlen(execname, 1));
}
