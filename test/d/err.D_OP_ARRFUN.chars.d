BEGIN
{
	self->c = curthread->comm;
}
