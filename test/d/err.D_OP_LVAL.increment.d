BEGIN
{
	(1 + pid)++;
}
