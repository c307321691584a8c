// Report reads `go test -json` on standard input and prints what a reader of a
// log needs: a line per package as go test prints it, the whole output of what
// failed, and at the end every skipped test with its reason. Its status is 1
// if anything failed, or if nothing ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is one line of test2json (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
	Elapsed    float64
}

func main() {
	failed, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	if failed {
		os.Exit(1)
	}
}

func report(r io.Reader, w io.Writer) (failed bool, err error) {
	type id struct{ pkg, test string }
	var (
		output         = make(map[id][]string)
		skips, fails   []string
		passed, events int
	)
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			fmt.Fprintln(w, in.Text()) // go's own complaint, not an event
			failed = true
			continue
		}
		events++
		k := id{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "build-fail":
			failed = true
		case "output":
			if e.Test == "" {
				// The package's own lines: keep the verdict, leave out
				// the repeated PASS.
				if e.Output != "PASS\n" {
					fmt.Fprint(w, e.Output)
				}
				continue
			}
			output[k] = append(output[k], e.Output)
		case "skip":
			if e.Test != "" {
				skips = append(skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(output[k])))
			}
			delete(output, k)
		case "pass":
			if e.Test != "" {
				passed++
			}
			delete(output, k)
		case "fail":
			failed = true
			if e.Test != "" {
				fails = append(fails, e.Package+" "+e.Test)
				for _, line := range output[k] {
					fmt.Fprint(w, line)
				}
			}
			delete(output, k)
		}
	}
	// A test without a verdict was cut off by a crash or a timeout.
	for k, lines := range output {
		failed = true
		fails = append(fails, k.pkg+" "+k.test+" (no verdict)")
		for _, line := range lines {
			fmt.Fprint(w, line)
		}
	}
	for _, s := range skips {
		fmt.Fprintln(w, "SKIP ", s)
	}
	for _, f := range fails {
		fmt.Fprintln(w, "FAIL ", f)
	}
	fmt.Fprintf(w, "%d tests passed, %d failed, %d skipped\n", passed, len(fails), len(skips))
	if events == 0 {
		failed = true
	}
	return failed, in.Err()
}

// reason is the last thing a skipped test said before its verdict, without
// the file and line.
func reason(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		l := strings.TrimSpace(lines[i])
		if l == "" || strings.HasPrefix(l, "---") || strings.HasPrefix(l, "===") {
			continue
		}
		if file, rest, ok := strings.Cut(l, ": "); ok && strings.Contains(file, ".go:") {
			return rest
		}
		return l
	}
	return "no reason given"
}
