package kernel

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BPF is bpf(2). attr is what cmd reads and writes of union bpf_attr
// (include/uapi/linux/bpf.h), with fields of type unsafe.Pointer for addresses:
// numbers would not follow a stack that moves. The result is a descriptor, or 0
// for commands that make none; the error is the bare unix.Errno.
func BPF[T any](cmd int, attr *T) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		switch {
		case errno == unix.EAGAIN && cmd == unix.BPF_PROG_LOAD:
			continue // a signal interrupted the verifier
		case errno != 0:
			return -1, errno
		}
		return int(r), nil
	}
}

// ProgAttr is what BPF_PROG_LOAD reads of union bpf_attr. LoadProgram fills in
// the instructions and the license.
type ProgAttr struct {
	Type, insnCnt               uint32
	insns, license              unsafe.Pointer
	LogLevel, LogSize           uint32
	LogBuf                      unsafe.Pointer
	KernVersion, Flags          uint32
	Name                        [16]byte // see ObjName
	IfIndex, AttachType         uint32
	BTF, FuncInfoSize           uint32
	FuncInfo                    unsafe.Pointer
	FuncInfoCnt, LineInfoSize   uint32
	LineInfo                    unsafe.Pointer
	LineInfoCnt, AttachBTF      uint32
	AttachBTFObj, CORERelocsCnt uint32
	FDArray                     unsafe.Pointer
}

// LoadProgram loads instructions, of 8 bytes each as they lie in memory, under
// the GPL. The result is the program's descriptor, the error the bare
// unix.Errno.
func LoadProgram[I any](insns []I, a *ProgAttr) (int, error) {
	license := []byte("GPL\x00")
	a.insns, a.insnCnt, a.license = unsafe.Pointer(&insns[0]), uint32(len(insns)), unsafe.Pointer(&license[0])
	return BPF(unix.BPF_PROG_LOAD, a)
}

// LoadBTF loads types for programs and maps to name. The result is a descriptor.
func LoadBTF(blob []byte) (int, error) {
	a := struct {
		btf, log                unsafe.Pointer
		size, logSize, logLevel uint32
	}{btf: unsafe.Pointer(&blob[0]), size: uint32(len(blob))}
	fd, err := BPF(unix.BPF_BTF_LOAD, &a)
	if err != nil {
		return -1, fmt.Errorf("loading types: %w", err)
	}
	return fd, nil
}

// ObjName makes the name of a program or map of a text: what the kernel does
// not allow in one is "_", and it ends after 15 bytes.
func ObjName(s string) (n [16]byte) {
	for i := 0; i < len(s) && i < 15; i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.':
		default:
			c = '_'
		}
		n[i] = c
	}
	return n
}

// FDInfo are the numbers that the kernel tells of a descriptor of this process,
// by name, such as "recursion_misses" of a program. Nil if there is no such
// descriptor.
func FDInfo(fd int) map[string]uint64 {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return nil
	}
	out := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		name, val, _ := strings.Cut(line, ":")
		if n, err := strconv.ParseUint(strings.TrimSpace(val), 10, 64); err == nil {
			out[name] = n
		}
	}
	return out
}
