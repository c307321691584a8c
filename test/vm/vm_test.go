package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godtrace/internal/testkernel"
	"godtrace/test/vm/plan"
)

var (
	update   = flag.Bool("update", false, "rewrite doc/matrix.md (with -packages: those of its rows), lower the numbers in skips.txt")
	packages = flag.String("packages", "", "only packages whose path contains one of these, by commas")
	verbose  = flag.Bool("guest", false, "print what the guests print")
)

// hostOnly are tests that look at the source tree and need the go command or
// clang, a file system with file capabilities, gdb, debugging symbols, speed, a program by hand,
// servers, compilers of 32-bit programs, Go and Rust;
// and the scripts of the command line, which wait for wall-clock times: what
// they show of the kernel, test/rows shows in the guests.
var hostOnly = []string{
	"TestLanguageHalfIsPure", "TestHalvesAreComplete", "TestReproducible", "TestSetuid", "TestOptionsPage", "TestProviderHelp",
	"TestUnwindAgainstGDB", "TestDamaged", "TestFile", "TestScripts", "TestAgainstGDB", "TestGoStripped", "TestLazyBinding",
	"TestServers", "TestWithDebugger", "TestProgram32", "TestGo32", "TestTypedArgs32",
	"TestGoPlaces", "TestGoNames", "TestGoInlined", "TestStripped", "TestBuilds",
	"TestTypedArgsRust", "TestDemangled",
}

// packagesWanted are Debian's, as far as the host has them: what tests compile
// with, what they compare with, and programs that they trace.
var packagesWanted = []string{
	"gcc", "g++", "libc6-dev", "binutils", "strace", "xz-utils",
	"bash", "coreutils", "perl-base", "python3-minimal",
}

// packageTimeout is for the tests of one package in one guest. Emulation is
// ten times slower than hardware; tests ask testkernel.InVM and count less far.
const packageTimeout = 8 * time.Minute

// TestMatrix runs the tests of the kernel half on every kernel of the matrix,
// one boot each. Its subtests are KERNEL/PACKAGE/TEST.
func TestMatrix(t *testing.T) {
	if os.Getenv("GODTRACE_VM") == "" {
		t.Skip("SKIP-HERE: `make vm` runs the matrix of kernels")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := build(t, root)
	m := &matrix{cells: make(map[string]map[string]cell), rows: make(map[string]string), release: make(map[string]string)}
	m.read(filepath.Join(root, "doc/matrix.md"))
	t.Cleanup(func() { m.finish(t, root) })
	for _, k := range Kernels {
		t.Run(k.Version, func(t *testing.T) {
			t.Parallel()
			b.boot(t, k, m)
		})
	}
}

// built is what the guests take along.
type built struct {
	files    map[string]string
	init     string
	commands []plan.Command
	failed   map[string]string // package → what the compiler said
}

func build(t *testing.T, root string) *built {
	t.Helper()
	dir := t.TempDir()
	b := &built{files: make(map[string]string), init: filepath.Join(dir, "init"), failed: make(map[string]string)}
	gocmd := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
	if out, err := gocmd("build", "-o", b.init, "./test/vm/init"); err != nil {
		t.Fatalf("go build ./test/vm/init: %v\n%s", err, out)
	}
	if out, err := gocmd("build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "godtrace"), "./cmd/godtrace"); err != nil {
		t.Errorf("go build ./cmd/godtrace: %v\n%s", err, out)
	} else {
		b.files["/godtrace/godtrace"] = filepath.Join(dir, "godtrace")
		b.files["/bin/dtrace"] = filepath.Join(dir, "godtrace")
	}
	triggers := filepath.Join(dir, "trigger")
	if err := os.Mkdir(triggers, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := gocmd("build", "-o", triggers, "./test/trigger/..."); err != nil {
		t.Errorf("go build ./test/trigger/...: %v\n%s", err, out)
	}
	b.files["/trigger"] = triggers

	out, err := gocmd("list", "-e", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}", "./...")
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for line := range strings.Lines(out) {
		path, src, ok := strings.Cut(strings.TrimSpace(line), "\t")
		name := strings.TrimPrefix(strings.TrimPrefix(path, "godtrace"), "/")
		if name == "" {
			name = "godtrace"
		}
		if !ok || !wanted(name) {
			continue
		}
		bin := filepath.Join(dir, strings.ReplaceAll(name, "/", "_")+".test")
		if out, err := gocmd("test", "-c", "-vet=off", "-o", bin, path); err != nil {
			b.failed[name] = out
			continue
		}
		if !hasTests(t, bin) {
			continue
		}
		in := "/src/" + name
		b.files[in+"/"+filepath.Base(bin)] = bin
		if data := filepath.Join(src, "testdata"); exists(data) {
			b.files[in+"/testdata"] = data
		}
		b.commands = append(b.commands, plan.Command{
			Name: name, Dir: in, Timeout: packageTimeout + 10*time.Second,
			Args: []string{"./" + filepath.Base(bin), "-test.v=test2json", "-test.timeout=" + packageTimeout.String(), "-test.skip=^(" + strings.Join(hostOnly, "|") + ")$"},
		})
	}
	// Tests that read beside their own testdata.
	for _, shared := range []string{"test/d", "test/meaning/testdata"} {
		b.files["/src/"+shared] = filepath.Join(root, shared)
	}
	return b
}

// hasTests says whether a test binary holds tests for a guest.
func hasTests(t *testing.T, bin string) bool {
	t.Helper()
	out, err := exec.Command(bin, "-test.list=^Test").Output()
	if err != nil {
		t.Fatalf("%s -test.list: %v", filepath.Base(bin), err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if !slices.Contains(hostOnly, name) {
			return true
		}
	}
	return false
}

// wanted says whether a package's tests belong in the guests: the language
// half does not depend on a kernel, and neither do these three of test; bench
// measures this machine.
func wanted(name string) bool {
	if *packages != "" && !slices.ContainsFunc(strings.Split(*packages, ","), func(p string) bool { return strings.Contains(name, p) }) {
		return false
	}
	return !slices.Contains(testkernel.LanguageHalf, name) &&
		!slices.Contains([]string{"test/vm", "test/report", "test/meaning"}, name) && !strings.HasPrefix(name, "bench")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (b *built) boot(t *testing.T, k Kernel, m *matrix) {
	g := Guest{
		Packages: packagesWanted,
		Kernel:   k, Init: b.init, Files: b.files, Memory: 3072,
		Plan: plan.Plan{
			Env:      []string{"GODTRACE_GUEST=" + k.Version, "GODTRACE_TRIGGERS=/trigger", "GODTRACE_BIN=/godtrace"},
			Modules:  []string{"dummy", "brd"},
			Commands: b.commands,
		},
		Timeout: time.Minute + time.Duration(len(b.commands))*packageTimeout,
	}
	if *verbose {
		g.Log = os.Stderr
	}
	rep, err := g.Run(context.Background())
	if rep == nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("%s: first test after %.1f s, all in %.1f s", rep.Release, rep.Booted.Seconds(), rep.Took.Seconds())
	m.mu.Lock()
	m.release[k.Version] = rep.Release
	m.mu.Unlock()
	if len(rep.Warnings) > 0 {
		t.Errorf("the kernel complained:\n%s\n\nthe end of its console:\n%s", strings.Join(rep.Warnings, "\n"), tail(rep.Console, 60))
	}
	for name, out := range b.failed {
		t.Run(name, func(t *testing.T) { t.Errorf("does not compile:\n%s", out) })
	}
	skips := 0
	for _, c := range b.commands {
		t.Run(c.Name, func(t *testing.T) {
			i := slices.IndexFunc(rep.Results, func(r Result) bool { return r.Name == c.Name })
			if i < 0 {
				t.Fatal("was not reached")
			}
			t.Logf("%.1f s", rep.Results[i].Seconds)
			skips += replay(t, k, rep.Results[i], m)
		})
	}
	m.countSkips(t, k, skips)
}

// verdict is what became of one test in a guest.
type verdict struct {
	action string // "pass", "skip", "fail"; "" when it was cut off
	output []string
	rows   string
}

// replay turns what a test binary printed into subtests, and returns how many
// of its tests skipped.
func replay(t *testing.T, k Kernel, r Result, m *matrix) (skips int) {
	tests, order, rest, err := parse(r)
	if err != nil {
		t.Fatal(err)
	}
	failed := false
	for _, name := range order {
		v := tests[name]
		t.Run(name, func(t *testing.T) {
			switch v.action {
			case "pass":
			case "skip":
				t.Skip(reason(v.output))
			case "fail":
				t.Error("\n" + strings.Join(v.output, ""))
			default:
				t.Errorf("no verdict:\n%s\n%s", strings.Join(v.output, ""), rest)
			}
		})
		switch v.action {
		case "skip":
			skips++
		case "pass":
		default:
			failed = true
		}
	}
	m.add(k, r.Name, tests)
	switch {
	case !r.Ended:
		t.Errorf("the guest ended in this package; it had printed\n%s", tail(r.Output, 30))
	case len(order) == 0:
		t.Errorf("no test ran, status %d\n%s", r.Status, tail(r.Output, 30))
	case r.Status != 0 && !failed:
		t.Errorf("status %d without a failed test\n%s", r.Status, tail(r.Output, 30))
	}
	// Documentation/admin-guide/tainted-kernels: modules of others, an oops, a
	// warning, a soft lockup. A fresh Debian kernel has none.
	if r.Ended && r.Taint != "0" {
		t.Errorf("after this package the kernel is tainted: %s", r.Taint)
	}
	return skips
}

// parse has test2json read the output; rest is what belongs to no test.
func parse(r Result) (tests map[string]*verdict, order []string, rest string, err error) {
	cmd := exec.Command("go", "tool", "test2json")
	cmd.Stdin = bytes.NewReader(r.Output)
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, "", fmt.Errorf("test2json: %w", err)
	}
	tests = make(map[string]*verdict)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var e struct{ Action, Test, Output, Key, Value string }
		if err := dec.Decode(&e); err != nil {
			break
		}
		if e.Test == "" {
			rest += e.Output
			continue
		}
		v := tests[e.Test]
		if v == nil {
			v = new(verdict)
			tests[e.Test] = v
			order = append(order, e.Test)
		}
		switch e.Action {
		case "output":
			v.output = append(v.output, e.Output)
		case "attr":
			if e.Key == "rows" {
				v.rows = e.Value
			}
		case "pass", "skip", "fail":
			v.action = e.Action
		}
	}
	return tests, order, rest, nil
}

// reason is the last thing a skipped test said, without the file and line.
func reason(lines []string) string {
	for _, l := range slices.Backward(lines) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "---") || strings.HasPrefix(l, "===") {
			continue
		}
		if file, rest, ok := strings.Cut(l, ": "); ok && strings.Contains(file, ".go:") {
			return rest
		}
		return l
	}
	return "no reason given"
}

// matrix is the table of doc/matrix.md: as committed, and as it is found.
type matrix struct {
	mu        sync.Mutex
	committed map[string]map[string]string // "package | test" → kernel → cell
	cells     map[string]map[string]cell   // the same, found now
	rows      map[string]string            // "package | test" → the behaviours it shows
	release   map[string]string
	skips     map[string]int

	rowsWere, releaseWas map[string]string // as committed
}

// none is the cell of a test that a kernel did not run.
const none = "–"

type cell struct {
	text    string
	skipped bool
}

// add notes the top-level tests of a package.
func (m *matrix) add(k Kernel, pkg string, tests map[string]*verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, v := range tests {
		top, _, sub := strings.Cut(name, "/")
		key := pkg + " | " + top
		if m.rows[key] == "" {
			m.rows[key] = v.rows
		}
		if sub {
			continue
		}
		c := cell{text: v.action}
		switch v.action {
		case "":
			c.text = "fail"
		case "skip":
			c.skipped = true
			c.text = strings.ReplaceAll(reason(v.output), "|", "/")
		case "pass":
			n := 0
			for other, o := range tests {
				if o.action == "skip" && strings.HasPrefix(other, name+"/") {
					n++
				}
			}
			if n > 0 {
				c.text = fmt.Sprintf("pass, %d skipped", n)
			}
		}
		if m.cells[key] == nil {
			m.cells[key] = make(map[string]cell)
		}
		m.cells[key][k.Version] = c
	}
}

func (m *matrix) read(path string) {
	m.committed = make(map[string]map[string]string)
	m.rowsWere, m.releaseWas = make(map[string]string), make(map[string]string)
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(f) != 3+len(Kernels) || strings.HasPrefix(f[0], "---") || strings.TrimSpace(f[0]) == "package" {
			continue
		}
		cells := make(map[string]string)
		for i, k := range Kernels {
			cells[k.Version] = strings.TrimSpace(f[3+i])
		}
		key := strings.TrimSpace(f[0]) + " | " + strings.TrimSpace(f[1])
		m.committed[key] = cells
		m.rowsWere[key] = strings.TrimSpace(f[2])
	}
	if _, list, ok := strings.Cut(string(text), "\nKernels: "); ok {
		for i, r := range strings.Split(strings.TrimSuffix(strings.TrimSpace(list), "."), ", ") {
			if i < len(Kernels) {
				m.releaseWas[Kernels[i].Version] = r
			}
		}
	}
}

// keep takes over from the committed table what was not run this time: other
// packages, other kernels.
func (m *matrix) keep() {
	for key, was := range m.committed {
		pkg, _, _ := strings.Cut(key, " | ")
		for _, k := range Kernels {
			if m.release[k.Version] != "" && wanted(pkg) || was[k.Version] == none {
				continue
			}
			if m.cells[key] == nil {
				m.cells[key] = make(map[string]cell)
			}
			m.cells[key][k.Version] = cell{text: was[k.Version]}
			if m.rows[key] == "" {
				m.rows[key] = m.rowsWere[key]
			}
		}
	}
	for v, r := range m.releaseWas {
		if m.release[v] == "" {
			m.release[v] = r
		}
	}
}

const skipsFile = "skips.txt"

func readSkips() (map[string]int, error) {
	text, err := os.ReadFile(skipsFile)
	if err != nil {
		return nil, err
	}
	skips := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		var version string
		var n int
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscan(line, &version, &n); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", skipsFile, line, err)
		}
		skips[version] = n
	}
	return skips, nil
}

// countSkips fails the kernel's test if more of its tests skip than the
// committed number allows, or if one skips that the committed table has as
// passing.
func (m *matrix) countSkips(t *testing.T, k Kernel, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.skips == nil {
		m.skips = make(map[string]int)
	}
	m.skips[k.Version] = n
	if *packages != "" {
		return
	}
	allowed, err := readSkips()
	if err != nil {
		t.Error(err)
		return
	}
	if most, ok := allowed[k.Version]; n > most && (ok || !*update) {
		t.Errorf("%d tests skip on %s, %s allows %d: the number may only fall", n, k.Version, skipsFile, allowed[k.Version])
	}
	for key, cells := range m.cells {
		if was := m.committed[key][k.Version]; cells[k.Version].skipped && strings.HasPrefix(was, "pass") {
			t.Errorf("%s: skips on %s, where doc/matrix.md has it pass", key, k.Version)
		}
	}
}

// finish compares the table with the committed one, or rewrites it.
func (m *matrix) finish(t *testing.T, root string) {
	whole := *packages == "" && len(m.release) == len(Kernels)
	if !whole && !*update {
		return
	}
	m.keep()
	text := m.String()
	path := filepath.Join(root, "doc/matrix.md")
	if !*update {
		if old, _ := os.ReadFile(path); string(old) != text {
			t.Log("doc/matrix.md is not up to date: make vm-update")
		}
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
	if !whole {
		return
	}
	allowed, err := readSkips()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
		return
	}
	var b strings.Builder
	b.WriteString("# How many tests may skip on each kernel. The numbers only fall; `make vm-update` lowers them.\n")
	for _, k := range Kernels {
		n := m.skips[k.Version]
		if old, ok := allowed[k.Version]; ok {
			n = min(n, old)
		}
		fmt.Fprintf(&b, "%s %d\n", k.Version, n)
	}
	if err := os.WriteFile(skipsFile, []byte(b.String()), 0o644); err != nil {
		t.Error(err)
	}
}

func (m *matrix) String() string {
	var b strings.Builder
	b.WriteString("# Tests by kernel\n\n" +
		"Written by `make vm-update`: every test of the kernel half under Debian's kernels, in QEMU. A test that skips says why;\n" +
		"a cell that passes today may not skip tomorrow. The third column names the behaviours that a test shows.\n\n")
	b.WriteString("| package | test | shows |")
	for _, k := range Kernels {
		fmt.Fprintf(&b, " %s |", k.Version)
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(Kernels)) + "\n")
	var keys []string
	for key := range m.cells {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(&b, "| %s | %s |", key, m.rows[key])
		for _, k := range Kernels {
			c, ok := m.cells[key][k.Version]
			if !ok {
				c.text = none
			}
			fmt.Fprintf(&b, " %s |", c.text)
		}
		b.WriteString("\n")
	}
	b.WriteString("\nKernels: ")
	for i, k := range Kernels {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(m.release[k.Version])
	}
	b.WriteString(".\n")
	return b.String()
}
