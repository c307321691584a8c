// Types and functions of all shapes. The program prints what the compiler made
// of the types: "TYPE SIZE ALIGN", "TYPE.MEMBER OFFSET SIZE", and of bit-fields
// "TYPE.MEMBER bits HEX", the bytes of an object in which that field alone has
// all its bits set.
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long word;
enum color { RED, GREEN = 5, BLUE };
enum sign { MINUS = -3, PLUS = 3 };
enum wide { WIDE = 0x123456789abcLL };

struct leaf { short x, y; };
union num { long l; double d; char c[12]; };
struct later;
struct node {
	struct node *next;
	const char *name;
	volatile int n;
	struct leaf leaves[3];
	union num u;
	struct { int in; union { char deep; long longer; }; };
	enum color color;
	enum sign sign;
	enum wide wide;
	int (*call)(struct node *, const char *, ...);
	word grid[2][5];
	bool flag;
	long double ld;
	float f;
	_Complex double z;
#ifdef __SIZEOF_INT128__
	__int128 big;
#else
	long big;
#define __int128 long
#endif
	struct later *later;
	unsigned char tail[];
};
struct bits {
	unsigned a : 3, b : 7;
	int c : 9;
	unsigned : 0;
	unsigned long long d : 40;
	bool e : 1;
	unsigned char f : 4;
	char g;
	signed char h : 5;
};
struct __attribute__((packed)) packed { char a; long b; short c; unsigned d : 13; unsigned e : 20; };
struct aligned { char a; int b __attribute__((aligned(32))); };
struct empty {};
struct later { int hidden; };

#define T(t) printf("%s %zu %zu\n", #t, sizeof(t), _Alignof(t))
#define M(t, m) printf("%s.%s %zu %zu\n", #t, #m, offsetof(t, m), sizeof(((t *)0)->m))
#define B(t, m) do { t o; memset(&o, 0, sizeof o); o.m = -1; printf("%s.%s bits ", #t, #m); \
	for (size_t i = 0; i < sizeof o; i++) printf("%02x", ((unsigned char *)&o)[i]); puts(""); } while (0)

#define NOINLINE __attribute__((noinline, noclone, noipa))
struct pair { long a, b; };
struct mix { double d; int i; };
struct fpair { double x, y; };
struct three { char c[3]; };
struct large { long v[4]; };
struct under { int a; float b; };
struct floats { float a, b, c; };
typedef int v4 __attribute__((vector_size(16)));

volatile long sink;
#define USE(x) __asm__ volatile("" : : "m"(x) : "memory")
NOINLINE int plain(char a, short b, int c, long d, void *e, _Bool f) { USE(a); USE(b); USE(c); USE(d); USE(e); USE(f); return 1; }
NOINLINE int many(int a, int b, int c, int d, int e, int f, char g, long h, short i) { USE(a); USE(b); USE(c); USE(d); USE(e); USE(f); USE(g); USE(h); USE(i); return 1; }
NOINLINE int mixed(double a, int b, float c, long d) { USE(a); USE(b); USE(c); USE(d); return 1; }
NOINLINE int bypair(int a, struct pair p, int b) { USE(a); USE(p); USE(b); return 1; }
NOINLINE int bymix(struct mix m, int b) { USE(m); USE(b); return 1; }
NOINLINE int bylarge(int a, struct large l, int b) { USE(a); USE(l); USE(b); return 1; }
NOINLINE int spill(int a, int b, int c, int d, int e, struct pair p, int f) { USE(a); USE(b); USE(c); USE(d); USE(e); USE(p); USE(f); return 1; }
NOINLINE int small(struct three t, struct under u, struct floats f, int b) { USE(t); USE(u); USE(f); USE(b); return 1; }
NOINLINE int stack(int a, int b, int c, int d, int e, int f, long double g, char h, __int128 i, int j) { USE(a); USE(b); USE(c); USE(d); USE(e); USE(f); USE(g); USE(h); USE(i); USE(j); return 1; }
NOINLINE int vector(v4 a, int b, _Complex double c, int d) { USE(a); USE(b); USE(c); USE(d); return 1; }
NOINLINE struct large giveslarge(int a, long b) { USE(a); USE(b); return (struct large){{a, b}}; }
NOINLINE struct pair givespair(int a, long b) { USE(a); USE(b); return (struct pair){a, b}; }
NOINLINE int varied(struct node *n, ...) { USE(n); return n->n; }
static inline __attribute__((always_inline)) int inlined(int x) { return x * 2 + 1; }
static __attribute__((noinline)) int lost(int used, int unused, struct node *n) { return used + n->n; }

int main(int argc, char **argv)
{
	struct node n = {.n = inlined(argc)};
	sink = plain(1, 2, 3, 4, &n, 1) + many(1, 2, 3, 4, 5, 6, 7, 8, 9) + mixed(1, 2, 3, 4) + bypair(1, (struct pair){2, 3}, 4) +
		bymix((struct mix){1, 2}, 3) + bylarge(1, (struct large){{2}}, 3) + spill(1, 2, 3, 4, 5, (struct pair){6, 7}, 8) +
		small((struct three){{1}}, (struct under){1, 2}, (struct floats){1, 2, 3}, 4) + stack(1, 2, 3, 4, 5, 6, 7, 8, 9, 10) +
		vector((v4){1}, 2, 3, 4) + giveslarge(1, 2).v[0] + givespair(1, 2).a + varied(&n, 1) + lost(argc, argc * 5, &n) + lost(3, argc * 7, &n);
	T(struct leaf); M(struct leaf, x); M(struct leaf, y);
	T(union num); M(union num, l); M(union num, d); M(union num, c);
	T(struct node);
	M(struct node, next); M(struct node, name); M(struct node, n); M(struct node, leaves); M(struct node, u); M(struct node, in);
	M(struct node, deep); M(struct node, longer); M(struct node, color); M(struct node, sign); M(struct node, wide); M(struct node, call);
	M(struct node, grid); M(struct node, flag); M(struct node, ld); M(struct node, f); M(struct node, z); M(struct node, big); M(struct node, later);
	T(struct bits); B(struct bits, a); B(struct bits, b); B(struct bits, c); B(struct bits, d); B(struct bits, e); B(struct bits, f);
	M(struct bits, g); B(struct bits, h);
	T(struct packed); M(struct packed, a); M(struct packed, b); M(struct packed, c); B(struct packed, d); B(struct packed, e);
	T(struct aligned); M(struct aligned, a); M(struct aligned, b);
	T(struct later); M(struct later, hidden);
	return 0;
}

// What the tests ask for by name.
NOINLINE int root(struct node *n, struct leaf *l, union num *u, struct bits *b, struct packed *p, struct aligned *a, struct later *d)
{
	return n->n + l->x + u->l + b->a + p->a + a->a + d->hidden;
}
