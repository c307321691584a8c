package godtrace

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"godtrace/internal/provider"
)

// TextCheck is what an enabled probe does to the text of a kernel function.
type TextCheck struct {
	Mechanism string
	Err       error        // why it could not be tried; then the rest is empty
	Changes   []TextChange // while the probe was enabled
	Restored  bool         // the text is the same after as before
}

// TextChange is a run of bytes that differ, Off bytes from the beginning of the
// function.
type TextChange struct {
	Off           int
	Before, After []byte
}

// CheckText reads the text of a kernel function before, while and after a probe
// on its entry is enabled, once for each mechanism that there is. It gives the
// function's address and size in bytes as well.
func CheckText(module, function string) (addr uint64, size int, checks []TextCheck, err error) {
	addr, before, err := provider.FunctionText(module, function)
	if err != nil {
		return 0, 0, nil, err
	}
	for _, engine := range []string{"fentry", "multi", "kprobe"} {
		c := TextCheck{}
		during, mech, err := textDuring(engine, module, function)
		c.Mechanism, c.Err = mech, err
		if err == nil {
			c.Changes = changes(before, during)
		}
		// The kernel takes optimized probes away with a delay.
		for range 100 {
			_, after, err := provider.FunctionText(module, function)
			if err != nil {
				return 0, 0, nil, err
			}
			if c.Restored = bytes.Equal(before, after); c.Restored {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		checks = append(checks, c)
	}
	return addr, len(before), checks, nil
}

// textDuring is the text of a function while a probe on it is enabled, and how
// that is attached.
func textDuring(engine, module, function string) (text []byte, mechanism string, err error) {
	s, err := Open()
	if err != nil {
		return nil, engine, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.SetOption("fbt", engine); err != nil {
		return nil, engine, err
	}
	prog, err := s.Compile(fmt.Sprintf("fbt:%s:%s:entry{}", module, function), CompileOptions{})
	if err != nil {
		return nil, engine, err
	}
	if _, err := s.Exec(prog); err != nil {
		return nil, engine, err
	}
	if err := s.Go(); err != nil {
		return nil, engine, err
	}
	mechanism = engine
	for _, e := range s.running.enabled {
		mechanism = s.Mechanism(probeInfo(e.Probe))
	}
	_, text, err = provider.FunctionText(module, function)
	return text, mechanism, err
}

// changes are the runs of bytes in which two texts of one length differ.
func changes(a, b []byte) (out []TextChange) {
	for i := 0; i < min(len(a), len(b)); i++ {
		if a[i] == b[i] {
			continue
		}
		j := i
		for j < min(len(a), len(b)) && a[j] != b[j] {
			j++
		}
		out = append(out, TextChange{i, a[i:j], b[i:j]})
		i = j
	}
	return out
}
