BEGIN
{
	trace(offsetof(struct nosuch, a));
}
