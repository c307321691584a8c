BEGIN
{
	trace(pid ? 1 : "x");
}
