BEGIN
{
	trace(vmlinux``jiffies);
}
