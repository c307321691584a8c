package main

import (
	"math"
	"testing"

	"godtrace/internal/testkernel"
)

func TestSummarize(t *testing.T) {
	s := summarize([]float64{4, 1, 3, 2, 5})
	if s.n != 5 || s.min != 1 || s.median != 3 || s.spread != 2 {
		t.Errorf("%+v", s)
	}
	if s := summarize(nil); !math.IsNaN(s.min) {
		t.Errorf("nothing: %+v", s)
	}
}

// The outputs are shapes that dtrace(1) and bpftrace document.
func TestSumCounts(t *testing.T) {
	for _, tt := range []struct {
		name, out string
		want      uint64
	}{
		{"dtrace count", "\n  bash      12\n  syscalls  400000\n", 400012},
		{"dtrace quantize", "\n           value  ------------- Distribution ------------- count    \n" +
			"              32 |                                         0        \n" +
			"              64 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 77       \n" +
			"             128 |                                         0        \n", 77},
		{"bpftrace count", "@: 99\n@[bash]: 1\n", 100},
		{"bpftrace hist", "@: \n[64, 128)           77 |@@@@@@@@@@@@@@@|\n[128, 256)           3 |@|\n", 80},
	} {
		if got := sumCounts(tt.out); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestLosses(t *testing.T) {
	const text = "dtrace: 123 drops on CPU 0\ndtrace: 7 dynamic variable drops\nWARNING: Lost 40 events\n"
	if got := losses(text); got != 170 {
		t.Errorf("%d, want 170", got)
	}
}

// Every minimal program loads, and counts at least what a loop called.
func TestMinimal(t *testing.T) {
	testkernel.RequireRoot(t)
	testkernel.CheckLeaks(t)
	tl := tools{trigger: testkernel.Trigger(t, "syscalls")}
	for _, f := range firings {
		t.Run(f.name, func(t *testing.T) {
			values, _, err := tl.firingRound(f, "minimal", 2000)
			if err != nil {
				t.Fatal(err)
			}
			if len(values) != passesPerRound {
				t.Errorf("%d values", len(values))
			}
		})
	}
}
