package godtrace_test

import (
	"os"
	"os/exec"
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
