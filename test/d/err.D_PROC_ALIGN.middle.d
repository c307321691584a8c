/* flags: -c "$TRIGGER/calls" */
pid$target:a.out:main.leaf:2
{
	trace(1);
}
