package godtrace

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"

	"godtrace/internal/format"
)

// localeDir holds the C library's compiled locales: a directory for each, or
// all of them in the file locale-archive.
const localeDir = "/usr/lib/locale"

// numericLocale is how the user's locale groups digits; nil where it does not,
// or is not installed.
func numericLocale() *format.Grouping {
	for _, v := range []string{"LC_ALL", "LC_NUMERIC", "LANG"} {
		if name := os.Getenv(v); name != "" {
			return readGrouping(localeDir, name)
		}
	}
	return nil
}

// readGrouping reads the category LC_NUMERIC of a locale.
func readGrouping(dir, name string) *format.Grouping {
	if name == "C" || name == "POSIX" || strings.Contains(name, "/") {
		return nil
	}
	for _, n := range []string{name, plainCodeset(name)} {
		if b, err := os.ReadFile(filepath.Join(dir, n, "LC_NUMERIC")); err == nil {
			return parseNumeric(b)
		}
	}
	archive, err := os.ReadFile(filepath.Join(dir, "locale-archive"))
	if err != nil {
		return nil
	}
	return parseNumeric(fromArchive(archive, plainCodeset(name)))
}

// plainCodeset writes the codeset of a locale's name as the C library does in
// names of files: en_US.UTF-8 is en_US.utf8.
func plainCodeset(name string) string {
	lang, rest, ok := strings.Cut(name, ".")
	if !ok {
		return name
	}
	set, mod, at := strings.Cut(rest, "@")
	set = strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r | 0x20
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return -1
	}, set)
	if at {
		set += "@" + mod
	}
	return lang + "." + set
}

// lcNumeric is the number of the category in setlocale(3).
const lcNumeric = 1

// le32s reads n little-endian numbers at off; nil where they are not there.
func le32s(b []byte, off, n int) []uint32 {
	if off < 0 || n < 0 || off > len(b) || n > (len(b)-off)/4 {
		return nil
	}
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[off+4*i:])
	}
	return out
}

// fromArchive is a locale's LC_NUMERIC in a locale-archive. The layout is that
// of glibc's locale/locarchive.h: a head of 14 words, among them where the hash
// of names is (rows of hash, name, record) and how many rows it has; a record
// is a count and, for each category, offset and length.
func fromArchive(b []byte, name string) []byte {
	head := le32s(b, 0, 14)
	if head == nil || head[0] != 0xde020109 {
		return nil
	}
	for i := range int(head[4]) {
		row := le32s(b, int(head[2])+12*i, 3)
		if row == nil {
			return nil
		}
		if row[2] == 0 || cstringAt(b, row[1]) != name {
			continue
		}
		at := le32s(b, int(row[2])+4+8*lcNumeric, 2)
		if at == nil || uint64(at[0])+uint64(at[1]) > uint64(len(b)) {
			return nil
		}
		return b[at[0]:][:at[1]]
	}
	return nil
}

// parseNumeric reads a compiled LC_NUMERIC: a magic number, how many items
// there are and where; the decimal point, the separator of groups, and the
// sizes of groups from the right.
func parseNumeric(b []byte) *format.Grouping {
	head := le32s(b, 0, 5)
	if head == nil || head[0] != 0x20031115^lcNumeric || head[1] < 3 {
		return nil
	}
	g := &format.Grouping{Sep: cstringAt(b, head[3]), Sizes: []byte(cstringAt(b, head[4]))}
	if g.Sep == "" || len(g.Sizes) == 0 {
		return nil
	}
	return g
}

func cstringAt(b []byte, off uint32) string {
	if uint64(off) >= uint64(len(b)) {
		return ""
	}
	s, _, ok := bytes.Cut(b[off:], []byte{0})
	if !ok {
		return ""
	}
	return string(s)
}
