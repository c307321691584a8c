// Stacks reads at the end of a chain of calls: recursion, closures, interfaces,
// deferred calls, a goroutine. With an argument it works for so many
// milliseconds instead, interrupted by signals of its own.
package main

import (
	"io"
	"os"
	"runtime/pprof"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
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

func work(until time.Time, done chan int) {
	n := 0
	for time.Now().Before(until) {
		words := strings.Fields(strings.Repeat("the quick brown fox ", 200))
		count := map[string]int{}
		for _, w := range words {
			count[w]++
		}
		sort.Strings(words)
		n += len(count) + len(strconv.Itoa(n))
	}
	done <- n
}

func main() {
	if len(os.Args) > 1 {
		ms, _ := strconv.Atoi(os.Args[1])
		pprof.StartCPUProfile(io.Discard)
		until, done := time.Now().Add(time.Duration(ms)*time.Millisecond), make(chan int)
		for range 4 {
			go work(until, done)
		}
		for range 4 {
			sink += <-done
		}
		if sink == 0 {
			os.Exit(1)
		}
		return
	}
	for {
		sink += down(5, square{2})
		done := make(chan int)
		go func() { done <- down(3, square{3}) }()
		sink += <-done
	}
}
