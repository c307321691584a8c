BEGIN
{
	trace((int)execname);
}
