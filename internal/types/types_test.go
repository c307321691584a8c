package types

import "testing"

func TestString(t *testing.T) {
	foo := &Struct{Tag: "foo"}
	cchar := &Qualified{Const: true, Type: TChar}
	fn := &Func{Ret: TInt, Params: []Param{{"x", TInt}}}
	ptr := func(t Type) Type { return &Pointer{Elem: t} }
	tests := []struct {
		t    Type
		want string
		decl string // of the name "v"
	}{
		{TInt, "int", "int v"},
		{TULong, "unsigned long", "unsigned long v"},
		{TString, "string", "string v"},
		{TUint8, "uint8_t", "uint8_t v"},
		{foo, "struct foo", "struct foo v"},
		{&Struct{Union: true, Tag: "u"}, "union u", "union u v"},
		{&Struct{}, "struct {...}", "struct {...} v"},
		{&Enum{Tag: "e"}, "enum e", "enum e v"},
		{ptr(foo), "struct foo *", "struct foo *v"},
		{ptr(ptr(TInt)), "int **", "int **v"},
		{ptr(cchar), "const char *", "const char *v"},
		{&Qualified{Const: true, Type: ptr(TChar)}, "char *const", "char *const v"},
		{&Qualified{Const: true, Type: ptr(cchar)}, "const char *const", "const char *const v"},
		{ptr(&Qualified{Const: true, Type: ptr(TChar)}), "char *const *", "char *const *v"},
		{&Qualified{Const: true, Volatile: true, Type: TInt}, "const volatile int", "const volatile int v"},
		{arr(4, TInt), "int [4]", "int v[4]"},
		{arr(2, arr(3, TInt)), "int [2][3]", "int v[2][3]"},
		{&Array{Elem: TChar, Flexible: true}, "char []", "char v[]"},
		{arr(4, ptr(TInt)), "int *[4]", "int *v[4]"},
		{ptr(arr(4, TInt)), "int (*)[4]", "int (*v)[4]"},
		{ptr(fn), "int (*)(int)", "int (*v)(int)"},
		{arr(2, ptr(fn)), "int (*[2])(int)", "int (*v[2])(int)"},
		{fn, "int (int)", "int v(int)"},
		{ptr(&Func{Ret: ptr(fn)}), "int (*(*)())(int)", "int (*(*v)())(int)"},
		{ptr(&Func{Ret: TVoid, Params: []Param{{"", ptr(cchar)}, {"", ptr(fn)}}, Variadic: true}),
			"void (*)(const char *, int (*)(int), ...)", "void (*v)(const char *, int (*)(int), ...)"},
		{&Pointer{}, "void *", "void *v"},
	}
	for _, tt := range tests {
		if got := tt.t.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		if got := Decl(tt.t, "v"); got != tt.decl {
			t.Errorf("got %q, want %q", got, tt.decl)
		}
	}
}

func TestFromSpecifiers(t *testing.T) {
	for _, tt := range []struct {
		words []string
		want  *Basic // nil: not a type
	}{
		{[]string{"int"}, TInt},
		{[]string{"unsigned"}, TUInt},
		{[]string{"signed"}, TInt},
		{[]string{"long", "unsigned", "int"}, TULong},
		{[]string{"int", "long", "long"}, TLongLong},
		{[]string{"short", "unsigned"}, TUShort},
		{[]string{"signed", "char"}, TSChar},
		{[]string{"char", "unsigned"}, TUChar},
		{[]string{"long", "double"}, TLongDouble},
		{[]string{"_Bool"}, TBool},
		{[]string{"string"}, TString},
		{[]string{"void"}, TVoid},
		{nil, nil},
		{[]string{"long", "long", "long"}, nil},
		{[]string{"long", "short"}, nil},
		{[]string{"unsigned", "signed"}, nil},
		{[]string{"unsigned", "float"}, nil},
		{[]string{"long", "char"}, nil},
		{[]string{"short", "double"}, nil},
		{[]string{"unsigned", "void"}, nil},
		{[]string{"int", "char"}, nil},
		{[]string{"char", "char"}, nil},
		{[]string{"foo"}, nil},
	} {
		got, ok := FromSpecifiers(tt.words...)
		if got != tt.want || ok != (tt.want != nil) {
			t.Errorf("%q: %v, want %v", tt.words, got, tt.want)
		}
	}
}

func TestCompat(t *testing.T) {
	ptr := func(t Type) Type { return &Pointer{Elem: t} }
	kfoo := &Struct{Tag: "foo", Scope: "vmlinux", Bytes: 8}
	dfoo := &Struct{Tag: "foo", Scope: "D", Bytes: 8}
	bar := &Struct{Tag: "bar", Scope: "D", Bytes: 8}
	uchar := &Basic{Kind: Char, Name: "char", Bytes: 1} // of a kernel built with -funsigned-char
	user := &Pointer{Elem: TChar, User: true}

	if Identical(kfoo, dfoo) || !Identical(kfoo, &Qualified{Const: true, Type: kfoo}) {
		t.Error("Identical looks at scopes, not at qualifiers")
	}
	if !Identical(TUint64, &Basic{Kind: Int, Name: "long unsigned int", Bytes: 8}) || Identical(TInt, TUInt) {
		t.Error("Identical on integers")
	}
	for _, tt := range []struct {
		l     Type
		lzero bool
		r     Type
		rzero bool
		want  string // "" not compatible
	}{
		{ptr(kfoo), false, ptr(dfoo), false, "struct foo *"},
		{ptr(kfoo), false, ptr(bar), false, ""},
		{ptr(kfoo), false, TVoidPtr, false, "struct foo *"},
		{TVoidPtr, false, ptr(kfoo), false, "struct foo *"},
		{ptr(kfoo), false, TInt, true, "struct foo *"},
		{ptr(kfoo), false, TInt, false, ""},
		{TInt, true, ptr(kfoo), false, "struct foo *"},
		{TInt, true, TInt, true, ""},
		{TCharPtr, false, arr(16, uchar), false, "char [16]"},
		{TCharPtr, false, ptr(TUChar), false, ""},
		{TCharPtr, false, user, false, ""},
		{user, false, user, false, "char *"},
		{TDynamic, false, ptr(kfoo), false, ""},
		{kfoo, false, ptr(kfoo), false, ""},
		{TString, false, TCharPtr, false, ""},
	} {
		got, ok := PtrCompat(tt.l, tt.lzero, tt.r, tt.rzero)
		s := ""
		if ok {
			s = got.String()
		}
		if s != tt.want {
			t.Errorf("%s with %s: %q, want %q", tt.l, tt.r, s, tt.want)
		}
	}
	for _, tt := range []struct {
		arg, param Type
		want       bool
	}{
		{TChar, TULong, true},
		{TString, TCharPtr, true},
		{arr(16, TChar), TString, true},
		{TInt, TString, false},
		{TStack, TUStack, true},
		{TSymAddr, TSymAddr, true},
		{TSymAddr, TUSymAddr, false},
		{kfoo, dfoo, true},
		{kfoo, bar, false},
		{ptr(kfoo), TVoidPtr, true},
	} {
		if got := ArgCompat(tt.arg, false, tt.param); got != tt.want {
			t.Errorf("%s for %s: %v", tt.arg, tt.param, got)
		}
	}
}

func TestClasses(t *testing.T) {
	enum := &Enum{Tag: "e", Bytes: 4}
	s := &Struct{Tag: "s"}
	for _, tt := range []struct {
		name string
		f    func(Type) bool
		yes  []Type
		no   []Type
	}{
		{"IsInteger", IsInteger, []Type{TInt, TUint8, TBool, enum, &Qualified{Const: true, Type: TPid}}, []Type{TFloat, TCharPtr, s, TString, TVoid}},
		{"IsScalar", IsScalar, []Type{TInt, TCharPtr}, []Type{s, arr(2, TInt), TString, TFloat}},
		{"IsByRef", IsByRef, []Type{s, arr(2, TInt), TString}, []Type{TInt, TCharPtr}},
		{"IsStrCompat", IsStrCompat, []Type{TString, TCharPtr, arr(2, TUint8)}, []Type{TInt, TVoidPtr, s}},
		{"IsSigned", IsSigned, []Type{TInt, TChar, TInt64}, []Type{TUInt, enum, TCharPtr, TBool}},
	} {
		for _, x := range tt.yes {
			if !tt.f(x) {
				t.Errorf("%s(%s) is false", tt.name, x)
			}
		}
		for _, x := range tt.no {
			if tt.f(x) {
				t.Errorf("%s(%s) is true", tt.name, x)
			}
		}
	}
	if ElemSize(&Pointer{Elem: s}) != 0 || ElemSize(TVoidPtr) != 1 || ElemSize(arr(3, TInt)) != 4 {
		t.Error("ElemSize")
	}
}

func TestScope(t *testing.T) {
	d := NewDScope(NewCScope())
	for _, name := range []string{"int", "string", "uint64_t", "u_longlong_t", "pid_t"} {
		if _, ok := d.LookupType(TypedefName, name); !ok {
			t.Errorf("no %s", name)
		}
	}
	if _, ok := d.LookupType(TypedefName, "hrtime_t"); ok {
		t.Error("hrtime_t is D's own")
	}
	if x, ok := NewSolarisScope().LookupType(TypedefName, "hrtime_t"); !ok || x.Size() != 8 || !IsSigned(x) {
		t.Errorf("hrtime_t: %v", x)
	}
	fwd := &Struct{Tag: "foo", Incomplete: true}
	full := NewStruct("D", "foo", false, []Field{mem("a", TInt)})
	if !d.Define(StructTag, "foo", fwd) || !d.Define(StructTag, "foo", full) || d.Define(StructTag, "foo", fwd) {
		t.Error("a declaration is completed once")
	}
	if _, ok := d.LookupType(UnionTag, "foo"); ok {
		t.Error("union foo")
	}
	d.Define(EnumTag, "color", &Enum{Tag: "color", Bytes: 4, Values: []Enumerator{{"RED", 0}, {"GREEN", 1}}})
	if e, c, ok := d.LookupEnumerator("GREEN"); !ok || c.Value != 1 || e.NameOf(0) != "RED" {
		t.Errorf("GREEN: %v %v", e, c)
	}
}
