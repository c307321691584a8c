BEGIN
{
	trace(pid.x);
}
