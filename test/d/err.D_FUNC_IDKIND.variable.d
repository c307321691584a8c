BEGIN
{
	execname();
}
