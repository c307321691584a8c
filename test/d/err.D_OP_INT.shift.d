BEGIN
{
	trace(curthread << 1);
}
