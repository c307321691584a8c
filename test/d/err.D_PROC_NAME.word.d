/* flags: -c "$TRIGGER/calls" */
pid$target:a.out:main.leaf:beginning
{
	trace(1);
}
