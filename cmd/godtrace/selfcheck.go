package main

import (
	"fmt"
	"strings"

	"godtrace"
)

// selfcheckMain shows that a probe which is not enabled costs nothing: the text
// of a kernel function before, while and after one is.
func selfcheckMain(argv []string, std stdio) int {
	if len(argv) != 3 || argv[1] != "--text" {
		fmt.Fprint(std.err, "Usage: godtrace selfcheck --text [module`]function\n")
		return exitUsage
	}
	module, function, ok := strings.Cut(argv[2], "`")
	if !ok {
		module, function = "", argv[2]
	}
	addr, size, checks, err := godtrace.CheckText(module, function)
	if err != nil {
		fmt.Fprintf(std.err, "godtrace: selfcheck: %s\n", strerror(err))
		return exitError
	}
	fmt.Fprintf(std.out, "%s at 0x%x, %d bytes\n", argv[2], addr, size)
	status := exitOK
	for _, c := range checks {
		if c.Err != nil {
			fmt.Fprintf(std.out, "%-14s not tried: %s\n", c.Mechanism, strerror(c.Err))
			continue
		}
		for _, d := range c.Changes {
			fmt.Fprintf(std.out, "%-14s +0x%x: % x -> % x\n", c.Mechanism, d.Off, d.Before, d.After)
		}
		if len(c.Changes) == 0 {
			fmt.Fprintf(std.out, "%-14s no byte changed while enabled\n", c.Mechanism)
			status = exitError
		}
		after := "as before"
		if !c.Restored {
			after, status = "NOT as before", exitError
		}
		fmt.Fprintf(std.out, "%-14s afterwards: %s\n", c.Mechanism, after)
	}
	return status
}
