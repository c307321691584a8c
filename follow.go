package godtrace

import (
	"slices"
	"strconv"
	"strings"

	"godtrace/internal/syntax"
)

// followForks makes pid and go probes fire in the children of their process too, and
// in theirs: the option followfork. The provider then attaches to every process
// that has the file mapped, and the clauses ask whose child it is.
func (s *Session) followForks(file *syntax.File) {
	if !s.opts.flag("followfork") {
		return
	}
	var out []syntax.Decl
	for _, d := range file.Decls {
		c, ok := d.(*syntax.Clause)
		if !ok {
			out = append(out, d)
			continue
		}
		rest := slices.Clone(c.Descs)
		for len(rest) > 0 {
			// Descriptions in a row that belong to one process share a clause.
			pid := pidOf(rest[0])
			n := 1
			for n < len(rest) && pidOf(rest[n]) == pid {
				n++
			}
			part := *c
			part.Descs, rest = rest[:n], rest[n:]
			if pid > 0 {
				pos := c.Pos()
				of := syntax.Expr(syntax.NewCall(pos, "progenyof", syntax.NewIntLit(pos, pid)))
				if c.Pred != nil {
					of = syntax.NewBinary(pos, syntax.LAnd, of, syntax.NewParen(pos, c.Pred))
				}
				part.Pred = of
			}
			out = append(out, &part)
		}
	}
	file.Decls = out
}

// pidOf is the process of a description of the providers pid, uinstr and go; 0: of
// another.
func pidOf(d *syntax.ProbeDesc) uint64 {
	for _, stem := range []string{"pid", "uinstr", "go"} {
		if rest, ok := strings.CutPrefix(d.Provider, stem); ok {
			if pid, err := strconv.ParseUint(rest, 10, 31); err == nil {
				return pid
			}
		}
	}
	return 0
}
