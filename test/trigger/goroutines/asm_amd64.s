#include "textflag.h"

// func assembled(a int64, s string, b int32) int64
// returns a + len(s) + b
TEXT ·assembled(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), AX
	ADDQ s_len+16(FP), AX
	MOVLQSX b+24(FP), CX
	ADDQ CX, AX
	MOVQ AX, ret+32(FP)
	RET
