package vm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"godtrace/test/vm/plan"
)

// A Guest is one boot of one kernel.
type Guest struct {
	Kernel Kernel
	Plan   plan.Plan
	Files  map[string]string // path in the guest → file or folder here
	// Packages of Debian, as installed here, with what they depend on.
	Packages []string
	Init     string        // the built test/vm/init
	CPUs     int           // 0: 2
	Memory   int           // MiB; 0: 2048
	Timeout  time.Duration // for all of it; 0: 10 minutes
	Log      io.Writer     // what is being fetched, and what the guest prints as it prints it; may be nil
}

// A Result is what became of one command of the plan.
type Result struct {
	Name    string
	Output  []byte
	Status  int  // as a shell has it
	Ended   bool // false: the guest died, or ran out of time, in it
	Taint   string
	Seconds float64
}

// A Report is what became of a guest. Results has a row for each command that
// began.
type Report struct {
	Release  string
	Results  []Result
	Warnings []string // lines of the console: WARNING, BUG, Oops, stalls
	Console  []byte
	Booted   time.Duration // until the first command began
	Took     time.Duration
}

var complaint = regexp.MustCompile(`WARNING: |BUG: |Oops|Kernel panic|rcu: INFO|soft lockup|hung_task`)

// Run boots the guest and waits for it. An error says that the guest could not
// be run to its end; the report then holds what there is.
func (g Guest) Run(ctx context.Context) (*Report, error) {
	log := g.Log
	if log == nil {
		log = io.Discard
	}
	img, err := g.Kernel.Fetch(log)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "godtrace-vm")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	disk := filepath.Join(tmp, "ramdisk")
	if err := g.writeRamdisk(disk, img); err != nil {
		return nil, fmt.Errorf("ramdisk: %w", err)
	}
	console := filepath.Join(tmp, "console")

	timeout := g.Timeout
	if timeout == 0 {
		timeout = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cpus, memory := g.CPUs, g.Memory
	if cpus == 0 {
		cpus = 2
	}
	if memory == 0 {
		memory = 2048
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64",
		// One thread for all CPUs of the guest: emulated in parallel, one CPU
		// meets breakpoints that another has taken back while patching the
		// kernel's text, and the guest dies. It is no slower either.
		"-M", "q35", "-accel", "tcg,thread=single",
		// Without cx16: cmpxchg16b of QEMU 7.2 spoils the flags, and the slab
		// allocator then breaks one boot in eight.
		// Without la57: page tables of four levels are quicker to walk.
		"-cpu", "max,-cx16,-la57",
		"-smp", fmt.Sprint(cpus), "-m", fmt.Sprint(memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-chardev", "file,id=console,path="+console, "-serial", "chardev:console",
		"-chardev", "stdio,id=report,signal=off", "-serial", "chardev:report",
		"-kernel", img.Vmlinux, "-initrd", disk,
		"-append", "console=ttyS0 quiet loglevel=4 printk.devkmsg=on panic=-1 oops=panic "+
			"mitigations=off tsc=reliable no_timer_check nowatchdog random.trust_cpu=on 8250.nr_uarts=2 "+g.Kernel.Args)
	report, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var qemu bytes.Buffer
	cmd.Stderr = &qemu
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: apt-get install qemu-system-x86", err)
	}
	rep := &Report{Release: img.Release}
	off := rep.read(io.TeeReader(report, log), start)
	err = cmd.Wait()
	rep.Took = time.Since(start)
	rep.Console, _ = os.ReadFile(console)
	for line := range strings.Lines(string(rep.Console)) {
		if complaint.MatchString(line) {
			rep.Warnings = append(rep.Warnings, strings.TrimSpace(line))
		}
	}
	switch {
	case ctx.Err() != nil:
		return rep, fmt.Errorf("the guest did not end within %v", timeout)
	case err != nil:
		return rep, fmt.Errorf("qemu: %w: %s", err, &qemu)
	case !off:
		return rep, errors.New("the guest died; the end of its console:\n" + tail(rep.Console, 30))
	}
	return rep, nil
}

// read follows the guest's report to its end and says whether all commands
// have run.
func (rep *Report) read(r io.Reader, start time.Time) (off bool) {
	in := bufio.NewReaderSize(r, 1<<16)
	var now *Result
	for {
		line, err := in.ReadBytes('\n')
		text := strings.TrimSuffix(string(line), "\n")
		if name, ok := strings.CutPrefix(text, plan.Begin); ok {
			if rep.Booted == 0 {
				rep.Booted = time.Since(start)
			}
			rep.Results = append(rep.Results, Result{Name: name})
			now = &rep.Results[len(rep.Results)-1]
		} else if rest, ok := strings.CutPrefix(text, plan.End); ok && now != nil {
			var name string
			fmt.Sscan(rest, &name, &now.Status, &now.Taint, &now.Seconds)
			now.Ended = true
			now.Output = bytes.TrimSuffix(now.Output, []byte("\n")) // the one before the mark
			now = nil
		} else if text == plan.Off {
			off = true
		} else if now != nil {
			now.Output = append(now.Output, line...)
		}
		if err != nil {
			return off
		}
	}
}

func (g Guest) writeRamdisk(path string, img Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := newRamdisk(f)
	if err := r.busybox(); err != nil {
		return err
	}
	r.add("/init", g.Init)
	if err := r.packages(g.Packages); err != nil {
		return err
	}
	text, err := json.Marshal(g.Plan)
	if err != nil {
		return err
	}
	r.text(plan.File, string(text))
	for to, from := range g.Files {
		r.add(to, from)
	}
	if err := r.modules(img, g.Plan.Modules); err != nil {
		return err
	}
	if err := r.close(); err != nil {
		return err
	}
	return f.Close()
}

func tail(b []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
