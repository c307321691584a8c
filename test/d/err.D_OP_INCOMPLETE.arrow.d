BEGIN
{
	trace(curthread->nsproxy->x);
}
