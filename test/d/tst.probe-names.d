/* flags: -q -c /bin/true */
/* One clause for many probes, by pattern. */
syscall::exit*:entry
/pid == $target/
{
	printf("%s:%s:%s:%s\n", probeprov, probemod, probefunc, probename);
}
