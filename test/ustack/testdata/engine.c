// Calls through code that nobody describes and that keeps frame pointers, as the
// built-in functions of V8 are in node. With ENGINE it is where V8 says it is.
#include <unistd.h>

long leave(long (*f)(long), long x);
__asm__(
	".text\n"
#ifdef ENGINE
	"v8_Default_embedded_blob_code_:\n"
#else
	"other:\n"
#endif
	"	nop\n"
	".type leave, @function\n"
	"leave:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	push $1\n"
	"	push $2\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	"	leave\n"
	"	ret\n"
	".size leave, . - leave\n"
	"end:\n"
	".section .rodata\n"
#ifdef ENGINE
	"v8_Default_embedded_blob_code_size_: .long end - v8_Default_embedded_blob_code_\n"
#endif
	".text\n");

__attribute__((noinline)) long native(long x)
{
	write(1, "x\n", 2);
	return x + 1;
}

__attribute__((noinline)) long start(long x) { return leave(native, x) + 1; }

int main(int argc, char **argv) { return start(argc) == 0; }
