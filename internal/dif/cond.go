package dif

var condNames = [...]string{"?", "==", "!=", "<", "<=", ">", ">=", "<u", "<=u", ">u", ">=u"}

func (c Cond) String() string {
	if int(c) < len(condNames) {
		return condNames[c]
	}
	return "?"
}

// Negate is the condition that holds where c does not.
func (c Cond) Negate() Cond {
	return [...]Cond{CondNone, NE, EQ, GE, GT, LE, LT, UGE, UGT, ULE, ULT}[c]
}

// Swap is the condition on exchanged operands.
func (c Cond) Swap() Cond {
	return [...]Cond{CondNone, EQ, NE, GT, GE, LT, LE, UGT, UGE, ULT, ULE}[c]
}

// Compare reports whether a c b.
func Compare(c Cond, a, b int64) bool {
	switch c {
	case EQ:
		return a == b
	case NE:
		return a != b
	case LT:
		return a < b
	case LE:
		return a <= b
	case GT:
		return a > b
	case GE:
		return a >= b
	case ULT:
		return uint64(a) < uint64(b)
	case ULE:
		return uint64(a) <= uint64(b)
	case UGT:
		return uint64(a) > uint64(b)
	case UGE:
		return uint64(a) >= uint64(b)
	}
	return false
}
