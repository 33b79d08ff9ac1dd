package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"kusto-agent/internal/async"
	"kusto-agent/internal/config"
	"kusto-agent/internal/secretfile"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/version"
	"kusto-agent/spool"
)

// startTelemetry starts the servers of telemetry.listen and of the control socket, the watchdog and
// the status line of systemd; they run until the agent closes. A port that is taken or a socket
// that cannot be made is logged, and the agent goes on without it. startTelemetry returns when the
// socket was made or failed, at the latest after patience (5 s) or when running ends.
func (a *Agent) startTelemetry(running context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := a.telemetry.Run(ctx); err != nil {
			a.Log.Error("status page and metrics are not served any more; delivery continues", "err", err)
		}
	})
	control := a.control()
	served.Go(func() { control.Run(ctx) })
	select { // commands work as soon as the agent reports that it is ready
	case <-control.Tried():
	case <-running.Done():
	case <-time.After(patience):
	}
	served.Go(func() { a.feedWatchdog(ctx) })
	served.Go(func() {
		a.telemetry.Watch(ctx, func(headline string) { a.manager.Tell("STATUS=" + headline) })
	})
	a.closers = append(a.closers, func() error {
		cancel()
		served.Wait()
		return nil
	})
}

// ready sets the state to running, reports it to systemd and logs it. It also warns of payloads in
// the spool for clusters that no input sends to, and of secrets that everyone can read.
func (a *Agent) ready() {
	a.setState(telemetry.Running)
	a.started() // ends extendStart
	a.manager.Tell(daemon.SdNotifyReady)
	for cluster, n := range a.foreignSpool() {
		a.Log.Warn("spool holds payloads for a cluster that no input sends to; they wait there", "cluster", cluster, "batches", n, "fix", replayFix(cluster))
	}
	for _, path := range a.Config.SecretFiles() {
		path = config.Absolute(path)
		if can := secretfile.Exposed(path, os.LookupEnv); can != "" {
			a.Log.Warn("everyone on this machine can use a secret of the agent", "file", path, "why", can, "fix",
				"let only the user of the agent read it: chgrp "+config.Quoted(secretfile.Group(os.Getegid()))+" "+config.Quoted(path)+" && chmod 640 "+config.Quoted(path))
		}
	}
	a.Log.Info("agent is running", "version", version.Text(), "inputs", len(a.Config.Inputs), "state_dir", a.Config.StateDir)
}

// stopping sets the state to stopping, reports it to systemd and logs it.
func (a *Agent) stopping() {
	a.setState(telemetry.Stopping)
	a.manager.Tell(daemon.SdNotifyStopping)
	a.Log.Info("agent is stopping")
}

// extendStart asks the service manager for more time to start, every 10 s until ctx ends: reading a
// large spool may take longer than the unit allows.
func (a *Agent) extendStart(ctx context.Context) {
	const period = 10 * time.Second
	every(ctx, period, func() {
		a.manager.Tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (3 * period).Microseconds()))
	})
}

// every calls f at the end of each period, until ctx ends.
func every(ctx context.Context, period time.Duration, f func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// feedWatchdog notifies the systemd watchdog for as long as the agent is healthy, until ctx ends.
// It returns at once if the watchdog is off.
func (a *Agent) feedWatchdog(ctx context.Context) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil || limit == 0 {
		return
	}
	every(ctx, limit/3, func() {
		if err := a.healthy(); err != nil {
			a.Log.Error("health check failed, so the systemd watchdog is not notified; systemd restarts the agent if this continues", "err", err)
			return
		}
		a.manager.Tell(daemon.SdNotifyWatchdog)
	})
}

// patience is how long something may take that takes no time when all is well.
const patience = 5 * time.Second

// pulse asks the rooms whether they answer. Of a room that is stuck, one goroutine
// waits, however often it is asked.
type pulse struct {
	mu    sync.Mutex
	asked map[string]*answer // by room
}

// answer is the result of one call of a room's function, which may not have come yet.
type answer struct {
	given <-chan struct{} // closed when err is known
	err   error
}

// ask calls reach, the health check of the part named room, in a goroutine, and returns its answer
// without waiting for it. If an earlier call for this part has not returned, ask returns the answer
// of that call instead, so that a stuck part holds one goroutine at most.
func (p *pulse) ask(room string, reach func() error) *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.asked[room]; a != nil {
		select {
		case <-a.given:
		default:
			return a
		}
	}
	a := &answer{}
	a.given = async.Start(func() { a.err = reach() })
	if p.asked == nil {
		p.asked = make(map[string]*answer)
	}
	p.asked[room] = a
	return a
}

// room is a part of the agent, and a function that returns only if the part responds; it takes the
// part's lock.
type room struct {
	name  string
	reach func() error
}

// answered checks whether the parts of the agent in rooms respond, one after the other. It returns
// the first error of one of them, or an error if together they take longer than patience (5 s).
func (a *Agent) answered(rooms ...room) error {
	late := time.After(patience)
	for _, r := range rooms {
		ask := a.pulse.ask(r.name, r.reach)
		select {
		case <-ask.given:
			if ask.err != nil {
				return ask.err
			}
		case <-late:
			return fmt.Errorf("%s has not answered for %v", r.name, patience)
		}
	}
	return nil
}

// healthy returns nil if tailer, batcher, sender and ledger respond, otherwise which one does not.
// Each call only takes the lock of its part; what it returns does not matter.
func (a *Agent) healthy() error {
	return a.answered(
		room{"tail", func() error { a.tail.Scanned(); return nil }},
		room{"batcher", func() error { a.batcher.Idle(); return nil }},
		room{"sender", func() error { a.sender.Progress(); return nil }},
		room{"ledger", func() error { a.ledger.Snapshot(); return nil }},
	)
}

// isReady returns nil if the agent runs, has looked for files once, and can write its journal and
// spool.
func (a *Agent) isReady() error { return a.answered(room{"a disk or a room", a.readiness}) }

// readiness returns nil if the agent runs, has scanned for files once, and can write its journal
// and spool, otherwise the first reason why not. A spool that is full or switched off does not
// count. It may block on a disk; isReady limits that.
func (a *Agent) readiness() error {
	a.mu.Lock()
	state := a.state
	a.mu.Unlock()
	switch {
	case state != telemetry.Running:
		return errors.New(state)
	case !a.tail.Scanned():
		return errors.New("files have not been looked for yet")
	}
	if err := a.journal.Health(); err != nil {
		return fmt.Errorf("state disk: %w; delivery continues, after a crash more records may be sent twice", err)
	}
	if err := a.spool.Health(); err != nil && !errors.Is(err, spool.ErrOff) && !errors.Is(err, spool.ErrFull) {
		return fmt.Errorf("spool disk: %w; delivery continues, records that cannot be sent stay in their files", err)
	}
	return nil
}

// setState sets the state of the agent that the status shows: telemetry.Starting, Running or
// Stopping.
func (a *Agent) setState(s string) {
	defer a.telemetry.Look()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = s
}

// noteReload stores the result of a reload for the status: err if it was rejected, otherwise the
// configuration keys that changed but take effect only after a restart.
func (a *Agent) noteReload(err error, restart []string) {
	defer a.telemetry.Look()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reload.Time, a.reload.Error = time.Now(), ""
	if err != nil {
		a.reload.Error = err.Error()
		return
	}
	a.reload.Restart = restart
}
