//go:build unix

package dwarf

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// mapFile maps a file of n bytes.
func mapFile(f *os.File, n int) (*mapping, error) {
	b, err := syscall.Mmap(int(f.Fd()), 0, n, syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	m := &mapping{b}
	runtime.AddCleanup(m, func(b []byte) { syscall.Munmap(b) }, b)
	return m, nil
}
