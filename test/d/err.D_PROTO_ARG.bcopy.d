BEGIN
{
	bcopy((void *)&`jiffies, (void *)arg0, 4);
}
