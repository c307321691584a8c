BEGIN
{
	p = pid ? (int *)alloca(4) : (int *)arg0;
}
