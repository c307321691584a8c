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
};

enum { VALUE, VALUE_OR_END, KEY, KEY_OR_END, COLON, STRING, STRING_ESC, KEY_TEXT, KEY_ESC, WORD, AFTER };

#define NONE (~0ULL)
#define NOMATCH (~0ULL)

INLINE u64 blank(u8 c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

INLINE u64 special(u8 c)
{
	return c == ',' || c == ':' || c == '{' || c == '}' || c == '[' || c == ']' || c == '"';
}

// byte of the path; beyond the buffer it ends.
INLINE u8 step(struct env *e, u64 at)
{
	keep(at);
	return at < e->ssize ? (u8)buf2(e->w, e->ssize)[at] : 0;
}

INLINE u64 ends(u8 c) { return c == 0 || c == '.' || c == '['; }

// next goes to the path's next component, or its end.
INLINE void next(struct env *e, u64 at)
{
	volat(e->w->s[PATH]) = at + (step(e, at) == '.');
}

// number reads an index of the path: 1 if there is none.
INLINE long number(struct env *e)
{
	struct work *w = e->w;
	u64 at = volat(w->s[PATH]), bracket = step(e, at) == '[';
	at += bracket;
	volat(w->s[COUNT]) = 0;
	volat(w->zero) = 0; // digits read
#pragma unroll
	for (int k = 0; k < 9; k++) {
		u8 c = step(e, at + k);
		if (c < '0' || c > '9')
			break;
		volat(w->s[COUNT]) = volat(w->s[COUNT]) * 10 + c - '0';
		volat(w->zero) = k + 1;
	}
	u64 n = volat(w->zero);
	u8 c = step(e, at + n);
	if (n == 0 || (bracket ? c != ']' : !ends(c)))
		return 1;
	next(e, at + n + bracket);
	return 0;
}

// finished notes the end of a value: 1 if it is the one, or the last.
INLINE long finished(struct env *e, u64 at)
{
	struct work *w = e->w;
	u64 depth = volat(w->s[DEPTH]);
	volat(w->s[STATE]) = AFTER;
	if (volat(w->s[FIRST]) != NONE && depth == volat(w->s[WITHIN])) {
		volat(w->s[AFTER_IT]) = at;
		return 1;
	}
	return depth == 0;
}

INLINE long push(struct env *e, u64 object)
{
	struct work *w = e->w;
	u64 depth = volat(w->s[DEPTH]) + 1;
	volat(w->s[DEPTH]) = depth;
	volat(w->s[KINDS]) = volat(w->s[KINDS]) << 1 | object;
	volat(w->s[STATE]) = object ? KEY_OR_END : VALUE_OR_END;
	return depth > 64;
}

// pop ends a container at the byte before at. The one looked into had nothing.
INLINE long pop(struct env *e, u64 at)
{
	struct work *w = e->w;
	u64 depth = volat(w->s[DEPTH]);
	if (volat(w->s[FIRST]) == NONE && depth == volat(w->s[LEVEL]))
		return 1;
	volat(w->s[DEPTH]) = depth - 1;
	volat(w->s[KINDS]) >>= 1;
	return finished(e, at);
}

// value begins a value with byte c.
INLINE long value(struct env *e, u64 i, u8 c)
{
	struct work *w = e->w;
	if (volat(w->s[HIT])) {
		volat(w->s[HIT]) = 0;
		u8 name = step(e, volat(w->s[PATH]));
		u64 depth = volat(w->s[DEPTH]);
		if (name == 0) {
			volat(w->s[FIRST]) = i + (c == '"');
			volat(w->s[WITHIN]) = depth;
		} else if (c == '{' && name != '[') {
			volat(w->s[LEVEL]) = depth + 1;
		} else if (c == '[') {
			if (number(e))
				return 1;
			volat(w->s[LEVEL]) = depth + 1;
			volat(w->s[HIT]) = volat(w->s[COUNT]) == 0;
		} else {
			return 1;
		}
	}
	if (c == '{' || c == '[')
		return push(e, c == '{');
	if (c == '"') {
		volat(w->s[STATE]) = STRING;
		return 0;
	}
	volat(w->s[STATE]) = WORD;
	return special(c);
}

// after is what stands between values and at the end of containers.
INLINE long after(struct env *e, u64 i, u8 c)
{
	struct work *w = e->w;
	u64 object = volat(w->s[KINDS]) & 1;
	if (c == (object ? '}' : ']'))
		return pop(e, i + 1);
	if (c != ',')
		return 1;
	volat(w->s[STATE]) = object ? KEY : VALUE;
	if (!object && volat(w->s[FIRST]) == NONE && volat(w->s[DEPTH]) == volat(w->s[LEVEL])) {
		u64 n = volat(w->s[COUNT]) - 1;
		volat(w->s[COUNT]) = n;
		volat(w->s[HIT]) = n == 0;
	}
	return 0;
}

INLINE void compare(struct env *e, u8 c)
{
	struct work *w = e->w;
	u64 n = volat(w->s[MATCHED]);
	if (n == NOMATCH)
		return;
	u8 p = step(e, volat(w->s[PATH]) + n);
	volat(w->s[MATCHED]) = ends(p) || p != c ? NOMATCH : n + 1;
}

BODY(json_byte)
{
	struct work *w = e->w;
	if (i >= e->ssize)
		return 1;
	u8 c = w->buf[i];
	u64 state = volat(w->s[STATE]);
	if (state == WORD) {
		if (c != 0 && !blank(c) && !special(c))
			return 0;
		if (finished(e, i))
			return 1;
		state = AFTER;
	}
	if (c == 0)
		return 1;
	switch (state) {
	case STRING:
		if (c == '\\')
			volat(w->s[STATE]) = STRING_ESC;
		else if (c == '"')
			return finished(e, i);
		return 0;
	case STRING_ESC:
		volat(w->s[STATE]) = STRING;
		return 0;
	case KEY_ESC:
		volat(w->s[STATE]) = KEY_TEXT;
		compare(e, c);
		return 0;
	case KEY_TEXT:
		if (c != '"') {
			if (c == '\\')
				volat(w->s[STATE]) = KEY_ESC;
			compare(e, c);
			return 0;
		}
		volat(w->s[STATE]) = COLON;
		u64 n = volat(w->s[MATCHED]);
		if (n != NOMATCH) {
			u64 at = volat(w->s[PATH]) + n;
			if (ends(step(e, at))) {
				volat(w->s[HIT]) = 1;
				next(e, at);
			}
		}
		return 0;
	}
	if (blank(c))
		return 0;
	switch (state) {
	case VALUE_OR_END:
		if (c == ']')
			return pop(e, i + 1);
		return value(e, i, c);
	case VALUE:
		return value(e, i, c);
	case COLON:
		volat(w->s[STATE]) = VALUE;
		return c != ':';
	case KEY_OR_END:
		if (c == '}')
			return pop(e, i + 1);
	case KEY:
		volat(w->s[STATE]) = KEY_TEXT;
		volat(w->s[MATCHED]) = NOMATCH;
		if (volat(w->s[FIRST]) == NONE && volat(w->s[DEPTH]) == volat(w->s[LEVEL]))
			volat(w->s[MATCHED]) = 0;
		return c != '"';
	}
	return after(e, i, c);
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
