package dif

// BuiltinID numbers the built-in variables. Contract.
type BuiltinID int32

const (
	BNone BuiltinID = iota
	BArg            // arg0…: index B/Imm. Typed arguments with a location of their own too
	BArgs           // the native value of typed argument Imm (probe.Arg.Loc decides)
	BCaller
	BUCaller
	BCPU
	BCurThread // address of the task_struct
	BEpid
	BErrno
	BExecname // string
	BExecargs // string
	BGid
	BId
	BIpl
	BPid
	BPpid
	BProbeProv // string
	BProbeMod  // string
	BProbeFunc // string
	BProbeName // string
	BStackDepth
	BUStackDepth
	BTid
	BTimestamp
	BUid
	BUregs // index B or Imm
	BRegs  // index B or Imm
	BVTimestamp
	BWallTimestamp
	BCwd  // string
	BRoot // string
	BCgroup
	BNmissed
	BZonename // string
	BGoid     // number of the goroutine

	NumBuiltins
)

// Subr numbers the subroutines. Contract. Arguments and results as the manual
// has them; strings are addresses, results of strings go to the temp.
type Subr int32

const (
	SNone      Subr = iota
	SAlloca         // (n) → address
	SBcopy          // (src, dst, n)
	SCopyin         // (uaddr, n) → address of fresh scratch
	SCopyinstr      // (uaddr[, max]) → string
	SCopyinto       // (uaddr, n, dst)
	SStrlen
	SStrcmp // (a, b) → <0, 0, >0: string comparison operators
	SStrjoin
	SStrchr
	SStrrchr
	SStrstr
	SStrtok // (s or 0, sep)
	SSubstr // (s, index[, len])
	SIndex  // (s, sub[, start])
	SRindex
	SBasename
	SDirname
	SCleanpath
	SLltostr // (n[, base])
	SStrtoll // (s[, base])
	SToLower
	SToUpper
	SJSON // (s, key)
	SHtons
	SHtonl
	SHtonll
	SNtohs
	SNtohl
	SNtohll
	SInetNtoa
	SInetNtoa6
	SInetNtop // (af, addr)
	SLinkNtop // (hwtype, addr)
	SGetmajor
	SGetminor
	SDdiPathname
	SGetf
	SDPath
	SProgenyof
	SMutexOwned
	SMutexOwner
	SMutexTypeAdaptive
	SMutexTypeSpin
	SRWIsWriter
	SRWReadHeld
	SRWWriteHeld
	SRand
	SSpeculation // () → id

	NumSubrs
)

// ActOp numbers the actions with an effect at the time of the firing. Contract.
type ActOp int32

const (
	OpExit       ActOp = iota + 1 // (status): tracing goes to draining
	OpCommit                      // (spec)
	OpDiscard                     // (spec)
	OpRaise                       // (sig)
	OpStop                        // ()
	OpChill                       // (ns)
	OpCopyout                     // (src, uaddr, n)
	OpCopyoutstr                  // (str, uaddr, n)
	OpReturn                      // (value)
)
