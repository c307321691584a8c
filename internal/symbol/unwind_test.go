package symbol

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

// Rows against readelf's interpretation of the same section.
func TestUnwindTable(t *testing.T) {
	const lib = "/usr/lib/x86_64-linux-gnu/"
	files := []string{lib + "libm.so.6", "/bin/true"}
	if os.Getenv("GODTRACE_LONG") != "" {
		files = append(files, lib+"libc.so.6", lib+"libstdc++.so.6", lib+"libcrypto.so.3", "/usr/bin/perl", "/usr/bin/python3", "/usr/bin/gdb", "/lib64/ld-linux-x86-64.so.2")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if _, err := os.Stat(file); err != nil {
				t.Skip(err)
			}
			compareRows(t, file)
		})
	}
}

var fdeLine = regexp.MustCompile(`FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.([0-9a-f]+)`)

func compareRows(t *testing.T, file string) {
	out := tool(t, "readelf", "-wFN", file)
	o, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := o.UnwindTable()
	if err != nil {
		t.Fatal(err)
	}
	n, bad, odd := 0, 0, 0
	var cols []string
	inFDE, end := false, uint64(0)
	for line := range strings.Lines(out) {
		if m := fdeLine.FindStringSubmatch(line); m != nil {
			inFDE = true
			end, _ = strconv.ParseUint(m[2], 16, 64)
			continue
		}
		if strings.Contains(line, " CIE ") {
			inFDE = false
			continue
		}
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == "LOC" {
			cols = f
			continue
		}
		if !inFDE || len(f) < 2 || len(f) != len(cols) || f[1] == "ZERO" {
			continue
		}
		pc, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil || pc >= end {
			continue
		}
		n++
		want := map[string]string{}
		for i, c := range cols {
			want[c] = f[i]
		}
		r := o.Row(pc)
		got := map[string]string{"CFA": "?", "rbp": where(r.RBP, r.RBPOff), "ra": where(r.RA, r.RAOff)}
		switch r.CFA {
		case CFAEnd:
			// Nothing but the end counts.
			got = map[string]string{"CFA": want["CFA"], "ra": "u", "rbp": "u"}
			want["rbp"] = "u"
		case CFARSP:
			got["CFA"] = fmt.Sprintf("rsp+%d", r.CFAOff)
		case CFARBP:
			got["CFA"] = fmt.Sprintf("rbp+%d", r.CFAOff)
		case CFAReg:
			got["CFA"] = fmt.Sprintf("%s+%d", [...]string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}[r.Reg], r.CFAOff)
		case CFARSPDeref, CFARBPDeref, CFAPLT:
			got["CFA"] = "exp"
		case CFAUnknown:
			odd++
			got["CFA"] = "exp"
		}
		if want["rbp"] == "" {
			want["rbp"] = "u"
		}
		for _, c := range []string{"CFA", "rbp", "ra"} {
			if got[c] != want[c] {
				if bad++; bad < 20 {
					t.Errorf("%#x: %s is %s, want %s (%+v)", pc, c, got[c], want[c], r)
				}
			}
		}
	}
	t.Logf("%d rows of readelf, %d in the table, %d not expressed, %d wrong", n, len(rows), odd, bad)
	if n == 0 {
		t.Error("readelf shows no rows")
	}
}

func where(w Where, off int32) string {
	switch w {
	case Same:
		return "u"
	case AtCFA:
		return fmt.Sprintf("c%+d", off)
	case AtRSP, AtRBP, Unknown:
		return "exp"
	}
	return "?"
}

// Functions that realign the stack, have variable frames, call each other by
// pointers and end in a signal handler that sleeps.
const deep = `
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <alloca.h>
static volatile int sink;
static void handler(int sig) { write(1, "\n", 1); for (;;) pause(); }
__attribute__((noinline)) int leaf(int n) { raise(SIGUSR1); return sink += n; }
__attribute__((noinline)) int variable(int n) { volatile char *p = alloca(n * 16); p[0] = 1; return leaf(n) + p[0]; }
__attribute__((noinline)) int aligned(int n) { __attribute__((aligned(64))) volatile char a[128]; a[n & 7] = 1; return variable(n) + a[n & 7]; }
__attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, int g, int h) { int r = aligned(a); return r + a * b * c + d * e + f * g - h + sink; }
__attribute__((noinline)) int down(int n) { return n ? down(n - 1) * 3 + sink : many(1, 2, 3, 4, 5, 6, 7, 8) + 1; }
static int cmp(const void *a, const void *b) { return down(5) + *(int *)a; }
int main(void) {
	int v[2] = {2, 1};
	signal(SIGUSR1, handler);
	qsort(v, 2, sizeof v[0], cmp);
	return 0;
}`

var (
	btLine  = regexp.MustCompile(`(?m)^#\d+ +(?:0x([0-9a-f]+) in )?(\S+|<signal handler called>)`)
	regLine = regexp.MustCompile(`(?m)^(rip|rsp|rbp) +0x([0-9a-f]+)`)
)

// A stack as our tables see it, against gdb's.
func TestUnwindAgainstGDB(t *testing.T) {
	if _, err := exec.LookPath("gdb"); err != nil {
		t.Skip("gdb is not installed")
	}
	for _, flags := range [][]string{{"-O2", "-fomit-frame-pointer"}, {"-O0"}, {"-O2", "-fomit-frame-pointer", "-static"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			bin := build(t, deep, flags...)
			cmd := exec.Command(bin)
			stdout, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			bufio.NewReader(stdout).ReadString('\n')
			pid := cmd.Process.Pid
			testkernel.AwaitCall(t, pid, strconv.Itoa(unix.SYS_PAUSE))
			out := tool(t, "gdb", "-nx", "-batch", "-p", strconv.Itoa(pid), "-ex", "info registers rip rsp rbp", "-ex", "bt")
			var regs Regs
			for _, m := range regLine.FindAllStringSubmatch(out, -1) {
				v, _ := strconv.ParseUint(m[2], 16, 64)
				*map[string]*uint64{"rip": &regs.PC, "rsp": &regs.SP, "rbp": &regs.BP}[m[1]] = v
			}
			// Without an address: inlined into the next, or the signal's own frame.
			var want []uint64
			_, bt, _ := strings.Cut(out, "\nrsp")
			for _, m := range btLine.FindAllStringSubmatch(bt, -1) {
				if pc, err := strconv.ParseUint(m[1], 16, 64); err == nil {
					want = append(want, pc)
				}
			}
			if len(want) < 15 || regs.PC == 0 {
				t.Fatalf("gdb says\n%s", out)
			}
			mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
			if err != nil {
				t.Skip(err)
			}
			defer mem.Close()
			p, err := NewProcesses().Process(pid)
			if err != nil {
				t.Fatal(err)
			}
			frames, err := p.Unwind(regs, func(b []byte, addr uint64) error {
				_, err := mem.ReadAt(b, int64(addr))
				return err
			}, 100)
			if err != nil {
				t.Error(err)
			}
			var names []string
			var got []uint64
			for i, f := range frames {
				names = append(names, p.Lookup(f.PC).String())
				if i+1 == len(frames) || !frames[i+1].Signal {
					got = append(got, f.PC)
				}
				if f.How == ByFP {
					t.Errorf("frame %d by frame pointer", i)
				}
			}
			// Where gdb has debug information (the C library's may be installed) it
			// shows inlined functions and tail calls too: compare the program's own.
			got, want = own(p, got), own(p, want)
			if len(want) < 13 || len(got) < len(want) || !slices.Equal(got[:len(want)], want) { // gdb stops at main
				t.Errorf("got %x, gdb has %x", got, want)
			}
			last := names[len(names)-1]
			if !strings.HasPrefix(last, "t`_start+0x") {
				t.Errorf("the last frame is %s", last)
			}
			if t.Failed() {
				t.Logf("%s\n%s", strings.Join(names, "\n"), out)
			}
		})
	}
}

// own keeps the addresses that lie in the program itself.
func own(p *Process, pcs []uint64) []uint64 {
	return slices.DeleteFunc(pcs, func(pc uint64) bool { return p.Lookup(pc).Module != "t" })
}

// Walks that cannot go on say so.
func TestUnwindTruncated(t *testing.T) {
	p, err := NewProcesses().Process(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	memory := map[uint64]uint64{0x1010: 0x1030, 0x1018: 0x42, 0x1030: 0, 0x1038: 0x43}
	mem := func(b []byte, addr uint64) error {
		v, ok := memory[addr]
		if !ok {
			return errors.New("not mapped")
		}
		binary.LittleEndian.PutUint64(b, v)
		return nil
	}
	// Code nobody knows, with frame pointers: 0x41 called by 0x42 called by 0x43.
	frames, err := p.Unwind(Regs{PC: 0x41, SP: 0x1000, BP: 0x1010}, mem, 10)
	if err != nil || len(frames) != 3 || frames[1].PC != 0x42 || frames[2].PC != 0x43 || frames[1].How != ByFP {
		t.Errorf("by frame pointers: %+v, %v", frames, err)
	}
	memory[0x1030] = 0x1008 // goes back
	if frames, err = p.Unwind(Regs{PC: 0x41, SP: 0x1000, BP: 0x1010}, mem, 10); !errors.Is(err, ErrStackTruncated) || len(frames) != 3 {
		t.Errorf("loop: %+v, %v", frames, err)
	}
	if frames, err = p.Unwind(Regs{PC: 0x41, SP: 0x1000, BP: 0x5000}, mem, 10); !errors.Is(err, ErrStackTruncated) || len(frames) != 1 {
		t.Errorf("not mapped: %+v, %v", frames, err)
	}
}

func FuzzFrames(f *testing.F) {
	if o, err := Open("/bin/true"); err == nil {
		if h, b, err := o.Section(".eh_frame"); err == nil {
			f.Add(b, h.Addr, true)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, addr uint64, eh bool) {
		inOrder(t, (&frames{data: b, addr: addr, eh: eh}).parse())
	})
}

func BenchmarkUnwindTable(b *testing.B) {
	o, err := Open("/usr/lib/x86_64-linux-gnu/libc.so.6")
	if err != nil {
		b.Skip(err)
	}
	n := 0
	for b.Loop() {
		rows, err := o.readFrames()
		if err != nil {
			b.Fatal(err)
		}
		n = len(rows)
	}
	b.ReportMetric(float64(n), "rows")
}
