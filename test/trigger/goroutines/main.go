// Goroutines is a program to be traced by the provider go. What its functions
// were called with, what they returned, and in what goroutines, it prints
// itself; lines that begin with "want" are what a tracer should have seen.
//
//	goroutines calls             functions of many shapes, once each
//	goroutines migrate G M       G goroutines call work M times each, which sleeps and yields
//	goroutines grow G DEPTH      G goroutines recurse, so that their stacks grow and move
//
// It is built with old versions of Go, too.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type point struct {
	X, Y int32
	Name string
}

type big struct {
	A [3]int
	B string
}

type vector struct {
	X, Y float64
	Name string
	N    int
}

type label string

type list[T any] struct{ items []T }

//go:noinline
func words(s string, l label, empty string) (string, int) { return s + string(l) + empty, len(s) }

//go:noinline
func slices(b []byte, list []string, n int8) []string { return append(list, string(b[:n])) }

//go:noinline
func onStack(b big, x int, f float64, u uint16) (big, bool) {
	b.A[0] += x + int(f) + int(u)
	return b, x > 0
}

//go:noinline
func floats(v vector, f float32, n int) int { return int(v.X*v.Y) + len(v.Name) + int(f) + n }

// many takes more than there are registers for.
//
//go:noinline
func many(a, b, c, d, e, f, g, h string, z int) string { return a + b + c + d + e + f + g + h }

//go:noinline
func structs(p point, q *point, e error, any interface{}) (point, error) {
	return point{p.X + q.X, p.Y + q.Y, p.Name + q.Name}, e
}

//go:noinline
func (p *point) move(dx, dy int32) int32 { p.X, p.Y = p.X+dx, p.Y+dy; return p.X }

//go:noinline
func mapped[T, U any](in []T, f func(T) U) []U {
	var out []U
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}

//go:noinline
func (l *list[T]) push(n int, v T) int { l.items = append(l.items, v); return len(l.items) + n }

//go:noinline
func deferred(n int) (r int) {
	defer func() {
		if e := recover(); e != nil {
			r = n * 3
		}
	}()
	panic("recovered")
}

func calls() {
	fmt.Printf("want floats vec -8 12\nwant floats.ret %d\n", floats(vector{1.5, 2, "vec", -8}, 3, 12))
	s, n := words("hello, world", "label", "")
	fmt.Printf("want words hello, world|label||12\nwant words.ret %s|%d\n", s, n)
	l := slices([]byte("abcdef"), []string{"one", "two"}, 3)
	fmt.Printf("want slices abcdef 6 2 two %d %d\nwant slices.ret %d %s\n", cap([]string{"one", "two"}), 3, len(l), l[2])
	b, ok := onStack(big{[3]int{1, 2, 3}, "big"}, -7, 1.5, 65535)
	fmt.Printf("want onStack 3 big -7 65535\nwant onStack.ret %d %s %v\n", b.A[0], b.B, map[bool]int{true: 1}[ok])
	m := many("a", "bb", "ccc", "dddd", "eeeee", "ffffff", "ggggggg", "hhhhhhhh", -9)
	fmt.Printf("want many a dddd eeeee ffffff hhhhhhhh -9\nwant many.ret %s\n", m)
	p, err := structs(point{3, 4, "p"}, &point{5, -6, "q"}, errors.New("x"), 3)
	fmt.Printf("want structs 3 4 p 5 -6 q 1\nwant structs.ret %d %d %s %d\n", p.X, p.Y, p.Name, map[bool]int{true: 1}[err != nil])
	pt := &point{1, 2, "pt"}
	r := pt.move(10, -20)
	fmt.Printf("want move pt 10 -20\nwant move.ret %d %d\n", r, pt.Y)
	o := mapped([]int{7, 8, 9}, func(i int) string { return strconv.Itoa(i) })
	fmt.Printf("want mapped 3\nwant mapped.ret %d %s\n", len(o), o[2])
	li := &list[string]{}
	fmt.Printf("want push 41\nwant push.ret %d\n", li.push(41, "x"))
	fmt.Printf("want assembled 5 text -3\nwant assembled.ret %d\n", assembled(5, "text", -3))
	fmt.Printf("want deferred 14\nwant deferred.ret %d\n", deferred(14))
	ok, err = filepath.Match("f*e", "file")
	fmt.Printf("want match f*e file\nwant match.ret %d %d\n", map[bool]int{true: 1}[ok], map[bool]int{true: 1}[err != nil])
}

var inner, outer, sum, results, syscalls atomic.Int64

// goid is the goroutine's number, as the runtime shows it.
func goid() string {
	b := make([]byte, 64)
	return strings.Fields(string(b[:runtime.Stack(b, false)]))[1]
}

//go:noinline
func work(n int64, name string) int64 {
	t := time.Now()
	for i := int64(0); i < n%4; i++ {
		time.Sleep(time.Duration(n%7) * 10 * time.Microsecond)
		runtime.Gosched()
		os.Getppid()
		syscalls.Add(1)
	}
	inner.Add(int64(time.Since(t)))
	return n*7 + int64(len(name))
}

//go:noinline
func grow(n int, pad [64]byte) int {
	if n == 0 {
		return int(pad[3])
	}
	pad[n%64]++
	return grow(n-1, pad) + 1
}

func main() {
	number := func(i int) int {
		n, err := strconv.Atoi(os.Args[i])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return n
	}
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	switch os.Args[1] {
	case "calls":
		calls()
		return
	case "migrate":
		each(number(2), func(g int) {
			m := number(3)
			for k := 0; k < m; k++ {
				n := int64(g*m + k + 1)
				t := time.Now()
				r := work(n, strings.Repeat("x", g%5))
				outer.Add(int64(time.Since(t)))
				sum.Add(n)
				results.Add(r)
			}
		})
		fmt.Println("sum", sum.Load(), results.Load(), inner.Load(), outer.Load(), syscalls.Load())
	case "grow":
		debug.SetGCPercent(5) // collect all the time
		each(number(2), func(g int) { results.Add(int64(grow(number(3), [64]byte{}))) })
		fmt.Println("grown", results.Load())
		os.Exit(7)
	}
}

// each runs n goroutines and prints their numbers.
func each(n int, do func(int)) {
	var wg sync.WaitGroup
	ids := make([]string, n)
	for g := 0; g < n; g++ {
		wg.Add(1)
		go func(g int) {
			defer wg.Done()
			ids[g] = goid()
			do(g)
		}(g)
	}
	wg.Wait()
	for _, id := range ids {
		fmt.Println("goroutine", id)
	}
}
