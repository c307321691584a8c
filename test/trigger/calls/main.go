// Calls calls functions a known number of times and prints how often it did:
// "main.NAME CALLS SUM", SUM that of the results. Its goroutines' stacks grow
// while they are traced.
//
//	calls [N]
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

// counter counts calls of one function; goroutines take turns.
type counter struct{ calls, sum int64 }

var mu sync.Mutex
var leafs, deeps, bigs counter

func (c *counter) add(r int64) int64 {
	mu.Lock()
	c.calls++
	c.sum += r
	mu.Unlock()
	return r
}

//go:noinline
func leaf(x int64) int64 { return 3*x + 1 }

// deep recurses with a frame that makes the stack grow now and then.
//
//go:noinline
func deep(x int64) int64 {
	var pad [64]int64
	pad[x&63] = x
	if x > 0 {
		pad[0] += deepCounted(x - 1)
	}
	return pad[0] + pad[x&63]
}

func deepCounted(x int64) int64 { return deeps.add(deep(x)) }

// big has a frame larger than a new goroutine's stack.
//
//go:noinline
func big(x int64) int64 {
	var pad [8192]int64
	for i := range pad {
		pad[i] = x + int64(i)
	}
	return pad[x&8191]
}

func main() {
	n := int64(50)
	if len(os.Args) > 1 {
		var err error
		if n, err = strconv.ParseInt(os.Args[1], 10, 64); err != nil {
			fmt.Fprintln(os.Stderr, "calls:", err)
			os.Exit(2)
		}
	}
	var wg sync.WaitGroup
	for g := range int64(4) {
		wg.Go(func() {
			for i := range n {
				leafs.add(leaf(i))
			}
			deepCounted(40 * (g + 1))
		})
		wg.Go(func() { bigs.add(big(g)) })
	}
	wg.Wait()
	for _, f := range []struct {
		name string
		c    *counter
	}{{"leaf", &leafs}, {"deep", &deeps}, {"big", &bigs}} {
		fmt.Printf("main.%s %d %d\n", f.name, f.c.calls, f.c.sum)
	}
}
