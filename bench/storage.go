package main

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// taskStorage describes a map of one 64-bit value per thread. The kernel wants
// the types of key and value for this kind of map.
func taskStorage() *ebpf.MapSpec {
	return &ebpf.MapSpec{
		Type: ebpf.TaskStorage, KeySize: 4, ValueSize: 8, Flags: unix.BPF_F_NO_PREALLOC,
		Key:   &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Value: &btf.Int{Name: "unsigned long", Size: 8},
	}
}
