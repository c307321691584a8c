package main

import (
	"fmt"

	"godtrace"
)

// doctorMain prints what of tracing this kernel and this user can do. The
// status is 1 if something is missing without which there is no tracing.
func doctorMain(_ []string, std stdio) int {
	found, err := godtrace.Doctor()
	if err != nil {
		fmt.Fprintf(std.err, "godtrace: doctor: %s\n", strerror(err))
		return exitError
	}
	area := ""
	bad := 0
	for _, f := range found {
		if f.Area != area {
			area = f.Area
			fmt.Fprintf(std.out, "%s\n", map[string]string{
				"rights": "Rights", "kernel": "Kernel", "feature": "Features of the kernel, and since which version",
			}[area])
		}
		mark := "+"
		if !f.OK {
			mark = "-"
			bad++
		}
		fmt.Fprintf(std.out, "  %s %-22s %-8s %s\n", mark, f.Name, f.Now+f.Since, f.Remedy)
	}
	if bad == 0 {
		fmt.Fprintln(std.out, "Everything is there.")
	}
	return exitOK
}
