package provider

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godtrace/internal/insn"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
)

// Every function of the running kernel decodes to its end, or the place where
// it does not is reported; of a sample, instructions and returns are those
// that objdump finds in the same text.
func TestKernelText(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "0.9", "0.10")
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("SKIP-FEATURE: objdump")
	}
	th, err := thunks()
	testkernel.SkipIfUnsupported(t, err)
	fs, err := new(Instr).functions(probe.Desc{Module: "vmlinux"})
	if err != nil {
		t.Fatal(err)
	}
	most := 1000
	if _, vm := testkernel.InVM(); vm {
		most = 300
	}
	if os.Getenv("GODTRACE_LONG") != "" {
		most = 10_000
	}
	every := max(len(fs)/most, 1)
	var text []byte
	type sampled struct {
		kernelFunc
		at             int // in text
		starts, leaves []int
	}
	var sample []sampled
	decoded := 0
	for i, f := range fs {
		code, err := f.text()
		if err != nil {
			testkernel.SkipIfUnsupported(t, err)
			continue // the text of init is gone
		}
		offs, err := insn.Boundaries(code, f.addr)
		if err != nil {
			if e, ok := err.(*insn.Error); !ok || e.Off >= len(code) {
				t.Errorf("%s: %v, which tells no place", f.name, err)
			}
			continue
		}
		decoded++
		if i%every != 0 {
			continue
		}
		exits, err := f.exits()
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		s := sampled{kernelFunc: f, at: len(text), starts: offs}
		for _, x := range exits {
			if x.Kind == insn.ExitRet || x.Kind == insn.ExitThunk {
				s.leaves = append(s.leaves, x.Off)
			}
		}
		sample = append(sample, s)
		// What follows must not be decoded as a part of it.
		text = append(append(text, code...), slices.Repeat([]byte{0x90}, 16)...)
	}
	t.Logf("%d of %d functions decode to their end", decoded, len(fs))
	if decoded < len(fs)*99/100 {
		t.Errorf("only %d of %d functions decode", decoded, len(fs))
	}

	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(objdump, "-D", "-w", "-z", "--no-show-raw-insn", "-b", "binary", "-m", "i386:x86-64", file)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// "     10f:	jmp    0x2000"
	line := regexp.MustCompile(`^ +([0-9a-f]+):\t(?:bnd |cs |ds |notrack |repz )*(\S+) *(?:0x([0-9a-f]+))?`)
	starts, leaves := map[int]bool{}, map[int]bool{}
	jumps := map[int]uint64{} // from → to, both in the file
	for in := bufio.NewScanner(pipe); in.Scan(); {
		m := line.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		at, _ := strconv.ParseUint(m[1], 16, 64)
		starts[int(at)] = true
		switch {
		case strings.HasPrefix(m[2], "ret"), strings.HasPrefix(m[2], "lret"):
			leaves[int(at)] = true
		case m[2] == "jmp" && m[3] != "":
			to, _ := strconv.ParseUint(m[3], 16, 64)
			jumps[int(at)] = to
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	returns, wrong := 0, 0
	for _, s := range sample {
		var theirs, out []int
		for off := range s.size {
			at := s.at + off
			if starts[at] {
				theirs = append(theirs, off)
			}
			if to, ok := jumps[at]; leaves[at] || ok && th[to-uint64(s.at)+s.addr] == insn.ReturnThunk {
				out = append(out, off)
			}
		}
		returns += len(s.leaves)
		if !slices.Equal(theirs, s.starts) || !slices.Equal(out, s.leaves) {
			if wrong++; wrong <= 10 {
				t.Errorf("%s: returns at %s, objdump has %s; %d instructions, objdump has %d", s.name, hex(s.leaves), hex(out), len(s.starts), len(theirs))
			}
		}
	}
	t.Logf("%d functions with %d returns compared", len(sample), returns)
	if wrong > 0 || len(sample) < most/2 || returns < most/2 {
		t.Errorf("%d of %d functions differ", wrong, len(sample))
	}
}

func hex(offs []int) string { return fmt.Sprintf("%#x", offs) }
