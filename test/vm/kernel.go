// Package vm runs programs under Debian's own kernels, in QEMU and by
// emulation, so that it works wherever root and /dev/kvm are not to be had.
//
// A guest is a kernel and an initial RAM disk, nothing else: no disk, no
// modules at boot. Its first process is test/vm/init, which runs a plan of
// commands and reports on the second serial port; busybox is its user land.
package vm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kernel is one kernel of the matrix: the newest of a version in a suite of
// Debian, in the flavour made for virtual machines.
type Kernel struct {
	Version string // "6.1"
	Suite   string // "bookworm"
	Args    string // for its command line
}

// Kernels are the matrix, oldest first: the oldest kernel that is supported,
// today's stable one, and the newest.
var Kernels = []Kernel{
	{Version: "6.1", Suite: "bookworm"},
	{Version: "6.12", Suite: "trixie"},
	// Without cx16 (see Guest.Run) the newer allocator of task storage gives
	// nothing to a BPF program, unless the caches have debugging on.
	{Version: "7.2", Suite: "sid", Args: "slab_debug=F,kmalloc-*"},
}

// Find returns the kernel of that version.
func Find(version string) (Kernel, error) {
	var names []string
	for _, k := range Kernels {
		if k.Version == version {
			return k, nil
		}
		names = append(names, k.Version)
	}
	return Kernel{}, fmt.Errorf("no kernel %q in the matrix, there are %s", version, strings.Join(names, ", "))
}

// Image is a fetched kernel on disk.
type Image struct {
	Release string // "6.1.0-50-cloud-amd64"
	Vmlinux string // the ELF image, booted as it is (PVH)
	Modules string // the folder lib/modules/RELEASE
}

// Cache is where kernels are kept: $GODTRACE_VM_CACHE, or godtrace-vm in the
// user's cache folder. It may be deleted at any time.
func Cache() (string, error) {
	if dir := os.Getenv("GODTRACE_VM_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = "/var/cache" // root with neither HOME nor XDG_CACHE_HOME
	}
	return filepath.Join(dir, "godtrace-vm"), nil
}

// Fetch returns the kernel's image, fetching it from Debian's mirror the first
// time. Several processes may call it at once.
func (k Kernel) Fetch(log io.Writer) (Image, error) {
	cache, err := Cache()
	if err != nil {
		return Image{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Image{}, err
	}
	lock, err := os.OpenFile(filepath.Join(cache, k.Version+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return Image{}, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return Image{}, err
	}
	dir := filepath.Join(cache, k.Version)
	if img, err := openImage(dir); err == nil {
		return img, nil
	}
	tmp := dir + ".new"
	os.RemoveAll(tmp)
	defer os.RemoveAll(tmp)
	if err := k.fetch(tmp, log); err != nil {
		return Image{}, fmt.Errorf("kernel %s: %w", k.Version, err)
	}
	os.RemoveAll(dir)
	if err := os.Rename(tmp, dir); err != nil {
		return Image{}, err
	}
	return openImage(dir)
}

func openImage(dir string) (Image, error) {
	release, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return Image{}, err
	}
	img := Image{Release: strings.TrimSpace(string(release)), Vmlinux: filepath.Join(dir, "vmlinux")}
	img.Modules = filepath.Join(dir, "lib/modules", img.Release)
	if _, err := os.Stat(img.Vmlinux); err != nil {
		return Image{}, err
	}
	return img, nil
}

// fetch downloads the kernel's packages and unpacks what guests need into dir.
func (k Kernel) fetch(dir string, log io.Writer) error {
	if err := os.MkdirAll(filepath.Join(dir, "x"), 0o755); err != nil {
		return err
	}
	mirror, err := Mirror()
	if err != nil {
		return err
	}
	release, debs, err := k.packages(mirror)
	if err != nil {
		return err
	}
	x := filepath.Join(dir, "x")
	for _, d := range debs {
		fmt.Fprintf(log, "fetching %s\n", filepath.Base(d.file))
		deb := filepath.Join(dir, "deb")
		if err := d.fetch(mirror, deb); err != nil {
			return err
		}
		if out, err := exec.Command("dpkg-deb", "-x", deb, x).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb -x %s: %v: %s", d.file, err, out)
		}
		os.Remove(deb)
	}
	var vmlinuz, modules string
	err = filepath.WalkDir(x, func(p string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(e.Name(), "vmlinuz") && e.Type().IsRegular():
			vmlinuz = p
		case e.IsDir() && e.Name() == release && filepath.Base(filepath.Dir(p)) == "modules":
			modules = p
		}
		return nil
	})
	if err != nil {
		return err
	}
	if vmlinuz == "" || modules == "" {
		return fmt.Errorf("no vmlinuz or no modules in the packages of %s", release)
	}
	if err := unpackVmlinux(vmlinuz, filepath.Join(dir, "vmlinux")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "lib/modules"), 0o755); err != nil {
		return err
	}
	if err := os.Rename(modules, filepath.Join(dir, "lib/modules", release)); err != nil {
		return err
	}
	// Debian leaves modules.dep to the installation.
	depmod := exec.Command("depmod", "-b", dir, release)
	if _, err := exec.LookPath("depmod"); err != nil {
		depmod = exec.Command("/sbin/depmod", "-b", dir, release)
	}
	if out, err := depmod.CombinedOutput(); err != nil {
		return fmt.Errorf("depmod: %w: %s", err, out)
	}
	if err := os.RemoveAll(x); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "release"), []byte(release+"\n"), 0o644)
}

// Mirror is the Debian mirror that this machine's apt uses, in either of the
// two forms of its configuration.
func Mirror() (string, error) {
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*.sources")
	lists, _ := filepath.Glob("/etc/apt/sources.list.d/*.list")
	one := regexp.MustCompile(`^deb (?:\[[^]]*\] )?(\S+) `)
	for _, f := range slices.Concat(files, []string{"/etc/apt/sources.list"}, lists) {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			uri := ""
			if rest, ok := strings.CutPrefix(line, "URIs:"); ok {
				uri, _, _ = strings.Cut(strings.TrimSpace(rest), " ")
			} else if m := one.FindStringSubmatch(line); m != nil {
				uri = m[1]
			}
			if uri = strings.TrimRight(uri, "/"); strings.HasSuffix(uri, "/debian") {
				return uri, nil
			}
		}
	}
	return "http://deb.debian.org/debian", nil
}

type deb struct{ file, sha256 string }

// packages finds the newest image of the version and the packages that make
// it up. Since 7.x the image, its modules and its base are packages of their
// own, with the same suffix.
func (k Kernel) packages(mirror string) (release string, debs []deb, err error) {
	url := mirror + "/dists/" + k.Suite + "/main/binary-amd64/Packages.xz"
	packed, err := get(url)
	if err != nil {
		return "", nil, err
	}
	xz := exec.Command("xz", "-dc")
	xz.Stdin = bytes.NewReader(packed)
	index, err := xz.Output()
	if err != nil {
		return "", nil, fmt.Errorf("%s: xz: %w", url, err)
	}
	image := regexp.MustCompile(`^linux-image-(` + regexp.QuoteMeta(k.Version) + `\.[0-9][0-9.+a-z-]*-cloud-amd64)$`)
	known := make(map[string]deb)
	var name string
	var d deb
	in := bufio.NewScanner(bytes.NewReader(index))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		key, value, _ := strings.Cut(in.Text(), ": ")
		switch key {
		case "Package":
			name = value
		case "Filename":
			d.file = value
		case "SHA256":
			d.sha256 = value
		case "": // the end of a stanza
			known[name] = d
			name, d = "", deb{}
		}
	}
	for p := range known {
		if m := image.FindStringSubmatch(p); m != nil && newer(m[1], release) {
			release = m[1]
		}
	}
	if release == "" {
		return "", nil, fmt.Errorf("no linux-image-%s*-cloud-amd64 in %s", k.Version, k.Suite)
	}
	for _, part := range []string{"base", "modules", "binary", "image"} {
		if d, ok := known["linux-"+part+"-"+release]; ok {
			debs = append(debs, d)
		}
	}
	return release, debs, nil
}

// newer compares releases by their numbers, in order.
func newer(a, b string) bool {
	number := regexp.MustCompile(`[0-9]+`)
	na, nb := number.FindAllString(a, -1), number.FindAllString(b, -1)
	return slices.CompareFunc(na, nb, func(x, y string) int {
		i, _ := strconv.Atoi(x)
		j, _ := strconv.Atoi(y)
		return i - j
	}) > 0
}

func (d deb) fetch(mirror, to string) error {
	body, err := get(mirror + "/" + d.file)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != d.sha256 {
		return fmt.Errorf("%s: its SHA-256 is not the one in the package index", d.file)
	}
	return os.WriteFile(to, body, 0o644)
}

func get(url string) ([]byte, error) {
	client := http.Client{Timeout: 5 * time.Minute}
	var last error
	for try := range 3 {
		time.Sleep(time.Duration(try) * 2 * time.Second)
		r, err := client.Get(url)
		if err != nil {
			last = err
			continue
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		switch {
		case r.StatusCode != http.StatusOK:
			last = fmt.Errorf("%s: %s", url, r.Status)
		case err != nil:
			last = fmt.Errorf("%s: %w", url, err)
		default:
			return body, nil
		}
	}
	return nil, last
}

// unpackVmlinux writes the ELF image inside a bzImage. Booting that spares the
// guest the decompression, which is slow under emulation. The offsets are of
// Documentation/arch/x86/boot.rst: setup_sects at 0x1f1, payload_offset at
// 0x248, payload_length at 0x24c; the last four bytes of the payload are its
// unpacked length.
func unpackVmlinux(vmlinuz, to string) error {
	b, err := os.ReadFile(vmlinuz)
	if err != nil {
		return err
	}
	if len(b) < 0x250 {
		return fmt.Errorf("%s: too short for a bzImage", vmlinuz)
	}
	start := (int(b[0x1f1])+1)*512 + int(binary.LittleEndian.Uint32(b[0x248:]))
	length := int(binary.LittleEndian.Uint32(b[0x24c:]))
	if start+length > len(b) || length < 8 {
		return fmt.Errorf("%s: payload %d+%d lies outside its %d bytes", vmlinuz, start, length, len(b))
	}
	payload := b[start : start+length-4]
	var tool string
	switch magic := binary.BigEndian.Uint32(payload); magic {
	case 0x28b52ffd:
		tool = "zstd"
	case 0x02214c18:
		tool = "lz4"
	case 0xfd377a58:
		tool = "xz"
	default:
		return fmt.Errorf("%s: unknown compression %#x", vmlinuz, magic)
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(tool, "-dc")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(payload), out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %s: %w", vmlinuz, tool, err)
	}
	return out.Close()
}
