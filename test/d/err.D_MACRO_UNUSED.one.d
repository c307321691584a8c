/* args: one */
BEGIN
{
	trace(1);
}
