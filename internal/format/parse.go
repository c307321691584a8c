package format

import (
	"fmt"
	"strings"
)

// Error is a fault of a format or of its arguments. Its text is DTrace's.
type Error struct {
	Tag string // D_PRINTF_ARG_TYPE, …; D_SYNTAX for a fault of the text itself
	Msg string // without position, may have several lines
	Arg int    // index of the value argument at fault, -1 for the format
}

func (e *Error) Error() string { return e.Msg }

// flags of a conversion.
type flags uint8

const (
	alt      flags = 1 << iota // #
	zero                       // 0
	left                       // -
	plus                       // +
	space                      // blank
	group                      // '
	dynWidth                   // * as width
	dynPrec                    // * as precision
)

// maxWidth bounds widths and precisions, so that a format cannot make a
// record print gigabytes; scripts have been seen to ask for 10 million.
const maxWidth = 1 << 24

// piece is text that is printed as it is and, except at the end of a format,
// the conversion after it. Messages number pieces from 1.
type piece struct {
	text  string
	conv  *conversion // nil: text only
	flags flags
	agg   bool // %@: consumes an aggregation, not an argument
	width int  // 0: none given
	prec  int  // 0: none given; DTrace ignores an explicit 0
}

// Format is a parsed format. It is immutable and safe for concurrent use.
type Format struct {
	text   string
	pieces []piece
	values int
}

// String is the text the format was parsed from.
func (f *Format) String() string { return f.text }

// Values is the number of values the format consumes, '*'s included and the
// aggregations of %@ not.
func (f *Format) Values() int { return f.values }

// Parse reads a format. The error is an *Error.
func Parse(text string) (*Format, error) {
	if text == "" {
		return nil, &Error{Tag: "D_PRINTF_FMT_EMPTY", Msg: "format string is empty", Arg: -1}
	}
	f := &Format{text: text}
	for rest := text; rest != ""; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			f.pieces = append(f.pieces, piece{text: rest})
			break
		}
		p := piece{text: rest[:i]}
		n, err := p.parse(rest[i+1:], len(f.pieces)+1)
		if err != nil {
			return nil, err
		}
		rest = rest[i+1+n:]
		f.pieces = append(f.pieces, p)
		f.values += p.arguments()
	}
	return f, nil
}

// arguments is the number of values the conversion consumes.
func (p *piece) arguments() int {
	n := 0
	if p.flags&dynWidth != 0 {
		n++
	}
	if p.flags&dynPrec != 0 {
		n++
	}
	if p.conv.verb != percent && !p.agg {
		n++
	}
	return n
}

// parse reads a conversion, after its %, and returns its length. Like DTrace
// it takes flags, width and length letters in any order.
func (p *piece) parse(s string, number int) (int, error) {
	bad := func(format string, args ...any) (int, error) {
		msg := fmt.Sprintf("format conversion #%d ", number) + fmt.Sprintf(format, args...)
		return 0, &Error{Tag: "D_SYNTAX", Msg: msg, Arg: -1}
	}
	var name []byte
	dot, digits := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			if c == '0' && !dot && !digits {
				p.flags = p.flags&^left | zero
				continue
			}
			n := 0
			for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
				n = min(n*10+int(s[i]-'0'), maxWidth)
			}
			i--
			digits = true
			if dot {
				p.prec = n
			} else {
				p.width = n
			}
		case '#':
			p.flags |= alt
		case '*':
			bit, what := dynWidth, "width"
			if dot {
				bit, what = dynPrec, "precision"
			}
			if p.flags&bit != 0 {
				return bad("has more than one '*' specified for the output %s", what)
			}
			p.flags |= bit
		case '+':
			p.flags |= plus
		case '-':
			p.flags = p.flags&^zero | left
		case '.':
			if dot {
				return bad("has more than one '.' specified")
			}
			dot, digits = true, false
		case '?':
			p.width = 16 // the digits of an address
		case '@':
			p.agg = true
		case '\'':
			p.flags |= group
		case ' ':
			p.flags |= space
		case '$':
			return bad("uses unsupported positional format (%%n$)")
		case 'h', 'l', 'L', 'w':
			if len(name) < 6 {
				name = append(name, c)
			}
		default:
			if c == '%' && i > 0 {
				return bad("cannot be combined with other format flags: %%%%")
			}
			name = append(name, c)
			p.conv = conversions[string(name)]
			if p.conv == nil {
				return bad("is undefined: %%%s", name)
			}
			return i + 1, nil
		}
	}
	return bad("name expected before end of format string")
}
