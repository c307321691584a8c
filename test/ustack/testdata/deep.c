// Frames of many shapes, the innermost of which reads: variable and realigned
// ones, arguments on the stack, recursion, a callback of the C library, a signal
// handler, a thread.
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
static volatile int sink;

NOINLINE void wait_for_byte(void) {
	char c;
	write(1, ".", 1);
	if (read(0, &c, 1) != 1)
		_exit(0);
	sink += c;
}
static void handler(int sig) { wait_for_byte(); sink += sig; }
NOINLINE int leaf(int n) { raise(SIGUSR1); return sink += n; }
NOINLINE int variable(int n) { volatile char *p = alloca(n * 16); p[0] = 1; return leaf(n) + p[0]; }
NOINLINE int aligned(int n) { __attribute__((aligned(64))) volatile char a[128]; a[n & 7] = 1; return variable(n) + a[n & 7]; }
NOINLINE int many(int a, int b, int c, int d, int e, int f, int g, int h) { int r = aligned(a); return r + a * b * c + d * e + f * g - h + sink; }
NOINLINE int down(int n) { return n ? down(n - 1) * 3 + sink : many(1, 2, 3, 4, 5, 6, 7, 8) + 1; }
static int cmp(const void *a, const void *b) { return down(5) + *(int *)a - *(int *)b; }
static int find(const void *a, const void *b) { int v[2] = {2, 1}; qsort(v, 2, sizeof v[0], cmp); return *(int *)a - *(int *)b; }
static void *begin(void *arg) {
	int key = 3, v[4] = {1, 2, 3, 4};
	return bsearch(&key, v, 4, sizeof v[0], find) ? arg : 0;
}
int main(int argc, char **argv) {
	signal(SIGUSR1, handler);
	for (;;) {
		begin(argv);
		pthread_t t;
		pthread_create(&t, 0, begin, argv);
		pthread_join(t, 0);
	}
}
