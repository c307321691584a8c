/* flags: -q */
/* The classic of counting: which of 1 to 15 are divisible by what. */
profile:::tick-1ms
/i < 15/
{
	i++;
	if (i % 15 == 0) {
		printf("fizzbuzz\n");
	} else if (i % 5 == 0) {
		printf("buzz\n");
	} else if (i % 3 == 0) {
		printf("fizz\n");
	} else {
		printf("%d\n", i);
	}
}

profile:::tick-1ms
/i == 15/
{
	exit(0);
}
