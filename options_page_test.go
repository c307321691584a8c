package godtrace

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page of options has every option, under the heading of its time, and no
// other.
func TestOptionsPage(t *testing.T) {
	text, err := os.ReadFile("doc/options.md")
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]when{"Until tracing starts": runTime, "At compilation": compileTime, "Also while tracing": anyTime}
	seen := map[string]bool{}
	word := regexp.MustCompile("`([a-z]+)`")
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		title, rows, _ := strings.Cut(part, "\n")
		for line := range strings.Lines(rows) {
			names, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |")
			if !ok || !strings.HasPrefix(line, "| ") {
				continue
			}
			for _, m := range word.FindAllStringSubmatch(names, -1) {
				def, ok := optionDefs[m[1]]
				if !ok {
					t.Errorf("%s is not an option", m[1])
				} else if def.when != times[title] {
					t.Errorf("%s stands under %q", m[1], title)
				}
				seen[m[1]] = true
			}
		}
	}
	for name := range optionDefs {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}
