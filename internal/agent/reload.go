package agent

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"kusto-agent/internal/async"
	"kusto-agent/internal/config"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
)

// A reload checks everything first and can then no longer fail: what is wrong with
// a configuration changes nothing. Rooms change from the service to the files, so
// that whoever hands something on finds a taker for it.

// reloads reads the configuration again at each SIGHUP, until ctx ends. Signals that come during a
// reload cause one more.
func (a *Agent) reloads(ctx context.Context) {
	for {
		select {
		case <-a.Hangups:
			a.reloadNow(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reloadNow reads the configuration file again and applies it. If the file has errors they are
// logged, and the current configuration stays in force. With run --once it only logs that it does
// nothing.
func (a *Agent) reloadNow(ctx context.Context) {
	if a.Once {
		a.Log.Info("reload ignored: run --once keeps its configuration")
		return
	}
	a.manager.Tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	defer a.manager.Tell(daemon.SdNotifyReady)
	slow := time.AfterFunc(patience, func() {
		a.Log.Warn("reload is waiting for a file system that does not respond; the current configuration stays in force until then", "fix", "check the file systems of the configuration and of the inputs: one does not answer")
	})
	defer slow.Stop()
	loaded, err := loadUntil(ctx, a.Path)
	var next *config.Config
	var diff config.Diff
	var reread []string
	if err == nil {
		next, diff = config.Reload(a.config(), loaded)
		reread, err = a.change(ctx, next)
	}
	if err != nil && ctx.Err() != nil {
		return
	}
	a.noteReload(err, diff.Restart)
	if err != nil {
		a.Log.Error("reload rejected: the configuration has errors, the current one stays in force", "err", err, "fix", "fix the file and send SIGHUP again")
		return
	}
	a.tellReload(diff, reread)
}

// loadUntil loads the configuration file at path, but returns the error of ctx as soon as ctx ends:
// the file may be a FIFO that no process writes to.
func loadUntil(ctx context.Context, path string) (*config.Config, error) {
	var cfg *config.Config
	var err error
	loaded := async.Start(func() { cfg, err = config.Load(path, os.LookupEnv, config.Options{}) })
	select {
	case <-loaded:
		return cfg, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// change applies a configuration to all parts of the running agent, from the sender back to the
// tailer, so that new inputs find their routes. It returns the keys of files whose content was read again
// and is another, though the configuration may be the same. If it returns an error nothing has changed. That is
// the error of ctx if ctx has ended when all files are read that the configuration names: the parts
// may be closed by then, since a stop does not wait for a disk that does not answer.
func (a *Agent) change(ctx context.Context, next *config.Config) (reread []string, err error) {
	services, err := a.makeServices(next)
	if err != nil {
		return nil, err
	}
	inputs, err := a.tail.Prepare(next.Tails(), next.Limits.OpenFiles)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		services.discard()
		return nil, err
	}
	a.sender.Reload(next.Send, services.use())
	a.takeOver(next)
	if a.Level != nil {
		a.Level.Set(telemetry.Level(next.Telemetry.Log))
	}
	a.spool.SetConfig(next.Spool)
	a.quarantine.SetConfig(next.Quarantine)
	a.journal.SetConfig(next.Journal)
	a.boundHeap()
	a.batcher.SetMemory(int64(next.Limits.Memory))
	a.batcher.SetRoutes(next.Routes())
	a.tail.Apply(inputs)
	return services.reread, nil
}

// takeOver makes cfg the configuration that the agent's methods use. The record counts and metrics
// of its inputs exist from then on, with zeros.
func (a *Agent) takeOver(cfg *config.Config) {
	a.inForce.Store(cfg)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range cfg.Inputs {
		in := &cfg.Inputs[i]
		// A lot of no records: the counts of the input and its table start with zeros.
		a.ledger.Accepted(record.Lot{Input: in.Name, Route: in.Route()})
		a.telemetry.Metrics().Input(in.Name)
		a.durable[in.Name] = in.Durability == "spool" // kept for removed inputs, whose payloads may still come
	}
}

// config is the configuration in force. It is not changed, but replaced.
func (a *Agent) config() *config.Config { return a.inForce.Load() }

// tellReload logs what a reload has changed, the keys of files (reread) whose content is another, and the
// keys that need a restart.
func (a *Agent) tellReload(d config.Diff, reread []string) {
	if d.IsEmpty() && len(reread) == 0 {
		a.Log.Info("configuration reloaded without changes")
		return
	}
	var about []any
	for _, part := range []struct {
		key   string
		names []string
	}{
		{"added", d.Added}, {"changed", d.Changed}, {"removed", d.Removed},
		{"clusters", d.Clusters}, {"settings", d.Settings}, {"read_again", reread}, {"restart", d.Restart},
	} {
		if len(part.names) > 0 {
			about = append(about, part.key, strings.Join(part.names, " "))
		}
	}
	if len(d.Restart) > 0 {
		a.Log.Warn("configuration reloaded, except for keys that need a restart", append(about, "fix", "restart the agent to apply the keys in the attribute restart")...)
		return
	}
	a.Log.Info("configuration reloaded", about...)
}
