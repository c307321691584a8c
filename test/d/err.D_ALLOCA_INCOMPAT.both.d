BEGIN
{
	p = (int *)alloca(4);
	p = (int *)arg0;
}
