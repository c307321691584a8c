package check

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// kindTitles are the parts of the page of identifiers.
var kindTitles = []struct {
	kinds []identKind
	title string
}{
	{[]identKind{idScalar, idArgs, idRegs}, "Variables"},
	{[]identKind{idFunc}, "Subroutines"},
	{[]identKind{idActFunc}, "Actions"},
	{[]identKind{idAggFunc}, "Aggregating functions"},
	{[]identKind{idRefused}, "Not on Linux"},
}

// WriteIdentifiers writes the table of what D predefines, in Markdown. library
// are the names that the D library defines, with the file of each.
func WriteIdentifiers(w io.Writer, library map[string]string) error {
	var b strings.Builder
	b.WriteString("# What D predefines\n\nGenerated from the compiler's own table (`go generate ./internal/check`): every name that a program may use without " +
		"defining it.\nPrototypes are as in C; `@` is a parameter of any type, `[T]` an optional one. *Since* is the version of D that brought it " +
		"(`-x version=`); *stability*\nis that of name and data.\n")
	for _, part := range kindTitles {
		var rows []*ident
		for i := range idents {
			if slices.Contains(part.kinds, idents[i].kind) {
				rows = append(rows, &idents[i])
			}
		}
		slices.SortFunc(rows, func(x, y *ident) int { return cmp.Compare(x.name, y.name) })
		fmt.Fprintf(&b, "\n## %s\n\n", part.title)
		if part.title == "Not on Linux" {
			b.WriteString("These exist elsewhere. A program that uses one is refused, with the reason.\n\n| name | why, and what to use |\n|---|---|\n")
			for _, id := range rows {
				fmt.Fprintf(&b, "| `%s` | %s |\n", id.name, id.typ)
			}
			continue
		}
		b.WriteString("| name | type | since | stability |\n|---|---|---|---|\n")
		for _, id := range rows {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s, %s |\n", id.name, id.declared(), id.vers, id.attr.Name, id.attr.Data)
		}
	}
	b.WriteString("\n## The D library\n\nInlines of the library (`internal/dlib`), read when a program uses one.\n\n| file | names |\n|---|---|\n")
	files := map[string][]string{}
	for name, file := range library {
		files[file] = append(files[file], "`"+name+"`")
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		slices.Sort(files[file])
		fmt.Fprintf(&b, "| %s | %s |\n", file, strings.Join(files[file], " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// declared is an identifier's type or prototype.
func (id *ident) declared() string {
	switch {
	case id.kind == idArgs:
		return "typed by the probe"
	case id.kind == idRegs:
		return id.typ + " []"
	case id.kind == idFunc || id.kind == idActFunc || id.kind == idAggFunc:
		result, params, _ := strings.Cut(id.typ, "(")
		if !strings.HasSuffix(result, "*") {
			result += " "
		}
		return result + id.name + "(" + params
	}
	return id.typ
}

func (v version) String() string {
	s := fmt.Sprintf("%d.%d", v/10000, v/100%100)
	if micro := v % 100; micro != 0 {
		s += fmt.Sprintf(".%d", micro)
	}
	return s
}
