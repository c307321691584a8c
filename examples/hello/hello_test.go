package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// The test's binary is hello, too.
func TestMain(m *testing.M) {
	if os.Getenv("HELLO") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestHello(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "3.8")
	for _, args := range [][]string{nil, {`BEGIN { trace("hello from"); exit(0); }`}} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "HELLO=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !strings.Contains(string(out), ":BEGIN") || !strings.Contains(string(out), "hello from") {
			t.Errorf("%q printed %q", args, out)
		}
	}
}
