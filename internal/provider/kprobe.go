package provider

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/btf"
	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/symbol"
)

// The ways into a kernel function. Program types, attach types and flags are
// those of include/uapi/linux/bpf.h.
const (
	progKprobe  = 2
	progTracing = 26

	typeFentry      = 24
	typeFexit       = 25
	typeKprobeMulti = 42

	multiReturn = 1 // BPF_F_KPROBE_MULTI_RETURN
)

var errNoMulti = &kernel.FeatureError{Name: "multi links of kprobes", Since: "Linux 5.18 with CONFIG_FPROBE", Workaround: "-x fbt=kprobe attaches probe by probe"}

// multiLink attaches a program to many functions: by name, or by address where
// addrs is not nil. typ is the attach type that it was loaded for.
func multiLink(prog int, typ uint32, names []string, addrs, cookies []uint64, ret bool) (int, error) {
	attr := struct {
		prog, target, typ, flags uint32
		multiFlags, cnt          uint32
		syms                     **byte
		addrs, cookies           *uint64
	}{prog: uint32(prog), typ: typ, cnt: uint32(len(cookies))}
	if ret {
		attr.multiFlags = multiReturn
	}
	switch {
	case len(cookies) == 0:
	case addrs != nil:
		attr.addrs = &addrs[0]
	default:
		ptrs, err := syscall.SlicePtrFromStrings(names)
		if err != nil {
			return -1, err
		}
		attr.syms = &ptrs[0]
	}
	if len(cookies) > 0 {
		attr.cookies = &cookies[0]
	}
	return kernel.BPF(unix.BPF_LINK_CREATE, &attr)
}

// haveMulti reports whether the kernel has multi links of kprobes. One that
// does complains about a link of nothing; Debian's 6.1, built without fprobes,
// knows the type but not the operation.
var haveMulti = sync.OnceValue(func() bool {
	fd, err := loadEmpty(progKprobe, typeKprobeMulti, 0, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	l, err := multiLink(fd, typeKprobeMulti, nil, nil, nil, false)
	if err == nil {
		unix.Close(l)
	}
	return errors.Is(err, unix.EINVAL) || err == nil
})

// kprobePMU is the perf event type of kprobes, from sysfs; 0: there is none.
var kprobePMU = sync.OnceValue(func() uint32 { return kernel.EventSource("kprobe") })

func haveKprobes() bool { return kprobePMU() != 0 }

// attachKprobe puts prog on an instruction: at offset off of the function
// called name, or where name is "" at the address off. A cookie goes with it.
func attachKprobe(prog *ebpf.Program, name string, off uint64, ret bool, cookie uint64) (io.Closer, error) {
	if !haveKprobes() {
		return nil, errNoKprobes
	}
	attr := unix.PerfEventAttr{Type: kprobePMU(), Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Ext2: off}
	if ret {
		attr.Config = 1 // format/retprobe: config:0
	}
	var b *byte
	if name != "" {
		var err error
		if b, err = unix.BytePtrFromString(name); err != nil {
			return nil, err
		}
		attr.Ext1 = uint64(uintptr(unsafe.Pointer(b)))
	}
	ev, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	runtime.KeepAlive(b)
	if err != nil {
		return nil, err
	}
	return attachPerf(prog, ev, cookie)
}

// canFentry asks the verifier whether a program may be attached by a
// trampoline: the function must be one place, in BTF, and its arguments of
// types that trampolines pass on.
func canFentry(site fbtSite) bool {
	fn := site.fn
	if len(fn.addrs) > 1 || !fn.unique() {
		return false
	}
	spec, id, _, params, variadic, ok := fn.proto()
	if !ok || variadic {
		return false
	}
	// The registers that pass the arguments; a structure may take two.
	words := 0
	for _, p := range params {
		t, err := spec.Type(p.Type)
		if err != nil {
			return false
		}
		words += max(1, int(t.Size()+7)/8)
	}
	obj, done, err := moduleBTF(fn.module)
	if err != nil {
		return false
	}
	defer done()
	typ := uint32(typeFentry)
	if site.ret {
		typ = typeFexit
	}
	fd, err := loadEmpty(progTracing, typ, uint32(id), obj)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if words <= 6 {
		return true
	}
	// Arguments on the stack are beyond trampolines before 6.6, as only
	// attaching tells.
	l, err := openTracing(fd)
	if err != nil {
		return false
	}
	unix.Close(l)
	return true
}

// openTracing attaches a program that was loaded for a trampoline.
func openTracing(prog int) (int, error) {
	return rawTracepointOpen(nil, prog, 0)
}

// unique reports that BTF knows one function of that name. The kernel leaves
// functions out of BTF whose namesakes have other prototypes.
func (f *kfunc) unique() bool {
	set, err := KernelBTF()
	if err != nil {
		return false
	}
	spec, err := set.Module(f.module)
	if err != nil {
		return false
	}
	n := 0
	for _, id := range spec.IDs(f.name) {
		if spec.Kind(id) == btf.KindFunc {
			n++
		}
	}
	return n == 1
}

// moduleBTF gives a descriptor of the kernel's own copy of a module's BTF; 0 is
// vmlinux. done closes it.
func moduleBTF(module string) (fd uint32, done func(), err error) {
	if module == symbol.Vmlinux {
		return 0, func() {}, nil
	}
	var id uint32
	for {
		next := struct{ start, next, flags uint32 }{start: id}
		if _, err := kernel.BPF(unix.BPF_BTF_GET_NEXT_ID, &next); err != nil {
			return 0, nil, fmt.Errorf("BTF of module %s: %w", module, err)
		}
		id = next.next
		get := struct{ id, next, flags uint32 }{id: id}
		f, err := kernel.BPF(unix.BPF_BTF_GET_FD_BY_ID, &get)
		if err != nil {
			continue // gone
		}
		if name, kernel := btfName(f); kernel && name == module {
			return uint32(f), func() { unix.Close(f) }, nil
		}
		unix.Close(f)
	}
}

// objectInfo reads what the kernel tells of a descriptor of BPF's: a struct
// bpf_…_info, or its beginning.
func objectInfo[T any](fd int, info *T) error {
	attr := struct {
		fd, len uint32
		info    *T
	}{uint32(fd), uint32(unsafe.Sizeof(*info)), info}
	_, err := kernel.BPF(unix.BPF_OBJ_GET_INFO_BY_FD, &attr)
	return err
}

// btfName reads the name of a BTF object and whether it is the kernel's
// (struct bpf_btf_info).
func btfName(fd int) (name string, kernel bool) {
	var buf [64]byte
	info := struct {
		btf           unsafe.Pointer
		size, id      uint32
		name          *[64]byte
		nameLen, kern uint32
	}{name: &buf, nameLen: uint32(len(buf))}
	if err := objectInfo(fd, &info); err != nil {
		return "", false
	}
	return unix.ByteSliceToString(buf[:]), info.kern != 0
}

// fentryGroup attaches one probe by a trampoline.
func fentryGroup(pr *probe.Probe, site fbtSite) (*Attachment, error) {
	_, id, ret, params, _, ok := site.fn.proto()
	if !ok {
		return nil, errors.New("BTF has no such function")
	}
	obj, _, err := moduleBTF(site.fn.module) // stays open: the load needs it
	if err != nil {
		return nil, err
	}
	g := &probe.Group{
		Kind: probe.KindFentry, Name: site.fn.name, Probes: []*probe.Probe{pr}, NArgs: len(params),
		AttachTo: site.fn.name, AttachBTF: uint32(id), AttachObj: obj, AttachType: typeFentry, Void: ret == 0,
	}
	if site.ret {
		g.Kind, g.AttachType = probe.KindFexit, typeFexit
	}
	attach := func(prog *ebpf.Program) (io.Closer, error) {
		fd, err := openTracing(prog.FD())
		runtime.KeepAlive(prog)
		if obj != 0 {
			unix.Close(int(obj))
		}
		if err != nil {
			return nil, refusal(pr, err)
		}
		return fdCloser(fd), nil
	}
	return &Attachment{Group: g, Attach: attach}, nil
}

// refusal words the kernel's reasons.
func refusal(pr *probe.Probe, err error) error {
	why := ""
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
		why = "the kernel has no such function, or its tracer cannot reach it"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		why = "several functions share the name"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EILSEQ):
		why = "the kernel allows no probe there"
	case errors.Is(err, unix.EBUSY):
		why = "another tracer holds the function"
	default:
		return fmt.Errorf("%s: %w", pr.Desc, err)
	}
	return fmt.Errorf("%s: %s (%w)", pr.Desc, why, err)
}

// indexGroup is a group whose keys number its probes.
func indexGroup(kind probe.Kind, name string, prs []*probe.Probe) *probe.Group {
	g := &probe.Group{Kind: kind, Name: name, Probes: prs}
	for i := range prs {
		g.Keys = append(g.Keys, uint64(i))
	}
	return g
}

// target is one place that a probe is to be attached to.
type target struct {
	pr     *probe.Probe
	name   string // for messages; and where addr is 0, to attach by
	addr   uint64
	cookie uint64
}

// targets are all places of the functions of probes: one function may be
// several, and cookies are the probes' places in the list.
func targets(prs []*probe.Probe) []target {
	var out []target
	for i, pr := range prs {
		fn := pr.Site.(fbtSite).fn
		if len(fn.addrs) == 0 {
			out = append(out, target{pr, fn.name, 0, uint64(i)})
		}
		for _, a := range fn.addrs {
			out = append(out, target{pr, fn.name, a, uint64(i)})
		}
	}
	return out
}

// functions is a group of entries or returns of functions, still without the
// way to attach it.
func functions(name string, prs []*probe.Probe, ret bool) *Attachment {
	if ret {
		return &Attachment{Group: indexGroup(probe.KindKretprobe, name+"_ret", prs)}
	}
	return &Attachment{Group: indexGroup(probe.KindKprobe, name, prs)}
}

// multiGroup attaches many functions by one link. Functions the kernel refuses
// are found by halving, and reported.
func multiGroup(name string, prs []*probe.Probe, ret bool, typ uint32) *Attachment {
	a := functions(name, prs, ret)
	a.Group.AttachType = typ
	a.Attach = func(prog *ebpf.Program) (io.Closer, error) {
		cs, err := a.attachMulti(prog.FD(), prs, ret)
		runtime.KeepAlive(prog)
		if err == nil && ret {
			a.count(cs)
		}
		return cs, err
	}
	return a
}

// attachMulti attaches a program to all functions of probes; the closers are
// links.
func (a *Attachment) attachMulti(prog int, prs []*probe.Probe, ret bool) (closers, error) {
	var byName, byAddr []target
	for _, t := range targets(prs) {
		if len(prs) >= bulk && slices.Contains(everyFiring, t.name) {
			a.Refused = append(a.Refused, Refusal{t.pr, fmt.Errorf("%s: left out of so many: every firing runs it", t.pr.Desc)})
			continue
		}
		if t.addr != 0 {
			byAddr = append(byAddr, t)
		} else {
			byName = append(byName, t)
		}
	}
	if err := toEntries(byAddr); err != nil {
		return nil, err
	}
	var cs closers
	for _, ts := range [][]target{byAddr, byName} {
		cs = append(cs, a.multi(prog, ts, ret)...)
	}
	if len(cs) == 0 {
		if len(a.Refused) == 0 {
			return nil, errors.New("no functions")
		}
		return nil, a.Refused[0].Err
	}
	return cs, nil
}

// toEntries turns the addresses that ftrace patches into those where the
// functions begin, which the kernel compares when a firing asks for its cookie:
// where an ENDBR comes first they lie 4 bytes apart.
func toEntries(ts []target) error {
	if len(ts) == 0 {
		return nil
	}
	k, err := symbol.KernelSymbols()
	if err != nil {
		return err
	}
	for i := range ts {
		const endbr = 4
		if a := ts[i].addr; k.Size(a) == 0 && k.Size(a-endbr) != 0 {
			ts[i].addr = a - endbr
		}
	}
	return nil
}

// everyFiring are functions that the kernel itself runs in each firing of a
// multi link, the second group for its cookie. A firing within a firing is
// skipped and counted, but costs as much as one that is not; so from bulk
// functions on they are left out.
var everyFiring = []string{
	"__rcu_read_lock", "__rcu_read_unlock", "migrate_disable", "migrate_enable",
	"bsearch", "bpf_kprobe_multi_cookie_cmp", "bpf_get_attach_cookie_kprobe_multi",
}

const bulk = 1000

// maxRefused bounds the search for refused functions: halving costs some ten
// attempts for each.
const maxRefused = 200

func (a *Attachment) multi(prog int, ts []target, ret bool) closers {
	if len(ts) == 0 {
		return nil
	}
	names := make([]string, len(ts))
	cookies := make([]uint64, len(ts))
	var addrs []uint64
	for i, t := range ts {
		names[i], cookies[i] = t.name, t.cookie
		if t.addr != 0 {
			addrs = append(addrs, t.addr)
		}
	}
	fd, err := multiLink(prog, a.Group.AttachType, names, addrs, cookies, ret)
	if err == nil {
		return closers{fdCloser(fd)}
	}
	if len(ts) == 1 || len(a.Refused) > maxRefused || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOMEM) {
		for _, t := range ts {
			a.Refused = append(a.Refused, Refusal{t.pr, refusal(t.pr, err)})
		}
		return nil
	}
	half := len(ts) / 2
	return append(a.multi(prog, ts[:half], ret), a.multi(prog, ts[half:], ret)...)
}

// kprobeGroup attaches functions one by one; one program serves all.
func kprobeGroup(name string, prs []*probe.Probe, ret bool) *Attachment {
	a := functions(name, prs, ret)
	a.Attach = func(prog *ebpf.Program) (io.Closer, error) {
		c, err := a.kprobes(prog, targets(prs), ret)
		if err != nil || !ret {
			return c, err
		}
		var links closers // the first of each pair of descriptors
		for _, pair := range c.(closers) {
			links = append(links, pair.(closers)[0])
		}
		a.count(links)
		return c, nil
	}
	return a
}

// count makes the attachment tell how many returns its links, fdClosers, missed.
func (a *Attachment) count(links closers) {
	a.Missed = func() (n uint64) {
		for _, l := range links {
			n += linkMissed(int(l.(fdCloser)))
		}
		return n
	}
}

// linkMissed reads how many firings a link has missed, from struct
// bpf_link_info (Linux 6.7; 0 before).
func linkMissed(fd int) uint64 {
	var info [80]byte
	if err := objectInfo(fd, &info); err != nil {
		return 0
	}
	const perfEvent, kprobeMulti = 7, 8 // enum bpf_link_type
	u64 := func(off int) uint64 { return binary.NativeEndian.Uint64(info[off:]) }
	switch binary.NativeEndian.Uint32(info[:]) {
	case kprobeMulti:
		return u64(32)
	case perfEvent:
		return u64(48)
	}
	return 0
}

// kprobes attaches prog to all targets and fails only if none was attached.
func (a *Attachment) kprobes(prog *ebpf.Program, ts []target, ret bool) (io.Closer, error) {
	var cs closers
	for _, t := range ts {
		name, off := t.name, uint64(0)
		if t.addr != 0 {
			name, off = "", t.addr
		}
		c, err := attachKprobe(prog, name, off, ret, t.cookie)
		if err != nil {
			a.Refused = append(a.Refused, Refusal{t.pr, refusal(t.pr, err)})
			continue
		}
		cs = append(cs, c)
	}
	if len(cs) == 0 && len(a.Refused) > 0 {
		return nil, a.Refused[0].Err
	}
	return cs, nil
}
