/* flags: -xlinkmode=dynamic -xkdefs */
BEGIN
{
	trace((uintptr_t)&`vfs_read);
}
