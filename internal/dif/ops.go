package dif

// opInfo is what passes, the verifier and the printer know of an operation.
type opInfo struct {
	name string
	use  uint8 // uA | uB | uArgs
	dst  uint8 // 0: none, 1: must have one, 2: may have one
	pure bool  // nothing happens but Dst being set
	temp uint8 // 0: none, 1: a temp of Size bytes, 2: may have one (key, string result)
}

const (
	uA     = 1 << iota // reads A
	uB                 // reads B, or Imm where B is 0
	uAOpt              // reads A where it is not 0
	uBOpt              // reads B where it is not 0
	uArgs              // reads Args
	noDst  = 0
	hasDst = 1
	optDst = 2
	noTemp = 0
	inTemp = 1
	optTmp = 2
)

var ops = [...]opInfo{
	Nop:        {name: "nop"},
	LabelOp:    {name: "label"},
	Jmp:        {name: "jmp"},
	Br:         {name: "br", use: uA | uBOpt},
	Ret:        {name: "ret"},
	Fault:      {name: "fault", use: uAOpt},
	Imm:        {name: "imm", dst: hasDst, pure: true},
	Mov:        {name: "mov", use: uA, dst: hasDst, pure: true},
	Add:        {name: "add", use: uA | uBOpt, dst: hasDst, pure: true},
	Sub:        {name: "sub", use: uA | uBOpt, dst: hasDst, pure: true},
	Mul:        {name: "mul", use: uA | uBOpt, dst: hasDst, pure: true},
	Div:        {name: "div", use: uA | uBOpt, dst: hasDst},
	Mod:        {name: "mod", use: uA | uBOpt, dst: hasDst},
	And:        {name: "and", use: uA | uBOpt, dst: hasDst, pure: true},
	Or:         {name: "or", use: uA | uBOpt, dst: hasDst, pure: true},
	Xor:        {name: "xor", use: uA | uBOpt, dst: hasDst, pure: true},
	Shl:        {name: "shl", use: uA | uBOpt, dst: hasDst, pure: true},
	Shr:        {name: "shr", use: uA | uBOpt, dst: hasDst, pure: true},
	Sar:        {name: "sar", use: uA | uBOpt, dst: hasDst, pure: true},
	Neg:        {name: "neg", use: uA, dst: hasDst, pure: true},
	Not:        {name: "not", use: uA, dst: hasDst, pure: true},
	Ext:        {name: "ext", use: uA, dst: hasDst, pure: true},
	Set:        {name: "set", use: uA | uBOpt, dst: hasDst, pure: true},
	KSymAddr:   {name: "ksym", dst: hasDst, pure: true},
	Load:       {name: "load", use: uA, dst: hasDst},
	Store:      {name: "store", use: uA | uB},
	TempAddr:   {name: "tempaddr", dst: hasDst, pure: true, temp: inTemp},
	TLoad:      {name: "tload", dst: hasDst, pure: true, temp: inTemp},
	TStore:     {name: "tstore", use: uA, temp: inTemp},
	TZero:      {name: "tzero", temp: inTemp},
	TStr:       {name: "tstr", use: uA, dst: optDst, temp: inTemp},
	TMem:       {name: "tmem", use: uA, temp: inTemp},
	TBuiltin:   {name: "tbuiltin", temp: inTemp},
	TProbeStr:  {name: "tprobestr", temp: inTemp},
	TStack:     {name: "tstack", temp: inTemp},
	TVar:       {name: "tvar", temp: inTemp},
	StrAddr:    {name: "straddr", dst: hasDst, pure: true},
	Builtin:    {name: "builtin", use: uBOpt, dst: hasDst, pure: true},
	VarGet:     {name: "varget", dst: hasDst, pure: true},
	VarSet:     {name: "varset", use: uA},
	VarAddr:    {name: "varaddr", dst: hasDst, pure: true},
	VarStr:     {name: "varstr", use: uA},
	VarMem:     {name: "varmem", use: uA},
	DynGet:     {name: "dynget", dst: hasDst, pure: true, temp: optTmp},
	DynSet:     {name: "dynset", use: uA, temp: optTmp},
	DynAddr:    {name: "dynaddr", dst: hasDst, pure: true, temp: optTmp},
	DynStr:     {name: "dynstr", use: uA, temp: optTmp},
	DynMem:     {name: "dynmem", use: uA, temp: optTmp},
	DynDel:     {name: "dyndel", temp: optTmp},
	Call:       {name: "call", use: uArgs, dst: optDst, temp: optTmp},
	AggUpdate:  {name: "agg", use: uAOpt | uBOpt, temp: optTmp},
	RecBegin:   {name: "recbegin", use: uAOpt},
	RecStore:   {name: "recstore", use: uA},
	RecStr:     {name: "recstr", use: uA},
	RecMem:     {name: "recmem", use: uA | uBOpt},
	RecBuiltin: {name: "recbuiltin"},
	RecStack:   {name: "recstack"},
	RecCommit:  {name: "reccommit"},
	Act:        {name: "act", use: uArgs, dst: optDst},
}

func (o Op) String() string {
	if int(o) < len(ops) && ops[o].name != "" {
		return ops[o].name
	}
	return "op?"
}

// Uses calls fn for every register that i reads.
func (i *Ins) Uses(fn func(*Reg)) {
	u := ops[i.Op].use
	if u&(uA|uAOpt) != 0 && i.A != 0 {
		fn(&i.A)
	}
	if u&(uB|uBOpt) != 0 && i.B != 0 {
		fn(&i.B)
	}
	if u&uArgs != 0 {
		for k := range i.Args {
			fn(&i.Args[k])
		}
	}
}

// Def is the register that i sets, or 0.
func (i *Ins) Def() Reg {
	if ops[i.Op].dst == noDst {
		return 0
	}
	return i.Dst
}

// Pure reports that i does nothing but set Dst: it cannot fault either.
func (i *Ins) Pure() bool { return ops[i.Op].pure }
