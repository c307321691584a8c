//go:build !unix

package dwarf

import (
	"io"
	"os"
)

// mapFile reads a file of n bytes, where files cannot be mapped.
func mapFile(f *os.File, n int) (*mapping, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, int64(n)))
	return &mapping{b}, err
}
