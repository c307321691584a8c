BEGIN
{
	timestamp++;
}
