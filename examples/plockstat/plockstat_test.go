package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"godtrace/internal/testkernel"
)

// The test's binary is plockstat, too.
func TestMain(m *testing.M) {
	if os.Getenv("PLOCKSTAT") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestPlockstat(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "3.14")
	locks := filepath.Join(t.TempDir(), "locks")
	if out, err := exec.Command("gcc", "-O2", "-pthread", "-o", locks, "testdata/locks.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(os.Args[0], locks)
	cmd.Env = append(os.Environ(), "PLOCKSTAT=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The program locks as often as its source says, for at least that long.
	line := func(what, lock, caller string) (count, nsec int) {
		t.Helper()
		re := regexp.MustCompile(`(?s)\n` + what + `\n.*?\n *(\d+) +(\d+) locks.` + lock + ` +locks.` + caller + `\+0x`)
		m := re.FindStringSubmatch("\n" + string(out))
		if m == nil {
			t.Fatalf("no line for %s of %s by %s in\n%s", what, lock, caller, out)
		}
		count, _ = strconv.Atoi(m[1])
		nsec, _ = strconv.Atoi(m[2])
		return count, nsec
	}
	if n, ns := line("Mutex hold", "hot", "work"); n != 200 || ns < 2e6 {
		t.Errorf("hot held %d times for %d ns, want 200 times for 2 ms or more", n, ns)
	}
	if n, ns := line("Mutex hold", "cold", "main"); n != 1 || ns < 400e6 {
		t.Errorf("cold held %d times for %d ns, want once for 400 ms or more", n, ns)
	}
	if n, ns := line("Mutex block", "hot", "work"); n < 1 || n > 199 || ns < 1e5 {
		t.Errorf("waited for hot %d times, %d ns each; want 1 to 199 times", n, ns)
	}
}
