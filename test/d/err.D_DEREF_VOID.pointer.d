BEGIN
{
	trace(*curthread->stack);
}
