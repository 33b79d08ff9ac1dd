// Package sender promises that every payload it takes ends in exactly one way,
// accepted, quarantined or kept for later, and that its end is in the journal
// before its memory is given back. A cluster that is down, throttled or refuses
// one route costs only what belongs to it: its payloads rest in the spool, and
// come back from there by turns with new ones. A payload that fails alone waits on
// a schedule of its own and keeps no other from being sent.
//
// What is to be done with a payload, a route and a cluster is decided by the
// machine of the package delivery below. This package carries its actions out,
// requests, spool, journal, quarantine and log, and reports to it what came of them.
//
// # Order of writes
//
// What a kill leaves, step by step.
//
//	(a) The journal has the begin of a payload before the first byte of its
//	    request. Kill between: it is sent again.
//	(b) It has the end after the answer was judged. Kill between: it is sent
//	    again, and may be stored twice.
//	(c) A payload that goes to the spool is begun, durable there, and then ended
//	    as spooled. Kill between: it is begun and in the spool, which wins.
//	(d) A payload out of the spool: the journal has its attempt before its
//	    request, and its end before the spool lets go of it. Kill between: the
//	    journal's end wins.
//	(e) The halves of a refused payload out of the spool are durable there
//	    before the journal has its split, and tried after that. Kill between:
//	    the payload and its halves are in the spool, and the payload is used.
//	(f) A payload whose write to the spool failed or came late is sent from
//	    memory. Its end is written for the batch and for the frame that the next
//	    start may find. Kill between: it is begun and perhaps in the spool, sent
//	    again and named.
package sender

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/sender/internal/delivery"
)

// Ingester makes one request and judges its answer.
type Ingester interface {
	Ingest(ctx context.Context, in *kusto.Ingest) kusto.Answer
}

// Batches is the part of the journal that remembers what was begun and how it ended.
type Batches interface {
	Begin(p *record.Payload) error
	End(id record.BatchID, o record.Outcome) error
	Split(parent record.BatchID, children []*record.Payload) error
	// Unknown notes that no trustworthy answer came for an attempt, for the history alone.
	Unknown(id record.BatchID, attempt int) error
}

// Replays is the part of the journal that remembers requests for payloads in the
// spool and how these ended.
type Replays interface {
	Replay(id record.BatchID, attempt int) error
	// Answered notes that the request was answered, and that the payload was not stored by it.
	Answered(id record.BatchID, attempt int) error
	EndReplay(id record.BatchID, o record.Outcome) error
}

// Spill is where payloads are kept on disk, each under the id it came with.
type Spill interface {
	// Put returns after the payload is durable, and Hold leaves it in hand
	// besides, as if Next had given it out.
	Put(p *record.Payload) error
	Hold(p *record.Payload) error
	// Health is nil while Put makes sense.
	Health() error
}

// Backlog gives out what was kept.
type Backlog interface {
	// Next gives out the oldest payload of a route and the id it is known by,
	// which is its own unless its body had to be made anew; nil: not now.
	Next(r record.Route) (p *record.Payload, frame record.BatchID)
	// ReturnUntil takes one back, and Next passes over it until the given time.
	ReturnUntil(frame record.BatchID, notBefore time.Time)
	Done(frame record.BatchID, how record.Outcome)
}

// Stock tells what waits in the spool, without reading from the disk.
type Stock interface {
	Ready(r record.Route, now time.Time) (ready bool, due time.Time)
	Waiting(r record.Route) int
	Routes() []record.Route
}

// Quarantine keeps refused records. Put returns after they are durable.
type Quarantine interface {
	Put(recs []record.Rejected) error
}

// Divider takes payloads apart.
type Divider interface {
	Split(p *record.Payload) ([]*record.Payload, error)
	Records(p *record.Payload) ([]record.Rejected, error)
}

// Memory counts the bytes of payloads in hand.
type Memory interface {
	Adopt(p *record.Payload) // it came from elsewhere and is counted from now on
	// Reserve counts room for a payload that is about to be read; false: there
	// is none, and must was not set. Unreserve follows.
	Reserve(must bool) bool
	Unreserve()
	Release(p *record.Payload)
}

// Books count what became of the records of an input.
type Books interface {
	Accepted(lot record.Lot)
	Quarantined(lot record.Lot, reason record.Reason)
	Spooled(input string, n int)
	Unspooled(input string, n int)
}

// Metrics receives the figures of requests as they end.
type Metrics interface {
	Request(outcome, code string, d time.Duration)
	EndToEnd(route record.Route, d time.Duration)
	Retry()
	Unknown(records int)
}

// Cluster is one service to send to.
type Cluster struct {
	Name     string
	URL      string
	Ingester Ingester // comparable
	Close    func()   // told once Ingester was replaced by a Reload and its last request has ended; nil: nobody is
}

// Options are what New needs. All are required.
type Options struct {
	Config     Config
	Clusters   []Cluster
	Batches    Batches
	Replays    Replays
	Spill      Spill
	Backlog    Backlog
	Stock      Stock
	Durable    func(*record.Payload) bool // it is to be in the spool before it is posted
	Quarantine Quarantine
	Divider    Divider
	Memory     Memory
	Books      Books
	Metrics    Metrics
	Wake       func(record.Route) // the route's Credit grew
	Logger     *slog.Logger
}

// Sender is safe for concurrent use.
type Sender struct {
	o Options

	mu      sync.Mutex
	m       *delivery.Machine
	clients map[string]*client // by URL
	limiter *rate.Limiter      // nil: no limit
	limits  chan struct{}      // closed and replaced when the limiter is
	ctx     context.Context    // of requests; nil before Run
	work    sync.WaitGroup     // goroutines that carry out actions, but the writers
	armed   time.Time          // the alarm that Run waits for; zero: none
	rearm   chan struct{}      // Run is to look at the alarm again
	writes  []delivery.Action  // Spill and Return that wait for a writer
	writers int                // goroutines that write to the spool
	onWay   map[record.BatchID]bool
	changed chan struct{} // closed at the next event; nil: nobody waits

	repeats repeats
}

// largestPayload is more than any payload has bytes before gzip.
const largestPayload = 16 << 20

// New returns a sender that has nothing in hand. It sends nothing before Run is called.
func New(o Options) *Sender {
	s := &Sender{
		o:       o,
		m:       delivery.New(settingsOf(o.Config), targetsOf(o.Clusters), rand.Uint64()),
		clients: make(map[string]*client),
		limiter: newLimiter(o.Config),
		limits:  make(chan struct{}),
		rearm:   make(chan struct{}, 1),
		onWay:   make(map[record.BatchID]bool),

		repeats: repeats{routes: make(map[record.Route]*minute)},
	}
	s.setClients(o.Clusters)
	return s
}

// Run sends payloads until ctx ends. Between events it gives the delivery machine, which decides
// what to send, a Tick at each time that its Alarm names. At the end it cancels the requests in
// flight and returns when their goroutines have ended. The caller calls Keep afterwards to bring
// the payloads left in hand to the spool.
func (s *Sender) Run(ctx context.Context) {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	s.apply(delivery.Start{})
	s.restock()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		s.mu.Lock()
		s.armed = s.m.Alarm()
		at := s.armed
		s.mu.Unlock()
		if at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		select {
		case <-timer.C:
			s.apply(delivery.Tick{})
		case <-s.rearm:
		case <-ctx.Done():
		}
	}
	s.apply(delivery.Halt{})
	s.work.Wait()
}

// restock tells the delivery machine of each route that has payloads in the spool and whose cluster
// has a client, so that they are fetched and sent.
func (s *Sender) restock() {
	for _, r := range s.o.Stock.Routes() {
		if s.Serves(r.Cluster) {
			s.Expect(r)
		}
	}
}

// Put hands a payload to the sender, which owns it from then on. It never blocks: the caller keeps to
// Credit, which bounds how many payloads are in hand.
func (s *Sender) Put(p *record.Payload) {
	s.apply(delivery.Take{Data: p, Durable: s.o.Durable(p)})
}

// Expect tells the sender that the spool may have a payload of the route that the sender did not write
// itself, so that it is fetched.
func (s *Sender) Expect(r record.Route) {
	s.apply(delivery.Restock{Route: r})
}

// Forget tells the sender that a payload of the route, which the spool had under the id frame and
// which is not in hand, was removed from the spool, dropped there, or moved to another cluster.
func (s *Sender) Forget(r record.Route, frame record.BatchID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.Forget(r, frame)
	s.announce()
}

// Credit returns how many payloads of the route may be in hand (taken over and not ended), and
// whether the route and its cluster are up. A route that is down or held may have two, and up to
// two more that also lie in the spool.
func (s *Sender) Credit(r record.Route) (payloads int, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Credit(r)
}

// Largest returns the most bytes before gzip that a payload of the route should have, as learned from
// requests that the service refused for their size; 0 means that no limit is known.
func (s *Sender) Largest(r record.Route) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Largest(r, time.Now())
}

// Serves reports whether the sender has a client for the cluster at url, and so sends what is in
// hand and in the spool for it.
func (s *Sender) Serves(url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Serves(url)
}

// Drain stops the replay from the spool and waits for the payloads in hand. It returns nil when
// none is left, or when all that are left wait for a route or cluster that is down or held, for
// however short a time, and otherwise the error of ctx.
func (s *Sender) Drain(ctx context.Context) error {
	s.apply(delivery.Drain{})
	for {
		s.mu.Lock()
		changed, progress := s.watch(), s.m.Progress(time.Now(), 0, s.o.Stock.Waiting)
		s.mu.Unlock()
		if progress.Left == 0 || progress.Stuck {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Progress sums up what is left to send.
type Progress = delivery.Progress

// Progress returns how much is left to send and whether it can be sent now. A hold counts as stuck
// once it has lasted for retry.patience.
func (s *Sender) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Progress(time.Now(), s.o.Config.Retry.Patience.D(), s.o.Stock.Waiting)
}

// Keep writes the payloads left in hand to the spool, after Run has returned, and waits until that
// is done. kept is how many it wrote; left is how many the spool did not take: the next start finds
// these in the journal as begun, or reads them from their files again. A payload whose request was
// canceled after its body was sent is logged, since it may be stored twice.
func (s *Sender) Keep() (kept, left int) {
	s.repeats.flush()
	s.mu.Lock()
	before, _ := s.m.Left()
	s.mu.Unlock()
	s.apply(delivery.SpoolIs{Condition: s.condition()})
	s.apply(delivery.Keep{})
	for {
		s.mu.Lock()
		changed := s.watch()
		left, spilling := s.m.Left()
		busy := spilling > 0 || s.writers > 0
		s.mu.Unlock()
		if !busy {
			return before - left, left
		}
		<-changed
	}
}

// watch returns a channel that is closed after the next event of the delivery machine, or when a
// goroutine that writes to the spool ends. The caller holds mu.
func (s *Sender) watch() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// announce closes the channel of watch, which wakes all goroutines that wait on it. The caller holds
// mu.
func (s *Sender) announce() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
