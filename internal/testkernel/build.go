package testkernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// built remembers, per program, the path or the failure of this process.
var built sync.Map // import path → func() (string, error)

// Trigger returns the path of the program test/trigger/NAME, built on demand
// (statically, with symbols and DWARF). In a guest it is already there.
func Trigger(t testing.TB, name string) string {
	t.Helper()
	return program(t, "GODTRACE_TRIGGERS", "./test/trigger/"+name, name)
}

// Godtrace returns the path of the command under test, built on demand.
func Godtrace(t testing.TB) string {
	t.Helper()
	return program(t, "GODTRACE_BIN", "./cmd/godtrace", "godtrace")
}

// program is the path of a program of this module: in the folder that the
// environment variable env names, or built now.
func program(t testing.TB, env, pkg, name string) string {
	t.Helper()
	if dir := os.Getenv(env); dir != "" {
		return filepath.Join(dir, name)
	}
	once, _ := built.LoadOrStore(pkg, sync.OnceValues(func() (string, error) {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		// Not the test's own temporary folder: other tests of the process
		// use the program after it. The name is per process, so that no two
		// write it at once; the build cache makes a second build cheap.
		dir := filepath.Join(os.TempDir(), fmt.Sprintf("godtrace-test-%d", os.Getpid()))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		cmd := exec.Command("go", "build", "-o", path, pkg)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build %s: %v\n%s", pkg, err, out)
		}
		return path, nil
	}))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// compilers are those of programs to be traced, by the ending of their source.
var compilers = map[string]struct {
	name string
	libs []string
}{
	".c": {"gcc", []string{"-pthread", "-ldl"}}, ".cc": {"g++", []string{"-pthread", "-ldl"}}, ".rs": {name: "rustc"},
}

// Compile builds a program, or what the flags make of it, from a source file in
// C, C++ or Rust, and returns its path: the file's name without the ending, in a
// folder of its own. Without the compiler, or with one that cannot do what the
// flags ask for, the test is skipped.
func Compile(t testing.TB, source string, flags ...string) string {
	t.Helper()
	ext := filepath.Ext(source)
	cc, ok := compilers[ext]
	if !ok {
		t.Fatalf("%s: no compiler known for %q", source, ext)
	}
	if _, err := exec.LookPath(cc.name); err != nil {
		t.Skipf("SKIP-FEATURE: %s", cc.name)
	}
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ext))
	args := slices.Concat(flags, []string{"-o", out, source}, cc.libs)
	if msg, err := exec.Command(cc.name, args...).CombinedOutput(); err != nil {
		t.Skipf("SKIP-FEATURE: %s %s: %v\n%s", cc.name, strings.Join(args, " "), err, msg)
	}
	return out
}
