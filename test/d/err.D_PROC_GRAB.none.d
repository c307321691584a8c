pid999999999:a.out:main:entry
{
	trace(1);
}
