package process

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// stubProgram is a static executable (elf(5)) of one segment, its headers and
// stubCode; the last byte is the gate.
var stubProgram = func() []byte {
	const base = 0x400000
	head := elf.Header64{
		Ident:     [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:      uint16(elf.ET_EXEC),
		Machine:   uint16(elf.EM_X86_64),
		Version:   uint32(elf.EV_CURRENT),
		Ehsize:    uint16(binary.Size(elf.Header64{})),
		Phentsize: uint16(binary.Size(elf.Prog64{})),
		Phnum:     1,
	}
	start := uint64(head.Ehsize + head.Phentsize)
	head.Phoff = uint64(head.Ehsize)
	head.Entry = base + start
	segment := elf.Prog64{
		Type:   uint32(elf.PT_LOAD),
		Flags:  uint32(elf.PF_R | elf.PF_X),
		Vaddr:  base,
		Paddr:  base,
		Filesz: start + uint64(len(stubCode)),
		Memsz:  start + uint64(len(stubCode)),
		Align:  0x1000,
	}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, head)
	binary.Write(&b, binary.LittleEndian, segment)
	b.WriteString(stubCode)
	return b.Bytes()
}()

// stubCode is entered with the stack of a new program: argc, argv[0] = stubName,
// argv[1] = the target's path, argv[2:] = its arguments, NULL, its environment.
// Its last byte is the gate, which the tracer opens in the file.
const stubCode = "" +
	"\xb8\x9d\x00\x00\x00" + //        mov eax, 0x9d               prctl(
	"\xbf\x0f\x00\x00\x00" + //        mov edi, 0xf                  PR_SET_NAME,
	"\x48\x8d\x35\xaa\x00\x00\x00" + //        lea rsi, [rip+name]           "godtrace")
	"\x0f\x05" + //        syscall
	"\xb8\x48\x00\x00\x00" + //        mov eax, 0x48               fcntl(
	"\xbf\x03\x00\x00\x00" + //        mov edi, 0x3                  gateFD,
	"\xbe\x02\x00\x00\x00" + //        mov esi, 0x2                  F_SETFD,
	"\xba\x01\x00\x00\x00" + //        mov edx, 0x1                  FD_CLOEXEC)
	"\x0f\x05" + //        syscall
	"\xb8\x48\x00\x00\x00" + //        mov eax, 0x48               fcntl(
	"\xbf\x04\x00\x00\x00" + //        mov edi, 0x4                  reportFD, ...)
	"\x0f\x05" + //        syscall
	"\xb8\x01\x00\x00\x00" + //        mov eax, 0x1                write(
	"\xbf\x04\x00\x00\x00" + //        mov edi, 0x4                  reportFD,
	"\x48\x8d\x35\x75\x00\x00\x00" + //        lea rsi, [rip+name]           "g", 1): ready to be stopped
	"\x0f\x05" + //        syscall
	"\xb9\x00\x00\x00\x04" + //        mov ecx, 0x4000000          for some seconds at most
	"\xf3\x90" + // spin:  pause
	"\x80\x3d\x6e\x00\x00\x00\x01" + //        cmp byte [rip+gate], 0x1    until the gate is open:
	"\x74\x21" + //        je go
	"\x77\x02" + //        ja again                    or half open
	"\xe2\xf1" + //        loop spin
	"\x31\xc0" + // again: xor eax, eax                read(
	"\xbf\x03\x00\x00\x00" + //        mov edi, 0x3                  gateFD,
	"\x48\x8d\x74\x24\xf8" + //        lea rsi, [rsp-0x8]            below the stack,
	"\xba\x01\x00\x00\x00" + //        mov edx, 0x1                  1)
	"\x0f\x05" + //        syscall
	"\x83\xf8\xfc" + //        cmp eax, 0xfffffffc         EINTR
	"\x74\xe8" + //        je again
	"\x83\xf8\x01" + //        cmp eax, 0x1
	"\x75\x36" + //        jne out                     the tracer went away
	"\xb8\x3b\x00\x00\x00" + // go:    mov eax, 0x3b               execve(
	"\x48\x8b\x7c\x24\x10" + //        mov rdi, [rsp+0x10]           argv[1],
	"\x48\x8d\x74\x24\x18" + //        lea rsi, [rsp+0x18]           &argv[2],
	"\x48\x8b\x14\x24" + //        mov rdx, [rsp]
	"\x48\x8d\x54\xd4\x10" + //        lea rdx, [rsp+rdx*8+0x10]     environment)
	"\x0f\x05" + //        syscall
	"\xf7\xd8" + //        neg eax                     the errno
	"\x88\x44\x24\xf8" + //        mov byte [rsp-0x8], al
	"\xb8\x01\x00\x00\x00" + //        mov eax, 0x1                write(
	"\xbf\x04\x00\x00\x00" + //        mov edi, 0x4                  reportFD,
	"\x48\x8d\x74\x24\xf8" + //        lea rsi, [rsp-0x8]
	"\xba\x01\x00\x00\x00" + //        mov edx, 0x1                  1)
	"\x0f\x05" + //        syscall
	"\xb8\xe7\x00\x00\x00" + // out:   mov eax, 0xe7               exit_group(
	"\xbf\x7f\x00\x00\x00" + //        mov edi, 0x7f                 127)
	"\x0f\x05" + //        syscall
	"godtrace\x00" + // name:
	"\x00" // gate: closed; openGate and halfOpen
