BEGIN
{
	@a = count(); trace(pid ? @a : 1);
}
