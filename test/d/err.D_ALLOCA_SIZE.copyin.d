BEGIN
{
	x = copyin(arg0, 100000);
}
