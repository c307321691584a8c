package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ramdisk writes a cpio archive in the "newc" form that the kernel unpacks
// into its first file system (Documentation/driver-api/early-userspace).
type ramdisk struct {
	w    *bufio.Writer
	n    int64 // bytes written
	ino  int
	made map[string]bool // folders
	err  error
}

func newRamdisk(w io.Writer) *ramdisk {
	return &ramdisk{w: bufio.NewWriterSize(w, 1<<20), made: map[string]bool{".": true, "/": true}}
}

func (r *ramdisk) entry(name string, mode uint32, size int64, content io.Reader) {
	if r.err != nil {
		return
	}
	name = strings.TrimPrefix(name, "/")
	r.ino++
	n, err := fmt.Fprintf(r.w, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		r.ino, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	r.n += int64(n)
	if err != nil {
		r.err = err
		return
	}
	r.pad()
	if content != nil {
		n, err := io.Copy(r.w, content)
		r.n += n
		if err == nil && n != size {
			err = fmt.Errorf("%s: %d bytes where %d were promised", name, n, size)
		}
		if err != nil {
			r.err = err
		}
		r.pad()
	}
}

func (r *ramdisk) pad() {
	for ; r.n%4 != 0; r.n++ {
		r.w.WriteByte(0)
	}
}

func (r *ramdisk) dir(name string) {
	name = filepath.Clean(name)
	if r.made[name] {
		return
	}
	r.made[name] = true
	r.dir(filepath.Dir(name))
	r.entry(name, 0o40755, 0, nil)
}

func (r *ramdisk) link(name, to string) {
	r.dir(filepath.Dir(name))
	r.entry(name, 0o120777, int64(len(to)), strings.NewReader(to))
}

func (r *ramdisk) text(name, content string) {
	r.dir(filepath.Dir(name))
	r.entry(name, 0o100644, int64(len(content)), strings.NewReader(content))
}

// add puts a file or a whole folder of the host in, following links.
func (r *ramdisk) add(name, from string) {
	if r.err != nil {
		return
	}
	info, err := os.Stat(from)
	if err != nil {
		r.err = err
		return
	}
	if info.IsDir() {
		r.dir(name)
		entries, err := os.ReadDir(from)
		if err != nil {
			r.err = err
			return
		}
		for _, e := range entries {
			r.add(filepath.Join(name, e.Name()), filepath.Join(from, e.Name()))
		}
		return
	}
	f, err := os.Open(from)
	if err != nil {
		r.err = err
		return
	}
	defer f.Close()
	r.dir(filepath.Dir(name))
	r.entry(name, 0o100000|uint32(info.Mode().Perm()), info.Size(), f)
}

func (r *ramdisk) close() error {
	r.entry("TRAILER!!!", 0, 0, nil)
	if r.err == nil {
		r.err = r.w.Flush()
	}
	return r.err
}

// busybox puts the user land in: one binary, a link for each of its applets.
func (r *ramdisk) busybox() error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("%w: apt-get install busybox-static", err)
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return fmt.Errorf("%s --list: %w", path, err)
	}
	r.add("/bin/busybox", path)
	for _, a := range strings.Fields(string(applets)) {
		if a != "busybox" {
			r.link("/bin/"+a, "busybox")
		}
	}
	// One folder for programs and one for libraries, as Debian has it.
	r.dir("/usr/lib")
	r.dir("/usr/lib64")
	for d, to := range map[string]string{
		"/sbin": "/bin", "/usr/bin": "/bin", "/usr/sbin": "/bin", "/lib": "/usr/lib", "/lib64": "/usr/lib64",
	} {
		r.link(d, to)
		r.made[d] = true
	}
	r.text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
	r.text("/etc/group", "root:x:0:\nnogroup:x:65534:\n")
	r.text("/etc/hostname", "guest\n")
	r.text("/etc/hosts", "127.0.0.1 localhost\n")
	for _, d := range []string{"/dev", "/proc", "/sys", "/tmp", "/run", "/root", "/var/tmp"} {
		r.dir(d)
	}
	return r.err
}

// unwanted are files of packages that take much room and that nobody misses
// in a guest.
var unwanted = regexp.MustCompile(`^/(usr/share|etc|var)/|/gconv/|/lto1$|/plugin/|lib[a-z]*san[_a-z]*\.(a|so.*|o)$|/libgprofng`)

// packages puts installed Debian packages of the host in, with all they depend
// on: the tools that tests compile and compare with.
func (r *ramdisk) packages(names []string) error {
	if cache := "/etc/ld.so.cache"; len(names) > 0 {
		if _, err := os.Stat(cache); err == nil {
			r.add(cache, cache) // where libraries are is looked up, not searched
		}
	}
	done := make(map[string]bool)
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if done[name] {
			continue
		}
		done[name] = true
		deps, err := exec.Command("dpkg-query", "-W", "-f", "${Depends},${Pre-Depends}", name).Output()
		if err != nil {
			continue
		}
		for _, d := range strings.FieldsFunc(string(deps), func(c rune) bool { return c == ',' || c == '|' }) {
			d, _, _ = strings.Cut(strings.TrimSpace(d), " ")
			if d, _, _ = strings.Cut(d, ":"); d != "" && !strings.HasPrefix(d, "perl") && d != "debconf" {
				names = append(names, d)
			}
		}
		// Not installed, or a name that others provide: passed over.
		files, err := exec.Command("dpkg", "-L", name).Output()
		if err != nil {
			continue
		}
		for path := range strings.Lines(string(files)) {
			path = strings.TrimSpace(path)
			info, err := os.Lstat(path)
			switch {
			case err != nil || info.IsDir() || unwanted.MatchString(path):
			case info.Mode()&os.ModeSymlink != 0:
				to, err := os.Readlink(path)
				if err != nil {
					return err
				}
				r.link(path, to)
			case info.Mode().IsRegular():
				r.add(path, path)
			}
		}
	}
	return r.err
}

// modules puts the named modules in, with what they depend on, unpacked, under
// /lib/modules/RELEASE, and a modules.dep for modprobe. Names that this kernel
// does not have are passed over: built in, or not there.
func (r *ramdisk) modules(img Image, names []string) error {
	text, err := os.ReadFile(filepath.Join(img.Modules, "modules.dep"))
	if err != nil {
		return err
	}
	bare := func(path string) string {
		name, _, _ := strings.Cut(filepath.Base(path), ".ko")
		return strings.ReplaceAll(name, "-", "_")
	}
	deps := make(map[string][]string) // path → what must be loaded before
	byName := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		path, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			deps[path] = strings.Fields(rest)
			byName[bare(path)] = path
		}
	}
	base := "/lib/modules/" + img.Release
	var dep strings.Builder
	var done []string
	var put func(path string) error
	put = func(path string) error {
		if slices.Contains(done, path) {
			return nil
		}
		done = append(done, path)
		var needs []string
		for _, d := range deps[path] {
			if err := put(d); err != nil {
				return err
			}
			needs = append(needs, bare(d)+".ko")
		}
		from := filepath.Join(img.Modules, path)
		var cmd *exec.Cmd
		switch filepath.Ext(path) {
		case ".xz":
			cmd = exec.Command("xz", "-dc", from)
		case ".zst":
			cmd = exec.Command("zstd", "-qdc", from)
		default:
			cmd = exec.Command("cat", from)
		}
		content, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("module %s: %w", path, err)
		}
		r.text(base+"/"+bare(path)+".ko", string(content))
		fmt.Fprintf(&dep, "%s.ko: %s\n", bare(path), strings.Join(needs, " "))
		return nil
	}
	for _, n := range names {
		path, ok := byName[n]
		if !ok {
			continue
		}
		if err := put(path); err != nil {
			return err
		}
	}
	r.text(base+"/modules.dep", dep.String())
	return r.err
}
