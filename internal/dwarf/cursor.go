package dwarf

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

var errShort = errors.New("ends too soon")

// cursor reads numbers; after the end it gives zeros and sets err.
type cursor struct {
	b     []byte
	order binary.ByteOrder
	off   int
	err   error
}

func (c *cursor) bytes(n int) []byte {
	if c.err != nil || n < 0 || c.off < 0 || c.off > len(c.b) || n > len(c.b)-c.off {
		c.err = errShort
		return nil
	}
	b := c.b[c.off : c.off+n]
	c.off += n
	return b
}

func (c *cursor) u8() byte {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.bytes(2); b != nil {
		return c.order.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.bytes(4); b != nil {
		return c.order.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.bytes(8); b != nil {
		return c.order.Uint64(b)
	}
	return 0
}

// sized reads a number of n bytes.
func (c *cursor) sized(n int) uint64 {
	switch n {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 4:
		return uint64(c.u32())
	case 8:
		return c.u64()
	}
	c.err = fmt.Errorf("number of %d bytes", n)
	return 0
}

func (c *cursor) offset(dwarf64 bool) uint64 {
	if dwarf64 {
		return c.u64()
	}
	return uint64(c.u32())
}

// length reads an initial length.
func (c *cursor) length(dwarf64 *bool) uint64 {
	n := uint64(c.u32())
	if n == 0xffffffff {
		*dwarf64 = true
		return c.u64()
	}
	return n
}

func (c *cursor) uleb() uint64 {
	var v uint64
	for shift := 0; ; shift += 7 {
		b := c.u8()
		if c.err != nil || shift > 63 {
			return v
		}
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v
		}
	}
}

func (c *cursor) sleb() int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		b := c.u8()
		if c.err != nil || shift > 63 {
			return v
		}
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if shift += 7; b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// unzip unpacks a section of the old kind: "ZLIB", the size, a zlib stream.
func unzip(file []byte, s *elf.Section) ([]byte, error) {
	if s.Offset > uint64(len(file)) || s.FileSize > uint64(len(file))-s.Offset {
		return nil, errShort
	}
	b := file[s.Offset : s.Offset+s.FileSize]
	if len(b) < 12 || string(b[:4]) != "ZLIB" {
		return b, nil
	}
	n := binary.BigEndian.Uint64(b[4:])
	if n > maxSection {
		return nil, fmt.Errorf("claims to have %d bytes", n)
	}
	r, err := zlib.NewReader(bytes.NewReader(b[12:]))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && uint64(len(out)) < n {
		err = errShort
	}
	return out, err
}
