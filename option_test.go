package godtrace

import (
	"maps"
	"slices"
	"testing"
)

// Every option of DTrace: until when it can be set, its default as the manuals
// of illumos, FreeBSD and Oracle give it, a value it takes and one it does not.
// A flag takes every word that means on or off.
func TestOptions(t *testing.T) {
	const (
		mb  = 1 << 20
		hz  = int64(1e9)
		any = "" // nothing is refused
	)
	for _, o := range []struct {
		names     []string
		when      when
		def       int64
		good, bad string
	}{
		// Sizes of memory, fixed once tracing.
		{[]string{"bufsize", "aggsize", "specsize"}, runTime, 4 * mb, "64k", "much"},
		{[]string{"dynvarsize"}, runTime, mb, "2m", "-1"},
		{[]string{"strsize", "scratchsize"}, runTime, 256, "1k", "1x"},
		{[]string{"nspec"}, runTime, 1, "16", "-1"},
		{[]string{"bufpolicy"}, runTime, 0, "ring", "square"},
		{[]string{"bufresize"}, runTime, 0, "manual", "never"},
		// Stacks.
		{[]string{"stackframes"}, runTime, 20, "5", "many"},
		{[]string{"ustackframes"}, runTime, 100, "5", "many"},
		{[]string{"jstackframes"}, runTime, 50, "5", "many"},
		{[]string{"jstackstrsize"}, runTime, 512, "1k", "many"},
		{[]string{"maxframes"}, runTime, 127, "64", "many"},
		{[]string{"cpu"}, runTime, Unset, "0", "none"},
		{[]string{"statusrate"}, runTime, hz, "10hz", "often"},
		{[]string{"cleanrate"}, runTime, hz / 101, "50ms", "often"},
		{[]string{"destructive", "grabanon", "noresolve", "bpflog"}, runTime, Unset, "on", "perhaps"},
		{[]string{"temporal"}, runTime, 1, "yes", "perhaps"},
		{[]string{"lockmem"}, runTime, Unset, "unlimited", ""},
		{[]string{"bpflogsize"}, runTime, Unset, "1m", "much"},
		{[]string{"pcapsize"}, runTime, 100, "1500", "much"},
		// What setopt() can change.
		{[]string{"switchrate", "aggrate"}, anyTime, hz, "100ms", "often"},
		{[]string{"aggsortkey", "aggsortrev", "flowindent", "quiet", "quietresize", "rawbytes", "agghist", "aggpack", "aggzoom", "errexit"},
			anyTime, Unset, "off", "perhaps"},
		{[]string{"aggsortkeypos", "aggsortpos"}, anyTime, Unset, "1", "first"},
		{[]string{"demangle"}, anyTime, 1, "off", "perhaps"},
		{[]string{"stackindent"}, anyTime, 14, "4", "deep"},
		{[]string{"printsize"}, anyTime, 0, "1k", "much"},
		// The compiler, the linker, processes.
		{[]string{"aggpercpu", "argref", "cpp", "cpphdrs", "debug", "defaultargs", "droptags", "empty", "errtags", "kdefs", "knodefs", "lazyload",
			"linknommap", "nolibs", "pspec", "strip", "udefs", "unodefs", "verbose", "zdefs"}, compileTime, Unset, "", "perhaps"},
		{[]string{"amin", "core", "cppargs", "cpppath", "ctypes", "ctfpath", "debugassert", "define", "dofstashpath", "dtypes", "incdir", "late",
			"ldpath", "libdir", "modpath", "objcopypath", "procfspath", "setenv", "syslibdir", "undef", "unsetenv"}, compileTime, Unset, "x", any},
		{[]string{"disasm", "pgmax", "tree", "useruid"}, compileTime, Unset, "4", "x"},
		{[]string{"preallocate"}, compileTime, Unset, "1m", "x"},
		{[]string{"encoding"}, compileTime, Unset, "utf8", "latin1"},
		{[]string{"evaltime"}, compileTime, evalMain, "preinit", "never"},
		{[]string{"iregs", "tregs"}, compileTime, Unset, "8", "x"},
		{[]string{"linkmode"}, compileTime, linkKernel, "dynamic", "loose"},
		{[]string{"linktype"}, compileTime, Unset, "dof", "coff"},
		{[]string{"oformat"}, compileTime, Unset, "json", "yaml"},
		{[]string{"stdc"}, compileTime, Unset, "c", "ansi"},
		{[]string{"sysslice"}, compileTime, Unset, "", any},
		{[]string{"version"}, compileTime, Unset, "1.2", "new"},
	} {
		for _, name := range o.names {
			def, ok := optionDefs[name]
			if !ok {
				t.Errorf("no option %s", name)
				continue
			}
			if def.when != o.when {
				t.Errorf("%s: can be set until %d, want %d", name, def.when, o.when)
			}
			opts := newOptions()
			if got := opts.get(name); got != o.def {
				t.Errorf("%s is %d by default, want %d", name, got, o.def)
			}
			if err := opts.set(name, o.good, compileTime); err != nil {
				t.Errorf("%s=%s: %v", name, o.good, err)
			}
			if o.bad != any {
				if err := opts.set(name, o.bad, compileTime); err == nil || err.Error() != "Invalid value for specified option" {
					t.Errorf("%s=%s: %v", name, o.bad, err)
				}
			}
			if o.when != anyTime {
				if err := opts.set(name, o.good, anyTime); err == nil || err.Error() != "Operation illegal when tracing is active" {
					t.Errorf("%s while tracing: %v", name, err)
				}
			} else if err := opts.set(name, o.good, anyTime); err != nil {
				t.Errorf("%s while tracing: %v", name, err)
			}
		}
	}
	opts := newOptions()
	if err := opts.set("nosuch", "", compileTime); err == nil || err.Error() != "Invalid option name" {
		t.Errorf("nosuch: %v", err)
	}
}

// Rates are read as frequencies or times, sizes with their units.
func TestOptionValues(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        int64
	}{
		{"bufsize", "1k", 1 << 10}, {"bufsize", "1M", 1 << 20}, {"bufsize", "2g", 2 << 30}, {"bufsize", "0x10", 16}, {"bufsize", "1t", 1 << 40},
		{"switchrate", "10hz", 1e8}, {"switchrate", "10", 1e8}, {"switchrate", "5ms", 5e6}, {"switchrate", "2sec", 2e9}, {"switchrate", "3us", 3e3},
		{"switchrate", "7ns", 7}, {"switchrate", "1m", 6e10}, {"switchrate", "1h", 36e11}, {"switchrate", "1d", 864e11},
		{"bufpolicy", "switch", 0}, {"bufpolicy", "fill", 1}, {"bufpolicy", "ring", 2},
		{"quiet", "", 1}, {"quiet", "yes", 1}, {"quiet", "off", Unset}, {"quiet", "0", Unset}, {"cpu", "all", Unset}, {"cpu", "3", 3},
	} {
		opts := newOptions()
		if err := opts.set(c.name, c.value, compileTime); err != nil {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		} else if got := opts.get(c.name); got != c.want {
			t.Errorf("%s=%s is %d, want %d", c.name, c.value, got, c.want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(optionDefs)) {
		if def := optionDefs[name]; def.parse == nil {
			t.Errorf("%s: nothing reads its values", name)
		}
	}
}

// The compiler cuts stacks at the kernel's limit, which may have been raised,
// or at the option maxframes.
func TestMaxFrames(t *testing.T) {
	s := &Session{opts: newOptions()}
	if got := s.checkOptions().Int("maxframes"); got != maxStack() {
		t.Errorf("maxframes is %d for the compiler, the kernel allows %d", got, maxStack())
	}
	if err := s.opts.set("maxframes", "7", compileTime); err != nil {
		t.Fatal(err)
	}
	if got := s.checkOptions().Int("maxframes"); got != 7 {
		t.Errorf("maxframes is %d for the compiler, want 7", got)
	}
}
