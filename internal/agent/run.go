package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kusto-agent/internal/async"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/footprint"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/recovery"
)

// Serve runs the agent until ctx ends, until SIGTERM or SIGINT, or until a run --once is done. Call
// either Serve or Run, once. Its errors have exit codes.
func (a *Agent) Serve(ctx context.Context) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	return a.Run(ctx, signals)
}

// firstLook is how long the start waits for the batches of an earlier run to be read
// again before files are read.
const firstLook = 30 * time.Second

// Run starts every part of the agent, waits for the end of ctx or a first signal, and stops the
// parts in an order that loses nothing; a second signal cancels what is in flight. Each part is a
// blocking function that is started and awaited here. At the end all that New has opened is closed.
func (a *Agent) Run(ctx context.Context, signals <-chan os.Signal) (err error) {
	defer func() {
		if cerr := a.close(); cerr != nil && err == nil {
			err = exit.Silently(exit.Failed)
		}
	}()
	stop := a.stages(ctx, signals, func() int { return a.sender.Progress().Left })
	defer stop.leave()
	a.startTelemetry(stop.running)
	sending, cutSending := context.WithCancel(context.Background())
	defer cutSending()
	sender := async.Start(func() { a.sender.Run(sending) })
	batcher := async.Start(a.batcher.Run)
	keep := func() {
		cutSending()
		<-sender
		a.keep()
	}
	tailing, stopTailing := context.WithCancel(stop.running)
	defer stopTailing()
	rooms := recovery.Rooms{Source: sources{a.tail}, Packer: a.batcher, Sender: a.sender}
	recovering := async.Start(func() { a.recovery.Run(tailing, rooms) })
	// Files are tailed only after the recovery has looked at every batch once. The time limit is for a
	// disk that does not answer: files on other disks must be read all the same.
	select {
	case <-a.recovery.Looked():
	case <-time.After(firstLook):
	case <-tailing.Done():
	}
	tail := async.Start(func() { a.tail.Run(tailing, stop.ending) })
	a.ready()
	trimming := async.Start(func() { footprint.Keep(stop.running) })
	changing, endChanges := context.WithCancel(stop.running)
	defer endChanges()
	reloads := async.Start(func() { a.reloads(changing) })

	if a.Once {
		a.untilDone(tailing, tail)
	} else {
		<-stop.running.Done()
	}

	// Only what reads is cancelled; the later stages end when nothing more comes to them.
	stop.begin()
	a.stopping()
	requeued := a.requeues.stop(stop.ending)
	endChanges()
	stopTailing()
	<-trimming
	ended := a.await(stop.ending, "a reload", reloads)
	ended = a.await(stop.ending, "files that are being read", tail) && ended
	ended = a.await(stop.ending, "batches that are read again", recovering) && ended
	if !ended { // a part that still runs may pass records to the batcher, so it cannot be closed
		keep()
		return exit.Silently(exit.Failed)
	}
	a.batcher.Close()
	<-batcher
	_ = a.sender.Drain(stop.ending) // what is left is kept
	a.await(stop.ending, "records that a command sends again", requeued)
	keep()
	return a.verdict()
}

// untilDone waits, in a run --once, until all files are read and everything is stored, or until the
// rest cannot be stored now. tail is closed when the tailer has ended. untilDone sets a.unread if
// files could not be read to their end.
func (a *Agent) untilDone(ctx context.Context, tail <-chan struct{}) {
	const look = 20 * time.Millisecond
	const giveUp = 2 * time.Second // for which files that cannot be read are tried when nothing else is left
	tick := time.NewTicker(look)
	defer tick.Stop()
	var unreadSince time.Time
	for {
		select {
		case <-ctx.Done():
			a.unread = true
			return
		case <-tick.C:
		}
		read := false
		select {
		case <-tail:
			read = ctx.Err() == nil // otherwise the tailer was stopped before the end of the files
		default:
		}
		if !read && !a.tail.Resting() {
			unreadSince = time.Time{}
			continue
		}
		if read || a.sender.Progress().Stuck {
			a.batcher.Flush() // no more records will join the open batches
		}
		again, _, _ := a.recovery.Pending() // before the sender, so that a batch on its way to it is not missed
		idle := a.batcher.Idle()
		p := a.sender.Progress()
		left := p.Left + p.Fetching + a.waiting()
		switch {
		case !idle:
		case p.Stuck:
			return
		case again > 0:
			unreadSince = time.Time{}
		case read && left == 0:
			return
		case left > 0:
			unreadSince = time.Time{}
		case unreadSince.IsZero():
			unreadSince = time.Now()
		case time.Since(unreadSince) > giveUp:
			a.unread = true
			return
		}
	}
}

// waiting returns how many payloads in the spool wait to be sent to clusters that the sender
// serves. It takes the number from the spool, since at the start the sender does not know all
// routes yet.
func (a *Agent) waiting() (n int) {
	for _, r := range a.spool.Routes() {
		if a.sender.Serves(r.Cluster) {
			n += a.spool.Waiting(r)
		}
	}
	return n
}

// keep writes the payloads that the sender still has to the spool, and logs how many it wrote and
// how many the spool did not take. It is called after the sender has ended.
func (a *Agent) keep() {
	kept, left := a.sender.Keep()
	if kept > 0 {
		a.Log.Info("records not yet accepted are in the spool and will be sent after the next start", "batches", kept)
	}
	if left > 0 {
		a.Log.Warn("records not yet accepted are still in their files and will be sent after the next start", "batches", left)
	}
}

// verdict returns the result of a run: nil, or, if a run --once did not store everything, an error
// with its exit code. It logs the record counts of a run --once.
func (a *Agent) verdict() error {
	if !a.Once {
		return nil
	}
	p := a.sender.Progress()
	var all ledger.Books
	var quarantined, dropped, filtered uint64
	for _, b := range a.ledger.Snapshot() {
		all.Read += b.Read + b.Restored
		all.Accepted += b.Accepted
		quarantined += ledger.Total(b.Quarantined)
		dropped += ledger.Total(b.Dropped)
		filtered += ledger.Total(b.Filtered)
	}
	a.Log.Info("run --once is done", "records", all.Read, "accepted", all.Accepted, "filtered", filtered, "quarantined", quarantined, "dropped", dropped)
	foreign := 0
	for _, n := range a.foreignSpool() {
		foreign += n
	}
	switch {
	case p.Refused:
		return exit.With(exit.Refused, errors.New("a token or a route was refused; what was not accepted is in its files or in the spool"))
	case p.Down || p.Left+p.Spooled > 0:
		return exit.With(exit.Unreachable, errors.New("the service did not accept everything; the rest is in its files or in the spool"))
	case a.unread || a.tail.Refused() || a.isUnread():
		return exit.With(exit.Failed, errors.New("not every file could be read to its end"))
	case foreign > 0:
		return exit.With(exit.Failed, fmt.Errorf("payloads that wait in the spool for clusters that no input sends to: %d", foreign))
	case dropped > 0:
		return exit.With(exit.Failed, fmt.Errorf("records dropped before the service accepted them: %d", dropped))
	case quarantined > 0:
		return exit.With(exit.Failed, fmt.Errorf("records refused and kept in quarantine: %d", quarantined))
	}
	return nil
}

// logProblems logs what was found wrong when a store was opened, one line each. store is the word
// for it in the log, such as "spool".
func logProblems(log *slog.Logger, store string, problems []string) {
	for _, p := range problems {
		log.Warn(store + ": " + p)
	}
}
