BEGIN
{
	@ = lquantize(1, 0, pid, 1);
}
