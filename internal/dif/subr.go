package dif

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
)

// call executes a subroutine. Their meaning is that of the D manual and, where
// it is silent (negative positions, empty strings), of illumos.
func (x *exec) call(i *Ins) {
	a := make([]int64, len(i.Args))
	for k, r := range i.Args {
		a[k] = x.regs[r]
	}
	v := x.subr(i, Subr(i.Sym), a)
	if i.Dst != 0 {
		x.regs[i.Dst] = v
	}
}

// s reads a string argument.
func (x *exec) s(addr int64) string {
	return string(x.m.str(SpaceKernel, uint64(addr), x.m.Obj.StrSize))
}

// ret puts a string result into the temporary and gives its address.
func (x *exec) ret(i *Ins, s string) int64 {
	putStr(x.temp(i, int(i.Imm), int(i.Size)), []byte(s), false)
	return int64(x.temps[i.Temp-1]) + i.Imm
}

// suffix is the result of functions that find a place in a string: its
// address, or NULL.
func suffix(addr int64, at int) int64 {
	if at < 0 {
		return 0
	}
	return addr + int64(at)
}

// room is n bytes of allocated memory at addr for a copy: memory that was not
// allocated is a bad address, too little of it a bad size.
func (m *Machine) room(addr uint64, n int) []byte {
	b, w, _ := m.own(addr, n)
	switch {
	case !w || len(b) == 0 && n > 0:
		bad(FltBadAddr, int64(addr))
	case len(b) < n:
		bad(FltBadSize, int64(n))
	}
	return b
}

func (x *exec) scratch(n int64) uint64 {
	if n < 0 || n > int64(x.m.scratch) {
		bad(FltNoScratch, 0)
	}
	x.m.scratch -= int(n+7) &^ 7
	return x.m.alloc(int(n+7)&^7, true, false)
}

// subr executes a subroutine on the arguments a and gives its value.
func (x *exec) subr(i *Ins, s Subr, a []int64) int64 {
	m := x.m
	opt := func(k int, def int64) int64 {
		if k < len(a) {
			return a[k]
		}
		return def
	}
	switch s {
	case SAlloca:
		return int64(x.scratch(a[0]))
	case SBcopy:
		b := make([]byte, x.size(a[2]))
		m.read(SpaceKernel, uint64(a[0]), b)
		copy(m.room(uint64(a[1]), len(b)), b)
		return 0
	case SCopyin:
		at := x.scratch(a[1])
		b, _, _ := m.own(at, int(a[1]))
		m.read(SpaceUser, uint64(a[0]), b)
		return int64(at)
	case SCopyinto:
		b := make([]byte, x.size(a[1]))
		m.read(SpaceUser, uint64(a[0]), b)
		copy(m.room(uint64(a[2]), len(b)), b)
		return 0
	case SCopyinstr:
		n := int64(m.Obj.StrSize)
		if max := opt(1, n); uint64(max) < uint64(n) {
			n = max // with the NUL
		}
		return x.ret(i, string(m.str(SpaceUser, uint64(a[0]), int(n))))
	case SStrlen:
		return int64(len(x.s(a[0])))
	case SStrcmp:
		return int64(strings.Compare(x.s(a[0]), x.s(a[1])))
	case SStrjoin:
		return x.ret(i, x.s(a[0])+x.s(a[1]))
	case SStrchr:
		str := x.s(a[0])
		return suffix(a[0], strings.IndexByte(str+"\x00", byte(a[1])))
	case SStrrchr:
		str := x.s(a[0])
		return suffix(a[0], strings.LastIndexByte(str+"\x00", byte(a[1])))
	case SStrstr:
		str := x.s(a[0])
		return suffix(a[0], strings.Index(str, x.s(a[1])))
	case SStrtok:
		return x.strtok(i, a[0], x.s(a[1]))
	case SSubstr:
		return x.ret(i, substr(x.s(a[0]), a[1], opt(2, int64(m.Obj.StrSize)), int64(m.Obj.StrSize)))
	case SIndex:
		return index(x.s(a[0]), x.s(a[1]), opt(2, 0))
	case SRindex:
		str := x.s(a[0])
		return rindex(str, x.s(a[1]), opt(2, int64(len(str))))
	case SBasename:
		return x.ret(i, basename(x.s(a[0])))
	case SDirname:
		return x.ret(i, dirname(x.s(a[0])))
	case SCleanpath:
		return x.ret(i, cleanpath(x.s(a[0])))
	case SLltostr:
		return x.ret(i, lltostr(a[0], base(opt(1, 10))))
	case SStrtoll:
		return strtoll(x.s(a[0]), base(opt(1, 10)))
	case SToLower:
		return x.ret(i, mapASCII(x.s(a[0]), 'A', 'Z', 'a'))
	case SToUpper:
		return x.ret(i, mapASCII(x.s(a[0]), 'a', 'z', 'A'))
	case SJSON:
		v, ok := jsonFind(x.s(a[0]), x.s(a[1]))
		if !ok {
			return 0
		}
		return x.ret(i, v)
	case SHtons, SNtohs:
		return int64(bits.ReverseBytes16(uint16(a[0])))
	case SHtonl, SNtohl:
		return int64(bits.ReverseBytes32(uint32(a[0])))
	case SHtonll, SNtohll:
		return int64(bits.ReverseBytes64(uint64(a[0])))
	case SInetNtoa:
		return x.ret(i, x.inet(afInet, a[0]))
	case SInetNtoa6:
		// Addresses of IPv4 are written as such.
		s := x.inet(afInet6, a[0])
		if strings.Contains(s, ".") {
			s = s[strings.LastIndexByte(s, ':')+1:]
		}
		return x.ret(i, s)
	case SInetNtop:
		if a[0] != afInet && a[0] != afInet6 {
			bad(FltIllOp, 0)
		}
		return x.ret(i, x.inet(a[0], a[1]))
	case SLinkNtop:
		n := map[int64]int{1: 6, 32: 20}[a[0]] // ARPHRD_ETHER, ARPHRD_INFINIBAND
		if n == 0 {
			bad(FltIllOp, 0)
		}
		b := make([]byte, n)
		m.read(SpaceKernel, uint64(a[1]), b)
		var parts []string
		for _, c := range b {
			parts = append(parts, hex.EncodeToString([]byte{c}))
		}
		return x.ret(i, strings.Join(parts, ":"))
	case SGetmajor:
		// The kernel's dev_t has 12 bits of major and 20 of minor number.
		return int64(uint32(a[0]) >> 20)
	case SGetminor:
		return int64(uint32(a[0]) & (1<<20 - 1))
	case SSpeculation:
		return m.speculation()
	}
	n, str, f := m.World.Subr(s, a)
	if f != FltUnknown {
		bad(f, 0)
	}
	if i.Temp != 0 {
		return x.ret(i, str)
	}
	return n
}

func (m *Machine) speculation() int64 {
	n := m.NSpec
	if n <= 0 {
		n = 1
	}
	for len(m.specs) < n {
		m.specs = append(m.specs, false)
	}
	for k, busy := range m.specs {
		if !busy {
			m.specs[k] = true
			return int64(k + 1)
		}
	}
	return 0
}

// strtok keeps what is left of its string, from the end of the last token on,
// for the rest of the firing, as if in a clause-local variable. Without a token
// left the result is NULL; without a string at all it faults.
func (x *exec) strtok(i *Ins, addr int64, sep string) int64 {
	m := x.m
	if addr != 0 {
		m.strtok, m.tokOK = x.s(addr), true
	}
	if !m.tokOK {
		bad(FltBadAddr, 0)
	}
	inSep := func(c byte) bool { return strings.IndexByte(sep, c) >= 0 }
	s := m.strtok
	for s != "" && inSep(s[0]) {
		s = s[1:]
	}
	n := 0
	for n < len(s) && !inSep(s[n]) {
		n++
	}
	m.strtok = s[n:]
	if n == 0 {
		return 0
	}
	return x.ret(i, s[:n])
}

// substr is Perl's: a negative position counts from the end, a negative
// length leaves that many bytes off the end.
func substr(s string, at, n, size int64) string {
	l := int64(len(s))
	if at < 0 {
		at += l
		if at < 0 && at+n > 0 {
			n += at
			at = 0
		}
	}
	switch {
	case at >= l || at < 0:
		return ""
	case n < 0:
		n += l - at
	case at+n > size || at+n < 0:
		n = size - at
	}
	if n <= 0 {
		return ""
	}
	return s[at:min(at+n, l)]
}

// index is Perl's: positions before the string are its start; an empty
// substring is found at the end where the position is behind it.
func index(s, sub string, at int64) int64 {
	l := int64(len(s))
	if at < 0 {
		at = 0
	}
	if at >= l {
		if sub == "" {
			return l
		}
		return -1
	}
	k := strings.Index(s[at:], sub)
	if k < 0 {
		return -1
	}
	return at + int64(k)
}

// rindex is Perl's: the last place at or before at.
func rindex(s, sub string, at int64) int64 {
	if at < 0 {
		if sub == "" {
			return 0
		}
		return -1
	}
	at = min(at, int64(len(s)))
	for k := int(at); k >= 0; k-- {
		if strings.HasPrefix(s[k:], sub) {
			return int64(k)
		}
	}
	return -1
}

// basename and dirname are those of the C library.
func basename(s string) string {
	if s == "" {
		return "."
	}
	t := strings.TrimRight(s, "/")
	if t == "" {
		return "/"
	}
	return t[strings.LastIndexByte(t, '/')+1:]
}

func dirname(s string) string {
	if s == "" {
		return "."
	}
	t := strings.TrimRight(s, "/")
	if t == "" {
		return "/"
	}
	k := strings.LastIndexByte(t, '/')
	if k < 0 {
		return "."
	}
	t = strings.TrimRight(t[:k], "/")
	if t == "" {
		return "/"
	}
	return t
}

// cleanpath removes "//", "/./" and "/../" by the text alone. What follows a
// slash is looked at one byte at a time, so that "/." and "/..." at the end
// stay as they are; "/.." at the end leaves the slash.
func cleanpath(s string) string {
	var out []byte
	at := func(i int) byte {
		if i < len(s) {
			return s[i]
		}
		return 0
	}
	for i := 0; i < len(s); {
		if s[i] != '/' {
			out = append(out, s[i])
			i++
			continue
		}
		switch {
		case at(i+1) == '/':
			i++
		case at(i+1) == '.' && at(i+2) == '/':
			i += 2
		case at(i+1) == '.' && at(i+2) == '.' && (at(i+3) == '/' || at(i+3) == 0):
			out = out[:max(bytes.LastIndexByte(out, '/'), 0)]
			if i += 3; at(i) == 0 {
				out = append(out, '/')
			}
		default:
			out = append(out, '/')
			i++
		}
	}
	return string(out)
}

func base(n int64) int {
	if n < 2 || n > 36 {
		bad(FltIllOp, 0)
	}
	return int(n)
}

// lltostr writes base 10 with a sign, all other bases as unsigned numbers,
// octal and hexadecimal with C's prefix.
func lltostr(n int64, base int) string {
	switch base {
	case 10:
		return strconv.FormatInt(n, 10)
	case 16:
		return "0x" + strconv.FormatUint(uint64(n), 16)
	case 8:
		if n == 0 {
			return "0"
		}
		return "0" + strconv.FormatUint(uint64(n), 8)
	}
	return strconv.FormatUint(uint64(n), base)
}

// strtoll reads an optional sign and digits after blanks; in base 16 a prefix
// 0x is skipped. It stops at the first byte that is no digit and wraps round.
func strtoll(s string, base int) int64 {
	s = strings.TrimLeft(s, " \t")
	neg := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && digit(s[2]) < 16 {
		s = s[2:]
	}
	var v int64
	for k := 0; k < len(s) && digit(s[k]) < base; k++ {
		v = v*int64(base) + int64(digit(s[k]))
	}
	if neg {
		return -v
	}
	return v
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'z':
		return int(c|0x20-'a') + 10
	}
	return 99
}

func mapASCII(s string, lo, hi, to byte) string {
	b := []byte(s)
	for k, c := range b {
		if c >= lo && c <= hi {
			b[k] = c - lo + to
		}
	}
	return string(b)
}

// Linux's numbers of the address families.
const (
	afInet  = 2
	afInet6 = 10
)

func (x *exec) inet(af, addr int64) string {
	if af == afInet {
		var b [4]byte
		x.m.read(SpaceKernel, uint64(addr), b[:])
		return netip.AddrFrom4(b).String()
	}
	var b [16]byte
	x.m.read(SpaceKernel, uint64(addr), b[:])
	// An IPv4-compatible address is written as one, except for ::1 and the
	// other small numbers, as inet_ntop(3) does.
	if v4 := binary.BigEndian.Uint32(b[12:]); v4 > 0xffff && [12]byte(b[:12]) == [12]byte{} {
		return "::" + netip.AddrFrom4([4]byte(b[12:])).String()
	}
	return netip.AddrFrom16(b).String()
}

// jsonFind gives the value at path ("a.b[1].c") of a JSON text: a string
// without its quotes and as it is written, anything else as text.
func jsonFind(text, path string) (string, bool) {
	j := json{s: text}
	for path != "" {
		name := path
		isIndex := path[0] == '['
		if isIndex {
			k := strings.IndexByte(path, ']')
			if k < 0 {
				return "", false
			}
			name, path = path[1:k], path[k+1:]
		} else {
			k := strings.IndexAny(path, ".[")
			if k < 0 {
				k = len(path)
			}
			name, path = path[:k], path[k:]
		}
		path = strings.TrimPrefix(path, ".")
		j.blank()
		switch {
		case j.next('{') && !isIndex:
			if !j.member(name) {
				return "", false
			}
		case j.next('['):
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || !j.element(n) {
				return "", false
			}
		default:
			return "", false
		}
	}
	j.blank()
	start := j.i
	if !j.skip() {
		return "", false
	}
	v := text[start:j.i]
	if v[0] == '"' {
		v = v[1 : len(v)-1]
	}
	return v, true
}

// json is a reader of JSON text at byte i.
type json struct {
	s     string
	i     int
	depth int
}

func (j *json) blank() {
	for j.i < len(j.s) && strings.IndexByte(" \t\r\n", j.s[j.i]) >= 0 {
		j.i++
	}
}

func (j *json) next(c byte) bool {
	j.blank()
	if j.i < len(j.s) && j.s[j.i] == c {
		j.i++
		return true
	}
	return false
}

// member goes to the value of an object's member; the brace has been read.
func (j *json) member(name string) bool {
	for {
		j.blank()
		start := j.i
		if j.i >= len(j.s) || j.s[j.i] != '"' || !j.skip() {
			return false
		}
		key := j.s[start+1 : j.i-1]
		if !j.next(':') {
			return false
		}
		if key == name {
			return true
		}
		if !j.skip() || !j.next(',') {
			return false
		}
	}
}

// element goes to element n of an array; the bracket has been read.
func (j *json) element(n int) bool {
	for ; n > 0; n-- {
		if !j.skip() || !j.next(',') {
			return false
		}
	}
	j.blank()
	return j.i < len(j.s) && j.s[j.i] != ']'
}

// skip passes over one value and reports whether there was one.
func (j *json) skip() bool {
	j.blank()
	if j.i >= len(j.s) || j.depth > 64 {
		return false
	}
	switch c := j.s[j.i]; c {
	case '"':
		for j.i++; j.i < len(j.s); j.i++ {
			switch j.s[j.i] {
			case '\\':
				j.i++
			case '"':
				j.i++
				return true
			}
		}
		return false
	case '{', '[':
		j.i++
		j.depth++
		defer func() { j.depth-- }()
		end := c + 2 // '}' and ']' follow their opening bracket by two
		if j.next(end) {
			return true
		}
		for {
			if !j.skip() {
				return false
			}
			if c == '{' && (!j.next(':') || !j.skip()) {
				return false
			}
			if j.next(end) {
				return true
			}
			if !j.next(',') {
				return false
			}
		}
	}
	start := j.i
	for j.i < len(j.s) && strings.IndexByte(",:{}[]\" \t\r\n", j.s[j.i]) < 0 {
		j.i++
	}
	return j.i > start
}
