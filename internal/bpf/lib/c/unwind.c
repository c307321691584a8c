#include "lib.h"

// User stacks by the unwind tables of the objects mapped. What there is to know
// lies in three maps; internal/bpf/unwind.go fills them and has the same layout.

// procs has what is mapped executable into a process: ranges FIRST to
// FIRST+COUNT. STACK is where the stack of the program it runs begins, which
// tells that program from the one before exec and from another of that number.
struct proc {
	u64 stack;
	u32 first, count;
};

// A range of addresses and its rows: adj makes of the distance from start what
// the rows count from. Without rows, first is what is known of frame pointers.
struct range {
	u64 start;
	u32 len, adj;
	u32 first, count;
};

enum { FP_NO, FP_LIKELY, FP_KEPT };

// A row is in force from pc to the next one's.
struct row {
	u32 pc, rule;
};

struct rule {
	int cfaoff;
	short rbpoff, rbxoff, raoff, cfaadd; // rbxoff 0: RBX is not saved
	u8 cfa, where, reg, flags; // where: of RBP, and of the return address << 4
};

enum { CFA_NONE, CFA_END, CFA_RSP, CFA_RBP, CFA_REG, CFA_RSP_DEREF, CFA_RBP_DEREF, CFA_PLT, CFA_UNKNOWN, CFA_FP };
enum { SAME, AT_CFA, AT_RSP, AT_RBP, UNKNOWN };
enum { SIGNAL = 1, PAIR = 2, PLAIN = 4, RBX_RSP = 8 }; // PAIR: RBP and return address side by side at CFA-16; PLAIN: RBP as it is; RBX_RSP: rbxoff counts from RSP

#define WANTED_SLOTS 1024
#define CPU_SLOTS    512
#define MAX_RULES    16384
#define MAX_RANGES   65536
#define SHARD_ROWS   65536
#define RANGE_STEPS  10 // a process has fewer than 1<<RANGE_STEPS ranges
#define ROW_STEPS    16
#define SMALL_STEPS  8  // of small tables

// The value of the map unwind.
#define AT_COUNTERS (4 * WANTED_SLOTS)
#define AT_RULES    (AT_COUNTERS + 64 * CPU_SLOTS)
#define AT_RANGES   (AT_RULES + 16 * MAX_RULES)

enum { ENDED, CUT, ABSENT }; // counters of walks

extern char map_unwind[], map_procs[], map_shards[];

static void *(*lookup)(void *, const void *) = (void *)1;
static u32 (*cpu_id)(void) = (void *)8;
static u64 (*pid_tgid)(void) = (void *)14;
static long (*read_user)(void *, u32, const void *) = (void *)112;
static void *(*current_task_btf)(void) = (void *)158;
static void *(*task_pt_regs)(void *) = (void *)175;

INLINE char *unwind_map(void)
{
	char *m = map_unwind;
	keep(m);
	return m;
}

// less is 1 if a < b, else 0, for numbers below 1<<63, with no jump: the verifier
// would follow both ways of each turn of a search. It would also try both values
// of a shift that keeps the sign.
INLINE u64 less(u64 a, u64 b)
{
	a -= b;
	keep(a);
	a >>= 63;
	keep(a);
	return a;
}

// Registers of the frame the walk is at, and what is read on the way. All of it
// lies in memory, and the parts of a turn are functions that return nothing, so
// that the verifier forgets at the end of each by which way it came there.
enum { PC, SP, BP, EXACT, COUNT, STATE, FIRST, RANGES, NEXT_BP, NEXT_PC, TMP, CFA, RANGE, RULE, ADDR, OK, GUESS };
enum { GOING, AT_END, AT_CUT };

#define V(k)	   volat(w->s[k])
#define PART(name) __attribute__((noinline)) long name(struct env *e)

// The registers at the beginning, struct pt_regs, are in the work area.
#define NREGS 21
enum { REG_BP = 4, REG_BX = 5, REG_IP = 16, REG_CS = 17, REG_SP = 19 };

// Behind them, where the last frame that saved RBX put it: the linker's lazy
// binding has its frame by that. 0: it is in the register still.
#define SAVED_BX (((volatile u64 *)w->buf)[NREGS])

INLINE struct range *range_at(u64 i)
{
	i &= MAX_RANGES - 1;
	keep(i);
	return (void *)(unwind_map() + AT_RANGES + i * sizeof(struct range));
}

// find_range finds the range of the address; without one the walk is cut.
PART(find_range)
{
	struct work *w = e->w;
	u64 first = V(FIRST), n = V(RANGES), at = 0, addr = V(ADDR);
#pragma unroll
	for (int k = RANGE_STEPS - 1; k >= 0; k--) {
		u64 in = less(at + (1ULL << k), n);
		at += (in & (less(addr, range_at(first + at + (in << k))->start) ^ 1)) << k;
		keep(at);
	}
	struct range *r = range_at(first + at);
	V(RANGE) = first + at;
	if (n == 0 || addr - r->start >= r->len)
		V(STATE) = AT_CUT;
	return 0;
}

// search looks among n rows for the last one whose pc is not above, in steps of
// 1<<from to 1<<to, beginning at one that is not.
INLINE u64 search(char *rows, u32 first, u32 n, u32 pc, u64 at, int from, int to)
{
#pragma unroll
	for (int k = from; k >= to; k--) {
		u64 in = less(at + (1ULL << k), n);
		u64 i = (first + at + (in << k)) & (SHARD_ROWS - 1);
		keep(i);
		at += (in & (less(pc, ((struct row *)(rows + 8 * i))->pc) ^ 1)) << k;
		keep(at);
	}
	return at;
}

// find_rule finds the rule in force at the address, 0 if nothing is known.
PART(find_rule)
{
	struct work *w = e->w;
	struct range *r = range_at(V(RANGE));
	u32 n = r->count, first = r->first, zero = 0;
	u32 pc = V(ADDR) - r->start + r->adj, shard = first / SHARD_ROWS;
	void *inner = lookup(map_shards, &shard);
	if (!inner)
		return 0;
	char *rows = lookup(inner, &zero);
	if (!rows)
		return 0;
	u64 at = 0;
	if (n > 1 << SMALL_STEPS)
		at = search(rows, first, n, pc, 0, ROW_STEPS - 1, SMALL_STEPS);
	at = search(rows, first, n, pc, at, SMALL_STEPS - 1, 0);
	u64 i = (first + at) & (SHARD_ROWS - 1);
	keep(i);
	V(RULE) = ((struct row *)(rows + 8 * i))->rule;
	return 0;
}

INLINE struct rule *rule_at(u64 i)
{
	i &= MAX_RULES - 1;
	keep(i);
	return (void *)(unwind_map() + AT_RULES + i * sizeof(struct rule));
}

// after_call reports in OK whether a call can end just before the next PC: the
// bytes e8 and ff /2 in their lengths.
PART(after_call)
{
	struct work *w = e->w;
	V(OK) = 1;
	if (!read_user(&w->s[TMP], 8, (void *)(V(NEXT_PC) - 8))) {
		u64 b = V(TMP);
		if ((b >> 24 & 0xff) == 0xe8)
			return 0;
#pragma unroll
		for (int k = 1; k <= 6; k++)
			if ((b >> 8 * k & 0x38ff) == 0x10ff)
				return 0;
	}
	V(OK) = 0;
	return 0;
}

// at_edge reports in OK whether the walk is at an instruction of a function's
// first or last, where the frame pointer is the caller's and the return address
// on top of the stack, and steps to the caller: push %rbp, endbr64, ret, Go's
// look at the stack's end, and a breakpoint, under which one of them may be.
PART(at_edge)
{
	struct work *w = e->w;
	V(OK) = 0;
	if (read_user(&w->s[TMP], 8, (void *)V(PC)))
		return 0;
	u64 b = V(TMP);
	u32 first = b & 0xff, four = b;
	if (first != 0x55 && first != 0xc3 && first != 0xcc && four != 0xfa1e0ff3 && four != 0x10663b49)
		return 0;
	if (read_user(&w->s[NEXT_PC], 8, (void *)V(SP)))
		return 0;
	after_call(e);
	if (V(OK)) {
		V(SP) += 8;
		V(NEXT_BP) = V(BP);
		V(EXACT) = 0;
	}
	return 0;
}

// along_bp steps along the frame pointer.
PART(along_bp)
{
	struct work *w = e->w;
	u64 bp = V(BP), sp = V(SP);
	if (bp == 0) {
		V(STATE) = AT_END; // what the ABI asks of the outermost frame
		return 0;
	}
	V(STATE) = AT_CUT;
	// Where a rule sends us here, the stack may be another one.
	u64 far = bp - sp;
	if (V(RULE))
		far = 0;
	if (bp & 7 || far > 1 << 24 || read_user(&w->s[NEXT_BP], 16, (void *)bp))
		return 0;
	V(STATE) = GOING;
	V(SP) = bp + 16;
	V(EXACT) = 0;
	return 0;
}

// by_fp steps to the caller in code without rows, or with rows that say so.
PART(by_fp)
{
	struct work *w = e->w;
	u32 kept = FP_NO; // of a process that has no tables yet
	if (!V(GUESS)) {
		struct range *r = range_at(V(RANGE));
		kept = r->count ? FP_KEPT : r->first;
	}
	if (V(EXACT)) {
		at_edge(e);
		if (V(OK))
			return 0;
	}
	if (kept == FP_NO) {
		V(STATE) = AT_CUT;
		return 0;
	}
	along_bp(e);
	if (V(STATE) == GOING && kept == FP_LIKELY) {
		after_call(e);
		if (!V(OK))
			V(STATE) = AT_CUT;
	}
	return 0;
}

// kept_at reads a register from where a rule says it was saved.
INLINE long kept_at(struct work *w, u64 *to, u32 where, s64 off)
{
	u64 base = V(CFA);
	if (where == AT_RSP)
		base = V(SP);
	else if (where == AT_RBP)
		base = V(BP);
	else if (where != AT_CFA)
		return 1;
	return read_user(to, 8, (void *)(base + off));
}

// find_cfa computes the canonical frame address.
PART(find_cfa)
{
	struct work *w = e->w;
	struct rule *r = rule_at(V(RULE));
	s64 off = r->cfaoff;
	u32 kind = r->cfa;
	if (kind == CFA_RSP) {
		V(CFA) = V(SP) + off;
	} else if (kind == CFA_RBP) {
		V(CFA) = V(BP) + off;
	} else if (kind == CFA_END) {
		V(STATE) = AT_END;
	} else if (kind == CFA_RSP_DEREF || kind == CFA_RBP_DEREF) {
		u64 base = V(SP);
		if (kind == CFA_RBP_DEREF)
			base = V(BP);
		if (read_user(&w->s[CFA], 8, (void *)(base + off)))
			V(STATE) = AT_CUT;
		V(CFA) += r->cfaadd;
	} else if (kind == CFA_PLT) {
		V(CFA) = V(SP) + 8;
		if ((V(PC) & 15) >= off)
			V(CFA) += 8;
	} else if (kind == CFA_REG && r->reg == REG_BX) {
		V(TMP) = ((volatile u64 *)w->buf)[REG_BX];
		if (SAVED_BX && read_user(&w->s[TMP], 8, (void *)SAVED_BX))
			V(STATE) = AT_CUT;
		V(CFA) = V(TMP) + off;
	} else if (kind == CFA_REG && V(COUNT) == 1) {
		u64 k = r->reg;
		keep(k);
		if (k < NREGS)
			V(CFA) = ((volatile u64 *)w->buf)[k] + off;
	} else {
		V(STATE) = AT_CUT;
	}
	return 0;
}

// find_saved reads the return address and RBP where they are not side by side.
PART(find_saved)
{
	struct work *w = e->w;
	struct rule *r = rule_at(V(RULE));
	u32 where = r->where;
	if (kept_at(w, &w->s[NEXT_PC], where >> 4, r->raoff)) {
		V(STATE) = AT_CUT;
		return 0;
	}
	where &= 15;
	if (where == SAME)
		V(NEXT_BP) = V(BP);
	else if (where == UNKNOWN)
		V(NEXT_BP) = 0;
	else if (kept_at(w, &w->s[NEXT_BP], where, r->rbpoff))
		V(STATE) = AT_CUT;
	return 0;
}

// by_rule steps to the caller as the rule says.
INLINE void by_rule(struct env *e)
{
	struct work *w = e->w;
	struct rule *r = rule_at(V(RULE));
	u32 flags = r->flags, kind = r->cfa;
	u64 cfa;
	if (kind == CFA_RSP) {
		cfa = V(SP) + r->cfaoff;
	} else if (kind == CFA_RBP) {
		cfa = V(BP) + r->cfaoff;
	} else {
		find_cfa(e);
		if (V(STATE) != GOING)
			return;
		cfa = V(CFA);
	}
	V(CFA) = cfa;
	// A frame lies above the one it called, but a signal may have been
	// delivered on another stack.
	long bad = cfa <= V(SP) && !(flags & SIGNAL);
	if (bad) {
		V(STATE) = AT_CUT;
		return;
	}
	if (flags & PLAIN) {
		bad = read_user(&w->s[NEXT_PC], 8, (void *)(cfa - 8));
		V(NEXT_BP) = V(BP);
	} else if (flags & PAIR) {
		bad = read_user(&w->s[NEXT_BP], 16, (void *)(cfa - 16));
	} else {
		find_saved(e);
	}
	if (bad)
		V(STATE) = AT_CUT;
	s64 rbx = r->rbxoff;
	if (rbx) {
		if (flags & RBX_RSP)
			rbx += V(SP);
		else
			rbx += V(CFA);
		SAVED_BX = rbx;
	}
	V(SP) = V(CFA);
	V(EXACT) = flags & SIGNAL;
}

// A turn takes down the frame the walk is at and goes on to its caller.
BODY(ustack_step)
{
	struct work *w = e->w;
	if (!V(GUESS)) {
		// A return address is looked up by the call before it, which may be
		// the last instruction of its function.
		u64 addr = V(PC) - (V(EXACT) ^ 1);
		V(ADDR) = addr;
		// Most callers are in the range of the one they called.
		struct range *r = range_at(V(RANGE));
		if (addr - r->start >= r->len || V(COUNT) == 0)
			find_range(e);
	}
	if (V(STATE) != GOING && V(COUNT))
		return 1; // nothing can have been called from there
	u64 at = V(COUNT) * 8;
	keep(at);
	if (at >= e->dsize)
		return 1;
	*(u64 *)(e->dst + at) = V(PC);
	V(COUNT) = at / 8 + 1;
	if (V(STATE) != GOING || at + 8 >= e->dsize)
		return 1;
	V(RULE) = 0;
	long rows = !V(GUESS) && range_at(V(RANGE))->count;
	if (rows) {
		find_rule(e);
		rows = rule_at(V(RULE))->cfa != CFA_FP;
	}
	if (rows)
		by_rule(e);
	else
		by_fp(e);
	if (V(STATE) != GOING)
		return 1;
	u64 next = V(NEXT_PC);
	if (next == 0) {
		V(STATE) = AT_END;
		return 1;
	}
	V(PC) = next;
	V(BP) = V(NEXT_BP);
	return 0;
}

INLINE void count(u32 what)
{
	u64 cpu = cpu_id() & (CPU_SLOTS - 1);
	keep(cpu);
	__sync_fetch_and_add((u64 *)(unwind_map() + AT_COUNTERS + cpu * 64 + 8 * what), 1);
}

// want asks for the tables of the process.
INLINE void want_tables(u32 tgid)
{
	u64 slot = tgid & (WANTED_SLOTS - 1);
	keep(slot);
	*(volatile u32 *)(unwind_map() + 4 * slot) = tgid;
}

// ustack puts the user stack of the current thread into dst, dsize bytes that
// are zero: addresses from the innermost frame on, and, if the walk ended early
// and there is room, a word of ones. The result is the number of frames, 0 if
// there is nothing to walk by. arg[0] is where the stack of the program begins,
// as in struct proc, arg[1] whether a process without tables is walked along
// frame pointers.
ROUTINE(ustack)
{
	volatile u64 *regs = (volatile u64 *)w->buf;
	u32 tgid = pid_tgid() >> 32;
	w->ret = 0;
	if (w->arg[0] == 0) // a thread of the kernel
		return 0;
	V(GUESS) = 0;
	struct proc *p = lookup(map_procs, &tgid);
	if (p && *(volatile u64 *)&p->stack == w->arg[0]) {
		V(FIRST) = p->first;
		V(RANGES) = p->count;
	} else {
		want_tables(tgid);
		count(ABSENT);
		V(GUESS) = w->arg[1];
		if (!w->arg[1])
			return 0;
	}
	if (probe_read(w->buf, 8 * NREGS, task_pt_regs(current_task_btf())) || regs[REG_CS] != 0x33)
		return 0;
	V(PC) = regs[REG_IP];
	V(SP) = regs[REG_SP];
	V(BP) = regs[REG_BP];
	V(EXACT) = 1;
	V(COUNT) = 0;
	V(RANGE) = 0;
	SAVED_BX = 0;
	V(STATE) = GOING;
	ENV(e);
	LOOP(ustack_step, &e);
	w->ret = V(COUNT);
	if (!V(GUESS))
		count(V(STATE) == AT_CUT ? CUT : ENDED);
	if (V(STATE) != AT_CUT)
		return 0;
	want_tables(tgid);
	u64 at = V(COUNT) * 8;
	keep(at);
	if (at < dsize)
		*(u64 *)(dst + at) = ~0ULL;
	return 0;
}
