// main calls a calls b calls c, which writes; so many times as is asked for.
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
volatile int sink;

NOINLINE int c(int n) { char buf[200]; buf[n & 63] = n; write(1, "x\n", 2); return sink += buf[n & 31]; }
NOINLINE int b(int n) { return c(n + 1) * 3 + sink; }
NOINLINE int a(int n) { return b(n + 2) * 5 + sink; }
int main(int argc, char **argv) {
	int n = argc > 1 ? atoi(argv[1]) : 1;
	for (int i = 0; i < n; i++) {
		sink += a(argc + i);
		if (argc > 2)
			usleep(atoi(argv[2]));
	}
	return 0;
}
