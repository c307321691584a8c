package syntax

import "testing"

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"abc", "abc", 0}} {
		if got := distance(tt.a, tt.b, 10); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
