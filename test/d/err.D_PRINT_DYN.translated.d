struct a { int x; };
translator struct a < int i > { x = i; };
BEGIN
{
	print(xlate <struct a> (1));
}
