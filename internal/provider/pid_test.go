package provider

import (
	"encoding/binary"
	"os"
	"os/exec"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"godtrace/internal/probe"
	"godtrace/internal/symbol"
	"godtrace/internal/testkernel"
)

const libc = "/lib/x86_64-linux-gnu/libc.so.6"

// One place that the kernel refuses does not keep the others from being
// attached, and is named.
func TestAttachRefused(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckLeaks(t)
	obj, err := symbol.Open(libc)
	if err != nil {
		t.Skipf("SKIP-FEATURE: glibc as Debian has it: %v", err)
	}
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	// When it answers it has libc mapped.
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	attach := uint32(0)
	if haveUprobeMulti() {
		attach = typeUprobeMulti
	}
	fd, err := loadEmpty(progKprobe, attach, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := ebpf.NewProgramFromFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	f, err := os.Open(libc)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	set := uprobeSet{file: f, name: libc, pid: cmd.Process.Pid}
	bad := new(probe.Probe)
	for _, name := range []string{"malloc", "free", "fopen", "pthread_spin_lock", "read", "write", "getenv"} {
		s, ok := obj.Named(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		off, _ := obj.Offset(s.Value)
		pr := new(probe.Probe)
		if name == "pthread_spin_lock" { // lock decl (%rdi)
			pr = bad
		}
		set.sites = append(set.sites, uprobeSite{off: off, probe: pr})
	}
	c, refused, err := attachUprobes(prog, []uprobeSet{set})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if len(refused) != 1 || refused[0].Probe != bad {
		t.Errorf("refused: %v", refused)
	}
	// Nothing left is an error; so is a process that has gone.
	set.sites = set.sites[3:4]
	if _, _, err := attachUprobes(prog, []uprobeSet{set}); err == nil {
		t.Error("a link of nothing")
	}
	cmd.Process.Kill()
	cmd.Wait()
	set.sites[0].off += 0x10
	if _, _, err := attachUprobes(prog, []uprobeSet{set}); err == nil {
		t.Error("probes in a process that has gone")
	}
}

// A trap counts, stops the process the time it is told to, and lets go.
func TestTrap(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckLeaks(t)
	obj, err := symbol.Open(libc)
	if err != nil {
		t.Skipf("SKIP-FEATURE: glibc as Debian has it: %v", err)
	}
	cmd := exec.Command("bash", "-c", "while read x; do :; done")
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("SKIP-FEATURE: bash")
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	s, _ := obj.Named("read")
	off, ok := obj.Offset(s.Value)
	if !ok {
		t.Fatal("no read")
	}
	testkernel.AwaitCall(t, cmd.Process.Pid, "0 0x0") // read its input
	f, err := os.Open(libc)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trap, err := SetTrap(cmd.Process.Pid, f, []uint64{off}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	in.Write([]byte("a\nb\nc\n"))
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != nil || info.Code != 5 {
		t.Fatalf("waiting for it to stop: code %d, %v", info.Code, err)
	}
	if n := trap.Count(); n != 2 {
		t.Errorf("stopped after %d reads, want 2", n)
	}
	cmd.Process.Signal(unix.SIGCONT)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if n := trap.Count(); n < 4 { // the third line, and the end
		t.Errorf("%d reads in all", n)
	}
}

func FuzzFindMark(f *testing.F) {
	note := binary.LittleEndian.AppendUint32(nil, 8)
	note = binary.LittleEndian.AppendUint32(note, 24+24)
	note = binary.LittleEndian.AppendUint32(note, 3)
	note = append(note, "stapsdt\x00"...)
	for _, v := range []uint64{0x1000, 0x5000, 0} {
		note = binary.LittleEndian.AppendUint64(note, v)
	}
	note = append(note, "rtld\x00init_complete\x00\x00\x00\x00\x00\x00"...)
	if v, ok := findMark(note, 0x6000, linkerStarted); !ok || v != 0x2000 {
		f.Fatalf("%#x, %v", v, ok)
	}
	f.Add(note)
	f.Fuzz(func(t *testing.T, b []byte) { findMark(b, 0, linkerStarted) })
}
