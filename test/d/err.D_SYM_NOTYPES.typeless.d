BEGIN
{
	trace(`typeless);
}
