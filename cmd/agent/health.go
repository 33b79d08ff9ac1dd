package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"kusto-agent/spool"
	"kusto-agent/telemetry"
)

// startTelemetry answers on telemetry.listen and on the control socket until
// the agent closes. A port that is taken, or a socket that cannot be made, is
// told, and the agent goes on without.
func (a *agent) startTelemetry() {
	ctx, cancel := context.WithCancel(context.Background())
	served := start(func() {
		if err := a.telemetry.Run(ctx); err != nil {
			a.log.Error("status and metrics are not served", "err", err)
		}
	})
	control := a.control()
	controlled := start(func() { control.Run(ctx) })
	select { // who was told that the agent runs can ask it
	case <-control.Tried():
	case <-time.After(patience):
	}
	watched := start(func() { a.feedWatchdog(ctx) })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopTel = func() {
		cancel()
		<-served
		<-controlled
		<-watched
	}
}

// ready tells systemd that the agent works. Outside systemd it does nothing.
func (a *agent) ready() {
	a.setState(telemetry.Running)
	a.notify(daemon.SdNotifyReady)
	for cluster, n := range a.foreignSpool() {
		a.log.Warn("payloads in the spool wait for a cluster that no input sends to", "cluster", cluster, "batches", n, "fix", replayFix(cluster))
	}
	a.log.Info("agent is running", "version", versionText(), "inputs", len(a.cfg.Inputs), "state_dir", a.cfg.StateDir)
}

func (a *agent) stopping() {
	a.setState(telemetry.Stopping)
	a.notify(daemon.SdNotifyStopping)
	a.log.Info("agent is stopping")
}

func (a *agent) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		a.log.Warn("systemd was not told", "state", state, "err", err)
	}
}

// feedWatchdog tells systemd, while the loops turn, that they do.
func (a *agent) feedWatchdog(ctx context.Context) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return
	}
	tick := time.NewTicker(every / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := a.healthy(); err != nil {
			a.log.Error("a loop does not turn, the watchdog is not fed", "err", err)
			continue
		}
		a.notify(daemon.SdNotifyWatchdog)
	}
}

// patience is how long something may take that takes no time when all is well.
const patience = 5 * time.Second

// healthy asks every room for an answer that needs its lock. A room that can
// not give one in time is stuck.
func (a *agent) healthy() error {
	ask := []struct {
		room  string
		reach func()
	}{
		{"tail", func() { a.tail.Scanned() }},
		{"batcher", func() { a.batcher.Idle() }},
		{"sender", func() { a.sender.Progress() }},
		{"ledger", func() { a.ledger.Snapshot() }},
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for _, q := range ask {
		select {
		case <-start(q.reach):
		case <-timeout.C:
			return fmt.Errorf("%s has not answered for %v", q.room, patience)
		}
	}
	return nil
}

// isReady is nil when files were looked for and the journal can be written.
func (a *agent) isReady() error {
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
		return fmt.Errorf("state disk: %w; delivery goes on, the bound on duplicates is suspended", err)
	}
	if err := a.spool.Health(); err != nil && !errors.Is(err, spool.ErrOff) && !errors.Is(err, spool.ErrFull) {
		return fmt.Errorf("spool disk: %w; delivery goes on, what cannot be sent stays in its files", err)
	}
	return nil
}

func (a *agent) setState(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = s
}

func (a *agent) noteReload(err error, restart []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reload.Time, a.reload.Error = time.Now(), ""
	if err != nil {
		a.reload.Error = err.Error()
		return
	}
	a.reload.Restart = restart
}
