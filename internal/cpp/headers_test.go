package cpp_test

import (
	"os"
	"testing"

	"godtrace/internal/cpp"
	"godtrace/internal/syntax"
)

// TestHeaders: what scripts include for its constants and types has to pass
// the D parser, functions with bodies and all.
func TestHeaders(t *testing.T) {
	found := 0
	for _, h := range []string{
		"asm/unistd.h", "dirent.h", "elf.h", "errno.h", "fcntl.h", "limits.h", "linux/fs.h", "linux/if_ether.h", "linux/in.h",
		"linux/tcp.h", "linux/types.h", "netinet/in.h", "pthread.h", "signal.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h",
		"stdio.h", "stdlib.h", "string.h", "sys/mman.h", "sys/socket.h", "sys/stat.h", "sys/syscall.h", "sys/types.h", "time.h", "unistd.h",
	} {
		if !exists(h) {
			continue
		}
		found++
		src := "#include <" + h + ">\nBEGIN { trace(1); }\n"
		out, err := cpp.Process("x.d", []byte(src), cpp.Options{})
		if err != nil {
			t.Errorf("%s: %v", h, err)
			continue
		}
		if _, err := syntax.Parse("x.d", out, syntax.Options{Script: true}); err != nil {
			t.Errorf("%s: %s: %v", h, err.(*syntax.Error).Pos.File, err)
		}
	}
	if found < 10 {
		t.Skip("the C library's headers are not installed")
	}
}

func exists(header string) bool {
	for _, dir := range []string{"include", "/usr/include", "/usr/include/x86_64-linux-gnu"} {
		if _, err := os.Stat(dir + "/" + header); err == nil {
			return true
		}
	}
	return false
}
