package provider

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/kernel"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
	"godtrace/internal/tracefs"
	"godtrace/internal/types"
)

// fbtProbes are the probes of a description; the test is skipped where kernel
// functions cannot be traced.
func probesOf(t *testing.T, p Provider, d probe.Desc) []*probe.Probe {
	t.Helper()
	testkernel.RequireRoot(t)
	d.Provider = p.Name()
	ps, err := p.Probes(d)
	if err != nil {
		testkernel.SkipIfUnsupported(t, err)
		t.Fatal(err)
	}
	return ps
}

func TestFbtLists(t *testing.T) {
	testkernel.Shows(t, "0.17")
	start := time.Now()
	got := map[string]int{}
	ids := map[int]string{}
	for _, pr := range probesOf(t, newFbt(), probe.Desc{}) {
		if other, ok := ids[pr.ID]; ok {
			t.Errorf("ID %d: %v and %s", pr.ID, pr.Desc, other)
		}
		ids[pr.ID] = pr.Desc.String()
		got[pr.Desc.Module+":"+pr.Desc.Func+":"+pr.Desc.Name]++
	}
	t.Logf("%d probes in %v", len(got), time.Since(start))
	root, err := tracefs.Root()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(root, "available_filter_functions"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	lines, twice, dots := 0, 0, 0
	for line := range strings.Lines(string(b)) {
		lines++
		name, mod, ok := strings.Cut(strings.TrimSpace(line), " [")
		if !ok {
			mod = "vmlinux]"
		}
		key := strings.TrimSuffix(mod, "]") + ":" + name
		switch {
		case strings.HasPrefix(name, "__ftrace_invalid_address__"), strings.Contains(name, "."):
			dots++
			continue
		case want[key+":entry"] > 0:
			twice++
			continue
		}
		want[key+":entry"], want[key+":return"] = 1, 1
	}
	t.Logf("%d functions of the kernel: %d occur again, %d have a dot or are disabled", lines, twice, dots)
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%s: listed %d times, want %d", k, got[k], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d probes, want %d", len(got), len(want))
	}
}

// One function by its full name: the same probe as in the list, without making it.
func TestFbtOneFunction(t *testing.T) {
	p := newFbt()
	start := time.Now()
	one := probesOf(t, p, probe.Desc{Func: "iterate_dir"})
	took := time.Since(start)
	if len(one) != 2 || p.list != nil {
		t.Fatalf("%d probes, list made: %v; want 2 without a list", len(one), p.list != nil)
	}
	all := probesOf(t, p, probe.Desc{})
	fresh := probesOf(t, newFbt(), probe.Desc{Func: "iterate_d*"})
	if !slices.Contains(all, one[0]) || !slices.Contains(all, one[1]) {
		t.Error("the list has other probes for the function")
	}
	if !slices.ContainsFunc(fresh, func(pr *probe.Probe) bool { return pr.ID == one[0].ID && pr.Desc == one[0].Desc }) {
		t.Errorf("ID %d is not that of the list", one[0].ID)
	}
	t.Logf("found in %v", took)
	var args [2][]string
	for i := range one {
		for _, a := range one[i].TypedArgs() {
			args[i] = append(args[i], types.Decl(a.Native, a.Name))
		}
	}
	// fs/readdir.c: int iterate_dir(struct file *file, struct dir_context *ctx)
	if want := []string{"struct file *file", "struct dir_context *ctx"}; !slices.Equal(normal(args[0]), normal(want)) {
		t.Errorf("entry: %q, want %q", args[0], want)
	}
	if want := []string{"int offset", "int"}; !slices.Equal(normal(args[1]), normal(want)) {
		t.Errorf("return: %q, want %q", args[1], want)
	}
}

// readDir calls iterate_dir n times in this process.
func readDir(t *testing.T, n int) {
	t.Helper()
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var buf [4096]byte
	for range n {
		if _, err := unix.Getdents(int(f.Fd()), buf[:]); err != nil {
			t.Fatal(err)
		}
	}
}

func programFor(t *testing.T, g *probe.Group) (*ebpf.Program, *ebpf.Map) {
	t.Helper()
	switch g.Kind {
	case probe.KindFentry, probe.KindFexit:
		return counterTo(t, ebpf.Tracing, ebpf.AttachType(g.AttachType), g.AttachTo)
	}
	return counter(t, ebpf.Kprobe, ebpf.AttachType(g.AttachType))
}

func TestFbtFires(t *testing.T) {
	testkernel.Shows(t, "0.6", "0.8", "4.11", "4.14")
	for _, tt := range []struct{ engine, returns, how string }{
		{"auto", "", ""}, {"fentry", "", "fentry fexit"}, {"multi", "", "kprobe.multi kretprobe.multi"},
		{"kprobe", "", "kprobe kretprobe"}, {"kprobe", "insn", "kprobe kprobe on return instructions"},
	} {
		t.Run(tt.engine+tt.returns, func(t *testing.T) {
			p := newFbt()
			p.Engine, p.Return = tt.engine, tt.returns
			ps := probesOf(t, p, probe.Desc{Module: "vmlinux", Func: "iterate_dir"})
			if len(ps) != 2 {
				t.Fatal(ps)
			}
			atts, err := p.Groups(ps)
			testkernel.SkipIfUnsupported(t, err)
			if err != nil {
				t.Fatal(err)
			}
			if tt.engine == "multi" && haveSessions() {
				tt.how = "kprobe.session kprobe.session"
			}
			how := p.Mechanism(ps[0]) + " " + p.Mechanism(ps[1])
			if tt.how != "" && how != tt.how {
				t.Errorf("mechanism %q, want %q", how, tt.how)
			}
			var maps []*ebpf.Map
			var cs closers
			start := time.Now()
			for _, a := range atts {
				prog, m := programFor(t, a.Group)
				cs = append(cs, attach(t, a, prog))
				maps = append(maps, m)
				for _, n := range a.Notes {
					t.Log(n)
				}
			}
			up := time.Since(start)
			readDir(t, 100)
			start = time.Now()
			if err := cs.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("%s: attached in %v, detached in %v", how, up, time.Since(start))
			for i, m := range maps {
				if n := counted(t, m, 0); n != 100 {
					t.Errorf("%s: program %d fired %d times, want 100", how, i, n)
				}
			}
			readDir(t, 1)
			if n := counted(t, maps[0], 0); n != 100 {
				t.Errorf("%s: fired after it was detached", how)
			}
		})
	}
}

// Every function of the kernel proper at once: those of modules go by kprobes.
func TestFbtAll(t *testing.T) {
	testkernel.Shows(t, "0.13", "1.22")
	p := newFbt()
	start := time.Now()
	ps := probesOf(t, p, probe.Desc{Module: "vmlinux", Name: "entry"})
	listed := time.Since(start)
	if !haveMulti() {
		t.Skip("SKIP-FEATURE: multi links of kprobes (since 5.18)")
	}
	atts, err := p.Groups(ps)
	if err != nil || len(atts) != 1 {
		t.Fatal(len(atts), err)
	}
	// The counter has eight keys: give one of them to the function that is called.
	prs := atts[0].Group.Probes
	for i, pr := range prs {
		if pr.Desc.Func == "iterate_dir" {
			prs[i], prs[7] = prs[7], prs[i]
		}
	}
	prog, m := counter(t, ebpf.Kprobe, ebpf.AttachType(atts[0].Group.AttachType))
	start = time.Now()
	c, err := atts[0].Attach(prog)
	if err != nil {
		t.Fatal(err)
	}
	up := time.Since(start)
	readDir(t, 10)
	start = time.Now()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%d functions: listed in %v, attached in %v, detached in %v", len(ps), listed, up, time.Since(start))
	for i, r := range atts[0].Refused {
		if i < 20 {
			t.Logf("refused: %v", r.Err)
		}
	}
	if n := len(atts[0].Refused); n > len(ps)/100 {
		t.Errorf("%d of %d refused", n, len(ps))
	}
	if n := counted(t, m, 7); n != 10 {
		t.Errorf("iterate_dir fired %d times, want 10", n)
	}
}

func TestKinst(t *testing.T) {
	testkernel.Shows(t, "1.36")
	p := newKinst()
	all := probesOf(t, p, probe.Desc{Func: "iterate_dir"})
	first := probesOf(t, p, probe.Desc{Func: "iterate_dir", Name: "0x0"})
	if len(first) != 1 || len(all) < 5 || all[0] != first[0] {
		t.Fatalf("%d instructions; the first: %v", len(all), first)
	}
	var offs []int
	for _, pr := range all {
		offs = append(offs, pr.Site.(instPlace).off)
	}
	for off := 1; off < offs[4]; off++ {
		_, err := p.Probes(probe.Desc{Provider: "kinst", Func: "iterate_dir", Name: fmt.Sprint(off)})
		if slices.Contains(offs, off) != (err == nil) {
			t.Errorf("offset %d: %v; instructions begin at %v", off, err, offs[:5])
		}
	}
	atts, err := p.Groups(all[:4])
	if err != nil || len(atts) != 1 {
		t.Fatal(len(atts), err)
	}
	prog, m := counter(t, ebpf.Kprobe, 0)
	var c io.Closer = attach(t, atts[0], prog)
	readDir(t, 50)
	c.Close()
	// The function begins without a branch.
	for i := range 4 {
		if n := counted(t, m, i); n != 50 {
			t.Errorf("%v fired %d times, want 50", all[i].Desc, n)
		}
	}
}

func TestRawfbt(t *testing.T) {
	p := newRawfbt()
	ps := probesOf(t, p, probe.Desc{Func: "iterate_dir"})
	if len(ps) != 2 {
		t.Fatal(ps)
	}
	dotted := probesOf(t, p, probe.Desc{Func: "*.isra.*", Name: "entry"})
	if len(dotted) == 0 {
		t.Error("no function with .isra. in its name")
	}
	atts, err := p.Groups(ps)
	if err != nil || len(atts) != 2 {
		t.Fatal(len(atts), err)
	}
	for _, a := range atts {
		prog, m := counter(t, ebpf.Kprobe, 0)
		c := attach(t, a, prog)
		readDir(t, 20)
		c.Close()
		if n := counted(t, m, 0); n != 20 {
			t.Errorf("%s fired %d times, want 20", a.Group.Name, n)
		}
	}
}

// What a kernel without probes says.
func TestFbtMissing(t *testing.T) {
	if haveKprobes() || tracefs.CanTraceFunctions() {
		t.Skip("SKIP-FEATURE: a kernel that cannot trace its functions")
	}
	for _, p := range []Provider{newFbt(), newRawfbt(), newKinst()} {
		_, err := p.Probes(probe.Desc{Provider: p.Name(), Func: "vfs_read"})
		if m, ok := err.(*kernel.FeatureError); !ok || m.Name == "" || m.Since == "" || m.Workaround == "" {
			t.Errorf("%s: %v, want a FeatureError", p.Name(), err)
		}
		if ps, err := p.Probes(probe.Desc{Func: "vfs_read", Name: "entry"}); err != nil || len(ps) > 0 {
			t.Errorf("%s: not asked for by name: %v, %v", p.Name(), ps, err)
		}
	}
}
