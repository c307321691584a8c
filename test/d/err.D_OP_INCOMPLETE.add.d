BEGIN
{
	trace(curthread->nsproxy + 1);
}
