package main

import (
	"reflect"
	"strings"
	"testing"
)

// The words are split as POSIX utility syntax says, with operands anywhere.
func TestGetopt(t *testing.T) {
	op := func(args ...string) (w []word) {
		for _, a := range args {
			w = append(w, word{arg: a})
		}
		return w
	}
	for _, c := range []struct {
		argv string // split at |
		want []word
	}{
		{"-n|BEGIN", []word{{'n', "BEGIN"}}},
		{"-nBEGIN", []word{{'n', "BEGIN"}}},
		{"-qn|BEGIN", []word{{'q', ""}, {'n', "BEGIN"}}},
		{"-qwZs|x.d|a|b", append([]word{{'q', ""}, {'w', ""}, {'Z', ""}, {'s', "x.d"}}, op("a", "b")...)},
		{"-s|x.d|a|-q|b", append(append([]word{{'s', "x.d"}}, op("a")...), append([]word{{'q', ""}}, op("b")...)...)},
		{"-s|x.d|--|-q|--", append([]word{{'s', "x.d"}}, op("-q", "--")...)},
		{"-s|-", []word{{'s', "-"}}},
		{"-|-e", append(op("-"), word{'e', ""})},
		{"-c|sleep 100|-p|1", []word{{'c', "sleep 100"}, {'p', "1"}}},
		{"-xbufsize=1m", []word{{'x', "bufsize=1m"}}},
		{"-32|-64", []word{{'3', "2"}, {'6', "4"}}},
		{"-lvP|syscall", []word{{'l', ""}, {'v', ""}, {'P', "syscall"}}},
		{"-D|N=2|-UX|-I.|-Xs|-C|-H", []word{{'D', "N=2"}, {'U', "X"}, {'I', "."}, {'X', "s"}, {'C', ""}, {'H', ""}}},
		{"", op("")},
	} {
		got, err := getopt(strings.Split(c.argv, "|"))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, %v; want %v", c.argv, got, err, c.want)
		}
	}
	for _, c := range []struct{ argv, want string }{
		{"-y", "invalid option -- 'y'"},
		{"-qn", "option requires an argument -- 'n'"},
		{"-:", "invalid option -- ':'"},
		{"--help", "invalid option -- '-'"},
		{"-33", "illegal option -- 33"},
		{"-6|3", "illegal option -- 63"},
		{"-q|-ql|-o", "option requires an argument -- 'o'"},
	} {
		if _, err := getopt(strings.Split(c.argv, "|")); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.argv, err, c.want)
		}
	}
}

// Whatever the words, none is lost: options with their letters and arguments
// and operands make up the whole line.
func FuzzGetopt(f *testing.F) {
	f.Add("-qn\x00BEGIN\x00a")
	f.Add("--\x00-x")
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\x00")
		words, err := getopt(argv)
		if err != nil {
			return
		}
		n := 0
		for _, w := range words {
			if w.opt != 0 {
				n++
			}
			n += len(w.arg)
		}
		// What is not in a word is a hyphen before options, or "--".
		total := 0
		for _, a := range argv {
			total += len(a)
		}
		if n > total || total-n > 2*len(argv) {
			t.Errorf("%q: %d of %d bytes in words %v", argv, n, total, words)
		}
	})
}
