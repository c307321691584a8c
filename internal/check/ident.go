package check

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/syntax"
)

// Everything D predefines, as one table: kind, type or prototype, the D
// version that brought it, and its stability. Sources: the DTrace guide
// (variables, actions and subroutines), Oracle's and illumos's identifier
// lists, dtrace(1) of FreeBSD.

type identKind uint8

const (
	idScalar  identKind = iota // built-in variable
	idArgs                     // args[]
	idRegs                     // uregs[], regs[]
	idFunc                     // subroutine
	idActFunc                  // action
	idAggFunc                  // aggregating function
	idRefused                  // exists elsewhere, cannot exist on Linux; typ says why; id actStop: destructive
)

// ident is one predefined identifier. A prototype is written as in C, with @
// for a parameter of any type, [T] for an optional one and "..." for more.
type ident struct {
	name string
	kind identKind
	typ  string
	id   int
	vers version
	attr Attr
}

// Actions that need their own treatment; see action.go.
const (
	actTrace = iota + 1
	actTracemem
	actPrintf
	actPrinta
	actPrint
	actStack
	actUStack
	actJStack
	actSym
	actFunc
	actMod
	actUSym
	actUFunc
	actUMod
	actUAddr
	actExit
	actSystem
	actFreopen
	actFtruncate
	actNormalize
	actDenormalize
	actClear
	actTrunc
	actSetopt
	actCommit
	actDiscard
	actSpeculate
	actPcap
	actRaise
	actStop
	actChill
	actPanic
	actReturn
	actCopyout
	actCopyoutstr
	actGostr
)

var (
	stab  = Attr{Stable, Stable, ClassCommon}
	evol  = Attr{Evolving, Evolving, ClassCommon}
	unst  = Attr{Unstable, Unstable, ClassCommon}
	cpuTh = Attr{Stable, Private, ClassCommon}
)

// Versions of the D language.
const (
	v10   version = 10000
	v11   version = 10100
	v12   version = 10200
	v13   version = 10300
	v15   version = 10500
	v16   version = 10600
	v164  version = 10604
	v17   version = 10700
	v18   version = 10800
	v19   version = 10900
	v110  version = 11000
	v111  version = 11100
	v1121 version = 11201
	v20   version = 20000
	v204  version = 20004

	vLatest = v204
)

var idents = []ident{
	{"arg0", idScalar, "int64_t", 0, v10, stab},
	{"arg1", idScalar, "int64_t", 1, v10, stab},
	{"arg2", idScalar, "int64_t", 2, v10, stab},
	{"arg3", idScalar, "int64_t", 3, v10, stab},
	{"arg4", idScalar, "int64_t", 4, v10, stab},
	{"arg5", idScalar, "int64_t", 5, v10, stab},
	{"arg6", idScalar, "int64_t", 6, v10, stab},
	{"arg7", idScalar, "int64_t", 7, v10, stab},
	{"arg8", idScalar, "int64_t", 8, v10, stab},
	{"arg9", idScalar, "int64_t", 9, v10, stab},
	{"args", idArgs, "", int(dif.BArgs), v10, stab},
	{"caller", idScalar, "uintptr_t", int(dif.BCaller), v10, stab},
	{"ucaller", idScalar, "uint64_t", int(dif.BUCaller), v12, stab},
	{"cpu", idScalar, "int", int(dif.BCPU), v10, stab},
	{"curthread", idScalar, "struct task_struct *", int(dif.BCurThread), v10, cpuTh},
	{"cwd", idScalar, "string", int(dif.BCwd), v10, stab},
	{"epid", idScalar, "uint_t", int(dif.BEpid), v10, stab},
	{"errno", idScalar, "int", int(dif.BErrno), v10, stab},
	{"execname", idScalar, "string", int(dif.BExecname), v10, stab},
	{"execargs", idScalar, "string", int(dif.BExecargs), v10, stab},
	{"gid", idScalar, "gid_t", int(dif.BGid), v10, stab},
	{"id", idScalar, "uint_t", int(dif.BId), v10, stab},
	{"ipl", idScalar, "uint_t", int(dif.BIpl), v10, stab},
	{"pid", idScalar, "pid_t", int(dif.BPid), v10, stab},
	{"ppid", idScalar, "pid_t", int(dif.BPpid), v10, stab},
	{"probefunc", idScalar, "string", int(dif.BProbeFunc), v10, stab},
	{"probemod", idScalar, "string", int(dif.BProbeMod), v10, stab},
	{"probename", idScalar, "string", int(dif.BProbeName), v10, stab},
	{"probeprov", idScalar, "string", int(dif.BProbeProv), v10, stab},
	{"root", idScalar, "string", int(dif.BRoot), v10, stab},
	{"stackdepth", idScalar, "uint32_t", int(dif.BStackDepth), v10, stab},
	{"tid", idScalar, "id_t", int(dif.BTid), v10, stab},
	{"timestamp", idScalar, "uint64_t", int(dif.BTimestamp), v10, stab},
	{"uid", idScalar, "uid_t", int(dif.BUid), v10, stab},
	{"uregs", idRegs, "uint64_t", int(dif.BUregs), v10, stab},
	{"regs", idRegs, "uint64_t", int(dif.BRegs), v10, unst},
	{"ustackdepth", idScalar, "uint32_t", int(dif.BUStackDepth), v12, stab},
	{"vtimestamp", idScalar, "uint64_t", int(dif.BVTimestamp), v10, stab},
	{"walltimestamp", idScalar, "int64_t", int(dif.BWallTimestamp), v10, stab},
	{"zonename", idScalar, "string", int(dif.BZonename), v10, stab},
	{"jailname", idScalar, "string", int(dif.BZonename), v10, stab},
	{"cgroup", idScalar, "uint64_t", int(dif.BCgroup), v20, evol},
	{"goid", idScalar, "uint64_t", int(dif.BGoid), v20, evol},
	{"nmissed", idScalar, "uint64_t", int(dif.BNmissed), v20, evol},

	{"alloca", idFunc, "void *(size_t)", int(dif.SAlloca), v10, stab},
	{"basename", idFunc, "string(const char *)", int(dif.SBasename), v10, stab},
	{"bcopy", idFunc, "void(void *, void *, size_t)", int(dif.SBcopy), v10, stab},
	{"cleanpath", idFunc, "string(const char *)", int(dif.SCleanpath), v10, stab},
	{"copyin", idFunc, "void *(uintptr_t, size_t)", int(dif.SCopyin), v10, stab},
	{"copyinstr", idFunc, "string(uintptr_t, [size_t])", int(dif.SCopyinstr), v10, stab},
	{"copyinto", idFunc, "void(uintptr_t, size_t, void *)", int(dif.SCopyinto), v10, stab},
	{"d_path", idFunc, "string(struct path *)", int(dif.SDPath), v10, evol},
	{"ddi_pathname", idFunc, "string(void *, int64_t)", int(dif.SDdiPathname), v10, evol},
	{"dirname", idFunc, "string(const char *)", int(dif.SDirname), v10, stab},
	{"getf", idFunc, "struct file *(int)", int(dif.SGetf), v110, stab},
	{"getmajor", idFunc, "dev_t(dev_t)", int(dif.SGetmajor), v10, evol},
	{"getminor", idFunc, "dev_t(dev_t)", int(dif.SGetminor), v10, evol},
	{"gostr", idFunc, "string(uintptr_t, size_t)", -actGostr, v20, evol},
	{"htonl", idFunc, "uint32_t(uint32_t)", int(dif.SHtonl), v13, evol},
	{"htonll", idFunc, "uint64_t(uint64_t)", int(dif.SHtonll), v13, evol},
	{"htons", idFunc, "uint16_t(uint16_t)", int(dif.SHtons), v13, evol},
	{"index", idFunc, "int(const char *, const char *, [int])", int(dif.SIndex), v11, stab},
	{"inet_ntoa", idFunc, "string(ipaddr_t *)", int(dif.SInetNtoa), v15, stab},
	{"inet_ntoa6", idFunc, "string(struct in6_addr *, [int])", int(dif.SInetNtoa6), v15, stab},
	{"inet_ntop", idFunc, "string(int, void *)", int(dif.SInetNtop), v15, stab},
	{"json", idFunc, "string(const char *, const char *)", int(dif.SJSON), v111, stab},
	{"link_ntop", idFunc, "string(int, void *)", int(dif.SLinkNtop), v15, stab},
	{"lltostr", idFunc, "string(int64_t, [int])", int(dif.SLltostr), v10, stab},
	{"mutex_owned", idFunc, "int(struct mutex *)", int(dif.SMutexOwned), v10, evol},
	{"mutex_owner", idFunc, "struct task_struct *(struct mutex *)", int(dif.SMutexOwner), v10, evol},
	{"mutex_type_adaptive", idFunc, "int(struct mutex *)", int(dif.SMutexTypeAdaptive), v10, evol},
	{"mutex_type_spin", idFunc, "int(struct mutex *)", int(dif.SMutexTypeSpin), v10, evol},
	{"ntohl", idFunc, "uint32_t(uint32_t)", int(dif.SNtohl), v13, evol},
	{"ntohll", idFunc, "uint64_t(uint64_t)", int(dif.SNtohll), v13, evol},
	{"ntohs", idFunc, "uint16_t(uint16_t)", int(dif.SNtohs), v13, evol},
	{"progenyof", idFunc, "int(pid_t)", int(dif.SProgenyof), v10, stab},
	{"rand", idFunc, "int()", int(dif.SRand), v10, stab},
	{"rindex", idFunc, "int(const char *, const char *, [int])", int(dif.SRindex), v11, stab},
	{"rw_iswriter", idFunc, "int(rwlock_t *)", int(dif.SRWIsWriter), v10, evol},
	{"rw_read_held", idFunc, "int(rwlock_t *)", int(dif.SRWReadHeld), v10, evol},
	{"rw_write_held", idFunc, "int(rwlock_t *)", int(dif.SRWWriteHeld), v10, evol},
	{"speculation", idFunc, "int()", int(dif.SSpeculation), v10, stab},
	{"strchr", idFunc, "string(const char *, char)", int(dif.SStrchr), v11, stab},
	{"strjoin", idFunc, "string(const char *, const char *)", int(dif.SStrjoin), v10, stab},
	{"strlen", idFunc, "size_t(const char *)", int(dif.SStrlen), v10, stab},
	{"strrchr", idFunc, "string(const char *, char)", int(dif.SStrrchr), v11, stab},
	{"strstr", idFunc, "string(const char *, const char *)", int(dif.SStrstr), v11, stab},
	{"strtok", idFunc, "string(const char *, const char *)", int(dif.SStrtok), v11, stab},
	{"strtoll", idFunc, "int64_t(const char *, [int])", int(dif.SStrtoll), v1121, stab},
	{"substr", idFunc, "string(const char *, int, [int])", int(dif.SSubstr), v11, stab},
	{"tolower", idFunc, "string(const char *)", int(dif.SToLower), v18, stab},
	{"toupper", idFunc, "string(const char *)", int(dif.SToUpper), v18, stab},

	{"chill", idActFunc, "void(int)", actChill, v10, stab},
	{"clear", idActFunc, "void(@)", actClear, v10, stab},
	{"commit", idActFunc, "void(int)", actCommit, v10, stab},
	{"copyout", idFunc, "void(void *, uintptr_t, size_t)", -actCopyout, v10, stab},
	{"copyoutstr", idFunc, "void(char *, uintptr_t, size_t)", -actCopyoutstr, v10, stab},
	{"denormalize", idActFunc, "void(@)", actDenormalize, v10, stab},
	{"discard", idActFunc, "void(int)", actDiscard, v10, stab},
	{"exit", idActFunc, "void(int)", actExit, v10, stab},
	{"freopen", idActFunc, "void(@, ...)", actFreopen, v11, stab},
	{"ftruncate", idActFunc, "void()", actFtruncate, v10, stab},
	{"func", idActFunc, "_symaddr(uintptr_t)", actFunc, v12, stab},
	{"jstack", idActFunc, "stack([uint32_t], [uint32_t])", actJStack, v10, stab},
	{"mod", idActFunc, "_symaddr(uintptr_t)", actMod, v12, stab},
	{"normalize", idActFunc, "void(@, uint64_t)", actNormalize, v10, stab},
	{"panic", idActFunc, "void()", actPanic, v10, stab},
	{"pcap", idActFunc, "void(void *, int)", actPcap, v164, stab},
	{"print", idActFunc, "void(@)", actPrint, v19, stab},
	{"printa", idActFunc, "void(@, ...)", actPrinta, v10, stab},
	{"printf", idActFunc, "void(string, ...)", actPrintf, v10, stab},
	{"raise", idActFunc, "void(int)", actRaise, v10, stab},
	{"return", idActFunc, "void(int)", actReturn, v204, evol},
	{"setopt", idActFunc, "void(const char *, [const char *])", actSetopt, v12, stab},
	{"speculate", idActFunc, "void(int)", actSpeculate, v10, stab},
	{"stack", idActFunc, "stack([uint32_t])", actStack, v10, stab},
	{"stop", idActFunc, "void()", actStop, v10, stab},
	{"sym", idActFunc, "_symaddr(uintptr_t)", actSym, v12, stab},
	{"system", idActFunc, "void(@, ...)", actSystem, v10, stab},
	{"trace", idActFunc, "void(@)", actTrace, v10, stab},
	{"tracemem", idActFunc, "void(@, size_t, [size_t])", actTracemem, v10, stab},
	{"trunc", idActFunc, "void(@, [uint64_t])", actTrunc, v10, stab},
	{"uaddr", idActFunc, "_usymaddr(uintptr_t)", actUAddr, v12, stab},
	{"ufunc", idActFunc, "_usymaddr(uintptr_t)", actUFunc, v12, stab},
	{"umod", idActFunc, "_usymaddr(uintptr_t)", actUMod, v12, stab},
	{"ustack", idActFunc, "stack([uint32_t], [uint32_t])", actUStack, v10, stab},
	{"usym", idActFunc, "_usymaddr(uintptr_t)", actUSym, v12, stab},

	{"avg", idAggFunc, "void(@)", int(agg.Avg), v10, stab},
	{"count", idAggFunc, "void()", int(agg.Count), v10, stab},
	{"llquantize", idAggFunc, "void(@, int32_t, int32_t, int32_t, int32_t, ...)", int(agg.Llquantize), v17, stab},
	{"lquantize", idAggFunc, "void(@, int32_t, int32_t, ...)", int(agg.Lquantize), v10, stab},
	{"max", idAggFunc, "void(@)", int(agg.Max), v10, stab},
	{"min", idAggFunc, "void(@)", int(agg.Min), v10, stab},
	{"quantize", idAggFunc, "void(@, ...)", int(agg.Quantize), v10, stab},
	{"stddev", idAggFunc, "void(@)", int(agg.Stddev), v16, stab},
	{"sum", idAggFunc, "void(@)", int(agg.Sum), v10, stab},

	// What other systems have and Linux cannot.
	{"apple_define", idRefused, "it belongs to the D library of macOS; use inline", 0, v10, unst},
	{"breakpoint", idRefused, "Linux has no kernel debugger that a probe may enter; use stop() for processes, stack() for the kernel", actStop, v10, stab},
	{"cpucycles", idRefused, "per-thread cycle counters are macOS's; use vtimestamp", 0, v10, unst},
	{"cpuinstrs", idRefused, "per-thread instruction counters are macOS's; use the cpc provider", 0, v10, unst},
	{"dispatchqaddr", idRefused, "dispatch queues are macOS's", 0, v10, unst},
	{"etw_trace", idRefused, "event tracing for Windows; use trace() or printf()", 0, v10, unst},
	{"jid", idRefused, "jails are FreeBSD's; use cgroup or zonename", 0, v10, unst},
	{"lkd", idRefused, "live kernel dumps are Windows's; use stack() or panic()", 0, v10, unst},
	{"machtimestamp", idRefused, "Mach time is macOS's; use timestamp", 0, v10, unst},
	{"memref", idRefused, "it serves FreeBSD's printm(); use tracemem()", 0, v10, unst},
	{"memstr", idRefused, "it serves FreeBSD's printm(); use stringof() and copyinstr()", 0, v10, unst},
	{"msgdsize", idRefused, "Linux has no STREAMS messages", 0, v10, stab},
	{"msgsize", idRefused, "Linux has no STREAMS messages", 0, v10, stab},
	{"pidresume", idRefused, "stopping and resuming tasks is macOS's; use stop() and system(\"kill -CONT %d\")", 0, v10, unst},
	{"printm", idRefused, "it is FreeBSD's; use tracemem()", 0, v10, unst},
	{"pthread_self", idRefused, "a probe does not know the C library's thread handle; use tid", 0, v10, unst},
	{"sx_exclusive_held", idRefused, "sx locks are FreeBSD's; use rw_write_held()", 0, v10, evol},
	{"sx_isexclusive", idRefused, "sx locks are FreeBSD's; use rw_iswriter()", 0, v10, evol},
	{"sx_shared_held", idRefused, "sx locks are FreeBSD's; use rw_read_held()", 0, v10, evol},
	{"typeref", idRefused, "it serves FreeBSD's printt(); use print()", 0, v10, unst},
	{"vcycles", idRefused, "per-thread cycle counters are macOS's; use vtimestamp", 0, v10, unst},
	{"vinstrs", idRefused, "per-thread instruction counters are macOS's; use the cpc provider", 0, v10, unst},
	{"vmregs", idRefused, "the registers of guests are not readable on Linux", 0, v10, unst},
}

var identTable = sync.OnceValue(func() map[string]*ident {
	m := make(map[string]*ident, len(idents))
	for i := range idents {
		m[idents[i].name] = &idents[i]
	}
	return m
})

// version of D: major*10000 + minor*100 + micro.
type version int

// parseVersion reads "1", "1.2" or "1.2.3".
func parseVersion(s string) (version, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 3 {
		return 0, false
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 || v > 99 {
			return 0, false
		}
		n[i] = v
	}
	return version(n[0]*10000 + n[1]*100 + n[2]), true
}

// Stability levels of a name or of data, from the least stable.
type Stability uint8

const (
	Internal Stability = iota
	Private
	Obsolete
	External
	Unstable
	Evolving
	Stable
	Standard
)

var stabilityNames = [...]string{"Internal", "Private", "Obsolete", "External", "Unstable", "Evolving", "Stable", "Standard"}

func (s Stability) String() string { return stabilityNames[s] }

// Class says on how many platforms an interface is found, from the fewest.
type Class uint8

const (
	ClassUnknown Class = iota
	ClassCPU
	ClassPlatform
	ClassGroup
	ClassISA
	ClassCommon
)

var classNames = [...]string{"Unknown", "CPU", "Platform", "Group", "ISA", "Common"}

func (c Class) String() string { return classNames[c] }

// Attr is the stability of an interface: of its name, of its data, and the
// class of platforms it depends on.
type Attr struct {
	Name, Data Stability
	Class      Class
}

func (a Attr) String() string {
	return a.Name.String() + "/" + a.Data.String() + "/" + a.Class.String()
}

// short is how messages show a: one letter a part.
func (a Attr) short() string {
	return "[" + "ipoxuesS"[a.Name:a.Name+1] + "/" + "ipoxuesS"[a.Data:a.Data+1] + "/" + "uCpgIc"[a.Class:a.Class+1] + "]"
}

func (a Attr) min(b Attr) Attr {
	return Attr{min(a.Name, b.Name), min(a.Data, b.Data), min(a.Class, b.Class)}
}

// less reports whether a is below b in any part, as -xamin sees it.
func (a Attr) less(b Attr) bool { return a.Name < b.Name || a.Data < b.Data || a.Class < b.Class }

// ParseAttr reads "Stable/Stable/Common", in any case.
func ParseAttr(s string) (a Attr, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return a, false
	}
	find := func(names []string, s string) int {
		for i, n := range names {
			if strings.EqualFold(n, s) {
				return i
			}
		}
		return -1
	}
	n, d, c := find(stabilityNames[:], parts[0]), find(stabilityNames[:], parts[1]), find(classNames[:], parts[2])
	if n < 0 || d < 0 || c < 0 {
		return a, false
	}
	return Attr{Stability(n), Stability(d), Class(c)}, true
}

var (
	defAttr = stab
	symAttr = Attr{Private, Private, ClassUnknown}
	maxAttr = Attr{Standard, Standard, ClassCommon}
)

func nearest(name string, candidates []string) string { return syntax.Nearest(name, candidates) }

// String is the version as #pragma D binding writes it.
func (v version) String() string {
	s := fmt.Sprintf("%d.%d", v/10000, v/100%100)
	if micro := v % 100; micro != 0 {
		s += fmt.Sprintf(".%d", micro)
	}
	return s
}
