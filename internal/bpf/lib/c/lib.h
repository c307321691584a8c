// The routines' common ground. See lib.go for the calling convention.
//
// Two things shape all of this code. The verifier walks every call of a routine
// with what it knows of the arguments, so bounds must follow from dsize and
// ssize, which are constants there. And it walks loops until nothing new turns
// up: what changes from turn to turn is kept in the work area, about which the
// verifier remembers nothing, so that the second turn is like the first.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define INLINE static inline __attribute__((always_inline))
// keep makes the compiler use the very register that was compared with a bound.
#define keep(x) asm volatile("" : "+r"(x))
#define volat(x) (*(volatile __typeof__(x) *)&(x))

// Fault kinds: dif.FltBadAddr, dif.FltIllOp.
enum { BADADDR = 1, ILLOP = 3 };

struct work {
	u64 ret;     // result
	u64 fault;   // address of a fault
	u64 arg[4];  // arguments, absent optional ones with their default
	u64 zero;    // for numbers the verifier shall not know
	u64 s[17];   // state of the routine
	char buf[];  // room for strings, ssize each, rounded up to 8
};

// env is what the body of a loop sees.
struct env {
	struct work *w;
	char *dst;
	u64 dsize, ssize;
	char *state;
};

static long (*probe_read)(void *, u32, const void *) = (void *)113;
static long (*probe_read_str)(void *, u32, const void *) = (void *)115;
static long (*bpf_loop)(u32, void *, void *, u64) = (void *)181;
static u64 (*current_task)(void) = (void *)35;

// ROUTINE(name) defines an entry.
#define ROUTINE(name) \
	u64 dt_##name(struct work *w, char *dst, u64 dsize, u64 ssize, char *state)

// BODY(name) is a loop's body, called with i = 0, 1, …; 1 ends the loop.
// LOOP runs it, at most 8 million times.
// CALLED(name) is one with many branches, kept a function of its own.
#ifdef MAY_GOTO
#define BODY(name) INLINE long name(u64 i, struct env *e)
#define CALLED(name) __attribute__((noinline)) long name(u64 i, struct env *e)
#define LOOP(body, e)                                                          \
	do {                                                                   \
		volat((e)->w->zero) = 0;                                       \
		for (u64 i_ = volat((e)->w->zero);; i_++) {                    \
			__label__ out, on;                                     \
			asm volatile goto("1: .byte 0xe5; .byte 0;"            \
					  ".long ((%l[out] - 1b - 8) / 8) & 0xffff;" \
					  ".short 0" : : : : out);             \
			goto on;                                               \
		out:                                                           \
			break;                                                 \
		on:                                                            \
			if (body(i_, e))                                       \
				break;                                         \
		}                                                              \
	} while (0)
#else
#define BODY(name) long name(u32 i, struct env *e)
#define CALLED(name) BODY(name)
#define LOOP(body, e) bpf_loop(1 << 23, body, e, 0)
#endif

#define ENV(name) struct env name = {w, dst, dsize, ssize, state}

INLINE u64 round8(u64 n) { return (n + 7) & ~7ULL; }
INLINE char *buf2(struct work *w, u64 ssize) { return w->buf + round8(ssize); }

// want reads a string argument into a buffer: its length, or -1 with the
// fault's address noted.
INLINE s64 want(struct work *w, char *buf, u64 size, u64 addr)
{
	s64 n = probe_read_str(buf, size, (void *)addr);
	if (n <= 0) {
		w->fault = addr;
		return -1;
	}
	return n - 1;
}

#define WANT(n, buf, size, addr)                                               \
	s64 n = want(w, buf, size, addr);                                      \
	if (n < 0)                                                             \
		return BADADDR

// give copies a string of our own to the destination: at most size bytes with
// the NUL, size being 1…dsize.
INLINE u64 give(struct work *w, char *dst, u64 size, const char *src)
{
	probe_read_str(dst, size, src);
	w->ret = (u64)dst;
	return 0;
}

// Bytes of a word in parallel.
#define ONES 0x0101010101010101ULL
#define HIGH 0x8080808080808080ULL

// zeroes has the high bit of every byte of x that is 0, exactly.
INLINE u64 zeroes(u64 x) { return ~(((x & ~HIGH) + ~HIGH) | x | ~HIGH); }

// lowest is the number of the first marked byte; m must not be 0.
INLINE u64 lowest(u64 m) { return ((((m & -m) - 1) & ONES) * ONES >> 56) - 1; }

INLINE u64 highest(u64 m)
{
	m |= m >> 8;
	m |= m >> 16;
	m |= m >> 32;
	return ((m >> 7) * ONES >> 56) - 1;
}
