/*
 * Prints the table printf.txt: what C's printf makes of each format and value,
 * for integers cast the way D's conversions do (a value of 1, 2 or 4 bytes is
 * an int or unsigned int, one of 8 bytes is a long long). The flags "-0" are
 * left out: where C lets - win, D lets the last one win.
 *
 *	gcc -o /tmp/printf printf.c && /tmp/printf >printf.txt
 *
 * Columns, separated by tabs: format, bytes (f for a double, s for a string),
 * value, result between angle brackets.
 */
#include <stdio.h>
#include <string.h>
#include <stdint.h>
#include <stdlib.h>

static const char *flags[] = { "", "-", "0", "+", " ", "#", "0-", "+0", "#0", "-#", "+ ", "'", NULL };
static const char *widths[] = { "", "1", "5", "12", NULL };
static const char *precs[] = { "", ".1", ".3", ".9", NULL };

static void ints(const char *f, const char *w, const char *p)
{
	static const int64_t vals[] = { 0, 1, -1, 42, 255, -128, 0x7fff, -0x80000000LL, 0x123456789abcdefLL, INT64_MIN };
	static const int sizes[] = { 1, 2, 4, 8 };

	for (const char *c = "dioxXu"; *c; c++)
		for (int s = 0; s < 4; s++)
			for (unsigned v = 0; v < sizeof (vals) / sizeof (vals[0]); v++) {
				char fmt[32], d[32];
				int sgn = *c == 'd' || *c == 'i';
				int64_t val = vals[v];

				/* a part of the combinations is plenty */
				if ((s * 5 + v * 7 + *c + f[0] + strlen(f) + strlen(w) * 3 + strlen(p)) % 23)
					continue;
				snprintf(d, sizeof (d), "%%%s%s%s%c", f, w, p, *c);
				snprintf(fmt, sizeof (fmt), "%%s\t%%d\t%%lld\t<%%%s%s%s%s%c>\n", f, w, p, sizes[s] == 8 ? "ll" : "", *c);
				if (sizes[s] == 8)
					printf(fmt, d, 8, (long long)val, (long long)val);
				else if (sizes[s] == 4)
					printf(fmt, d, 4, (long long)val, (int32_t)val);
				else if (sizes[s] == 2)
					printf(fmt, d, 2, (long long)val, sgn ? (int)(int16_t)val : (unsigned)(uint16_t)val);
				else
					printf(fmt, d, 1, (long long)val, sgn ? (int)(int8_t)val : (unsigned)(uint8_t)val);
			}
}

static void floats(const char *f, const char *w, const char *p)
{
	static const char *vals[] = { "0", "1", "-1.5", "3.14159265358979", "1e100", "123456789", "100000", "1000000", "0.0001", "-1e-7", "inf", "-inf", "nan" };

	for (const char *c = "eEfgG"; *c; c++)
		for (unsigned v = 0; v < sizeof (vals) / sizeof (vals[0]); v++) {
			char fmt[32];

			if ((v * 3 + *c + f[0] + strlen(f) + strlen(w) + strlen(p)) % 7)
				continue;
			snprintf(fmt, sizeof (fmt), "%%%s%s%s%c", f, w, p, *c);
			printf("%s\tf\t%s\t<", fmt, vals[v]);
			printf(fmt, strtod(vals[v], NULL));
			printf(">\n");
		}
}

int main(void)
{
	static const char *strs[] = { "", "a", "hello, world" };

	for (int f = 0; flags[f]; f++)
		for (int w = 0; widths[w]; w++)
			for (int p = 0; precs[p]; p++) {
				ints(flags[f], widths[w], precs[p]);
				if (strcmp(flags[f], "'"))
					floats(flags[f], widths[w], precs[p]);
				if (strcmp(flags[f], "") && strcmp(flags[f], "-"))
					continue;
				for (int s = 0; s < 3; s++) {
					char fmt[32];

					snprintf(fmt, sizeof (fmt), "%%%s%s%ss", flags[f], widths[w], precs[p]);
					printf("%s\ts\t%s\t<", fmt, strs[s]);
					printf(fmt, strs[s]);
					printf(">\n");
				}
			}
	return 0;
}
