BEGIN
{
	@a = rand();
}
