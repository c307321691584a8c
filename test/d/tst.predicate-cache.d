#pragma D option quiet

int x;
int y;

BEGIN /1/ { printf("one\n"); }
BEGIN /0/ { printf("zero\n"); }
BEGIN /x == 0/ { x = 5; printf("x\n"); }
BEGIN /x == 5 && y == 0/ { printf("five\n"); exit(0); }
/* After exit() in one clause of BEGIN no other is run. */
BEGIN { printf("%d\n", y); }
