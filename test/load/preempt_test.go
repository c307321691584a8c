package load

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// Programs of user probes can be preempted, by a thread whose own probe then
// fires on that CPU; the profile provider and system calls come on top. Records
// with strings in them stay whole, and each firing is recorded or counted as a drop.
func TestPreemptedUprobes(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckMachine(t)
	n := size(10_000, 400_000)
	file := filepath.Join(t.TempDir(), "records")
	r := trace(t, "-o", file, "-q", "-x", "bufsize=8m", "-n", `
		pid$target:a.out:main.hit:entry { this->s = strjoin(execname, "/"); printf("hit %s%s%s %d end\n", this->s, probefunc, probename, tid); }
		syscall::nanosleep:entry /pid == $target/ { printf("sys %s%s end\n", strjoin(execname, "/"), probefunc); }
		profile-4999 { printf("pro %s %d end\n", strjoin(execname, probename), cpu); }`,
		"-c", fmt.Sprintf("%s -call hit -n %d -threads 8 -preempt", testkernel.Trigger(t, "syscalls"), n)).ok(t)
	records, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole := regexp.MustCompile(`^(hit syscalls/main.hitentry \d+|sys syscalls/nanosleep|pro .*profile-4999 \d+) end\n$`)
	var hits int64
	for line := range strings.Lines(string(records)) {
		m := whole.FindStringSubmatch(line)
		if m == nil && line != "\n" {
			t.Fatalf("corrupt record: %q", line)
		}
		if strings.HasPrefix(line, "hit") {
			hits++
		}
	}
	r.accounts(t, "recorded", hits, calls(t, r.Stdout))
}
