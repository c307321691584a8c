package process

import (
	"slices"
	"testing"
)

func TestEnviron(t *testing.T) {
	t.Setenv("A", "1")
	t.Setenv("AB", "2")
	t.Setenv("B", "3")
	for _, c := range []struct {
		changes   []string
		has, lack []string
	}{
		{nil, []string{"A=1", "AB=2", "B=3"}, nil},
		{[]string{"A=9", "NEW=x=y"}, []string{"A=9", "AB=2", "NEW=x=y"}, []string{"A=1"}},
		{[]string{"A", "NONE"}, []string{"AB=2"}, []string{"A=1"}},
		{[]string{"A=", "A=5", "B"}, []string{"A=5"}, []string{"A=", "A=1", "B=3"}},
	} {
		env := environ(c.changes)
		for _, e := range c.has {
			if !slices.Contains(env, e) {
				t.Errorf("%q: no %s", c.changes, e)
			}
		}
		for _, e := range c.lack {
			if slices.Contains(env, e) {
				t.Errorf("%q: %s is there", c.changes, e)
			}
		}
	}
}
