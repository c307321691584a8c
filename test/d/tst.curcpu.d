/* flags: -q */
/* A translated pointer is an address where only its value matters. */
BEGIN
{
	printf("%d %d ", (int64_t)curcpu != -1 && (int64_t)curcpu != 0, curcpu->cpu_id == cpu);
	this->n = (uint64_t)curcpu;
	printf("%d", this->n >> 48 == 0xffff);
	exit(0);
}
