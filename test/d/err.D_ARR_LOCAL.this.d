BEGIN
{
	this->a[1] = 3;
}
