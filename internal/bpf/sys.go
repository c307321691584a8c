package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"godtrace/internal/bpf/lib"
	"godtrace/internal/kernel"
)

// Maps and programs are made by bpf(2) itself: a loader library probes for
// features first, and needs its own 14 ms view of the kernel's types for a
// fentry program. What providers attach is wrapped for cilium/ebpf's link
// package afterwards.

const (
	mapHash        = unix.BPF_MAP_TYPE_HASH
	mapArray       = unix.BPF_MAP_TYPE_ARRAY
	mapArrayOfMaps = unix.BPF_MAP_TYPE_ARRAY_OF_MAPS
	mapTaskStorage = unix.BPF_MAP_TYPE_TASK_STORAGE

	flagNoPrealloc = unix.BPF_F_NO_PREALLOC
	flagRdonlyProg = unix.BPF_F_RDONLY_PROG
	flagMmapable   = unix.BPF_F_MMAPABLE
)

// bpfMap is a map; a zero fd is never valid here.
type bpfMap struct {
	name             string
	fd               int
	typ              uint32
	keySize, valSize int
	entries          int
	mem              []byte // mapped, with flagMmapable
	stride           int    // bytes of an element of a table of rows, see newRows
	form             int    // of a hash of aggregations: the first form that uses it
}

// mapSpec is a map to be made.
type mapSpec struct {
	name     string
	typ      uint32
	key, val int // bytes
	entries  int
	flags    uint32

	btf, btfVal int     // descriptor of types, and the number of the value's; 0: none
	inner       *bpfMap // of an array of maps: one of the shape that its elements have
}

// newMap makes a map. Errors are *PrivilegeError, or wrap a unix.Errno.
func newMap(trace func(string, ...any), s mapSpec) (*bpfMap, error) {
	a := struct {
		typ, key, val, entries, flags, inner, _ uint32
		name                                    [16]byte
		_, btf, btfKey, btfVal, _               uint32
	}{typ: s.typ, key: uint32(s.key), val: uint32(s.val), entries: uint32(s.entries), flags: s.flags, name: kernel.ObjName("dt_" + s.name)}
	if s.btf > 0 {
		a.btf, a.btfKey, a.btfVal = uint32(s.btf), 1, uint32(s.btfVal)
	}
	if s.inner != nil {
		a.inner = uint32(s.inner.fd)
	}
	start := time.Now()
	fd, err := kernel.BPF(unix.BPF_MAP_CREATE, &a)
	if trace != nil {
		trace("map %s: type %d, key %d, value %d, %d entries: %v, %d µs", s.name, s.typ, s.key, s.val, s.entries, result(err), time.Since(start).Microseconds())
	}
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return nil, &PrivilegeError{err}
		}
		return nil, fmt.Errorf("map %s (key %d bytes, value %d bytes, %d entries): %w", s.name, s.key, s.val, s.entries, err)
	}
	m := &bpfMap{name: s.name, fd: fd, typ: s.typ, keySize: s.key, valSize: s.val, entries: s.entries}
	if s.flags&flagMmapable != 0 {
		size := align(align(s.val, 8)*s.entries, 4096)
		m.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("map %s: mmap of %d bytes: %w", s.name, size, err)
		}
	}
	return m, nil
}

func result(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func (m *bpfMap) close() {
	if m == nil || m.fd <= 0 {
		return
	}
	if m.mem != nil {
		unix.Munmap(m.mem)
		m.mem = nil
	}
	unix.Close(m.fd)
	m.fd = -1
}

// setFrozen stores the value of a one-element array that programs only read,
// for good: the verifier then knows its bytes.
func (m *bpfMap) setFrozen(value []byte) error {
	if err := m.update(value); err != nil {
		return err
	}
	a := struct{ fd uint32 }{uint32(m.fd)}
	if _, err := kernel.BPF(unix.BPF_MAP_FREEZE, &a); err != nil {
		return fmt.Errorf("map %s: freeze: %w", m.name, err)
	}
	return nil
}

// batchAttr is what the commands on many elements take.
type batchAttr struct {
	in, out      *uint64
	keys, values unsafe.Pointer
	count, fd    uint32
	_, _         uint64 // flags
}

// lookupBatch reads keys and values of n elements. The cursors are the
// kernel's own; it begins where first is set. It returns how many were read;
// the error is unix.ENOENT at the end of the map.
func (m *bpfMap) lookupBatch(in, out *uint64, first bool, keys, values []byte, n int) (int, error) {
	a := batchAttr{in: in, out: out, keys: unsafe.Pointer(&keys[0]), values: unsafe.Pointer(&values[0]), count: uint32(n), fd: uint32(m.fd)}
	if first {
		a.in = nil
	}
	_, err := kernel.BPF(unix.BPF_MAP_LOOKUP_BATCH, &a)
	return int(a.count), err
}

// deleteBatch deletes the n elements of keys, of which some may have gone.
func (m *bpfMap) deleteBatch(keys []byte, n int) error {
	for n > 0 {
		a := batchAttr{keys: unsafe.Pointer(&keys[0]), count: uint32(n), fd: uint32(m.fd)}
		_, err := kernel.BPF(unix.BPF_MAP_DELETE_BATCH, &a)
		if err == nil || err == unix.ENOENT && int(a.count) == n {
			return nil
		}
		if err != unix.ENOENT {
			return fmt.Errorf("map %s: delete: %w", m.name, err)
		}
		skip := int(a.count) + 1 // that one was gone already
		keys, n = keys[min(skip*m.keySize, len(keys)):], n-skip
	}
	return nil
}

// loadStorageBTF loads the types of the task storage's value: 1 int, 2 char, 3
// char[size].
func loadStorageBTF(size int) (int, error) {
	strs := "\x00int\x00char\x00"
	var t bytes.Buffer
	w := func(v ...uint32) { binary.Write(&t, binary.LittleEndian, v) }
	w(1, 1<<24, 4, 1<<24|32)           // int, signed, 32 bits
	w(5, 1<<24, 1, 8)                  // char
	w(0, 3<<24, 0, 2, 1, uint32(size)) // array of type 2, index type 1
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, struct {
		magic                                 uint16
		version, flags                        uint8
		hdr, typeOff, typeLen, strOff, strLen uint32
	}{0xeb9f, 1, 0, 24, 0, uint32(t.Len()), uint32(t.Len()), uint32(len(strs))})
	b.Write(t.Bytes())
	b.WriteString(strs)
	return kernel.LoadBTF(b.Bytes())
}

// progSpec is what a kind of attachment demands of the load.
type progSpec struct {
	typ, attachType, flags uint32
	btfID, btfObj          uint32

	// log, if not empty, gets the verifier's log of a program it accepts.
	log []byte
}

// loadProg loads a program; the log is asked for only when it failed.
func loadProg(name string, s progSpec, c *code) (int, error) {
	a := kernel.ProgAttr{
		Type: s.typ, Flags: s.flags, Name: kernel.ObjName("dt_" + name),
		AttachType: s.attachType, AttachBTF: s.btfID, AttachBTFObj: s.btfObj,
	}
	var info []uint32
	if c.funcInfo {
		btfFD, err := kernel.LoadBTF(lib.FuncBTF())
		if err != nil {
			return -1, err
		}
		defer unix.Close(btfFD)
		for _, at := range c.funcs {
			info = append(info, uint32(at), lib.FuncType)
		}
		a.BTF, a.FuncInfoSize = uint32(btfFD), 8
		a.FuncInfo, a.FuncInfoCnt = unsafe.Pointer(&info[0]), uint32(len(c.funcs))
	}
	if len(s.log) > 0 {
		a.LogLevel, a.LogSize, a.LogBuf = 2, uint32(len(s.log)), unsafe.Pointer(&s.log[0])
	}
	fd, err := kernel.LoadProgram(c.ins, &a)
	if err == nil {
		return fd, nil
	}
	if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		return -1, &PrivilegeError{err}
	}
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
		return -1, fmt.Errorf("program %s: %w", name, err) // no fault of the program's
	}
	var log []byte
	for size := logSize(); size <= 1<<26; size *= 8 {
		log = make([]byte, size)
		a.LogLevel, a.LogSize, a.LogBuf = 1, uint32(size), unsafe.Pointer(&log[0])
		fd, err2 := kernel.LoadProgram(c.ins, &a)
		if err2 == nil {
			return fd, nil // the first refusal was a passing one
		}
		if err2 != unix.ENOSPC {
			break
		}
	}
	return -1, newVerifierError(name, c, err, string(bytes.TrimRight(log, "\x00")))
}

// element is one command on one element.
func (m *bpfMap) element(cmd int, key, value []byte) error {
	a := struct {
		fd         uint32
		key, value unsafe.Pointer
		flags      uint64
	}{fd: uint32(m.fd), key: unsafe.Pointer(&key[0]), value: unsafe.Pointer(&value[0])}
	_, err := kernel.BPF(cmd, &a)
	return err
}

// get reads an element. The error is the bare unix.Errno.
func (m *bpfMap) get(key, value []byte) error { return m.element(unix.BPF_MAP_LOOKUP_ELEM, key, value) }

// update sets element 0 of an array.
func (m *bpfMap) update(value []byte) error { return m.put(make([]byte, 4), value) }

// put sets an element.
func (m *bpfMap) put(key, value []byte) error {
	if err := m.element(unix.BPF_MAP_UPDATE_ELEM, key, value); err != nil {
		return fmt.Errorf("map %s: %w", m.name, err)
	}
	return nil
}

// logSize is how much of the verifier's log to ask for at first: all of it if
// somebody is to read it.
func logSize() int {
	if os.Getenv(VerifierLogEnv) != "" {
		return 1 << 26
	}
	return 1 << 18
}
