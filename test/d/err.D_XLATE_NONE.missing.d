BEGIN
{
	trace(xlate <struct cred> (1).uid);
}
