package godtrace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"godtrace/internal/check"
	"godtrace/internal/compile"
	"godtrace/internal/dif"
	"godtrace/internal/provider"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// ProbeSpec says how the probe description at the start of a program given as
// text is to be read: which part of it is the rightmost.
type ProbeSpec uint8

const (
	SpecName     ProbeSpec = iota // provider:module:function:name (-n)
	SpecFunc                      // provider:module:function (-f)
	SpecMod                       // provider:module (-m)
	SpecProvider                  // provider (-P)
	SpecID                        // a probe's number (-i)
	SpecNone                      // a script (-s)
)

// CompileOptions are the circumstances of one compilation.
type CompileOptions struct {
	Spec ProbeSpec
	// File is the script's name for positions and messages; "" for text from
	// the command line.
	File string
	// Args are the macro arguments: Args[0] is $0, Args[1] is $1 and so on.
	Args []string
}

// Program is a compiled D program. It becomes active through Session.Exec.
type Program struct {
	s       *Session
	checked *check.Program
	clauses []*dif.Clause
	script  bool // from a file: positions are lines of it
}

// A CompileError is an error in a D program.
type CompileError struct {
	Line int    // 0 where it has no place in the source
	Tag  string // D_…
	Msg  string
	Hint string // what to do; may be ""
	// File is set where the error is not in the program itself but in a
	// library or in a file that it includes.
	File string
	// Region is the part of a clause the error is in, "action list" or
	// "predicate"; "" elsewhere.
	Region string
	tags   bool
	script bool
}

// Error words it as dtrace(1) does: "line 3: …" in a script, "in action list: …"
// in text from the command line, with the tag first if the option errtags is set.
func (e *CompileError) Error() string {
	var b strings.Builder
	if e.tags && e.Tag != "" {
		fmt.Fprintf(&b, "[%s] ", e.Tag)
	}
	switch {
	case e.File != "":
		fmt.Fprintf(&b, "\"%s\", line %d: ", e.File, e.Line)
	case e.script && e.Line > 0:
		fmt.Fprintf(&b, "line %d: ", e.Line)
	case !e.script && e.Region != "":
		fmt.Fprintf(&b, "in %s: ", e.Region)
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Compile compiles D source text. The error is a *CompileError where the
// program is wrong.
func (s *Session) Compile(src string, o CompileOptions) (*Program, error) {
	for i, a := range o.Args {
		s.env.macros[strconv.Itoa(i)] = a
	}
	for i := len(o.Args); i < s.nargs; i++ {
		delete(s.env.macros, strconv.Itoa(i))
	}
	s.nargs = len(o.Args)
	s.source = o.File
	if s.opts.flag("cpp") {
		out, err := s.preprocess(src, o)
		if err != nil {
			return nil, err
		}
		src = out
	}
	file, err := syntax.Parse(o.File, []byte(src), syntax.Options{
		Spec:       syntaxSpec[o.Spec],
		Script:     o.Spec == SpecNone,
		AllowEmpty: s.opts.flag("empty"),
		PSpec:      s.opts.flag("pspec") || o.Spec != SpecNone,
		IsType:     s.check.IsType,
		Macros:     s.env.Macro,
	})
	if err != nil {
		return nil, s.compileError(err, o.File != "")
	}
	opts := s.checkOptions()
	if len(o.Args) > 1 {
		opts.Args = o.Args[1:]
	}
	s.check.SetOptions(opts)
	if err := s.loadLibraries(); err != nil {
		return nil, s.compileError(err, o.File != "")
	}
	s.followForks(file)
	checked, err := s.check.File(file)
	if err != nil {
		return nil, s.compileError(err, o.File != "")
	}
	if s.Source != nil {
		if err := syntax.Print(s.Source, file); err != nil {
			return nil, err
		}
	}
	p := &Program{s: s, checked: checked, script: o.File != ""}
	// Compiled here for its errors and for listings; Go compiles all programs
	// once more, when all options are known.
	comp := compile.New(s.compilerOptions())
	for _, c := range checked.Clauses {
		dc, err := comp.Clause(c)
		if err != nil {
			return nil, s.compileError(err, o.File != "")
		}
		p.clauses = append(p.clauses, dc)
		if s.Listing != nil {
			dif.Disassemble(s.Listing, comp.Object(), dc)
		}
	}
	if err := s.checkTuples(comp.Object()); err != nil {
		return nil, err
	}
	if err := s.dumpTypes(); err != nil {
		return nil, err
	}
	return p, nil
}

// checkTuples holds programs to the option tregs. Here a tuple takes memory, not
// registers, and without the option there is no limit.
func (s *Session) checkTuples(obj *dif.Object) error {
	most := s.opts.get("tregs")
	if most == Unset {
		return nil
	}
	widest := 0
	for _, f := range obj.Forms {
		widest = max(widest, len(f.Keys))
	}
	for _, v := range obj.Vars {
		widest = max(widest, len(v.Keys))
	}
	if int64(widest) > most {
		return errors.New("Insufficient tuple registers to generate code")
	}
	return nil
}

// dumpTypes writes types known so far to the files of the options ctypes and
// dtypes, in CTF.
func (s *Session) dumpTypes() error {
	ctypes, dtypes := s.check.Scopes()
	for option, scope := range map[string]*types.Scope{"ctypes": ctypes, "dtypes": dtypes} {
		name := s.OptionString(option)
		if name == "" {
			continue
		}
		var b bytes.Buffer
		if err := scope.WriteCTF(&b); err != nil {
			return err
		}
		if err := os.WriteFile(name, b.Bytes(), 0o666); err != nil {
			return fmt.Errorf("option %s: %w", option, err)
		}
	}
	return nil
}

var syntaxSpec = [...]syntax.Spec{
	SpecName: syntax.SpecName, SpecFunc: syntax.SpecFunc, SpecMod: syntax.SpecMod,
	SpecProvider: syntax.SpecProvider, SpecID: syntax.SpecID, SpecNone: syntax.SpecName,
}

// CompileFile compiles a script.
func (s *Session) CompileFile(name string, args []string) (*Program, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return s.Compile(string(src), CompileOptions{Spec: SpecNone, File: name, Args: args})
}

func (s *Session) compileError(err error, script bool) error {
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		file := e.Pos.File
		if file == s.source {
			file = ""
		}
		return &CompileError{File: file, Line: e.Pos.Line, Tag: e.Tag, Msg: e.Msg, Hint: s.providerHint(e),
			Region: e.Region, tags: s.opts.flag("errtags"), script: script}
	}
	return err
}

// checkOptions are the circumstances that the checker asks for.
func (s *Session) checkOptions() check.Options {
	return check.Options{
		Version:     s.OptionString("version"),
		AMin:        s.OptionString("amin"),
		ZDefs:       s.opts.flag("zdefs"),
		DefaultArgs: s.opts.flag("defaultargs"),
		ArgRef:      s.opts.flag("argref"),
		NoLibs:      s.opts.flag("nolibs"),
		KDefs:       s.opts.get("linkmode") == linkDynamic && !s.opts.flag("knodefs"),
		ILP32:       s.ILP32,
		Tree:        int(max(0, s.opts.get("tree"))),
		TreeOut:     os.Stderr,
		Library:     s.library,
		SetOption: func(name, value string) error {
			return s.opts.set(name, value, compileTime)
		},
		Int: func(name string) int64 {
			if name == "maxframes" {
				return int64(s.opts.maxFrames())
			}
			return s.opts.get(name)
		},
		HasProvider: func(name string) bool {
			return slices.ContainsFunc(s.env.providers, func(p provider.Provider) bool { return p.Name() == name })
		},
		HasModule: func(name string) bool {
			set, err := s.env.btf()
			if err != nil {
				return false
			}
			_, err = set.Module(name)
			return err == nil
		},
	}
}

func (s *Session) compilerOptions() compile.Options {
	return compile.Options{
		StrSize:       int(s.opts.get("strsize")),
		StackFrames:   int(s.opts.get("stackframes")),
		UStackFrames:  int(s.opts.get("ustackframes")),
		JStackFrames:  int(s.opts.get("jstackframes")),
		JStackStrSize: int(s.opts.get("jstackstrsize")),
	}
}

// Exec makes the program part of the session's enabling. matches is the number
// of probes its descriptions match, each counted once for each clause.
func (s *Session) Exec(p *Program) (matches int, err error) {
	if s.rt != nil {
		return 0, errors.New(msgBadOptCtx)
	}
	if err := s.applyPolicy(); err != nil {
		return 0, err
	}
	if err := s.guard.check(p); err != nil {
		return 0, err
	}
	s.programs = append(s.programs, p)
	for _, c := range p.checked.Clauses {
		matches += len(c.Probes)
	}
	return matches, nil
}
