BEGIN
{
	trace(inet_ntoa6((struct in6_addr *)arg0, pid));
}
