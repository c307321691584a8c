BEGIN
{
	*(int *)curthread = 1;
}
