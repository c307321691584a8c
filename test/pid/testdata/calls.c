// Calls functions of every shape a known number of times and prints how often
// each was called and how often it returned: "NAME CALLS RETURNS". Those that
// return by themselves have the sum of what they returned behind it. The
// functions count for themselves.
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

enum { LEAF, FRAME, TAIL, COND, TABLE, SWITCH, COLD, RECURSE, POINTER, EARLY, JUMPER, N };
static const char *names[N] = {"leaf", "frame", "tail", "cond", "viatable", "sw", "cold", "recurse", "pointer", "early", "jumper"};
static volatile long calls[N], jumps[N], sums[N]; // the threads take turns
#define COUNT(f) calls[f]++

NOINLINE long leaf(long x) { COUNT(LEAF); return 3 * x + 1; }

NOINLINE long frame(long x)
{
	volatile long a[8];
	COUNT(FRAME);
	a[x & 7] = x;
	return leaf(a[x & 7]) + 1;
}

NOINLINE long tail(long x) { COUNT(TAIL); return leaf(x + 1); }

// The way out is a jump for one half of the calls only.
NOINLINE long cond(long x)
{
	COUNT(COND);
	if (x & 1)
		return leaf(x);
	return x;
}

static long (*volatile table[2])(long) = {leaf, frame};

NOINLINE long viatable(long x) { COUNT(TABLE); return table[x & 1](x); }

NOINLINE long sw(long x)
{
	COUNT(SWITCH);
	switch (x % 8) {
	case 0: return x * 3;
	case 1: return x ^ 0x55;
	case 2: return x << 2;
	case 3: return x - 9;
	case 4: return x + 1000;
	case 5: return x / 3;
	case 6: return x | 64;
	default: return 7;
	}
}

static volatile long errors;
__attribute__((noinline, cold)) void failed(long x) { errors += x; }

NOINLINE long cold(long x)
{
	COUNT(COLD);
	if (__builtin_expect(x % 10 == 0, 0)) {
		failed(x);
		return x + 2;
	}
	return x;
}

NOINLINE long recurse(long x)
{
	COUNT(RECURSE);
	if (x <= 0)
		return 0;
	x = recurse(x - 1);
	__asm__ volatile("" : "+r"(x)); // lest it become a loop
	return x + 1;
}

NOINLINE long pointer(long (*volatile *f)(long), long x) { COUNT(POINTER); return (*f)(x); }

NOINLINE long early(long x)
{
	COUNT(EARLY);
	if (x < 3)
		return 1;
	for (long i = 0; i < x; i++)
		if (leaf(i) == 7)
			return i;
	return -1;
}

static jmp_buf env;
NOINLINE void jumper(long x)
{
	COUNT(JUMPER);
	if (x & 1) {
		jumps[JUMPER]++;
		longjmp(env, 1);
	}
}

static void *volatile sink;

static void *work(void *arg)
{
	long n = (long)arg;
	for (long i = 0; i < n; i++) {
		sink = (void *)frame(i);
		sink = (void *)tail(i);
		sink = (void *)cond(i);
		sink = (void *)viatable(i);
		sums[SWITCH] += sw(i);
		sums[COLD] += cold(i);
		sink = (void *)pointer(&table[0], i);
		sums[EARLY] += early(i % 5);
	}
	sink = (void *)recurse(200);
	return 0;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 100;
	pthread_t t;
	if (pthread_create(&t, 0, work, (void *)n))
		return 1;
	pthread_join(t, 0);
	work((void *)n);
	for (volatile long i = 0; i < 10; i++)
		if (!setjmp(env))
			jumper(i);
	for (int i = 0; i < N; i++)
		if (sums[i])
			printf("%s %ld %ld %ld\n", names[i], calls[i], calls[i] - jumps[i], sums[i]);
		else
			printf("%s %ld %ld\n", names[i], calls[i], calls[i] - jumps[i]);
	return 0;
}
