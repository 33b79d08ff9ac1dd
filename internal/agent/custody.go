package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kusto-agent/internal/async"
	"kusto-agent/internal/config"
	"kusto-agent/internal/custody"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// An agent changes what it keeps when a person asks it to, over its control socket or, of
// one that does not run, in a process of its own. It implements custody.Keeper.

// Open opens the spool, the journal and the quarantine of an agent that does not run, so that a
// command can change something in them. It locks state_dir and makes spool and journal agree. The
// Agent that it returns tails no files, and only Requeue sends anything. Close must follow. Its
// errors have exit codes.
func Open(cfg *config.Config, log *slog.Logger) (_ *Agent, err error) {
	a := empty(Options{Config: cfg, Path: cfg.Files[0], Log: log})
	a.started = func() {}
	defer func() {
		if err != nil {
			_ = a.close() // close logs its own error; the one to return is err
		}
	}()
	for _, build := range []func() error{a.lockState, a.openStores, a.openQuarantine} {
		if err := build(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Close closes what Open has opened. An error means that not all changes are on disk.
func (a *Agent) Close() error { return a.close() }

// empty returns an agent with these options, of which no part (spool, journal, sender and so on) is
// built yet.
func empty(o Options) *Agent {
	a := &Agent{Options: o, began: time.Now(), ledger: ledger.New(),
		services: make(map[string]*endpoint.Endpoint), tokenUsers: make(map[*credential.Tokens]int), durable: make(map[string]bool)}
	a.requeues.one = make(chan struct{}, 1)
	a.requeues.going, a.requeues.end = context.WithCancel(context.Background())
	a.requeues.waiting, a.requeues.cut = context.WithCancel(context.Background())
	a.inForce.Store(o.Config)
	return a
}

// RemoveSpooled implements custody.Keeper: it removes the payloads with these batch ids from the
// spool for good, and counts their records as dropped. Payloads that are being sent stay; the
// result lists them as busy. After an error some may be removed.
func (a *Agent) RemoveSpooled(_ context.Context, r custody.RemoveSpooled) (*custody.Removed, error) {
	ids, err := custody.Batches(r.Batches)
	if err != nil {
		return nil, err
	}
	if a.sender != nil {
		a.sender.AwaitSpilled(ids) // the journal must have them as spilled before it gets their end
	}
	n, records, busy, err := a.spool.Remove(ids)
	if n > 0 {
		a.Log.Info("payloads were removed from the spool by a command: their records will not be sent", "payloads", n, "records", records)
		err = errors.Join(err, a.journal.Sync()) // without it they could be sent after a crash
		a.restock()
	}
	out := &custody.Removed{Payloads: n, Records: records}
	for _, id := range busy {
		out.Busy = append(out.Busy, id.String())
	}
	if err != nil && n > 0 {
		err = fmt.Errorf("after giving up %s with %s: %w", units.Counted(n, "payload"), units.Counted(records, "record"), err)
	}
	return out, err
}

// restock makes the sender look at the spool again, for the routes of every cluster that it serves.
// It is called after payloads were moved or removed. Without a sender it does nothing.
func (a *Agent) restock() {
	if a.sender == nil {
		return
	}
	for _, r := range a.spool.Routes() {
		if a.sender.Serves(r.Cluster) {
			a.sender.Expect(r)
		}
	}
}

// Replay implements custody.Keeper: it moves the payloads of these batches in the spool from the
// cluster with the URL r.From to the configured cluster named r.To, and returns how many. Later in
// the result says that they are sent only after the next start or reload. After an error some
// payloads may have been moved.
func (a *Agent) Replay(_ context.Context, r custody.Replay) (*custody.Replayed, error) {
	clusters := a.config().Clusters
	c, known := clusters[r.To]
	switch {
	case !known:
		return nil, fmt.Errorf("--to %q is no cluster of the configuration; it has %s", r.To, strings.Join(slices.Sorted(maps.Keys(clusters)), ", "))
	case c.URL == r.From:
		return nil, fmt.Errorf("cluster %s is at %s itself", r.To, r.From)
	}
	ids, err := custody.Batches(r.Batches)
	if err != nil {
		return nil, err
	}
	wanted := make(map[record.BatchID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	if a.sender != nil {
		a.sender.AwaitSpilled(ids) // writes of these payloads to the spool that are in progress come first
	}
	out := &custody.Replayed{Later: a.sender == nil || !a.sender.Serves(c.URL)}
	for _, from := range a.spool.Routes() {
		if from.Cluster != r.From {
			continue
		}
		n, err := a.spool.Reroute(from, c.URL, func(p *record.Payload) bool {
			if wanted[p.ID] && a.sender != nil {
				a.sender.Forget(from, p.ID) // how it fared there says nothing of the other cluster
			}
			return wanted[p.ID]
		})
		if out.Payloads += n; err != nil {
			a.restock()
			return nil, fmt.Errorf("after moving %s: %w", units.Counted(out.Payloads, "payload"), err)
		}
	}
	a.restock()
	return out, nil
}

// RemoveLines implements custody.Keeper: it removes the records with the ids r.Lines from
// quarantine for good and returns how many. They are counted as restored and as dropped in this
// run, so that the books balance. After an error some may be removed.
func (a *Agent) RemoveLines(ctx context.Context, r custody.RemoveLines) (*custody.Removed, error) {
	gone := make(map[string]record.Rejected)
	done, err := a.quarantine.Edit(ctx, r.Lines, func(e *quarantine.Entry) bool {
		x := e.Rejected
		x.Data = nil
		gone[e.ID()] = x
		return false
	})
	for _, id := range done {
		x := gone[id]
		if x.File.Input == "" { // a damaged entry: its input and place are not known
			continue
		}
		err = errors.Join(err, a.journal.GivenUp(x.File, record.Span{Start: x.Offset, End: x.Offset + x.Length}))
		a.ledger.Restored(x.File.Input, 1)
		a.ledger.Dropped(x.Lot(), record.DropRemoved)
	}
	if len(done) > 0 {
		a.Log.Info("records were removed from quarantine by a command: they will not be sent", "records", len(done))
		if err = errors.Join(err, a.journal.Sync()); err != nil {
			err = fmt.Errorf("after giving up %s: %w", units.Counted(len(done), "record"), err)
		}
	}
	return &custody.Removed{Records: len(done)}, err
}

// requeues are the requeues of a running agent, one at a time, and how they end with it.
type requeues struct {
	one     chan struct{}   // holds one while records are sent again, and for good once the agent stops
	going   context.Context // ends with the stop: no further request is made
	waiting context.Context // ends with the time of the stop: the request in flight is broken off
	end     func()
	cut     func()
}

// errStops ends a requeue, which can be asked for again once the agent has stopped, or runs again.
var errStops = errors.New("the agent stops; requeue what is left once it has")

// stop lets no further requests be made, and returns a channel that is closed when what became of the last
// one is written down. When ending ends, that request is broken off.
func (r *requeues) stop(ending context.Context) <-chan struct{} {
	r.end()
	context.AfterFunc(ending, r.cut)
	return async.Start(func() { r.one <- struct{}{} }) // ends with the requeue, which the end of ending ends
}

// Requeue implements custody.Keeper: it sends records in quarantine to the service again, past the
// sender and its queues, and waits for the answers. Accepted records are counted as restored and as
// accepted in this run. When the agent stops, the result says so, and a later call fails.
func (a *Agent) Requeue(ctx context.Context, r custody.Requeue) (*custody.Requeued, error) {
	select {
	case a.requeues.one <- struct{}{}:
		defer func() { <-a.requeues.one }()
	case <-a.requeues.going.Done():
		return nil, errStops
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(a.requeues.going, func() { stop(errStops) })()
	again, err := pipeline.NewReshaper(a.config())
	if err != nil {
		return nil, err
	}
	to := &straight{Agent: a, own: make(map[string]*endpoint.Endpoint)}
	defer to.close()
	q := custody.Requeuing{
		Dir: filepath.Join(a.Config.StateDir, "quarantine"), Store: a.quarantine, Ingest: to.ingest, Shape: again.Shape,
		Accepted: func(x *record.Rejected) {
			a.ledger.Restored(x.File.Input, 1)
			a.ledger.Accepted(x.Lot())
		},
		NewID: func() record.BatchID { return record.BatchID(uuid.New()) }, Now: time.Now, Logger: a.Log,
	}
	return q.Requeue(ctx, r)
}

// straight makes requests past the sender: whoever asked waits for their answers. It uses
// the services of the agent, and makes those that the agent has not.
type straight struct {
	*Agent
	own map[string]*endpoint.Endpoint
}

// ingest sends one request to the cluster at url and returns its answer. It uses the agent's client
// for this cluster, or else one of its own, which it makes once. If it cannot make one, the answer
// is a hold with the reason.
func (s *straight) ingest(ctx context.Context, url string, in *kusto.Ingest) kusto.Answer {
	to := cmp.Or(s.service(url), s.own[url])
	if to == nil {
		var err error
		if to, err = s.connect(url); err != nil {
			return kusto.Answer{Verdict: kusto.Hold, Err: &kusto.Error{Message: err.Error()}}
		}
		s.own[url] = to
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.requeues.waiting, stop)()
	return to.Ingest(ctx, in)
}

// connect makes a client for the configured cluster with this URL, with the settings of the
// configuration in force. It fails if no cluster has the URL.
func (s *straight) connect(url string) (*endpoint.Endpoint, error) {
	cfg := s.config()
	for _, name := range slices.Sorted(maps.Keys(cfg.Clusters)) {
		if c := cfg.Clusters[name]; c.URL == url {
			return endpoint.New(endpoint.KeyOf(name, c, cfg), nil, s.Log)
		}
	}
	return nil, fmt.Errorf("no cluster of the configuration is at %s, which these records were for", url)
}

// close closes the clients that connect made.
func (s *straight) close() {
	for _, e := range s.own {
		e.Client.Close()
		e.Tokens.Close()
	}
}
