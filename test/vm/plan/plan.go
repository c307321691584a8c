// Package plan is what the host and the first process of a guest agree on.
package plan

import "time"

// File is where the guest finds its plan, as JSON.
const File = "/plan.json"

// A Plan is the commands that a guest runs, one after the other.
type Plan struct {
	Env      []string // in addition to HOME, PATH and TERM
	Modules  []string // to load first, by name
	Commands []Command
}

// A Command of the guest. Its two outputs are one.
type Command struct {
	Name    string // names it in the report
	Dir     string // working folder
	Args    []string
	Timeout time.Duration // SIGQUIT, then SIGKILL; 0: none
}

// The report is the guest's second serial port: for each command a line Begin,
// its output, and a line End, each of these marks at the start of a line and
// followed by the fields of its function.
const (
	Begin = "\x01begin " // name
	End   = "\x01end "   // name, status, taint of the kernel, seconds
	Off   = "\x01off"    // all has run
)
