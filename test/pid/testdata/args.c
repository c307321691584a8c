// Functions that print what they were called with and what they return, as
// "P NAME VALUE…": what typed arguments are held against.
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))

struct point { short x, y; };
enum state { IDLE, BUSY = 7 };
struct conn {
	struct conn *next;
	const char *name;
	int n;
	unsigned lo : 3, hi : 5;
	union { long all; char part[sizeof(long)]; };
	struct point p[2];
	enum state state;
	char text[12];
};
struct pair { int a; long b; };
struct large { long v[4]; char s[8]; };

NOINLINE struct conn *visit(struct conn *c, int n, long l, unsigned char b, const char *s, short h, int seventh, char eighth)
{
	printf("P visit %s %d %ld %u %s %d %d %d\n", c->name, n, l, b, s, h, seventh, eighth);
	printf("P visit-> %d %u %u %c %d %d %s\n", c->n, c->lo, c->hi, c->part[1], c->p[1].y, c->state, c->text);
	printf("P visit->-> %s %d\n", c->next->name, c->next->n);
	return c->next;
}

NOINLINE long byvalue(struct pair p, struct large l, int last)
{
	printf("P byvalue %d %ld %ld %s %d\n", p.a, p.b, l.v[3], l.s, last);
	return p.a + p.b;
}

NOINLINE struct pair swapped(struct pair *p)
{
	struct pair q = {(int)p->b, p->a};
	printf("P swapped %d %ld\n", q.a, q.b);
	return q;
}

NOINLINE double real(double d, int i)
{
	printf("P real %d\n", i);
	return d + i;
}

// Callers in the unit may pass what they like where they like.
static NOINLINE long local(int a, struct conn *c, long b, short d)
{
	printf("P local %d %s %ld %d\n", a, c->name, b, d);
	return a + b;
}

static inline __attribute__((always_inline)) int inlined(int x) { return x + 1; }

int main(int argc, char **argv)
{
	struct conn b = {.name = "second", .n = -5}, a = {.next = &b, .name = "first", .n = 41, .lo = 5, .hi = 21, .state = BUSY, .text = "eleven char"};
	struct pair p = {-3, 1234567890};
	a.p[1].y = -300;
	a.all = 0x64636261;
	for (int i = 0; i < 3; i++, a.n++) {
		visit(&a, i - 1, -123456789L * i, 200 + i, "a string", -i, 7000 + i, -8);
		byvalue((struct pair){i, -i - 5L}, (struct large){{1, 2, 3, i}, "seven"}, inlined(i));
		p.a = (int)swapped(&p).b + i;
		real(i, i);
		p.b += local(i * 3, a.next, -i, i - 1) & 1;
	}
	return 0;
}
