/* flags: -q -w */
/* As readlink -f /sys/class/net/lo says, less "/sys". */
int n;

BEGIN
{
	system("bash -c 'echo hello > /dev/udp/127.0.0.1/9'");
}

rawtp:net::net_dev_queue
/((struct sk_buff *)arg0)->dev->name == "lo" && n++ == 0/
{
	printf("%s\n", ddi_pathname(&((struct sk_buff *)arg0)->dev->dev, 0));
}

rawtp:net::net_dev_queue
/n == 1/
{
	printf("%s\n", ddi_pathname((void *)8, 0));
}

ERROR
/n == 1/
{
	printf("fault %d\n", arg4 == 1 /* DTRACEFLT_BADADDR */);
	exit(0);
}
