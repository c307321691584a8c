package provider

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"godtrace/internal/probe"
)

// smallELF is a program of two functions, small enough for a fuzzer to see
// through.
func smallELF(machine elf.Machine) []byte {
	const base = 0x400000
	text := []byte{
		0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x74, 0x02, 0xe8, 0x07, 0x00, 0x00, 0x00, 0x5d, 0xc3, 0xff, 0xe0, // main
		0xff, 0x24, 0xc5, 0x00, 0x00, 0x40, 0x00, 0xeb, 0xee, 0xc3, // other
	}
	strtab := []byte("\x00main\x00other\x00other.cold\x00")
	names := []byte("\x00.text\x00.symtab\x00.strtab\x00.shstrtab\x00")
	var syms, out bytes.Buffer
	const headers = 64 + 56
	for _, s := range []elf.Sym64{{},
		{Name: 1, Info: byte(elf.STT_FUNC) | 1<<4, Shndx: 1, Value: base + headers, Size: 16},
		{Name: 6, Info: byte(elf.STT_FUNC), Shndx: 1, Value: base + headers + 16, Size: 8},
		{Name: 12, Info: byte(elf.STT_FUNC), Shndx: 1, Value: base + headers + 24, Size: 2}} {
		binary.Write(&syms, binary.LittleEndian, &s)
	}
	at := uint64(headers)
	place := func(b []byte) uint64 { was := at; at += uint64(len(b)); return was }
	textAt, symAt, strAt, nameAt := place(text), place(syms.Bytes()), place(strtab), place(names)
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Entry: base + headers, Phoff: 64, Shoff: at,
		Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 5, Shstrndx: 4}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	for _, v := range []any{&h,
		&elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Vaddr: base, Filesz: at, Memsz: at, Align: 4096},
		text, syms.Bytes(), strtab, names,
		&elf.Section64{},
		&elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: 6, Addr: base + textAt, Off: textAt, Size: uint64(len(text))},
		&elf.Section64{Name: 7, Type: uint32(elf.SHT_SYMTAB), Off: symAt, Size: uint64(syms.Len()), Link: 3, Info: 1, Entsize: 24},
		&elf.Section64{Name: 15, Type: uint32(elf.SHT_STRTAB), Off: strAt, Size: uint64(len(strtab))},
		&elf.Section64{Name: 23, Type: uint32(elf.SHT_STRTAB), Off: nameAt, Size: uint64(len(names))},
	} {
		binary.Write(&out, binary.LittleEndian, v)
	}
	return out.Bytes()
}

// Whatever a file holds, its functions, their ways out and their instructions
// are found or refused.
func FuzzUserFile(f *testing.F) {
	name := filepath.Join(f.TempDir(), "file")
	find := func(b []byte) (found int) {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			f.Fatal(err)
		}
		p := newPid()
		for _, d := range []probe.Desc{
			{Provider: "uprobe", Module: name},
			{Provider: "uprobe", Module: name, Func: "main", Name: "entry"},
			{Provider: "uinstr*", Module: name, Func: "m*", Name: "call"},
		} {
			if ps, err := p.Probes(d); err == nil {
				found += len(ps)
				p.Groups(ps)
			}
		}
		for _, u := range p.files {
			u.f.Close()
		}
		return found
	}
	for _, m := range []elf.Machine{elf.EM_X86_64, elf.EM_386, elf.EM_AARCH64} {
		b := smallELF(m)
		if n := find(b); n < 4 {
			f.Fatalf("%v: %d probes", m, n)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { find(b) })
}
