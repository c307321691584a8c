package provider

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"godtrace/internal/btf"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/symbol"
	"godtrace/internal/syscalls"
	"godtrace/internal/tracefs"
	"godtrace/internal/types"
)

// Fbt is the provider of function boundaries of the kernel:
// fbt:MODULE:FUNC:entry and :return, for every function that the kernel's
// function tracer can reach. Left out of the kernel's own list are only
//
//   - names that occur before: static functions share names; one probe fires for all,
//   - names with a dot, which the compiler made up (.isra.0, .part.0, .constprop.0):
//     their arguments are not those of the source. The provider rawfbt has them.
type Fbt struct {
	// Engine chooses how probes are attached: "" or "auto", "fentry", "multi",
	// "kprobe". Set it before Groups.
	Engine string
	// Return chooses how returns are found: "" by the engine, "insn" by probes on
	// the return instructions.
	Return string
	// Late has every description watched for modules that are loaded later; without
	// it those that name a module, or match nothing yet, are.
	Late bool

	list    []*kfunc          // all, once listed
	funcs   map[string]*kfunc // by module:name
	modules map[string]uint64 // those loaded when the list was made
	more    int               // functions numbered so far that vmlinux's BTF does not have
	how     map[*probe.Probe]string
}

// kfunc is a function of the kernel with its two probes.
type kfunc struct {
	module, name string
	addrs        []uint64 // nil where not known yet
	btf          btf.ID   // 0: BTF has no such function
	probes       [2]*probe.Probe
}

// fbtSite is a probe's Site.
type fbtSite struct {
	fn  *kfunc
	ret bool
}

var fbtAttr = &probe.Attributes{
	Provider: probe.Attr{Name: "Evolving", Data: "Evolving", Class: "Common"},
	Module:   probe.Attr{Name: "Private", Data: "Private", Class: "Unknown"},
	Func:     probe.Attr{Name: "Private", Data: "Private", Class: "ISA"},
	Name:     probe.Attr{Name: "Evolving", Data: "Evolving", Class: "Common"},
	Args:     probe.Attr{Name: "Private", Data: "Private", Class: "ISA"},
}

func newFbt() *Fbt {
	return &Fbt{funcs: map[string]*kfunc{}, how: map[*probe.Probe]string{}}
}

// Name implements Provider.
func (*Fbt) Name() string { return "fbt" }

// sides are the names of the probes of a function.
var sides = [2]string{"entry", "return"}

// matchesSide reports whether a name can mean the probe of a function.
func matchesSide(name string) bool { return probe.Glob(name, sides[0]) || probe.Glob(name, sides[1]) }

// exact reports whether a part of a description names one thing.
func exact(part string) bool { return part != "" && !probe.IsGlob(part) }

// Probes implements Provider. A function named in full is looked up in BTF,
// which takes a millisecond; anything else lists.
func (p *Fbt) Probes(d probe.Desc) ([]*probe.Probe, error) {
	if !probe.Glob(d.Provider, "fbt") || !matchesSide(d.Name) {
		return nil, nil
	}
	named := d.Provider == "fbt"
	if exact(d.Func) && strings.Contains(d.Func, ".") {
		return nil, nil // see rawfbt
	}
	if !tracefs.CanTraceFunctions() && !haveKprobes() {
		if named {
			return nil, &kernel.FeatureError{Name: "tracing of kernel functions", Since: "Linux 4.20 with CONFIG_FUNCTION_TRACER or CONFIG_KPROBES",
				Workaround: "use the providers sdt, rawtp and syscall, which need no patching of kernel text"}
		}
		return nil, nil
	}
	var out []*probe.Probe
	add := func(f *kfunc) {
		for i, side := range sides {
			if probe.Glob(d.Name, side) {
				out = append(out, f.probes[i])
			}
		}
	}
	if exact(d.Func) && p.list == nil {
		fs, known := p.lookup(d)
		if known {
			for _, f := range fs {
				add(f)
			}
			return out, nil
		}
		if !named {
			return nil, nil
		}
	}
	if err := p.load(); err != nil {
		if named {
			return nil, err
		}
		return nil, nil
	}
	for _, f := range p.list {
		if probe.Glob(d.Module, f.module) && probe.Glob(d.Func, f.name) {
			add(f)
		}
	}
	return out, nil
}

// Hint implements Hinter: why a function that has no probe may have none.
func (p *Fbt) Hint(desc, hint string) string {
	return cmp.Or(whyNot(desc), hint, "the running kernel has no function of that name; the compiler may have inlined it into those that call it")
}

// whyNot says that what the compiler made of a function has another name, or
// that the kernel keeps tracers out of it; "" if neither is known.
func whyNot(desc string) string {
	parts := strings.Split(desc, ":")
	if len(parts) != 4 || !exact(parts[2]) || !matchesSide(parts[3]) {
		return ""
	}
	k, err := symbol.KernelSymbols()
	if err != nil {
		return ""
	}
	name, there, made := parts[2], false, ""
	for s := range k.All() {
		if !s.Func() || !probe.Glob(parts[1], s.Module) {
			continue
		}
		rest, ok := strings.CutPrefix(s.Name, name)
		switch {
		case !ok || strings.HasSuffix(rest, ".cold"):
		case rest == "":
			there = true
		case rest[0] == '.' && made == "":
			made = s.Name
		}
	}
	switch {
	case there && strings.Contains(name, "."):
		return fmt.Sprintf("the name is the compiler's, and its arguments need not be those of the source: rawfbt::%s:%s", name, parts[3])
	case there:
		return "the kernel has the function but keeps tracers out of it"
	case made != "":
		return fmt.Sprintf("the compiler made %s of it: rawfbt::%s:%s", made, made, parts[3])
	}
	return ""
}

// lookup finds a function by its name in the BTF of vmlinux and the modules.
// known is false where BTF cannot tell whether there is one: some functions are
// not in it.
func (p *Fbt) lookup(d probe.Desc) (fs []*kfunc, known bool) {
	set, err := KernelBTF()
	if err != nil {
		return nil, false
	}
	if probe.Glob(d.Module, symbol.Vmlinux) {
		if id, ok := set.VMLinux.FuncID(d.Func); ok {
			fs = append(fs, p.get(symbol.Vmlinux, d.Func, id))
		}
	}
	if d.Module == symbol.Vmlinux {
		return fs, len(fs) > 0
	}
	// In a description without a provider, read:entry means the system call: do
	// not open the BTF of every module for it.
	if d.Provider == "" && d.Module == "" {
		if isSyscall(d.Func) {
			return fs, len(fs) > 0
		}
	}
	inModule := false
	for _, m := range set.Modules() {
		if !probe.Glob(d.Module, m) {
			continue
		}
		if spec, err := set.Module(m); err == nil {
			for _, id := range spec.IDs(d.Func) {
				inModule = inModule || spec.Kind(id) == btf.KindFunc
			}
		}
	}
	if inModule {
		return nil, false // modules' functions are numbered by the list
	}
	return fs, len(fs) > 0
}

func isSyscall(name string) bool {
	for nr := range syscalls.Max {
		if syscalls.Name(syscalls.AMD64, nr) == name {
			return true
		}
	}
	return false
}

// get makes the function and its probes. Those in vmlinux's BTF are numbered
// by it, so that one function can be looked up without listing all.
func (p *Fbt) get(module, name string, id btf.ID) *kfunc {
	key := module + ":" + name
	f := p.funcs[key]
	if f == nil {
		f = &kfunc{module: module, name: name}
		p.funcs[key] = f
		f.makeProbes("fbt", baseFbt+2*int(id), fbtAttr)
		f.btf = id
		f.probes[0].ArgsFn = func() []probe.Arg { return f.args(false) }
		f.probes[1].ArgsFn = func() []probe.Arg { return f.args(true) }
	}
	return f
}

func (f *kfunc) makeProbes(provider string, id int, attr *probe.Attributes) {
	both := new([2]probe.Probe)
	for i, side := range sides {
		both[i] = probe.Probe{
			ID:   id + i,
			Desc: probe.Desc{Provider: provider, Module: f.module, Func: f.name, Name: side},
			Attr: attr,
			Site: fbtSite{f, i == 1},
		}
		f.probes[i] = &both[i]
	}
}

// load reads the list of functions that can be traced.
func (p *Fbt) load() error {
	if p.list != nil {
		return nil
	}
	funcs, err := tracefs.Functions()
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return &kernel.FeatureError{Name: "the list of functions that can be traced", Since: "Linux 2.6.27 with CONFIG_DYNAMIC_FTRACE", Workaround: "name a function in full"}
		}
		return fmt.Errorf("fbt probes: %w", err)
	}
	ids := map[string]btf.ID{}
	if set, err := KernelBTF(); err == nil {
		for id := range set.VMLinux.All(btf.KindFunc) {
			ids[set.VMLinux.TypeName(id)] = id
		}
	}
	list := make([]*kfunc, 0, len(funcs))
	seen := make(map[string]bool, len(funcs))
	for _, fn := range funcs {
		if strings.Contains(fn.Name, ".") {
			continue
		}
		key := fn.Module + ":" + fn.Name
		f := p.funcs[key]
		switch {
		case f != nil:
		case fn.Module == symbol.Vmlinux && ids[fn.Name] != 0:
			f = p.get(fn.Module, fn.Name, ids[fn.Name])
		default:
			f = &kfunc{module: fn.Module, name: fn.Name}
			f.makeProbes("fbt", baseFbtMore+2*p.more, fbtAttr)
			p.more++
			f.probes[0].ArgsFn = func() []probe.Arg { return f.args(false) }
			f.probes[1].ArgsFn = func() []probe.Arg { return f.args(true) }
			p.funcs[key] = f
		}
		if fn.Addr != 0 && !slices.Contains(f.addrs, fn.Addr) {
			f.addrs = append(f.addrs, fn.Addr)
		}
		if !seen[key] {
			seen[key] = true
			list = append(list, f)
		}
	}
	p.list = list
	p.modules = loadedModules()
	return nil
}

// proto finds the function in the BTF of its module.
func (f *kfunc) proto() (spec *btf.Spec, id, ret btf.ID, params []btf.Param, variadic, ok bool) {
	set, err := KernelBTF()
	if err != nil {
		return
	}
	if spec, err = set.Module(f.module); err != nil {
		return
	}
	if id = f.btf; id == 0 {
		for _, i := range spec.IDs(f.name) {
			if spec.Kind(i) == btf.KindFunc {
				id = i
			}
		}
		if id == 0 {
			return
		}
		f.btf = id
	}
	ret, params, variadic, err = spec.Proto(id)
	return spec, id, ret, params, variadic, err == nil
}

// args are the typed arguments of the entry probe, the parameters, or of the
// return probe: the offset of the return instruction (-1 where the engine
// cannot know it) and the value returned.
func (f *kfunc) args(isReturn bool) []probe.Arg {
	spec, _, ret, params, _, ok := f.proto()
	if !ok {
		return nil
	}
	if isReturn {
		out := []probe.Arg{{Name: "offset", Native: types.TInt}}
		if ret == 0 {
			return out
		}
		t, err := spec.Type(ret)
		if err != nil {
			return nil
		}
		return append(out, probe.Arg{Native: t, From: 1})
	}
	out := make([]probe.Arg, 0, len(params))
	for i, pm := range params {
		t, err := spec.Type(pm.Type)
		if err != nil {
			return nil
		}
		out = append(out, probe.Arg{Name: pm.Name, Native: t, From: i})
	}
	return out
}

// Mechanism says how the kernel reaches a probe: "fentry", "kretprobe.multi" and
// the like. For one that is not enabled it is what it would be if it were the
// only one.
func (p *Fbt) Mechanism(pr *probe.Probe) string {
	if p.how[pr] == "" {
		if _, err := p.Groups([]*probe.Probe{pr}); err != nil {
			return "none: " + err.Error()
		}
		how := p.how[pr]
		delete(p.how, pr)
		return how
	}
	return p.how[pr]
}

// Groups implements Provider.
func (p *Fbt) Groups(enabled []*probe.Probe) ([]*Attachment, error) {
	if len(enabled) == 0 {
		return nil, nil
	}
	engine := p.Engine
	var inModules []*probe.Probe
	switch engine {
	case "", "auto":
		// A trampoline or a multi link holds a module in the kernel, a kprobe goes
		// with it.
		if p.Return != "insn" {
			enabled, inModules = splitModules(enabled)
		}
		engine = chooseEngine(enabled)
		if engine == "kprobe" && len(enabled) > maxKprobes {
			return nil, fmt.Errorf("%d kernel functions to be attached one by one: %w", len(enabled), errNoMulti)
		}
	case "fentry", "kprobe":
	case "multi":
		if !haveMulti() {
			return nil, errNoMulti
		}
	default:
		return nil, fmt.Errorf("fbt engine %q: expected auto, fentry, multi or kprobe", p.Engine)
	}
	var out []*Attachment
	var perSide [2][]*probe.Probe
	for _, pr := range enabled {
		site := pr.Site.(fbtSite)
		side := 0
		if site.ret {
			side = 1
		}
		if pr.Overrides {
			out = append(out, kprobeGroup("fbt_override", []*probe.Probe{pr}, false))
			p.how[pr] = "kprobe"
			continue
		}
		if engine == "fentry" && !(site.ret && p.Return == "insn") {
			a, err := fentryGroup(pr, site)
			if err != nil {
				return nil, fmt.Errorf("%s: fentry: %w", pr.Desc, err)
			}
			p.how[pr] = [2]string{"fentry", "fexit"}[side]
			out = append(out, a)
			continue
		}
		perSide[side] = append(perSide[side], pr)
	}
	for side, prs := range bySide(inModules) {
		if len(prs) > 0 {
			out = append(out, kprobeGroup("fbt_modules", prs, side == 1))
			p.tell(prs, [2]string{"kprobe", "kretprobe"}[side])
		}
	}
	if engine == "multi" && p.Return != "insn" && haveSessions() {
		var both [2][]*probe.Probe
		perSide, both = splitBoth(perSide)
		if len(both[0]) > 0 {
			out = append(out, sessionGroups(both[0], both[1])...)
			p.tell(slices.Concat(both[0], both[1]), "kprobe.session")
		}
	}
	for side, prs := range perSide {
		if len(prs) == 0 {
			continue
		}
		ret := side == 1
		var as []*Attachment
		switch {
		case ret && p.Return == "insn":
			var err error
			if as, err = returnGroups(prs); err != nil {
				return nil, err
			}
			p.tell(prs, "kprobe on return instructions")
		case engine == "multi":
			as = []*Attachment{multiGroup("fbt", prs, ret, typeKprobeMulti)}
			p.tell(prs, [2]string{"kprobe.multi", "kretprobe.multi"}[side])
		default:
			as = []*Attachment{kprobeGroup("fbt", prs, ret)}
			p.tell(prs, [2]string{"kprobe", "kretprobe"}[side])
		}
		out = append(out, as...)
	}
	return out, nil
}

// maxInModules is how many functions of modules are attached one by one, which
// is slow, so that the modules can be unloaded meanwhile.
const maxInModules = 500

// splitModules separates the probes of modules from those of vmlinux, unless
// they are too many to be treated differently, or ask for what kprobes lack.
func splitModules(prs []*probe.Probe) (vmlinux, modules []*probe.Probe) {
	for _, pr := range prs {
		if pr.Desc.Module == symbol.Vmlinux || pr.Overrides {
			vmlinux = append(vmlinux, pr)
		} else {
			modules = append(modules, pr)
		}
	}
	if len(modules) > maxInModules || !haveKprobes() {
		return prs, nil
	}
	return vmlinux, modules
}

func bySide(prs []*probe.Probe) (out [2][]*probe.Probe) {
	for _, pr := range prs {
		side := 0
		if pr.Site.(fbtSite).ret {
			side = 1
		}
		out[side] = append(out[side], pr)
	}
	return out
}

// splitBoth takes out the functions of which both sides are enabled, in the
// same order on both.
func splitBoth(perSide [2][]*probe.Probe) (rest, both [2][]*probe.Probe) {
	returns := make(map[*kfunc]*probe.Probe, len(perSide[1]))
	for _, pr := range perSide[1] {
		returns[pr.Site.(fbtSite).fn] = pr
	}
	for _, pr := range perSide[0] {
		fn := pr.Site.(fbtSite).fn
		if r := returns[fn]; r != nil {
			both[0], both[1] = append(both[0], pr), append(both[1], r)
			delete(returns, fn)
		} else {
			rest[0] = append(rest[0], pr)
		}
	}
	for _, pr := range perSide[1] {
		if returns[pr.Site.(fbtSite).fn] != nil {
			rest[1] = append(rest[1], pr)
		}
	}
	return rest, both
}

// Grows implements Grower.
func (p *Fbt) Grows(d probe.Desc, matched int) int {
	if !probe.Glob(d.Provider, "fbt") || !matchesSide(d.Name) || d.Module == symbol.Vmlinux {
		return 0
	}
	if p.Late || d.Provider == "fbt" && (d.Module != "" || matched == 0) {
		return KernelModules
	}
	return 0
}

// Loaded implements Grower: what was known of modules is out of date.
func (p *Fbt) Loaded(pid int) {
	if pid != KernelModules {
		return
	}
	p.list = nil
	now := loadedModules()
	for key, f := range p.funcs {
		if f.module != symbol.Vmlinux && (now[f.module] == 0 || now[f.module] != p.modules[f.module]) {
			delete(p.funcs, key)
		}
	}
}

// MayOverride reports whether the action return() can be used in a probe: it is
// the entry of a function on the kernel's list of those that error injection
// may make fail.
func MayOverride(pr *probe.Probe) bool {
	site, ok := pr.Site.(fbtSite)
	return ok && !site.ret && injectable()[site.fn.name]
}

// injectable reads the list of functions that may be made to fail, lines of
// "NAME\tKIND"; it is empty where the kernel was built without error injection.
var injectable = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	b, err := os.ReadFile("/sys/kernel/debug/error_injection/list")
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 0 {
			out[f[0]] = true
		}
	}
	return out
})

func (p *Fbt) tell(prs []*probe.Probe, how string) {
	for _, pr := range prs {
		p.how[pr] = how
	}
}

// maxFentry is how many probes get a program and a trampoline of their own:
// the cheapest firing there is, but each takes milliseconds to attach.
const maxFentry = 8

// maxKprobes is how many functions are attached one by one unless that is asked
// for: each takes milliseconds.
const maxKprobes = 2000

// chooseEngine takes fentry for a handful of functions the verifier admits it
// for, a multi link for more, and kprobes one by one where there are none.
func chooseEngine(enabled []*probe.Probe) string {
	if len(enabled) <= maxFentry && !slices.ContainsFunc(enabled, func(pr *probe.Probe) bool {
		return !canFentry(pr.Site.(fbtSite))
	}) {
		return "fentry"
	}
	if haveMulti() {
		return "multi"
	}
	return "kprobe"
}
