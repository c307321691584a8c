package main

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed help/*.txt
var helpFiles embed.FS

// helpTopics are the names of the texts, in the order to read them.
func helpTopics() []string {
	order := []string{"examples", "options", "providers", "language"}
	names, err := fs.Glob(helpFiles, "help/*.txt")
	if err != nil {
		panic(err) // the pattern is ours
	}
	for _, n := range names {
		if t := strings.TrimSuffix(path.Base(n), ".txt"); !slices.Contains(order, t) {
			order = append(order, t)
		}
	}
	return order
}

// helpMain prints the help on a topic, or says which there are.
func helpMain(argv []string, std stdio) int {
	if len(argv) < 2 {
		printFrontEnds(std.out)
		fmt.Fprintf(std.out, "\nMore: godtrace help %s\n", strings.Join(helpTopics(), " | "))
		return exitOK
	}
	status := exitOK
	for _, topic := range argv[1:] {
		if err := printTopic(std.out, topic); err != nil {
			fmt.Fprintf(std.err, "godtrace: no help on %s: there is %s\n", topic, strings.Join(helpTopics(), ", "))
			status = exitUsage
		}
	}
	return status
}

func printTopic(w io.Writer, topic string) error {
	text, err := helpFiles.ReadFile("help/" + topic + ".txt")
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
