BEGIN
{
	while (1) trace(1);
}
