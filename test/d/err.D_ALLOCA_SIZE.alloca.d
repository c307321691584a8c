BEGIN
{
	x = alloca(0x100000000);
}
