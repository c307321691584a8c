package testkernel

// LanguageHalf lists the packages that must work with no kernel at all: D
// source to DIF, and DIF to text. They are tested on any machine; every other
// package's tests run in the matrix of kernels as well.
var LanguageHalf = []string{
	"internal/agg",
	"internal/check",
	"internal/compile",
	"internal/cpp",
	"internal/dif",
	"internal/dlib",
	"internal/dwarf",
	"internal/format",
	"internal/insn",
	"internal/probe",
	"internal/syntax",
	"internal/syscalls",
	"internal/types",
}

// KernelHalf lists what loads, attaches and reads.
var KernelHalf = []string{
	"internal/bpf",
	"internal/btf",
	"internal/consume",
	"internal/kernel",
	"internal/process",
	"internal/provider",
	"internal/ring",
	"internal/symbol",
	"internal/tracefs",
}
