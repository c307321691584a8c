package godtrace

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"godtrace/internal/probe"
)

// Where godtrace has rights that its user has not (it is setuid root, or its
// file has capabilities), a policy file says who may use what. doc/policy.md
// describes it.

// PolicyFile is where the policy is.
const PolicyFile = "/etc/godtrace/policy"

// policy is what a policy file says. Whatever no rule grants is refused.
type policy struct {
	file  string
	rules []policyRule
}

// policyRule grants something to a user, a group or everybody.
type policyRule struct {
	kind        string // "user", "group", "any"
	id          int
	providers   []string // patterns
	destructive bool
}

// A PolicyError says that a policy does not let the user do something.
type PolicyError struct {
	File string
	What string // "provider fbt", "destructive actions"
	Who  string
	May  []string // what the policy does grant
}

func (e *PolicyError) Error() string {
	may := "nothing"
	if len(e.May) > 0 {
		may = strings.Join(e.May, " ")
	}
	return fmt.Sprintf("%s: %s may not use %s; granted: %s", e.File, e.Who, e.What, may)
}

// Is makes it one of the errors about privileges.
func (e *PolicyError) Is(err error) bool { return err == ErrPrivilege }

// parsePolicy reads a policy: a line for each rule,
//
//	user NAME|UID    PATTERN…
//	group NAME|GID   PATTERN…
//	any              PATTERN…
//
// where a pattern means the providers it matches and the word destructive the
// actions that dtrace(1) wants -w for. # begins a comment. file is for messages.
func parsePolicy(file, text string) (*policy, error) {
	p := &policy{file: file}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		w := strings.Fields(line)
		if len(w) == 0 {
			continue
		}
		r, err := parsePolicyRule(w)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file, n, err)
		}
		p.rules = append(p.rules, r)
	}
	return p, nil
}

// parsePolicyRule reads the words of a line.
func parsePolicyRule(w []string) (policyRule, error) {
	r := policyRule{kind: w[0]}
	w = w[1:]
	switch r.kind {
	case "any":
	case "user", "group":
		if len(w) == 0 {
			return r, fmt.Errorf("%s: expected the name or number of one", r.kind)
		}
		var err error
		if r.id, err = accountID(r.kind, w[0]); err != nil {
			return r, err
		}
		w = w[1:]
	default:
		return r, fmt.Errorf("%q: expected user, group or any", r.kind)
	}
	if len(w) == 0 {
		return r, fmt.Errorf("expected what is granted: providers, destructive")
	}
	for _, what := range w {
		switch {
		case what == "destructive":
			r.destructive = true
		case strings.ContainsAny(what, ":,"):
			return r, fmt.Errorf("%q: a provider's name or a pattern of names, nothing else; blanks are between them", what)
		default:
			r.providers = append(r.providers, what)
		}
	}
	return r, nil
}

// accountID is the number of a user or group, by name or by number.
func accountID(kind, name string) (int, error) {
	if id, err := strconv.ParseUint(name, 10, 32); err == nil {
		return int(id), nil
	}
	var id string
	if kind == "user" {
		u, err := user.Lookup(name)
		if err != nil {
			return 0, fmt.Errorf("no user %s in /etc/passwd: use the number of one that is kept elsewhere", name)
		}
		id = u.Uid
	} else {
		g, err := user.LookupGroup(name)
		if err != nil {
			return 0, fmt.Errorf("no group %s in /etc/group: use the number of one that is kept elsewhere", name)
		}
		id = g.Gid
	}
	return strconv.Atoi(id)
}

// subject is whom a policy is applied to.
type subject struct {
	uid    int
	groups []int
}

// rules that are about the subject.
func (p *policy) rulesFor(who subject) []policyRule {
	var out []policyRule
	for _, r := range p.rules {
		if r.kind == "any" || r.kind == "user" && r.id == who.uid || r.kind == "group" && slices.Contains(who.groups, r.id) {
			out = append(out, r)
		}
	}
	return out
}

// allows reports whether the subject may use a provider. The provider dtrace
// comes with any other.
func (p *policy) allows(who subject, provider string) bool {
	for _, r := range p.rulesFor(who) {
		if provider == "dtrace" && len(r.providers) > 0 {
			return true
		}
		if slices.ContainsFunc(r.providers, func(pat string) bool { return probe.Glob(pat, provider) }) {
			return true
		}
	}
	return false
}

func (p *policy) allowsDestructive(who subject) bool {
	return slices.ContainsFunc(p.rulesFor(who), func(r policyRule) bool { return r.destructive })
}

// refuse makes the error for what is not allowed.
func (p *policy) refuse(who subject, what string) error {
	e := &PolicyError{File: p.file, What: what, Who: "user " + strconv.Itoa(who.uid)}
	if u, err := user.LookupId(strconv.Itoa(who.uid)); err == nil {
		e.Who = "user " + u.Username
	}
	for _, r := range p.rulesFor(who) {
		e.May = append(e.May, r.providers...)
		if r.destructive {
			e.May = append(e.May, "destructive")
		}
	}
	return e
}

// guard is a policy and whom it is applied to.
type guard struct {
	policy *policy
	who    subject
}

// check reports what of a program the policy does not allow.
func (g *guard) check(p *Program) error {
	if g == nil {
		return nil
	}
	for _, c := range p.checked.Clauses {
		for _, pr := range c.Probes {
			if name := pr.Desc.Provider; !g.policy.allows(g.who, name) {
				return g.policy.refuse(g.who, "provider "+name)
			}
		}
		// Probes may come up later: of a process that loads a library.
		if d := c.Desc; d != nil && d.ID == 0 && d.Provider != "" && !probe.IsGlob(d.Provider) && !g.policy.allows(g.who, d.Provider) {
			return g.policy.refuse(g.who, "provider "+d.Provider)
		}
	}
	for _, c := range p.clauses {
		if c.Destructive && !g.policy.allowsDestructive(g.who) {
			return g.policy.refuse(g.who, "destructive actions")
		}
	}
	return nil
}

// checkGrab reports whether the subject may look into a process that runs:
// into its own, and into others with the provider pid or go.
func (g *guard) checkGrab(pid int) error {
	if g == nil {
		return nil
	}
	st, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return nil // it is gone, which is for Grab to say
	}
	owner := int(st.Sys().(*syscall.Stat_t).Uid)
	name := "pid" + strconv.Itoa(pid)
	if owner != g.who.uid && !g.policy.allows(g.who, name) && !g.policy.allows(g.who, "go"+strconv.Itoa(pid)) {
		return g.policy.refuse(g.who, "provider "+name+" on a process of another user")
	}
	return nil
}

// filePrivileged reports whether this process got rights through its file that
// its user does not have: the kernel's AT_SECURE.
func filePrivileged() (bool, error) {
	const atSecure = 23
	aux, err := unix.Auxv()
	if err != nil {
		return false, fmt.Errorf("auxiliary vector: %w", err)
	}
	for _, a := range aux {
		if a[0] == atSecure {
			return a[1] != 0, nil
		}
	}
	return false, errors.New("auxiliary vector: no AT_SECURE")
}

// invoker is the user who started this process.
func invoker() (subject, error) {
	gs, err := os.Getgroups()
	return subject{os.Getuid(), append(gs, os.Getgid())}, err
}

// applyPolicy finds the policy that this session is under, once. Root is under
// none. Who got rights through godtrace's file is under PolicyFile, whatever
// the option policyfile says; others with rights are under the one the option
// names, if any.
func (s *Session) applyPolicy() error {
	if s.guarded {
		return nil
	}
	who, err := invoker()
	if err != nil {
		return err
	}
	secure, err := filePrivileged()
	if err != nil {
		return err
	}
	if s.guard, err = findGuard(who, secure, s.OptionString("policyfile")); err != nil {
		return err
	}
	s.guarded = true
	return nil
}

func findGuard(who subject, secure bool, option string) (*guard, error) {
	file := option
	switch {
	case who.uid == 0:
		return nil, nil
	case secure && option != "" && option != PolicyFile:
		return nil, fmt.Errorf("policyfile: only %s counts where godtrace has rights of its own: %w", PolicyFile, ErrPrivilege)
	case secure:
		file = PolicyFile
	case option == "":
		return nil, nil
	}
	p, err := readPolicy(file, secure)
	if err != nil {
		return nil, err
	}
	return &guard{p, who}, nil
}

// readPolicy reads a policy file. One that counts must be root's alone to write.
func readPolicy(file string, secure bool) (*policy, error) {
	f, err := os.Open(file)
	if secure && errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: it says who may trace with the rights that godtrace's file has: %w", file, ErrPrivilege)
	}
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if sys := st.Sys().(*syscall.Stat_t); secure && (sys.Uid != 0 || st.Mode().Perm()&0o022 != 0) {
		return nil, fmt.Errorf("%s: must belong to root and be writable by nobody else: %w", file, ErrPrivilege)
	}
	const limit = 1 << 20
	if st.Size() > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes", file, limit)
	}
	b := make([]byte, st.Size())
	n, err := f.ReadAt(b, 0)
	if err != nil && n < len(b) {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return parsePolicy(file, string(b[:n]))
}

// DropSetuid gives up being root where that comes of the file being setuid:
// the user's own identity with the capabilities that tracing needs is left, as
// if the file had those. A command calls it first of all, so that it reads,
// writes and runs nothing as root; it has no effect otherwise.
func DropSetuid() error {
	uid := os.Getuid()
	if uid == 0 || os.Geteuid() != 0 {
		return nil
	}
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); e == unix.ENOTSUP {
		return errors.New("giving up root: the Go runtime cannot in a program built with cgo; build it with CGO_ENABLED=0")
	} else if e != 0 {
		return fmt.Errorf("giving up root: keep capabilities: %w", e)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("giving up root: %w", err)
	}
	var want uint64
	for _, c := range capabilities {
		want |= 1 << c.bit
	}
	return keepCapabilities(want)
}
