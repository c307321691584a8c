BEGIN
{
	x = pid ? trace(1) : trace(2);
}
