BEGIN
{
	trace(curthread + curthread);
}
