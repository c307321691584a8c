package check

import (
	"bytes"
	"flag"
	"os"
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
	if err := WriteIdentifiers(&b, dlib.Inlines()); err != nil {
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
