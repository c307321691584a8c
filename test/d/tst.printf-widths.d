#pragma D option quiet

BEGIN
{
	printf("|%8s|%-8s|%8d|%-8d|%08d|\n", "right", "left", 42, 42, 42);
	printf("|%x|%X|%#x|%o|%u|%c|%%|\n", 48879, 48879, 48879, 8, 7, 65);
	exit(0);
}
