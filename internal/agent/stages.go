package agent

import (
	"context"
	"os"
	"time"

	"kusto-agent/internal/async"
)

// stages are the two moments of a stop: from the first on nothing new is begun, at the
// second what is under way is broken off.
type stages struct {
	running context.Context // ends at a signal, or when begin is called
	ending  context.Context // ends shutdown_timeout later, or at the next signal
	begin   func()          // the stop
	leave   func()          // gives back what the stages need
}

// stages starts to listen to signals and returns the two contexts of a stop: running ends when the
// stop begins, by a signal, by the end of parent or by begin; ending ends when time is up, at the
// next signal or after shutdown_timeout. left returns how many batches are in flight, for the log.
// The caller calls leave.
func (a *Agent) stages(parent context.Context, signals <-chan os.Signal, left func() int) stages {
	running, begin := context.WithCancel(parent)
	ending, cut := context.WithCancel(context.Background())
	over, leave := context.WithCancel(context.Background())
	listening := async.Start(func() {
		defer cut()
		select {
		case <-signals:
			begin()
		case <-running.Done():
		case <-over.Done():
			return
		}
		select {
		case <-signals:
		case <-over.Done():
		case <-time.After(a.config().ShutdownTimeout.D()):
			a.Log.Warn("shutdown_timeout expired, requests in flight are cancelled; their records will be sent after the next start", underWay(left)...)
		}
	})
	return stages{running: running, ending: ending, begin: begin, leave: func() {
		leave()
		begin()
		<-listening
	}}
}

// underWay returns log attributes with the number of batches in flight, which left returns; nil if
// left does not return within lastMoments (2 s).
func underWay(left func() int) []any {
	var n int
	// Ends when the sender answers, or with the process.
	answered := async.Start(func() { n = left() })
	select {
	case <-answered:
		return []any{"batches", n}
	case <-time.After(lastMoments):
		return nil
	}
}

// lastMoments is what a part of the agent that was told to end has for that, when
// the time of the stop is over.
const lastMoments = 2 * time.Second

// await waits until ended is closed and returns true. Once ending has ended it waits only
// lastMoments (2 s) more; then it logs that the agent stops without what, and returns false.
func (a *Agent) await(ending context.Context, what string, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	case <-ending.Done():
	}
	select {
	case <-ended:
		return true
	case <-time.After(lastMoments):
	}
	a.Log.Error("stopping without waiting any longer: the remaining records will be sent after the next start", "for", what,
		"fix", "check the disks of the files and of state_dir: one does not answer")
	return false
}
