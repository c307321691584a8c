package insn

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// long says that tests may take minutes.
func long() bool { return os.Getenv("GODTRACE_LONG") != "" }

// The judge of lengths and classes is objdump, over what is installed:
// instruction by instruction, so that one difference does not hide others.
func TestObjdump(t *testing.T) {
	testkernel.Shows(t, "0.9", "0.10", "4.14")
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump is not installed")
	}
	const lib = "/usr/lib/x86_64-linux-gnu/"
	type job struct {
		file  string
		limit uint64 // bytes of .text to look at; 0 for all
	}
	jobs := []job{{lib + "libc.so.6", 200 << 10}, {lib + "libm.so.6", 100 << 10}}
	if long() {
		jobs = nil
		for _, p := range []string{
			lib + "libc.so.6", lib + "libm.so.6", lib + "libstdc++.so.6", lib + "libcrypto.so.3", lib + "libgmp.so.10",
			lib + "libpython3*.so.1.0", lib + "libopcodes-*.so", "/usr/bin/perl", "/usr/bin/gdb", "/usr/bin/bash", "/usr/bin/python3",
			"/usr/lib/gcc/x86_64-linux-gnu/*/cc1", "/usr/local/go/bin/go",
		} {
			files, _ := filepath.Glob(p)
			for _, f := range files {
				jobs = append(jobs, job{f, 0})
			}
		}
	}
	tested := 0
	for _, j := range jobs {
		if _, err := os.Stat(j.file); err != nil {
			continue
		}
		tested++
		t.Run(filepath.Base(j.file), func(t *testing.T) {
			f, err := elf.Open(j.file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			sec := f.Section(".text")
			text, err := sec.Data()
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"-d", "-w", "-z", "-j", ".text"}
			if j.limit != 0 {
				args = append(args, fmt.Sprintf("--stop-address=%#x", sec.Addr+j.limit))
			}
			cmd := exec.Command(objdump, append(args, j.file)...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var within func(uint64) bool
			if strings.HasPrefix(filepath.Base(j.file), "libcrypto") {
				within = functions(t, f) // its tables lie in the text
			}
			compare(t, out, sec.Addr, text, within)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
	if tested == 0 {
		t.Skip("none of the files to compare is installed")
	}
}

var prefixWords = regexp.MustCompile(`^((lock|rep|repz|repnz|bnd|notrack|data16|addr32|rex(\.[WRXB]+)?|[cdefgs]s|xacquire|xrelease) )+`)

var repString = regexp.MustCompile(`\brepn?z? (ins|outs|movs|stos|lods|cmps|scas)`)

// compare reads objdump's listing of text; within, if not nil, tells which
// addresses hold instructions.
func compare(t *testing.T, out io.Reader, addr uint64, text []byte, within func(uint64) bool) {
	insns, lengths, classes, skipped := 0, 0, 0, 0
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		// "  401000:\tf3 0f 1e fa \tendbr64"
		f := strings.SplitN(sc.Text(), "\t", 3)
		if len(f) < 3 {
			continue
		}
		at, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(f[0]), ":"), 16, 64)
		if err != nil {
			continue
		}
		n := len(strings.Fields(f[1]))
		asm := strings.TrimSpace(f[2])
		off := at - addr
		if off+uint64(n) > uint64(len(text)) {
			t.Fatalf("%#x is outside of .text", at)
		}
		if within != nil && !within(at) {
			continue
		}
		mnemonic := prefixWords.ReplaceAllString(asm, "")
		if i := strings.IndexAny(mnemonic, " \t"); i >= 0 {
			mnemonic = mnemonic[:i]
		}
		code := text[off:min(uint64(len(text)), off+32)]
		if strings.Contains(asm, "(bad)") || mnemonic == ".byte" || mnemonic == "" || prefixWords.MatchString(mnemonic+" ") {
			skipped++ // objdump does not take it for an instruction either
			continue
		}
		if code[0] == 0x9b && n > 1 {
			// objdump shows fwait and what follows as one, as assemblers write it.
			code, n = code[1:], n-1
		}
		insns++
		in, err := Decode(code)
		if err != nil || int(in.Len) != n {
			if lengths++; lengths <= 20 {
				t.Errorf("%#x: % x %s: length %d (%v), want %d", at, code[:n], asm, in.Len, err, n)
			}
			continue
		}
		if want := mnemonicClass(mnemonic, in); in.Class() != want || in.Is(LockClass) != strings.Contains(asm, "lock ") ||
			in.isRep() != repString.MatchString(asm) {
			if classes++; classes <= 20 {
				t.Errorf("%#x: % x %s: %v, want %v", at, code[:n], asm, in, want)
			}
		}
		if target, ok := in.Target(at); ok {
			if i := strings.LastIndex(asm, " <"); i < 0 || !strings.HasSuffix(asm[:i], " "+strconv.FormatUint(target, 16)) {
				t.Errorf("%#x: %s: target %#x", at, asm, target)
			}
		}
		if i := strings.Index(asm, "# "); i >= 0 && strings.Contains(asm, "(%rip)") {
			want, _, _ := strings.Cut(asm[i+2:], " ")
			if target, ok := in.RIPTarget(at); !ok || strconv.FormatUint(target, 16) != want {
				t.Errorf("%#x: %s: names %#x, %v", at, asm, target, ok)
			}
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d instructions, %d wrong lengths, %d wrong classes, %d not instructions", insns, lengths, classes, skipped)
	if insns < 10000 {
		t.Errorf("objdump showed %d instructions", insns)
	}
}

// functions tells whether an address belongs to a dynamic function symbol.
func functions(t *testing.T, f *elf.File) func(uint64) bool {
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	end := map[uint64]uint64{}
	var starts []uint64
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			starts = append(starts, s.Value)
			end[s.Value] = max(end[s.Value], s.Value+s.Size)
		}
	}
	slices.Sort(starts)
	return func(a uint64) bool {
		i, found := slices.BinarySearch(starts, a)
		if !found {
			i--
		}
		return i >= 0 && a < end[starts[i]]
	}
}

// Random bytes weighted towards the escapes, in blocks that end in enough
// no-operations for objdump to find back: lengths must agree wherever both
// take the bytes for an instruction.
func TestObjdumpRandom(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump is not installed")
	}
	const block = 32
	blocks := 4000
	if long() {
		blocks = 200_000
	}
	r := rand.New(rand.NewPCG(3, 4))
	seeds := [][]byte{{}, {0x66}, {0xf2}, {0xf3}, {0x67}, {0x48}, {0x66, 0x41}, {0x0f}, {0x66, 0x0f}, {0xf3, 0x0f}, {0xf2, 0x0f}, {0x0f, 0x38}, {0x66, 0x0f, 0x38},
		{0x66, 0x0f, 0x3a}, {0xc5}, {0xc4, 0xe1}, {0xc4, 0xe2}, {0xc4, 0xe3}, {0x62, 0xf1}, {0x62, 0xf2}, {0x62, 0xf3}, {0x8f, 0xe8}, {0x8f, 0xe9}, {0x8f, 0xea}, {0x0f, 0x0f}}
	code := bytes.Repeat([]byte{0x90}, blocks*block)
	for i := range blocks {
		b := code[i*block:][:16]
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		copy(b, seeds[i%len(seeds)])
	}
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []struct {
		name   string
		decode func([]byte) (Insn, error)
	}{{"i386:x86-64", Decode}, {"i386", Decode32}} {
		out, err := exec.Command(objdump, "-D", "-w", "-z", "-b", "binary", "-m", mode.name, file).Output()
		if err != nil {
			t.Fatal(err)
		}
		both, onlyWe, onlyThey, wrong := 0, 0, 0, 0
		for line := range strings.Lines(string(out)) {
			f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
			if len(f) < 3 {
				continue
			}
			at, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(f[0]), ":"), 16, 64)
			if err != nil || at%block != 0 {
				continue
			}
			n, asm := len(strings.Fields(f[1])), strings.TrimSpace(f[2])
			b := code[at:][:block]
			in, err := mode.decode(b)
			bad := strings.Contains(asm, "(bad)") || prefixWords.MatchString(asm+" ") && prefixWords.ReplaceAllString(asm+" ", "") == ""
			switch {
			case bad && err == nil:
				onlyWe++
			case bad:
			case err != nil:
				onlyThey++
				// Prefixes before VEX raise an exception, and test registers went
				// with the 486; objdump shows both.
				if !strings.Contains(asm, " v") && !strings.Contains(asm, "%tr") {
					t.Errorf("%s: % x %s: %v", mode.name, b[:n], asm, err)
				}
			default:
				both++
				switch {
				case in.RelLen == 4 && in.Prefix&OpSize != 0:
					// Intel's processors take 32 bits here, AMD's 16, as objdump.
				case in.Op == 0x9b && in.Map == Map1:
					// fwait, which objdump shows with what follows.
				case int(in.Len) != n:
					if wrong++; wrong <= 40 {
						t.Errorf("%s: % x %s: length %d, want %d", mode.name, b[:16], asm, in.Len, n)
					}
				}
			}
		}
		t.Logf("%s: %d instructions to both, %d of them of different lengths; %d only to us, %d only to objdump", mode.name, both, wrong, onlyWe, onlyThey)
		if both < blocks/4 {
			t.Errorf("%s: %d instructions", mode.name, both)
		}
	}
}

// mnemonicClass is the class by objdump's AT&T mnemonic.
func mnemonicClass(m string, in Insn) Class {
	base := m
	if n := len(m) - 1; n > 0 && strings.ContainsRune("bwlq", rune(m[n])) {
		base = m[:n]
	}
	switch m {
	case "call", "callq", "callw", "lcall", "lcallq":
		return Call
	case "jmp", "jmpq", "jmpw", "ljmp", "ljmpq":
		return Jmp
	case "ret", "retq", "retw", "lret", "lretq", "lretl", "lretw":
		return Ret
	case "iret", "iretq", "iretl":
		return Iret
	case "nop", "nopw", "nopl", "nopq":
		return Nop
	case "xchg":
		if in.Op == 0x90 && in.Rex&RexB == 0 {
			return Nop // 66 90, shown as xchg %ax,%ax
		}
		return Xchg
	case "cmpxchg8b", "cmpxchg16b":
		return Cmpxchg
	case "xchgb", "xchgw", "xchgl", "xchgq":
		return Xchg
	case "incb", "incw", "incl", "incq":
		return Inc
	case "decb", "decw", "decl", "decq":
		return Dec
	case "int3", "int1", "icebp":
		return Int
	case "ud0", "ud1", "ud1l", "ud1q":
		return UD1
	case "endbr64", "endbr32":
		return Endbr
	case "loop", "loope", "loopne", "loopl", "loopel":
		return Loop
	case "jrcxz", "jecxz":
		return JCXZ
	case "pushf", "pushfq", "pushfw":
		return Pushf
	case "popf", "popfq", "popfw":
		return Popf
	case "leave", "leaveq", "leavew":
		return Leave
	case "sysretq", "sysretl":
		return Sysret
	case "xsavec", "xsavec64", "xsaves", "xsaves64", "xsaveopt", "xsaveopt64", "xsave64":
		return XSAVE
	case "xrstor64", "xrstors", "xrstors64":
		return XRSTOR
	case "insb", "insl", "insw":
		return In
	case "outsb", "outsl", "outsw":
		return Out
	}
	if in.Map == Map0F && in.Op >= 0x20 && in.Op < 0x24 && in.Vex == NoVex && m == "mov" {
		return in.Class()
	}
	for _, c := range []Class{Add, Sub, Cmpxchg, Xadd, Push, Pop, In, Out} {
		if m == c.String() || base == c.String() && m != "in" && m != "out" {
			return c
		}
	}
	if c, ok := ParseClass(m); ok && c != LockClass && c != RepClass && !strings.HasPrefix(m, "mov-") {
		return c
	}
	return Other
}

// sample is some hundred kilobytes of real code.
func sample(b *testing.B) []byte {
	f, err := elf.Open("/usr/lib/x86_64-linux-gnu/libc.so.6")
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	text, err := f.Section(".text").Data()
	if err != nil {
		b.Skip(err)
	}
	return text
}

func BenchmarkDecode(b *testing.B) {
	text := sample(b)
	n := 0
	for b.Loop() {
		n = 0
		if err := Walk(text, 0, func(At) bool { n++; return true }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/insn")
}

func BenchmarkAnalyze(b *testing.B) {
	text := sample(b)
	for b.Loop() {
		if _, err := Analyze(text, 0, World{}); err != nil {
			b.Fatal(err)
		}
	}
}
