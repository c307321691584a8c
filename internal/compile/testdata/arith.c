/*
 * Prints what C makes of every integer operator and conversion, for values on
 * the edges of each width. arith.txt.gz is its output:
 *
 *	gcc -fwrapv -w -o arith arith.c && ./arith | gzip -9n > arith.txt.gz
 */
#include <stdint.h>
#include <stdio.h>

static const int64_t v[] = {
	0, 1, -1, 7, -7, 127, 128, -129, 255, 32768, 65535, INT32_MAX, INT32_MIN, UINT32_MAX, 0x123456789abcdefLL, INT64_MAX, INT64_MIN,
};
#define N (int)(sizeof v / sizeof v[0])

#define BIN(name, T, op) \
	for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { \
		T a = v[i], b = v[j]; \
		printf("bin %s %s %lld %lld %lld\n", name, #op, (long long)a, (long long)b, (long long)(a op b)); }

/* The quotient of the smallest number and -1 traps on x86. */
#define DIV(name, T, op) \
	for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { \
		T a = v[i], b = v[j]; \
		if (b == 0 || (b == (T)-1 && (T)-1 < 0)) continue; \
		printf("bin %s %s %lld %lld %lld\n", name, #op, (long long)a, (long long)b, (long long)(a op b)); }

#define SHIFT(name, T, op, bits) \
	for (int i = 0; i < N; i++) for (int j = 0; j < bits; j += 5) { \
		T a = v[i]; \
		printf("shift %s " #op " %lld %d %lld\n", name, (long long)a, j, (long long)(T)(a op j)); }

#define UN(name, T, op) \
	for (int i = 0; i < N; i++) { T a = v[i]; printf("un %s " #op " %lld %lld\n", name, (long long)a, (long long)(op a)); }

#define ALL(name, T, bits) \
	BIN(name, T, +) BIN(name, T, -) BIN(name, T, *) BIN(name, T, &) BIN(name, T, |) BIN(name, T, ^) \
	DIV(name, T, /) DIV(name, T, %) SHIFT(name, T, <<, bits) SHIFT(name, T, >>, bits) \
	BIN(name, T, <) BIN(name, T, <=) BIN(name, T, >) BIN(name, T, >=) BIN(name, T, ==) BIN(name, T, !=) \
	UN(name, T, -) UN(name, T, ~) UN(name, T, !)

#define CONV(from, F, to, T) \
	for (int i = 0; i < N; i++) { F a = v[i]; printf("conv %s %s %lld %lld\n", from, to, (long long)a, (long long)(T)a); }
#define CONVALL(from, F) \
	CONV(from, F, "int8_t", int8_t) CONV(from, F, "uint8_t", uint8_t) CONV(from, F, "int16_t", int16_t) \
	CONV(from, F, "uint16_t", uint16_t) CONV(from, F, "int", int) CONV(from, F, "unsigned", unsigned) \
	CONV(from, F, "long", long) CONV(from, F, "ulong", unsigned long) CONV(from, F, "_Bool", _Bool)

#define ASSIGN(name, T, op) \
	for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { \
		T a = v[i]; int b = v[j]; T old = a; a op b; \
		printf("assign %s " #op " %lld %d %lld\n", name, (long long)old, b, (long long)a); }
#define ASSIGNALL(name, T) ASSIGN(name, T, +=) ASSIGN(name, T, -=) ASSIGN(name, T, *=) ASSIGN(name, T, |=)

#define INC(name, T) \
	for (int i = 0; i < N; i++) { \
		T a = v[i], b = v[i], c = v[i], d = v[i], o = v[i]; \
		long long pa = a++, pb = b--, pc = ++c, pd = --d; \
		printf("inc %s %lld %lld %lld %lld %lld %lld %lld\n", name, (long long)o, pa, (long long)a, pb, (long long)b, pc, pd); }

int main(void)
{
	ALL("int", int, 32)
	ALL("unsigned", unsigned, 32)
	ALL("long", long, 64)
	ALL("ulong", unsigned long, 64)
	CONVALL("int8_t", int8_t)
	CONVALL("uint8_t", uint8_t)
	CONVALL("int16_t", int16_t)
	CONVALL("uint16_t", uint16_t)
	CONVALL("int", int)
	CONVALL("unsigned", unsigned)
	CONVALL("long", long)
	CONVALL("ulong", unsigned long)
	ASSIGNALL("int8_t", int8_t)
	ASSIGNALL("uint8_t", uint8_t)
	ASSIGNALL("int16_t", int16_t)
	ASSIGNALL("uint16_t", uint16_t)
	ASSIGNALL("int", int)
	ASSIGNALL("unsigned", unsigned)
	ASSIGNALL("long", long)
	INC("int8_t", int8_t)
	INC("uint8_t", uint8_t)
	INC("int16_t", int16_t)
	INC("uint16_t", uint16_t)
	INC("int", int)
	INC("unsigned", unsigned)
	INC("long", long)
	INC("ulong", unsigned long)
	return 0;
}
