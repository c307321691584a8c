BEGIN
{
	trace(uregs["x"]);
}
