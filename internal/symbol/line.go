package symbol

import (
	dw "debug/dwarf"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"godtrace/internal/dwarf"
)

// debugInfo is an object's debugging information, opened when first asked for.
type debugInfo struct {
	once sync.Once
	file *dwarf.File
	err  error

	mu   sync.Mutex
	last *dw.LineReader // of the unit last asked for
	unit dw.Offset
}

// DebugInfo returns the object's debugging information, from the object or its
// separate debug file. The error says what to do where there is none.
func (o *Object) DebugInfo() (*dwarf.File, error) {
	d := &o.debug
	d.once.Do(func() { d.file, d.err = o.openDebugInfo() })
	return d.file, d.err
}

func (o *Object) openDebugInfo() (*dwarf.File, error) {
	if o.HasSection(".debug_info") || o.HasSection(".zdebug_info") {
		f, ok := o.r.(*os.File)
		if !ok {
			return nil, fmt.Errorf("%s: not a file", o.Path)
		}
		return dwarf.Load(f, o.Path)
	}
	if name, f := o.debugFile(o.roots); f != nil {
		defer f.Close()
		if d, err := dwarf.Load(f, name); !errors.Is(err, dwarf.ErrNone) {
			return d, err
		}
	}
	return nil, fmt.Errorf("%s: %w: install its debug package or compile with -g", o.Path, dwarf.ErrNone)
}

// DWARF is DebugInfo for readers of lines.
func (o *Object) DWARF() (*dw.Data, error) {
	f, err := o.DebugInfo()
	if err != nil {
		return nil, err
	}
	return f.Data(), nil
}

// Line is the source line of the instruction at a link-time address.
func (o *Object) Line(value uint64) (file string, line int, err error) {
	data, err := o.DWARF()
	if err != nil {
		return "", 0, err
	}
	l := &o.debug
	l.mu.Lock()
	defer l.mu.Unlock()
	unit, err := data.Reader().SeekPC(value)
	if err != nil {
		return "", 0, fmt.Errorf("%s: no compilation unit holds 0x%x", o.Path, value)
	}
	if l.last == nil || l.unit != unit.Offset {
		lr, err := data.LineReader(unit)
		if err != nil {
			return "", 0, err
		}
		if lr == nil {
			return "", 0, fmt.Errorf("%s: no line table for 0x%x", o.Path, value)
		}
		l.last, l.unit = lr, unit.Offset
	}
	var e dw.LineEntry
	switch err := l.last.SeekPC(value, &e); {
	case err == dw.ErrUnknownPC || err == io.EOF || err == nil && e.File == nil:
		return "", 0, fmt.Errorf("%s: no line for 0x%x", o.Path, value)
	case err != nil:
		return "", 0, err
	}
	return e.File.Name, e.Line, nil
}
