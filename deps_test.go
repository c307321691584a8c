package godtrace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// The language half stays free of the kernel half, so that the meaning of D is
// tested without root and without a kernel, on any operating system.
func TestLanguageHalfIsPure(t *testing.T) {
	why := map[string]string{
		"github.com/cilium/ebpf": "the language half hands over a DIF program; internal/bpf alone makes eBPF of it",
		"golang.org/x/sys/unix":  "the language half makes no system calls; it builds and is tested on any operating system",
	}
	for _, p := range testkernel.KernelHalf {
		why["godtrace/"+p] = "the kernel half is downstream: ask the world through check.Env instead"
	}
	for _, p := range testkernel.LanguageHalf {
		t.Run(p, func(t *testing.T) {
			if _, err := os.Stat(p); err != nil {
				t.Fatalf("%s is listed in internal/testkernel/halves.go: %v", p, err)
			}
			out, err := exec.Command("go", "list", "-deps", "./"+p).Output()
			if err != nil {
				t.Fatalf("go list -deps ./%s: %v", p, err)
			}
			for _, dep := range strings.Fields(string(out)) {
				for bad, reason := range why {
					if dep == bad || strings.HasPrefix(dep, bad+"/") {
						t.Errorf("%s depends on %s: %s", p, dep, reason)
					}
				}
			}
		})
	}
}

// Every package belongs to one half, or is for tests only.
func TestHalvesAreComplete(t *testing.T) {
	want := slices.Concat(testkernel.LanguageHalf, testkernel.KernelHalf, []string{"internal/testkernel"})
	slices.Sort(want)
	got, err := filepath.Glob("internal/*")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("packages:\n%q\nlisted in internal/testkernel/halves.go:\n%q", got, want)
	}
}
