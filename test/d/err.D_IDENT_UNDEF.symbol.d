BEGIN
{
	trace(`nosuch);
}
