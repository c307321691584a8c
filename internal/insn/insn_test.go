package insn

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Encodings by the manuals; each is followed by bytes that are not its own.
var encodings = []struct {
	code  string
	class string // what String returns
}{
	{"f3 0f 1e fa", "endbr"},
	{"f3 0f 1e fb", "endbr"},
	{"55", "push"},
	{"41 57", "push"},
	{"68 44 33 22 11", "push"},
	{"66 68 22 11", "push"},
	{"6a 01", "push"},
	{"ff 75 08", "push"},
	{"5d", "pop"},
	{"41 5f", "pop"},
	{"8f 00", "pop"},
	{"c3", "ret"},
	{"f3 c3", "ret"},
	{"f2 c3", "ret"}, // bnd ret
	{"c2 08 00", "ret"},
	{"cb", "ret"},
	{"48 cb", "ret"},
	{"48 cf", "iret"},
	{"e8 00 00 00 00", "call"},
	{"66 48 e8 00 00 00 00", "call"},
	{"66 e8 00 00 00 00", "call"},
	{"ff d0", "call"},
	{"41 ff d3", "call"},
	{"ff 15 78 56 34 12", "call"},
	{"ff 1c 24", "call"},
	{"67 e8 00 00 00 00", "call"},
	{"eb fe", "jmp"},
	{"e9 00 00 00 00", "jmp"},
	{"ff e0", "jmp"},
	{"3e ff e0", "jmp"},
	{"f2 ff 25 78 56 34 12", "jmp"},
	{"ff 24 c5 78 56 34 12", "jmp"},
	{"70 00", "jo"},
	{"71 00", "jno"},
	{"72 00", "jb"},
	{"73 00", "jae"},
	{"74 00", "je"},
	{"75 00", "jne"},
	{"76 00", "jbe"},
	{"77 00", "ja"},
	{"78 00", "js"},
	{"79 00", "jns"},
	{"7a 00", "jp"},
	{"7b 00", "jnp"},
	{"7c 00", "jl"},
	{"7d 00", "jge"},
	{"7e 00", "jle"},
	{"7f 00", "jg"},
	{"0f 84 00 01 00 00", "je"},
	{"2e 0f 85 00 01 00 00", "jne"},
	{"0f 8f 00 01 00 00", "jg"},
	{"e3 00", "jcxz"},
	{"67 e3 00", "jcxz"},
	{"e2 fe", "loop"},
	{"90", "nop"},
	{"66 90", "nop"},
	{"48 90", "nop"},
	{"0f 1f 00", "nop"},
	{"0f 1f 44 00 00", "nop"},
	{"66 2e 0f 1f 84 00 00 00 00 00", "nop"},
	{"66 66 2e 0f 1f 84 00 00 00 00 00", "nop"},
	{"41 90", "xchg"},
	{"f3 90", "pause"},
	{"87 06", "xchg"},
	{"48 87 06", "xchg"},
	{"93", "xchg"},
	{"f0 0f b1 0f", "lock cmpxchg"},
	{"f0 48 0f c7 0e", "lock cmpxchg"},
	{"0f c7 f0", "other"}, // rdrand
	{"f0 0f c1 07", "lock xadd"},
	{"f0 83 04 24 00", "lock add"},
	{"f0 ff 07", "lock inc"},
	{"f0 48 ff 0f", "lock dec"},
	{"f0 48 0f ba 2f 00", "lock other"},
	{"f3 48 a5", "rep other"},
	{"f3 aa", "rep other"},
	{"f2 ae", "rep other"},
	{"f3 6d", "rep in"},
	{"fa", "cli"},
	{"fb", "sti"},
	{"f4", "hlt"},
	{"01 d8", "add"},
	{"48 05 44 33 22 11", "add"},
	{"66 05 22 11", "add"},
	{"04 11", "add"},
	{"83 c0 01", "add"},
	{"81 c0 44 33 22 11", "add"},
	{"66 81 c0 22 11", "add"},
	{"48 81 ec 44 33 22 11", "sub"},
	{"29 d8", "sub"},
	{"2c 01", "sub"},
	{"83 f8 01", "other"}, // cmp
	{"0f 31", "rdtsc"},
	{"0f 01 f9", "rdtscp"},
	{"0f 32", "rdmsr"},
	{"0f 30", "wrmsr"},
	{"0f 33", "rdpmc"},
	{"0f 01 1c 24", "lidt"},
	{"0f 01 14 24", "lgdt"},
	{"0f 01 0c 24", "sidt"},
	{"0f 01 04 24", "sgdt"},
	{"0f 01 3f", "invlpg"},
	{"0f 01 f8", "swapgs"},
	{"0f 01 cb", "stac"},
	{"0f 01 ca", "clac"},
	{"0f 01 c8", "monitor"},
	{"0f 01 c9", "mwait"},
	{"0f 00 d8", "ltr"},
	{"0f 00 d0", "other"}, // lldt
	{"0f 22 d8", "mov-cr3"},
	{"0f 20 d8", "mov-cr3"},
	{"0f 22 1c", "mov-cr3"}, // the mod field does not count
	{"0f 22 e0", "mov-cr4"},
	{"44 0f 22 c0", "mov-cr8"},
	{"0f 23 f8", "mov-dr"},
	{"cc", "int"},
	{"cd 80", "int"},
	{"0f 0b", "ud2"},
	{"67 0f b9 40 09", "ud1"},
	{"0f ae e8", "lfence"},
	{"0f ae f0", "mfence"},
	{"0f ae f8", "sfence"},
	{"0f ae 38", "clflush"},
	{"66 0f ae 38", "clflushopt"},
	{"66 0f ae 30", "clwb"},
	{"0f ae 20", "xsave"},
	{"48 0f ae 29", "xrstor"},
	{"f3 48 0f ae c0", "other"}, // rdfsbase
	{"0f 05", "syscall"},
	{"48 0f 07", "sysret"},
	{"0f a2", "cpuid"},
	{"0f 09", "wbinvd"},
	{"e4 60", "in"},
	{"ef", "out"},
	{"c9", "leave"},
	{"9c", "pushf"},
	{"9d", "popf"},
	// Lengths: immediates, addresses, escapes.
	{"48 b8 88 77 66 55 44 33 22 11", "other"},
	{"b8 44 33 22 11", "other"},
	{"66 b8 22 11", "other"},
	{"b0 11", "other"},
	{"48 a1 88 77 66 55 44 33 22 11", "other"},
	{"67 a1 44 33 22 11", "other"},
	{"c8 10 00 01", "other"},
	{"c7 44 24 08 44 33 22 11", "other"},
	{"66 c7 44 24 08 22 11", "other"},
	{"c6 05 78 56 34 12 01", "other"},
	{"f6 c1 01", "other"},
	{"f6 d1", "other"},
	{"f7 c1 44 33 22 11", "other"},
	{"66 f7 c1 22 11", "other"},
	{"f7 d9", "other"},
	{"69 c0 44 33 22 11", "other"},
	{"6b c0 11", "other"},
	{"c7 f8 00 00 00 00", "other"},          // xbegin
	{"c6 f8 ff", "other"},                   // xabort
	{"0f 0f c1 0c", "other"},                // 3DNow!
	{"0f 38 f0 00", "other"},                // movbe
	{"66 0f 3a 0f c1 08", "other"},          // palignr
	{"0f ba 27 05", "other"},                // bt
	{"0f a4 c2 05", "other"},                // shld
	{"66 0f 70 c1 4e", "other"},             // pshufd
	{"66 0f 78 c1 04 05", "other"},          // extrq
	{"0f 78 c1", "other"},                   // vmread
	{"c5 f8 77", "other"},                   // vzeroupper
	{"c5 fd 6f 07", "other"},                // vmovdqa
	{"c5 f9 70 c1 4e", "other"},             // vpshufd
	{"c4 e2 7d 18 05 78 56 34 12", "other"}, // vbroadcastss
	{"c4 e3 7d 39 c1 01", "other"},          // vextracti128
	{"c4 e2 f1 b8 c2", "other"},             // vfmadd231pd
	{"62 f1 fe 48 6f 07", "other"},          // vmovdqu64
	{"62 f1 fe 48 6f 47 01", "other"},
	{"62 f3 75 48 25 c2 ff", "other"}, // vpternlogd
	{"62 f5 7c 48 58 c1", "other"},    // vaddph
	{"8f e8 78 c0 c1 05", "other"},    // vprotb
	{"8f e9 78 01 c1", "other"},       // blcfill
	{"8f ea 78 10 c1 44 33 22 11", "other"},
	{"9b", "other"},
	{"d9 3c 24", "other"},
	{"ea", ""}, {"9a", ""}, {"06", ""}, {"27", ""}, {"60", ""}, {"82 c0 01", ""}, {"ce", ""}, {"d4 0a", ""}, {"d6", ""},
	{"ff ff", ""}, {"fe d0", ""}, {"ff d8", ""}, {"0f 04", ""}, {"0f 24 c0", ""}, {"0f ff", "-"},
	{"48 c5 f8 77", ""}, {"66 c5 f8 77", ""}, {"62 f8 fe 48 6f 07", ""},
}

func TestEncodings(t *testing.T) {
	for _, e := range encodings {
		code := unhex(t, e.code)
		in, err := Decode(append(code[:len(code):len(code)], 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc))
		switch e.class {
		case "":
			if err == nil {
				t.Errorf("%s: decoded as %v, is not valid in 64-bit mode", e.code, in)
			}
			continue
		case "-":
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", e.code, err)
			continue
		}
		if int(in.Len) != len(code) || in.String() != e.class {
			t.Errorf("%s: length %d, %v; want %d, %s", e.code, in.Len, in, len(code), e.class)
		}
		for n := range code {
			if _, err := Decode(code[:n]); !errors.Is(err, ErrTruncated) {
				// A shorter instruction may hide in it, but only behind a prefix
				// that we would have taken: there is none.
				t.Errorf("%s: first %d bytes: %v, want %v", e.code, n, err, ErrTruncated)
			}
		}
	}
}

func TestDecode32(t *testing.T) {
	for _, e := range []struct{ code, class string }{
		{"40", "inc"}, {"4f", "dec"}, {"60", "push"}, {"61", "pop"}, {"06", "push"}, {"82 c0 01", "add"},
		{"9a 44 33 22 11 22 11", "call"}, {"ea 44 33 22 11 22 11", "jmp"}, {"66 ea 22 11 22 11", "jmp"},
		{"c4 00", "other"}, {"c5 f8 77", "other"}, {"c5 06", "other"}, {"62 00", "other"},
		{"a1 44 33 22 11", "other"}, {"67 a1 22 11", "other"}, {"8b 05 44 33 22 11", "other"},
		{"67 8b 06 22 11", "other"}, {"67 8b 46 11", "other"}, {"67 8b 04", "other"},
		{"66 e8 22 11", "call"}, {"e8 44 33 22 11", "call"}, {"b8 44 33 22 11", "other"},
		{"ce", "int"}, {"d4 0a", "other"},
	} {
		code := unhex(t, e.code)
		in, err := Decode32(append(code[:len(code):len(code)], 0x90, 0x90, 0x90))
		if err != nil || int(in.Len) != len(code) || in.String() != e.class {
			t.Errorf("%s: length %d, %v, %v; want %d, %s", e.code, in.Len, in, err, len(code), e.class)
		}
	}
}

func TestTooLong(t *testing.T) {
	code := append(make([]byte, 0, 20), strings.Repeat("\x66", 14)+"\x01\xc0"...)
	if _, err := Decode(code); !errors.Is(err, ErrTooLong) {
		t.Errorf("16 bytes: %v", err)
	}
	if in, err := Decode(code[1:]); err != nil || in.Len != 15 {
		t.Errorf("15 bytes: %d, %v", in.Len, err)
	}
}

func TestTargets(t *testing.T) {
	const at = 0x401000
	for _, e := range []struct {
		code string
		want uint64
	}{
		{"eb fe", 0x401000},
		{"75 10", 0x401012},
		{"e8 fb ff ff ff", 0x401000},
		{"0f 84 00 01 00 00", 0x401106},
		{"e3 80", 0x400f82},
	} {
		in, _ := Decode(unhex(t, e.code))
		if got, ok := in.Target(at); !ok || got != e.want {
			t.Errorf("%s: target %#x, %v; want %#x", e.code, got, ok, e.want)
		}
	}
	for _, e := range []struct {
		code string
		want uint64
	}{
		{"48 8b 05 10 00 00 00", 0x401017},
		{"c6 05 10 00 00 00 01", 0x401017}, // the immediate counts
		{"ff 25 fa ff ff ff", 0x401000},
	} {
		in, _ := Decode(unhex(t, e.code))
		if got, ok := in.RIPTarget(at); !ok || got != e.want {
			t.Errorf("%s: names %#x, %v; want %#x", e.code, got, ok, e.want)
		}
	}
}

func TestMem(t *testing.T) {
	for _, e := range []struct {
		code string
		want Mem
	}{
		{"8b 44 24 08", Mem{Base: 4, Index: NoReg, Scale: 1, Disp: 8}},
		{"8b 45 f8", Mem{Base: 5, Index: NoReg, Scale: 1, Disp: -8}},
		{"43 8b 84 ec 00 01 00 00", Mem{Base: 12, Index: 13, Scale: 8, Disp: 256}},
		{"ff 24 c5 00 10 40 00", Mem{Base: NoReg, Index: 0, Scale: 8, Disp: 0x401000}},
		{"65 48 8b 04 25 28 00 00 00", Mem{Base: NoReg, Index: NoReg, Scale: 1, Seg: 0x65, Disp: 0x28}},
		{"41 8b 45 00", Mem{Base: 13, Index: NoReg, Scale: 1}},
		{"42 8b 04 20", Mem{Base: 0, Index: 12, Scale: 1}},
	} {
		in, err := Decode(unhex(t, e.code))
		if got, ok := in.Mem(); err != nil || !ok || got != e.want {
			t.Errorf("%s: %+v, %v; want %+v", e.code, got, err, e.want)
		}
	}
}

// Conditions by their definition in the manual (volume 1, appendix B).
func TestHolds(t *testing.T) {
	defs := [16]func(c, p, z, s, o bool) bool{
		func(c, p, z, s, o bool) bool { return o }, func(c, p, z, s, o bool) bool { return !o },
		func(c, p, z, s, o bool) bool { return c }, func(c, p, z, s, o bool) bool { return !c },
		func(c, p, z, s, o bool) bool { return z }, func(c, p, z, s, o bool) bool { return !z },
		func(c, p, z, s, o bool) bool { return c || z }, func(c, p, z, s, o bool) bool { return !c && !z },
		func(c, p, z, s, o bool) bool { return s }, func(c, p, z, s, o bool) bool { return !s },
		func(c, p, z, s, o bool) bool { return p }, func(c, p, z, s, o bool) bool { return !p },
		func(c, p, z, s, o bool) bool { return s != o }, func(c, p, z, s, o bool) bool { return s == o },
		func(c, p, z, s, o bool) bool { return z || s != o }, func(c, p, z, s, o bool) bool { return !z && s == o },
	}
	for i := range 32 {
		bit := func(n int) bool { return i>>n&1 != 0 }
		flags := uint64(0x202)
		for n, f := range []uint64{flagCF, flagPF, flagZF, flagSF, flagOF} {
			if bit(n) {
				flags |= f
			}
		}
		for cc, def := range defs {
			want := def(bit(0), bit(1), bit(2), bit(3), bit(4))
			if Holds(byte(cc), flags) != want {
				t.Errorf("condition %x on %#x: want %v", cc, flags, want)
			}
			in, _ := Decode([]byte{0x70 | byte(cc), 0})
			if got, ok := in.Taken(flags, 0); !ok || got != want {
				t.Errorf("%v on %#x: taken %v, %v; want %v", in, flags, got, ok, want)
			}
		}
	}
	for _, e := range []struct {
		code  string
		flags uint64
		rcx   uint64
		taken bool
	}{
		{"e3 00", 0, 0, true}, {"e3 00", 0, 1 << 32, false}, {"67 e3 00", 0, 1 << 32, true},
		{"e2 00", 0, 1, false}, {"e2 00", 0, 2, true}, {"e2 00", 0, 0, true},
		{"e1 00", flagZF, 2, true}, {"e1 00", 0, 2, false}, {"e0 00", flagZF, 2, false}, {"e0 00", 0, 2, true},
	} {
		in, _ := Decode(unhex(t, e.code))
		if got, ok := in.Taken(e.flags, e.rcx); !ok || got != e.taken {
			t.Errorf("%s, flags %#x, rcx %d: %v", e.code, e.flags, e.rcx, got)
		}
	}
}

func TestClassNames(t *testing.T) {
	for _, c := range Classes() {
		if got, ok := ParseClass(c.String()); !ok || got != c {
			t.Errorf("%v parses as %v, %v", c, got, ok)
		}
	}
	for name, want := range map[string]Class{"jz": JE, "jnz": JNE, "jc": JB, "int3": Int} {
		if got, ok := ParseClass(name); !ok || got != want {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "other", "mov"} {
		if _, ok := ParseClass(name); ok {
			t.Errorf("%q is a class", name)
		}
	}
}

func TestAnalyze(t *testing.T) {
	testkernel.Shows(t, "0.9", "4.14")
	// As the kernel's text looks: a thunk for returns and one for indirect calls.
	code := unhex(t, "f3 0f 1e fa"+ // 00 endbr64
		"53"+ // 04 push %rbx
		"74 05"+ // 05 je 0c
		"e8 f4 0f 00 00"+ // 07 call 2000
		"0f 85 ee 1f 00 00"+ // 0c jne 4000: outside
		"e9 e9 0f 00 00"+ // 12 jmp 3000: return thunk
		"e9 e4 1f 00 00"+ // 17 jmp 4000: outside
		"e9 df 3f 00 00"+ // 1c jmp 6000... another part
		"ff 25 00 00 00 00"+ // 21 jmp *0(%rip)
		"3e ff e0"+ // 27 notrack jmp *%rax
		"48 63 04 82"+ // 2a movslq (%rdx,%rax,4),%rax
		"48 01 d0"+ // 2e add %rdx,%rax
		"ff e0"+ // 31 jmp *%rax
		"c3") // 33 ret
	f, err := Analyze(code, 0x1000, World{
		Thunk: func(a uint64) Thunk {
			if a == 0x2000 {
				return ReturnThunk
			}
			return NoThunk
		},
		Part: func(a uint64) bool { return a >= 0x5000 },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		off  int
		kind ExitKind
	}{{0x0c, ExitTailCond}, {0x12, ExitThunk}, {0x17, ExitTail}, {0x21, ExitTailInd}, {0x33, ExitRet}}
	if len(f.Exits) != len(want) {
		t.Fatalf("exits: %+v", f.Exits)
	}
	for i, w := range want {
		if e := f.Exits[i]; e.Off != w.off || e.Kind != w.kind || e.Addr != 0x1000+uint64(w.off) {
			t.Errorf("exit %d at %#x, %v; want %#x, %v", i, e.Off, e.Kind, w.off, w.kind)
		}
	}
	if len(f.Indirect) != 3 || f.Indirect[0].Kind != JumpTail || f.Indirect[1].Kind != JumpTable || f.Indirect[2].Kind != JumpTable {
		t.Errorf("indirect: %+v", f.Indirect)
	}
	if len(f.Calls) != 1 || f.Calls[0].Off != 7 || f.Count != 14 {
		t.Errorf("%d calls, %d instructions", len(f.Calls), f.Count)
	}

	var e *Error
	if _, err := Analyze(unhex(t, "90 06 90"), 0x1000, World{}); !errors.As(err, &e) || e.Off != 1 || e.Addr != 0x1001 || !errors.Is(err, ErrInvalid) {
		t.Errorf("data in text: %v", err)
	}
	if b, err := Boundaries(unhex(t, "90 c3 e8"), 0); !errors.As(err, &e) || e.Off != 2 || len(b) != 2 || !errors.Is(err, ErrTruncated) {
		t.Errorf("cut short: %v, %v", b, err)
	}
}

func TestEntry(t *testing.T) {
	for _, e := range []struct {
		code  string
		endbr bool
		off   int
		step  Step // of the first instruction
	}{
		{"f3 0f 1e fa 55", true, 4, Stepped},
		{"f3 0f 1e fa 48 83 ec 08", true, 0, Stepped},
		{"f3 0f 1e fa 41 57", true, 4, Stepped},
		{"55 48 89 e5", false, 0, Emulated},
		{"41 54", false, 0, Emulated},
		{"0f 1f 44 00 00", false, 0, Emulated},
		{"66 2e 0f 1f 84 00 00 00 00 00", false, 0, Refused},
		{"eb 05", false, 0, Emulated},
		{"0f 84 00 00 00 00", false, 0, Emulated},
		{"e8 00 00 00 00", false, 0, Emulated},
		// Refused, accepted: answers of Linux 6.18.
		{"66 e8 00 00 00 00", false, 0, Refused},
		{"c5 fd 6f 07", false, 0, Refused},
		{"62 f1 fe 48 6f 07", false, 0, Refused},
		{"c5 f8 10 c0", false, 0, Stepped},
		// Accepted, but not executed: vpor and vpcmpeqb under a uprobe left their
		// destination as it was.
		{"c5 f8 77", false, 0, Refused},
		{"c5 f9 eb d1", false, 0, Refused},
		{"c5 f9 74 d1", false, 0, Refused},
		{"62 e2 7d 28 7a ce", false, 0, Refused},
		{"c4 e3 f9 6b c2 10", false, 0, Refused}, // vfmaddsd of FMA4: the kernel cannot decode it
		{"c4 e3 f9 6a c2 10", false, 0, Refused},
		{"0f 05", false, 0, Stepped},
		{"0f 0b", false, 0, Stepped},
		{"cd 80", false, 0, Refused},
		{"48 cf", false, 0, Refused},
		{"ef", false, 0, Refused},
		{"f1", false, 0, Refused},
		{"ff e0", false, 0, Stepped},
		{"f0 48 0f b1 0f", false, 0, Refused},
		{"3e ff e0", false, 0, Refused},
		{"64 48 8b 04 25 28 00 00 00", false, 0, Stepped},
		{"cc", false, 0, Refused},
		{"f4", false, 0, Refused},
		{"c3", false, 0, Stepped},
	} {
		got, err := EntryOf(unhex(t, e.code))
		if err != nil || got.Endbr != e.endbr || got.Off != e.off || got.First.Uprobe() != e.step {
			t.Errorf("%s: %+v, step %v, %v", e.code, got, got.First.Uprobe(), err)
		}
	}
}

// Decoding is total: an instruction of at most 15 bytes of the input, or an
// error. What it reads beyond the length it reports must not matter.
func check(t testing.TB, code []byte) {
	for _, dec := range []func([]byte) (Insn, error){Decode, Decode32} {
		in, err := dec(code)
		if err != nil {
			if in != (Insn{}) {
				t.Fatalf("% x: both an instruction and %v", code, err)
			}
			continue
		}
		if in.Len == 0 || int(in.Len) > len(code) || in.Len > MaxLen {
			t.Fatalf("% x: length %d", code, in.Len)
		}
		if again, err := dec(code[:in.Len]); err != nil || again != in {
			t.Fatalf("% x: %+v, but its own %d bytes give %+v, %v", code, in, in.Len, again, err)
		}
		_ = in.String()
		if _, ok := in.Mem(); ok && !in.HasModRM {
			t.Fatalf("% x: a memory operand without ModRM", code)
		}
		if to, ok := in.Target(0); ok && in.RelLen == 0 {
			t.Fatalf("% x: goes to %#x", code, to)
		}
		if to, ok := in.RIPTarget(0); ok && !in.IsMem() {
			t.Fatalf("% x: names %#x", code, to)
		}
	}
}

func TestRandom(t *testing.T) {
	testkernel.Shows(t, "0.10")
	r := rand.New(rand.NewPCG(1, 2))
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	var b [24]byte
	for range n {
		for i := 0; i < len(b); i += 8 {
			v := r.Uint64()
			for j := range 8 {
				b[i+j] = byte(v >> (8 * j))
			}
		}
		check(t, b[:r.IntN(len(b)+1)])
	}
}

func FuzzDecode(f *testing.F) {
	for _, e := range encodings {
		f.Add(unhex(f, e.code))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		check(t, b)
		Analyze(b, 0x1000, World{})
		EntryOf(b)
	})
}
