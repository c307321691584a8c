BEGIN
{
	@ = llquantize(1, 10, 6, 0, 20);
}
