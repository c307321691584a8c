/* flags: -c "$TRIGGER/calls" */
pid$target:a.out:no_such_function:entry
{
	trace(1);
}
