BEGIN
{
	@ = lquantize(1, 0x100000000, 10, 1);
}
