BEGIN
{
	curthread->pid = 1;
}
