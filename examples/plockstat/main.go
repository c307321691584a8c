// Plockstat shows which mutexes of a process are waited for and held, and by
// whom: plockstat -p PID, until Ctrl-C, or plockstat command …, to its end.
//
// It is a consumer of the provider pid: glibc's functions and the system call
// futex stand in for the provider plockstat of Solaris.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"godtrace"
)

// A thread that comes by futex() on its way through pthread_mutex_lock() has
// waited. It holds the mutex from then on.
const program = `
pid$target:libc.so.6:pthread_mutex_lock:entry
{
	self->lock = arg0; self->from = timestamp;
	self->caller = *(uintptr_t *)copyin(uregs[R_SP], sizeof (uintptr_t)); /* the return address */
}

syscall::futex:entry /self->lock/ { self->waited = 1; }

pid$target:libc.so.6:pthread_mutex_lock:return /self->waited && arg1 == 0/
{
	@["Mutex block", usym(self->lock), uaddr(self->caller)] = count();
	@time["Mutex block", usym(self->lock), uaddr(self->caller)] = avg(timestamp - self->from);
}

pid$target:libc.so.6:pthread_mutex_lock:return /self->lock && arg1 == 0/
{ self->since[self->lock] = timestamp; self->by[self->lock] = self->caller; }

pid$target:libc.so.6:pthread_mutex_lock:return { self->lock = 0; self->waited = 0; }

pid$target:libc.so.6:pthread_mutex_unlock:entry /self->since[arg0]/
{
	@["Mutex hold", usym(arg0), uaddr(self->by[arg0])] = count();
	@time["Mutex hold", usym(arg0), uaddr(self->by[arg0])] = avg(timestamp - self->since[arg0]);
	self->since[arg0] = 0; self->by[arg0] = 0;
}`

func main() {
	pid := flag.Int("p", 0, "process to watch")
	flag.Parse()
	s, err := godtrace.Open()
	check(err)
	defer s.Close()
	if *pid != 0 {
		check(s.Grab(*pid))
	} else {
		check(s.Create(strings.Join(flag.Args(), " ")))
	}
	check(s.SetOption("aggsortkey", ""))
	p, err := s.Compile(program, godtrace.CompileOptions{})
	check(err)
	_, err = s.Exec(p)
	check(err)
	s.Handlers.Drop = func(d godtrace.Drop) error { log.Print(d.Msg); return nil }
	check(s.Go())
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	go func() { <-c; s.Stop() }()
	for st := godtrace.Okay; st != godtrace.Done; {
		st, err = s.Work()
		check(err)
	}
	aggs, err := s.Aggregations()
	check(err)
	what := ""
	for i, r := range aggs[0].Rows { // both have the same keys, in the same order
		if r.Key[0] != what {
			what = r.Key[0].(string)
			fmt.Printf("\n%s\n\nCount     nsec Lock                         Caller\n%s\n", what, strings.Repeat("-", 79))
		}
		lock, caller := r.Key[1].(godtrace.Symbol), r.Key[2].(godtrace.Symbol)
		fmt.Printf("%5d %8d %-28s %v\n", r.Value, aggs[1].Rows[i].Value, lock, caller)
	}
}

func check(err error) {
	if err != nil {
		log.Fatalln("plockstat:", err, godtrace.Hint(err))
	}
}
