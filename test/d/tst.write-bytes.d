/* flags: -q -c "/bin/echo twelve bytes" */
/* echo writes "twelve bytes" and a newline: 13 bytes to descriptor 1. */
syscall::write:entry
/pid == $target && arg0 == 1/
{
	@bytes = sum(arg2);
	@sizes = quantize(arg2);
}

END
{
	printa("bytes %@d\n", @bytes);
	printa(@sizes);
}
