// Package check gives names and types to a parsed D program: it turns the
// syntax tree of a clause, for one probe description, into a typed tree in
// which nothing is implicit: names are resolved, macro variables, inlines and
// translators expanded, conversions explicit, sizes and offsets constants.
//
// Contract: compile consumes this tree and nothing of package syntax but
// positions. A typed tree is made per clause and probe description because the
// types of args[] depend on the description; it replaces side tables, since
// inlines and translators make expressions that no source node stands for.
package check

import (
	"godtrace/internal/agg"
	"godtrace/internal/dif"
	"godtrace/internal/format"
	"godtrace/internal/probe"
	"godtrace/internal/syntax"
	"godtrace/internal/types"
)

// Clause is one clause, typed for one of its probe descriptions.
type Clause struct {
	Index  int // ordinal of the source clause in the session
	Src    *syntax.Clause
	Desc   *syntax.ProbeDesc
	Probes []*probe.Probe // what the description matches now; may be empty with -Z
	Pred   Expr           // scalar, nil where there is none
	Body   []Stmt
	// Default is set where the body is empty: the default action.
	Default bool
	// What the clause needs.
	Destructive bool
	// Stability of the probe description and of what the statements use, for -v.
	DescAttr, StmtAttr Attr
}

// Stmt is *ExprStmt, *If, *Action or *AggStmt.
type Stmt interface{ Pos() syntax.Pos }

type at struct{ P syntax.Pos }

func (a at) Pos() syntax.Pos { return a.P }

type (
	// ExprStmt evaluates X for its side effects.
	ExprStmt struct {
		at
		X Expr
	}
	// If runs Then when Cond (scalar) is not zero, else Else.
	If struct {
		at
		Cond       Expr
		Then, Else []Stmt
	}
	// Action is an action. Which of the fields are set depends on Kind:
	//
	//	ActTrace                    Args[0], Type its type
	//	ActTracemem                 Args[0] address, N bytes; Args[1], if any: how many of them to show
	//	ActPrintf, ActSystem, ActFreopen   Format, Args
	//	ActPrinta                   Aggs; Format nil: the default shape
	//	ActPrint                    Args[0] address, N bytes, Type what lies there
	//	ActStack, ActUStack         N frames
	//	ActJStack                   N frames, N2 bytes of strings
	//	ActSym ActFunc ActMod ActUSym ActUFunc ActUMod ActUAddr   Args[0] address
	//	ActExit                     Args[0] status (int); Op OpExit
	//	ActNormalize                Aggs[0], Args[0]
	//	ActTrunc                    Aggs[0], Args[0] if given
	//	ActDenormalize, ActClear    Aggs[0]
	//	ActSetopt                   Strs[0] option, Strs[1] value if given; where they are
	//	                            not constants Strs is nil and Args has them
	//	ActFtruncate
	//	ActSpeculate                Args[0]
	//	ActCommit, ActDiscard       Args[0]; Op
	//	ActPcap                     Args[0] address of the sk_buff, bound to slot N2 for the others: Args[1] protocol,
	//	                            Args[2] length of the packet, Args[3] how much of it is not in one piece,
	//	                            Args[4] where it is; N bytes at most
	//	ActRaise                    Op (OpRaise OpStop OpChill OpReturn OpCopyout OpCopyoutstr), Args
	//	ActPanic
	Action struct {
		at
		Kind   dif.ActKind
		Op     dif.ActOp
		Args   []Expr // values recorded or used, already converted
		Format *format.Format
		Aggs   []*Agg
		Strs   []string
		N      int64 // frames of a stack, bytes of tracemem, …
		N2     int64 // jstack string size
		Type   types.Type
	}
	// AggStmt is @name[keys] = func(arg, …, incr).
	AggStmt struct {
		at
		Agg  *Agg
		Keys []Expr // stacks and syms are StackExpr and SymExpr
		Arg  Expr   // nil for count()
		Incr Expr   // nil: 1
	}
)

// Agg is an aggregation of the session: one value per name.
type Agg struct {
	ID   int // order of first appearance; index into dif.Object.Aggs
	Name string
	Spec agg.Spec
	Keys []types.Type // types of the key tuple, fixed by the first use
	Pos  syntax.Pos
}

// Var is a variable of the session.
type Var struct {
	ID      int // index into dif.Object.Vars
	Class   dif.VarClass
	Name    string
	Type    types.Type
	Keys    []types.Type // associative array
	Pos     syntax.Pos
	Dynamic bool // not declared: type fixed by the first assignment
}

// Expr is a typed expression. By-reference values (strings, structs, arrays)
// stand for the address of their first byte.
type Expr interface {
	Type() types.Type
	Pos() syntax.Pos
}

// E is embedded in every expression.
type E struct {
	T types.Type
	P syntax.Pos
}

func (e E) Type() types.Type { return e.T }
func (e E) Pos() syntax.Pos  { return e.P }

type (
	// Const is an integer constant (also enumerators, sizeof, offsetof, $pid).
	Const struct {
		E
		Value int64
	}
	// String is a string constant.
	String struct {
		E
		Value string
	}
	// Builtin is a built-in variable. Index is nil, or the index of uregs[] and
	// regs[]. For BArg and BArgs N is the index; Loc is set for a typed argument
	// that is not simply argN, Parts for one that lies in several registers. String
	// built-ins have type string.
	Builtin struct {
		E
		ID    dif.BuiltinID
		N     int
		Index Expr
		Loc   *probe.Loc
		Parts []probe.Part
		Hole  string // as in probe.Arg
		Name  string
	}
	// VarRef is a variable or, with Keys, an element of an associative array. An lvalue.
	VarRef struct {
		E
		Var  *Var
		Keys []Expr
	}
	// KSym is the address of a kernel symbol; T is a pointer to the symbol's type.
	KSym struct {
		E
		Module, Name string
	}
	// Mem is the object of type T at address Addr+Off: *p, p->m, a[i], s.m. For
	// by-reference types its value is that address. User: in the traced
	// process. An lvalue (stores reach only alloca'd memory). Bits > 0: a
	// bit-field, BitOff counted from Addr+Off.
	Mem struct {
		E
		Addr   Expr
		Off    int64
		User   bool
		Bits   int64
		BitOff int64
	}
	// AddrOf is &X for X a Mem or a by-reference VarRef.
	AddrOf struct {
		E
		X Expr
	}
	// Conv converts X to T: integer width and sign, integer to pointer and back
	// (no code), char array or pointer to string (stringof: the address stays,
	// the bound is that of T).
	Conv struct {
		E
		X Expr
	}
	// Unary is - ~ (arithmetic on T) or ! (0 or 1).
	Unary struct {
		E
		Op syntax.Token
		X  Expr
	}
	// Binary is arithmetic (operands already of type T, but for shifts), a
	// comparison of scalars of one type (T is int; signed by the operands'
	// type), or a comparison of strings (both operands of type string). Pointer
	// arithmetic is already scaled.
	Binary struct {
		E
		Op   syntax.Token
		X, Y Expr
	}
	// Logical is && || ^^ on scalars (strings count as true), with short circuit.
	Logical struct {
		E
		Op   syntax.Token
		X, Y Expr
	}
	// XlateStruct is a translated struct as a whole: memory of type T, zeroed,
	// with the members set. Fields are in the order of the translator.
	XlateStruct struct {
		E
		Fields []XlateField
	}
	// CondExpr is C ? X : Y with X and Y of type T.
	CondExpr struct {
		E
		C, X, Y Expr
	}
	// Assign is LHS = RHS (RHS of LHS's type), or LHS op= RHS with Op set (the
	// arithmetic is done in OpType, then converted). Its value is the new value.
	Assign struct {
		E
		Op     syntax.Token // Assign_ for =
		OpType types.Type
		LHS    Expr
		RHS    Expr
	}
	// IncDec is ++ and --; Delta is ±1 or ±the element size. Post: the value is the old one.
	IncDec struct {
		E
		LHS   Expr
		Delta int64
		Post  bool
	}
	// Comma evaluates X, then Y.
	Comma struct {
		E
		X, Y Expr
	}
	// Call is a subroutine. T is string for those that give one.
	Call struct {
		E
		Sub  dif.Subr
		Args []Expr
	}
	// Index is X, a number of an element of an array of N: a fault beyond it.
	Index struct {
		E
		X Expr
		N int64
	}
	// Let binds X to the temporary Name for the evaluation of Body (translators
	// and inlines with parameters).
	Let struct {
		E
		Slot int // unique within the clause
		X    Expr
		Body Expr
	}
	// LetRef is the value bound by the enclosing Let with that Slot.
	LetRef struct {
		E
		Slot int
	}
	// StackExpr is stack() or ustack() as a value: key of an aggregation or argument of a printing action.
	StackExpr struct {
		E
		Kind    dif.ActKind // ActStack, ActUStack, ActJStack
		Frames  int
		StrSize int
	}
	// SymExpr is sym(X), usym(X), … as a value.
	SymExpr struct {
		E
		Kind dif.ActKind
		X    Expr
	}
	// OpExpr is an action without data that has a value or is used within an
	// expression statement; also actions whose effect takes place at once.
	OpExpr struct {
		E
		Op   dif.ActOp
		Args []Expr
	}
)

// XlateField is one member of an XlateStruct: X, of the member's type, at byte
// Off; or, with Bits > 0, in a bit-field at bit BitOff of the struct.
type XlateField struct {
	Off          int64
	Bits, BitOff int64
	X            Expr
}

// Env answers the questions a program asks of the world.
type Env interface {
	// Probes lists the probes that a description (parts may be globs) matches, in listing order.
	// An error says why a provider could not answer.
	Probes(d probe.Desc) ([]*probe.Probe, error)
	// ProbeByID finds a probe by number; nil if there is none.
	ProbeByID(id int) *probe.Probe
	// LookupType finds a kernel type: kind is "struct", "union", "enum" or "" (typedef);
	// module "" searches all. nil if there is none.
	LookupType(module, kind, name string) types.Type
	// LookupEnumerator finds an enumeration constant of the kernel.
	LookupEnumerator(name string) (value int64, typ types.Type, ok bool)
	// LookupSymbol finds a kernel variable or function: its type (nil: unknown).
	LookupSymbol(module, name string) (typ types.Type, ok bool)
	// Macro is the value of a macro variable: "pid", "target", "1"…; ok false: not defined.
	Macro(name string) (value string, ok bool)
}
