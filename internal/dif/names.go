package dif

import "fmt"

func name(table []string, i int, what string) string {
	if i >= 0 && i < len(table) && table[i] != "" {
		return table[i]
	}
	return fmt.Sprintf("%s(%d)", what, i)
}

var builtinNames = []string{
	BNone: "none", BArg: "arg", BArgs: "args", BCaller: "caller", BUCaller: "ucaller", BCPU: "cpu",
	BCurThread: "curthread", BEpid: "epid", BErrno: "errno", BExecname: "execname", BExecargs: "execargs",
	BGid: "gid", BId: "id", BIpl: "ipl", BPid: "pid", BPpid: "ppid", BProbeProv: "probeprov",
	BProbeMod: "probemod", BProbeFunc: "probefunc", BProbeName: "probename", BStackDepth: "stackdepth",
	BUStackDepth: "ustackdepth", BTid: "tid", BTimestamp: "timestamp", BUid: "uid", BUregs: "uregs",
	BRegs: "regs", BVTimestamp: "vtimestamp", BWallTimestamp: "walltimestamp", BCwd: "cwd", BRoot: "root",
	BCgroup: "cgroup", BNmissed: "nmissed", BZonename: "zonename", BGoid: "goid",
}

// String is the name of the built-in variable in D.
func (b BuiltinID) String() string { return name(builtinNames, int(b), "builtin") }

var subrNames = []string{
	SAlloca: "alloca", SBcopy: "bcopy", SCopyin: "copyin", SCopyinstr: "copyinstr", SCopyinto: "copyinto",
	SStrlen: "strlen", SStrcmp: "strcmp", SStrjoin: "strjoin", SStrchr: "strchr", SStrrchr: "strrchr",
	SStrstr: "strstr", SStrtok: "strtok", SSubstr: "substr", SIndex: "index", SRindex: "rindex",
	SBasename: "basename", SDirname: "dirname", SCleanpath: "cleanpath", SLltostr: "lltostr",
	SStrtoll: "strtoll", SToLower: "tolower", SToUpper: "toupper", SJSON: "json", SHtons: "htons",
	SHtonl: "htonl", SHtonll: "htonll", SNtohs: "ntohs", SNtohl: "ntohl", SNtohll: "ntohll",
	SInetNtoa: "inet_ntoa", SInetNtoa6: "inet_ntoa6", SInetNtop: "inet_ntop", SLinkNtop: "link_ntop",
	SGetmajor: "getmajor", SGetminor: "getminor", SDdiPathname: "ddi_pathname", SGetf: "getf",
	SDPath: "d_path", SProgenyof: "progenyof", SMutexOwned: "mutex_owned", SMutexOwner: "mutex_owner",
	SMutexTypeAdaptive: "mutex_type_adaptive", SMutexTypeSpin: "mutex_type_spin",
	SRWIsWriter: "rw_iswriter", SRWReadHeld: "rw_read_held", SRWWriteHeld: "rw_write_held",
	SRand: "rand", SSpeculation: "speculation",
}

// String is the name of the subroutine in D.
func (s Subr) String() string { return name(subrNames, int(s), "subr") }

// LookupSubr is the subroutine that D calls name, or SNone.
func LookupSubr(n string) Subr {
	for i, s := range subrNames {
		if s == n && n != "" && Subr(i) != SStrcmp {
			return Subr(i)
		}
	}
	return SNone
}

var actOpNames = []string{
	OpExit: "exit", OpCommit: "commit", OpDiscard: "discard", OpRaise: "raise", OpStop: "stop",
	OpChill: "chill", OpCopyout: "copyout", OpCopyoutstr: "copyoutstr",
	OpReturn: "return",
}

func (o ActOp) String() string { return name(actOpNames, int(o), "op") }

var actKindNames = []string{
	ActNone: "none", ActTrace: "trace", ActTracemem: "tracemem", ActPrintf: "printf", ActPrinta: "printa",
	ActPrint: "print", ActStack: "stack", ActUStack: "ustack", ActJStack: "jstack", ActSym: "sym",
	ActFunc: "func", ActMod: "mod", ActUSym: "usym", ActUFunc: "ufunc", ActUMod: "umod", ActUAddr: "uaddr",
	ActExit: "exit", ActSystem: "system", ActFreopen: "freopen", ActFtruncate: "ftruncate",
	ActNormalize: "normalize", ActDenormalize: "denormalize", ActClear: "clear", ActTrunc: "trunc",
	ActSetopt: "setopt", ActCommit: "commit", ActDiscard: "discard", ActSpeculate: "speculate",
	ActPcap: "pcap", ActDefault: "default", ActRaise: "raise", ActPanic: "panic",
}

// String is the name of the action in D.
func (k ActKind) String() string { return name(actKindNames, int(k), "action") }

var fieldKindNames = []string{"int", "string", "bytes", "probe", "stack", "ustack", "sym", "usym"}

func (k FieldKind) String() string { return name(fieldKindNames, int(k), "field") }

var faultText = []string{
	FltUnknown: "unknown fault", FltBadAddr: "invalid address", FltBadAlign: "invalid alignment",
	FltIllOp: "illegal operation", FltDivZero: "divide-by-zero", FltNoScratch: "out of scratch space",
	FltKPriv: "invalid kernel access", FltUPriv: "invalid user access", FltTupOflow: "tuple stack overflow",
	FltBadStack: "bad stack", FltLibrary: "library-level fault", FltBadSize: "invalid size",
	FltBadIndex: "index out of bounds",
}

// String is how dtrace(1) words the fault.
func (k FaultKind) String() string {
	if int(k) < len(faultText) {
		return faultText[k]
	}
	return faultText[FltUnknown]
}

func (c VarClass) String() string { return [...]string{"", "self->", "this->"}[c] }
