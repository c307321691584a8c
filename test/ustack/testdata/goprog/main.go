// Goprog reads at the end of a chain of calls: recursion, closures, interfaces,
// deferred calls, a goroutine.
package main

import (
	"os"
	"sort"
	"syscall"
)

type shape interface{ area(n int) int }

type square struct{ side int }

var sink int

//go:noinline
func waitForByte() {
	var b [1]byte
	syscall.Write(1, []byte("."))
	if n, _ := syscall.Read(0, b[:]); n != 1 {
		os.Exit(0)
	}
	sink += int(b[0])
}

//go:noinline
func (s square) area(n int) int {
	v := []int{3, 1, 2}
	sort.Slice(v, func(i, j int) bool {
		waitForByte()
		return v[i] < v[j]
	})
	return s.side*n + v[0]
}

//go:noinline
func down(n int, s shape) int {
	defer func() { sink++ }()
	if n == 0 {
		return s.area(4)
	}
	var big [1000]int
	big[n] = down(n-1, s)
	return big[n] + big[0]
}

func main() {
	for {
		sink += down(5, square{2})
		done := make(chan int)
		go func() { done <- down(3, square{3}) }()
		sink += <-done
	}
}
