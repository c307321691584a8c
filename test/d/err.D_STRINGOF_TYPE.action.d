BEGIN
{
	trace(stringof(trace(1)));
}
