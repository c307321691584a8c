// Package syntax holds the D language's tokens, scanner, parser, tree and
// positions, the printer of trees, and Error with its codes (D_…).
//
// Contract: the tree never changes after parsing. Everything found out about
// it later (types, uses) lives in side tables of package check.
package syntax

// Pos is a place in a source: 1-based line and column (bytes). File is "" for
// a program given on the command line (-n and its like).
type Pos struct {
	File      string
	Line, Col int
}

// Node is any part of the tree.
type Node interface{ Pos() Pos }

type node struct{ pos Pos }

func (n node) Pos() Pos { return n.pos }

// File is one compilation unit: one -n (-f -m -P -i) argument or one script.
type File struct {
	Name    string // as messages name it; "" for command-line text
	Decls   []Decl
	Pragmas []*Pragma // in source order, also those inside Decls' span
}

// Decl is a top-level declaration:
// *Clause, *VarDecl, *TypeDecl, *Inline, *Translator, *Provider.
type Decl interface {
	Node
	aDecl()
}

type (
	// Clause = ProbeDesc { "," ProbeDesc } [ "/" Expr "/" ] [ "{" { Stmt } "}" ] .
	// HasBody is false for a description without braces (default action).
	Clause struct {
		node
		Descs   []*ProbeDesc
		Pred    Expr // nil where there is none
		Body    []Stmt
		HasBody bool
		End     Pos
	}

	// ProbeDesc = [[[Provider ":"] Module ":"] Func ":"] Name, or a number (ID).
	// The parts are as written, macro variables expanded; "" matches all.
	// Colons is the number of colons written.
	ProbeDesc struct {
		node
		Text                         string // as written
		Provider, Module, Func, Name string
		Colons                       int
		ID                           int64 // >0: by identifier; the parts are then empty
	}

	// VarDecl declares variables: [self|this|extern|static] DeclSpec Declarator {"," Declarator} ";" .
	// An associative array is a Declarator with an Assoc part.
	VarDecl struct {
		node
		Class VarClass
		Spec  *DeclSpec
		Vars  []*Declarator
	}

	// TypeDecl: a typedef (Typedef set) or a bare struct, union or enum declaration (no Names).
	TypeDecl struct {
		node
		Typedef bool
		Spec    *DeclSpec
		Names   []*Declarator
	}

	// Inline = "inline" DeclSpec Declarator "=" Expr ";" . The declarator may have an Assoc part
	// with named parameters: inline int f[int a, string b] = …;
	Inline struct {
		node
		Spec *DeclSpec
		Decl *Declarator
		X    Expr
	}

	// Translator = "translator" TypeName "<" TypeName [ Name ] ">" "{" { Name "=" Expr ";" } "}" ";" .
	Translator struct {
		node
		Dst     *TypeName
		Src     *TypeName
		Param   string
		Members []*TransMember
		End     Pos // of the closing brace
	}

	// Provider = "provider" Name "{" { "probe" Name "(" params ")" [":" "(" params ")"] ";" } "}" ";" .
	Provider struct {
		node
		Name   string
		Probes []*ProviderProbe
	}
)

// TransMember is one "name = expr;" of a translator.
type TransMember struct {
	node
	Name string
	X    Expr
}

// ProviderProbe is one probe of a provider declaration.
type ProviderProbe struct {
	node
	Name       string
	Args       []*ParamDecl // native arguments
	Translated []*ParamDecl // nil where there is no ": (…)"
}

// Pragma is a "#pragma …" line, split into words after "#pragma"; D pragmas
// start with "D". Line directives are already applied to positions.
type Pragma struct {
	node
	Text  string
	Words []string
	Kinds []Token // of each word: Ident, Int, or Str for one written in quotes
}

// VarClass says where a variable lives.
type VarClass uint8

const (
	Global VarClass = iota // a global, also extern and static
	Self                   // thread-local, self->
	This                   // clause-local, this->
)

// Stmt is *ExprStmt, *If or *Block. Actions are expressions.
type Stmt interface {
	Node
	aStmt()
}

type (
	// ExprStmt = Expr ";" . X is nil for an empty statement.
	ExprStmt struct {
		node
		X Expr
	}
	// If = "if" "(" Expr ")" Stmt [ "else" Stmt ] .
	If struct {
		node
		Cond       Expr
		Then, Else []Stmt // Else nil where there is none
	}
	// Block = "{" { Stmt } "}" .
	Block struct {
		node
		Stmts []Stmt
	}
)

// Expr is an expression.
type Expr interface {
	Node
	aExpr()
}

type (
	// Name is an identifier. Scoped is set for `x or mod`x, Module being "" for
	// the former. Class is Self for self->x and This for this->x.
	Name struct {
		node
		Class  VarClass
		Scoped bool
		Module string
		Name   string
	}
	// IntLit is an integer or character constant. Suffix is lower case: "", "u", "l", "ul", "ll", "ull".
	IntLit struct {
		node
		Text     string
		Value    uint64
		Suffix   string
		Char     bool // 'a'
		Decimal  bool
		Overflow bool
	}
	// StringLit is a string constant, escapes resolved, adjacent ones joined.
	StringLit struct {
		node
		Value string
	}
	// FloatLit is refused by the checker (no floating point in D).
	FloatLit struct {
		node
		Text string
	}
	// Macro is a macro variable in an expression: $pid, $1, $$1, $target; Name
	// without the dollars, String set for $$. The parser leaves it to the checker.
	Macro struct {
		node
		Name   string
		String bool
	}
	// Unary = Op X: one of - + ! ~ * & ++ -- (prefix).
	Unary struct {
		node
		Op Token
		X  Expr
	}
	// Postfix = X ("++" | "--").
	Postfix struct {
		node
		Op Token
		X  Expr
	}
	// Binary: arithmetic, comparison, && || ^^ and the comma operator.
	Binary struct {
		node
		Op   Token
		X, Y Expr
	}
	// Assign = X op Y; Op is Assign_ for "=", else the operator of "op=".
	Assign struct {
		node
		Op   Token
		X, Y Expr
	}
	// Cond = C "?" X ":" Y.
	Cond struct {
		node
		C, X, Y Expr
	}
	// Call = Fun "(" args ")": subroutines and actions.
	Call struct {
		node
		Fun  *Name
		Args []Expr
	}
	// Index = X "[" args "]": arrays and associative arrays (also self->x[…]).
	Index struct {
		node
		X    Expr
		Args []Expr
	}
	// Member = X ("." | "->") Name.
	Member struct {
		node
		X     Expr
		Arrow bool
		Name  string
	}
	// Cast = "(" TypeName ")" X.
	Cast struct {
		node
		Type *TypeName
		X    Expr
	}
	// Sizeof = "sizeof" X or "sizeof" "(" TypeName ")".
	Sizeof struct {
		node
		Type *TypeName // nil: X
		X    Expr
	}
	// Offsetof = "offsetof" "(" TypeName "," member ")".
	Offsetof struct {
		node
		Type   *TypeName
		Member string
	}
	// Stringof = "stringof" X.
	Stringof struct {
		node
		X Expr
	}
	// Xlate = "xlate" "<" TypeName ">" "(" X ")".
	Xlate struct {
		node
		Type *TypeName
		X    Expr
	}
	// Agg = "@" [ Name ] [ "[" keys "]" ]. Name is "" (printed "_") for the unnamed one.
	Agg struct {
		node
		Name string
		Keys []Expr // nil: not keyed
	}
	// Paren = "(" X ")": kept so that trees print back.
	Paren struct {
		node
		X Expr
	}
)

// TypeName is a type in an expression: DeclSpec plus an abstract Declarator.
type TypeName struct {
	node
	Spec *DeclSpec
	Decl *Declarator
}

// DeclSpec is the specifier part of a declaration, words in source order.
type DeclSpec struct {
	node
	// Words are the plain words: const volatile restrict signed unsigned short
	// long int char void float double string userland _Bool (D and C spell
	// types with these); Type is a typedef name, with an optional scope: mod`name.
	Words   []string
	Module  string // mod of mod`name or struct mod`tag; "`name" alone gives Scoped
	Scoped  bool
	Type    string      // typedef name, "" where there is none
	Struct  *StructSpec // struct or union
	Enum    *EnumSpec
	Storage string // "" typedef extern static auto register self this
}

// StructSpec is "struct tag", "struct tag { … }" or "struct { … }" (or union).
type StructSpec struct {
	node
	Union   bool
	Tag     string
	HasBody bool
	Fields  []*FieldDecl
}

// FieldDecl is one member declaration of a struct: Spec and its declarators
// (empty for an anonymous struct or union member).
type FieldDecl struct {
	node
	Spec *DeclSpec
	Vars []*Declarator
}

// EnumSpec is an enum.
type EnumSpec struct {
	node
	Tag     string
	HasBody bool
	Values  []*EnumValue
}

// EnumValue is one enumerator; X nil: previous plus one.
type EnumValue struct {
	node
	Name string
	X    Expr
	End  Pos // of the comma or brace after it
}

// Declarator wraps a name: Parts are applied from the name outwards.
// "int *x[3]" has Parts [Array 3, Pointer]; an abstract one has Name "".
type Declarator struct {
	node
	Name  string
	Parts []DeclPart
	Bits  Expr // bit-field width, nil where there is none
}

// DeclPart is one step of a declarator. Exactly one of the forms is set.
type DeclPart struct {
	Pos      Pos
	Pointer  bool
	Quals    []string // with Pointer: const volatile restrict
	Array    bool
	Len      Expr         // with Array; nil: []
	Assoc    []*ParamDecl // tuple of an associative array: int x[string, int]
	Func     bool
	Params   []*ParamDecl // with Func
	Variadic bool
}

// ParamDecl is a parameter of a function type, probe or associative array.
// Void parameter lists are empty lists.
type ParamDecl struct {
	node
	Spec *DeclSpec
	Decl *Declarator
}

func (*Clause) aDecl()     {}
func (*VarDecl) aDecl()    {}
func (*TypeDecl) aDecl()   {}
func (*Inline) aDecl()     {}
func (*Translator) aDecl() {}
func (*Provider) aDecl()   {}

func (*ExprStmt) aStmt() {}
func (*If) aStmt()       {}
func (*Block) aStmt()    {}

func (*Name) aExpr()      {}
func (*IntLit) aExpr()    {}
func (*StringLit) aExpr() {}
func (*FloatLit) aExpr()  {}
func (*Macro) aExpr()     {}
func (*Unary) aExpr()     {}
func (*Postfix) aExpr()   {}
func (*Binary) aExpr()    {}
func (*Assign) aExpr()    {}
func (*Cond) aExpr()      {}
func (*Call) aExpr()      {}
func (*Index) aExpr()     {}
func (*Member) aExpr()    {}
func (*Cast) aExpr()      {}
func (*Sizeof) aExpr()    {}
func (*Offsetof) aExpr()  {}
func (*Stringof) aExpr()  {}
func (*Xlate) aExpr()     {}
func (*Agg) aExpr()       {}
func (*Paren) aExpr()     {}
