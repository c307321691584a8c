// Package symbol turns addresses into names and back, for the kernel and for
// processes, lists the functions of ELF objects, and unwinds stacks of code
// compiled without frame pointers.
//
// Everything is read on first use and kept: /proc/kallsyms once per run, an
// object file once per identity (device, inode, size, modification time), the
// mappings of a process when Snapshot or the first look-up asks for them.
package symbol

import "strconv"

// Loc is what is known about one address. The zero Name means that no symbol
// covers it, the zero Module that nothing known is mapped there.
type Loc struct {
	Addr   uint64 // the address asked for
	Module string // "vmlinux", "ext4", "libc.so.6", "sshd"
	Name   string
	Off    uint64 // Addr minus the start of the symbol; 0 without Name
}

// String is the form of stack(), ustack() and uaddr():
// "module`name+0x14", "module`name" at its first byte, "module`0xaddr" or
// "0xaddr" where less is known.
func (l Loc) String() string {
	if l.Name != "" && l.Off != 0 {
		return l.Symbol() + "+0x" + strconv.FormatUint(l.Off, 16)
	}
	return l.Symbol()
}

// Symbol is the form of sym() and usym(): as String, without the offset.
func (l Loc) Symbol() string {
	s := l.Name
	if s == "" {
		s = "0x" + strconv.FormatUint(l.Addr, 16)
	}
	if l.Module == "" {
		return s
	}
	return l.Module + "`" + s
}

// Mod is the form of mod() and umod(): the module, else the address.
func (l Loc) Mod() string {
	if l.Module != "" {
		return l.Module
	}
	return "0x" + strconv.FormatUint(l.Addr, 16)
}
