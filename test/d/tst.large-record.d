/* flags: -q -xstrsize=20000 */
/* What lies far back in a large record, key or variable. */
struct { char c[50000]; int n; } big;

BEGIN
{
	x = "abc";
	n = 12345;
	printf("%s %s %s %d %d\n", x, x, x, n, 67);
}

BEGIN
{
	this->a = (int *)alloca(16);
	this->a[3] = 8;
	printf("%s %s %s %d\n", x, execname == "" ? x : "d", x, this->a[3]);
}

BEGIN
{
	@[x, x, n, 5] = count();
	big.n = 9;
}

BEGIN
{
	printf("%d\n", big.n);
	printa("%s %s %d %d %@d\n", @);
	exit(0);
}
