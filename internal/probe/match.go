package probe

import "strings"

// IsGlob reports whether a part of a description has pattern characters.
func IsGlob(pat string) bool { return strings.ContainsAny(pat, `*?[\`) }

// Glob matches s against a pattern as DTrace's gmatch(3GEN) does: * any
// string, ? any character, [a-z] and [!a-z] sets, \x the character x. An empty
// pattern matches everything.
func Glob(pat, s string) bool {
	if pat == "" || pat == "*" {
		return true
	}
	return glob(pat, s)
}

func glob(pat, s string) bool {
	// star is where to resume after the last *, with the text it then tries next.
	star, next := -1, 0
	p, i := 0, 0
	for i < len(s) || p < len(pat) {
		if p < len(pat) {
			if pat[p] == '*' {
				star, next = p+1, i+1
				p++
				continue
			}
			if i < len(s) {
				if n, ok := matchOne(pat[p:], s[i]); ok {
					p += n
					i++
					continue
				}
			}
		}
		if star < 0 || next > len(s) {
			return false
		}
		p, i = star, next
		next++
	}
	return true
}

// matchOne matches one character against the first element of pat and returns
// the element's length. An unclosed set matches nothing.
func matchOne(pat string, c byte) (int, bool) {
	switch pat[0] {
	case '?':
		return 1, true
	case '\\':
		if len(pat) > 1 {
			return 2, pat[1] == c
		}
		return 1, c == '\\'
	case '[':
		i := 1
		not := i < len(pat) && (pat[i] == '!' || pat[i] == '^')
		if not {
			i++
		}
		in := false
		for first := true; i < len(pat) && (first || pat[i] != ']'); first = false {
			if pat[i] == '\\' && i+1 < len(pat) {
				i++
			}
			lo, hi := pat[i], pat[i]
			if i+2 < len(pat) && pat[i+1] == '-' && pat[i+2] != ']' {
				hi = pat[i+2]
				i += 2
			}
			in = in || lo <= c && c <= hi
			i++
		}
		if i >= len(pat) {
			return 1, false
		}
		return i + 1, in != not
	}
	return 1, pat[0] == c
}

// Match reports whether the description d, whose parts may be patterns, matches p.
func (d Desc) Match(p Desc) bool {
	return Glob(d.Provider, p.Provider) && Glob(d.Module, p.Module) &&
		Glob(d.Func, p.Func) && Glob(d.Name, p.Name)
}
