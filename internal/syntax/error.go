package syntax

import "fmt"

// Error is an error in a D program. Tag is DTrace's (D_SYNTAX, D_IDENT_UNDEF,
// …) without brackets; Msg is worded as DTrace words it.
type Error struct {
	Pos Pos
	Tag string
	Msg string
	// Hint says what to do next ("did you mean …"); "" where there is none.
	Hint string
	// Region is the part of a clause the error is in, "action list" or
	// "predicate"; "" elsewhere. DTrace names it instead of the line for
	// programs given on the command line.
	Region string
}

func (e *Error) Error() string {
	if e.Pos.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d: %s", e.Pos.Line, e.Msg)
}

// Errorf makes an Error.
func Errorf(pos Pos, tag, format string, args ...any) *Error {
	return &Error{Pos: pos, Tag: tag, Msg: fmt.Sprintf(format, args...)}
}
