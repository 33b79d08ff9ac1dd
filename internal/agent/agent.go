// Package agent joins the rooms of a running agent, and starts, reloads and stops them in
// the order that loses nothing: what is in hand at the end is in its files or in the spool.
// It sends nothing twice that the journal knows to be stored.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"kusto-agent/batcher"
	"kusto-agent/internal/async"
	"kusto-agent/internal/config"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/recovery"
	"kusto-agent/internal/statedir"
	"kusto-agent/internal/systemd"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/version"
	"kusto-agent/sender"
	"kusto-agent/spool"
	"kusto-agent/tail"
)

// Agent is every room of a running agent. Its fields do not change after New, but for those
// under mu.
type Agent struct {
	Options
	unread bool // a run --once met files it could not read
	began  time.Time

	lock       *statedir.Locked
	spool      *spool.Spool
	journal    *journal.Journal
	recovery   *recovery.Recovery
	quarantine *quarantine.Store
	ledger     *ledger.Ledger
	telemetry  *telemetry.Server
	sender     *sender.Sender
	batcher    *batcher.Batcher
	tail       *tail.Tailer

	manager *systemd.Notifier
	started func() // says that the start is over
	pulse   pulse

	requeues requeues

	closers []func() error // by the first opened; only New, Open and Run add to them

	inForce atomic.Pointer[config.Config]
	known   atomic.Int64 // bytes that are known of files, about
	inHand  atomic.Int64 // bytes of records in memory, as the batcher told last

	mu         sync.Mutex
	state      string
	reload     telemetry.Loaded
	services   map[string]*endpoint.Endpoint // by URL
	tokenUsers map[*credential.Tokens]int    // how many services have them
	durable    map[string]bool               // inputs whose payloads go to the spool first
}

// Options are what an agent is made of.
type Options struct {
	Config  *config.Config // the one it begins with
	Path    string         // the file of it, which is read again for a reload
	Log     *slog.Logger
	Queue   *telemetry.LogQueue // that Log writes to; nil: what is logged is written at once
	Level   *slog.LevelVar      // of Log; nil: it is fixed
	Hangups <-chan os.Signal    // each asks for the configuration to be read again; nil: none comes
	Once    bool                // the run ends when what the files hold now is stored

	Rescan time.Duration // between two looks for files; 0: the default of tail
	Retry  time.Duration // between two tries to read a batch again; 0: the default of recovery
}

// New builds the parts of an agent, from the stores on disk to the sender, the batcher and the
// tailer. No log file is read and nothing is sent before Run. Its errors have exit codes; after an
// error everything that was opened is closed again.
func New(o Options) (_ *Agent, err error) {
	cfg, log := o.Config, o.Log
	a := empty(o)
	a.state, a.reload = telemetry.Starting, telemetry.Loaded{File: config.Absolute(cfg.Files[0]), Time: time.Now()}
	a.manager = systemd.NewNotifier(log)
	starting, started := context.WithCancel(context.Background())
	a.started = started
	if a.manager != nil {
		async.Start(func() { a.extendStart(starting) }) // ended by ready, or by close
	}
	defer func() {
		if err != nil {
			_ = a.close() // close logs its own error; the one to return is err
		}
	}()
	slow := time.AfterFunc(patience, func() {
		log.Warn("state_dir does not respond, startup is waiting for its disk", "folder", cfg.StateDir, "fix", "check the disk of state_dir: is it mounted, does dmesg name errors")
	})
	defer slow.Stop()
	for _, build := range []func() error{a.lockState, a.openStores, a.openQuarantine, a.buildTelemetry, a.buildSender, a.buildBatcher, a.buildTail} {
		if err := build(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// lockState locks state_dir for this process, until close. It fails if another agent uses the
// folder.
func (a *Agent) lockState() error {
	return a.untilFree(a.Config.StateDir, statedir.ErrInUse, func() error {
		lock, err := statedir.Lock(a.Config.StateDir, a.Log)
		if err == nil {
			a.lock = lock
			a.closers = append(a.closers, lock.Close)
		}
		return err
	})
}

// untilFree calls open, which locks a folder, and returns its error. While that is inUse, it tries
// again for release (3 s): a command that changes something has the folder for a moment, and what was
// killed may have state_dir no more and the spool still.
func (a *Agent) untilFree(folder string, inUse error, open func() error) error {
	const release, look = 3 * time.Second, 20 * time.Millisecond
	began, err := time.Now(), open()
	if errors.Is(err, inUse) {
		a.Log.Info("folder is in use by another process, waiting a moment for it", "folder", folder)
	}
	for ; errors.Is(err, inUse) && time.Since(began) < release; err = open() {
		time.Sleep(look)
	}
	return err
}

// openStores opens the spool and then the journal, and makes them agree. A batch that the journal
// has as begun counts as spilled if the spool has its payload. A payload in the spool whose end the
// journal has is not sent again.
func (a *Agent) openStores() error {
	fresh := a.isFresh()
	id, _, err := journal.Agent(a.journalDir())
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	o := a.spoolOptions()
	o.Agent, o.FS = id, statedir.Disk(a.Config.StateDir) // the spool has a lock of its own, and may be on another disk
	var s *spool.Spool
	var held *spool.Recovery
	err = a.untilFree(a.Config.Spool.Dir, spool.ErrInUse, func() (err error) {
		s, held, err = spool.Open(a.Config.Spool.Dir, a.Config.Spool, o)
		return err
	})
	switch {
	case errors.Is(err, spool.ErrInUse), errors.Is(err, spool.ErrForeign), errors.Is(err, syscall.ENOTDIR):
		return exit.With(exit.Config, err)
	case err != nil:
		return exit.With(exit.Failed, err)
	}
	j, found, err := journal.Open(a.journalDir(), a.Config.Journal, journal.Options{Logger: a.Log, Agent: held.Agent, FS: a.lock.Disk()})
	if err != nil {
		_ = s.Close() // nothing was written to the spool, so nothing can be lost
		return exit.With(exit.Failed, err)
	}
	a.spool, a.journal = s, j
	a.closers = append(a.closers, j.Close, s.Close) // the spool is closed first: it syncs the journal
	logProblems(a.Log, "spool", held.Problems)
	logProblems(a.Log, "journal", found.Problems)
	a.tellLeftBehind(found.Ended)
	if err := a.buildRecovery(held, found, fresh); err != nil {
		return exit.With(exit.Failed, err)
	}
	return nil
}

func (a *Agent) journalDir() string { return filepath.Join(a.Config.StateDir, "journal") }

// openQuarantine opens the folder of quarantined records in state_dir; close closes it.
func (a *Agent) openQuarantine() error {
	q, err := quarantine.Open(filepath.Join(a.Config.StateDir, "quarantine"), a.Config.Quarantine, quarantine.Options{Logger: a.Log, FS: a.lock.Disk(),
		OnDrop: func(f record.File, s record.Span, n int) { _ = a.journal.Evicted(f, s, n) }})
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	a.quarantine = q
	a.closers = append(a.closers, q.Close)
	return nil
}

// buildTelemetry makes the server of status and metrics, which does not listen yet.
func (a *Agent) buildTelemetry() error {
	guard, err := telemetry.NewGuard(a.Config.Telemetry, a.Log)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	a.telemetry = telemetry.New(telemetry.Options{
		Config: a.Config.Telemetry, Guard: guard, Ledger: a.ledger, Status: a.status, Brief: a.brief,
		Configuration: func() (string, error) { return a.config().Masked() },
		Healthy:       a.healthy, Ready: a.isReady, Logger: a.Log, Log: a.Queue, Version: version.Text(),
	})
	return nil
}

// buildSender makes the clients of the clusters and the sender. Nothing is sent yet. The sender
// gets the journal through the recovery, which so learns how payloads that it made again end.
func (a *Agent) buildSender() error {
	services, err := a.makeServices(a.Config)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	a.closers = append(a.closers, a.closeServices)
	watched := a.recovery.Watched(a.journal)
	a.sender = sender.New(sender.Options{
		Config: a.Config.Send, Clusters: services.use(),
		Batches: watched, Replays: watched, Spill: a.spool, Backlog: a.spool, Stock: a.spool, Durable: a.isDurable,
		Quarantine: a.quarantine, Divider: sealer{a}, Memory: sealer{a}, Books: a.ledger,
		Metrics: a.telemetry.Metrics(), Wake: func(r record.Route) { a.batcher.Wake(r) }, Logger: a.Log,
	})
	return nil
}

// buildBatcher makes the batcher, which forms and compresses payloads and passes them to the
// sender.
func (a *Agent) buildBatcher() error {
	a.batcher = batcher.New(batcher.Options{
		Routes: a.Config.Routes(), Memory: int64(a.Config.Limits.Memory), Next: a.sender, Sealed: a.telemetry.Metrics().Sealed,
		InHand: a.weighRecords,
		GzipFault: func(err error) {
			a.telemetry.Metrics().GzipFault()
			a.Log.Error("the agent's own gzip encoder produced wrong output and is disabled until the next start; the library klauspost/compress compresses this payload and all later ones, no record is affected", "err", err)
		},
	})
	return nil
}

// buildTail makes the tailer of all inputs, which will start at the checkpoints in the journal.
// Nothing is read yet.
func (a *Agent) buildTail() error {
	a.takeOver(a.Config)
	var err error
	a.tail, err = tail.New(tail.Options{
		Inputs: a.Config.Tails(), Positions: positions{a.journal}, History: a.journal, Sink: pipeline.Sink{Batcher: a.batcher}, Quarantine: a.quarantine,
		Books: a.ledger, Metrics: a.telemetry.Metrics(), Contents: a.telemetry.Metrics(), Logger: a.Log,
		Avoid: a.Config.Folders(), Own: []*os.File{os.Stdout, os.Stderr},
		OpenFiles: a.Config.Limits.OpenFiles, Once: a.Once, Rescan: a.Rescan, Known: a.weigh,
	})
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	a.journal.OnSafe(a.tail.Safe)
	return nil
}

// Listen binds telemetry.listen, which Run does otherwise, and returns the address.
func (a *Agent) Listen() (net.Addr, error) { return a.telemetry.Listen() }

// Books are the books of every input, by its name, as they are now.
func (a *Agent) Books() map[string]ledger.Books { return a.ledger.Snapshot() }

// lastStates is how long the end waits for the service manager.
const lastStates = time.Second

// close stops the telemetry and closes what was opened, the last first. An error means that not all
// state of this run is on disk; close has logged it.
func (a *Agent) close() error {
	a.started() // ends extendStart, which still runs if the start has failed
	var err error
	for _, stop := range slices.Backward(a.closers) {
		err = errors.Join(err, stop())
	}
	if err != nil {
		a.Log.Error("state was not saved: records sent since the last successful write may be sent again after the next start",
			"err", err, "fix", "check the disk of state_dir: is it full, read-only or failing")
	}
	a.manager.Close(lastStates)
	return err
}
