package godtrace

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"godtrace/internal/testkernel"
)

func TestParsePolicy(t *testing.T) {
	const file = "/etc/p"
	for _, c := range []struct {
		name, text, err string
	}{
		{"empty", "", ""},
		{"comments", "# nothing\n\n   # at all\n", ""},
		{"rules", "user 1000 syscall profile # both\ngroup 50\tpid*\nany io\n", ""},
		{"who", "role admin *", `/etc/p, line 1: "role": expected user, group or any`},
		{"no name", "\nuser", "/etc/p, line 2: user: expected the name or number of one"},
		{"unknown user", "user no-such-user *", "/etc/p, line 1: no user no-such-user in /etc/passwd: use the number of one that is kept elsewhere"},
		{"unknown group", "group no-such-group *", "/etc/p, line 1: no group no-such-group in /etc/group: use the number of one that is kept elsewhere"},
		{"nothing granted", "any", "/etc/p, line 1: expected what is granted: providers, destructive"},
		{"commas", "any syscall,profile", `/etc/p, line 1: "syscall,profile": a provider's name or a pattern of names, nothing else; blanks are between them`},
		{"description", "any syscall::read:", `/etc/p, line 1: "syscall::read:": a provider's name or a pattern of names, nothing else; blanks are between them`},
		{"too large a number", "user 4294967296 *", "/etc/p, line 1: no user 4294967296 in /etc/passwd: use the number of one that is kept elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parsePolicy(file, c.text)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.err {
				t.Errorf("got %q\nwant %q", got, c.err)
			}
		})
	}
}

// Names are those of /etc/passwd, where there is one.
func TestPolicyNames(t *testing.T) {
	accounts, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(accounts)) {
		f := strings.Split(line, ":")
		if len(f) < 3 || strings.HasPrefix(f[0], "#") {
			continue
		}
		p, err := parsePolicy("f", "user "+f[0]+" io")
		if err != nil {
			t.Fatal(err)
		}
		uid, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		if !p.allows(subject{uid: uid}, "io") || p.allows(subject{uid: uid + 1}, "io") {
			t.Errorf("user %s is not %d alone", f[0], uid)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add("user 1000 syscall\ngroup 5 pid* destructive # x\nany *\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePolicy("f", text)
		if err != nil {
			return
		}
		// Who is in no rule may do nothing.
		if !strings.Contains(text, "any") && p.allows(subject{uid: -1}, "syscall") {
			t.Errorf("%q lets everybody in", text)
		}
	})
}

const testPolicy = `
user 1000   syscall
group 50    pid* profile
group 51    destructive
any         io
`

func TestPolicyAllows(t *testing.T) {
	p, err := parsePolicy("f", testPolicy)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who         subject
		may, mayNot string
		destructive bool
	}{
		{subject{uid: 1000}, "syscall io dtrace", "profile fbt pid1", false},
		{subject{uid: 1001, groups: []int{50}}, "pid1 pid77 profile io", "syscall fbt uprobe", false},
		{subject{uid: 1000, groups: []int{1, 50, 51}}, "syscall pid1 io", "fbt", true},
		// A number is a user's or a group's, not either.
		{subject{uid: 50, groups: []int{1000}}, "io", "syscall pid1", false},
		{subject{uid: 2}, "io dtrace", "syscall", false},
	} {
		for _, name := range strings.Fields(c.may) {
			if !p.allows(c.who, name) {
				t.Errorf("%+v may not use %s", c.who, name)
			}
		}
		for _, name := range strings.Fields(c.mayNot) {
			if p.allows(c.who, name) {
				t.Errorf("%+v may use %s", c.who, name)
			}
		}
		if p.allowsDestructive(c.who) != c.destructive {
			t.Errorf("%+v: destructive %v", c.who, !c.destructive)
		}
	}
	only, err := parsePolicy("f", "user 5 destructive")
	if err != nil {
		t.Fatal(err)
	}
	if only.allows(subject{uid: 5}, "dtrace") {
		t.Error("who may use no provider may use dtrace")
	}
}

func TestFindGuard(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "policy")
	if err := os.WriteFile(file, []byte(testPolicy), 0o644); err != nil {
		t.Fatal(err)
	}
	if g, err := findGuard(subject{uid: 0}, true, file); g != nil || err != nil {
		t.Errorf("root: %v, %v; want no policy", g, err)
	}
	if g, err := findGuard(subject{uid: 1000}, false, ""); g != nil || err != nil {
		t.Errorf("rights of one's own: %v, %v; want no policy", g, err)
	}
	if g, err := findGuard(subject{uid: 1000}, false, file); g == nil || err != nil {
		t.Errorf("the option: %v, %v; want a policy", g, err)
	}
	if _, err := findGuard(subject{uid: 1000}, true, file); !errors.Is(err, ErrPrivilege) {
		t.Errorf("a user's own policy for rights of the file: %v; want ErrPrivilege", err)
	}
	if _, err := readPolicy(filepath.Join(dir, "none"), true); !errors.Is(err, ErrPrivilege) {
		t.Errorf("no policy: %v; want ErrPrivilege", err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := readPolicy(file, true); !errors.Is(err, ErrPrivilege) {
		t.Errorf("a policy that anybody can write: %v; want ErrPrivilege", err)
	}
}

// What a policy does not grant is refused when the program is to be enabled.
func TestPolicyExec(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	pid := strconv.Itoa(sleep.Process.Pid)
	p, err := parsePolicy("f", testPolicy)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who       subject
		src, what string
	}{
		{subject{uid: 1000}, "syscall::read:entry, BEGIN { @ = count(); }", ""},
		{subject{uid: 1000}, "tick-1s { exit(0); }", "provider profile"},
		{subject{uid: 1000, groups: []int{50}}, "tick-1s { exit(0); } syscall::read:entry {}", ""},
		{subject{uid: 1000}, "BEGIN { system(\"id\"); }", "destructive actions"},
		{subject{uid: 1000, groups: []int{51}}, "BEGIN { system(\"id\"); }", ""},
		// Nothing matches yet, but a library may come.
		{subject{uid: 1000}, "pid" + pid + ":nosuch.so:f:entry {}", "provider pid" + pid},
	} {
		s, err := Open()
		if err != nil {
			t.Fatal(err)
		}
		s.guard, s.guarded = &guard{p, c.who}, true
		if err := s.SetOption("zdefs", ""); err != nil {
			t.Fatal(err)
		}
		prog, err := s.Compile(c.src, CompileOptions{})
		if err != nil {
			t.Fatalf("%s: %v", c.src, err)
		}
		_, err = s.Exec(prog)
		what := ""
		if e, ok := errors.AsType[*PolicyError](err); ok {
			what = e.What
		} else if err != nil {
			t.Errorf("%s: %v", c.src, err)
		}
		if what != c.what {
			t.Errorf("%+v, %s: refused %q, want %q", c.who, c.src, what, c.what)
		}
		s.Close()
	}
}

// The command as another user, with rights of its file: under no policy it
// does nothing, and it is not root for anything.
func TestSetuid(t *testing.T) {
	testkernel.RequireRoot(t)
	dir, err := os.MkdirTemp("/tmp", "godtrace-setuid")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "godtrace")
	b, err := os.ReadFile(testkernel.Godtrace(t))
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret.d")
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.WriteFile(bin, b, 0o755), os.WriteFile(secret, []byte("BEGIN { exit(0); }"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		cmd := exec.Command(bin, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%v: no error; it printed %s", args, out)
		}
		return string(out)
	}
	// VFS_CAP_REVISION_2 with the effective bit: CAP_PERFMON and CAP_BPF (38, 39).
	caps := slices.Concat([]byte{1, 0, 0, 2}, make([]byte, 8), []byte{0xc0, 0, 0, 0}, make([]byte, 4))
	for name, grant := range map[string]func() error{
		"setuid": func() error { return os.Chmod(bin, 0o755|os.ModeSetuid) },
		"file capabilities": func() error {
			return errors.Join(os.Chmod(bin, 0o755), unix.Setxattr(bin, "security.capability", caps, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := grant(); err != nil {
				t.Fatal(err)
			}
			const want = "/etc/godtrace/policy" // it is not there, or does not grant this
			if out := run("-n", "BEGIN { exit(0); }"); !strings.Contains(out, want) {
				t.Errorf("it printed %q; want %q", out, want)
			}
			const own = "policyfile: only /etc/godtrace/policy counts"
			if out := run("-x", "policyfile="+secret, "-n", "BEGIN { exit(0); }"); !strings.Contains(out, own) {
				t.Errorf("it printed %q; want %q", out, own)
			}
			if out := run("-s", secret); !strings.Contains(out, "Permission denied") {
				t.Errorf("it printed %q; want that a file of root's is not to be read", out)
			}
		})
	}
}
