package bpf

import (
	"fmt"

	"godtrace/internal/kernel"
)

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
	return &kernel.FeatureError{Name: "BTF", Since: "5.2, CONFIG_DEBUG_INFO_BTF", Workaround: "offsets of kernel structs are unknown", Err: err}
}
