package provider

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/ianlancetaylor/demangle"
	"golang.org/x/sys/unix"

	"godtrace/internal/insn"
	"godtrace/internal/probe"
	"godtrace/internal/process"
	"godtrace/internal/symbol"
	"godtrace/internal/syntax"
)

// Pid is the provider of user functions and instructions:
//
//	pid1234:libc.so.6:malloc:entry    a function of a process is called
//	pid1234:libc.so.6:malloc:return   it returns; arg0 where, arg1 what
//	pid1234:a.out:main:1c             the instruction at an offset, in hex
//	pid1234:a.out:-:401136            the instruction at an address
//	pid*:libc.so.6:malloc:entry       in every process, also later ones
//	uprobe:/opt/x/libx.so:f:entry     the same by the file's path
//	uinstr1234:a.out:main:call        the instructions of a class; arguments as
//	                                  those of the provider instr
//
// Probes are made on demand. All entries and instructions share one program,
// all returns another; each file and process has a link of its own.
type Pid struct {
	host    Host
	byName  map[probe.Desc]*probe.Probe
	order   []*probe.Probe
	files   map[fileKey]*userFile
	noticed map[string]bool
	fresh   map[int]bool      // processes whose mappings were read
	hints   map[string]string // for descriptions that name a module nobody has
}

func newPid() *Pid {
	return &Pid{
		byName: map[probe.Desc]*probe.Probe{}, files: map[fileKey]*userFile{},
		noticed: map[string]bool{}, fresh: map[int]bool{}, hints: map[string]string{},
		host: Host{
			Procs:  symbol.NewProcesses(),
			Ready:  func(int) error { return nil },
			Notice: func(string, ...any) {},
			Debug:  func(string, ...any) {},
			Option: func(string) int64 { return 0 },
		},
	}
}

// SetHost implements User.
func (p *Pid) SetHost(h *Host) { p.host = *h }

// Grows implements User: patterns of libraries, and libraries that are not
// there yet, in one process.
func (p *Pid) Grows(d probe.Desc, matched int) int {
	_, rest, ok := cutPid(d.Provider)
	pid, err := strconv.Atoi(rest)
	if !ok || err != nil || d.Func == "-" || d.Module == "a.out" {
		return 0
	}
	if matched == 0 || d.Module == "" || probe.IsGlob(d.Module) {
		return pid
	}
	return 0
}

// Loaded implements User.
func (p *Pid) Loaded(pid int) { delete(p.fresh, pid) }

// Name implements Provider.
func (*Pid) Name() string { return "pid" }

var pidAttr = &probe.Attributes{
	Provider: probe.Attr{Name: "Evolving", Data: "Evolving", Class: "ISA"},
	Module:   probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Func:     probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Name:     probe.Attr{Name: "Evolving", Data: "Evolving", Class: "ISA"},
	Args:     probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
}

// pidSite is a probe's Site. A name may stand for several places: static
// functions of one name, versions of a symbol, copies of a library.
type pidSite struct {
	pid    int // 0: every process
	ret    bool
	places []place
	probe  *probe.Probe
	by     *request // that matched it last: a name may be met in several files
	// byClass is set for instructions by their class (uinstr).
	byClass bool
	typing  argTyping
	goABI   *probe.GoABI // of the provider go
}

// place is where in a file a probe sits.
type place struct {
	file *userFile
	exit
}

// fileKey is a file's device and inode.
type fileKey struct{ dev, ino uint64 }

// userFile is an ELF file that has probes.
type userFile struct {
	f    *os.File
	name string // what it is called in messages and, its base, as a module
	obj  *symbol.Object

	goProgram bool

	funcs []function // by address, those chosen for indirect ones behind
	named map[string][]int
	// indirect are the indirect functions not resolved yet.
	indirect []symbol.Func
	witness  witness

	text   []byte // of all functions, once read
	textAt uint64

	left map[leftKey]leaving // see exits
}

// function is a symbol of a file, or one of several of the same name.
type function struct {
	symbol.Func
	cold []symbol.Func // parts split off
}

// module is an object that a description may mean, and whom it is mapped by.
type module struct {
	name string // as probes show it
	main bool   // the executable
	bias uint64
	open func() (*userFile, error)
}

// Probes implements Provider.
func (p *Pid) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if d.Provider == "uprobe" {
		return p.byPath(d)
	}
	stem, rest, ok := cutPid(d.Provider)
	if !ok {
		// p*d1234, which may mean static probes as well
		if n := len(strings.TrimRight(d.Provider, "0123456789")); n < len(d.Provider) && probe.IsGlob(d.Provider) && probe.Glob(d.Provider, "pid"+d.Provider[n:]) {
			d.Provider = "pid" + d.Provider[n:]
			return p.Probes(d)
		}
		return nil, nil
	}
	if stem == "uinstr" && exact(d.Name) && d.Name != "" {
		if _, ok := insn.ParseClass(d.Name); !ok {
			return nil, procError("D_PROC_NAME", "'%s' is no class of instructions: expected one such as call, jmp, je, ret, lock, syscall", d.Name)
		}
	}
	switch {
	case rest == "*":
		return p.everywhere(d)
	case probe.IsGlob(rest):
		return p.byPidPattern(d)
	case rest == "", strings.Trim(rest, "0123456789") != "":
		return nil, nil // perhaps another's: static probes of a program "pidgin"
	}
	pid, err := strconv.ParseInt(rest, 10, 32)
	if err != nil || pid <= 0 {
		return nil, procError("D_PROC_BADPID", "'%s' does not contain a valid pid", d.Provider)
	}
	return p.ofProcess(int(pid), d)
}

// cutPid takes the provider part of a description apart: pid1234, uinstr$target.
func cutPid(provider string) (stem, rest string, ok bool) {
	for _, stem := range []string{"pid", "uinstr"} {
		if rest, ok := strings.CutPrefix(provider, stem); ok {
			return stem, rest, true
		}
	}
	return "", "", false
}

func procError(tag, format string, args ...any) error {
	return &syntax.Error{Tag: tag, Msg: fmt.Sprintf(format, args...)}
}

// byPidPattern takes every process of now whose number matches.
func (p *Pid) byPidPattern(d probe.Desc) ([]*probe.Probe, error) {
	stem, _, _ := cutPid(d.Provider)
	var out []*probe.Probe
	for _, pid := range process.PIDs() {
		if pid == os.Getpid() || !probe.Glob(d.Provider, stem+strconv.Itoa(pid)) {
			continue
		}
		one := d
		one.Provider = stem + strconv.Itoa(pid)
		ps, err := p.ofProcess(pid, one)
		if err != nil {
			continue // gone, a kernel thread, or without that library
		}
		out = append(out, ps...)
	}
	return out, nil
}

// ofProcess makes the probes of a process that d names.
func (p *Pid) ofProcess(pid int, d probe.Desc) ([]*probe.Probe, error) {
	if pid == os.Getpid() {
		return nil, procError("D_PROC_DYN", "process %d is dtrace itself", pid)
	}
	if err := p.host.Ready(pid); err != nil {
		return nil, procError("D_PROC_GRAB", "failed to grab process %d: %v", pid, err)
	}
	mods, err := p.modules(pid)
	if err != nil {
		return nil, err
	}
	r := &request{p: p, pid: pid, d: d}
	if d.Func == "-" {
		switch {
		case r.byClass():
			return nil, procError("D_PROC_FUNC", "expected a function, not '-': an instruction by its address is pid%d:a.out:-:ADDRESS", pid)
		case d.Module != "" && (probe.IsGlob(d.Module) || !isMain(mods, d.Module)):
			return nil, procError("D_PROC_LIB", "only the a.out module is valid with the '-' function")
		case d.Name == "" || probe.IsGlob(d.Name):
			return nil, procError("D_PROC_NAME", "only individual addresses may be specified with the '-' function")
		}
		for _, m := range mods {
			if m.main {
				return r.address(m)
			}
		}
		return nil, procError("D_PROC_LIB", "process %d has no executable file", pid)
	}
	chosen := p.choose(pid, mods, d.Module)
	if r.mods = mods; len(chosen) == 0 {
		const most = 8
		var names []string
		for _, m := range mods[:min(len(mods), most)] {
			names = append(names, m.name)
		}
		list := strings.Join(names, ", ")
		if n := len(mods) - most; n > 0 {
			list += fmt.Sprintf(" and %d more", n)
		}
		p.hints[d.String()] = fmt.Sprintf("so far the process has mapped %s; with -Z a library that it loads later is found then", list)
	}
	return r.inModules(chosen)
}

// Hint implements Hinter, for a module that is nowhere.
func (p *Pid) Hint(desc, hint string) string { return cmp.Or(p.hints[desc], hint) }

// choose returns the modules that a description means: by pattern, as a.out, by
// full or base name, by path, or by a shortened name, with or without a number
// of a version that is not there.
func (p *Pid) choose(pid int, mods []module, name string) []module {
	if name == "" || probe.IsGlob(name) {
		return filter(mods, func(m module) bool { return probe.Glob(name, m.name) })
	}
	if name == "a.out" {
		return filter(mods, func(m module) bool { return m.main })
	}
	if out := filter(mods, func(m module) bool {
		return m.name == name || strings.HasPrefix(name, "/") && path.Base(name) == m.name
	}); out != nil {
		return out
	}
	if out := filter(mods, func(m module) bool { return strings.HasPrefix(m.name, name+".") }); out != nil {
		return out[:1]
	}
	if stem, _, ok := strings.Cut(name, ".so"); ok {
		if out := filter(mods, func(m module) bool { return strings.HasPrefix(m.name, stem+".so") }); out != nil {
			p.notice("process %d has no %s; taken for %s", pid, name, out[0].name)
			return out[:1]
		}
	}
	return nil
}

func (p *Pid) notice(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !p.noticed[s] {
		p.noticed[s] = true
		p.host.Notice("%s", s)
	}
}

func filter[T any](list []T, ok func(T) bool) []T {
	var out []T
	for _, x := range list {
		if ok(x) {
			out = append(out, x)
		}
	}
	return out
}

func isMain(mods []module, name string) bool {
	return name == "a.out" || slices.ContainsFunc(mods, func(m module) bool { return m.main && m.name == name })
}

// modules lists the objects mapped into a process, the executable first.
func (p *Pid) modules(pid int) ([]module, error) {
	if !p.fresh[pid] {
		if err := p.host.Procs.Snapshot(pid); err != nil {
			why := "no such process"
			if !errors.Is(err, os.ErrNotExist) {
				why = err.Error()
			} else if _, err := os.Stat(procPath(pid, "stat")); err == nil {
				why = "it has no memory of its own"
			}
			return nil, procError("D_PROC_GRAB", "failed to grab process %d: %s", pid, why)
		}
		p.fresh[pid] = true
	}
	proc, err := p.host.Procs.Process(pid)
	if err != nil {
		return nil, procError("D_PROC_GRAB", "failed to grab process %d: %v", pid, err)
	}
	exe, _ := os.Readlink(procPath(pid, "exe"))
	exe = strings.TrimSuffix(exe, " (deleted)")
	var out []module
	for _, o := range proc.Objects() {
		if o.Mapping.Inode == 0 {
			continue // the vDSO cannot be probed
		}
		out = append(out, module{
			name: o.Mapping.Module(), main: o.Mapping.Path == exe, bias: o.Bias,
			open: func() (*userFile, error) { return p.openMapped(pid, o) },
		})
	}
	slices.SortStableFunc(out, func(a, b module) int {
		switch {
		case a.main == b.main:
			return 0
		case a.main:
			return -1
		}
		return 1
	})
	return out, nil
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// openMapped opens the very file of a mapping.
func (p *Pid) openMapped(pid int, o symbol.Loaded) (*userFile, error) {
	m := o.Mapping
	names := []string{
		fmt.Sprintf("%s/%x-%x", procPath(pid, "map_files"), m.Start, m.End),
		procPath(pid, "root") + m.Path,
		m.Path,
	}
	var first error
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			if first == nil || errors.Is(first, os.ErrPermission) {
				first = err
			}
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Ino != m.Inode {
			f.Close()
			continue
		}
		u, err := p.userFile(f, m.Path, o.Object)
		if err == nil && u.witness.pid == 0 {
			u.witness = witness{pid, o.Bias}
		}
		return u, err
	}
	return nil, procError("D_PROC_LIB", "failed to open %s of process %d: %v", m.Path, pid, first)
}

// userFile is the file behind f, which it takes over.
func (p *Pid) userFile(f *os.File, name string, obj *symbol.Object) (*userFile, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, err
	}
	key := fileKey{st.Dev, st.Ino}
	if u := p.files[key]; u != nil {
		f.Close()
		return u, nil
	}
	if obj == nil {
		var err error
		if obj, err = symbol.Open(name); err != nil {
			f.Close()
			return nil, err
		}
	}
	u := &userFile{f: f, name: name, obj: obj, goProgram: obj.IsGo(), named: map[string][]int{}}
	u.list()
	p.files[key] = u
	return u, nil
}

// list makes the list of functions. Parts that the compiler split off a
// function belong to it, and what chooses among indirect functions is none that a
// program calls.
func (u *userFile) list() {
	all := u.obj.Functions()
	u.funcs = make([]function, 0, len(all))
	u.named = make(map[string][]int, len(all))
	places := make([]int, 0, len(all)) // most names stand for one
	cold := map[string][]symbol.Func{}
	for _, f := range all {
		if i := strings.IndexByte(f.Name, '.'); i > 0 {
			if i := strings.Index(f.Name, ".cold"); i > 0 {
				cold[f.Name[:i]] = append(cold[f.Name[:i]], f)
				continue
			}
		}
		if f.Type == elf.STT_GNU_IFUNC {
			u.indirect = append(u.indirect, f)
			continue
		}
		n := len(u.funcs)
		if same := u.named[f.Name]; same != nil {
			u.named[f.Name] = append(same, n)
		} else {
			k := len(places)
			places = append(places, n)
			u.named[f.Name] = places[k : k+1 : k+1]
		}
		u.funcs = append(u.funcs, function{Func: f})
	}
	for name, parts := range cold {
		for _, i := range u.named[name] {
			u.funcs[i].cold = parts
		}
	}
}

// request is one description at work.
type request struct {
	p    *Pid
	pid  int
	mods []module // of the process
	d    probe.Desc
	out  []*probe.Probe
	n    int // probes matched, also those over the limit
	at   int // instructions matched by their class
	// refused are functions without probes, by their module and the probe's name.
	refused map[string][]string
}

// leaveOut notes a function that matches a pattern but has no such probe. Which
// the kernel refuses is told.
func (r *request) leaveOut(mod, fn, name string, err error) {
	r.p.host.Debug("%s: no %s probe for %s: %v", mod, name, fn, err)
	var refused *refusedError
	if errors.As(err, &refused) {
		if r.refused == nil {
			r.refused = map[string][]string{}
		}
		what := mod + ": no " + name + " probe for "
		r.refused[what] = append(r.refused[what], fn)
	}
}

// tellRefused says what leaveOut noted, of many functions some.
func (r *request) tellRefused() {
	const most = 5
	for _, what := range slices.Sorted(maps.Keys(r.refused)) {
		fns, more := r.refused[what], ""
		if n := len(fns); n > most {
			fns, more = fns[:most], fmt.Sprintf(" and %d more", n-most)
		}
		r.p.notice("%s%s%s: the kernel refuses the instruction", what, strings.Join(fns, ", "), more)
	}
}

// byClass reports whether the name is a class of instructions.
func (r *request) byClass() bool { return strings.HasPrefix(r.d.Provider, "uinstr") }

// inModules makes the probes of all functions that match.
func (r *request) inModules(mods []module) ([]*probe.Probe, error) {
	for _, m := range mods {
		u, err := m.open()
		if err != nil {
			if _, ok := err.(*syntax.Error); ok || len(mods) == 1 {
				return nil, err
			}
			continue
		}
		if err := r.inFile(u, m.name); err != nil {
			return nil, err
		}
	}
	limit := r.limit()
	if r.n > limit {
		return nil, procError("D_PROC_CREATEFAIL", "probe description %s matches %d probes, limit %d (raise with -x maxprobes=)", r.d, r.n, limit)
	}
	r.tellRefused()
	if r.at > limit {
		return nil, procError("D_PROC_CREATEFAIL", "probe description %s matches %d instructions, limit %d (raise with -x maxprobes=)", r.d, r.at, limit)
	}
	return r.out, nil
}

func (r *request) limit() int {
	if n := r.p.host.Option("maxprobes"); n > 0 {
		return int(min(n, probe.KeyMask))
	}
	return defaultMaxProbes
}

// defaultMaxProbes bounds what one description may ask for: an object of a
// million instructions is matched by a slip of the pen.
const defaultMaxProbes = 250_000

// inFile makes the probes of the functions of a file that match.
func (r *request) inFile(u *userFile, mod string) error {
	d := r.d
	u.resolveIndirect()
	if d.Func != "" && !probe.IsGlob(d.Func) {
		idx := u.named[d.Func]
		if len(idx) == 0 && u.witness.pid == 0 && u.isIndirect(d.Func) {
			r.p.findWitness(u, nil)
			u.resolveIndirect()
			idx = u.named[d.Func]
		}
		if len(idx) == 0 {
			if d.Module == "" || probe.IsGlob(d.Module) {
				return nil
			}
			return r.noFunction(u, mod)
		}
		for _, i := range idx {
			if err := r.inFunc(u, mod, u.canonical(i), true); err != nil {
				return err
			}
		}
		return nil
	}
	if d.Func == "" || d.Func == "*" {
		u.readText()
	}
	if probe.Glob(d.Name, "return") && !r.byClass() && r.p.host.Option("pidreturn") != returnAddress {
		u.findExits(func(name string) bool { return probe.Glob(d.Func, name) })
	}
	for i := range u.funcs {
		f := &u.funcs[i]
		// _init and _fini had wrong sizes once; DTrace wants them named.
		if f.Size == 0 || f.Name == "_init" || f.Name == "_fini" || !probe.Glob(d.Func, f.Name) {
			continue
		}
		if err := r.inFunc(u, mod, f, false); err != nil {
			return err
		}
	}
	return nil
}

// canonical is the function i by the name that DTrace shows for it, among those
// of one address: a global one rather than a local one, one with fewer
// underscores in front.
func (u *userFile) canonical(i int) *function {
	f := &u.funcs[i]
	s, ok := u.obj.Lookup(f.Value)
	rank := func(s *symbol.Symbol) int {
		n := len(s.Name) - len(strings.TrimLeft(s.Name, "_"))
		if s.Bind == elf.STB_LOCAL {
			n += 1000
		}
		return n
	}
	if !ok || s.Value != f.Value || rank(&s) >= rank(&f.Symbol) {
		return f
	}
	for _, j := range u.named[s.Name] {
		if u.funcs[j].Value == f.Value {
			return &u.funcs[j]
		}
	}
	return f
}

// noFunction is the error for a function that is not there, with what is there
// instead.
func (r *request) noFunction(u *userFile, mod string) error {
	d := r.d
	e := &syntax.Error{Tag: "D_PROC_FUNC", Msg: fmt.Sprintf("failed to lookup '%s' in module '%s'", d.Func, mod)}
	if u.isIndirect(d.Func) {
		e.Hint = "one of several is chosen when a program starts, and none has started: try '*" + d.Func + "*'"
	} else if len(u.funcs) == 0 {
		e.Hint = "the file has no symbols; instructions can be named as a.out:-:ADDRESS"
	} else if u.isInlined(d.Func) {
		e.Hint = "it was inlined into its callers and has no code of its own: probe a caller, or compile it with __attribute__((noinline))"
	} else if names := u.mangled(d.Func); len(names) > 0 {
		e.Hint = "its symbol is " + strings.Join(names[:min(len(names), 3)], ", ")
		if len(names) > 3 {
			e.Hint += fmt.Sprintf(" or one of %d more", len(names)-3)
		}
	} else if other := r.moduleOf(d.Func); other != "" {
		e.Hint = other + " has a function of that name"
	} else if near := syntax.Nearest(d.Func, slices.Collect(maps.Keys(u.named))); near != "" {
		e.Hint = "did you mean " + near + "?"
	}
	return e
}

// moduleOf is a module of the process that has a function.
func (r *request) moduleOf(name string) string {
	for _, m := range r.mods {
		if u, err := m.open(); err == nil && len(u.named[name]) > 0 {
			return m.name
		}
	}
	return ""
}

// mangled are the symbols of C++ and Rust functions that their source calls by a
// name, with or without what it is a member of.
func (u *userFile) mangled(name string) []string {
	var out []string
	for sym := range u.named {
		if !strings.HasPrefix(sym, "_Z") && !strings.HasPrefix(sym, "_R") {
			continue
		}
		plain, err := demangle.ToString(sym, demangle.NoParams, demangle.NoTemplateParams)
		if err == nil && (plain == name || strings.HasSuffix(plain, "::"+name)) {
			out = append(out, sym)
		}
	}
	slices.Sort(out)
	return out
}

// inFunc makes the probes of one function. explicit says that it was named, so
// that what cannot be done is an error.
func (r *request) inFunc(u *userFile, mod string, f *function, explicit bool) error {
	if r.byClass() {
		return r.classes(u, mod, f, explicit)
	}
	name := r.d.Name
	glob := name == "" || probe.IsGlob(name)
	ret, entry := probe.Glob(name, "return"), probe.Glob(name, "entry")
	if ret {
		exits, err := r.returns(u, f)
		switch {
		case err == nil:
			r.add(u, mod, f.Name, "return", true, exits).typeArgs(u, f)
		case explicit && !glob:
			return procError("D_PROC_CREATEFAIL", "failed to create return probe for '%s': %v", f.Name, err)
		default:
			r.leaveOut(mod, f.Name, "return", err)
		}
	}
	if entry {
		at, err := u.entry(f)
		switch {
		case err == nil:
			r.add(u, mod, f.Name, "entry", false, []exit{at}).typeArgs(u, f)
		case explicit && !glob:
			return procError("D_PROC_CREATEFAIL", "failed to create entry probe for '%s': %v", f.Name, err)
		default:
			r.leaveOut(mod, f.Name, "entry", err)
		}
	}
	if !glob && (ret || entry) {
		return nil
	}
	var want uint64
	if !glob {
		var err error
		if want, err = strconv.ParseUint(strings.TrimPrefix(name, "0x"), 16, 64); err != nil {
			return procError("D_PROC_NAME", "'%s' is an invalid probe name", name)
		}
		if want >= f.Size {
			if !explicit {
				return nil
			}
			return procError("D_PROC_OFF", "offset 0x%x outside of function '%s'", want, f.Name)
		}
	}
	code, err := u.code(f.Func)
	if err != nil {
		if explicit && !glob {
			return procError("D_PROC_CREATEFAIL", "failed to create probes at '%s+0x%x': %v", f.Name, want, err)
		}
		return nil
	}
	found := false
	var refusal error
	err = u.mode().Walk(code, f.Value, func(a insn.At) bool {
		if !glob {
			if uint64(a.Off) < want {
				return true
			}
			if uint64(a.Off) > want {
				return false
			}
		}
		found = true
		how := a.Uprobe()
		if how == insn.Refused {
			refusal = fmt.Errorf("the kernel does not put probes on the instruction, %s", describe(a.Insn))
			return glob
		}
		if s := strconv.FormatUint(uint64(a.Off), 16); !glob || probe.Glob(name, s) {
			r.add(u, mod, f.Name, s, false, []exit{{off: f.Off + uint64(a.Off), fnOff: uint32(a.Off), step: how, kind: kindInsn}})
		}
		return glob
	})
	switch {
	case glob:
		return nil // what follows data in the text is left out
	case !found && err != nil && explicit:
		return procError("D_PROC_CREATEFAIL", "failed to create probes at '%s+0x%x': %v", f.Name, want, err)
	case !found && explicit:
		return procError("D_PROC_ALIGN", "offset 0x%x is not aligned on an instruction", want)
	case refusal != nil && explicit:
		return procError("D_PROC_CREATEFAIL", "failed to create probes at '%s+0x%x': %v", f.Name, want, refusal)
	}
	return nil
}

// classes makes the probes of a function's instructions by their classes: one for
// each class, of all its places.
func (r *request) classes(u *userFile, mod string, f *function, explicit bool) error {
	name := r.d.Name
	if c, ok := insn.ParseClass(name); ok {
		name = c.String()
	}
	one := exact(name) && name != ""
	var refused insn.Insn
	found := false
	for _, part := range append([]symbol.Func{f.Func}, f.cold...) {
		code, err := u.code(part)
		if err != nil {
			if explicit && one {
				return procError("D_PROC_CREATEFAIL", "failed to create probes in '%s': %v", f.Name, err)
			}
			return nil
		}
		// What follows data in the text is left out.
		u.mode().Walk(code, part.Value, func(a insn.At) bool {
			for _, c := range [2]insn.Class{a.Class(), prefixClass(a.Insn)} {
				if slices.Contains(unlisted, c) || a.Map == insn.Map1 && a.Op == 0xcc || !probe.Glob(name, c.String()) {
					continue
				}
				e := exit{off: part.Off + uint64(a.Off), fnOff: uint32(a.Addr - f.Value), step: a.Uprobe(), kind: kindInsn, cond: condition(a.Insn)}
				if e.step == insn.Refused {
					refused = a.Insn
					continue
				}
				if t, ok := a.Target(); ok {
					e.rel = int32(t - a.Addr)
				}
				found = true
				if r.at++; r.at <= r.limit() {
					if s := r.add(u, mod, f.Name, c.String(), false, []exit{e}); s != nil {
						s.byClass = true
					}
				}
			}
			return true
		})
	}
	if one && explicit && !found && refused.Len > 0 {
		return procError("D_PROC_CREATEFAIL", "failed to create probes in '%s': the kernel does not put probes on the instruction, %s", f.Name, describe(refused))
	}
	return nil
}

// The option pidreturn: how returns are seen.
const (
	returnSites   = iota // by probes on the instructions that return
	returnAddress        // by the kernel, which replaces the return address on the stack
)

// returns is where to probe the returns of a function. Replacing the return
// address costs less, and tells the value that a function called in the place
// of this one returns; but it breaks programs that look at their stacks: Go's
// end, C++ that throws ends, and what recurses deeper than 64 calls loses
// returns. So it is done only on request, and never to Go.
func (r *request) returns(u *userFile, f *function) ([]exit, error) {
	if r.p.host.Option("pidreturn") == returnAddress {
		if u.isGo() {
			return nil, errors.New("a Go program does not survive return probes by address (-x pidreturn=address)")
		}
		at, err := u.entry(f)
		at.fnOff, at.kind = 0, kindAddress
		return []exit{at}, err
	}
	return u.exits(f) // none for a function that never returns
}

// address makes the probe of one instruction of the executable, given by its
// address in the process or in the file.
func (r *request) address(m module) ([]*probe.Probe, error) {
	want, err := strconv.ParseUint(strings.TrimPrefix(r.d.Name, "0x"), 16, 64)
	if err != nil {
		return nil, procError("D_PROC_NAME", "'%s' is an invalid probe name", r.d.Name)
	}
	u, err := m.open()
	if err != nil {
		return nil, err
	}
	value := want - m.bias
	if !u.obj.Executable(value) {
		value = want
		if !u.obj.Executable(value) {
			return nil, procError("D_PROC_OFF", "address 0x%x outside of the text of '%s'", want, m.name)
		}
	}
	off, _ := u.obj.Offset(value)
	step := insn.Stepped
	if s, ok := u.obj.Lookup(value); ok && s.Func() && s.Size > 0 {
		code, err := u.code(symbol.Func{Symbol: s})
		if err == nil {
			at, err := u.mode().Boundaries(code, s.Value)
			if _, ok := slices.BinarySearch(at, int(value-s.Value)); !ok && err == nil {
				return nil, procError("D_PROC_ALIGN", "address 0x%x is not aligned on an instruction", want)
			}
		}
	}
	b := make([]byte, insn.MaxLen)
	if err := u.obj.ReadAt(b, value); err == nil {
		if in, err := u.mode().Decode(b); err == nil {
			if step = in.Uprobe(); step == insn.Refused {
				return nil, procError("D_PROC_CREATEFAIL", "failed to create probe at 0x%x: the kernel does not put probes on the instruction, %s", want, describe(in))
			}
		}
	}
	r.add(u, m.name, "-", strconv.FormatUint(want, 16), false, []exit{{off: off, step: step, kind: kindInsn}})
	return r.out, nil
}

// add makes the probe of that name, or adds places to it; nil beyond the limit.
func (r *request) add(u *userFile, mod, fn, name string, ret bool, at []exit) *pidSite {
	p := r.p
	d := probe.Desc{Provider: r.d.Provider, Module: mod, Func: fn, Name: name}
	pr := p.byName[d]
	if pr == nil {
		if r.n++; r.n > r.limit() {
			return nil
		}
		s := &pidSite{pid: r.pid, ret: ret}
		if p.host.Option("followfork") > 0 {
			s.pid = 0 // the session makes the clauses ask whose child it is
		}
		pr = &probe.Probe{ID: userID(len(p.order)), Desc: d, Attr: pidAttr, Site: s}
		s.probe = pr
		p.byName[d] = pr
		p.order = append(p.order, pr)
		r.take(pr)
	} else if s := pr.Site.(*pidSite); s.by != r {
		r.n++
		r.take(pr)
	}
	s := pr.Site.(*pidSite)
	for _, e := range at {
		// A second description may find what the first did.
		if !slices.ContainsFunc(s.places, func(q place) bool { return q.file == u && q.off == e.off }) {
			s.places = append(s.places, place{file: u, exit: e})
		}
	}
	return s
}

// take adds a probe to what the request matched.
func (r *request) take(pr *probe.Probe) {
	pr.Site.(*pidSite).by = r
	r.out = append(r.out, pr)
}

// Mechanism says by what means a probe fires.
func (p *Pid) Mechanism(pr *probe.Probe) string {
	s := pr.Site.(*pidSite)
	count := map[string]int{}
	var order []string
	for _, pl := range s.places {
		how := pl.String()
		if count[how] == 0 {
			order = append(order, how)
		}
		count[how]++
	}
	for i, how := range order {
		if n := count[how]; n > 1 {
			order[i] = strconv.Itoa(n) + " times " + how
		}
	}
	if len(order) == 0 {
		return "none: the function does not return"
	}
	return "uprobe on " + strings.Join(order, ", ")
}

// Groups implements Provider.
func (p *Pid) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	var out []*Attachment
	for _, k := range []struct {
		name                 string
		ret, narrow, byClass bool
	}{{name: "pid_entry"}, {name: "pid_entry32", narrow: true}, {name: "pid_return", ret: true}, {name: "uinstr", byClass: true}} {
		var probes []*probe.Probe
		for _, pr := range enabled {
			s := pr.Site.(*pidSite)
			if s.ret == k.ret && s.byClass == k.byClass && (s.ret || s.byClass || slices.ContainsFunc(s.places, func(pl place) bool { return pl.narrow() == k.narrow })) {
				probes = append(probes, pr)
			}
		}
		if len(probes) == 0 {
			continue
		}
		a, err := uprobeGroup(k.name, k.ret, probes)
		if err != nil {
			return nil, err
		}
		a.Group.Stack32 = k.narrow
		if k.byClass {
			a.Group.Kind = probe.KindUinstr
		}
		if k.ret {
			a.Notes = append(a.Notes, tailNotes(probes)...)
		}
		out = append(out, a)
	}
	return out, nil
}

// narrow tells places in 32-bit code, where arguments lie on the stack.
func (pl place) narrow() bool { return pl.file.mode() == insn.Mode32 }

// tailNotes tells of return probes whose result is asked for and that also fire
// where a function ends by jumping to another: what that returns is not known
// yet. Of many it tells how many.
func tailNotes(probes []*probe.Probe) []string {
	const few = 3
	var notes []string
	n := 0
	for _, pr := range probes {
		if pr.NoArgs {
			continue
		}
		var at []string
		for _, pl := range pr.Site.(*pidSite).places {
			if pl.kind == kindTail || pl.kind == kindTailCond {
				at = append(at, fmt.Sprintf("+0x%x", pl.fnOff))
			}
		}
		if len(at) == 0 {
			continue
		}
		if n++; n <= few {
			notes = append(notes, fmt.Sprintf("%s: the function may end by a jump to another, at %s: arg1 is not the result there", pr.Desc, strings.Join(at, ", ")))
		}
	}
	if n > few {
		return []string{fmt.Sprintf("%d functions may end by a jump to another: arg1 is not the result there", n)}
	}
	return notes
}

// uprobeGroup arranges probes into one program: entries and instructions, or
// returns.
func uprobeGroup(name string, ret bool, probes []*probe.Probe) (*Attachment, error) {
	g := &probe.Group{Kind: probe.KindUprobe, Name: name, AttachType: uprobeAttachType(), Probes: probes}
	if ret {
		g.Kind = probe.KindUretprobe
	}
	if len(probes) > probe.KeyMask {
		return nil, fmt.Errorf("%d %s probes, limit %d", len(probes), name, probe.KeyMask)
	}
	for i, pr := range probes {
		g.Keys = append(g.Keys, uint64(i))
		for _, pl := range pr.Site.(*pidSite).places {
			g.Conds = g.Conds || ret && pl.cond != 0
			g.Behind = g.Behind || pl.kind == kindEntry && pl.fnOff > 0
		}
	}
	a := &Attachment{Group: g}
	a.Attach = func(prog *ebpf.Program) (io.Closer, error) {
		c, refused, err := attachUprobes(prog, uprobeSets(g))
		a.Refused = refused
		return c, err
	}
	return a, nil
}

// uprobeSets arranges the sites of a group by file and process.
func uprobeSets(g *probe.Group) []uprobeSet {
	type key struct {
		file *userFile
		pid  int
		ret  bool
	}
	index := map[key]int{}
	var sets []uprobeSet
	for i, pr := range g.Probes {
		s := pr.Site.(*pidSite)
		for _, pl := range s.places {
			if !s.ret && !s.byClass && pl.narrow() != g.Stack32 {
				continue // the other program's
			}
			k := key{pl.file, s.pid, pl.kind == kindAddress}
			n, ok := index[k]
			if !ok {
				n = len(sets)
				index[k] = n
				sets = append(sets, uprobeSet{file: pl.file.f, name: pl.file.name, pid: s.pid, ret: k.ret})
			}
			cookie := g.Keys[i]
			if s.byClass {
				cookie |= uint64(uint32(pl.rel))<<32 | uint64(pl.cond)<<probe.CondShift
			} else if s.ret || pl.kind == kindEntry {
				cookie |= uint64(pl.fnOff)<<32 | uint64(pl.cond)<<probe.CondShift
			}
			sets[n].sites = append(sets[n].sites, uprobeSite{off: pl.off, cookie: cookie, probe: pr})
		}
	}
	for i := range sets {
		slices.SortStableFunc(sets[i].sites, func(a, b uprobeSite) int { return cmp.Compare(a.off, b.off) })
	}
	return sets
}

// byPath makes the probes of a file named by its path, in all processes.
func (p *Pid) byPath(d probe.Desc) ([]*probe.Probe, error) {
	if !strings.HasPrefix(d.Module, "/") {
		return nil, procError("D_PROC_LIB", "'%s': expected the path of a file", d.Module)
	}
	names := []string{d.Module}
	if probe.IsGlob(d.Module) {
		names, _ = filepath.Glob(d.Module)
	}
	r := &request{p: p, d: d}
	var mods []module
	for _, name := range names {
		mods = append(mods, module{name: name, open: func() (*userFile, error) { return p.openPath(name) }})
	}
	return r.inModules(mods)
}

func (p *Pid) openPath(name string) (*userFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, procError("D_PROC_LIB", "failed to open %s: %v", name, errors.Unwrap(err))
	}
	u, err := p.userFile(f, name, nil)
	if err != nil {
		return nil, procError("D_PROC_LIB", "failed to read %s: %v", name, strings.TrimPrefix(err.Error(), name+": "))
	}
	return u, nil
}

// everywhere makes the probes of libraries and programs in all processes, those
// to come as well: of the system's libraries of that name, of programs on the
// path, and of what is mapped anywhere by that name.
func (p *Pid) everywhere(d probe.Desc) ([]*probe.Probe, error) {
	if d.Module == "" || d.Module == "a.out" || d.Func == "-" {
		return nil, procError("D_PROC_LIB", "pid* needs a library or program: pid*:libc.so.6:%s:%s", d.Func, d.Name)
	}
	if strings.HasPrefix(d.Module, "/") {
		return p.byPath(d)
	}
	seen := map[fileKey]bool{}
	witnesses := map[fileKey]int{}
	var mods []module
	add := func(name string, open func() (*userFile, error), st *unix.Stat_t) {
		key := fileKey{st.Dev, st.Ino}
		if !seen[key] {
			seen[key] = true
			mods = append(mods, module{name: name, open: open})
		}
	}
	for _, dir := range libraryDirs() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			var st unix.Stat_t
			if !strings.Contains(e.Name(), ".so") || !couldBe(d.Module, e.Name()) || unix.Stat(name, &st) != nil || !isELF(name) {
				continue
			}
			add(e.Name(), func() (*userFile, error) { return p.openPath(name) }, &st)
		}
	}
	for _, dir := range programDirs(d.Module) {
		name := filepath.Join(dir, d.Module)
		var st unix.Stat_t
		if unix.Stat(name, &st) == nil && isELF(name) {
			add(d.Module, func() (*userFile, error) { return p.openPath(name) }, &st)
		}
	}
	for _, pid := range process.PIDs() {
		f, err := os.Open(procPath(pid, "maps"))
		if err != nil {
			continue
		}
		maps, _ := symbol.ParseMaps(f)
		f.Close()
		for _, m := range maps {
			if !m.Exec() || m.Inode == 0 || !couldBe(d.Module, m.Module()) {
				continue
			}
			file := fmt.Sprintf("%s/%x-%x", procPath(pid, "map_files"), m.Start, m.End)
			var st unix.Stat_t
			if unix.Stat(file, &st) != nil {
				file = procPath(pid, "root") + m.Path
				if unix.Stat(file, &st) != nil || st.Ino != m.Inode {
					continue
				}
			}
			add(m.Module(), func() (*userFile, error) { return p.openPath(file) }, &st)
			if key := (fileKey{st.Dev, st.Ino}); witnesses[key] == 0 {
				witnesses[key] = pid
			}
		}
	}
	chosen := p.chooseFiles(mods, d.Module)
	if len(chosen) == 0 {
		if exact(d.Module) {
			p.hints[d.String()] = fmt.Sprintf("no process has mapped %s now, nor is it where libraries and programs are; a file is named by its path: uprobe:/PATH/%[1]s:%s:%s", d.Module, d.Func, d.Name)
		}
		return nil, nil
	}
	for i := range chosen {
		open := chosen[i].open
		chosen[i].open = func() (*userFile, error) {
			u, err := open()
			if err == nil && u.witness.pid == 0 {
				p.findWitness(u, witnesses)
			}
			return u, err
		}
	}
	// Copies of a library may differ: a function must be in one of them.
	r := &request{p: p, d: d}
	if d.Func == "" || probe.IsGlob(d.Func) || len(chosen) == 1 {
		return r.inModules(chosen)
	}
	var first error
	for _, m := range chosen {
		if _, err := r.inModules([]module{m}); err != nil && first == nil {
			first = err
		}
	}
	if len(r.out) == 0 && first != nil {
		return nil, first
	}
	return r.out, nil
}

// findWitness looks for a process that has a file mapped: the one that pids
// has, or, where that is nil, among all.
func (p *Pid) findWitness(u *userFile, pids map[fileKey]int) {
	var st unix.Stat_t
	if unix.Fstat(int(u.f.Fd()), &st) != nil {
		return
	}
	pid := pids[fileKey{st.Dev, st.Ino}]
	if pids == nil {
		all := process.PIDs()
		i := slices.IndexFunc(all, func(pid int) bool {
			f, err := os.Open(procPath(pid, "maps"))
			if err != nil {
				return false
			}
			defer f.Close()
			maps, _ := symbol.ParseMaps(f)
			return slices.ContainsFunc(maps, func(m symbol.Mapping) bool {
				return m.Inode == st.Ino && path.Base(m.Path) == path.Base(u.name)
			})
		})
		if i >= 0 {
			pid = all[i]
		}
	}
	if pid == 0 {
		return
	}
	proc, err := p.host.Procs.Process(pid)
	if err != nil {
		return
	}
	for _, o := range proc.Objects() {
		if o.Mapping.Inode == st.Ino {
			u.witness = witness{pid, o.Bias}
			return
		}
	}
}

// isELF tells a library from a linker script of its name.
func isELF(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	n, _ := f.Read(magic[:])
	return string(magic[:n]) == elf.ELFMAG
}

// couldBe is a first look at whether a description may mean a module.
func couldBe(pattern, name string) bool {
	if probe.IsGlob(pattern) {
		return probe.Glob(pattern, name)
	}
	stem, _, _ := strings.Cut(pattern, ".so")
	return name == pattern || strings.HasPrefix(name, stem+".so") || strings.HasPrefix(name, pattern+".")
}

// chooseFiles is choose for pid*: of all names that a shortened one may mean,
// all files of the first.
func (p *Pid) chooseFiles(mods []module, name string) []module {
	if probe.IsGlob(name) {
		return mods
	}
	if out := filter(mods, func(m module) bool { return m.name == name }); out != nil {
		return out
	}
	if len(mods) == 0 {
		return nil
	}
	first := mods[0].name
	if strings.Contains(name, ".so.") {
		p.notice("there is no %s; taken for %s", name, first)
	}
	return filter(mods, func(m module) bool { return m.name == first })
}

// programDirs are the directories where a module that is no library may be.
func programDirs(name string) []string {
	if name == "" || probe.IsGlob(name) || strings.ContainsAny(name, "/") || strings.Contains(name, ".so") {
		return nil
	}
	return filepath.SplitList(os.Getenv("PATH"))
}

// libraryDirs are the directories where the dynamic linker looks.
func libraryDirs() []string {
	dirs := []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}
	files, _ := filepath.Glob("/etc/ld.so.conf.d/*.conf")
	for _, name := range append(files, "/etc/ld.so.conf") {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") && !slices.Contains(dirs, line) {
				dirs = append(dirs, line)
			}
		}
	}
	return dirs
}
