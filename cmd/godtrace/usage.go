package main

import (
	"fmt"
	"io"
)

const usageText = `Usage: dtrace [-32|-64] [-CdeFGhHlqSvVwZ] [-b bufsz] [-c cmd] [-D name[=def]]
	[-I path] [-L path] [-o output] [-p pid] [-s script] [-U name]
	[-W name] [-x opt[=val]] [-X a|c|s|t]

	[-P provider [[ predicate ] action ]]
	[-m [ provider: ] module [[ predicate ] action ]]
	[-f [[ provider: ] module: ] func [[ predicate ] action ]]
	[-n [[[ provider: ] module: ] func: ] name [[ predicate ] action ]]
	[-i probe-id [[ predicate ] action ]] [ args ... ]

	predicate -> '/' D-expression '/'
	   action -> '{' D-statements '}'

	-32 the program's data model is 32-bit
	-64 the program's data model is 64-bit

	-b  size of the trace buffer of each CPU
	-c  run a command, trace until it ends; its pid is $target
	-C  preprocess scripts as cpp(1) does
	-d  show the program as it was understood
	-D  define a name for the preprocessor
	-e  compile only: enable nothing
	-f  enable or list the probes of a function
	-F  indent the output by entry and return
	-G  make an ELF object with the program's static probes
	-h  make a header file for static probes
	-H  show the files that the preprocessor includes
	-i  enable or list the probe of that number
	-I  look for included files in a directory
	-l  list probes instead of enabling them
	-L  look for D libraries in a directory
	-m  enable or list the probes of a module
	-n  enable or list probes by name
	-o  append the output to a file
	-p  trace with a running process in view; its pid is $target
	-P  enable or list the probes of a provider
	-q  print only what the program prints
	-s  enable or list the probes of a D script
	-S  show the compiled code
	-U  undefine a name for the preprocessor
	-v  report stability, and with -l argument types
	-V  print the version of the D language
	-w  allow destructive actions
	-W  wait for a process of that name to begin; its pid is $target
	-x  set an option of the compiler or of tracing
	-X  how strictly the preprocessor keeps to ISO C
	-Z  allow probe descriptions that match nothing
`

// usage prints dtrace(1)'s usage message. It is an exit status.
func usage(w io.Writer) int {
	fmt.Fprint(w, usageText)
	return exitUsage
}
