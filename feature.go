package godtrace

import (
	"errors"
	"os"

	"godtrace/internal/bpf"
)

// featureFindings are the features of the kernel that godtrace makes use of.
func featureFindings() []Finding {
	var out []Finding
	for _, f := range bpf.Features() {
		d := Finding{Area: "feature", Name: f.Name, OK: f.Have, Since: f.Since}
		switch {
		case f.Have:
			d.Now = "yes"
		case errors.Is(f.Err, os.ErrPermission):
			d.Now, d.Remedy = "no", "forbidden here: "+f.Without
			if !privileged() {
				d.Now, d.Remedy = "?", "cannot tell without the rights above"
			}
		case f.Err != nil:
			d.Now, d.Remedy = "?", "cannot tell: "+f.Err.Error()
		default:
			d.Now, d.Remedy = "no", f.Without
		}
		out = append(out, d)
	}
	return out
}

// privileged says whether nothing is missing without which tracing is impossible.
func privileged() bool {
	caps, err := Capabilities()
	if err != nil {
		return false
	}
	for _, c := range caps {
		if c.Needed && !c.Have {
			return false
		}
	}
	return true
}
