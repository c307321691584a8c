BEGIN
{
	x = (trace(1), 2);
}
