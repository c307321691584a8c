#ifndef _GODTRACE_STDARG_H
#define _GODTRACE_STDARG_H
typedef struct {
	unsigned int gp_offset;
	unsigned int fp_offset;
	void *overflow_arg_area;
	void *reg_save_area;
} __gnuc_va_list[1];
typedef __gnuc_va_list va_list;
#endif
