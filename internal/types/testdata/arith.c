// Prints the types that TestUsualArith and TestConvert expect, as gcc has them.
//	gcc -w -o /tmp/arith arith.c && /tmp/arith > arith.txt
#include <stdio.h>

#define NAME(e) _Generic((e), int: "int", unsigned: "unsigned int", long: "long", unsigned long: "unsigned long", \
	long long: "long long", unsigned long long: "unsigned long long")
#define TYPES(X) X(_Bool) X(char) X(signed char) X(unsigned char) X(short) X(unsigned short) X(int) X(unsigned int) \
	X(long) X(unsigned long) X(long long) X(unsigned long long)
#define TYPES2(X, a) X(a, _Bool) X(a, char) X(a, signed char) X(a, unsigned char) X(a, short) X(a, unsigned short) \
	X(a, int) X(a, unsigned int) X(a, long) X(a, unsigned long) X(a, long long) X(a, unsigned long long)
#define ADD(a, b) printf("add|%s|%s|%s\n", #a, #b, NAME((a)1 + (b)1));
#define ROW(a) TYPES2(ADD, a) printf("pos|%s|%s\n", #a, NAME(+(a)1));
#define CONV(t) for (int i = 0; i < sizeof v / sizeof *v; i++) printf("conv|%s|%ld|%ld\n", #t, v[i], (long)(t)v[i]);
#define LIT(l) printf("lit|%s|%s\n", #l, NAME(l));

int main() {
	long v[] = { 0, 1, -1, 127, 128, 255, 256, 32768, 65535, 2147483648, 4294967295, 0x123456789abcdef0, -2147483649 };
	TYPES(ROW)
	TYPES(CONV)
	LIT(1) LIT(2147483647) LIT(2147483648) LIT(0x7fffffff) LIT(0x80000000) LIT(0xffffffff) LIT(0x100000000)
	LIT(9223372036854775807) LIT(0x7fffffffffffffff) LIT(0x8000000000000000) LIT(1u) LIT(4294967296u) LIT(1l) LIT(1ul)
	LIT(0x8000000000000000l) LIT(1ll) LIT(0x8000000000000000ll) LIT(1ull) LIT(037777777777) LIT(18446744073709551615u)
}
