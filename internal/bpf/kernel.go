package bpf

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"

	"godtrace/internal/btf"
)

// Feature is a row of the table of what godtrace makes use of in the kernel.
type Feature struct {
	Name    string
	Since   string // Linux version, and configuration where it is not always built
	Without string // what is done, or not to be had, without
	Have    bool
	Err     error // why it cannot be said, most often for want of privilege
}

// featureTests is the table: each feature with the way to find out. A test
// answers nil, ebpf.ErrNotSupported, or that it cannot tell.
var featureTests = []struct {
	name, since, without string
	test                 func() error
}{
	{"programs run by hand", "5.10", "no BEGIN and END: no tracing", runByHand},
	{"mapped arrays", "5.5", "no buffers: no tracing", func() error {
		return features.HaveMapFlag(features.BPF_F_MMAPABLE)
	}},
	{"task storage", "5.11", "no thread-local variables", mapType(ebpf.TaskStorage)},
	{"bpf_loop", "5.17", "no string functions where may_goto is missing too", helper(ebpf.RawTracepoint, asm.FnLoop)},
	{"may_goto", "6.9", "loops call bpf_loop: slower string functions", mayGoto},
	{"attach cookies", "5.15", "no tracing of many probes with one program", helper(ebpf.PerfEvent, asm.FnGetAttachCookie)},
	{"user memory faults", "5.10, uprobes only", "pages not yet read in are an invalid address", kernelFunc("bpf_copy_from_user")},
	{"fentry and fexit", "5.5, CONFIG_FUNCTION_TRACER", "functions are traced with kprobes, at two to three times the cost", fentry},
	{"kprobe", "4.17, CONFIG_KPROBES", "no instructions of the kernel; functions only by fentry", eventSource("kprobe")},
	{"kprobe.multi", "5.18, CONFIG_FPROBE", "attaching to many functions takes seconds", features.HaveBPFLinkKprobeMulti},
	{"kprobe.session", "6.10, CONFIG_FPROBE", "entry and return are attached apart", features.HaveBPFLinkKprobeSession},
	{"uprobe", "4.17, CONFIG_UPROBES", "no tracing of programs", eventSource("uprobe")},
	{"uprobe.multi", "6.6, CONFIG_UPROBES", "attaching to many functions takes seconds", features.HaveBPFLinkUprobeMulti},
	{"rdonly_cast", "6.2", "each load from kernel structures is a call", kernelFunc("bpf_rdonly_cast")},
	{"d_path", "5.10", "no d_path()", kernelFunc("bpf_d_path")},
	{"send_signal", "5.3", "no raise(), no stop()", helper(ebpf.RawTracepoint, asm.FnSendSignal)},
	{"probe_write_user", "4.8", "no copyout(); a locked-down kernel forbids it", helper(ebpf.RawTracepoint, asm.FnProbeWriteUser)},
	{"hardware counters", "a PMU", "no cpc provider; profile uses the clock", eventSource("cpu")},
}

// Features looks at the running kernel. Some tests load a program or a map for
// a moment.
func Features() []Feature {
	out := make([]Feature, len(featureTests))
	for i, t := range featureTests {
		f := Feature{Name: t.name, Since: t.since, Without: t.without}
		switch err := t.test(); {
		case err == nil:
			f.Have = true
		case !errors.Is(err, ebpf.ErrNotSupported):
			f.Err = err
		}
		out[i] = f
	}
	return out
}

func helper(t ebpf.ProgramType, f asm.BuiltinFunc) func() error {
	return func() error { return features.HaveProgramHelper(t, f) }
}

func mapType(t ebpf.MapType) func() error { return func() error { return features.HaveMapType(t) } }

// eventSource looks for a kind of perf event.
func eventSource(name string) func() error {
	return func() error {
		_, err := os.Stat(filepath.Join("/sys/bus/event_source/devices", name))
		if errors.Is(err, os.ErrNotExist) {
			return ebpf.ErrNotSupported
		}
		return err
	}
}

// kernelFunc looks for a function, of those that programs can call, in the
// kernel's BTF.
func kernelFunc(name string) func() error {
	return func() error {
		set, err := btf.Kernel()
		if err != nil {
			return ebpf.ErrNotSupported
		}
		if _, err := set.VMLinux.FuncType(name); err != nil {
			return ebpf.ErrNotSupported
		}
		return nil
	}
}

// fentry attaches a program to a function that the kernel keeps for such tests
// and calls at no other time.
func fentry() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "bpf_fentry_test1", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if errors.Is(err, os.ErrPermission) {
		return err
	}
	if err != nil {
		return ebpf.ErrNotSupported
	}
	defer p.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return ebpf.ErrNotSupported
	}
	return l.Close()
}

// mayGoto loads a program with the instruction: code 0xe5, source 0.
func mayGoto() error {
	p, err := tryProgram(asm.Mov.Imm(asm.R0, 0), asm.Instruction{OpCode: 0xe5, Offset: 1}, asm.Add.Imm(asm.R0, 1), asm.Return())
	if err == nil {
		p.Close()
	}
	return err
}

func runByHand() error {
	p, err := tryProgram(asm.Mov.Imm(asm.R0, 0), asm.Return())
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = p.Run(&ebpf.RunOptions{})
	return err
}

func tryProgram(insns ...asm.Instruction) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: insns})
	if err != nil && !errors.Is(err, os.ErrPermission) {
		err = ebpf.ErrNotSupported
	}
	return p, err
}
