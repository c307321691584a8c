BEGIN
{
	@ = llquantize(1, 10, 65536, 6, 20);
}
