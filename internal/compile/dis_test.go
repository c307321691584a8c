package compile

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godtrace/internal/dif"
)

var update = flag.Bool("update", false, "write the golden files")

// TestDisassemble: the words of the documented example are those of DTrace's
// encoding; the rest is compared with golden files.
func TestDisassemble(t *testing.T) {
	t.Attr("rows", "3.9") // as testkernel.Shows, which is of the kernel half
	s := compileD(t, `t:m:f:n { trace(execname); }`, Options{})
	var b bytes.Buffer
	if err := dif.Disassemble(&b, s.c.Object(), s.fires[2][0]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		" returns string (unknown) by ref (size 256)\n",
		"OFF OPCODE      INSTRUCTION\n",
		"00: 29011801    ldgs DT_VAR(280), %r1\t\t! DT_VAR(280) = \"execname\"\n",
		"01: 23000001    ret  %r1\n",
		"execname         118  scl glb r    string (unknown) by ref (size 256)\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	for name, src := range map[string]string{
		"predicate": `self int x; t:m:f:n /execname == "sshd" && arg0 > 5 || self->x/ { @[probefunc, copyinstr(arg3), pid] = quantize(arg0); }`,
		"assign":    `t:m:f:n { self->x = arg1 + 3; a[pid, execname] = timestamp; this->s = strjoin("a", execname); printf("%s %d", this->s, a[pid, execname] - 1 ? 1 : 2); }`,
		"memory":    `t:m:f:n { this->t = (struct thing *)arg0; trace(this->t->next->mode); trace((char)arg1 == 3 && execname < "x"); trace(*(struct thing *)arg0); exit(arg2 % 3); }`,
	} {
		s := compileD(t, src, Options{})
		b.Reset()
		b.WriteString(dif.Print(s.c.Object(), s.fires[2][0]))
		if err := dif.Disassemble(&b, s.c.Object(), s.fires[2][0]); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s differs from %s:\n%s", src, file, b.String())
		}
	}
}
