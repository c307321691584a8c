// Bench measures godtrace side by side with other tracers, in interleaved
// rounds, and prints a table. It needs root.
//
//	go run ./bench [-rounds N] [-run REGEXP] [-who A,B] [-calls N] [-save] [-vm KERNEL]
//	go run ./bench -table FILE
//
// With -vm it all happens in a guest of the kernel matrix (6.1, 6.12, 7.2), by
// emulation: figures compare contestants, they are not those of hardware. Probes
// on kernel functions are measured there where this kernel's text cannot be
// patched.
//
// Contestants: "none" (nothing attached), "minimal" (a program assembled by
// hand for the benchmark, see minimal.go), "godtrace" (built from this tree),
// and from Debian sid, in a root of their own: "bpftrace", "dtrace" (Oracle's),
// "strace".
//
// What a firing adds is measured on the traced thread's own CPU clock, against
// the rounds in which nothing was attached, and by the minimum: other work on
// the machine can only add. Every tracer that counts is held to the number of
// calls that the traced program made; one that missed some is not measured but
// reported. The raw samples go to bench/results/TIME.json; -save puts the
// table beside them as DATE.md.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "bench: needs root")
		os.Exit(1)
	}
	if os.Getenv(bare) != "" {
		if err := bareTracer(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	private()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 5, "rounds of each benchmark")
	only := flag.String("run", "", "only benchmarks that match: start, records, bulk, memory, size, or the name of a firing")
	who := flag.String("who", "none,minimal,godtrace,bpftrace,dtrace,strace", "contestants")
	calls := flag.Int("calls", 300_000, "calls of a pass")
	save := flag.Bool("save", false, "keep the table as bench/results/DATE.md")
	guest := flag.String("vm", "", "measure in a guest with this kernel: 6.1, 6.12, 7.2")
	built := flag.String("built", "", "folder of the built tools; the raw result goes to the output (for -vm)")
	kept := flag.String("table", "", "measure nothing, print the table of these raw samples (bench/results/*.json)")
	flag.Parse()
	if *kept != "" {
		text, err := os.ReadFile(*kept)
		if err != nil {
			return err
		}
		var r raw
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s: %w", *kept, err)
		}
		b := &bench{machine: r.Machine, samples: r.Samples, failures: r.Failures, when: r.Time}
		fmt.Print(b.table())
		return nil
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	b := &bench{rounds: *rounds, match: match, who: strings.Split(*who, ","), machine: machine(), when: time.Now().UTC(), failures: make(map[string]string)}
	if *built != "" {
		b.tools = tools{measure: filepath.Join(*built, "measure"), trigger: filepath.Join(*built, "syscalls"), godtrace: filepath.Join(*built, "godtrace")}
		if _, err := os.Stat(guestPeers); err == nil {
			b.peers = &peers{guestPeers}
			if err := b.peers.mount(); err != nil {
				return err
			}
		}
		b.all(*calls)
		text, err := json.Marshal(b.raw())
		fmt.Printf("\n%s%s\n", rawMark, text)
		return err
	}
	tmp, err := os.MkdirTemp("", "godtrace-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := b.build(tmp); err != nil {
		return err
	}
	if b.takesPart("bpftrace") || b.takesPart("dtrace") || b.takesPart("strace") {
		p, err := installPeers()
		if err == nil && *guest == "" {
			err = p.mount()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: no peers:", err)
		} else {
			b.peers = p
		}
	}
	name := time.Now().UTC().Format("2006-01-02")
	if *guest != "" {
		var args []string
		flag.Visit(func(f *flag.Flag) {
			if f.Name != "vm" && f.Name != "save" {
				args = append(args, "-"+f.Name, f.Value.String())
			}
		})
		if err := b.inGuest(*guest, tmp, args); err != nil {
			return err
		}
		name += "-linux-" + *guest
	} else {
		b.all(*calls)
	}
	if err := b.keep(); err != nil {
		return err
	}
	table := b.table()
	fmt.Print(table)
	if *save {
		return os.WriteFile(filepath.Join("bench/results", name+".md"), []byte(table), 0o644)
	}
	return nil
}

// all runs every benchmark that was asked for.
func (b *bench) all(calls int) {
	b.starts()
	for _, f := range firings {
		b.firing(f, calls)
	}
	for _, f := range slices.Concat(stackFirings, functionFirings) {
		b.firing(f, calls)
	}
	b.every()
	b.userProbes(calls)
	b.records()
}

type bench struct {
	tools
	rounds   int
	match    *regexp.Regexp
	who      []string
	machine  string
	when     time.Time
	samples  []sample
	failures map[string]string // "bench|who" → why it was not measured
}

func (b *bench) takesPart(who string) bool { return slices.Contains(b.who, who) }

func (b *bench) build(tmp string) error {
	for _, p := range []struct {
		to   *string
		name string
		args []string
	}{
		{&b.measure, "measure", []string{"-ldflags=-s -w", "./bench/measure"}},
		{&b.trigger, "syscalls", []string{"./test/trigger/syscalls"}},
		{&b.godtrace, "godtrace", []string{"-trimpath", "-ldflags=-s -w", "./cmd/godtrace"}},
	} {
		*p.to = filepath.Join(tmp, p.name)
		cmd := exec.Command("go", append([]string{"build", "-o", *p.to}, p.args...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			if p.name == "godtrace" && !b.takesPart("godtrace") {
				continue
			}
			return fmt.Errorf("go build %s: %w\n%s", p.name, err, out)
		}
	}
	return nil
}

func (b *bench) add(bench, who, unit string, round int, value float64, note string) {
	b.samples = append(b.samples, sample{Bench: bench, Who: who, Unit: unit, Round: round, Value: value, Note: note})
}

func (b *bench) fail(bench, who string, err error) {
	key := bench + "|" + who
	if b.failures[key] == "" {
		fmt.Fprintf(os.Stderr, "bench: %s, %s: %v\n", bench, who, err)
		b.failures[key] = err.Error()
	}
}

// contestants of a benchmark, in an order that turns by one each round, so
// that none is always behind the same other.
func (b *bench) order(round int, all ...string) []string {
	var in []string
	for _, w := range all {
		if b.takesPart(w) {
			in = append(in, w)
		}
	}
	if len(in) == 0 {
		return nil
	}
	return slices.Concat(in[round%len(in):], in[:round%len(in)])
}

func (b *bench) starts() {
	if b.match.MatchString("size") && b.takesPart("godtrace") {
		if info, err := os.Stat(b.godtrace); err == nil {
			b.add("size of the binary", "godtrace", "MB", 0, float64(info.Size())/1e6, "")
		}
	}
	if !b.match.MatchString("start") {
		return
	}
	fmt.Fprintln(os.Stderr, "bench: start")
	for round := range 4 * b.rounds {
		for _, w := range b.order(round, "none", "godtrace", "bpftrace", "dtrace") {
			if w != "none" && w != "godtrace" && round >= b.rounds {
				continue // the slow ones have fewer rounds
			}
			wall, cpu, rss, err := b.start(w)
			if err != nil {
				b.fail("start", w, err)
				continue
			}
			b.add("start", w, "ms", round, wall, "")
			b.add("start, CPU", w, "ms", round, cpu, "")
			b.add("start, peak memory", w, "MB", round, rss*1024/1e6, "")
			// Attaching right after a detach waits for the kernel: not
			// what a user meets.
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (b *bench) firing(f firing, calls int) {
	if !b.match.MatchString(f.name) || f.patches && !patchable() {
		return
	}
	fmt.Fprintln(os.Stderr, "bench:", f.name)
	for round := range b.rounds {
		for _, w := range b.order(round, "none", "minimal", "godtrace", "bpftrace", "dtrace") {
			// Who cannot even do nothing is left out of the rest.
			if b.failures[f.name+"|"+w] != "" || b.failures["start|"+w] != "" {
				continue
			}
			values, note, err := b.firingRound(f, w, calls)
			if err != nil {
				b.fail(f.name, w, err)
				continue
			}
			for _, v := range values {
				b.add(f.name, w, "ns", round, v, note)
			}
			var kb float64
			if n, _ := fmt.Sscanf(note, "peak %f", &kb); n == 1 {
				b.add("memory, "+f.name, w, "MB", round, kb*1024/1e6, "")
			}
		}
		if f.name == "count" && b.takesPart("strace") {
			if v, err := b.straceRound(calls / 20); err != nil {
				b.fail(f.name, "strace", err)
			} else {
				b.add(f.name, "strace", "ns", round, v, "wall")
			}
		}
	}
}

func (b *bench) records() {
	if !b.match.MatchString("records") {
		return
	}
	fmt.Fprintln(os.Stderr, "bench: records")
	for round := range b.rounds {
		for _, w := range b.order(round, "godtrace", "bpftrace") {
			made, got, lost, seconds, err := b.recordsRound(w, 2*time.Second)
			if err != nil {
				b.fail("records", w, err)
				continue
			}
			note := fmt.Sprintf("made %d, printed %d, said to be lost %d", made, got, lost)
			b.add("records made", w, "M/s", round, float64(made)/seconds/1e6, note)
			b.add("records printed", w, "M/s", round, float64(got)/seconds/1e6, note)
			b.add("records unaccounted for", w, "", round, float64(int64(made)-int64(got)-int64(lost)), note)
		}
	}
}

// keep writes the raw samples.
func (b *bench) keep() error {
	if len(b.samples) == 0 {
		return errors.New("nothing was measured")
	}
	if err := os.MkdirAll("bench/results", 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(b.raw(), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("bench/results", time.Now().UTC().Format("20060102-150405")+".json"), text, 0o644)
}

func (b *bench) raw() raw { return raw{b.machine, b.when, b.samples, b.failures} }

// machine describes the machine by its kernel and processors, not by name.
func machine() string {
	var u unix.Utsname
	unix.Uname(&u)
	model := "unknown processor"
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for in := bufio.NewScanner(f); in.Scan(); {
			if _, v, ok := strings.Cut(in.Text(), ": "); ok && strings.HasPrefix(in.Text(), "model name") {
				model = v
				break
			}
		}
	}
	var set unix.CPUSet
	unix.SchedGetaffinity(0, &set)
	release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	return fmt.Sprintf("Linux %s, %d CPUs, %s", release, set.Count(), model)
}

// table has a line per benchmark and contestant. For firings the figures are
// what the contestant adds to a call on which nothing is attached.
func (b *bench) table() string {
	type key struct{ bench, who string }
	values := make(map[key][]float64)
	unit := make(map[string]string)
	var benches []string
	for _, s := range b.samples {
		k := key{s.Bench, s.Who}
		values[k] = append(values[k], s.Value)
		if !slices.Contains(benches, s.Bench) {
			benches = append(benches, s.Bench)
		}
		unit[s.Bench] = s.Unit
	}
	order := []string{"none", "minimal", "godtrace", "bpftrace", "dtrace", "strace"}
	var out strings.Builder
	fmt.Fprintf(&out, "%s. %s.\n\n", b.when.Format("2006-01-02 15:04"), b.machine)
	out.WriteString("Firings are ns of CPU added to a call, against the fastest call with nothing attached; spread is between the quartiles.\n\n")
	out.WriteString("| benchmark | who | min | median | spread | n | of minimal | of bpftrace |\n|---|---|--:|--:|--:|--:|--:|--:|\n")
	for _, name := range benches {
		isFiring := slices.ContainsFunc(slices.Concat(firings, stackFirings, functionFirings, userFirings), func(f firing) bool { return f.name == name })
		base := 0.0
		if isFiring {
			base = summarize(values[key{name, "none"}]).min
		}
		ratio := func(s stats, who string) string {
			o, ok := values[key{name, who}]
			if !ok || strings.HasPrefix(name, "records") {
				return ""
			}
			return number((s.min - base) / (summarize(o).min - base))
		}
		for _, w := range order {
			v, ok := values[key{name, w}]
			why := b.failures[name+"|"+w]
			if !ok && why == "" {
				continue
			}
			label := name
			if unit[name] != "" {
				label += ", " + unit[name]
			}
			if !ok {
				fmt.Fprintf(&out, "| %s | %s | %s |\n", label, w, why)
				continue
			}
			s := summarize(v)
			if w == "none" {
				if isFiring {
					w = "none (the whole call)"
				} else {
					w = "/bin/true"
				}
				fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %d | | |\n", label, w, number(s.min), number(s.median), number(s.spread), s.n)
				continue
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %d | %s | %s |\n", label, w,
				number(s.min-base), number(s.median-base), number(s.spread), s.n, ratio(s, "minimal"), ratio(s, "bpftrace"))
		}
	}
	return out.String()
}
