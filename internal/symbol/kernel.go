package symbol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// Vmlinux is the module name of what is built into the kernel.
const Vmlinux = "vmlinux"

// ErrRestricted says that the kernel hides its addresses from this process.
var ErrRestricted = errors.New("kernel addresses are hidden: run as root, or set kernel.kptr_restrict to 0")

// KSym is one line of /proc/kallsyms.
type KSym struct {
	Module string
	Name   string
	Addr   uint64
	Type   byte // as nm(1) prints it: T and t are functions
}

// Func reports whether s is code.
func (s KSym) Func() bool { return s.Type == 'T' || s.Type == 't' || s.Type == 'W' || s.Type == 'w' }

// Kernel is the kernel's symbol table, sorted by address; symbols at one
// address keep the kernel's order, and the first is the one it prints itself.
type Kernel struct {
	addrs   []uint64
	nameEnd []uint32 // end of the name in names; it begins where the one before ends
	mod     []uint16 // index into modules
	typ     []byte
	names   string
	modules []string // [0] is vmlinux
	ranges  moduleRanges

	end uint64 // _end of vmlinux; 0 if unknown

	hashOnce sync.Once
	seed     maphash.Seed
	hash     []uint32 // open addressing; symbol number + 1
}

type addrRange struct{ start, end uint64 }

// KernelSymbols is the running kernel's table, as it was on the first call.
var KernelSymbols = sync.OnceValues(readKernel)

func readKernel() (*Kernel, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	k, err := ReadKallsyms(f)
	if err != nil {
		return nil, fmt.Errorf("/proc/kallsyms: %w", err)
	}
	k.ranges = loadedModules()
	return k, nil
}

// tables are those that addresses are looked up in, the newest first: the one of
// the first call and, once an address was met of a module loaded since, a newer
// one. The one before knows the modules that have gone.
var tables struct {
	sync.Mutex
	list []*Kernel
}

// KernelLoc resolves one address of the running kernel. Without a symbol
// table (ErrRestricted and the like) only Addr is filled in.
func KernelLoc(addr uint64) Loc {
	k, err := KernelSymbols()
	if err != nil || addr>>63 == 0 {
		return Loc{Addr: addr}
	}
	tables.Lock()
	defer tables.Unlock()
	if tables.list == nil {
		tables.list = []*Kernel{k}
	}
	for _, k := range tables.list {
		if l := k.Lookup(addr); l.Name != "" {
			return l
		}
	}
	if newest := tables.list[0]; loadedModules().hasMore(newest.ranges) {
		if k, err := readKernel(); err == nil {
			tables.list = []*Kernel{k, newest}
			return k.Lookup(addr)
		}
	}
	return Loc{Addr: addr}
}

// ReadKallsyms reads a table in the format of /proc/kallsyms: lines of
// "ADDR TYPE NAME" with an optional "\t[MODULE]", address in hex.
func ReadKallsyms(r io.Reader) (*Kernel, error) {
	const guess = 128 << 10
	k := &Kernel{
		addrs:   make([]uint64, 0, guess),
		nameEnd: make([]uint32, 0, guess),
		mod:     make([]uint16, 0, guess),
		typ:     make([]byte, 0, guess),
		modules: []string{Vmlinux},
	}
	names := make([]byte, 0, guess*24)
	modIndex := map[string]uint16{}
	lastMod, lastIndex := []byte(nil), uint16(0)
	sorted, nonzero := true, false

	br := bufio.NewReaderSize(r, 64<<10)
	for line := 1; ; line++ {
		b, err := br.ReadSlice('\n')
		if err != nil && err != io.EOF {
			return nil, err
		}
		if len(b) == 0 {
			break
		}
		b = bytes.TrimSuffix(b, []byte("\n"))
		addr, i := uint64(0), 0
		for ; i < len(b) && i < 16; i++ {
			d := hexDigit(b[i])
			if d > 15 {
				break
			}
			addr = addr<<4 | uint64(d)
		}
		if i == 0 || len(b) < i+4 || b[i] != ' ' || b[i+2] != ' ' {
			return nil, fmt.Errorf("line %d: expected \"ADDR TYPE NAME\", got %q", line, b)
		}
		typ, name := b[i+1], b[i+3:]
		mi := uint16(0)
		if t := bytes.IndexByte(name, '\t'); t >= 0 {
			m := bytes.Trim(name[t+1:], "[]")
			name = name[:t]
			if bytes.Equal(m, lastMod) {
				mi = lastIndex
			} else {
				var ok bool
				if mi, ok = modIndex[string(m)]; !ok {
					mi = uint16(len(k.modules))
					k.modules = append(k.modules, string(m))
					modIndex[string(m)] = mi
				}
				lastMod, lastIndex = append(lastMod[:0], m...), mi
			}
		}
		if n := len(k.addrs); n > 0 && addr < k.addrs[n-1] {
			sorted = false
		}
		nonzero = nonzero || addr != 0
		if mi == 0 && string(name) == "_end" {
			k.end = addr
		}
		names = append(names, name...)
		k.addrs = append(k.addrs, addr)
		k.nameEnd = append(k.nameEnd, uint32(len(names)))
		k.mod = append(k.mod, mi)
		k.typ = append(k.typ, typ)
		if err == io.EOF {
			break
		}
	}
	if len(k.addrs) == 0 {
		return nil, errors.New("no symbols")
	}
	if !nonzero {
		return nil, ErrRestricted
	}
	k.names = string(names)
	if !sorted {
		k.sort()
	}
	return k, nil
}

func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// sort orders the table by address; modules follow vmlinux in the file in the
// order they were loaded, so the whole is rarely sorted.
func (k *Kernel) sort() {
	order := make([]uint32, len(k.addrs))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(a, b uint32) int {
		switch x, y := k.addrs[a], k.addrs[b]; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	n := &Kernel{
		addrs:   make([]uint64, len(order)),
		nameEnd: make([]uint32, len(order)),
		mod:     make([]uint16, len(order)),
		typ:     make([]byte, len(order)),
	}
	var names strings.Builder
	names.Grow(len(k.names))
	for i, j := range order {
		names.WriteString(k.name(int(j)))
		n.addrs[i], n.mod[i], n.typ[i] = k.addrs[j], k.mod[j], k.typ[j]
		n.nameEnd[i] = uint32(names.Len())
	}
	k.addrs, k.nameEnd, k.mod, k.typ, k.names = n.addrs, n.nameEnd, n.mod, n.typ, names.String()
}

// moduleRanges is where the text of each module lies.
type moduleRanges map[string]addrRange

// hasMore reports whether a module is where none was before.
func (m moduleRanges) hasMore(before moduleRanges) bool {
	for name, r := range m {
		if before[name] != r {
			return true
		}
	}
	return false
}

// loadedModules reads /proc/modules; nil if there is none.
func loadedModules() moduleRanges {
	f, err := os.Open("/proc/modules")
	if err != nil {
		return nil
	}
	defer f.Close()
	return readModules(f)
}

// readModules takes the text ranges of modules from the format of /proc/modules:
// "NAME SIZE REFS USERS STATE 0xADDR".
func readModules(r io.Reader) moduleRanges {
	m := moduleRanges{}
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 6 {
			continue
		}
		size, err1 := strconv.ParseUint(f[1], 10, 64)
		addr, err2 := strconv.ParseUint(f[5], 0, 64)
		if err1 == nil && err2 == nil && addr != 0 {
			m[f[0]] = addrRange{addr, addr + size}
		}
	}
	return m
}

// Len is the number of symbols.
func (k *Kernel) Len() int { return len(k.addrs) }

// At is symbol i in order of addresses.
func (k *Kernel) At(i int) KSym {
	return KSym{Module: k.modules[k.mod[i]], Name: k.name(i), Addr: k.addrs[i], Type: k.typ[i]}
}

// All yields every symbol in order of addresses.
func (k *Kernel) All() iter.Seq[KSym] {
	return func(yield func(KSym) bool) {
		for i := range k.addrs {
			if !yield(k.At(i)) {
				return
			}
		}
	}
}

func (k *Kernel) name(i int) string {
	start := uint32(0)
	if i > 0 {
		start = k.nameEnd[i-1]
	}
	return k.names[start:k.nameEnd[i]]
}

// maxGap bounds how far behind a symbol an address may lie and still be
// attributed to it where nothing says how long the symbol's section is:
// modules' data, BPF programs, trampolines.
const maxGap = 64 << 10

// Lookup resolves an address. Addresses outside of the kernel's own half have
// no module: per-CPU symbols of older kernels lie near zero and are offsets.
func (k *Kernel) Lookup(addr uint64) Loc {
	loc := Loc{Addr: addr}
	if addr>>63 == 0 {
		return loc
	}
	i := sort.Search(len(k.addrs), func(i int) bool { return k.addrs[i] > addr }) - 1
	if i < 0 || k.addrs[i]>>63 == 0 {
		return loc
	}
	i = k.first(i)
	module := k.modules[k.mod[i]]
	start := k.addrs[i]
	if r, ok := k.ranges[module]; ok && start >= r.start && start < r.end {
		if addr >= r.end {
			return loc
		}
	} else if module == Vmlinux && k.end != 0 {
		if addr >= k.end {
			return loc
		}
	} else if addr-start >= maxGap {
		return loc
	}
	loc.Module, loc.Name, loc.Off = module, k.name(i), addr-start
	return loc
}

// first steps back to the first symbol at the address of symbol i.
func (k *Kernel) first(i int) int {
	for i > 0 && k.addrs[i-1] == k.addrs[i] {
		i--
	}
	return i
}

// Size is the distance from the symbol at addr to the next higher one, which
// includes alignment padding; 0 if there is no symbol at addr.
func (k *Kernel) Size(addr uint64) uint64 {
	i := sort.Search(len(k.addrs), func(i int) bool { return k.addrs[i] >= addr })
	if i == len(k.addrs) || k.addrs[i] != addr {
		return 0
	}
	for j := i + 1; j < len(k.addrs); j++ {
		if k.addrs[j] != addr {
			return k.addrs[j] - addr
		}
	}
	return 0
}

// Named returns all symbols of that name, in order of addresses: static
// functions may share one. An empty module means any.
func (k *Kernel) Named(module, name string) []KSym {
	k.hashOnce.Do(k.index)
	var out []KSym
	mask := uint64(len(k.hash) - 1)
	for h := maphash.String(k.seed, name) & mask; k.hash[h] != 0; h = (h + 1) & mask {
		i := int(k.hash[h] - 1)
		if k.name(i) == name && (module == "" || module == k.modules[k.mod[i]]) {
			out = append(out, k.At(i))
		}
	}
	slices.SortStableFunc(out, func(a, b KSym) int {
		if a.Addr < b.Addr {
			return -1
		}
		return 1
	})
	return out
}

// Addr is the address of the first symbol of that name; see Named.
func (k *Kernel) Addr(module, name string) (uint64, bool) {
	if s := k.Named(module, name); len(s) > 0 {
		return s[0].Addr, true
	}
	return 0, false
}

func (k *Kernel) index() {
	n := 1
	for n < 2*len(k.addrs) {
		n <<= 1
	}
	k.seed = maphash.MakeSeed()
	k.hash = make([]uint32, n)
	mask := uint64(n - 1)
	for i := range k.addrs {
		h := maphash.String(k.seed, k.name(i)) & mask
		for k.hash[h] != 0 {
			h = (h + 1) & mask
		}
		k.hash[h] = uint32(i + 1)
	}
}
