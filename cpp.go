package godtrace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"godtrace/internal/cpp"
)

// preprocess runs the preprocessor over a program: the built-in one, or that
// of the option cpppath.
func (s *Session) preprocess(src string, o CompileOptions) (string, error) {
	// "#!" is not the preprocessor's, but its line counts.
	if strings.HasPrefix(src, "#!") {
		if i := strings.IndexByte(src, '\n'); i >= 0 {
			src = src[i:]
		} else {
			src = ""
		}
	}
	if path := s.OptionString("cpppath"); path != "" {
		return s.runCPP(path, src, o)
	}
	opts := cpp.Options{Include: s.opts.str["incdir"], Conform: 'a', ILP32: s.ILP32, Version: dVersion}
	if m := s.OptionString("stdc"); m != "" {
		opts.Conform = m[0]
	}
	opts.Defs = append(opts.Defs, cpp.Def{Text: "__GODTRACE"}, cpp.Def{Text: unameMacro()})
	for _, d := range s.opts.str["define"] {
		opts.Defs = append(opts.Defs, cpp.Def{Text: d})
	}
	for _, d := range s.opts.str["undef"] {
		opts.Defs = append(opts.Defs, cpp.Def{Text: d, Undef: true})
	}
	if s.opts.flag("cpphdrs") {
		opts.Included = func(depth int, path string) {
			fmt.Fprintf(os.Stderr, "%s %s\n", strings.Repeat(".", depth), path)
		}
	}
	opts.Warn = func(e *cpp.Error) { fmt.Fprintln(os.Stderr, e) }
	out, err := cpp.Process(o.File, []byte(src), opts)
	if e, ok := errors.AsType[*cpp.Error](err); ok {
		return "", cppError(e, o.File)
	}
	return string(out), err
}

// cppError says on standard error what a preprocessor run by dtrace(1) would,
// and returns what dtrace(1) says then. The preprocessor reads the program
// itself from its standard input.
func cppError(e *cpp.Error, program string) error {
	for _, e := range append([]*cpp.Error{e}, e.More...) {
		file, severity, end := e.File, "error", ""
		if file == program {
			file = "/dev/stdin"
		}
		if strings.HasSuffix(e.Msg, ": No such file or directory") {
			severity, end = "fatal error", "compilation terminated.\n"
		}
		fmt.Fprintf(os.Stderr, "%s:%d: %s: %s\n%s", file, e.Line, severity, e.Msg, end)
	}
	return errPreprocessor
}

var errPreprocessor = errors.New("Preprocessor failed to process input program")

// dVersion is D's version as programs see it: major<<24 | minor<<12 | micro.
const dVersion = 2 << 24

// dNewest is the version of the newest names, for the option version.
const dNewest = 2<<24 | 4

// unameMacro is the name of the running system as a macro:
// __Linux_6_12_0_amd64.
func unameMacro() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "__Linux"
	}
	name := unix.ByteSliceToString(u.Sysname[:]) + "_" + unix.ByteSliceToString(u.Release[:])
	return "__" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// runCPP runs a preprocessor of the system.
func (s *Session) runCPP(path, src string, o CompileOptions) (string, error) {
	var args []string
	for _, d := range []string{
		"__unix", "__linux", "__SVR4", "__GODTRACE", "__SUNW_D", fmt.Sprintf("__SUNW_D_VERSION=0x%08x", dVersion), unameMacro(),
	} {
		args = append(args, "-D"+d)
	}
	for _, o := range [][2]string{{"-D", "define"}, {"-U", "undef"}, {"-I", "incdir"}} {
		for _, v := range s.opts.str[o[1]] {
			args = append(args, o[0]+v)
		}
	}
	if o.File != "" && o.File != "-" {
		args = append(args, "-I"+filepath.Dir(o.File))
	}
	if s.opts.flag("cpphdrs") {
		args = append(args, "-H")
	}
	args = append(args, strings.Fields(strings.Join(s.opts.str["cppargs"], " "))...)
	cmd := exec.Command(path, append(args, "-")...)
	cmd.Args[0] = filepath.Base(path)
	cmd.Stdin = strings.NewReader(src)
	cmd.Stderr = os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return "", errPreprocessor
		}
		return "", fmt.Errorf("Failed to exec preprocessor: %w", err)
	}
	return out.String(), nil
}
