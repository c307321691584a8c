BEGIN
{
	print(curthread->stack);
}
