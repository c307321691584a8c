package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ianlancetaylor/demangle"
	"golang.org/x/sys/unix"
)

// Mapping is one line of /proc/PID/maps.
type Mapping struct {
	Start, End uint64
	Off        uint64 // in the file
	Perm       string // "r-xp"
	Dev        string // "fd:01"
	Inode      uint64
	Path       string // "" for anonymous memory; "[vdso]", "[stack]" …
	Deleted    bool   // the file has been unlinked; Path is what it was called
}

// Exec reports whether code may run there.
func (m *Mapping) Exec() bool { return len(m.Perm) > 2 && m.Perm[2] == 'x' }

// Module is the name DTrace shows for the mapping: the base name of the file,
// "[vdso]" and the like as they are, "" for anonymous memory.
func (m *Mapping) Module() string {
	if strings.HasPrefix(m.Path, "/") {
		return path.Base(m.Path)
	}
	return m.Path
}

// ParseMaps reads the format of /proc/PID/maps; mappings come sorted.
func ParseMaps(r io.Reader) ([]Mapping, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return parseMaps(string(b))
}

func parseMaps(s string) ([]Mapping, error) {
	out := make([]Mapping, 0, strings.Count(s, "\n"))
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(line, "\n")
		var m Mapping
		var f [5]string
		rest := line
		for i := range f {
			f[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		}
		lo, hi, ok := strings.Cut(f[0], "-")
		var e1, e2, e3, e4 error
		m.Start, e1 = strconv.ParseUint(lo, 16, 64)
		m.End, e2 = strconv.ParseUint(hi, 16, 64)
		m.Off, e3 = strconv.ParseUint(f[2], 16, 64)
		m.Inode, e4 = strconv.ParseUint(f[4], 10, 64)
		if !ok || errors.Join(e1, e2, e3, e4) != nil || len(f[1]) != 4 {
			return nil, fmt.Errorf("expected a line of /proc/PID/maps, got %q", line)
		}
		m.Perm, m.Dev = f[1], f[3]
		m.Path = unescape(strings.TrimLeft(rest, " "))
		if m.Inode != 0 {
			m.Path, m.Deleted = strings.CutSuffix(m.Path, " (deleted)")
		}
		out = append(out, m)
	}
	return out, nil
}

// unescape undoes the one escape of /proc/PID/maps: a newline in a name.
func unescape(s string) string { return strings.ReplaceAll(s, `\012`, "\n") }

// Processes resolves addresses of processes. Objects are shared among them.
// It is safe for concurrent use.
type Processes struct {
	demangle atomic.Bool

	mu      sync.Mutex
	buf     []byte // for files of /proc
	procs   map[int]*Process
	objects map[fileID]*ObjectFile
	inodes  map[inode]*ObjectFile // the same, by what mappings say
	ended   []*Process            // see NoteExit
}

// fileID tells whether an object read before is still the file mapped now.
// The time and size guard against inodes being reused.
type fileID struct {
	dev, ino    uint64
	size, mtime int64
}

// ObjectFile is an open file that is an object or may be one. To read it takes
// milliseconds, for which nobody need hold a lock.
type ObjectFile struct {
	file  *os.File
	known string // what the process calls it
	roots []string

	once sync.Once
	read atomic.Bool
	obj  *Object
}

// Name is what the process calls it.
func (o *ObjectFile) Name() string { return o.known }

// Object reads the file, once; nil if it is not an object.
func (o *ObjectFile) Object() *Object {
	o.once.Do(func() {
		if o.file != nil {
			o.obj, _ = readObject(o.file, o.known, o.roots)
			o.file = nil
		}
		o.read.Store(true)
	})
	return o.obj
}

func idOf(st *unix.Stat_t) fileID {
	return fileID{st.Dev, st.Ino, st.Size, st.Mtim.Nano()}
}

// inode is a file as /proc/PID/maps has it. On some file systems stat(2) says
// otherwise.
type inode struct {
	dev string
	ino uint64
}

// NewProcesses returns an empty set.
func NewProcesses() *Processes {
	return &Processes{procs: map[int]*Process{}, objects: map[fileID]*ObjectFile{}, inodes: map[inode]*ObjectFile{}}
}

// Process is what is known about one process: its mappings now and, because
// events are resolved after the fact, those of the programs it ran before.
type Process struct {
	PID int

	set   *Processes
	start uint64      // in clock ticks since boot: tells a reused PID
	gens  [][]*mapped // newest first
	read  time.Time
	jit   *jitMap
	dumps map[string]*jitDump // by the path of the mapping
}

// mapped is a mapping with its object, found when first needed.
type mapped struct {
	Mapping
	file  *ObjectFile // nil: not looked for, or none
	tried bool
	obj   *Object
	bias  uint64 // address = value in the object + bias
}

// maxGens is how many earlier sets of mappings a process keeps.
const maxGens = 4

// An address outside of the mappings makes them be read again, at most once in
// refreshAfter. Those inside are trusted for trustFor: a program that is not
// position independent may by exec be replaced by one at the same addresses.
// Who knows of the exec calls Snapshot.
const (
	refreshAfter = 50 * time.Millisecond
	trustFor     = time.Second
)

// SetDemangle says whether C++ and Rust names are shown as their language
// writes them.
func (s *Processes) SetDemangle(on bool) { s.demangle.Store(on) }

// Snapshot reads the mappings of a process while it lives, so that its
// addresses resolve after it has gone. The object files are opened as well:
// /proc/PID/root and deleted files go with the process.
func (s *Processes) Snapshot(pid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.get(pid)
	if err := p.refresh(); err != nil {
		return err
	}
	for _, m := range p.gens[0] {
		if m.Exec() {
			p.load(m)
		}
	}
	return nil
}

// Forget drops what is known of a process; objects stay.
func (s *Processes) Forget(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.procs, pid)
}

// Process returns the mappings of a process, reading them if none are known.
func (s *Processes) Process(pid int) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.get(pid)
	if len(p.gens) == 0 {
		if err := p.refresh(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (s *Processes) get(pid int) *Process {
	p := s.procs[pid]
	if p == nil {
		p = &Process{PID: pid, set: s}
		s.procs[pid] = p
	}
	return p
}

// Lookup resolves an address of a process; pid is that of the thread group.
func (s *Processes) Lookup(pid int, addr uint64) Loc {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.get(pid)
	return p.resolve(p.mapping(addr), addr)
}

// InFile is the module an address belongs to and the address's place in its
// file, with no symbol looked up; module is "" where there is none.
func (s *Processes) InFile(pid int, addr uint64) (module string, off uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.get(pid).mapping(addr)
	if m == nil {
		return "", 0
	}
	return m.Module(), addr - m.Start + m.Off
}

// mapping finds an address in what is mapped, read again where that may be old.
func (p *Process) mapping(addr uint64) *mapped {
	m, gen := p.find(addr)
	limit := trustFor
	if m == nil || gen > 0 {
		limit = refreshAfter // a library loaded since, or exec
	}
	if time.Since(p.read) > limit {
		if p.refresh() == nil {
			m, _ = p.find(addr)
		}
	}
	return m
}

// NotCode reports whether an address is known to lie outside of everything a
// process may execute: what a stack walk along frame pointers finds where
// there are none. It is false for processes whose mappings are not known.
func (s *Processes) NotCode(pid int, addr uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.get(pid)
	m, _ := p.find(addr)
	if m == nil && time.Since(p.read) > refreshAfter && p.refresh() == nil {
		m, _ = p.find(addr)
	}
	return len(p.gens) > 0 && (m == nil || !m.Exec())
}

// Sym is Lookup as ustack() prints it.
func (s *Processes) Sym(pid int, addr uint64) string { return s.Lookup(pid, addr).String() }

// Lookup is Processes.Lookup for this process.
func (p *Process) Lookup(addr uint64) Loc { return p.set.Lookup(p.PID, addr) }

// Mappings lists the mappings as last read.
func (p *Process) Mappings() []Mapping {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	if len(p.gens) == 0 {
		return nil
	}
	out := make([]Mapping, len(p.gens[0]))
	for i, m := range p.gens[0] {
		out[i] = m.Mapping
	}
	return out
}

// Loaded is an object as mapped into a process.
type Loaded struct {
	*Object
	Mapping Mapping // its first executable mapping
	Bias    uint64  // address = value in the object + Bias
}

// Objects lists the objects with executable mappings, in order of addresses.
// The main program is the one whose path is that of /proc/PID/exe.
func (p *Process) Objects() []Loaded {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	if len(p.gens) == 0 {
		return nil
	}
	var out []Loaded
	seen := map[*Object]bool{}
	for _, m := range p.gens[0] {
		if m.Exec() {
			if p.load(m); m.obj != nil && !seen[m.obj] {
				seen[m.obj] = true
				out = append(out, Loaded{m.obj, m.Mapping, m.bias})
			}
		}
	}
	return out
}

// Object returns the object that covers an address, and its bias; nil if none.
func (p *Process) Object(addr uint64) (*Object, uint64) {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	m, _ := p.find(addr)
	if m == nil {
		return nil, 0
	}
	p.load(m)
	return m.obj, m.bias
}

func (p *Process) proc(name string) string {
	return "/proc/" + strconv.Itoa(p.PID) + "/" + name
}

// readProc is os.ReadFile with fewer system calls and no garbage: it is what a
// process that has just begun waits for. The next call overwrites what it
// returns.
func (p *Process) readProc(name string) ([]byte, error) {
	path := p.proc(name)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := p.set.buf[:0]
	for {
		b = slices.Grow(b, 16<<10)
		n, err := unix.Read(fd, b[len(b):cap(b)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		b = b[:len(b)+n]
		p.set.buf = b
		if n == 0 {
			return b, nil
		}
	}
}

// refresh reads the mappings; those that are unchanged keep their objects.
func (p *Process) refresh() error {
	_, err := p.refreshed()
	return err
}

// refreshed is refresh, and tells where the stack began before.
func (p *Process) refreshed() (stack uint64, err error) {
	p.read = time.Now()
	stat, err := p.readProc("stat")
	if err != nil {
		return 0, err
	}
	start, stack := statField(stat, 22), statField(stat, 28)
	b, err := p.readProc("maps")
	if err != nil {
		return 0, err
	}
	maps, err := parseMaps(string(b))
	if err != nil {
		return 0, err
	}
	if len(maps) == 0 {
		// A zombie: what was known before is all there is to know.
		if len(p.gens) > 0 {
			return stack, nil
		}
		return 0, fmt.Errorf("process %d: %w", p.PID, fs.ErrNotExist)
	}
	if start != p.start {
		p.gens, p.jit, p.dumps, p.start = nil, nil, nil, start
	}
	gen := make([]*mapped, len(maps))
	same := len(p.gens) > 0 && len(p.gens[0]) == len(maps)
	for i := range maps {
		gen[i] = &mapped{Mapping: maps[i]}
		if len(p.gens) > 0 {
			if o := lookup(p.gens[0], maps[i].Start); o != nil && o.Mapping == maps[i] {
				gen[i] = o
				continue
			}
		}
		same = false
	}
	if same {
		return stack, nil
	}
	p.gens = slices.Insert(p.gens, 0, gen)
	if len(p.gens) > maxGens {
		p.gens = p.gens[:maxGens]
	}
	return stack, nil
}

// statField is a field of /proc/PID/stat as proc(5) numbers it, from 3 on: the
// name in field 2 may hold spaces and parentheses.
func statField(stat []byte, n int) uint64 {
	k := 2
	for f := range bytes.FieldsSeq(stat[bytes.LastIndexByte(stat, ')')+1:]) {
		if k++; k == n {
			v, _ := strconv.ParseUint(string(f), 10, 64)
			return v
		}
	}
	return 0
}

func lookup(maps []*mapped, addr uint64) *mapped {
	i := sort.Search(len(maps), func(i int) bool { return maps[i].End > addr })
	if i < len(maps) && maps[i].Start <= addr {
		return maps[i]
	}
	return nil
}

// find returns the mapping of an address and how many generations back.
func (p *Process) find(addr uint64) (*mapped, int) {
	for g, maps := range p.gens {
		if m := lookup(maps, addr); m != nil {
			return m, g
		}
	}
	return nil, 0
}

// resolve names an address that lies in a mapping, nil where nothing is mapped.
func (p *Process) resolve(m *mapped, addr uint64) Loc {
	loc := Loc{Addr: addr}
	if m == nil {
		return loc
	}
	loc.Module = m.Module()
	p.load(m)
	if m.obj == nil && m.Path == "" {
		if d := p.dataOf(m); d != nil && d.obj.inMemory(addr-d.bias) {
			// The zeroed tail of a data segment is anonymous memory.
			loc.Module, m = d.Module(), d
		}
	}
	if m.obj != nil {
		if s, ok := m.obj.Lookup(addr - m.bias); ok {
			loc.Name, loc.Off = s.Name, addr-m.bias-s.Value
			if p.set.demangle.Load() {
				loc.Name = demangle.Filter(loc.Name)
			}
			return loc
		}
	}
	if m.Exec() && (m.obj == nil || m.obj.NumSymbols() == 0) {
		if module, name, start, ok := p.jitted(addr); ok {
			if loc.Module == "" {
				loc.Module = module
			}
			loc.Name, loc.Off = name, addr-start
		}
	}
	return loc
}

// dataOf finds the file mapping an anonymous one continues.
func (p *Process) dataOf(m *mapped) *mapped {
	for _, gen := range p.gens {
		i := slices.Index(gen, m)
		for j := i - 1; j >= 0 && gen[j].End == gen[j+1].Start; j-- {
			if gen[j].Inode != 0 {
				if p.load(gen[j]); gen[j].obj != nil {
					return gen[j]
				}
				return nil
			}
		}
	}
	return nil
}

// load finds the object of a mapping, once.
func (p *Process) load(m *mapped) {
	if m.tried {
		return
	}
	m.tried = true
	if m.file == nil {
		m.file = p.file(m)
	}
	if m.file != nil {
		m.obj = m.file.Object()
	}
	if m.obj != nil {
		if m.bias, m.tried = m.obj.bias(&m.Mapping); !m.tried {
			m.obj, m.tried = nil, true
		}
	}
}

// file is the file behind a mapping, nil if there is none. Of a process that
// has gone it is what others have mapped of that inode: an open file keeps it
// from being used again.
func (p *Process) file(m *mapped) *ObjectFile {
	if m.Path == "[vdso]" {
		return p.vdso(m)
	}
	if m.Inode == 0 {
		return nil
	}
	id := inode{m.Dev, m.Inode}
	o := p.openFile(m)
	if o == nil {
		return p.set.inodes[id]
	}
	p.set.inodes[id] = o
	return o
}

// openFile opens the file behind a mapping. The entry in map_files is that very
// file, whatever happened to its name and whatever the mount namespace; it
// needs privilege. The name, seen through the process's root, comes next.
func (p *Process) openFile(m *mapped) *ObjectFile {
	root := p.proc("root")
	names := []string{fmt.Sprintf("%s/%x-%x", p.proc("map_files"), m.Start, m.End)}
	if !m.Deleted {
		names = append(names, root+m.Path, m.Path)
	} else if exe, err := os.Readlink(p.proc("exe")); err == nil && strings.TrimSuffix(exe, " (deleted)") == m.Path {
		names = append(names, p.proc("exe"))
	}
	for i, name := range names {
		var st unix.Stat_t
		if unix.Stat(name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if i > 0 && name == m.Path && st.Ino != m.Inode {
			continue // the process has gone and the name means another file here
		}
		if o := p.set.objects[idOf(&st)]; o != nil {
			return o
		}
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if unix.Fstat(int(f.Fd()), &st) != nil {
			f.Close()
			continue
		}
		o := p.set.objects[idOf(&st)]
		if o != nil { // the name has come to mean another file
			f.Close()
			return o
		}
		o = &ObjectFile{file: f, known: m.Path, roots: []string{root, ""}}
		p.set.objects[idOf(&st)] = o
		return o
	}
	return nil
}

// vdso reads the page the kernel maps into every process; ours is the same
// unless the process runs in 32-bit mode.
func (p *Process) vdso(m *mapped) *ObjectFile {
	id := fileID{size: int64(m.End - m.Start)}
	if o := p.set.objects[id]; o != nil {
		return o
	}
	f, err := os.Open(p.proc("mem"))
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, m.End-m.Start)
	if _, err := f.ReadAt(b, int64(m.Start)); err != nil {
		return nil
	}
	obj, err := newObject(bytes.NewReader(b), "[vdso]")
	if err != nil {
		return nil
	}
	obj.loadSymbols(nil)
	o := &ObjectFile{known: "[vdso]", obj: obj}
	o.Object()
	p.set.objects[id] = o
	return o
}
