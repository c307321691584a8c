pid0:a.out:main:entry
{
	trace(1);
}
