// Works for so many milliseconds of CPU time: main calls a, which calls b, c and
// leaf, and qsort, which calls cmp.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
volatile unsigned sink;

NOINLINE int leaf(int n) { unsigned s = n; for (int i = 0; i < 200; i++) s = s * 1103515245 + 12345; return sink += s; }
NOINLINE int c(int n) { return leaf(n + 1) + sink; }
NOINLINE int b(int n) { return c(n + 1) * 3 + sink; }
NOINLINE int cmp(const void *x, const void *y) { leaf(1); return *(int *)x - *(int *)y; }
NOINLINE int a(int n) {
	int v[64];
	for (int i = 0; i < 64; i++)
		v[i] = b(n + i) & 255;
	qsort(v, 64, sizeof v[0], cmp);
	return v[3];
}
int main(int argc, char **argv) {
	clock_t until = clock() + atoi(argv[1]) * (CLOCKS_PER_SEC / 1000);
	for (int i = 0; clock() < until; i++)
		sink += a(i);
	return 0;
}
