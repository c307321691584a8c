/* flags: -c /bin/true */
pid$target:libc:-:800
{
	trace(1);
}
