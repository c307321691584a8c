module godtrace

go 1.26.8

require (
	github.com/cilium/ebpf v0.22.0
	github.com/ianlancetaylor/demangle v0.0.0-20260724033716-83e58baca724
	github.com/rogpeppe/go-internal v1.16.0
	github.com/ulikunitz/xz v0.5.17
	golang.org/x/sys v0.49.0
)

require golang.org/x/tools v0.40.1-0.20260108161641-ca281cf95054 // indirect
