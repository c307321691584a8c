package main

import (
	"fmt"
	"strings"

	"godtrace"
)

// doctorMain prints what of tracing this kernel and this user can do.
func doctorMain(_ []string, std stdio) int {
	found, err := godtrace.Doctor()
	if err != nil {
		fmt.Fprintf(std.err, "godtrace: doctor: %s\n", strerror(err))
		return exitError
	}
	area := ""
	for _, f := range found {
		if f.Area != area {
			if area != "" {
				fmt.Fprintln(std.out)
			}
			area = f.Area
			fmt.Fprintln(std.out, areaTitles[area])
		}
		line := fmt.Sprintf("  %-22s %-5s", f.Name, f.Now)
		if f.Since != "" {
			line = fmt.Sprintf("%s %-26s", line, f.Since)
		}
		if f.Remedy != "" {
			line += " " + f.Remedy
		}
		fmt.Fprintln(std.out, strings.TrimRight(line, " "))
	}
	return exitOK
}

var areaTitles = map[string]string{
	"rights": "Rights", "kernel": "Kernel", "feature": "Features of the kernel, the version that brought them, and what is done without",
}
