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
