#pragma D option quiet

profile:::tick-10ms
{
	printf("%d\n", ++n);
}

profile:::tick-10ms
/n == 3/
{
	exit(0);
}
