BEGIN
{
	speculate(1); raise(1);
}
