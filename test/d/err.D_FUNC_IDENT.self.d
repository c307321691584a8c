BEGIN
{
	self->x(2);
}
