package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const in = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: SKIP-FEATURE: x (since Linux 6.6)\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- PASS: TestB (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	const failing = `{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:9: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
`
	const crashed = `{"Action":"output","Package":"p","Test":"TestD","Output":"panic: oops\n"}
{"Action":"fail","Package":"p"}
`
	tests := []struct {
		name, in string
		failed   bool
		want     string
	}{
		{"pass and skip", in, false, "ok  \tp\t0.1s\nSKIP  p TestA: SKIP-FEATURE: x (since Linux 6.6)\n1 tests passed, 0 failed, 1 skipped\n"},
		{"fail", failing, true, "    a_test.go:9: wrong\nFAIL  p TestC\n0 tests passed, 1 failed, 0 skipped\n"},
		{"crash", crashed, true, "panic: oops\nFAIL  p TestD (no verdict)\n0 tests passed, 1 failed, 0 skipped\n"},
		{"not json", "go: no such package\n", true, "go: no such package\n0 tests passed, 0 failed, 0 skipped\n"},
		{"nothing", "", true, "0 tests passed, 0 failed, 0 skipped\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			failed, err := report(strings.NewReader(tt.in), &out)
			if err != nil || failed != tt.failed || out.String() != tt.want {
				t.Errorf("failed %v (%v)\n got %q\nwant %q", failed, err, out.String(), tt.want)
			}
		})
	}
}
