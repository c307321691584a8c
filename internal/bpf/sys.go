package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"godtrace/internal/bpf/lib"
)

// Maps and programs are made by bpf(2) itself: a loader library probes for
// features first, and needs its own 14 ms view of the kernel's types for a
// fentry program. What providers attach is wrapped for cilium/ebpf's link
// package afterwards.

const (
	cmdMapCreate   = 0
	cmdMapLookup   = 1
	cmdMapUpdate   = 2
	cmdProgLoad    = 5
	cmdProgTestRun = 10
	cmdObjInfo     = 15
	cmdBTFLoad     = 18
	cmdMapFreeze   = 22
	cmdLookupBatch = 24
	cmdDeleteBatch = 27

	mapHash, mapArray, mapTaskStorage = 1, 2, 29

	flagNoPrealloc = 1
	flagRdonlyProg = 1 << 7
	flagMmapable   = 1 << 10
)

func bpfCall(cmd uintptr, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		r, _, e := unix.Syscall(unix.SYS_BPF, cmd, uintptr(attr), size)
		runtime.KeepAlive(attr)
		switch {
		case e == unix.EAGAIN && cmd == cmdProgLoad:
			continue // a signal interrupted the verifier
		case e != 0:
			return -1, e
		}
		return int(r), nil
	}
}

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

func objName(s string) (n [16]byte) {
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

type mapAttr struct {
	typ, keySize, valSize, entries, flags, innerFD, numa uint32
	name                                                 [16]byte
	ifindex, btfFD, btfKey, btfVal, btfVmlinux           uint32
}

func newMap(trace func(string, ...any), name string, typ uint32, key, val, entries int, flags uint32, btfFD, btfVal int) (*bpfMap, error) {
	a := mapAttr{typ: typ, keySize: uint32(key), valSize: uint32(val), entries: uint32(entries), flags: flags, name: objName("dt_" + name)}
	if btfFD > 0 {
		a.btfFD, a.btfKey, a.btfVal = uint32(btfFD), 1, uint32(btfVal)
	}
	start := time.Now()
	fd, err := bpfCall(cmdMapCreate, unsafe.Pointer(&a), unsafe.Sizeof(a))
	if trace != nil {
		trace("map %s: type %d, key %d, value %d, %d entries: %v, %d µs", name, typ, key, val, entries, result(err), time.Since(start).Microseconds())
	}
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return nil, errPrivilege(err)
		}
		return nil, fmt.Errorf("map %s (key %d bytes, value %d bytes, %d entries): %w", name, key, val, entries, err)
	}
	m := &bpfMap{name: name, fd: fd, typ: typ, keySize: key, valSize: val, entries: entries}
	if flags&flagMmapable != 0 {
		size := align(align(val, 8)*entries, 4096)
		m.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("map %s: mmap of %d bytes: %w", name, size, err)
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
	if _, err := bpfCall(cmdMapFreeze, unsafe.Pointer(&a), unsafe.Sizeof(a)); err != nil {
		return fmt.Errorf("map %s: freeze: %w", m.name, err)
	}
	return nil
}

// batch is BPF_MAP_LOOKUP_BATCH or _DELETE_BATCH: keys and values of n
// elements, cursor opaque (nil pointer to begin with). It returns how many
// were done; io is unix.ENOENT at the end of a map.
type batchAttr struct {
	in, out, keys, values uint64
	count, fd             uint32
	elemFlags, flags      uint64
}

func (m *bpfMap) lookupBatch(in, out *uint64, first bool, keys, values []byte, n int) (int, error) {
	a := batchAttr{
		out: uint64(uintptr(unsafe.Pointer(out))), keys: uint64(uintptr(unsafe.Pointer(&keys[0]))),
		values: uint64(uintptr(unsafe.Pointer(&values[0]))), count: uint32(n), fd: uint32(m.fd),
	}
	if !first {
		a.in = uint64(uintptr(unsafe.Pointer(in)))
	}
	_, err := bpfCall(cmdLookupBatch, unsafe.Pointer(&a), unsafe.Sizeof(a))
	runtime.KeepAlive(in)
	runtime.KeepAlive(out)
	runtime.KeepAlive(keys)
	runtime.KeepAlive(values)
	return int(a.count), err
}

func (m *bpfMap) deleteBatch(keys []byte, n int) error {
	for n > 0 {
		a := batchAttr{keys: uint64(uintptr(unsafe.Pointer(&keys[0]))), count: uint32(n), fd: uint32(m.fd)}
		_, err := bpfCall(cmdDeleteBatch, unsafe.Pointer(&a), unsafe.Sizeof(a))
		runtime.KeepAlive(keys)
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

// loadBTF loads the types of the task storage's value: 1 int, 2 char, 3 char[size].
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
	return loadBTF(b.Bytes())
}

func loadBTF(blob []byte) (int, error) {
	a := struct {
		btf, log                uint64
		size, logSize, logLevel uint32
		_                       uint32
	}{btf: uint64(uintptr(unsafe.Pointer(&blob[0]))), size: uint32(len(blob))}
	fd, err := bpfCall(cmdBTFLoad, unsafe.Pointer(&a), unsafe.Sizeof(a))
	runtime.KeepAlive(blob)
	if err != nil {
		return -1, fmt.Errorf("loading types: %w", err)
	}
	return fd, nil
}

type progAttr struct {
	typ, insnCnt         uint32
	insns, license       uint64
	logLevel, logSize    uint32
	logBuf               uint64
	kernVersion, flags   uint32
	name                 [16]byte
	ifindex, attachType  uint32
	btfFD, funcInfoSize  uint32
	funcInfo             uint64
	funcInfoCnt, lineSz  uint32
	lineInfo             uint64
	lineCnt, attachBTFID uint32
	attachBTFObj, coreN  uint32
	fdArray              uint64
}

var license = []byte("GPL\x00")

// progSpec is what a kind of attachment demands of the load.
type progSpec struct {
	typ, attachType, flags uint32
	btfID, btfObj          uint32

	// log, if not empty, gets the verifier's log of a program it accepts.
	log []byte
}

// loadProg loads a program; the log is asked for only when it failed.
func loadProg(name string, s progSpec, c *code) (int, error) {
	a := progAttr{
		typ: s.typ, insnCnt: uint32(len(c.ins)), insns: uint64(uintptr(unsafe.Pointer(&c.ins[0]))),
		license: uint64(uintptr(unsafe.Pointer(&license[0]))), flags: s.flags, name: objName("dt_" + name),
		attachType: s.attachType, attachBTFID: s.btfID, attachBTFObj: s.btfObj,
	}
	var info []uint32
	if c.funcInfo {
		btfFD, err := loadBTF(lib.FuncBTF())
		if err != nil {
			return -1, err
		}
		defer unix.Close(btfFD)
		for _, at := range c.funcs {
			info = append(info, uint32(at), lib.FuncType)
		}
		a.btfFD, a.funcInfoSize = uint32(btfFD), 8
		a.funcInfo, a.funcInfoCnt = uint64(uintptr(unsafe.Pointer(&info[0]))), uint32(len(c.funcs))
	}
	if len(s.log) > 0 {
		a.logLevel, a.logSize, a.logBuf = 2, uint32(len(s.log)), uint64(uintptr(unsafe.Pointer(&s.log[0])))
	}
	fd, err := bpfCall(cmdProgLoad, unsafe.Pointer(&a), unsafe.Sizeof(a))
	runtime.KeepAlive(info)
	runtime.KeepAlive(s.log)
	if err == nil {
		runtime.KeepAlive(c)
		return fd, nil
	}
	if errors.Is(err, unix.EPERM) {
		if os.Geteuid() != 0 {
			return -1, errPrivilege(err)
		}
	}
	var log []byte
	for size := logSize(); size <= 1<<26; size *= 8 {
		log = make([]byte, size)
		a.logLevel, a.logSize, a.logBuf = 1, uint32(size), uint64(uintptr(unsafe.Pointer(&log[0])))
		fd, err2 := bpfCall(cmdProgLoad, unsafe.Pointer(&a), unsafe.Sizeof(a))
		if err2 == nil {
			return fd, nil // the first refusal was a passing one
		}
		if err2 != unix.ENOSPC {
			break
		}
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(info)
	return -1, newVerifierError(name, c, err, string(bytes.TrimRight(log, "\x00")))
}

// kernelRelease is the kernel's version as major<<8 | minor.
func kernelRelease() int {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return 0
	}
	parts := strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)
	if len(parts) < 2 {
		return 0
	}
	major, _ := strconv.Atoi(parts[0])
	minor, _ := strconv.Atoi(strings.TrimRight(parts[1], "-+abcdefghijklmnopqrstuvwxyz"))
	return major<<8 | minor
}

// get reads an element.
func (m *bpfMap) get(key, value []byte) error {
	a := struct {
		fd         uint32
		_          uint32
		key, value uint64
		flags      uint64
	}{fd: uint32(m.fd), key: uint64(uintptr(unsafe.Pointer(&key[0]))), value: uint64(uintptr(unsafe.Pointer(&value[0])))}
	_, err := bpfCall(cmdMapLookup, unsafe.Pointer(&a), unsafe.Sizeof(a))
	runtime.KeepAlive(key)
	runtime.KeepAlive(value)
	return err
}

// update sets element 0 of an array.
func (m *bpfMap) update(value []byte) error { return m.put(make([]byte, 4), value) }

// put sets an element.
func (m *bpfMap) put(key, value []byte) error {
	a := struct {
		fd         uint32
		_          uint32
		key, value uint64
		flags      uint64
	}{fd: uint32(m.fd), key: uint64(uintptr(unsafe.Pointer(&key[0]))), value: uint64(uintptr(unsafe.Pointer(&value[0])))}
	_, err := bpfCall(cmdMapUpdate, unsafe.Pointer(&a), unsafe.Sizeof(a))
	runtime.KeepAlive(key)
	runtime.KeepAlive(value)
	if err != nil {
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
