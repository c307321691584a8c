/* flags: -c "$TRIGGER/calls" */
pid$target:a.out:main.leaf:fffffff
{
	trace(1);
}
