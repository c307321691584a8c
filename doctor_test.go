package godtrace

import (
	"os"
	"regexp"
	"testing"

	"godtrace/internal/provider"
	"godtrace/internal/testkernel"
)

// What the doctor says of the kernel is what tracing finds.
func TestDoctor(t *testing.T) {
	testkernel.RequireRoot(t)
	found, err := Doctor()
	if err != nil {
		t.Fatal(err)
	}
	ok := map[string]bool{}
	for _, f := range found {
		ok[f.Name] = f.OK
	}
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	probes, err := s.Probes()
	if err != nil {
		t.Fatal(err)
	}
	sdt := false
	for _, p := range probes {
		sdt = sdt || p.Provider == "sdt"
	}
	if sdt != ok["tracefs"] {
		t.Errorf("tracefs %v, probes of sdt %v", ok["tracefs"], sdt)
	}
	_, err = kernelAddr("", "jiffies")
	if (err == nil) != ok["kernel variables"] {
		t.Errorf("kernel variables %v, the address of one: %v", ok["kernel variables"], err)
	}
}

// Help and the page on providers have all of them.
func TestProviderHelp(t *testing.T) {
	for _, file := range []string{"cmd/godtrace/help/providers.txt", "doc/providers.md"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range provider.All() {
			if !regexp.MustCompile(`\b` + p.Name() + `(N|\b)`).Match(b) {
				t.Errorf("%s has nothing on %s", file, p.Name())
			}
		}
	}
}
