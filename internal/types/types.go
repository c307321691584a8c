// Package types describes C types as D sees them: layout, conversion and
// printing, for the LP64 data model of x86-64 (and ILP32 for 32-bit targets).
//
// Contract: type identity is structural except for struct, union and enum,
// which are identical when they are the same pointer or have the same tag and
// come from the same Scope. Types are immutable once complete; a Struct that
// comes from BTF fills its members on first use through Complete.
package types

import "sync"

// Type is any C or D type.
type Type interface {
	// String prints the type as a C declaration without a name, the way the
	// D compiler's messages do: "int", "const char *", "struct foo", "int [4]".
	String() string
	// Size in bytes; 0 for void, functions and incomplete types.
	Size() int64
	// Align in bytes; 1 where there is none.
	Align() int64
}

// Kind of a Basic type.
type Kind uint8

const (
	Void     Kind = iota
	Bool          // _Bool
	Char          // plain char, signed on x86
	Int           // any other integer: see Basic.Bytes and Basic.Signed
	Float         // float, double, long double: no arithmetic in D, printable only
	DString       // the D type string: by reference, bounded by Len bytes with the NUL (0: the option strsize)
	Dynamic       // D's <DYN>: an untyped variable before its first assignment, and void expressions of actions
	Stack         // the value of stack()
	UStack        // the value of ustack() and jstack()
	SymAddr       // the value of sym(), func(), mod()
	USymAddr      // the value of usym(), ufunc(), umod(), uaddr()
	AggrType      // an aggregation, <AGG>
)

// Basic is a type without parts.
type Basic struct {
	Kind   Kind
	Name   string // as C spells it: "unsigned long"; "string" for D's
	Bytes  int64
	Signed bool
	Len    int64 // DString only: bound in bytes, 0 means the option strsize
	AlignB int64 // alignment in bytes; 0: as large as the type
}

// Pointer to Elem. User marks a pointer into the address space of the traced
// process (typed arguments of user probes, __user parameters): loads through it
// read user memory. TypeTag keeps BTF's type tag when there is one.
type Pointer struct {
	Elem    Type
	User    bool
	ILP32   bool   // 4 bytes wide
	TypeTag string // "user", "rcu", "percpu"
}

// Array of N elements. Index is the index type of a BTF array, nil for int.
// An incomplete array (int a[]) has N == 0 and Flexible set.
type Array struct {
	Elem     Type
	N        int64
	Flexible bool
}

// Field of a Struct. Bits is 0 for a plain member; for a bit-field BitOff is
// the offset from the start of the struct in bits, little endian.
// An anonymous struct or union member has Name "".
type Field struct {
	Name   string
	Type   Type
	Off    int64 // bytes; for a bit-field BitOff/8
	BitOff int64
	Bits   int64
}

// Struct is a struct or a union.
type Struct struct {
	Union  bool
	Tag    string // "" when anonymous
	Scope  string // module the type comes from: "vmlinux", "D", "C"
	Bytes  int64
	AlignB int64
	// Incomplete is set for a forward declaration that was never completed.
	Incomplete bool
	// Complete, if not nil, fills Fields on first use (types from BTF).
	Complete func(*Struct)
	Fields   []Field // use Members
	Attr     string  // "" or the D provider struct it stands for
	// Go marks a struct of a Go program: . and -> mean the same for it, as they
	// do in Go, and one named string is a string where a value is wanted.
	Go bool
	// User marks a struct of a program: what points to one points into a process.
	User bool

	once sync.Once
}

// Enumerator is one constant of an Enum.
type Enumerator struct {
	Name  string
	Value int64
}

// Enum type.
type Enum struct {
	Tag        string
	Scope      string
	Bytes      int64
	Signed     bool
	Incomplete bool
	Values     []Enumerator
}

// Func type (only behind pointers and as the type of a kernel function).
type Func struct {
	Ret      Type
	Params   []Param
	Variadic bool
}

// Param of a Func; Name is "" where it is not known.
type Param struct {
	Name string
	Type Type
}

// Typedef is a name for Type.
type Typedef struct {
	Name  string
	Type  Type
	Scope string
}

// Qualified is Type with const, volatile or restrict.
type Qualified struct {
	Const, Volatile, Restrict bool
	Type                      Type
}
