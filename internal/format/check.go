package format

import (
	"fmt"
	"strings"

	"godtrace/internal/agg"
	"godtrace/internal/types"
)

// verb says how a conversion renders its value.
type verb uint8

const (
	signed     verb = iota // integer as signed
	unsigned               // integer as unsigned: o u x X p
	bySign                 // integer by the sign of its type: d i
	char                   // c
	float                  // e f g
	text                   // s
	wideText               // ls ws
	escaped                // S
	escapedOne             // C
	kernelAddr             // a
	userAddr               // A
	frames                 // k
	date                   // Y
	date822                // T
	host                   // I
	port                   // P
	percent                // %
)

// conversion is one entry of the dictionary.
type conversion struct {
	name   string // as written, with its length prefix
	out    byte   // C's letter for the number itself: d o u x X e E f g G
	proto  string // what it takes, in messages
	accept func(types.Type, *Call) bool
	verb   verb
}

const (
	anyInt   = "char, short, int, long, or long long"
	smallInt = "char, short, or int"
	anyFloat = "float, double, or long double"
	address  = "pointer or integer"
	userProt = "pointer or integer (with -p/-c) or _usymaddr (without -p/-c)"
	chars    = "char [] or string (or use stringof)"
	wchars   = "wchar_t []"
)

// conversions are those of DTrace: C's, where the size of an integer need not
// be said, and D's own. A length prefix demands exactly that type.
var conversions = dictionary()

// dictionary is the table of conversions by their names, each with what it takes.
func dictionary() map[string]*conversion {
	all := []conversion{
		{"a", 0, address, isKernelAddr, kernelAddr},
		{"A", 0, userProt, isUserAddr, userAddr},
		{"c", 'c', smallInt, isSmall, char},
		{"C", 0, smallInt, isSmall, escapedOne},
		{"d", 'd', anyInt, isInt, bySign},
		{"i", 'd', anyInt, isInt, bySign},
		{"I", 0, chars, isChars, host},
		{"k", 0, "stack", isStack, frames},
		{"lc", 'c', "int", exactly(types.TInt), char},
		{"ls", 0, wchars, isWide, wideText},
		{"o", 'o', anyInt, isInt, unsigned},
		{"p", 'x', address, isAddr, unsigned},
		{"P", 0, anyInt, isInt, port},
		{"s", 0, chars, isChars, text},
		{"S", 0, chars, isChars, escaped},
		{"T", 0, "int64_t", isTime, date822},
		{"u", 'u', anyInt, isInt, unsigned},
		{"wc", 'c', "int", exactly(types.TInt), char},
		{"ws", 0, wchars, isWide, wideText},
		{"x", 'x', anyInt, isInt, unsigned},
		{"X", 'X', anyInt, isInt, unsigned},
		{"Y", 0, "int64_t", isTime, date},
		{"%", '%', "void", nil, percent},
	}
	for _, c := range "eEfgG" {
		all = append(all,
			conversion{string(c), byte(c), anyFloat, isFloat, float},
			conversion{"L" + string(c), byte(c), "long double", isLongDouble, float})
	}
	for _, l := range []struct {
		prefix       string
		plain, uns   *types.Basic
		hex          func(types.Type, *Call) bool
		name, unsign string
	}{
		{"h", types.TShort, types.TUShort, isShort, "short", "unsigned short"},
		{"l", types.TLong, types.TULong, isLong, "long", "unsigned long"},
		{"ll", types.TLongLong, types.TULongLong, isLongLong, "long long", "unsigned long long"},
	} {
		all = append(all,
			conversion{l.prefix + "d", 'd', l.name, exactly(l.plain), signed},
			conversion{l.prefix + "i", 'd', l.name, exactly(l.plain), signed},
			conversion{l.prefix + "o", 'o', l.unsign, exactly(l.uns), unsigned},
			conversion{l.prefix + "u", 'u', l.unsign, exactly(l.uns), unsigned},
			conversion{l.prefix + "x", 'x', l.name, l.hex, unsigned},
			conversion{l.prefix + "X", 'X', l.name, l.hex, unsigned})
	}
	m := make(map[string]*conversion, len(all))
	for i := range all {
		m[all[i].name] = &all[i]
	}
	return m
}

func isInt(t types.Type, _ *Call) bool   { return types.IsInteger(t) }
func isSmall(t types.Type, _ *Call) bool { return types.IsInteger(t) && t.Size() <= 4 }
func isTime(t types.Type, _ *Call) bool  { return types.IsInteger(t) && t.Size() == 8 }
func isFloat(t types.Type, _ *Call) bool { return types.IsFloat(t) }
func isAddr(t types.Type, _ *Call) bool  { return types.IsInteger(t) || types.IsPointer(t) }
func isStack(t types.Type, _ *Call) bool { return types.IsStack(t) }

func isLongDouble(t types.Type, _ *Call) bool { return types.IsFloat(t) && t.Size() == 16 }

func isKernelAddr(t types.Type, c *Call) bool { return isAddr(t, c) || basicKind(t) == types.SymAddr }

func isUserAddr(t types.Type, c *Call) bool {
	return basicKind(t) == types.USymAddr || c.Target && isAddr(t, c)
}

func isChars(t types.Type, _ *Call) bool { return types.IsString(t) || types.IsCharArray(t) }

func isWide(t types.Type, _ *Call) bool {
	a, ok := types.Underlying(t).(*types.Array)
	return ok && types.IsInteger(a.Elem) && !types.IsEnum(a.Elem) && a.Elem.Size() == 4
}

func basicKind(t types.Type) types.Kind {
	if b, ok := types.Underlying(t).(*types.Basic); ok {
		return b.Kind
	}
	return types.Void
}

// exactly accepts integers of the size and sign of want, and any enum.
func exactly(want *types.Basic) func(types.Type, *Call) bool {
	return func(t types.Type, _ *Call) bool {
		if types.IsEnum(t) {
			return true
		}
		return types.IsInteger(t) && t.Size() == want.Bytes && types.IsSigned(t) == want.Signed
	}
}

// longs counts the word long in the name of an integer type, with or without
// sign; -1 for other types.
func longs(t types.Type) int {
	b, ok := types.Underlying(t).(*types.Basic)
	if !ok || b.Kind != types.Int {
		return -1
	}
	return strings.Count(b.Name, "long")
}

func isShort(t types.Type, _ *Call) bool {
	b, ok := types.Underlying(t).(*types.Basic)
	return ok && b.Kind == types.Int && b.Bytes == 2
}

func isLong(t types.Type, _ *Call) bool { return longs(t) == 1 }

// isLongLong also takes int64_t, uint64_t and typedefs of them, which are long.
func isLongLong(t types.Type, _ *Call) bool {
	if longs(t) == 2 {
		return true
	}
	for {
		d, ok := types.Unqualify(t).(*types.Typedef)
		if !ok {
			return false
		}
		if d.Name == "int64_t" || d.Name == "uint64_t" {
			return true
		}
		t = d.Type
	}
}

// Call is what Check needs to know of the call around a format.
type Call struct {
	Func   string   // "printf", "printa", "system", "freopen", …
	First  int      // arguments before the values: 1, the format itself
	Exact  bool     // more values than conversions are an error: all but printa
	Agg    agg.Func // of printa: the function of its aggregation; else Invalid
	Target bool     // a target process is known: -p or -c
}

// Check compares the format with the types of the values. The error is an
// *Error with DTrace's tag and words.
func (f *Format) Check(c Call, args []types.Type) error {
	fail := func(tag string, arg int, msg string, a ...any) error {
		return &Error{Tag: tag, Msg: fmt.Sprintf(msg, a...), Arg: arg}
	}
	next := 0
	for i := range f.pieces {
		p := &f.pieces[i]
		if p.conv == nil || p.conv.verb == percent {
			continue
		}
		number, name := i+1, p.conv.name
		for _, dyn := range []struct {
			flag flags
			text string
		}{{dynWidth, "*"}, {dynPrec, ".*"}} {
			if p.flags&dyn.flag == 0 {
				continue
			}
			if next == len(args) {
				return fail("D_PRINTF_DYN_PROTO", -1, `%s( ) prototype mismatch: conversion #%d (%%%s) is missing a corresponding "%s" argument`,
					c.Func, number, name, dyn.text)
			}
			if !types.IsInteger(args[next]) {
				return fail("D_PRINTF_DYN_TYPE", next, "%s( ) argument #%d is incompatible with conversion #%d prototype:\n"+
					"\tconversion: %% %s %s\n\t prototype: int\n\t  argument: %s",
					c.Func, next+c.First+1, number, dyn.text, name, args[next])
			}
			next++
		}

		var what string
		var t types.Type
		arg := next
		switch {
		case p.agg:
			if c.Agg == agg.Invalid {
				return fail("D_PRINTF_AGG_CONV", -1, "%%@ conversion requires an aggregation and is not for use with %s( )", c.Func)
			}
			// Every result but a count is signed.
			what, arg, t = "aggregating action", -1, types.TInt64
			if c.Agg == agg.Count {
				t = types.TUint64
			}
		case next == len(args):
			return fail("D_PRINTF_ARG_PROTO", -1, "%s( ) prototype mismatch: conversion #%d (%%%s) is missing a corresponding value argument",
				c.Func, number, name)
		default:
			what, t = fmt.Sprintf("argument #%d", next+c.First+1), args[next]
			next++
		}
		if !p.conv.accept(t, &c) {
			return fail("D_PRINTF_ARG_TYPE", arg, "%s( ) %s is incompatible with conversion #%d prototype:\n"+
				"\tconversion: %%%s\n\t prototype: %s\n\t  argument: %s",
				c.Func, what, number, name, p.conv.proto, t)
		}
	}
	if c.Exact && next < len(args) {
		return fail("D_PRINTF_ARG_EXTRA", next, "%s( ) prototype mismatch: only %d arguments required by this format string", c.Func, next)
	}
	return nil
}
