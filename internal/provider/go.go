package provider

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"godtrace/internal/insn"
	"godtrace/internal/probe"
	"godtrace/internal/process"
	"godtrace/internal/symbol"
	"godtrace/internal/syntax"
)

// Go is the provider of functions of Go programs, by the names that Go gives
// them: the package's import path as the module, the rest as the function.
//
//	go1234:main:handle:entry                  a function is called
//	go1234:net/http:(*Server).Serve:return    it returns; arg0 where, arg1… results
//	go1234:main:main.func1:entry              a closure
//	go1234:slices:Index[...]:entry            a generic function, all its instances
//	go*:main:handle:entry                     in every Go program that runs now, and
//	                                          in its later processes
//	go:/usr/bin/x:main.handle:entry           in all processes of a file; the
//	                                          function is named in full
//
// A name that a function has means that function only, though it looks like a
// pattern. Functions come from the program's function table, which stripped
// programs have, too. Functions without a package (assembly, C) are pid's.
//
// The places are those of the provider pid: behind the check of the stack, and
// the instructions that return.
type Go struct {
	pid    *Pid
	files  map[*userFile]*goFile
	probes map[goKey]*probe.Probe
}

// goKey tells probes apart. Programs of one name may come from several files.
type goKey struct {
	desc probe.Desc
	file *userFile
}

func newGo(pid *Pid) *Go {
	return &Go{pid: pid, files: map[*userFile]*goFile{}, probes: map[goKey]*probe.Probe{}}
}

// Name implements Provider.
func (*Go) Name() string { return "go" }

// goFile is what is known of a Go program.
type goFile struct {
	u        *userFile
	version  goVersion // of the compiler
	release  string    // the same, as the program has it; "" if it does not tell
	goid     int64     // offset of the goroutine's number in struct g; -1: not known
	tls      int64     // of g's address, from FS; 0: not known
	table    *symbol.GoTable
	funcs    []goFunc // by address
	packages map[string][]int
	debug    *goDebug
}

// goFunc is a function with its name taken apart.
type goFunc struct {
	symbol.GoFunc
	pkg, name string
	stack     bool // arguments on the stack: ABI0
	wrapper   bool // made to call another of the name
}

// goVersion is a version's first two numbers, 1<<8 | 21.
type goVersion int

// regABI is the first version whose functions take arguments in registers.
const regABI = 1<<8 | 17

// Probes implements Provider.
func (p *Go) Probes(d probe.Desc) ([]*probe.Probe, error) {
	rest, ok := strings.CutPrefix(d.Provider, "go")
	if !ok {
		return nil, nil
	}
	r := &goRequest{p: p, d: d}
	switch {
	case rest == "":
		return r.path()
	case rest == "*":
		return r.everywhere()
	case probe.IsGlob(rest):
		return r.pattern()
	case strings.Trim(rest, "0123456789") != "":
		return nil, nil // perhaps another's: static probes of a program "gopher"
	}
	pid, err := strconv.ParseInt(rest, 10, 32)
	if err != nil || pid <= 0 {
		return nil, procError("D_PROC_BADPID", "'%s' does not contain a valid pid", d.Provider)
	}
	return r.process(int(pid))
}

// goRequest is one description at work.
type goRequest struct {
	p    *Go
	pid  int
	d    probe.Desc
	full bool // the module is the file, the function is named with its package
	out  []*probe.Probe
	had  map[*probe.Probe]bool
	over int // probes beyond the limit
}

func (r *goRequest) done() ([]*probe.Probe, error) {
	if r.over > 0 {
		n := len(r.out)
		return nil, procError("D_PROC_CREATEFAIL", "probe description %s matches %d probes, limit %d (raise with -x maxprobes=)", r.d, n+r.over, n)
	}
	return r.out, nil
}

// process makes the probes of a process.
func (r *goRequest) process(pid int) ([]*probe.Probe, error) {
	host := &r.p.pid.host
	if pid == os.Getpid() {
		return nil, procError("D_PROC_DYN", "process %d is dtrace itself", pid)
	}
	if err := host.Ready(pid); err != nil {
		return nil, procError("D_PROC_GRAB", "failed to grab process %d: %v", pid, err)
	}
	mods, err := r.p.pid.modules(pid)
	if err != nil {
		return nil, err
	}
	r.pid = pid
	var files []*goFile
	var first error
	for _, m := range mods {
		u, err := m.open()
		if err == nil && !u.isGo() {
			if m.main {
				first = procError("D_PROC_LIB", "process %d (%s) is not a Go program: it has no section .gopclntab", pid, m.name)
			}
			continue
		}
		var f *goFile
		if err == nil {
			f, err = r.p.file(u)
		}
		if err != nil {
			if m.main {
				return nil, err
			}
			continue
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		if first == nil {
			first = procError("D_PROC_LIB", "process %d is not a Go program", pid)
		}
		return nil, first
	}
	return r.inFiles(files)
}

// pattern takes the Go programs of now whose number matches.
func (r *goRequest) pattern() ([]*probe.Probe, error) {
	for _, pid := range process.PIDs() {
		if pid == os.Getpid() || !probe.Glob(r.d.Provider, "go"+strconv.Itoa(pid)) {
			continue
		}
		one := &goRequest{p: r.p, d: r.d}
		one.d.Provider = "go" + strconv.Itoa(pid)
		if ps, err := one.process(pid); err == nil {
			r.out = append(r.out, ps...)
		}
	}
	return r.out, nil
}

// everywhere makes the probes of all processes, later ones too, of the Go
// programs that run now.
func (r *goRequest) everywhere() ([]*probe.Probe, error) {
	var files []*goFile
	seen := map[fileKey]bool{}
	for _, pid := range process.PIDs() {
		name := procPath(pid, "exe")
		var st unix.Stat_t
		if unix.Stat(name, &st) != nil || seen[fileKey{st.Dev, st.Ino}] {
			continue
		}
		seen[fileKey{st.Dev, st.Ino}] = true
		if pid == os.Getpid() {
			continue
		}
		known := name
		if s, err := os.Readlink(name); err == nil {
			known = s
		}
		if f, err := r.p.open(name, known); err == nil {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	return r.inFiles(files)
}

// path makes the probes of files named by their path, in all processes.
func (r *goRequest) path() ([]*probe.Probe, error) {
	if !strings.HasPrefix(r.d.Module, "/") {
		return nil, procError("D_PROC_LIB", "'%s': expected the path of a Go program, as in go:/usr/bin/x:main.f:entry; go* is every program", r.d.Module)
	}
	names := []string{r.d.Module}
	if probe.IsGlob(r.d.Module) {
		names, _ = filepath.Glob(r.d.Module)
	}
	r.full = true
	var files []*goFile
	for _, name := range names {
		f, err := r.p.open(name, name)
		if err != nil {
			if len(names) > 1 {
				continue
			}
			return nil, err
		}
		files = append(files, f)
	}
	return r.inFiles(files)
}

// open opens the file name, of which messages speak as known.
func (p *Go) open(name, known string) (*goFile, error) {
	// Of what is no Go program the symbols are not read.
	if is, err := symbol.IsGoFile(name); err == nil && !is {
		return nil, procError("D_PROC_LIB", "%s is not a Go program: it has no section .gopclntab", known)
	}
	u, err := p.pid.openPath(name)
	if err != nil {
		return nil, err
	}
	return p.file(u)
}

// file reads the function table of a program, once.
func (p *Go) file(u *userFile) (*goFile, error) {
	if f := p.files[u]; f != nil {
		return f, nil
	}
	t, err := u.obj.GoTable()
	if err != nil {
		return nil, procError("D_PROC_LIB", "%v", err)
	}
	f := &goFile{u: u, table: t, packages: map[string][]int{}, goid: -1, tls: -8}
	if info, err := buildinfo.Read(u.f); err == nil {
		f.release = info.GoVersion
		f.version = parseGoVersion(info.GoVersion)
	}
	if v, ok := u.threadG(t); ok {
		f.tls = v
	}
	if u.obj.Type == elf.ET_DYN && u.obj.Interp == "" && len(u.obj.Needed) > 0 {
		f.tls = 0 // a library: the dynamic linker decides
	}
	f.debug = newGoDebug(u)
	if f.goid = f.goidOffset(); f.goid < 0 {
		p.pid.notice("%s: where Go of its version (%s) has the number of a goroutine is not known: there is no goid, and self-> belongs to the thread", u.name, cmp.Or(f.release, "none told"))
	}
	asm := map[string]bool{}
	for _, fn := range t.Funcs {
		if fn.Asm {
			asm[fn.Name] = true
		}
	}
	twins := map[string]bool{}  // in assembly, with a wrapper for callers that use registers
	shaped := map[string]bool{} // generic
	for _, fn := range t.Funcs {
		twins[fn.Name] = twins[fn.Name] || !fn.Asm && asm[fn.Name]
		if strings.Contains(fn.Name, "[go.shape.") {
			shaped[shortGoTypes(fn.Name)] = true
		}
	}
	onStack := map[uint64]bool{}
	for _, s := range u.obj.Symbols() {
		if strings.HasSuffix(s.Name, ".abi0") {
			onStack[s.Value] = true
		}
	}
	for _, fn := range t.Funcs {
		g := goFunc{GoFunc: fn}
		g.pkg, g.name = splitGoName(fn.Name)
		g.stack = f.version > 0 && f.version < regABI ||
			fn.Asm && (twins[fn.Name] || onStack[fn.Value] || !asmRegisters(g.pkg))
		// Instances for types call those for shapes of types, with a dictionary.
		g.wrapper = !fn.Asm && twins[fn.Name] || shaped[shortGoTypes(fn.Name)] && !strings.Contains(fn.Name, "[go.shape.")
		if g.pkg != "" && !g.wrapper {
			f.packages[g.pkg] = append(f.packages[g.pkg], len(f.funcs))
		}
		f.funcs = append(f.funcs, g)
	}
	p.files[u] = f
	return f, nil
}

// asmRegisters reports whether assembly of a package may take its arguments in
// registers: the assembler allows it to the runtime and its kin only.
func asmRegisters(pkg string) bool {
	return pkg == "runtime" || pkg == "reflect" || pkg == "syscall" || strings.HasPrefix(pkg, "internal/") || strings.HasPrefix(pkg, "runtime/")
}

// threadG is where g's address lies, from FS, as a function says that switches
// from one goroutine to another.
func (u *userFile) threadG(t *symbol.GoTable) (off int64, ok bool) {
	const fs = 0x64
	for _, fn := range t.Funcs {
		if fn.Name != "runtime.mcall" && fn.Name != "gogo" {
			continue
		}
		code, err := u.code(symbol.Func{Symbol: symbol.Symbol{Value: fn.Value, Size: fn.Size}})
		if err != nil {
			continue
		}
		moved := map[int8]int64{} // by "mov $n,%reg"
		insn.Walk(code, fn.Value, func(a insn.At) bool {
			m, mem := a.Mem()
			switch {
			case a.Map == insn.Map1 && a.Op == 0xc7 && !mem && a.Len == 7:
				moved[int8(a.ModRM&7|a.Rex&insn.RexB<<3)] = a.Imm
			case mem && a.Seg == fs && m.Base == insn.NoReg && m.Index == insn.NoReg && m.Disp < 0:
				off, ok = int64(m.Disp), true
			case mem && a.Seg == fs && m.Disp == 0 && moved[int8(m.Base)] < 0:
				off, ok = moved[int8(m.Base)], true
			}
			return !ok
		})
		if ok {
			return off, true
		}
	}
	return 0, false
}

// splitGoName takes "net/http.(*Server).Serve" apart. The package is "" for
// names without one and for what the compiler makes beside packages.
func splitGoName(name string) (pkg, fn string) {
	end := len(name)
	if i := strings.IndexAny(name, "[("); i >= 0 {
		end = i // of what could be the path: arguments of types hold slashes too
	}
	slash := strings.LastIndexByte(name[:end], '/') + 1
	dot := strings.IndexByte(name[slash:], '.')
	if dot <= 0 {
		return "", name
	}
	pkg, fn = name[:slash+dot], shortGoTypes(name[slash+dot+1:])
	if fn == "" || strings.ContainsAny(pkg, ":{ ") || pkg == "type" || pkg == "go" {
		return "", name // type:.eq.T, go:buildid, type..hash.T, struct { x/y.T }.f
	}
	return unescapeGoPath(pkg), fn
}

// shortGoTypes writes "Map[go.shape.int,go.shape.string]" as Go's own
// tracebacks do, "Map[...]".
func shortGoTypes(name string) string {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if i < 0 || j < i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}

// unescapeGoPath undoes what the linker does to import paths in symbols:
// gopkg.in/yaml%2ev3.
func unescapeGoPath(p string) string {
	if strings.IndexByte(p, '%') < 0 {
		return p
	}
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if p[i] == '%' && i+2 < len(p) {
			if n, err := strconv.ParseUint(p[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

// parseGoVersion reads "go1.21.3", "go1.22rc1 X:nocoverageredesign", "devel
// go1.24-abcdef": 0 if it is none of these.
func parseGoVersion(s string) goVersion {
	i := strings.Index(s, "go1.")
	if i < 0 {
		return 0
	}
	s = s[i+len("go1."):]
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	minor, err := strconv.ParseUint(s[:n], 10, 8)
	if err != nil {
		return 0
	}
	return goVersion(1<<8 | minor)
}

// goidOffset is where struct g has the goroutine's number: by what is
// known of the versions, or of a later one as the debugging information says. -1: not known.
func (f *goFile) goidOffset() int64 {
	switch v := f.version &^ (1 << 8); {
	case f.version == 0:
	case v >= 10 && v <= 22:
		return 152
	case v <= 24: // syscallbp came in between
		return 160
	case v <= 26: // gobuf lost ret
		return 152
	}
	if off, ok := f.debug.member("runtime.g", "goid"); ok {
		return off
	}
	return -1
}

// layout is how functions of a program find what they need.
func (f *goFile) layout(fn *goFunc) probe.GoABI {
	return probe.GoABI{Stack: fn.stack, Asm: fn.Asm, Goid: f.goid, TLS: f.tls}
}

// inFiles makes the probes of the functions that match.
func (r *goRequest) inFiles(files []*goFile) ([]*probe.Probe, error) {
	d := r.d
	if d.Func == "-" {
		return nil, procError("D_PROC_NAME", "instructions are the provider pid's: pid%s:a.out:-:%s", strings.TrimPrefix(d.Provider, "go"), d.Name)
	}
	if d.Name != "" && !probe.IsGlob(d.Name) && d.Name != "entry" && d.Name != "return" {
		return nil, procError("D_PROC_NAME", "'%s' is an invalid probe name; expected entry or return (for instructions: pid%s:a.out:PACKAGE.FUNCTION:OFFSET)", d.Name, strings.TrimPrefix(d.Provider, "go"))
	}
	var first error
	for _, f := range files {
		if err := r.inFile(f); err != nil {
			if len(files) == 1 {
				return nil, err
			}
			if first == nil {
				first = err
			}
		}
	}
	if len(r.out) == 0 && first != nil {
		return nil, first
	}
	return r.done()
}

// inFile makes those of one program. A function that is not there is an error
// if nothing of its name is a pattern.
func (r *goRequest) inFile(f *goFile) error {
	if r.d.Func == "" || r.d.Func == "*" {
		f.u.readText()
	}
	if r.full {
		idx := f.named(r.d.Func)
		for _, i := range idx {
			if err := r.inFunc(f, &f.funcs[i], true); err != nil {
				return err
			}
		}
		if idx != nil {
			return nil
		}
		if r.d.Func != "" && !probe.IsGlob(r.d.Func) {
			pkg, fn := splitGoName(r.d.Func)
			return f.noFunction(pkg, fn)
		}
		for i := range f.funcs {
			if fn := &f.funcs[i]; fn.pkg != "" && !fn.wrapper && probe.Glob(r.d.Func, fn.pkg+"."+fn.name) {
				if err := r.inFunc(f, fn, false); err != nil {
					return err
				}
			}
		}
		return nil
	}
	pkgs := []string{r.d.Module}
	exact := f.packages[r.d.Module] != nil
	if !exact {
		pkgs = nil
		for name := range f.packages {
			if probe.Glob(r.d.Module, name) {
				pkgs = append(pkgs, name)
			}
		}
		slices.Sort(pkgs)
	}
	if len(pkgs) == 0 && r.d.Module != "" && !probe.IsGlob(r.d.Module) {
		return f.noPackage(r.d.Module)
	}
	found := false
	for _, pkg := range pkgs {
		for _, i := range f.packages[pkg] {
			if fn := &f.funcs[i]; fn.name == r.d.Func {
				found = true
				if err := r.inFunc(f, fn, true); err != nil {
					return err
				}
			}
		}
	}
	switch {
	case found:
		return nil
	case r.d.Func != "" && !probe.IsGlob(r.d.Func):
		if exact {
			return f.noFunction(r.d.Module, r.d.Func)
		}
		return nil
	}
	for _, pkg := range pkgs {
		for _, i := range f.packages[pkg] {
			if fn := &f.funcs[i]; probe.Glob(r.d.Func, fn.name) {
				found = true
				if err := r.inFunc(f, fn, false); err != nil {
					return err
				}
			}
		}
	}
	if !found && exact && strings.ContainsAny(r.d.Func, "([") {
		return f.noFunction(r.d.Module, r.d.Func) // it looks like a pattern, but is meant as a name
	}
	return nil
}

// named are the functions of that full name.
func (f *goFile) named(name string) []int {
	var out []int
	for i := range f.funcs {
		if fn := &f.funcs[i]; !fn.wrapper && fn.pkg != "" && (fn.Name == name || fn.pkg+"."+fn.name == name) {
			out = append(out, i)
		}
	}
	return out
}

func (f *goFile) noPackage(pkg string) error {
	e := &syntax.Error{Tag: "D_PROC_LIB", Msg: fmt.Sprintf("there is no package '%s' in %s", pkg, filepath.Base(f.u.name))}
	var names []string
	for name := range f.packages {
		if path := name; path[strings.LastIndexByte(path, '/')+1:] == pkg {
			e.Hint = "did you mean " + name + "?"
			return e
		}
		names = append(names, name)
	}
	if near := syntax.Nearest(pkg, names); near != "" {
		e.Hint = "did you mean " + near + "?"
	}
	return e
}

// noFunction is the error for a function that is not there, with what is there
// instead.
func (f *goFile) noFunction(pkg, name string) error {
	e := &syntax.Error{Tag: "D_PROC_FUNC", Msg: fmt.Sprintf("failed to lookup '%s' in package '%s'", name, pkg)}
	if f.table.Inlined(pkg+"."+name) || f.table.Inlined(escapeGoPath(pkg)+"."+name) {
		e.Hint = "the compiler put it into all its callers: mark it //go:noinline, or build with -gcflags=-l"
		return e
	}
	var names []string
	for _, i := range f.packages[pkg] {
		fn := f.funcs[i].name
		// f for (*T).f, T.f for (*T).f, Map for Map[...].
		bare := strings.NewReplacer("(*", "", ")", "").Replace(fn)
		bare, _, _ = strings.Cut(bare, "[")
		if bare == name || strings.HasSuffix(bare, "."+name) {
			e.Hint = "did you mean " + fn + "?"
			return e
		}
		names = append(names, fn)
	}
	if near := syntax.Nearest(name, names); near != "" {
		e.Hint = "did you mean " + near + "?"
	}
	return e
}

// escapeGoPath is what the linker makes of the last element of an import path.
func escapeGoPath(p string) string {
	slash := strings.LastIndexByte(p, '/') + 1
	return p[:slash] + strings.ReplaceAll(p[slash:], ".", "%2e")
}

// inFunc makes the probes of one function. explicit says that it was named, so
// that what cannot be done is an error.
func (r *goRequest) inFunc(f *goFile, fn *goFunc, explicit bool) error {
	u := f.u
	off, ok := u.obj.Offset(fn.Value)
	if !ok || fn.Size == 0 {
		return nil
	}
	at := &function{Func: symbol.Func{Symbol: symbol.Symbol{Name: fn.Name, Value: fn.Value, Size: fn.Size}, Off: off}}
	for _, name := range []string{"entry", "return"} {
		if !probe.Glob(r.d.Name, name) {
			continue
		}
		var places []exit
		var err error
		if name == "entry" {
			var e exit
			if e, err = u.goEntry(at); err == nil {
				places = []exit{e}
			}
		} else {
			places, err = u.exits(at)
		}
		switch {
		case err == nil:
			r.add(f, fn, name, places)
		case explicit:
			return procError("D_PROC_CREATEFAIL", "failed to create %s probe for '%s': %v", name, fn.Name, err)
		default:
			r.p.pid.host.Debug("%s: no %s probe for %s: %v", u.name, name, fn.Name, err)
		}
	}
	return nil
}

// goEntry is entry, for a Go function. One without a check of the stack may
// begin with a loop, where no place is passed once a call.
func (u *userFile) goEntry(f *function) (exit, error) {
	e, err := u.entry(f)
	if err == nil && e.fnOff == 0 && f.Size <= maxUserFunc {
		code, cerr := u.code(f.Func)
		if cerr != nil {
			return e, cerr
		}
		again := false
		insn.Walk(code, f.Value, func(a insn.At) bool {
			t, ok := a.Target()
			again = ok && t == f.Value && a.Class() != insn.Call
			return !again
		})
		if again {
			return e, errors.New("it begins with a loop: no instruction runs once a call")
		}
	}
	return e, err
}

// inode is the number of the file's inode.
func (u *userFile) inode() uint64 {
	var st unix.Stat_t
	if unix.Fstat(int(u.f.Fd()), &st) != nil {
		return 0
	}
	return st.Ino
}

// add makes the probe of that name, or adds places to it.
func (r *goRequest) add(f *goFile, fn *goFunc, name string, at []exit) {
	p := r.p.pid
	d := probe.Desc{Provider: r.d.Provider, Module: fn.pkg, Func: fn.name, Name: name}
	if r.full {
		d.Module, d.Func = f.u.name, fn.pkg+"."+fn.name
	}
	key := goKey{d, f.u}
	pr := r.p.probes[key]
	if pr == nil {
		limit := int64(defaultMaxProbes)
		if n := p.host.Option("maxprobes"); n > 0 {
			limit = min(n, probe.KeyMask)
		}
		if int64(len(r.out)) >= limit {
			r.over++
			return
		}
		abi := f.layout(fn)
		s := &pidSite{pid: r.pid, ret: name == "return", goABI: &abi}
		if p.host.Option("followfork") > 0 {
			s.pid = 0 // the session makes the clauses ask whose child it is
		}
		pr = &probe.Probe{ID: userID(len(p.order)), Desc: d, Attr: pidAttr, Site: s}
		f.debug.arguments(pr, f, fn)
		r.p.probes[key] = pr
		p.order = append(p.order, pr)
	}
	if r.had == nil {
		r.had = map[*probe.Probe]bool{}
	}
	if !r.had[pr] {
		r.had[pr] = true
		r.out = append(r.out, pr)
	}
	s := pr.Site.(*pidSite)
	for _, e := range at {
		if !slices.ContainsFunc(s.places, func(q place) bool { return q.file == f.u && q.off == e.off }) {
			s.places = append(s.places, place{file: f.u, exit: e})
		}
	}
}

// Mechanism says by what means a probe fires.
func (p *Go) Mechanism(pr *probe.Probe) string { return p.pid.Mechanism(pr) }

// Groups implements Provider: entries and returns of functions that get their
// arguments in the same way, and find their goroutine in the same way, share a
// program.
func (p *Go) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	type key struct {
		abi probe.GoABI
		ret bool
	}
	of := map[key][]*probe.Probe{}
	var keys []key
	for _, ret := range []bool{false, true} {
		for _, pr := range enabled {
			s := pr.Site.(*pidSite)
			if s.ret != ret {
				continue
			}
			k := key{*s.goABI, ret}
			if of[k] == nil {
				keys = append(keys, k)
			}
			of[k] = append(of[k], pr)
		}
	}
	var out []*Attachment
	for _, k := range keys {
		name := "go_entry"
		if k.ret {
			name = "go_return"
		}
		a, err := uprobeGroup(name, k.ret, of[k])
		if err != nil {
			return nil, err
		}
		a.Group.Go = &k.abi
		for _, pr := range of[k] {
			s := pr.Site.(*pidSite)
			in := probe.GoProgram{Pid: s.pid}
			if s.pid == 0 && len(s.places) > 0 {
				in.Ino = s.places[0].file.inode()
			}
			if in != (probe.GoProgram{}) && !slices.Contains(a.Group.GoIn, in) {
				a.Group.GoIn = append(a.Group.GoIn, in)
			}
		}
		out = append(out, a)
	}
	return out, nil
}
