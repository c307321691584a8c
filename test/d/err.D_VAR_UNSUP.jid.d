BEGIN
{
	trace(jid);
}
