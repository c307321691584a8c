package symbol

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"io"
	"sync"
)

// lines is an object's line information, opened when first asked for.
type lines struct {
	once sync.Once
	mu   sync.Mutex
	data *dwarf.Data
	err  error
	last *dwarf.LineReader // of the unit last asked for
	unit dwarf.Offset
}

// DWARF returns the object's debugging information, from the object or its
// separate debug file.
func (o *Object) DWARF() (*dwarf.Data, error) {
	o.lines.once.Do(func() { o.lines.data, o.lines.err = o.readDWARF() })
	return o.lines.data, o.lines.err
}

func (o *Object) readDWARF() (*dwarf.Data, error) {
	if o.file.Section(".debug_info") != nil || o.file.Section(".zdebug_info") != nil {
		return o.file.DWARF()
	}
	if o.Debug != "" {
		f, err := elf.Open(o.Debug)
		if err != nil {
			return nil, err
		}
		defer f.Close() // DWARF reads all sections at once
		if f.Section(".debug_info") != nil {
			return f.DWARF()
		}
	}
	return nil, fmt.Errorf("%s: no debugging information: install its debug package or compile with -g", o.Path)
}

// Line is the source line of the instruction at a link-time address.
func (o *Object) Line(value uint64) (file string, line int, err error) {
	data, err := o.DWARF()
	if err != nil {
		return "", 0, err
	}
	l := &o.lines
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
	var e dwarf.LineEntry
	switch err := l.last.SeekPC(value, &e); {
	case err == dwarf.ErrUnknownPC || err == io.EOF || err == nil && e.File == nil:
		return "", 0, fmt.Errorf("%s: no line for 0x%x", o.Path, value)
	case err != nil:
		return "", 0, err
	}
	return e.File.Name, e.Line, nil
}
