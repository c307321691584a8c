BEGIN
{
	trace(*curthread->fn);
}
