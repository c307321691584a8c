// Prints the layouts that TestLayout expects. Bit positions are found by
// setting the member to all ones in a zeroed object and looking where they are.
//	gcc -O1 -o /tmp/layout layout.c && /tmp/layout > layout.txt
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PLAIN(T, m) { T *p = 0; printf("%s %s %zu %zu\n", #T, #m, offsetof(T, m) * 8, sizeof(p->m) * 8); }
#define BITS(T, m) { T o; memset(&o, 0, sizeof o); o.m = -1; first_last(#T, #m, &o, sizeof o); }
#define SIZE(T) printf("%s - %zu %zu\n", #T, sizeof(T), _Alignof(T))

static void first_last(const char *t, const char *m, void *p, size_t n) {
	unsigned char *b = p;
	int first = -1, last = -1;
	for (int i = 0; i < n * 8; i++)
		if (b[i / 8] >> i % 8 & 1) {
			if (first < 0)
				first = i;
			last = i;
		}
	printf("%s %s %d %d\n", t, m, first, last - first + 1);
}

typedef struct { char a; int b; char c; short d; long e; } s1;
typedef struct { char a; long double b; char c; } s2;
typedef struct { int a : 3; int b : 5; unsigned c : 30; long d : 40; char e; } s3;
typedef struct { char a; int b : 4; int : 0; int c : 4; char d : 2; } s4;
typedef struct { char a[3]; short b; char c[5]; } s5;
typedef union { char a[7]; int b; long c : 33; } u1;
typedef struct { char x; s3 in; u1 u; char y; } s6;
typedef struct { short a : 9; short b : 9; char c : 7; int : 5; char d : 4; _Bool e : 1; } s7;
typedef struct { char a; int : 3; char b; } s8;
typedef struct { char a; void *p; float f; double g; __int128 i; } s9;
typedef struct { char a; int : 0; } s10;
typedef struct { long a : 10; int b : 31; long c : 33; long d : 33; } s11;
typedef struct { int n; char rest[]; } s12;
typedef union { char a : 3; int b : 17; } u2;

int main() {
	PLAIN(s1, a) PLAIN(s1, b) PLAIN(s1, c) PLAIN(s1, d) PLAIN(s1, e) SIZE(s1);
	PLAIN(s2, a) PLAIN(s2, b) PLAIN(s2, c) SIZE(s2);
	BITS(s3, a) BITS(s3, b) BITS(s3, c) BITS(s3, d) PLAIN(s3, e) SIZE(s3);
	PLAIN(s4, a) BITS(s4, b) BITS(s4, c) BITS(s4, d) SIZE(s4);
	PLAIN(s5, a) PLAIN(s5, b) PLAIN(s5, c) SIZE(s5);
	PLAIN(u1, a) PLAIN(u1, b) BITS(u1, c) SIZE(u1);
	PLAIN(s6, x) PLAIN(s6, in) PLAIN(s6, u) PLAIN(s6, y) SIZE(s6);
	BITS(s7, a) BITS(s7, b) BITS(s7, c) BITS(s7, d) BITS(s7, e) SIZE(s7);
	PLAIN(s8, a) PLAIN(s8, b) SIZE(s8);
	PLAIN(s9, a) PLAIN(s9, p) PLAIN(s9, f) PLAIN(s9, g) PLAIN(s9, i) SIZE(s9);
	PLAIN(s10, a) SIZE(s10);
	BITS(s11, a) BITS(s11, b) BITS(s11, c) BITS(s11, d) SIZE(s11);
	PLAIN(s12, n) SIZE(s12);
	BITS(u2, a) BITS(u2, b) SIZE(u2);
}
