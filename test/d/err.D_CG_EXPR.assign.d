BEGIN
{
	x = printf("x");
}
