package probe_test

import (
	"testing"

	"godtrace/internal/insn"
	"godtrace/internal/probe"
)

// Conditions of jumps agree with the processor's manual, as insn has it, for
// every condition code and every state of the flags they look at.
func TestCond(t *testing.T) {
	bits := []uint64{1 << 0, 1 << 2, 1 << 6, 1 << 7, 1 << 11, 1 << 1, 1 << 10}
	for cc := range byte(16) {
		for n := range uint64(1) << len(bits) {
			flags := uint64(0x200)
			for i, b := range bits {
				if n>>i&1 != 0 {
					flags |= b
				}
			}
			if got, want := probe.CondOf(cc).Holds(flags, 0), insn.Holds(cc, flags); got != want {
				t.Errorf("condition %x, flags %#x: %v, want %v", cc, flags, got, want)
			}
		}
	}
}
