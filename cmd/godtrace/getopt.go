package main

import (
	"fmt"
	"strings"
)

// optString lists dtrace(1)'s options as getopt(3) takes them: a colon after a
// letter means that it has an argument. -d is FreeBSD's, -W macOS's.
const optString = "3:6:aAb:Bc:CdD:ef:FGhHi:I:lL:m:n:o:p:P:qs:SU:vVwW:x:X:Z"

// A word is an option with its argument, or an operand (opt is 0).
type word struct {
	opt byte
	arg string
}

// getopt splits the words of a command line, without its name. Operands may
// stand anywhere between options; after "--" everything is an operand.
func getopt(argv []string) ([]word, error) {
	var out []word
	for len(argv) > 0 {
		w := argv[0]
		argv = argv[1:]
		if w == "--" {
			for _, a := range argv {
				out = append(out, word{arg: a})
			}
			return out, nil
		}
		if len(w) < 2 || w[0] != '-' {
			out = append(out, word{arg: w})
			continue
		}
		for w = w[1:]; w != ""; {
			c := w[0]
			w = w[1:]
			i := strings.IndexByte(optString, c)
			if i < 0 || c == ':' {
				return nil, fmt.Errorf("invalid option -- '%c'", c)
			}
			if i+1 == len(optString) || optString[i+1] != ':' {
				out = append(out, word{opt: c})
				continue
			}
			if w == "" {
				if len(argv) == 0 {
					return nil, fmt.Errorf("option requires an argument -- '%c'", c)
				}
				w, argv = argv[0], argv[1:]
			}
			if (c == '3' && w != "2") || (c == '6' && w != "4") {
				return nil, fmt.Errorf("illegal option -- %c%s", c, w)
			}
			out = append(out, word{c, w})
			w = ""
		}
	}
	return out, nil
}
