BEGIN
{
	a[(void)0] = 1;
}
