/* flags: -x maxprobes=10 -c "$TRIGGER/calls" */
pid$target:::entry
{
	trace(1);
}
