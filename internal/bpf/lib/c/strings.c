#include "lib.h"

ROUTINE(strlen)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	w->ret = n;
	return 0;
}

// The first word that differs or holds the end decides; what follows the end
// is masked, and bytes compare in the order of a big-endian word.
BODY(strcmp_word)
{
	u64 at = (u64)i * 8;
	if (at >= e->ssize)
		return 1;
	u64 a = *(u64 *)(e->w->buf + at), b = *(u64 *)(buf2(e->w, e->ssize) + at);
	u64 end = zeroes(a);
	if (a == b && !end)
		return 0;
	u64 mask = ((end & -end) << 1) - 1;
	if (!end)
		mask = ~0ULL;
	a = __builtin_bswap64(a & mask);
	b = __builtin_bswap64(b & mask);
	e->w->ret = a == b ? 0 : a < b ? -1ULL : 1;
	return 1;
}

ROUTINE(strcmp)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	WANT(m, buf2(w, ssize), ssize, w->arg[1]);
	w->ret = 0;
	ENV(e);
	LOOP(strcmp_word, &e);
	return 0;
}

ROUTINE(strjoin)
{
	WANT(n, dst, dsize, w->arg[0]);
	WANT(m, dst + n, dsize - n, w->arg[1]);
	w->ret = (u64)dst;
	return 0;
}

// s[0]: the byte looked for, in every byte of a word; ret: its address
BODY(strchr_word)
{
	u64 at = (u64)i * 8;
	if (at >= e->ssize)
		return 1;
	u64 x = *(u64 *)(e->w->buf + at);
	u64 hit = zeroes(x ^ volat(e->w->s[0])), end = zeroes(x);
	if (!(hit | end))
		return 0;
	u64 k = lowest(hit | end);
	if (hit >> (8 * k + 7) & 1)
		e->w->ret = e->w->arg[0] + at + k;
	return 1;
}

BODY(strrchr_word)
{
	u64 at = (u64)i * 8;
	if (at >= e->ssize)
		return 1;
	u64 x = *(u64 *)(e->w->buf + at);
	u64 hit = zeroes(x ^ volat(e->w->s[0])), end = zeroes(x);
	if (end)
		hit &= ((end & -end) << 1) - 1;
	if (hit)
		e->w->ret = e->w->arg[0] + at + highest(hit);
	return end != 0;
}

ROUTINE(strchr)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	volat(w->s[0]) = (w->arg[1] & 0xff) * ONES;
	w->ret = 0;
	ENV(e);
	LOOP(strchr_word, &e);
	return 0;
}

ROUTINE(strrchr)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	volat(w->s[0]) = (w->arg[1] & 0xff) * ONES;
	w->ret = 0;
	ENV(e);
	LOOP(strrchr_word, &e);
	return 0;
}

// Search by rolling hash (Rabin, Karp), so that no string makes it quadratic: h
// is the polynomial of the window's bytes at BASE modulo 2^64. Where the hashes
// agree the bytes are compared, eight a turn. To the left the window rolls by
// the base's inverse.
#define BASE 0x9e3779b97f4a7c15ULL
#define INVERSE 0xf1de83e19937733dULL

enum { HASH, WANTED, POWER, AT, OFF, LEN, SUBLEN, COMPARING };

BODY(search_hash)
{
	struct work *w = e->w;
	u64 at = volat(w->s[AT]) + i;
	keep(at);
	if (i >= volat(w->s[SUBLEN]) || i >= e->ssize || at >= e->ssize)
		return 1;
	volat(w->s[HASH]) = volat(w->s[HASH]) * BASE + (u8)w->buf[at];
	volat(w->s[WANTED]) = volat(w->s[WANTED]) * BASE + (u8)buf2(w, e->ssize)[i];
	if (i > 0)
		volat(w->s[POWER]) *= BASE;
	return 0;
}

// compare compares the next word of the window; 1 if all are equal.
INLINE long compare(struct env *e, u64 at)
{
	struct work *w = e->w;
	u64 off = volat(w->s[OFF]), m = volat(w->s[SUBLEN]);
	u64 from = at + off;
	keep(off);
	keep(from);
	if (off >= m || off >= e->ssize || from >= e->ssize)
		return 1;
	u64 x = *(u64 *)(w->buf + from) ^ *(u64 *)(buf2(w, e->ssize) + off);
	if (m - off < 8)
		x &= (1ULL << 8 * (m - off)) - 1;
	if (x)
		volat(w->s[COMPARING]) = 0;
	volat(w->s[OFF]) = off + 8;
	return 0;
}

BODY(search_right)
{
	struct work *w = e->w;
	u64 at = volat(w->s[AT]), m = volat(w->s[SUBLEN]);
	keep(at);
	if (at >= e->ssize)
		return 1;
	if (volat(w->s[COMPARING])) {
		if (compare(e, at)) {
			w->ret = at;
			return 1;
		}
		if (volat(w->s[COMPARING]))
			return 0;
	} else if (volat(w->s[HASH]) == volat(w->s[WANTED])) {
		volat(w->s[COMPARING]) = 1;
		volat(w->s[OFF]) = 0;
		return 0;
	}
	if (m >= e->ssize)
		return 1;
	u64 next = at + m;
	keep(next);
	if (next >= volat(w->s[LEN]) || next >= e->ssize)
		return 1;
	u64 h = volat(w->s[HASH]) - (u8)w->buf[at] * volat(w->s[POWER]);
	volat(w->s[HASH]) = h * BASE + (u8)w->buf[next];
	volat(w->s[AT]) = at + 1;
	return 0;
}

BODY(search_left)
{
	struct work *w = e->w;
	u64 at = volat(w->s[AT]), m = volat(w->s[SUBLEN]);
	keep(at);
	if (at >= e->ssize)
		return 1;
	if (volat(w->s[COMPARING])) {
		if (compare(e, at)) {
			w->ret = at;
			return 1;
		}
		if (volat(w->s[COMPARING]))
			return 0;
	} else if (volat(w->s[HASH]) == volat(w->s[WANTED])) {
		volat(w->s[COMPARING]) = 1;
		volat(w->s[OFF]) = 0;
		return 0;
	}
	u64 left = at - 1, last = left + m;
	keep(left);
	keep(last);
	if (left >= e->ssize || last >= e->ssize) // at 0 there is no more
		return 1;
	u64 h = volat(w->s[HASH]) - (u8)w->buf[last];
	volat(w->s[HASH]) = h * INVERSE + (u8)w->buf[left] * volat(w->s[POWER]);
	volat(w->s[AT]) = left;
	return 0;
}

// start prepares a search from position at.
INLINE void start(struct work *w, u64 at, u64 n, u64 m)
{
	volat(w->s[HASH]) = 0;
	volat(w->s[WANTED]) = 0;
	volat(w->s[POWER]) = 1;
	volat(w->s[AT]) = at;
	volat(w->s[LEN]) = n;
	volat(w->s[SUBLEN]) = m;
	volat(w->s[COMPARING]) = 0;
	w->ret = -1ULL;
}

#define SEARCH(direction, at, n, m)                                            \
	do {                                                                   \
		start(w, at, n, m);                                            \
		ENV(e);                                                        \
		LOOP(search_hash, &e);                                         \
		LOOP(direction, &e);                                           \
	} while (0)

ROUTINE(strstr)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	WANT(m, buf2(w, ssize), ssize, w->arg[1]);
	w->ret = -1ULL;
	if (m == 0)
		w->ret = 0;
	else if (m <= n)
		SEARCH(search_right, 0, n, m);
	w->ret = (s64)w->ret < 0 ? 0 : w->arg[0] + w->ret;
	return 0;
}

// Positions before the string are its start; the empty string is found at the
// end where the position is behind it.
ROUTINE(index)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	WANT(m, buf2(w, ssize), ssize, w->arg[1]);
	s64 at = w->arg[2];
	if (at < 0)
		at = 0;
	if (m == 0) {
		w->ret = at < n ? at : n;
		return 0;
	}
	w->ret = -1ULL;
	if (at < n && m <= n - at)
		SEARCH(search_right, at, n, m);
	return 0;
}

// arg[2] is the last position looked at; absent: the largest number.
ROUTINE(rindex)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	WANT(m, buf2(w, ssize), ssize, w->arg[1]);
	s64 at = w->arg[2];
	if (m == 0) {
		w->ret = at < 0 ? 0 : at < n ? at : n;
		return 0;
	}
	w->ret = -1ULL;
	if (at < 0 || m > n)
		return 0;
	if (at > n - m)
		at = n - m;
	SEARCH(search_left, at, n, m);
	return 0;
}

// A negative position counts from the end, a negative length leaves that many
// bytes off the end. arg[2] absent: the largest number, which stands for ssize.
ROUTINE(substr)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	s64 at = w->arg[1], len = w->arg[2];
	if (len == (s64)(~0ULL >> 1))
		len = ssize;
	if (at < 0) {
		at += n;
		if (at < 0 && at + len > 0) {
			len += at;
			at = 0;
		}
	}
	if (at < 0 || at >= n) {
		at = 0;
		len = 0;
	} else if (len < 0) {
		len += n - at;
	}
	if (len < 0)
		len = 0;
	u64 size = len, from = at;
	if (size > dsize - 1)
		size = dsize - 1;
	if (from >= ssize)
		return ILLOP;
	return give(w, dst, size + 1, w->buf + from);
}

// Tokens. The state is {u64 1+position, 0: none yet; the string}.
enum { MAP, TOKEN = 4, END };

BODY(strtok_set)
{
	struct work *w = e->w;
	if (i >= e->ssize)
		return 1;
	u8 c = w->buf[i];
	volat(w->s[MAP + (c >> 6)]) |= 1ULL << (c & 63);
	return c == 0;
}

// The NUL is in the set too: it ends a token.
BODY(strtok_scan)
{
	struct work *w = e->w;
	u64 at = volat(w->s[END]);
	if (at >= e->ssize)
		return 1;
	u8 c = e->state[8 + at];
	u64 in = volat(w->s[MAP + (c >> 6)]) >> (c & 63) & 1;
	u64 token = volat(w->s[TOKEN]);
	if (c == 0 || (in && token != -1ULL))
		return 1;
	if (!in && token == -1ULL)
		volat(w->s[TOKEN]) = at;
	volat(w->s[END]) = at + 1;
	return 0;
}

ROUTINE(strtok)
{
	u64 at = *(volatile u64 *)state;
	WANT(m, w->buf, ssize, w->arg[1]);
	if (w->arg[0]) {
		WANT(n, state + 8, ssize, w->arg[0]);
		at = 1;
	}
	if (at == 0) {
		w->fault = 0;
		return BADADDR;
	}
	for (int k = 0; k < 4; k++)
		volat(w->s[MAP + k]) = 0;
	volat(w->s[TOKEN]) = -1ULL;
	volat(w->s[END]) = at - 1;
	ENV(e);
	LOOP(strtok_set, &e);
	LOOP(strtok_scan, &e);
	u64 token = volat(w->s[TOKEN]), end = volat(w->s[END]);
	*(volatile u64 *)state = end + 1;
	w->ret = 0;
	if (token >= ssize)
		return 0;
	u64 size = end - token;
	if (size > dsize - 1)
		size = dsize - 1;
	return give(w, dst, size + 1, state + 8 + token);
}

// Paths. One pass finds the last component, BASE_AT to BASE_END, and the end
// of the one before.
enum { BASE_AT, BASE_END, DIR_END, IN_NAME };

BODY(path_byte)
{
	struct work *w = e->w;
	if (i >= e->ssize)
		return 1;
	u8 c = w->buf[i];
	if (c == 0)
		return 1;
	if (c == '/') {
		volat(w->s[IN_NAME]) = 0;
		return 0;
	}
	if (!volat(w->s[IN_NAME])) {
		volat(w->s[IN_NAME]) = 1;
		volat(w->s[DIR_END]) = volat(w->s[BASE_END]);
		volat(w->s[BASE_AT]) = i;
	}
	volat(w->s[BASE_END]) = i + 1;
	return 0;
}

INLINE void path(struct work *w, char *dst, u64 dsize, u64 ssize, char *state)
{
	volat(w->s[BASE_AT]) = 0;
	volat(w->s[BASE_END]) = 0;
	volat(w->s[DIR_END]) = 0;
	volat(w->s[IN_NAME]) = 0;
	ENV(e);
	LOOP(path_byte, &e);
}

ROUTINE(basename)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	if (n == 0) {
		*(u16 *)w->buf = '.';
		n = 1;
	}
	path(w, dst, dsize, ssize, state);
	u64 from = volat(w->s[BASE_AT]), size = volat(w->s[BASE_END]) - from;
	if (size == 0) // nothing but slashes
		size = 1;
	if (size > dsize - 1)
		size = dsize - 1;
	if (from >= ssize)
		return ILLOP;
	return give(w, dst, size + 1, w->buf + from);
}

ROUTINE(dirname)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	path(w, dst, dsize, ssize, state);
	u64 size = volat(w->s[DIR_END]);
	if (size == 0) {
		if (w->buf[0] != '/')
			*(u16 *)w->buf = '.';
		size = 1;
	}
	if (size > dsize - 1)
		size = dsize - 1;
	return give(w, dst, size + 1, w->buf);
}

// SEEN is how much of "/.." has been read and not yet written; BACK: the
// destination goes back to the slash before.
enum { FROM, TO, SEEN, BACK, BYTE };

// put writes a byte, if there is room; what does not fit counts too.
INLINE void put(struct env *e, u8 c)
{
	u64 to = volat(e->w->s[TO]);
	keep(to);
	if (to < e->dsize)
		e->dst[to] = c;
	volat(e->w->s[TO]) = to + 1;
}

#define C volat(w->s[BYTE])

// back is the turn's work while the destination goes back.
INLINE long back(struct env *e)
{
	struct work *w = e->w;
	u64 to = volat(w->s[TO]);
	if (to > 0) {
		to--;
		keep(to);
		volat(w->s[TO]) = to;
		if (to >= e->dsize)
			return 0;
		if (to > 0 && e->dst[to] != '/')
			return 0;
	}
	volat(w->s[BACK]) = 0;
	if (C != 0)
		return 0;
	put(e, '/');
	return 1;
}

BODY(clean_byte)
{
	struct work *w = e->w;
	u64 from = volat(w->s[FROM]);
	keep(from);
	if (from >= e->ssize)
		return 1;
	C = (u8)w->buf[from];
	if (volat(w->s[BACK]))
		return back(e);
	if (volat(w->s[SEEN]) == 3 && (C == '/' || C == 0)) {
		volat(w->s[SEEN]) = 0; // and the byte is read again
		volat(w->s[BACK]) = 1;
		return 0;
	}
	volat(w->s[FROM]) = from + 1;
	if (volat(w->s[SEEN]) < 3 && C == '/') {
		volat(w->s[SEEN]) = 1;
		return 0;
	}
	if (volat(w->s[SEEN]) - 1 < 2 && C == '.') {
		volat(w->s[SEEN]) += 1;
		return 0;
	}
	if (volat(w->s[SEEN]) > 0)
		put(e, '/');
	if (volat(w->s[SEEN]) > 1)
		put(e, '.');
	if (volat(w->s[SEEN]) > 2)
		put(e, '.');
	volat(w->s[SEEN]) = 0;
	if (C == 0)
		return 1;
	put(e, C);
	return 0;
}

ROUTINE(cleanpath)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	for (int k = 0; k < 4; k++)
		volat(w->s[k]) = 0;
	ENV(e);
	LOOP(clean_byte, &e);
	u64 to = volat(w->s[TO]);
	if (to > dsize - 1)
		to = dsize - 1;
	dst[to] = 0;
	w->ret = (u64)dst;
	return 0;
}

// Letters, eight at a time: s[0] and s[1] are what lifts the first letter, and
// the byte after the last, to 0x80.
BODY(fold_word)
{
	struct work *w = e->w;
	u64 at = (u64)i * 8;
	if (at >= e->dsize || at > volat(w->s[2]))
		return 1;
	u64 x = *(u64 *)(e->dst + at), low = x & ~HIGH;
	u64 letter = ~x & HIGH & ((low + volat(w->s[0])) ^ (low + volat(w->s[1])));
	*(u64 *)(e->dst + at) = x ^ letter >> 2;
	return 0;
}

#define FOLD(first, last)                                                      \
	WANT(n, dst, dsize, w->arg[0]);                                        \
	volat(w->s[0]) = (0x80 - first) * ONES;                                \
	volat(w->s[1]) = (0x7f - last) * ONES;                                 \
	volat(w->s[2]) = n;                                                    \
	ENV(e);                                                                \
	LOOP(fold_word, &e);                                                   \
	w->ret = (u64)dst;                                                     \
	return 0

ROUTINE(tolower) { FOLD('A', 'Z'); }
ROUTINE(toupper) { FOLD('a', 'z'); }
