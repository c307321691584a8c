package probe

// Kind says how the program of a probe is entered: its eBPF program type, what
// its context is, where arg0… lie, and how a firing finds its probe. Contract.
type Kind uint8

const (
	// KindManual: BEGIN and END, a raw tracepoint program run by test run. One
	// probe a program; arg0… are 0.
	KindManual Kind = iota + 1
	// KindSysEnter: raw tracepoint sys_enter (ctx: pt_regs *, id). Key: the
	// system call number; bit 32 set for a 32-bit (compat) call. arg0…5 from pt_regs.
	KindSysEnter
	// KindSysExit: raw tracepoint sys_exit (ctx: pt_regs *, ret). Key as
	// KindSysEnter with the number from orig_ax. arg0 = arg1 = return value.
	KindSysExit
	// KindRawTP: any raw tracepoint. ctx words are arg0…; Key: the attach
	// cookie (0 and a single probe where cookies are not supported).
	KindRawTP
	// KindPerf: a perf event (profile, tick). arg0 = kernel PC or 0, arg1 = user
	// PC or 0. Key: the attach cookie.
	KindPerf
	// KindUprobe: uprobe (perf or multi link). ctx is pt_regs; arg0… by the
	// System V ABI. Key: the attach cookie. Preemptible.
	KindUprobe
	// KindUretprobe: user return; arg1 = return value, arg0 = offset if the
	// program sits on a return instruction (cookie's high 32 bits).
	KindUretprobe
	// KindKprobe: kprobe, kprobe.multi: pt_regs; arg0… by the kernel's ABI.
	KindKprobe
	// KindKretprobe: arg1 = return value; with Conds the programs sit on return
	// instructions and arg0 = offset, otherwise -1 (KindFexit too).
	KindKretprobe
	// KindFentry, KindFexit: ctx words are the arguments, and for fexit the
	// return value after them.
	KindFentry
	KindFexit
	// KindTracepoint: a perf tracepoint; ctx is the event's record; arguments have
	// Locs. argN is args[N].
	KindTracepoint
	// KindInstr: a kprobe on an instruction: arg0 = its address, arg1 = 1 if the
	// branch there will be taken, arg2 = its target or 0. Cookies are as with
	// Conds, but that the high half is the target less the address, signed, or 0.
	KindInstr
	// KindUinstr: a uprobe on an instruction, with the arguments and cookies of
	// KindInstr.
	KindUinstr
)

// Group is a set of probes that share one eBPF program. Contract.
type Group struct {
	Kind Kind
	Name string // for program names and messages
	// Probes of the group with the key each is dispatched on. With one probe
	// and no key, Keys is nil: no dispatch.
	Probes []*Probe
	Keys   []uint64
	// Sleepable programs may read user memory that is paged out.
	Sleepable bool
	// NArgs is the number of ctx words (KindRawTP, KindFentry, KindFexit).
	NArgs int
	// AttachTo names the function or tracepoint where the program's load needs it (fentry, fexit).
	AttachTo string
	// AttachBTF is the BTF number of the function named by AttachTo, AttachObj a
	// descriptor of the module's BTF that it is of (0: vmlinux).
	AttachBTF, AttachObj uint32
	// AttachType is the expected attach type of the load where a kind has
	// several: BPF_TRACE_KPROBE_MULTI and the like. 0: the plain one (perf event).
	AttachType uint32
	// Conds says that the cookies of KindUretprobe and KindKretprobe carry the condition under
	// which the site's jump leaves the function; see Cond.
	Conds bool
	// Behind says that bits 32 to 63 of the cookies of KindUprobe tell how far
	// behind its function's first instruction a site lies: the place of the
	// probe, for whoever asks, is that instruction.
	Behind bool
	// Go is set where the probes are in functions of Go programs: arg0… are
	// what GoABI says, and self-> belongs to the goroutine.
	Go *GoABI
	// GoIn are the programs that the functions are of.
	GoIn []GoProgram
	// Stack32 is set where the probes are in 32-bit programs: arg0… of KindUprobe
	// are the 32-bit words of the stack above the return address.
	Stack32 bool
	// Void marks a function without a return value: a KindFexit program has no
	// ctx word for it.
	Void bool
}

// GoABI says how functions of a Go program on x86-64 get their arguments, and
// where the goroutine is.
//
// arg0… of KindUprobe are the registers RAX RBX RCX RDI RSI R8 R9 R10 R11, then
// words of the stack above the return address; with Stack, those words only.
// arg1… of KindUretprobe are the same registers, in which results come; with
// Stack they are 0.
type GoABI struct {
	Stack bool  // ABI0: assembly, and all functions before Go 1.17
	Asm   bool  // assembly: R14 may be anything
	Goid  int64 // offset of the goroutine's number in struct g; below 0: not known
	TLS   int64 // where the address of g lies, from FS; R14 holds it too unless Stack or Asm; 0: not known
}

// GoProgram is a process, or the processes that execute a file.
type GoProgram struct {
	Pid int    // 0: all of the file
	Ino uint64 // of the executable, with Pid 0
}

// AttachPlain as AttachType asks for no expected attach type at all: the
// program will be attached to perf events.
const AttachPlain = 1<<32 - 1

// Cookies of groups with Conds: bits 0 to 19 the key, 20 to 31 a
// Cond, 32 to 63 the offset of the site in its function.
const (
	CondShift = 20
	KeyMask   = 1<<CondShift - 1
)

// Cond is the condition of a jump, for a program to evaluate: the RFLAGS bits
// of which one must be set, with CondLess in place of the reserved bit 1 for
// SF != OF, and CondNot if it is the other way round. 0: always.
type Cond uint16

const (
	CondLess = 1 << 1
	CondNot  = 1 << 10
)

// What jumps by RCX need of it (KindInstr only), in the place of bits of RFLAGS
// that no jump looks at. CondNarrow says that ECX counts.
const (
	CondEmpty  = 1 << 3 // it is 0, and nothing else counts: JRCXZ
	CondCount  = 1 << 4 // it is not 1, and the rest holds: LOOP, LOOPE, LOOPNE
	CondNarrow = 1 << 8
)

// CondOf translates the condition code of an x86 jump, 0 (o) to 15 (g).
func CondOf(cc byte) Cond {
	const cf, pf, zf, sf, of = 1 << 0, 1 << 2, 1 << 6, 1 << 7, 1 << 11
	c := [8]Cond{of, cf, zf, cf | zf, sf, pf, CondLess, CondLess | zf}[cc>>1&7]
	if cc&1 != 0 {
		c |= CondNot
	}
	return c
}

// Holds evaluates the condition on RFLAGS and RCX.
func (c Cond) Holds(rflags, rcx uint64) bool {
	if c&CondNarrow != 0 {
		rcx = uint64(uint32(rcx))
	}
	switch {
	case c&CondEmpty != 0:
		return rcx == 0
	case c&CondCount != 0 && rcx == 1:
		return false
	}
	c &^= CondCount | CondNarrow
	if c == 0 {
		return true
	}
	v := rflags &^ CondLess
	if rflags>>7&1 != rflags>>11&1 {
		v |= CondLess
	}
	return (v&uint64(c&^CondNot) != 0) == (c&CondNot == 0)
}
