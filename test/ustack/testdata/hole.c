// A thread whose stack loses a page in the middle: what lies above cannot be
// read any more.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
static char *stack;
enum { SIZE = 1 << 20, PAGE = 4096 };
volatile int sink;

NOINLINE int inner(int n) {
	// Everything from the second page above this frame on goes.
	char *here = __builtin_frame_address(0), *from = (char *)(((unsigned long)here | (PAGE - 1)) + 1);
	madvise(from, stack + SIZE - PAGE * 4 - from, MADV_DONTNEED);
	write(1, "x\n", 2);
	_exit(0);
	return n;
}
NOINLINE int outer(int n) { volatile char room[8 * PAGE]; room[n] = 1; return inner(n) + room[n]; }
NOINLINE int outermost(int n) { volatile char room[8 * PAGE]; room[n] = 1; return outer(n) + room[n]; }
static void *begin(void *arg) { sink = outermost(1); return arg; }
int main(void) {
	stack = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t at;
	pthread_t t;
	pthread_attr_init(&at);
	pthread_attr_setstack(&at, stack, SIZE);
	pthread_create(&t, &at, begin, 0);
	pthread_join(t, 0);
	return 1;
}
