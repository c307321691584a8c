package provider

import (
	"hash/maphash"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// KernelModules stands in the place of a process where a description may match
// more once the kernel loads modules.
const KernelModules = -1

// ModuleWatch tells when modules come and go.
type ModuleWatch struct {
	seed  maphash.Seed
	last  uint64
	read  time.Time
	count uint64
}

// moduleInterval is how often the list of modules is looked at, which costs a
// few microseconds for each.
const moduleInterval = 50 * time.Millisecond

// WatchModules begins to watch.
func WatchModules() *ModuleWatch {
	w := &ModuleWatch{seed: maphash.MakeSeed()}
	w.last = w.state()
	return w
}

// Count is how often the set of modules has changed.
func (w *ModuleWatch) Count() uint64 {
	if now := time.Now(); now.Sub(w.read) >= moduleInterval {
		w.read = now
		if s := w.state(); s != w.last {
			w.last = s
			w.count++
		}
	}
	return w.count
}

// state is a hash of the modules.
func (w *ModuleWatch) state() (sum uint64) {
	for name, ino := range loadedModules() {
		sum += maphash.Comparable(w.seed, moduleID{name, ino})
	}
	return sum
}

type moduleID struct {
	name string
	ino  uint64
}

// loadedModules are the modules there are: by name, the inode of their folder in
// sysfs. A module that was unloaded and loaded again has another.
func loadedModules() map[string]uint64 {
	out := map[string]uint64{}
	b, err := os.ReadFile("/proc/modules")
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(b)) {
		// NAME SIZE REFS USERS STATE ADDR
		name, _, _ := strings.Cut(line, " ")
		var st unix.Stat_t
		if unix.Stat("/sys/module/"+name, &st) == nil {
			out[name] = st.Ino
		}
	}
	return out
}
