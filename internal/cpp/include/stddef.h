/* What every C compiler brings. D has offsetof itself. */
#ifndef _GODTRACE_STDDEF_H
#define _GODTRACE_STDDEF_H
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef int wchar_t;
#define NULL ((void *)0)
#endif
#ifdef __need_wint_t
#undef __need_wint_t
#ifndef _WINT_T
#define _WINT_T
typedef unsigned int wint_t;
#endif
#endif
