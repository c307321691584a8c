package syntax

// Token is the kind of a lexical token; operators serve in the tree as Op.
type Token uint8

const (
	EOF Token = iota
	Ident
	Int
	Str
	MacroTok // $name, $1, $$1
	AggTok   // @name

	Add           // +
	Sub           // -
	Mul           // *
	Div           // /
	Mod           // %
	And           // &
	Or            // |
	Xor           // ^
	Shl           // <<
	Shr           // >>
	Not           // ~
	LNot          // !
	LAnd          // &&
	LOr           // ||
	LXor          // ^^
	Eq            // ==
	Ne            // !=
	Lt            // <
	Le            // <=
	Gt            // >
	Ge            // >=
	Comma         // ,
	Assign_       // =
	Inc           // ++
	Dec           // --
	Amp     = And // & as address-of
	Star    = Mul // * as dereference
)

// Tokens beyond the operators of the tree.
const (
	Keyword  Token = 64 + iota // a reserved word, told apart by its text
	Desc                       // a probe description, at the outermost level only
	EndPred                    // the / that closes a predicate
	AssignOp                   // += and its like; the operator is kept beside it
	LParen
	RParen
	LBrack
	RBrack
	LBrace
	RBrace
	Semi
	Colon
	Question
	Dot
	Arrow
	Ellipsis
)

var tokenText = map[Token]string{
	Add: "+", Sub: "-", Mul: "*", Div: "/", Mod: "%", And: "&", Or: "|", Xor: "^", Shl: "<<", Shr: ">>",
	Not: "~", LNot: "!", LAnd: "&&", LOr: "||", LXor: "^^", Eq: "==", Ne: "!=", Lt: "<", Le: "<=", Gt: ">",
	Ge: ">=", Comma: ",", Assign_: "=", Inc: "++", Dec: "--", EndPred: "/", LParen: "(", RParen: ")",
	LBrack: "[", RBrack: "]", LBrace: "{", RBrace: "}", Semi: ";", Colon: ":", Question: "?", Dot: ".",
	Arrow: "->", Ellipsis: "...",
	EOF: "end of input", Ident: "identifier", Int: "integer", Str: "string", MacroTok: "macro", AggTok: "aggregation",
	Keyword: "keyword", Desc: "probe description", AssignOp: "assignment",
}

// String is how the token is written, or a word for its kind.
func (t Token) String() string { return tokenText[t] }

// precedence of the binary operators, as in C; ^^ lies between && and ||.
// 0: not a binary operator. Comma, ?: and assignment are parsed by hand.
func (t Token) precedence() int {
	switch t {
	case LOr:
		return 1
	case LXor:
		return 2
	case LAnd:
		return 3
	case Or:
		return 4
	case Xor:
		return 5
	case And:
		return 6
	case Eq, Ne:
		return 7
	case Lt, Le, Gt, Ge:
		return 8
	case Shl, Shr:
		return 9
	case Add, Sub:
		return 10
	case Mul, Div, Mod:
		return 11
	}
	return 0
}

// keywords are reserved in expressions and declarations, not after . and ->.
// The loops and jumps of C are reserved though D has none.
var keywords = wordSet(`auto break case char const continue counter default do double else enum extern
	float for goto if import inline int long offsetof probe provider register restrict return self short
	signed sizeof static string stringof struct switch this translator typedef union unsigned userland
	void volatile while xlate`)

// declStart are the keywords that begin a declaration at the outermost level.
var declStart = wordSet(`auto char const counter double enum extern float import inline int long provider
	register restrict self short signed static string struct this translator typedef union unsigned
	userland void volatile`)

// typeWords are the keywords a type may be spelt with; userland is illumos's.
var typeWords = wordSet(`char const double float int long restrict short signed string unsigned userland
	void volatile`)
