package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// quitGrace is how long an orderly end may take after the second signal.
const quitGrace = 300 * time.Millisecond

// watchSignals has the first SIGINT or SIGTERM stop tracing and the second one
// quit at once. The function returned ends that.
func (d *dtrace) watchSignals() func() {
	c := make(chan os.Signal, 2)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	// A closed output is an error of write(2) to report, not a silent death.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		for range 2 {
			select {
			case <-c:
			case <-done:
				return
			}
			d.stop.n.Add(1)
			d.s.Stop()
		}
		select {
		case <-done:
		case <-time.After(quitGrace):
			// The kernel takes away probes, programs and maps with the process.
			d.s.Kill()
			os.Exit(exitOK)
		}
	}()
	return func() {
		signal.Stop(c)
		signal.Stop(pipe)
		close(done)
	}
}
