// Package guides runs the programs that DTrace's public guides are made of:
// each construct that a chapter teaches, as a user would type it, in words of
// our own where the guide's are long. Every program must compile; those whose
// providers exist run over a load, and their output must make sense.
//
// A program is a file of a txtar archive, one archive a guide. A name that
// ends in .d is a script, another the text of -n. Lines that begin with ## are
// not D:
//
//	## chapter: TITLE         where the guide teaches it
//	## flags: -q …            options beside -s or -n, words of a shell
//	## args: 1 two            macro arguments
//	## load: KIND             runs over "-c 'sh load.sh KIND'"
//	## run: COMMAND           runs over -c COMMAND; $TRIGGER is the folder of test/trigger's programs
//	## want: REGEXP           lines of the output that there must be
//	## error: REGEXP          what standard error must have
//	## status: N              of the command, 0 if not given
//	## refused: REGEXP        does not compile: what standard error must say
//	## later: PROVIDER        belongs to a provider that is still to come: the program is refused, naming it
//	## needs: WORD            runs on kernels that have such probes, or such a feature; refused, naming it, on others
package guides

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"godtrace/internal/testkernel"
)

//go:embed *.txtar load.sh
var files embed.FS

// limit ends a program that hangs.
const limit = 2 * time.Minute

type program struct {
	name   string
	text   string
	script bool
	keys   map[string][]string
}

func (p *program) key(name string) string {
	if v := p.keys[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

var keys = regexp.MustCompile(`^## (chapter|flags|args|load|run|want|error|status|refused|later|needs): (.*)\n$`)

// programs reads an archive.
func programs(t *testing.T, archive string) []*program {
	t.Helper()
	text, err := files.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	var out []*program
	for _, f := range txtar.Parse(text).Files {
		p := &program{name: f.Name, script: strings.HasSuffix(f.Name, ".d"), keys: map[string][]string{}}
		for line := range strings.Lines(string(f.Data)) {
			if !strings.HasPrefix(line, "##") {
				p.text += line
				continue
			}
			m := keys.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("%s: %s: what is %q?", archive, f.Name, line)
			}
			p.keys[m[1]] = append(p.keys[m[1]], m[2])
		}
		if !p.script {
			p.text = strings.TrimSpace(p.text)
		}
		if p.key("chapter") == "" {
			t.Errorf("%s: %s: no chapter", archive, f.Name)
		}
		if p.key("later")+p.key("refused") == "" && p.key("want")+p.key("error") == "" {
			t.Errorf("%s: %s: nothing is wanted of it", archive, f.Name)
		}
		out = append(out, p)
	}
	return out
}

func TestGuides(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.Shows(t, "1.9")
	r := &runner{command: testkernel.Godtrace(t), triggers: filepath.Dir(testkernel.Trigger(t, "syscalls")), dir: t.TempDir()}
	testkernel.Trigger(t, "calls")
	load, err := files.ReadFile("load.sh")
	if err != nil {
		t.Fatal(err)
	}
	r.load = filepath.Join(r.dir, "load.sh")
	if err := os.WriteFile(r.load, load, 0o666); err != nil {
		t.Fatal(err)
	}
	archives, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	later := 0
	for _, a := range archives {
		guide, ok := strings.CutSuffix(a.Name(), ".txtar")
		if !ok {
			continue
		}
		for _, p := range programs(t, a.Name()) {
			if p.key("later") != "" {
				later++
			}
			t.Run(guide+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				r.check(t, p)
			})
		}
	}
	t.Logf("%d programs wait for providers that are still to come", later)
}

// runner runs programs with the command.
type runner struct{ command, triggers, load, dir string }

// dtrace runs the command on a program, with more options before it.
func (r *runner) dtrace(t *testing.T, p *program, options ...string) (stdout, stderr string, status int) {
	t.Helper()
	args := append(append([]string{"-x", "errtags"}, r.words(p.key("flags"))...), options...)
	if p.script {
		file := filepath.Join(t.TempDir(), p.name)
		if err := os.WriteFile(file, []byte(p.text), 0o777); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-s", file)
	} else {
		args = append(args, "-n", p.text)
	}
	args = append(args, r.words(p.key("args"))...)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, r.command, args...)
	c.Dir = r.dir
	c.Env = append(os.Environ(), "LC_ALL=C", "LANGUAGE=", "TMPDIR="+r.dir)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("does not end; so far:\n%s\n%s", out.String(), errs.String())
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

func (r *runner) check(t *testing.T, p *program) {
	var over []string
	switch {
	case p.key("load") != "":
		over = []string{"-c", "/bin/sh " + r.load + " " + p.key("load")}
	case p.key("run") != "":
		over = []string{"-c", strings.ReplaceAll(p.key("run"), "$TRIGGER", r.triggers)}
	}
	compile := []string{"-e"}
	if strings.Contains(p.text, "$target") {
		compile = append(compile, over...)
	}
	_, stderr, status := r.dtrace(t, p, compile...)
	refused := p.key("refused")
	if l := p.key("later"); l != "" {
		refused = `\[D_PDESC_ZERO\].* probe description ` + regexp.QuoteMeta(l) + `\S*:.* does not match any probes`
		if l != "myserv" && l != "stapsdt" { // names of programs
			refused += `\ndtrace: hint: the provider \w+ is still to come; near to it: \w+`
		}
	}
	lacks := func(stderr string) bool {
		n := p.key("needs")
		if n == "" || !regexp.MustCompile(`probe description `+regexp.QuoteMeta(n)+`.* does not match|this kernel has no (`+n+`|tracing of kernel functions|kprobes)`).MatchString(stderr) {
			return false
		}
		t.Logf("this kernel has not what it needs: %s", strings.TrimSpace(stderr))
		return true
	}
	switch {
	case refused == "" && status == 1 && lacks(stderr):
		return
	case refused != "":
		if status != 1 || !regexp.MustCompile(`(?m)`+refused).MatchString(stderr) {
			t.Errorf("status %d, want 1 and %q in\n%s", status, refused, stderr)
		}
		return
	case status != 0:
		t.Fatalf("-e: status %d\n%s", status, stderr)
	}
	want := 0
	if s := p.key("status"); s != "" {
		want, _ = strconv.Atoi(s)
	}
	stdout, stderr, status := r.dtrace(t, p, over...)
	if status == 1 && lacks(stderr) {
		return
	}
	if status != want {
		t.Errorf("status %d, want %d", status, want)
	}
	for _, w := range p.keys["want"] {
		if !regexp.MustCompile(`(?m)` + w).MatchString(stdout) {
			t.Errorf("no %q in the output", w)
		}
	}
	for _, w := range p.keys["error"] {
		if !regexp.MustCompile(`(?m)` + w).MatchString(stderr) {
			t.Errorf("no %q in the messages", w)
		}
	}
	if len(p.keys["error"]) == 0 && strings.Contains(stderr, "dtrace: error ") {
		t.Error("a fault")
	}
	if t.Failed() {
		t.Logf("%s\n%s\n%s", p.text, stdout, stderr)
	}
}

// words splits at blanks; single quotes keep words together.
func (r *runner) words(s string) []string {
	var out []string
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

// Keys are read, and what is none is D.
func TestReadPrograms(t *testing.T) {
	archives, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, a := range archives {
		if strings.HasSuffix(a.Name(), ".txtar") {
			seen := map[string]bool{}
			for _, p := range programs(t, a.Name()) {
				if seen[p.name] {
					t.Errorf("%s: two programs %s", a.Name(), p.name)
				}
				seen[p.name] = true
				n++
			}
		}
	}
	t.Logf("%d programs", n)
}
