BEGIN
{
	trace(curthread == curthread->cred);
}
