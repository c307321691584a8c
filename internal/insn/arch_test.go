package insn

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// Words and what they are, by the manual's encodings; at 0x10000.
func TestARM64(t *testing.T) {
	testkernel.Shows(t, "3.22")
	a, ok := ArchOf("arm64")
	if !ok {
		t.Fatal("no arm64")
	}
	for _, tt := range []struct {
		word   uint32
		text   string
		kind   Kind
		target uint64
	}{
		{0x14000001, "b +4", KindJump, 0x10004},
		{0x17ffffff, "b -4", KindJump, 0xfffc},
		{0x94000400, "bl +0x1000", KindCall, 0x11000},
		{0x97fffc00, "bl -0x1000", KindCall, 0xf000},
		{0x54000040, "b.eq +8", KindCondJump, 0x10008},
		{0x54ffffe1, "b.ne -4", KindCondJump, 0xfffc},
		{0x5400004e, "b.al +8", KindJump, 0x10008},
		{0xb4000060, "cbz x0, +12", KindCondJump, 0x1000c},
		{0x35ffffc1, "cbnz w1, -8", KindCondJump, 0xfff8},
		{0x36180043, "tbz w3, #3, +8", KindCondJump, 0x10008},
		{0xb7f7ffe3, "tbnz x3, #62, -4", KindCondJump, 0xfffc},
		{0xd61f0200, "br x16", KindJump, 0},
		{0xd71f0a11, "braa x16, x17", KindJump, 0},
		{0xd63f0100, "blr x8", KindCall, 0},
		{0xd63f0900, "blraaz x8", KindCall, 0},
		{0xd65f03c0, "ret", KindReturn, 0},
		{0xd65f0bff, "retaa", KindReturn, 0},
		{0xd69f03e0, "eret", KindReturn, 0},
		{0xd503201f, "nop", KindNop, 0},
		{0xd503233f, "paciasp", KindPlain, 0},
		{0xd4200080, "brk #4", KindTrap, 0},
		{0xd4000001, "svc #0", KindPlain, 0},
		{0x00000000, "udf #0", KindTrap, 0},
		{0xc85ffc20, "ldaxr x0, [x1]", KindExclusive, 0},
		{0xc8007c41, "stxr w0, x1, [x2]", KindExclusive, 0},
		{0xc87f0801, "ldxp x1, x2, [x0]", KindExclusive, 0},
		{0xc8dffc20, "ldar x0, [x1]", KindPlain, 0},
		{0xc8a07c41, "cas x0, x1, [x2]", KindPlain, 0},
		{0xf8200041, "ldadd x0, x1, [x2]", KindPlain, 0},
		{0xa9bf7bfd, "stp x29, x30, [sp, #-16]!", KindPlain, 0},
		{0xd10083ff, "sub sp, sp, #32", KindPlain, 0},
	} {
		code := binary.LittleEndian.AppendUint32(nil, tt.word)
		var got Site
		if err := a.Walk(code, 0x10000, func(s Site) bool { got = s; return true }); err != nil {
			t.Fatal(err)
		}
		if want := (Site{0x10000, 0, 4, tt.kind, tt.target}); got != want {
			t.Errorf("%08x %s: %+v, want %+v", tt.word, tt.text, got, want)
		}
	}
	if err := a.Walk(make([]byte, 6), 0, func(Site) bool { return true }); err == nil {
		t.Error("half an instruction was taken")
	}
}

// A Go program built for the other architecture: its text is walked whole, and
// calls and returns are those that the toolchain's own disassembler shows.
func TestARM64Program(t *testing.T) {
	testkernel.Shows(t, "3.22")
	if !long() {
		t.Skip("GODTRACE_LONG=1 builds a program for arm64")
	}
	gocmd, err := exec.LookPath("go")
	if err != nil {
		t.Skip("SKIP-FEATURE: the go command")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(f(3)) }\n\n//go:noinline\nfunc f(n int) int {\n\tif n == 0 {\n\t\treturn 1\n\t}\n\treturn n * f(n-1)\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	prog := filepath.Join(dir, "prog")
	cmd := exec.Command(gocmd, "build", "-o", prog, source)
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIP-FEATURE: building for arm64: %v: %s", err, out)
	}
	out, err := exec.Command(gocmd, "tool", "objdump", "-s", `^main\.|^runtime\.mallocgc`, prog).Output()
	if err != nil {
		t.Fatal(err)
	}
	// "  main.go:3	0x77c20	f9400b90	MOVD 16(R28), R16"
	line := regexp.MustCompile(`^\s+\S+\s+0x([0-9a-f]+)\s+([0-9a-f]{8})\s+(\S+)(?: ([^(]*)\(SB\))?`)
	n := map[Kind]int{}
	a, _ := ArchOf("arm64")
	for l := range bytes.Lines(out) {
		m := line.FindStringSubmatch(string(l))
		if m == nil {
			continue
		}
		addr, _ := strconv.ParseUint(m[1], 16, 64)
		w, _ := strconv.ParseUint(m[2], 16, 32)
		want := KindPlain
		switch op := m[3]; {
		case op == "CALL", op == "BL":
			want = KindCall
		case op == "JMP", op == "B":
			want = KindJump
		case op == "RET":
			want = KindReturn
		case regexp.MustCompile(`^(B(EQ|NE|HS|CS|LO|CC|MI|PL|VS|VC|HI|LS|GE|LT|GT|LE)|CBN?ZW?|TBN?Z)$`).MatchString(op):
			want = KindCondJump
		case op == "?", strings.HasPrefix(op, "BRK"), op == "NOOP", strings.Contains(op, "LDA?XR"):
			continue
		}
		a.Walk(binary.LittleEndian.AppendUint32(nil, uint32(w)), addr, func(s Site) bool {
			if s.Kind == KindPlain || s.Kind == KindCall || s.Kind == KindJump || s.Kind == KindCondJump || s.Kind == KindReturn {
				n[s.Kind]++
				if s.Kind != want {
					t.Errorf("%s: %d, want %d", strings.TrimSpace(string(l)), s.Kind, want)
				}
			}
			return true
		})
	}
	if n[KindCall] < 10 || n[KindReturn] < 3 || n[KindCondJump] < 10 || n[KindPlain] < 100 {
		t.Errorf("too few of them: %v", n)
	}
}

// Both tables are as long as the kernel's structure, and on this machine the
// one for it is the one that is used.
func TestArch(t *testing.T) {
	for arch, want := range map[string]int{"amd64": 21, "arm64": 34} {
		a, ok := ArchOf(arch)
		if !ok || len(a.Registers()) != want {
			t.Errorf("%s: %d registers, want %d", arch, len(a.Registers()), want)
		}
	}
	a, ok := ArchOf(runtime.GOARCH)
	if !ok {
		t.Skip("no instructions of " + runtime.GOARCH)
	}
	// The encodings of TestEncodings are all of x86-64.
	if runtime.GOARCH != "amd64" {
		return
	}
	for _, e := range encodings {
		code := unhex(t, e.code)
		var s Site
		if err := a.Walk(code, 0x1000, func(x Site) bool { s = x; return false }); err != nil {
			continue
		}
		in, err := Decode(code)
		if err != nil || s.Len != int(in.Len) || (s.Kind == KindCall) != (in.Class() == Call) || (s.Kind == KindReturn) != (in.Class() == Ret || in.Class() == Iret) {
			t.Errorf("%s: %+v", e.code, s)
		}
	}
}
