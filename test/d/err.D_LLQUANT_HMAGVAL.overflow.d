BEGIN
{
	@ = llquantize(1, 10, 0, 100, 20);
}
