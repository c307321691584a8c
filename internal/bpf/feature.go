package bpf

import (
	"fmt"
)

// FeatureError is something this kernel lacks.
type FeatureError struct {
	Name       string // what
	Since      string // the Linux version that has it, or the configuration
	Workaround string // what to do, or what is done, without
	Err        error
}

func (e *FeatureError) Error() string {
	s := fmt.Sprintf("this kernel has no %s (since %s)", e.Name, e.Since)
	if e.Workaround != "" {
		s += ": " + e.Workaround
	}
	if e.Err != nil {
		s += fmt.Sprintf(" (%v)", e.Err)
	}
	return s
}

func (e *FeatureError) Unwrap() error { return e.Err }

// FeatureMissing marks the error for tests and for doctor.
func (e *FeatureError) FeatureMissing() (name, since, workaround string) {
	return e.Name, e.Since, e.Workaround
}

func errPrivilege(err error) error {
	return &PrivilegeError{err}
}

// PrivilegeError says that this process may not load BPF programs.
type PrivilegeError struct{ Err error }

func (e *PrivilegeError) Error() string {
	return fmt.Sprintf("no permission to load BPF programs: run as root or with the capabilities CAP_BPF and CAP_PERFMON (%v)", e.Err)
}

func (e *PrivilegeError) Unwrap() error { return e.Err }

// FeatureMissing makes tests without privilege skip.
func (e *PrivilegeError) FeatureMissing() (name, since, workaround string) {
	return "BPF privilege", "root", "run as root or with CAP_BPF and CAP_PERFMON"
}

func errNoBTF(err error) error {
	return &FeatureError{"BTF", "5.2, CONFIG_DEBUG_INFO_BTF", "offsets of kernel structs are unknown", err}
}
