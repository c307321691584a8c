package vm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadReport(t *testing.T) {
	const in = "noise\n\x01begin a\none\ntwo without end\n\x01end a 3 512 1.5\n\x01begin b\nhalf"
	var rep Report
	if off := rep.read(strings.NewReader(in), time.Now()); off {
		t.Error("off without its mark")
	}
	if len(rep.Results) != 2 {
		t.Fatalf("%d results, want 2", len(rep.Results))
	}
	a, b := rep.Results[0], rep.Results[1]
	if string(a.Output) != "one\ntwo without end" || a.Status != 3 || a.Taint != "512" || a.Seconds != 1.5 || !a.Ended {
		t.Errorf("a: %+v", a)
	}
	if string(b.Output) != "half" || b.Ended {
		t.Errorf("b: %+v", b)
	}
	if !new(Report).read(strings.NewReader("\x01begin a\n\n\x01end a 0 0 0.1\n\x01off\n"), time.Now()) {
		t.Error("the mark at the end was not seen")
	}
}

// The form is cpio's own: see cpio(5), "New ASCII Format".
func TestRamdisk(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("hello"), 0o755); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	r := newRamdisk(&b)
	r.add("/d/e/f", filepath.Join(dir, "f"))
	r.link("/d/l", "f")
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if b.Len()%4 != 0 {
		t.Errorf("%d bytes, not a multiple of four", b.Len())
	}
	var names []string
	data := b.Bytes()
	for len(data) > 110 {
		if string(data[:6]) != "070701" {
			t.Fatalf("magic %q after %v", data[:6], names)
		}
		hex := func(field int) (n int) {
			for _, c := range data[6+8*field : 14+8*field] {
				n = n<<4 | strings.IndexByte("0123456789ABCDEF", c)
			}
			return n
		}
		size, name := hex(6), hex(11)
		start := (110 + name + 3) &^ 3
		n := string(data[110 : 110+name-1])
		names = append(names, n)
		if n == "d/e/f" && (string(data[start:start+size]) != "hello" || hex(1) != 0o100755) {
			t.Errorf("d/e/f: %q mode %o", data[start:start+size], hex(1))
		}
		data = data[(start+size+3)&^3:]
	}
	if got := strings.Join(names, " "); got != "d d/e d/e/f d/l TRAILER!!!" {
		t.Errorf("entries %s", got)
	}
	if err := func() error { r := newRamdisk(&b); r.add("x", filepath.Join(dir, "none")); return r.close() }(); err == nil {
		t.Error("no error for a file that is not there")
	}
}

func TestNewer(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"6.1.0-50-cloud-amd64", "6.1.0-9-cloud-amd64", true},
		{"6.1.0-9-cloud-amd64", "6.1.0-50-cloud-amd64", false},
		{"6.12.107+deb13-cloud-amd64", "6.12.94+deb13-cloud-amd64", true},
		{"6.12.1-cloud-amd64", "", true},
	} {
		if got := newer(tt.a, tt.b); got != tt.want {
			t.Errorf("newer(%q, %q) = %v", tt.a, tt.b, got)
		}
	}
}

func TestUnpackVmlinuxRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{"empty": nil, "zeros": make([]byte, 4096), "short": make([]byte, 0x200)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unpackVmlinux(path, filepath.Join(dir, "out")); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What was not run is taken over from the committed table, and nothing else.
func TestMatrixKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "matrix.md")
	fresh := func() *matrix {
		return &matrix{cells: make(map[string]map[string]cell), rows: make(map[string]string), release: make(map[string]string)}
	}
	m := fresh()
	m.read(path)
	for _, k := range Kernels {
		m.release[k.Version] = k.Version + ".0"
		m.add(k, "p", map[string]*verdict{"TestA": {action: "pass", rows: "1.1"}, "TestB": {action: "fail"}})
	}
	first := m.String()
	if err := os.WriteFile(path, []byte(first), 0o644); err != nil {
		t.Fatal(err)
	}
	m = fresh()
	m.read(path)
	m.keep()
	if got := m.String(); got != first {
		t.Errorf("nothing run:\n%s\nwant\n%s", got, first)
	}
	m = fresh()
	m.read(path)
	m.release["6.1"] = "6.1.1"
	m.add(Kernels[0], "p", map[string]*verdict{"TestB": {action: "pass"}})
	m.keep()
	want := strings.Replace(first, "| p | TestA | 1.1 | pass |", "| p | TestA | 1.1 | – |", 1)
	want = strings.Replace(want, "| p | TestB |  | fail |", "| p | TestB |  | pass |", 1)
	want = strings.Replace(want, "6.1.0", "6.1.1", 1)
	if got := m.String(); got != want {
		t.Errorf("one kernel run:\n%s\nwant\n%s", got, want)
	}
}
