#pragma D option quiet

BEGIN
{
	@bytes["a"] = sum(4096);
	@bytes["b"] = sum(8192);
	normalize(@bytes, 1024);
	printa("%-4s %@6dK\n", @bytes);
	denormalize(@bytes);
	trunc(@bytes, 1);
	printa("%-4s %@6d\n", @bytes);
	clear(@bytes);
	printa("%-4s %@6d\n", @bytes);
	exit(0);
}
