// Package dif is the middle form between D and eBPF: typed clauses as linear
// code over virtual registers, and the description of the records they emit.
//
// Contract: compile produces it, the interpreter and bpf execute it, consume
// reads the records by its descriptions. It says what each clause does and
// what each record looks like, and nothing about how probes fire.
//
// # Machine
//
// A firing runs the clauses enabled on its probe in program order. A clause has
// any number of 64-bit virtual registers (1…; 0 is none), undefined until set.
// Integers are held sign- or zero-extended to 64 bits as their D type says.
// Pointers are addresses: kernel addresses or, where an instruction says
// SpaceUser, addresses of the traced process. By-reference values (strings,
// structs, arrays) are the address of their first byte; everything the
// machine itself holds (temporaries, variables, constants) has a kernel address
// too, so one kind of load reads them all. Strings are bounded and end in NUL.
//
// Temporaries are the clause's memory: fixed size, zeroed only where TZero says
// so. A fault (bad address, division by zero, no scratch) abandons the clause,
// withdraws its open record and fires ERROR.
//
// At most one record is open at a time; the payload layout is fixed by its
// description (Record), and the code stores each field at its offset.
package dif

import (
	"godtrace/internal/agg"
	"godtrace/internal/format"
	"godtrace/internal/types"
)

// Reg is a virtual register; 0 means none.
type Reg int32

// Label is a jump target within a clause; 0 means none.
type Label int32

// Space is an address space.
type Space uint8

const (
	SpaceKernel Space = iota // kernel memory and the machine's own
	SpaceUser                // the memory of the current process
)

// Cond is a comparison.
type Cond uint8

const (
	CondNone Cond = iota
	EQ
	NE
	LT // signed
	LE
	GT
	GE
	ULT // unsigned
	ULE
	UGT
	UGE
)

// Op is an instruction's operation. In the comments d = Dst, a = A, b = B or,
// when B is 0, Imm; N = Size (bytes).
type Op uint8

const (
	Nop Op = iota

	// Control. Jumps go forward only.
	LabelOp // Target is here
	Jmp     // goto Target
	Br      // if a Cond b goto Target
	Ret     // end of the clause
	Fault   // fault of kind Imm (FaultKind), address a

	// Registers.
	Imm      // d = Imm
	Mov      // d = a
	Add      // d = a + b
	Sub      // d = a - b
	Mul      // d = a * b
	Div      // d = a / b, Signed or not; b == 0 faults (also a constant 0); the smallest number / -1 is itself
	Mod      // d = a % b, likewise; the sign is that of a
	And      // d = a & b
	Or       // d = a | b
	Xor      // d = a ^ b
	Shl      // d = a << b; shifts take b modulo 64
	Shr      // d = a >> b, zero-filling
	Sar      // d = a >> b, sign-filling
	Neg      // d = -a
	Not      // d = ^a
	Ext      // d = the low N bytes of a, sign-extended if Signed, else zero-extended
	Set      // d = 1 if a Cond b else 0
	KSymAddr // d = address of kernel symbol Object.KSyms[Sym]

	// Memory that may fault.
	Load  // d = N bytes at address a+Imm in Space, extended by Signed; faults; the machine's own memory has kernel addresses
	Store // N bytes at address a+Imm = b; only into alloca'd memory, else faults

	// Temporaries: Temp, at byte Imm. Nothing here faults except as said.
	TempAddr  // d = address of temp+Imm
	TLoad     // d = N bytes of temp
	TStore    // N bytes of temp = a
	TZero     // N bytes of temp = 0
	TStr      // copy the string at a (Space) into temp: at most N bytes with the NUL; the rest up to N zeroed if Pad; d (if any) = length; faults
	TMem      // copy N bytes at a (Space) into temp; faults
	TBuiltin  // the string built-in Sym (BExecname, …) into temp: N bytes at most with the NUL, the rest zeroed if Pad
	TProbeStr // temp's 4 bytes = number of the string Sym (BProbeProv…BProbeName) of the probe: equal strings, equal numbers
	TStack    // N bytes of temp = kernel (user if Space is SpaceUser: first 8 bytes pid, then frames) return addresses, 8 bytes each, zero-filled
	TVar      // N bytes of temp = by-reference variable Sym (not an array)

	// Constants and built-ins.
	StrAddr // d = address of Object.Strings[Sym]
	Builtin // d = built-in variable Sym (numeric, or an address); index b for arg, uregs, regs, cpc

	// Variables: Sym indexes Object.Vars.
	VarGet  // d = scalar variable
	VarSet  // scalar variable = a
	VarAddr // d = address of by-reference variable (self-> of a thread that never set it: zeroes)
	VarStr  // string variable = string at a (kernel), at most N bytes with NUL; faults
	VarMem  // by-reference variable = N bytes at a (kernel); faults
	// Associative arrays (any Var with Keys): the tuple is Temp, laid out by Var.Keys, padding zeroed.
	// Thread-local ones are keyed by the thread as well, implicitly.
	DynGet  // d = scalar element, 0 if absent
	DynSet  // scalar element = a; 0 frees it
	DynAddr // d = address of by-reference element; absent: address of zeroes, 0 for strings
	DynStr  // string element = string at a; faults
	DynMem  // by-reference element = N bytes at a; faults
	DynDel  // free the element

	// Subroutines: Sym is a Subr, Args its arguments. String results go to Temp
	// (N bytes at Imm), d = address of the result.
	Call

	// Aggregations: Sym indexes Object.Forms, Temp holds the key (0 for none).
	AggUpdate // update with value a, increment b (0: 1)

	// Records: Sym indexes Object.Records; Imm is an offset into the payload.
	RecBegin   // reserve; with a: into speculation a. No room: a drop is counted and the clause ends
	RecStore   // N bytes = a
	RecStr     // string at a (Space), N bytes at most with the NUL; faults
	RecMem     // N bytes at a (Space), or as many as b says where that is less and not register 0; faults
	RecBuiltin // string built-in Sym in N bytes at most
	RecStack   // as TStack
	RecCommit  // hand it over

	// Actions without data, and the side effects of those with data.
	Act // Sym is an ActOp, Args its arguments; d where it has a result
)

// Ins is one instruction.
type Ins struct {
	Op      Op
	Cond    Cond
	Space   Space
	Signed  bool
	Pad     bool
	Size    int32 // N
	Dst     Reg
	A, B    Reg
	Target  Label
	Sym     int32
	Temp    int32 // index into Clause.Temps plus 1; 0: none
	Imm     int64
	Args    []Reg
	Line    int32 // position in the D source
	Col     int32
	Comment string // for -S: the D identifier or string meant
}

// Temp is a piece of the clause's memory.
type Temp struct {
	Size  int
	Align int
	Name  string // for listings
}

// Clause is the code of one clause as compiled for one probe description (two
// descriptions whose args[] differ give two Clauses with the same Index).
type Clause struct {
	ID      int // index in Object.Clauses
	Index   int // ordinal of the source clause in the session, from 0
	File    string
	Line    int
	Name    string // how ERROR messages name it, e.g. "dt_clause_0"
	NRegs   int    // registers used are 1…NRegs
	NLabels int
	Temps   []Temp
	Code    []Ins
	// HasPred: the code begins with a predicate.
	HasPred bool
	// Uses says which costly things the code needs.
	Destructive bool
	Speculative bool
}

// VarClass says where a variable lives.
type VarClass uint8

const (
	Global VarClass = iota
	Self            // per thread
	This            // per firing, zero at its start
)

// Var is a D variable. Scalars have ByRef false and at most 8 bytes.
type Var struct {
	Name    string
	Class   VarClass
	Type    types.Type
	Size    int // bytes of the value; strings: bound with NUL
	ByRef   bool
	Keys    []Field // associative arrays: layout of the tuple
	KeySize int
}

// KeySize, layout rule: fields in order, each aligned to its size (1, 2, 4, 8;
// by-reference 8), total rounded to 8, padding zero.

// FieldKind says how the bytes of a field are to be read.
type FieldKind uint8

const (
	FInt    FieldKind = iota // Size 1, 2, 4, 8, Signed
	FString                  // NUL-terminated within Size
	FBytes                   // Size bytes
	FFloat                   // Size 4 or 8: a floating-point value as it lies in memory
	FProbe                   // no bytes (Size 0) in records: the string Builtin of the record's probe; 4 bytes in keys: its string number
	FStack                   // kernel frames, 8 bytes each, ending at the first 0
	FUStack                  // pid (8 bytes), then user frames; StrSize for jstack
	FSym                     // 8 bytes: kernel address; Sym says sym(), func(), mod()
	FUSym                    // 16 bytes: pid, user address; Sym says usym(), ufunc(), umod(), uaddr()
)

// Field is a value in a record's payload or in a key.
type Field struct {
	Kind    FieldKind
	Off     int
	Size    int
	Signed  bool
	Type    types.Type // D type, for printing
	Builtin BuiltinID  // FProbe
	Sym     ActKind    // FSym, FUSym; FStack/FUStack: the action
	Frames  int        // stacks: how many to print at most
	Sized   bool       // stacks that were a value: pid, 0 for the kernel, and depth, 4 bytes each, lie before the frames
	StrSize int        // jstack string space; FProbe: bytes of the string at most, with its NUL
}

// Agg is an aggregation variable.
type Agg struct {
	ID   int
	Name string // "" for @
	Spec agg.Spec
	Keys []Field // decoded shape of the first use: kinds and types matter, offsets do not
}

// AggForm is one way keys of an Agg are built; keys of different forms merge
// on their decoded values.
type AggForm struct {
	Agg     int // index into Object.Aggs
	Keys    []Field
	KeySize int // rounded to 8
}

// ActKind is a data-recording action, or what the consumer does on a record.
type ActKind uint8

const (
	ActNone ActKind = iota
	ActTrace
	ActTracemem // Fields[0] bytes; Fields[1] (optional) dynamic size
	ActPrintf
	ActPrinta // Aggs, Format (nil: default)
	ActPrint  // Fields[0] address, Fields[1] bytes; Type the pointed-to type
	ActStack
	ActUStack
	ActJStack
	ActSym
	ActFunc
	ActMod
	ActUSym
	ActUFunc
	ActUMod
	ActUAddr
	ActExit    // Fields[0] status
	ActSystem  // Format
	ActFreopen // Format
	ActFtruncate
	ActNormalize // Aggs[0], Fields[0]
	ActDenormalize
	ActClear
	ActTrunc  // Aggs[0], Fields[0] optional
	ActSetopt // Strs[0] option, Strs[1] value (or Fields)
	ActCommit // Fields[0] speculation
	ActDiscard
	ActSpeculate // marks that the record was speculative
	ActPcap
	ActDefault // empty clause: nothing but the probe line
	ActRaise   // no data: listed so that the clause counts as having actions
	ActPanic
)

// Action is one data-recording action of a record, in source order.
type Action struct {
	Kind    ActKind
	Line    int
	Format  *format.Format // printf, system, freopen, printa with a format
	Fields  []Field
	Aggs    []int // indexes into Object.Aggs
	Strs    []string
	Type    types.Type
	NoWidth bool // reserved
}

// Record describes one kind of record: what one run of data-recording
// statements of a clause emits in one firing.
type Record struct {
	ID      int
	Clause  int // Clause.ID
	Size    int // payload bytes, a multiple of 8
	Actions []Action
	// Last is set on the last record of the clause's straight-line path, First
	// on the first: the consumer prints the probe line once for each record.
	Speculative bool
}

// Header of a record in the ring, little endian, 24 bytes, before the payload:
// u64 commit word (position<<16 | total length), u64 timestamp (ns, the clock
// of the built-in timestamp), u16 record ID, u16 speculation ID (0: none),
// u32 probe index (index into the session's enabled probes).
const (
	HdrTime  = 8
	HdrRec   = 16
	HdrSpec  = 18
	HdrProbe = 20
	HdrSize  = 24
)

// RecFault is the record ID of a fault report: payload u32 clause ID, u32 D
// line, u32 fault kind, u32 instruction index, u64 address (24 bytes).
const RecFault = 0xffff

// FaultKind numbers are DTrace's DTRACEFLT_*.
type FaultKind uint8

const (
	FltUnknown FaultKind = iota
	FltBadAddr
	FltBadAlign
	FltIllOp
	FltDivZero
	FltNoScratch
	FltKPriv
	FltUPriv
	FltTupOflow
	FltBadStack
	FltLibrary
	FltBadSize // Oracle: size of an alloca or copyin is not good
	FltBadIndex
)

// Object is everything the clauses of a session share.
type Object struct {
	StrSize int // option strsize: bytes of a string with its NUL
	Vars    []*Var
	Aggs    []*Agg
	Forms   []*AggForm
	Records []*Record
	Strings []string
	KSyms   []KSym
	Clauses []*Clause
}

// KSym is a kernel symbol a program names with a back-quote.
type KSym struct{ Module, Name string }
