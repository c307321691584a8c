#pragma D option quiet

BEGIN
{
	@calls["read", 3] = count();
	@calls["read", 3] = count();
	@calls["write", 1] = count();
	@total = sum(10);
	@total = sum(-3);
	exit(0);
}
