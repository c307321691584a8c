#include "lib.h"

// hex is the digit of d, 0…35, without a branch.
INLINE u8 hex(u64 d) { return d + '0' + (((s64)(9 - d) >> 63) & ('a' - '0' - 10)); }

// Base 10 has a sign, all other bases are unsigned, octal and hexadecimal with
// C's prefix. Digits are written from the end of the 72 bytes at s[2]: s[0] is
// what is left of the number, s[1] where the last digit is.
BODY(digit_out)
{
	struct work *w = e->w;
	u64 v = volat(w->s[0]), at = volat(w->s[1]) - 1, base = w->arg[1];
	keep(at);
	if (at >= 71)
		return 1;
	((volatile char *)&w->s[2])[at] = hex(v % base);
	volat(w->s[0]) = v / base;
	volat(w->s[1]) = at;
	return v < base;
}

ROUTINE(lltostr)
{
	u64 v = w->arg[0], base = w->arg[1];
	if (base < 2 || base > 36)
		return ILLOP;
	u64 neg = base == 10 && (s64)v < 0;
	char *text = (char *)&w->s[2];
	text[71] = 0;
	volat(w->s[0]) = neg ? -v : v;
	volat(w->s[1]) = 71;
	ENV(e);
	LOOP(digit_out, &e);
	u64 at = volat(w->s[1]) - 2; // room for a prefix
	keep(at);
	if (at >= 71)
		return ILLOP;
	text += at;
	u64 from = 2;
	if (base == 16) {
		text[1] = 'x';
		text[0] = '0';
		from = 0;
	} else if (base == 8 && v) {
		text[1] = '0';
		from = 1;
	} else if (neg) {
		text[1] = '-';
		from = 1;
	}
	return give(w, dst, dsize, text + from);
}

enum { VALUE, NEG, STAGE, BYTE };
enum { BLANK, SIGNED, ZERO, DIGITS };

#define C volat(w->s[BYTE])

// digit turns the byte into the digit it is, or 99.
INLINE void digit(struct work *w)
{
	if (C >= '0' && C <= '9')
		C -= '0';
	else if ((C | 0x20) >= 'a' && (C | 0x20) <= 'z')
		C = (C | 0x20) - 'a' + 10;
	else
		C = 99;
}

#define S volat(w->s[STAGE])

BODY(number_byte)
{
	struct work *w = e->w;
	if (i >= e->ssize)
		return 1;
	C = (u8)w->buf[i];
	if (S == BLANK) {
		if (C == ' ' || C == '\t')
			return 0;
		S = SIGNED;
		if (C == '-')
			volat(w->s[NEG]) = 1;
		if (C == '-' || C == '+')
			return 0;
	}
	if (S == ZERO && (C | 0x20) == 'x') { // a digit must follow, but it is 0 without one too
		S = DIGITS;
		return 0;
	}
	if (S == SIGNED && C == '0' && w->arg[1] == 16)
		S = ZERO;
	else
		S = DIGITS;
	digit(w);
	if (C >= volat(w->arg[1]))
		return 1;
	volat(w->s[VALUE]) = volat(w->s[VALUE]) * volat(w->arg[1]) + C;
	return 0;
}

ROUTINE(strtoll)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	if (w->arg[1] < 2 || w->arg[1] > 36)
		return ILLOP;
	volat(w->s[VALUE]) = 0;
	volat(w->s[NEG]) = 0;
	volat(w->s[STAGE]) = BLANK;
	ENV(e);
	LOOP(number_byte, &e);
	u64 v = volat(w->s[VALUE]);
	w->ret = volat(w->s[NEG]) ? -v : v;
	return 0;
}

// Texts of addresses are built in the 72 bytes from s[2] on; s[0] is how many
// there are.
enum { POS, MAXTEXT = 72 };

INLINE long text_put(struct work *w, u8 c)
{
	u64 at = volat(w->s[POS]);
	if (at < MAXTEXT)
		((volatile char *)&w->s[2])[at] = c;
	volat(w->s[POS]) = at + 1;
	return 0;
}

INLINE long decimal(struct work *w, u64 d)
{
	if (d >= 100)
		text_put(w, '0' + d / 100);
	if (d >= 10)
		text_put(w, '0' + d / 10 % 10);
	return text_put(w, '0' + d % 10);
}

INLINE void dotted(struct work *w, volatile u8 *b)
{
#pragma unroll
	for (int k = 0; k < 4; k++) {
		if (k)
			text_put(w, '.');
		decimal(w, b[k]);
	}
}

INLINE u64 text(struct work *w, char *dst, u64 dsize)
{
	text_put(w, 0);
	return give(w, dst, dsize, (char *)&w->s[2]);
}

// The address's bytes are read into arg[2], arg[3].
__attribute__((noinline)) u64 ipv4(struct work *w, char *dst, u64 dsize, u64 addr)
{
	volatile u8 *b = (u8 *)&w->arg[2];
	if (probe_read((void *)b, 4, (void *)addr)) {
		w->fault = addr;
		return BADADDR;
	}
	volat(w->s[POS]) = 0;
	dotted(w, b);
	return text(w, dst, dsize);
}

// Addresses of IPv4 in IPv6 are written as the former alone if w->zero is set.
__attribute__((noinline)) u64 ipv6(struct work *w, char *dst, u64 dsize, u64 addr)
{
	volatile u8 *b = (u8 *)&w->arg[2];
	if (probe_read((void *)b, 16, (void *)addr)) {
		w->fault = addr;
		return BADADDR;
	}
	volat(w->s[POS]) = 0;
	u64 high = volat(w->arg[2]), low = __builtin_bswap64(volat(w->arg[3]));
	if (high == 0 && (low >> 32 == 0xffff || (low >> 32 == 0 && low > 0xffff))) {
		if (!volat(w->zero)) {
			text_put(w, ':');
			text_put(w, ':');
		}
		if (low >> 32 && !volat(w->zero)) {
			text_put(w, 'f');
			text_put(w, 'f');
			text_put(w, 'f');
			text_put(w, 'f');
			text_put(w, ':');
		}
		dotted(w, b + 12);
		return text(w, dst, dsize);
	}
	// The longest run of zero groups, of two at least, the first if there are
	// several: ret is where it begins, fault how long it is, zero the run
	// being counted.
	volat(w->ret) = 8;
	volat(w->fault) = 1;
	volat(w->zero) = 0;
#pragma unroll
	for (int k = 0; k < 8; k++) {
		u64 run = b[2 * k] | b[2 * k + 1] ? 0 : volat(w->zero) + 1;
		volat(w->zero) = run;
		if (run > volat(w->fault)) {
			volat(w->fault) = run;
			volat(w->ret) = k + 1 - run;
		}
	}
#pragma unroll
	for (int k = 0; k < 8; k++) {
		u64 from = volat(w->ret), after = from + volat(w->fault);
		if (k == from) {
			text_put(w, ':');
			text_put(w, ':');
		}
		if (k >= from && k < after)
			continue;
		if (k && k != after)
			text_put(w, ':');
		u64 g = b[2 * k] << 8 | b[2 * k + 1];
		if (g >> 12)
			text_put(w, hex(g >> 12));
		if (g >> 8)
			text_put(w, hex(g >> 8 & 15));
		if (g >> 4)
			text_put(w, hex(g >> 4 & 15));
		text_put(w, hex(g & 15));
	}
	return text(w, dst, dsize);
}

ROUTINE(inet_ntoa) { return ipv4(w, dst, dsize, w->arg[0]); }
ROUTINE(inet_ntoa6)
{
	volat(w->zero) = 1;
	return ipv6(w, dst, dsize, w->arg[0]);
}

// Linux's AF_INET and AF_INET6.
ROUTINE(inet_ntop)
{
	if (w->arg[0] == 2)
		return ipv4(w, dst, dsize, w->arg[1]);
	volat(w->zero) = 0;
	if (w->arg[0] == 10)
		return ipv6(w, dst, dsize, w->arg[1]);
	return ILLOP;
}

BODY(link_byte)
{
	struct work *w = e->w;
	if (i >= 20 || (i == 6 && w->arg[0] == 1))
		return 1;
	u8 b = ((volatile u8 *)&w->s[12])[i];
	if (i)
		text_put(w, ':');
	text_put(w, hex(b >> 4));
	text_put(w, hex(b & 15));
	return 0;
}

// ARPHRD_ETHER: 6 bytes, ARPHRD_INFINIBAND: 20. They are read into s[12]…
ROUTINE(link_ntop)
{
	u64 type = w->arg[0];
	if (type != 1 && type != 32)
		return ILLOP;
	volatile u8 *b = (u8 *)&w->s[12];
	long err = type == 1 ? probe_read((void *)b, 6, (void *)w->arg[1])
			     : probe_read((void *)b, 20, (void *)w->arg[1]);
	if (err) {
		w->fault = w->arg[1];
		return BADADDR;
	}
	volat(w->s[POS]) = 0;
	ENV(e);
	LOOP(link_byte, &e);
	return text(w, dst, dsize);
}
