package load

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godtrace/internal/testkernel"
)

// numbered runs a program while two threads, each on a CPU of its own, call
// getppid n times, the number of the call being its argument. It returns the
// numbers of the lines "TID NUMBER" that the program printed, by TID.
func numbered(t *testing.T, n int, args ...string) (result, map[int][]int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "records")
	args = append([]string{"-o", file, "-q"}, args...)
	r := trace(t, append(args, "-c", fmt.Sprintf("%s -call getppid -n %d -threads 2 -cpu 0", testkernel.Trigger(t, "syscalls"), n))...).ok(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int][]int{}
	for line := range strings.Lines(string(text)) {
		var tid, number int
		if line == "\n" {
			continue
		}
		if _, err := fmt.Sscanf(line, "%d %d\n", &tid, &number); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		got[tid] = append(got[tid], number)
	}
	return r, got
}

// consecutive fails the test unless each number is the one before plus 1.
func consecutive(t *testing.T, tid int, numbers []int) {
	t.Helper()
	for i, k := range numbers[1:] {
		if k != numbers[i]+1 {
			t.Fatalf("thread %d: %d comes after %d", tid, k, numbers[i])
		}
	}
}

// bufsize of the tests of policies. A record takes no more than 64 bytes: with
// its header, tid and number.
const bufsize, most = 64 << 10, 64

// A ring holds the newest records of its CPU, all of them, and nothing counts
// as lost.
func TestRingKeepsNewest(t *testing.T) {
	testkernel.RequireRoot(t)
	n := size(100_000, 5_000_000)
	r, got := numbered(t, n, "-x", "bufpolicy=ring", "-x", fmt.Sprint("bufsize=", bufsize), "-n",
		`syscall::getppid:entry/pid == $target/{ printf("%d %d\n", tid, arg0); }`)
	if len(got) != 2 {
		t.Errorf("records of %d threads", len(got))
	}
	for tid, numbers := range got {
		consecutive(t, tid, numbers)
		if last := numbers[len(numbers)-1]; last != n-1 {
			t.Errorf("thread %d: the last of its records is %d, want %d", tid, last, n-1)
		}
		if len(numbers) < bufsize/most {
			t.Errorf("thread %d: %d records fill %d bytes", tid, len(numbers), bufsize)
		}
		t.Logf("thread %d: %d records", tid, len(numbers))
	}
	// What a kernel skips since 7.0, where firings can be preempted, are others.
	if d := r.drops(); d != skipped(r.Stderr) {
		t.Errorf("%d drops\n%s", d, r.Stderr)
	}
}

// A buffer that is filled holds the oldest records of its CPU. The first that
// is full ends tracing.
func TestFillKeepsOldest(t *testing.T) {
	testkernel.RequireRoot(t)
	n := size(100_000, 5_000_000)
	_, got := numbered(t, n, "-x", "bufpolicy=fill", "-x", fmt.Sprint("bufsize=", bufsize), "-n",
		`syscall::getppid:entry/pid == $target/{ printf("%d %d\n", tid, arg0); }`)
	full := false
	for tid, numbers := range got {
		consecutive(t, tid, numbers)
		if numbers[0] != 0 {
			t.Errorf("thread %d: the first of its records is %d", tid, numbers[0])
		}
		full = full || len(numbers) >= bufsize/most
		t.Logf("thread %d: %d records", tid, len(numbers))
	}
	if !full {
		t.Error("no buffer was full")
	}
}

// Every third call is committed, the others are discarded: what is printed is
// of a committed one, once, and what is missing was told.
func TestSpeculationsAddUp(t *testing.T) {
	testkernel.RequireRoot(t)
	n := size(20_000, 500_000)
	r, got := numbered(t, n, "-x", "nspec=200", "-x", "specsize=4k", "-x", "cleanrate=1ms", "-n", `
		syscall::getppid:entry/pid == $target/{ self->s = speculation(); self->n = arg0; }
		syscall::getppid:entry/self->s/{ speculate(self->s); printf("%d %d\n", tid, arg0); }
		syscall::getppid:return/self->s && self->n % 3 == 0/{ @commits = count(); }
		syscall::getppid:return/self->s && self->n % 3 == 0/{ commit(self->s); self->s = 0; }
		syscall::getppid:return/self->s/{ discard(self->s); self->s = 0; }
		END{ printa("0 %@d\n", @commits); }`)
	if len(got[0]) != 1 {
		t.Fatalf("no commits\n%s", r.Stderr)
	}
	commits := int64(got[0][0])
	delete(got, 0)
	var printed int64
	for tid, numbers := range got {
		last := -1
		for _, k := range numbers {
			if k%3 != 0 || k <= last {
				t.Fatalf("thread %d: %d after %d", tid, k, last)
			}
			last = k
		}
		printed += int64(len(numbers))
	}
	failed := failedSpeculations(r.Stderr)
	if printed > commits || printed+r.drops() < commits || printed != commits && r.drops() == skipped(r.Stderr) {
		t.Errorf("%d of %d commits were printed, drops %d\n%s", printed, commits, r.drops(), r.Stderr)
	}
	if calls := calls(t, r.Stdout); commits > calls-failed || commits+failed < calls/3 {
		t.Errorf("%d commits and %d failed speculations in %d calls", commits, failed, calls)
	}
	t.Logf("printed %d of %d, drops %d, failed speculations %d", printed, commits, r.drops(), failed)
}

// skipped is how many firings the kernel skipped.
func skipped(stderr string) (n int64) {
	for line := range strings.Lines(stderr) {
		var k int64
		if m, _ := fmt.Sscanf(line, "dtrace: %d firings skipped by the kernel", &k); m == 1 {
			n += k
		}
	}
	return n
}

// failedSpeculations is how many speculations were not to be had.
func failedSpeculations(stderr string) (n int64) {
	for line := range strings.Lines(stderr) {
		var k int64
		if m, _ := fmt.Sscanf(line, "dtrace: %d failed speculation", &k); m == 1 {
			n += k
		}
	}
	return n
}
