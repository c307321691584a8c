/* flags: -q -c "/bin/sleep 0.05" */
/* Time from entry to return: the sleep takes at least what it was asked for. */
syscall::clock_nanosleep:entry
/pid == $target/
{
	self->start = timestamp;
}

syscall::clock_nanosleep:return
/self->start/
{
	this->ms = (timestamp - self->start) / 1000000;
	printf("%s\n", this->ms >= 50 && this->ms < 5000 ? "in time" : "not in time");
	self->start = 0;
}
