package syntax

import "sort"

// Nearest is the candidate nearest to a name that is not known, for a hint; ""
// if none is near enough for the name to be a slip of the finger.
func Nearest(name string, candidates []string) string {
	if len(name) < 3 {
		return ""
	}
	best, bestD := "", max(1, (len(name)+1)/3)
	sort.Strings(candidates)
	for _, c := range candidates {
		if abs(len(c)-len(name)) > bestD {
			continue
		}
		d := distance(name, c, bestD)
		if d > 0 && (d < bestD || d == bestD && (best == "" || len(c) == len(name) && len(best) != len(name))) {
			best, bestD = c, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that make b of a; above limit it may be any number above limit.
func distance(a, b string, limit int) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, prev2[j-2]+1)
			}
			cur[j] = d
			least = min(least, d)
		}
		if least > limit {
			return limit + 1
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
