package check

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"godtrace/internal/dlib"
)

//go:generate go test -run ^TestIdentifierPage$ -update

var update = flag.Bool("update", false, "write the page of identifiers")

const identifierPage = "../../doc/identifiers.md"

// The page of identifiers is that of the table.
func TestIdentifierPage(t *testing.T) {
	var b bytes.Buffer
	if err := writeIdentifiers(&b, dlib.Inlines()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(identifierPage, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(identifierPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s is not current: go generate ./internal/check", identifierPage)
	}
}

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

// writeIdentifiers writes the table of what D predefines, in Markdown. library
// are the names that the D library defines, with the file of each.
func writeIdentifiers(w io.Writer, library map[string]string) error {
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

// The names that the manuals of illumos, FreeBSD, Oracle Linux and macOS list,
// and what Linux adds.
const (
	manualVariables = `arg0 arg1 arg2 arg3 arg4 arg5 arg6 arg7 arg8 arg9 args caller ucaller cpu curcpu chip lgrp pset
		curthread curpsinfo curlwpsinfo cwd root epid id probeprov probemod probefunc probename errno execname execargs
		fds uid gid pid ppid tid ipl jid jailname zonename stackdepth ustackdepth timestamp vtimestamp walltimestamp
		uregs regs pthread_self dispatchqaddr machtimestamp cpuinstrs cpucycles vinstrs vcycles vmregs
		cgroup cgroupname netns pidns_pid comm_leader nmissed`
	manualActions = `trace tracemem printf printa print printm memref memstr stack ustack jstack sym func mod usym ufunc
		umod uaddr pcap lkd etw_trace exit normalize denormalize clear trunc speculation speculate commit discard setopt
		freopen ftruncate system raise stop copyout copyoutstr chill breakpoint panic return pidresume apple_define`
	manualSubroutines = `alloca bcopy copyin copyinstr copyinto strlen strjoin strchr strrchr strstr strtok substr index
		rindex basename dirname cleanpath lltostr strtoll tolower toupper json htons htonl htonll ntohs ntohl ntohll
		inet_ntoa inet_ntoa6 inet_ntop link_ntop getmajor getminor ddi_pathname getf d_path progenyof mutex_owned
		mutex_owner mutex_type_adaptive mutex_type_spin rw_iswriter rw_read_held rw_write_held sx_exclusive_held
		sx_shared_held sx_isexclusive msgsize msgdsize rand`
	manualAggregations = `count sum min max avg stddev quantize lquantize llquantize`
)

// Every identifier of the manuals is there, or refused with a reason.
func TestIdentifiersOfManuals(t *testing.T) {
	t.Attr("rows", "3.16") // as testkernel.Shows, which is of the kernel half
	t.Attr("rows", "3.16")
	library := dlib.Inlines()
	for _, name := range strings.Fields(manualVariables + " " + manualActions + " " + manualSubroutines + " " + manualAggregations) {
		id := identTable()[name]
		switch {
		case id == nil && library[name] == "":
			t.Errorf("%s is neither predefined nor refused", name)
		case id != nil && id.kind == idRefused && id.typ == "":
			t.Errorf("%s is refused without a reason", name)
		}
	}
}
