#include "lib.h"

// One pass over the text, a byte a turn. The path is followed as far as it
// goes: LEVEL is the depth of the container in which its next component (at
// path offset PATH) is looked for, HIT says that the value to come is what the
// components so far name. Where the path ends the value is collected.
enum {
	STATE,
	DEPTH,
	KINDS, // of the open containers, innermost in bit 0: 1 for objects
	LEVEL,
	PATH,
	HIT,
	MATCHED, // bytes of the component that the key agreed with; NOMATCH
	COUNT,   // elements to go
	FIRST,   // where the collected value begins; NONE
	WITHIN,  // the depth it is at
	AFTER_IT, // where it ends; NONE
	BYTE,     // the byte at hand, NAME the path's
	NAME,
	AT,
};

#define C volat(e->w->s[BYTE])

enum { VALUE, VALUE_OR_END, KEY, KEY_OR_END, COLON, STRING, STRING_ESC, KEY_TEXT, KEY_ESC, WORD, AFTER };

#define NONE (~0ULL)
#define NOMATCH (~0ULL)

INLINE u64 blank(struct env *e) { return C == ' ' || C == '\t' || C == '\r' || C == '\n'; }

INLINE u64 special(struct env *e)
{
	return C == ',' || C == ':' || C == '{' || C == '}' || C == '[' || C == ']' || C == '"';
}

// step reads a byte of the path; beyond the buffer it ends.
INLINE void step(struct env *e, u64 at)
{
	volat(e->w->s[NAME]) = 0;
	keep(at);
	if (at < e->ssize)
		volat(e->w->s[NAME]) = (u8)buf2(e->w, e->ssize)[at];
}

#define P volat(e->w->s[NAME])

INLINE u64 ends(struct env *e) { return P == 0 || P == '.' || P == '['; }

// next goes to the path's next component, or its end.
INLINE void next(struct env *e, u64 at)
{
	volat(e->w->s[PATH]) = at;
	step(e, at);
	if (P == '.')
		volat(e->w->s[PATH]) += 1;
}

// number reads an index of the path: 1 if there is none.
INLINE long number(struct env *e)
{
	struct work *w = e->w;
	volat(w->s[AT]) = volat(w->s[PATH]);
	step(e, volat(w->s[PATH]));
	u64 bracket = P == '[';
	volat(w->s[AT]) += bracket;
	volat(w->s[COUNT]) = 0;
	volat(w->zero) = 0; // digits read
#pragma unroll
	for (int k = 0; k < 9; k++) {
		step(e, volat(w->s[AT]));
		if (P < '0' || P > '9')
			break;
		volat(w->s[COUNT]) = volat(w->s[COUNT]) * 10 + P - '0';
		volat(w->s[AT]) += 1;
		volat(w->zero) += 1;
	}
	step(e, volat(w->s[AT]));
	if (volat(w->zero) == 0)
		return 1;
	step(e, volat(w->s[PATH]));
	if (P == '[') {
		step(e, volat(w->s[AT]));
		if (P != ']')
			return 1;
		volat(w->s[AT]) += 1;
	} else {
		step(e, volat(w->s[AT]));
		if (!ends(e))
			return 1;
	}
	next(e, volat(w->s[AT]));
	return 0;
}

// finished notes the end of a value: 1 if it is the one, or the last.
INLINE long finished(struct env *e, u64 at)
{
	struct work *w = e->w;
	volat(w->s[STATE]) = AFTER;
	if (volat(w->s[FIRST]) != NONE && volat(w->s[DEPTH]) == volat(w->s[WITHIN])) {
		volat(w->s[AFTER_IT]) = at;
		return 1;
	}
	return volat(w->s[DEPTH]) == 0;
}

INLINE long push(struct env *e, u64 object)
{
	struct work *w = e->w;
	volat(w->s[DEPTH]) += 1;
	volat(w->s[KINDS]) = volat(w->s[KINDS]) << 1 | object;
	volat(w->s[STATE]) = object ? KEY_OR_END : VALUE_OR_END;
	return volat(w->s[DEPTH]) > 64;
}

// pop ends a container at the byte before at. The one looked into had nothing.
INLINE long pop(struct env *e, u64 at)
{
	struct work *w = e->w;
	if (volat(w->s[FIRST]) == NONE && volat(w->s[DEPTH]) == volat(w->s[LEVEL]))
		return 1;
	volat(w->s[DEPTH]) -= 1;
	volat(w->s[KINDS]) >>= 1;
	return finished(e, at);
}

// value begins a value.
INLINE long value(struct env *e, u64 i)
{
	struct work *w = e->w;
	if (volat(w->s[HIT])) {
		volat(w->s[HIT]) = 0;
		step(e, volat(w->s[PATH]));
		if (P == 0) {
			volat(w->s[FIRST]) = i;
			if (C == '"')
				volat(w->s[FIRST]) = i + 1;
			volat(w->s[WITHIN]) = volat(w->s[DEPTH]);
		} else if (C == '{' && P != '[') {
			volat(w->s[LEVEL]) = volat(w->s[DEPTH]) + 1;
		} else if (C == '[') {
			if (number(e))
				return 1;
			volat(w->s[LEVEL]) = volat(w->s[DEPTH]) + 1;
			volat(w->s[HIT]) = volat(w->s[COUNT]) == 0;
		} else {
			return 1;
		}
	}
	if (C == '{')
		return push(e, 1);
	if (C == '[')
		return push(e, 0);
	if (C == '"') {
		volat(w->s[STATE]) = STRING;
		return 0;
	}
	volat(w->s[STATE]) = WORD;
	return special(e);
}

// after is what stands between values and at the end of containers.
INLINE long after(struct env *e, u64 i)
{
	struct work *w = e->w;
	if (volat(w->s[KINDS]) & 1) {
		if (C == '}')
			return pop(e, i + 1);
		volat(w->s[STATE]) = KEY;
		return C != ',';
	}
	if (C == ']')
		return pop(e, i + 1);
	if (C != ',')
		return 1;
	volat(w->s[STATE]) = VALUE;
	if (volat(w->s[FIRST]) == NONE && volat(w->s[DEPTH]) == volat(w->s[LEVEL])) {
		volat(w->s[COUNT]) -= 1;
		if (volat(w->s[COUNT]) == 0)
			volat(w->s[HIT]) = 1;
	}
	return 0;
}

INLINE void compare(struct env *e)
{
	struct work *w = e->w;
	if (volat(w->s[MATCHED]) == NOMATCH)
		return;
	step(e, volat(w->s[PATH]) + volat(w->s[MATCHED]));
	if (P == C && !ends(e))
		volat(w->s[MATCHED]) += 1;
	else
		volat(w->s[MATCHED]) = NOMATCH;
}

#define S volat(w->s[STATE])

CALLED(json_byte)
{
	struct work *w = e->w;
	if (i >= e->ssize)
		return 1;
	C = (u8)w->buf[i];
	if (S == WORD) {
		if (C != 0 && !blank(e) && !special(e))
			return 0;
		if (finished(e, i))
			return 1;
	}
	if (C == 0)
		return 1;
	if (S == STRING) {
		if (C == '\\')
			S = STRING_ESC;
		else if (C == '"')
			return finished(e, i);
		return 0;
	}
	if (S == STRING_ESC) {
		S = STRING;
		return 0;
	}
	if (S == KEY_ESC) {
		S = KEY_TEXT;
		compare(e);
		return 0;
	}
	if (S == KEY_TEXT) {
		if (C != '"') {
			if (C == '\\')
				S = KEY_ESC;
			compare(e);
			return 0;
		}
		S = COLON;
		if (volat(w->s[MATCHED]) == NOMATCH)
			return 0;
		step(e, volat(w->s[PATH]) + volat(w->s[MATCHED]));
		if (ends(e)) {
			volat(w->s[HIT]) = 1;
			next(e, volat(w->s[PATH]) + volat(w->s[MATCHED]));
		}
		return 0;
	}
	if (blank(e))
		return 0;
	if (S == AFTER)
		return after(e, i);
	if (S == COLON) {
		S = VALUE;
		return C != ':';
	}
	if (S == VALUE_OR_END && C == ']')
		return pop(e, i + 1);
	if (S == KEY_OR_END && C == '}')
		return pop(e, i + 1);
	if (S == VALUE || S == VALUE_OR_END)
		return value(e, i);
	S = KEY_TEXT;
	volat(w->s[MATCHED]) = NOMATCH;
	if (volat(w->s[FIRST]) == NONE && volat(w->s[DEPTH]) == volat(w->s[LEVEL]))
		volat(w->s[MATCHED]) = 0;
	return C != '"';
}

ROUTINE(json)
{
	WANT(n, w->buf, ssize, w->arg[0]);
	WANT(m, buf2(w, ssize), ssize, w->arg[1]);
#pragma unroll
	for (int k = 0; k <= WITHIN; k++)
		volat(w->s[k]) = 0;
	volat(w->s[HIT]) = 1;
	volat(w->s[FIRST]) = NONE;
	volat(w->s[AFTER_IT]) = NONE;
	ENV(e);
	LOOP(json_byte, &e);
	u64 from = volat(w->s[FIRST]), to = volat(w->s[AFTER_IT]);
	w->ret = 0;
	if (to == NONE || from >= ssize)
		return 0;
	u64 size = to - from;
	if (size > dsize - 1)
		size = dsize - 1;
	return give(w, dst, size + 1, w->buf + from);
}
