package meaning

import (
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"godtrace/internal/compile"
	"godtrace/internal/dif"
)

// A Test is one entry of a table:
//
//	=== SUBJECT: what is tested
//	from: the manual the expected output is from, or "C" with a section c
//	options: strsize=16 noquiet …
//	machine: synthetic
//	--- program
//	BEGIN { … }
//	--- firings
//	read:entry arg0=3 execname="cat" progenyof=1 uregs[3]=7
//	--- user 0x1000
//	"hello\0" 00ff
//	--- output
//	…
//	--- errors
//	line 3: divide-by-zero
//	--- acts
//	raise(9)
//	--- c
//	printf("%d\n", 1 + 1);
//
// The subject is a built-in variable, a subroutine, an action, an aggregating
// function, "operator +", or any other words. Without firings BEGIN fires, then
// END. "machine: synthetic" marks programs whose output depends on the firing's
// surroundings. Section c is the body of a C function that prints the output.
type Test struct {
	Subject, What string
	Where         string // file:line
	From          string
	Options       compile.Options
	Quiet         bool
	Synthetic     bool
	Program       string
	Firings       []string
	User, Kernel  Memory
	Output        string
	Errors        string
	Acts          string
	C             string
}

// Name is the test's name.
func (t *Test) Name() string {
	if t.What == "" {
		return t.Subject
	}
	return t.Subject + ": " + t.What
}

//go:embed testdata/*.test
var testdata embed.FS

// Load reads all tables, in the order of their names.
func Load() ([]*Test, error) {
	files, err := fs.Glob(testdata, "testdata/*.test")
	if err != nil {
		return nil, err
	}
	var all []*Test
	for _, f := range files {
		b, err := testdata.ReadFile(f)
		if err != nil {
			return nil, err
		}
		ts, err := Parse(f, string(b))
		if err != nil {
			return nil, err
		}
		all = append(all, ts...)
	}
	return all, nil
}

// Parse reads a table.
func Parse(name, text string) ([]*Test, error) {
	var all []*Test
	var t *Test
	section := ""
	var body strings.Builder
	bad := func(n int, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", filepath.Base(name), n, fmt.Sprintf(format, args...))
	}
	end := func() error {
		if t == nil || section == "" {
			return nil
		}
		s := body.String()
		body = strings.Builder{}
		kind, arg, _ := strings.Cut(section, " ")
		switch kind {
		case "program":
			t.Program = s
		case "firings":
			for line := range strings.Lines(s) {
				if line = strings.TrimSpace(line); line != "" {
					t.Firings = append(t.Firings, line)
				}
			}
		case "user", "kernel":
			addr, err := strconv.ParseUint(arg, 0, 64)
			if err != nil {
				return err
			}
			m, err := memory(s)
			if err != nil {
				return err
			}
			if kind == "user" {
				t.User[addr] = m
			} else {
				t.Kernel[addr] = m
			}
		case "output":
			t.Output = s
		case "errors":
			t.Errors = s
		case "acts":
			t.Acts = s
		case "c":
			t.C = s
		default:
			return fmt.Errorf("no section %q", section)
		}
		return nil
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		switch {
		case strings.HasPrefix(line, "=== "):
			if err := end(); err != nil {
				return nil, bad(n, "%v", err)
			}
			section = ""
			subject, what, _ := strings.Cut(strings.TrimSpace(line[4:]), ": ")
			t = &Test{Subject: subject, What: what, Quiet: true, User: Memory{}, Kernel: Memory{},
				Where: fmt.Sprintf("%s:%d", filepath.Base(name), n)}
			all = append(all, t)
		case t == nil:
			if s := strings.TrimSpace(line); s != "" && s[0] != '#' {
				return nil, bad(n, "text before the first test")
			}
		case strings.HasPrefix(line, "--- "):
			if err := end(); err != nil {
				return nil, bad(n, "%v", err)
			}
			section = strings.TrimSpace(line[4:])
		case section != "":
			body.WriteString(line)
		case strings.TrimSpace(line) == "" || line[0] == '#':
		default:
			key, val, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch key {
			case "from":
				t.From = val
			case "machine":
				t.Synthetic = val == "synthetic"
			case "options":
				for _, o := range strings.Fields(val) {
					o, v, _ := strings.Cut(o, "=")
					k, _ := strconv.Atoi(v)
					switch o {
					case "noquiet":
						t.Quiet = false
					case "strsize":
						t.Options.StrSize = k
					default:
						return nil, bad(n, "no option %q", o)
					}
				}
			default:
				return nil, bad(n, "no field %q", key)
			}
		}
	}
	if err := end(); err != nil {
		return nil, bad(n, "%v", err)
	}
	for _, t := range all {
		t.Synthetic = t.Synthetic || len(t.Firings) > 0 || len(t.User) > 0 || len(t.Kernel) > 0 || t.Acts != ""
	}
	return all, nil
}

// memory reads quoted strings, where \0 is a NUL, and hexadecimal bytes.
func memory(s string) ([]byte, error) {
	s = strings.ReplaceAll(s, `\0`, `\x00`)
	var out []byte
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if s[0] == '"' {
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, err
			}
			v, err := strconv.Unquote(q)
			if err != nil {
				return nil, err
			}
			out = append(out, v...)
			s = s[len(q):]
			continue
		}
		w := strings.Fields(s)[0]
		b, err := hex.DecodeString(w)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
		s = s[len(w):]
	}
	return out, nil
}

// Result is what a program did.
type Result struct {
	Output string
	Faults string // one a line
	Acts   string
}

// Run compiles the test's program and fires it on the interpreter.
func (t *Test) Run() (*Result, error) {
	p, err := Compile(t.Program, NewEnv(), t.Options)
	if err != nil {
		return nil, err
	}
	w := &World{User: t.User, Kernel: t.Kernel}
	x := Interpret(p, w, t.Quiet)
	firings := t.Firings
	if firings == nil {
		firings = []string{"BEGIN", "END"}
	}
	for n, f := range firings {
		words, err := fields(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if err := w.set(words[1:], n); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		i := p.Find(ParseDesc(words[0]))
		if i < 0 {
			if t.Firings != nil {
				return nil, fmt.Errorf("%s: not enabled", words[0])
			}
			continue
		}
		if err := x.Fire(i); err != nil {
			return nil, err
		}
	}
	r := new(Result)
	if r.Output, err = x.End(); err != nil {
		return nil, err
	}
	r.Faults = lines(x.Faults)
	r.Acts = lines(w.Acts)
	return r, nil
}

func lines(list []string) string {
	s := ""
	for _, l := range list {
		s += l + "\n"
	}
	return s
}

// fields splits at blanks outside of quotes.
func fields(s string) ([]string, error) {
	var out []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		i := strings.IndexAny(s, " \t\"")
		switch {
		case i < 0:
			return append(out, s), nil
		case s[i] == '"':
			q, err := strconv.QuotedPrefix(s[i:])
			if err != nil {
				return nil, err
			}
			i += len(q)
		}
		out = append(out, s[:i])
		s = s[i:]
	}
	return out, nil
}

// set makes the surroundings of firing n: what the words say, defaults for the rest.
func (w *World) set(words []string, n int) error {
	w.Args, w.Uregs, w.Regs, w.KSyms = make([]int64, 10), map[int64]int64{}, map[int64]int64{}, map[string]uint64{}
	w.Stacks = [2][]uint64{}
	w.Subrs = map[dif.Subr]Answer{}
	w.Num = map[dif.BuiltinID]int64{
		dif.BPid: 100, dif.BTid: 100, dif.BPpid: 1, dif.BUid: 1000, dif.BGid: 2000,
		dif.BTimestamp: int64(n+1) * 1000, dif.BVTimestamp: int64(n+1) * 100, dif.BWallTimestamp: int64(n+1) * 1e9,
	}
	w.Str = map[dif.BuiltinID]string{dif.BExecname: "test"}
	for _, word := range words {
		key, val, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("%s is no setting", word)
		}
		name, index, isIndexed := strings.Cut(strings.TrimSuffix(key, "]"), "[")
		str, num := "", int64(0)
		var list []uint64
		if val[0] == '"' {
			s, err := strconv.Unquote(val)
			if err != nil {
				return err
			}
			str = s
		} else {
			for _, v := range strings.Split(val, ",") {
				u, err := strconv.ParseUint(v, 0, 64)
				if err != nil {
					i, err := strconv.ParseInt(v, 0, 64)
					if err != nil {
						return err
					}
					u = uint64(i)
				}
				list = append(list, u)
			}
			num = int64(list[0])
		}
		if isIndexed {
			k, err := strconv.ParseInt(index, 0, 64)
			if err != nil {
				return err
			}
			switch name {
			case "uregs":
				w.Uregs[k] = num
			case "regs":
				w.Regs[k] = num
			default:
				return fmt.Errorf("%s has no index", name)
			}
			continue
		}
		if d, ok := strings.CutPrefix(name, "arg"); ok {
			if k, err := strconv.Atoi(d); err == nil && k < len(w.Args) {
				w.Args[k] = num
				continue
			}
		}
		switch name {
		case "stack":
			w.Stacks[dif.SpaceKernel] = list
			continue
		case "ustack":
			w.Stacks[dif.SpaceUser] = list
			continue
		}
		if s, ok := strings.CutPrefix(name, "`"); ok {
			w.KSyms[s] = uint64(num)
			continue
		}
		if s := dif.LookupSubr(name); s != dif.SNone {
			w.Subrs[s] = Answer{num, str}
			continue
		}
		id, ok := builtinByName(name)
		if !ok {
			return fmt.Errorf("%s is no built-in variable", name)
		}
		if str != "" || val[0] == '"' {
			w.Str[id] = str
		} else {
			w.Num[id] = num
		}
	}
	return nil
}

func builtinByName(name string) (dif.BuiltinID, bool) {
	if name == "jailname" {
		name = "zonename"
	}
	for id := dif.BNone + 1; id < dif.NumBuiltins; id++ {
		if id.String() == name {
			return id, true
		}
	}
	return 0, false
}
