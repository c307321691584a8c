package types

import (
	"strings"
)

func basic(k Kind, name string, bytes int64, signed bool) *Basic {
	return &Basic{Kind: k, Name: name, Bytes: bytes, Signed: signed}
}

// C's own types in the LP64 model.
var (
	TVoid       = basic(Void, "void", 0, false)
	TBool       = basic(Bool, "_Bool", 1, false)
	TChar       = basic(Char, "char", 1, true)
	TSChar      = basic(Int, "signed char", 1, true)
	TUChar      = basic(Int, "unsigned char", 1, false)
	TShort      = basic(Int, "short", 2, true)
	TUShort     = basic(Int, "unsigned short", 2, false)
	TInt        = basic(Int, "int", 4, true)
	TUInt       = basic(Int, "unsigned int", 4, false)
	TLong       = basic(Int, "long", 8, true)
	TULong      = basic(Int, "unsigned long", 8, false)
	TLongLong   = basic(Int, "long long", 8, true)
	TULongLong  = basic(Int, "unsigned long long", 8, false)
	TLong32     = basic(Int, "long", 4, true) // of 32-bit programs
	TULong32    = basic(Int, "unsigned long", 4, false)
	TInt128     = basic(Int, "__int128", 16, true)
	TUInt128    = basic(Int, "unsigned __int128", 16, false)
	TFloat      = basic(Float, "float", 4, true)
	TDouble     = basic(Float, "double", 8, true)
	TLongDouble = basic(Float, "long double", 16, true)
)

// D's own types. The symbol types are recorded as numbers: an address, a pid and
// an address. The value of a stack is, as a struct,
//
//	uint32_t pid, depth; uint64_t addrs[N];
//
// with pid 0 and stackframes addresses for the kernel's, ustackframes for the
// others. Where stack() only records or is part of a key, the layout is dif's.
var (
	TString   = &Basic{Kind: DString, Name: "string"}
	TDynamic  = basic(Dynamic, "<DYN>", 0, false)
	TStack    = basic(Stack, "dt_stack_t", 0, false)
	TUStack   = basic(UStack, "stack", 0, false)
	TSymAddr  = basic(SymAddr, "_symaddr", 8, false)
	TUSymAddr = basic(USymAddr, "_usymaddr", 16, false)
	TAggr     = basic(AggrType, "<AGG>", 0, false)
)

// Offsets in the value of a stack.
const (
	StackPID    = 0
	StackDepth  = 4
	StackFrames = 8
)

// D's predefined typedefs (dtrace(1) has them whatever the kernel calls its own).
var (
	TInt8    = typedef("int8_t", TChar)
	TInt16   = typedef("int16_t", TShort)
	TInt32   = typedef("int32_t", TInt)
	TInt64   = typedef("int64_t", TLong)
	TIntptr  = typedef("intptr_t", TLong)
	TSSize   = typedef("ssize_t", TLong)
	TPtrdiff = typedef("ptrdiff_t", TLong)
	TUint8   = typedef("uint8_t", TUChar)
	TUint16  = typedef("uint16_t", TUShort)
	TUint32  = typedef("uint32_t", TUInt)
	TUint64  = typedef("uint64_t", TULong)
	TUintptr = typedef("uintptr_t", TULong)
	TSize    = typedef("size_t", TULong)
	TPid     = typedef("pid_t", TInt)
	TID      = typedef("id_t", TInt)

	// TCharPtr and TVoidPtr are met so often that they are kept here.
	TCharPtr = &Pointer{Elem: TChar}
	TVoidPtr = &Pointer{Elem: TVoid}
)

func typedef(name string, t Type) *Typedef {
	return &Typedef{Name: name, Type: t, Scope: "D"}
}

// dTypedefs go into the D scope: they win over types of the same name of the
// kernel.
var dTypedefs = []*Typedef{
	TInt8, TInt16, TInt32, TInt64, TIntptr, TSSize, TPtrdiff,
	TUint8, TUint16, TUint32, TUint64, TUintptr, TSize, TPid, TID,
	typedef("uchar_t", TUChar),
	typedef("ushort_t", TUShort),
	typedef("uint_t", TUInt),
	typedef("ulong_t", TULong),
	typedef("longlong_t", TLongLong),
	typedef("u_longlong_t", TULongLong),
}

// solaris are the names scripts from elsewhere use, with the widths they have
// on Linux where Linux has the type at all. They are a last resort: a type of
// the kernel of the same name is meant instead.
var solaris = []*Typedef{
	typedef("u_char", TUChar),
	typedef("u_short", TUShort),
	typedef("u_int", TUInt),
	typedef("u_long", TULong),
	typedef("u_int8_t", TUChar),
	typedef("u_int16_t", TUShort),
	typedef("u_int32_t", TUInt),
	typedef("u_int64_t", TULong),
	typedef("intmax_t", TLong),
	typedef("uintmax_t", TULong),
	typedef("boolean_t", TInt),
	typedef("caddr_t", TCharPtr),
	typedef("hrtime_t", TLongLong),
	typedef("time_t", TLong),
	typedef("clock_t", TLong),
	typedef("clockid_t", TInt),
	typedef("timer_t", TInt),
	typedef("suseconds_t", TLong),
	typedef("useconds_t", TUInt),
	typedef("off_t", TLong),
	typedef("off64_t", TLongLong),
	typedef("offset_t", TLongLong),
	typedef("u_offset_t", TULongLong),
	typedef("diskaddr_t", TLongLong),
	typedef("daddr_t", TLong),
	typedef("ino_t", TULong),
	typedef("ino64_t", TULongLong),
	typedef("blkcnt_t", TLong),
	typedef("dev_t", TUInt),
	typedef("major_t", TUInt),
	typedef("minor_t", TUInt),
	typedef("mode_t", TUInt),
	typedef("nlink_t", TULong),
	typedef("uid_t", TUInt),
	typedef("gid_t", TUInt),
	typedef("key_t", TInt),
	typedef("zoneid_t", TInt),
	typedef("taskid_t", TInt),
	typedef("projid_t", TInt),
	typedef("poolid_t", TInt),
	typedef("ctid_t", TInt),
	typedef("processorid_t", TInt),
	typedef("psetid_t", TInt),
	typedef("chipid_t", TInt),
	typedef("lgrp_id_t", TLong),
	typedef("lwpid_t", TUInt),
	typedef("pri_t", TShort),
	typedef("pc_t", TULong),
	typedef("greg_t", TLong),
	typedef("index_t", TShort),
	typedef("wchar_t", TInt),
	typedef("in_addr_t", TUInt),
	typedef("in_port_t", TUShort),
	typedef("sa_family_t", TUShort),
	typedef("socklen_t", TUInt),
}

// ctypes maps sorted specifier words to the type they name, with "int",
// "signed" and "unsigned" already folded by FromSpecifiers.
var ctypes = map[string]*Basic{
	"void": TVoid, "_Bool": TBool, "char": TChar, "signed char": TSChar,
	"unsigned char": TUChar, "short": TShort, "unsigned short": TUShort,
	"int": TInt, "unsigned int": TUInt, "long": TLong, "unsigned long": TULong,
	"long long": TLongLong, "unsigned long long": TULongLong,
	"__int128": TInt128, "unsigned __int128": TUInt128,
	"float": TFloat, "double": TDouble, "long double": TLongDouble,
	"string": TString,
}

// FromSpecifiers gives the type that C's type specifier words name, in
// whatever order they come: "long unsigned int", "unsigned", "int short".
func FromSpecifiers(words ...string) (*Basic, bool) {
	var unsigned, signed, short, ints, long int
	rest := ""
	for _, w := range words {
		switch w {
		case "unsigned":
			unsigned++
		case "signed", "__signed__":
			signed++
		case "short":
			short++
		case "long":
			long++
		case "int":
			ints++
		default:
			if rest != "" {
				return nil, false
			}
			rest = w
		}
	}
	if unsigned+signed > 1 || short > 1 || long > 2 || ints > 1 || short > 0 && long > 0 {
		return nil, false
	}
	switch rest {
	case "char":
		if short+long+ints > 0 {
			return nil, false
		}
		if signed > 0 {
			return TSChar, true
		}
	case "__int128":
		if short+long+ints > 0 {
			return nil, false
		}
	case "double":
		if short+ints+signed+unsigned > 0 || long > 1 {
			return nil, false
		}
	case "":
		if len(words) == 0 {
			return nil, false
		}
	default:
		if len(words) > 1 {
			return nil, false
		}
	}
	var key []string
	if unsigned > 0 {
		key = append(key, "unsigned")
	}
	if short > 0 {
		key = append(key, "short")
	}
	for range long {
		key = append(key, "long")
	}
	if rest != "" {
		key = append(key, rest)
	} else if short+long == 0 {
		key = append(key, "int")
	}
	b, ok := ctypes[strings.Join(key, " ")]
	return b, ok
}

// NewString is D's string bounded to n bytes including the NUL.
func NewString(n int64) *Basic {
	return &Basic{Kind: DString, Name: "string", Len: n}
}
