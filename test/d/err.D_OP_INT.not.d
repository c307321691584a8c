BEGIN
{
	trace(~"x");
}
