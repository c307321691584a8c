//go:build amd64

// Package rows holds tests that run the command as a user would, one or a few
// for each row of the list of behaviours they show (testkernel.Shows).
//
// What is traced are programs that make a known list of system calls and no
// other: the test writes them itself, byte by byte, so that the expected
// values come from no tracer.
package rows

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// call is one system call: its number and up to six arguments, each an integer
// or a string (passed by its address).
type call []any

// binaryFile writes a static program of that name which makes these calls, one
// after the other on one thread, and ends with exit_group(0). Its code and its
// strings lie on pages that are in memory by the first call.
func binaryFile(t *testing.T, name string, calls ...call) string {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Fatalf("no machine code for %s", runtime.GOARCH)
	}
	const base, header = 0x400000, 64 + 56
	// System V ABI, AMD64 supplement, A.2.1: rdi rsi rdx r10 r8 r9.
	loads := [][]byte{{0x48, 0xbf}, {0x48, 0xbe}, {0x48, 0xba}, {0x49, 0xba}, {0x49, 0xb8}, {0x49, 0xb9}} // movabs
	var code, data bytes.Buffer
	type fixup struct{ at, string int }
	var fixups []fixup
	for _, c := range append(calls, call{231, 0}) {
		for i, a := range c[1:] {
			code.Write(loads[i])
			v := uint64(0)
			switch a := a.(type) {
			case int:
				v = uint64(a)
			case string:
				fixups = append(fixups, fixup{code.Len(), data.Len()})
				data.WriteString(a + "\x00")
			default:
				t.Fatalf("argument %v of call %d", a, c[0])
			}
			binary.Write(&code, binary.LittleEndian, v)
		}
		code.WriteByte(0xb8) // mov eax, number
		binary.Write(&code, binary.LittleEndian, uint32(c[0].(int)))
		code.Write([]byte{0x0f, 0x05}) // syscall
	}
	// read() puts its bytes after the file's last one.
	const room = 1 << 16
	text := code.Bytes()
	for _, f := range fixups {
		binary.LittleEndian.PutUint64(text[f.at:], uint64(base+header+len(text)+f.string))
	}
	size := uint64(header + len(text) + data.Len())

	var b bytes.Buffer
	put := func(v ...any) {
		for _, x := range v {
			binary.Write(&b, binary.LittleEndian, x)
		}
	}
	// elf(5): Elf64_Ehdr, then one Elf64_Phdr: readable, writable, executable.
	put([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9), uint16(2), uint16(62), uint32(1), uint64(base+header),
		uint64(64), uint64(0), uint32(0), uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0))
	put(uint32(1), uint32(7), uint64(0), uint64(base), uint64(base), size, size+room, uint64(4096))
	b.Write(text)
	b.Write(data.Bytes())
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// buffer is an address in the room after the program, for read().
const buffer = 0x400000 + 1<<15
