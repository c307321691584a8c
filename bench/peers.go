package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"godtrace/test/vm"
)

// peers is a folder with the newest of the tracers that Debian has, and what
// they need: a root file system of its own, beside the machine's.
type peers struct{ root string }

var peerPackages = []string{"bpftrace", "dtrace", "strace", "busybox"}

// installPeers makes the folder the first time: apt resolves and checks the
// packages of sid with a state of its own, dpkg-deb unpacks them.
func installPeers() (*peers, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/var/cache"
	}
	dir := filepath.Join(cache, "godtrace-bench")
	p := &peers{root: filepath.Join(dir, "sid")}
	if _, err := os.Stat(filepath.Join(p.root, "ok")); err == nil {
		return p, nil
	}
	if err := os.RemoveAll(p.root); err != nil {
		return nil, err
	}
	apt := filepath.Join(dir, "apt")
	for _, d := range []string{p.root, apt + "/lists/partial", apt + "/archives/partial", apt + "/empty"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	mirror, err := vm.Mirror()
	if err != nil {
		return nil, err
	}
	source := "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] " + mirror + " sid main\n"
	if err := os.WriteFile(apt+"/sources.list", []byte(source), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(apt+"/status", nil, 0o644); err != nil {
		return nil, err
	}
	options := []string{
		"-qq", "-o", "Dir::Etc::SourceList=" + apt + "/sources.list", "-o", "Dir::Etc::SourceParts=" + apt + "/empty",
		"-o", "Dir::State=" + apt, "-o", "Dir::State::Lists=" + apt + "/lists", "-o", "Dir::State::status=" + apt + "/status",
		"-o", "Dir::Cache=" + apt, "-o", "Dir::Cache::archives=" + apt + "/archives",
		"-o", "Dir::Etc::Preferences=/dev/null", "-o", "Dir::Etc::PreferencesParts=" + apt + "/empty",
		"-o", "APT::Install-Recommends=false", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true",
	}
	run := func(args ...string) error {
		cmd := exec.Command("apt-get", append(options[:len(options):len(options)], args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	fmt.Fprintf(os.Stderr, "bench: fetching %s from sid\n", strings.Join(peerPackages, ", "))
	if err := run("update"); err != nil {
		return nil, err
	}
	if err := run(append([]string{"-y", "--download-only", "install"}, peerPackages...)...); err != nil {
		return nil, err
	}
	// Merged /usr before anything is unpacked, as in any Debian of today.
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		os.MkdirAll(filepath.Join(p.root, "usr", d), 0o755)
		os.Symlink("usr/"+d, filepath.Join(p.root, d))
	}
	debs, _ := filepath.Glob(apt + "/archives/*.deb")
	for _, deb := range debs {
		if out, err := exec.Command("dpkg-deb", "-x", deb, p.root).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("dpkg-deb -x %s: %w: %s", deb, err, out)
		}
	}
	for _, d := range []string{"proc", "sys", "dev", "tmp"} {
		os.MkdirAll(filepath.Join(p.root, d), 0o755)
	}
	if out, err := exec.Command("chroot", p.root, "/usr/sbin/ldconfig").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: ldconfig: %v %s\n", err, out) // the loader finds the libraries without it, slower
	}
	os.RemoveAll(apt)
	return p, os.WriteFile(filepath.Join(p.root, "ok"), nil, 0o644)
}

// private moves this program into a mount namespace of its own, by running it
// again, so that what is mounted in the peers' root is gone with it.
func private() {
	const mark = "GODTRACE_BENCH_PRIVATE"
	if os.Getenv(mark) != "" {
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), mark+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Run(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
	os.Exit(0)
}

// mount puts the kernel's file systems into the peers' root.
func (p *peers) mount() error {
	for _, d := range []string{"proc", "sys", "dev", "tmp"} {
		to := filepath.Join(p.root, d)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("/"+d, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", d, err)
		}
	}
	return nil
}
