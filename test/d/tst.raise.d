/* flags: -q -w -c "/bin/sleep 20" */
/* The sleep is ended by a signal long before its time. */
syscall::clock_nanosleep:entry
/pid == $target/
{
	raise(15);
	printf("raised\n");
}
