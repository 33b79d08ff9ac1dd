package simulation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kusto-agent/batcher"
	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/journal"
	"kusto-agent/internal/ledger"
	"kusto-agent/internal/record"
	"kusto-agent/internal/recovery"
	"kusto-agent/internal/units"
	"kusto-agent/sender"
	"kusto-agent/spool"
)

const (
	maxPayload = 512     // bytes of a body
	memory     = 8 << 10 // limits.memory
)

// process is one run of the agent: the real rooms between the reader and the service.
type process struct {
	w       *world
	n       int
	disk    *faultfs.FS
	dead    atomic.Bool
	ready   atomic.Bool   // spool, journal and recovery are there, and know each other
	started atomic.Bool   // the start is over: from here on reading the spool may fail
	died    chan struct{} // closed with dead
	torn    bool          // the operation it dies at is half done
	cut     bool          // the machine goes with it

	// Counted down to the place at which it dies; zero or less: it does not.
	toOp, toAsk, toStored atomic.Int64

	spool    *spool.Spool
	journal  *journal.Journal
	told     told
	recovery *recovery.Recovery
	ledger   *ledger.Ledger
	batcher  *batcher.Batcher
	sender   *sender.Sender
	sealer   sealer
	poke     chan struct{} // one token: there may be something to read

	acceptances atomic.Int64 // records of answers that arrived

	stopReading, stopSending context.CancelFunc
	reading, recovering      <-chan struct{}
	sending                  <-chan struct{}

	mu   sync.Mutex
	hand map[record.Route]int // payloads in memory
	used int64                // bytes of these
}

// die ends a process at this very moment: nothing that it does from now on counts.
func (p *process) die(why string) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead.Swap(true) {
		return true
	}
	w := p.w
	if verbose {
		w.trace = append(w.trace, fmt.Sprintf("%10v killed %s, cut %v", time.Since(w.began).Round(time.Millisecond), why, p.cut))
	}
	from := w.badSince
	if p.cut && (from.IsZero() || w.synced.Before(from)) {
		from = w.synced
	}
	w.doubt(from)
	close(p.died)
	return true
}

// doubt notes that what the journal was told since a time is gone with the process.
// Needs mu.
func (w *world) doubt(from time.Time) {
	if from.IsZero() {
		return
	}
	w.doubts = append(w.doubts, span{from, time.Now()})
	w.nameless = true
	for _, f := range w.files {
		for _, l := range f.lines {
			if !l.begun.Before(from) {
				l.begun = time.Time{}
			}
		}
	}
}

// told is the journal, and notes what it was told.
type told struct {
	*journal.Journal
	p *process
}

func (t told) Begin(p *record.Payload) error {
	err := t.Journal.Begin(p)
	t.p.w.note("begin %v attempt %d %v: %v", p.ID, p.Attempt, p.Pieces, err)
	t.p.w.begun(t.p, p)
	return err
}

func (t told) Split(parent record.BatchID, children []*record.Payload) error {
	err := t.Journal.Split(parent, children)
	for _, c := range children {
		own := *c
		own.Replaces = parent
		t.p.w.begun(t.p, &own)
	}
	return err
}

func (w *world) begun(p *process, d *record.Payload) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() {
		return
	}
	if d.Replaces != (record.BatchID{}) && d.ID != d.Replaces {
		w.parent[d.ID] = d.Replaces
	}
	w.covers[d.ID] = d.Cover
	w.within(d.Cover, func(l *line) { l.begun = time.Now() })
}

func (t told) End(id record.BatchID, how record.Outcome) error {
	err := t.Journal.End(id, how)
	t.p.w.note("end %v %v: %v", id, how, err)
	return err
}

func (t told) EndReplay(id record.BatchID, how record.Outcome) error {
	err := t.Journal.EndReplay(id, how)
	t.p.w.note("end of frame %v %v: %v", id, how, err)
	return err
}

// sealer takes payloads apart and counts their memory, with the batcher.
type sealer struct{ p *process }

func (s sealer) Split(d *record.Payload) ([]*record.Payload, error) {
	halves, err := s.p.batcher.Split(d)
	for _, h := range halves {
		s.p.count(h, 1)
	}
	return halves, err
}

func (s sealer) Records(d *record.Payload) (all []record.Rejected, err error) {
	recs, err := batcher.Records(d)
	for _, r := range recs {
		all = append(all, record.Rejected{File: r.File, Offset: r.Offset, Length: r.Length, Data: r.Data})
	}
	return all, err
}

func (s sealer) Fill(d *record.Payload, raw ...[]byte) { s.p.batcher.Fill(d, raw...) }
func (s sealer) Reserve(must bool) bool                { return s.p.batcher.Reserve(must) }
func (s sealer) Unreserve()                            { s.p.batcher.Unreserve(); s.p.wake() }

func (s sealer) Adopt(d *record.Payload) {
	s.p.batcher.Adopt(d)
	s.p.count(d, 1)
}

func (s sealer) Release(d *record.Payload) {
	s.p.count(d, -1)
	s.p.batcher.Release(d)
	s.p.wake()
}

// beside is what may be in memory beside limits.memory: a payload of each cluster that
// comes from the spool whatever there is, those that recovery has at hand and keeps
// ready, and the halves of one that is divided.
const beside = 10 * maxPayload

func (p *process) count(d *record.Payload, sign int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hand[d.Route] += sign
	p.used += int64(sign * len(d.Body))
	if p.used > memory+beside {
		p.w.fail("%d bytes in hand, the bound is %d", p.used, memory+beside)
	}
}

func (p *process) hasRoom(r record.Route, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hand[r] < most && p.used+maxPayload <= memory
}

func (p *process) wake() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// setup is what the configuration says; a reload changes it.
type setup struct {
	send  sender.Config
	spool spool.Config
}

func (w *world) newID(n uint64) (id record.BatchID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	binary.BigEndian.PutUint64(id[:8], w.ids)
	binary.BigEndian.PutUint64(id[8:], n|1)
	return id
}

func (p *process) clusters() (all []sender.Cluster) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, url := range []string{"http://one", "http://two"} {
		if !p.w.removed[url] {
			all = append(all, sender.Cluster{Name: url, URL: url, Ingester: service{p, url}})
		}
	}
	return all
}

type deaf struct{}

func (deaf) Request(string, string, time.Duration) {}
func (deaf) EndToEnd(record.Route, time.Duration)  {}
func (deaf) Retry()                                {}
func (deaf) Unknown(int)                           {}

func plenty(string) (int64, error) { return 1 << 40, nil }

// start runs the rooms as cmd/agent does. The error is one of opening the stores.
func (w *world) start(n int, disk *faultfs.FS, boot string, c setup, arm func(*process)) (_ *process, err error) {
	p := &process{
		w: w, n: n, disk: disk, died: make(chan struct{}), ledger: ledger.New(), poke: make(chan struct{}, 1),
		hand: map[record.Route]int{},
	}
	arm(p)
	p.sealer = sealer{p}
	disk.Judge = p.judge
	logger := slog.New(log{p: p})
	v := view{disk, p}
	_, err = disk.List(spoolDir)
	fresh := errors.Is(err, fs.ErrNotExist) && c.spool.MaxSize > 0
	var held *spool.Recovery
	if p.spool, held, err = spool.Open(spoolDir, c.spool, spool.Options{
		Logger: logger, FS: v, Free: plenty, SegmentSize: 4 << 10, Agent: [16]byte{1},
		Now: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return time.Now().Add(w.jump) },
		OnDrop: func(d *record.Payload, reason string) {
			if reason == ledger.SourceGone {
				return
			}
			if d.ID != (record.BatchID{}) {
				_ = p.told.EndReplay(d.ID, record.Dropped)
				p.recovery.Dropped(d.ID)
			}
			d.Lots(func(lot record.Lot) {
				p.ledger.Unspooled(lot.Input, lot.Records)
				p.ledger.Dropped(lot, reason)
			})
			w.dropped(d)
		},
		OnLost: func(ids []record.BatchID, what *record.Payload) {
			w.lost(ids, what.Records)
			p.recovery.Lost(ids, what)
		},
		Rebuild: func(d *record.Payload) error {
			if p.recovery.Damaged(d) {
				return nil
			}
			return spool.ErrGone
		},
		OnUnwanted: func(ids []record.BatchID) { p.recovery.Unwanted(ids) },
		OnSegments: func() { p.recovery.SegmentsChanged() },
		OnRemove:   func(ids []record.BatchID) { p.recovery.Removed(ids) },
		BeforeUnlink: func() error {
			if !p.ready.Load() {
				return fs.ErrClosed
			}
			return p.journal.Sync()
		},
		Vouch: func() (token [24]byte, err error) {
			if p.journal == nil {
				return token, fs.ErrClosed
			}
			return p.journal.Vouch()
		},
		Vouches: func(token [24]byte) bool { return p.journal.Vouches(token) },
	}); err != nil {
		return p, err
	}

	var found *journal.Recovery
	cfg := journal.DefaultConfig()
	if p.journal, found, err = journal.Open(journalDir, cfg, journal.Options{
		Logger: logger, FS: v, SegmentSize: 16 << 10, Agent: held.Agent, BootID: boot,
	}); err != nil {
		return p, errors.Join(err, p.spool.Close())
	}
	p.told = told{p.journal, p}
	for _, problem := range append(held.Problems, found.Problems...) {
		w.note("problem: %s", problem)
	}
	p.recovery = recovery.New(recovery.Stores{
		Journal: p.told, Frames: p.told, Ranges: p.journal, Spool: p.spool, Books: p.ledger,
		Quarantine: quarantine{p}, Logger: logger, SpoolHas: p.journal.SpoolHas, NewID: func() record.BatchID { return w.newID(uint64(n)) },
	})
	p.ready.Store(true)
	what := recovery.Found{
		Replays: found.Replays, Ended: found.Ended, Clean: found.Clean, Had: found.Spool, Has: held.Segments,
		Report: func() (bool, []*record.Payload) { return held.Lost || held.Torn || found.Holes || fresh, held.Missing },
	}
	for i := range found.Begun {
		what.Begun = append(what.Begun, &found.Begun[i].Payload)
	}
	if err := p.recovery.Reconcile(what); err != nil {
		return p, errors.Join(err, p.spool.Close(), p.journal.Close())
	}
	p.started.Store(true)
	watched := p.recovery.Watched(p.told)
	p.sender = sender.New(sender.Options{
		Config: c.send, Clusters: p.clusters(), Batches: watched, Replays: watched, Spill: p.spool, Backlog: p.spool, Stock: p.spool,
		Durable: func(d *record.Payload) bool { return d.Pieces[0].File.Input == durableInput }, Quarantine: quarantine{p},
		Divider: p.sealer, Memory: p.sealer, Books: p.ledger, Metrics: deaf{}, Wake: func(record.Route) { p.wake() }, Logger: logger,
	})
	routes := map[record.Route]batcher.Limits{}
	for _, in := range inputs {
		for shape := range shapes {
			routes[route(in, shape)] = batcher.Limits{MaxBytes: maxPayload}
		}
	}
	p.batcher = batcher.New(batcher.Options{Routes: routes, Memory: memory, Next: p.sender})
	ctx, stop := context.WithCancel(context.Background())
	p.stopSending = stop
	p.sending = begin(func() { p.sender.Run(ctx) })
	front, stop := context.WithCancel(context.Background())
	p.stopReading = stop
	p.recovering = begin(func() {
		p.recovery.Run(front, recovery.Rooms{Source: source{p}, Packer: p.sealer, Sender: p.sender})
	})
	r := &reader{p: p, offsets: map[record.File]int64{}, ahead: map[record.File][]record.Extent{}}
	p.reading = begin(func() { r.run(front) })
	return p, nil
}

// begin runs f and returns a channel that is closed when it returns.
func begin(f func()) <-chan struct{} {
	done := make(chan struct{})
	// Awaited by whoever receives from done.
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// stop ends a process in good order, as cmd/agent does. It may die on the way.
func (p *process) stop(patience time.Duration) {
	ending, end := context.WithTimeout(context.Background(), patience)
	defer end()
	p.stopReading()
	for _, done := range []<-chan struct{}{p.reading, p.recovering} {
		<-done
	}
	_ = p.sender.Drain(ending)
	p.stopSending()
	<-p.sending
	kept, left := p.sender.Keep()
	p.w.note("stopped: %d kept, %d left", kept, left)
	p.books(true)
	err := errors.Join(p.spool.Close(), p.journal.Close())
	if err != nil {
		p.w.note("stop: %v", err)
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if !p.dead.Load() {
		p.w.doubt(p.w.badSince)
	}
}

// reap waits for what is left of a process that died.
func (p *process) reap() {
	p.stopReading()
	p.stopSending()
	<-p.reading
	<-p.recovering
	<-p.sending
	_ = p.spool.Close()
	_ = p.journal.Close()
}

// books have to close at any time, and hold what was accepted once nothing is under way.
func (p *process) books(quiet bool) {
	if p.dead.Load() {
		return
	}
	var accepted uint64
	for in, b := range p.ledger.Snapshot() {
		accepted += b.Accepted
		if err := b.Check(); err != nil && !p.dead.Load() {
			p.w.fail("input %s: %v", in, err)
		}
	}
	if quiet && accepted != uint64(p.acceptances.Load()) && !p.dead.Load() {
		p.w.fail("%d records accepted in the books, the service said so of %d", accepted, p.acceptances.Load())
	}
}

func sendConfig(concurrency int, rate units.Size) sender.Config {
	c := sender.DefaultConfig()
	c.Concurrency, c.RateLimit = sender.Concurrency(concurrency), rate
	return c
}
