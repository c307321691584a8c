#pragma D option quiet

/* Ages of some people, by decades. */
BEGIN
{
	@["age"] = lquantize(5, 0, 100, 10);
	@["age"] = lquantize(25, 0, 100, 10);
	@["age"] = lquantize(27, 0, 100, 10);
	@["age"] = lquantize(104, 0, 100, 10);
	exit(0);
}
