package provider

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"

	"godtrace/internal/insn"
	"godtrace/internal/kernel"
	"godtrace/internal/symbol"
)

// kcore is the memory of the running kernel.
var kcore = sync.OnceValues(func() (*elf.File, error) {
	f, err := os.Open("/proc/kcore")
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, &kernel.FeatureError{Name: "/proc/kcore", Since: "Linux 2.4 with CONFIG_PROC_KCORE", Workaround: "there is no other way to read the kernel's text as it is"}
		}
		return nil, err
	}
	return elf.NewFile(f)
})

// KernelText reads n bytes of the running kernel's text, as boot and other
// tracers have patched it.
func KernelText(addr uint64, n int) ([]byte, error) {
	k, err := kcore()
	if err != nil {
		return nil, err
	}
	for _, p := range k.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr+uint64(n) <= p.Filesz {
			b := make([]byte, n)
			if _, err := p.ReadAt(b, int64(addr-p.Vaddr)); err != nil {
				return nil, fmt.Errorf("/proc/kcore at 0x%x: %w", addr, err)
			}
			return b, nil
		}
	}
	return nil, fmt.Errorf("/proc/kcore has no 0x%x", addr)
}

// kernelFunc is a function of the running kernel: a symbol of kallsyms.
type kernelFunc struct {
	module, name string
	addr         uint64
	size         int // to the next symbol, padding included
}

func (f kernelFunc) text() ([]byte, error) { return KernelText(f.addr, f.size) }

// maxKernelFunc bounds the size of a function, which kallsyms gives only by the next
// symbol.
const maxKernelFunc = 1 << 20

// kernelFuncs are the functions of that name, in any module where module is "".
func kernelFuncs(module, name string) ([]kernelFunc, error) {
	k, err := symbol.KernelSymbols()
	if err != nil {
		return nil, err
	}
	var out []kernelFunc
	for _, s := range k.Named(module, name) {
		if n := k.Size(s.Addr); s.Func() && n > 0 && n <= maxKernelFunc {
			out = append(out, kernelFunc{s.Module, s.Name, s.Addr, int(n)})
		}
	}
	return out, nil
}

// boundaries are the offsets of a function's instructions.
func (f kernelFunc) boundaries() ([]int, error) {
	code, err := f.code()
	if err != nil {
		return nil, err
	}
	return insn.Boundaries(code, f.addr)
}

// thunks tells which places of the kernel stand for a return or an indirect
// jump: boot makes jumps to them, or plain instructions, of the compiler's.
var thunks = sync.OnceValues(func() (map[uint64]insn.Thunk, error) {
	k, err := symbol.KernelSymbols()
	if err != nil {
		return nil, err
	}
	out := map[uint64]insn.Thunk{}
	for s := range k.All() {
		if t := thunk(s.Name); t != insn.NoThunk {
			out[s.Addr] = t
		}
	}
	return out, nil
})

// thunk knows the names of arch/x86/lib/retpoline.S.
func thunk(name string) insn.Thunk {
	switch {
	case strings.HasSuffix(name, "_return_thunk"), name == "__x86_return_skl":
		return insn.ReturnThunk
	case strings.HasPrefix(name, "__x86_indirect_"), strings.HasPrefix(name, "__x86_its_indirect_"), name == "__x86_indirect_its_thunk_array":
		return insn.IndirectThunk
	}
	return insn.NoThunk
}

// exits finds where a function returns, in the text as it is.
func (f kernelFunc) exits() ([]insn.Exit, error) {
	code, err := f.code()
	if err != nil {
		return nil, err
	}
	th, err := thunks()
	if err != nil {
		return nil, err
	}
	cold, err := kernelFuncs(f.module, f.name+".cold")
	if err != nil {
		return nil, err
	}
	fn, err := insn.Analyze(code, f.addr, insn.World{
		Thunk: func(a uint64) insn.Thunk { return th[a] },
		Part: func(a uint64) bool {
			for _, c := range cold {
				if a-c.addr < uint64(c.size) {
					return true
				}
			}
			return false
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s does not decode: %w", f.name, err)
	}
	return fn.Exits, nil
}

// forbidden are the address ranges in which the kernel allows no kprobes, by
// debugfs; empty where that is not mounted.
var forbidden = sync.OnceValue(func() ranges {
	f, err := os.Open("/sys/kernel/debug/kprobes/blacklist")
	if err != nil {
		return nil
	}
	defer f.Close()
	var out ranges
	for sc := bufio.NewScanner(f); sc.Scan(); {
		// 0xSTART-0xEND	NAME
		r, _, _ := strings.Cut(sc.Text(), "\t")
		lo, hi, _ := strings.Cut(r, "-")
		a, err1 := strconv.ParseUint(lo, 0, 64)
		b, err2 := strconv.ParseUint(hi, 0, 64)
		if err1 == nil && err2 == nil && a < b {
			out = append(out, [2]uint64{a, b})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i][0] < out[j][0] })
	return out
})

// ranges are address ranges [from, to), sorted.
type ranges [][2]uint64

func (r ranges) contain(a uint64) bool {
	i := sort.Search(len(r), func(i int) bool { return r[i][0] > a })
	// Ranges may lie in one another: look at a few before.
	for j := i - 1; j >= 0 && j > i-8; j-- {
		if a < r[j][1] {
			return true
		}
	}
	return false
}

// FunctionText is the text of a function of the running kernel and where it is.
func FunctionText(module, name string) (addr uint64, text []byte, err error) {
	fs, err := kernelFuncs(module, name)
	if err != nil {
		return 0, nil, err
	}
	switch len(fs) {
	case 0:
		return 0, nil, fmt.Errorf("the kernel has no function %s", name)
	case 1:
		text, err := fs[0].text()
		return fs[0].addr, text, err
	}
	return 0, nil, fmt.Errorf("the kernel has %d functions %s: name the module", len(fs), name)
}
