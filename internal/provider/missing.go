package provider

import "fmt"

// MissingError says that the running kernel lacks what a probe needs.
type MissingError struct {
	Name       string // of the feature
	Since      string // Linux version and configuration that has it
	Workaround string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("this kernel has no %s (since Linux %s): %s", e.Name, e.Since, e.Workaround)
}

// FeatureMissing tells tests and the command doctor what is missing.
func (e *MissingError) FeatureMissing() (name, since, workaround string) {
	return e.Name, e.Since, e.Workaround
}
