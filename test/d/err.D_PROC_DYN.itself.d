pid$pid:a.out:main:entry
{
	trace(1);
}
