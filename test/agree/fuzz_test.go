//go:build amd64

package agree_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"godtrace/internal/compile"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
	"godtrace/test/meaning"
)

// What GODTRACE_FUZZ sets: how many random programs are run (200 without it, fewer in a guest),
// GODTRACE_SEED from which number on, and GODTRACE_KEEP the folder for the last
// program that disagreed and its two outputs.
const (
	fuzzEnv = "GODTRACE_FUZZ"
	seedEnv = "GODTRACE_SEED"
	keepEnv = "GODTRACE_KEEP"
)

func fromEnv(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// perLoad is how many random programs are loaded together.
const perLoad = 20

// TestRandomPrograms runs random well-typed programs on both engines, several
// in one load. Whatever type-checks must load and agree.
func TestRandomPrograms(t *testing.T) {
	testkernel.RequireRoot(t)
	usual := 200
	_, vm := testkernel.InVM()
	if vm {
		usual = perLoad
	}
	total, seed := fromEnv(fuzzEnv, usual), fromEnv(seedEnv, 0)
	start, bad := time.Now(), 0
	for n := seed; n < seed+total; n += perLoad {
		var units []*unit
		for k := n; k < min(n+perLoad, seed+total); k++ {
			r := rand.New(rand.NewPCG(uint64(k), 1))
			units = append(units, newUnit(r, fmt.Sprintf("u%d", k)))
		}
		strsize := []int{256, 64, 32}[n/perLoad%3]
		msg := try(units, strsize)
		if msg == "" {
			continue
		}
		found := false
		for k, u := range units {
			msg := try([]*unit{u}, strsize)
			if msg == "" {
				continue
			}
			found = true
			bad++
			if !vm { // it takes hundreds of loads
				u = shrink(u, kindOf(msg), strsize)
			}
			again := try([]*unit{u}, strsize)
			if again == "" {
				again = "not every time: " + msg
			}
			t.Errorf("program %d (strsize %d): %s\n%s", n+k, strsize, again, u)
		}
		if !found {
			bad++
			t.Errorf("programs %d to %d disagree only when they are loaded together (strsize %d): %s", n, n+len(units)-1, strsize, msg)
		}
		if bad >= 10 {
			t.Fatalf("stopped after program %d", n+len(units)-1)
		}
	}
	t.Logf("%d programs in %v", total, time.Since(start).Round(time.Millisecond))
}

// try compiles and runs units on both engines. It gives what is wrong; "" if
// nothing is.
func try(units []*unit, strsize int) (msg string) {
	defer func() {
		if r := recover(); r != nil {
			msg = fmt.Sprintf("panic: %v", r)
		}
	}()
	env := meaning.NewEnv()
	var src strings.Builder
	src.WriteString(commonDecls)
	if strsize == 64 {
		src.WriteString("ERROR { printf(\"error %d %d\\n\", arg1, arg4); errors++; }\nEND { printf(\"errors %d\\n\", errors); }\n")
	}
	for _, u := range units {
		env.AddProbe(probe.Desc{Provider: "fuzz", Name: u.name})
		src.WriteString(u.String())
	}
	p, err := meaning.Compile(src.String(), env, compile.Options{StrSize: strsize})
	if err != nil {
		return "compile: " + err.Error()
	}
	want, err := interpret(p, 2, true)
	if err != nil {
		return "interpreter: " + err.Error()
	}
	got, err := execute(p, 2, true)
	if err != nil {
		return "load: " + err.Error() + logTail(err)
	}
	if got.drops != "" {
		return "drops: " + got.drops
	}
	if d := firstDiff(got.output, want.output); d != "" {
		keep(src.String(), got, want)
		return "output: " + d
	}
	if d := firstDiff(got.faults, want.faults); d != "" {
		return "faults: " + d
	}
	return ""
}

// keep writes a program that disagreed, and its outputs.
func keep(src string, got, want *result) {
	dir := os.Getenv(keepEnv)
	if dir == "" || got.output == want.output {
		return
	}
	for name, text := range map[string]string{"program.d": src, "ebpf.out": got.output, "interpreter.out": want.output} {
		os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666)
	}
}

// kindOf is what stays the same of a failure while its program shrinks.
func kindOf(msg string) string {
	kind, _, _ := strings.Cut(msg, ":")
	return kind
}

// shrink makes the unit smaller as long as it fails in the same way.
func shrink(u *unit, kind string, strsize int) *unit {
	runs := 0
	fails := func() bool {
		runs++
		return runs < 600 && kindOf(try([]*unit{u}, strsize)) == kind
	}
	for changed := true; changed && runs < 600; {
		changed = false
		for i := len(u.clauses) - 1; i >= 0; i-- {
			old := u.clauses
			u.clauses = append(append([]*clause{}, old[:i]...), old[i+1:]...)
			if len(u.clauses) > 0 && fails() {
				changed = true
				continue
			}
			u.clauses = old
			c := u.clauses[i]
			if pred := c.pred; pred != nil {
				c.pred = nil
				if fails() {
					changed = true
				} else {
					c.pred = pred
				}
			}
			changed = shrinkBody(&c.body, fails) || changed
			if c.pred != nil {
				changed = shrinkNode(&c.pred, fails) || changed
			}
		}
		for i := len(u.decls) - 1; i >= 0; i-- {
			old := u.decls
			u.decls = append(append([]string{}, old[:i]...), old[i+1:]...)
			if fails() {
				changed = true
			} else {
				u.decls = old
			}
		}
	}
	return u
}

func shrinkBody(body *[]*stmt, fails func() bool) (changed bool) {
	for i := len(*body) - 1; i >= 0; i-- {
		old := *body
		s := old[i]
		*body = append(append([]*stmt{}, old[:i]...), old[i+1:]...)
		if fails() {
			changed = true
			continue
		}
		if s.isIf {
			*body = append(append(append([]*stmt{}, old[:i]...), s.then...), old[i+1:]...)
			if fails() {
				changed = true
				continue
			}
		}
		*body = old
		if s.isIf {
			changed = shrinkBody(&s.then, fails) || changed
			changed = shrinkBody(&s.alt, fails) || changed
		}
		changed = shrinkNode(&s.x, fails) || changed
	}
	return changed
}

// shrinkNode replaces nodes by one of their kids, or by a constant.
func shrinkNode(n **node, fails func() bool) (changed bool) {
	old := *n
	var tries []*node
	if old.typ != 'x' && len(old.kids) > 0 {
		tries = append(tries, leaf(old.typ, map[byte]string{'i': "1", 's': `"a"`}[old.typ]))
		for _, k := range old.kids {
			if k.typ == old.typ {
				tries = append(tries, k)
			}
		}
	}
	for _, x := range tries {
		*n = x
		if fails() {
			return true
		}
	}
	*n = old
	for i := range old.kids {
		changed = shrinkNode(&old.kids[i], fails) || changed
	}
	return changed
}

// FuzzPrograms is TestRandomPrograms driven by the fuzzer of Go: the seed of
// the generator is its input.
func FuzzPrograms(f *testing.F) {
	testkernel.RequireRoot(f)
	for seed := range uint64(5) {
		f.Add(seed, uint8(64))
	}
	f.Fuzz(func(t *testing.T, seed uint64, strsize uint8) {
		u := newUnit(rand.New(rand.NewPCG(seed, 2)), "u")
		size := max(int(strsize), 16)
		if msg := try([]*unit{u}, size); msg != "" {
			u = shrink(u, kindOf(msg), size)
			t.Errorf("%s\n%s", msg, u)
		}
	})
}
