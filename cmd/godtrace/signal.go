package main

import (
	"os"
	"os/signal"
	"syscall"
)

// watchSignals has the first SIGINT or SIGTERM stop tracing and the second one
// quit at once. The function returned ends that.
func (d *dtrace) watchSignals() func() {
	c := make(chan os.Signal, 2)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	go func() {
		for range 2 {
			if _, ok := <-c; !ok {
				return
			}
			d.s.Stop()
		}
		os.Exit(exitOK)
	}()
	return func() { signal.Stop(c); close(c) }
}
