BEGIN
{
	speculate(1); copyout("a", arg0, 1);
}
