// Package sender promises that every payload it takes ends in exactly one way,
// accepted, quarantined or kept for later, and that its end is in the journal
// before its memory is given back. A cluster that is down, throttled or refuses
// one route costs only what belongs to it: its payloads rest in the spool, and
// come back from there by turns with new ones.
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
//	    both it and they are in the spool, and it wins.
package sender

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"kusto-agent/kusto"
	"kusto-agent/record"
)

// Ingester makes one request and judges its answer.
type Ingester interface {
	Ingest(ctx context.Context, in *kusto.Ingest) kusto.Answer
}

// Journal remembers what was begun and how it ended.
type Journal interface {
	Begin(p *record.Payload) error
	End(id record.BatchID, o record.Outcome) error
	Split(parent record.BatchID, children []*record.Payload) error
	// Of a payload in the spool:
	Replay(id record.BatchID, attempt int) error
	EndReplay(id record.BatchID, o record.Outcome) error
}

// Spool keeps payloads on disk. Each is known there by the id it came with.
type Spool interface {
	// Put returns after the payload is durable, and Hold leaves it in hand
	// besides, as if Next had given it out.
	Put(p *record.Payload) error
	Hold(p *record.Payload) error
	// Next gives out the oldest payload of a route and the id it is known by,
	// which is its own unless its body had to be made anew; nil: not now.
	Next(r record.Route) (p *record.Payload, frame record.BatchID)
	Return(frame record.BatchID)
	Done(frame record.BatchID, how record.Outcome)
	Waiting(r record.Route) int
	Routes() []record.Route
	// Health is nil while Put makes sense.
	Health() error
}

// Quarantine keeps refused records. Put returns after they are durable.
type Quarantine interface {
	Put(recs []record.Rejected) error
}

// Sealer takes payloads apart and takes their memory back.
type Sealer interface {
	Split(p *record.Payload) ([]*record.Payload, error)
	Records(p *record.Payload) ([]record.Rejected, error)
	Adopt(p *record.Payload) // its memory came from elsewhere and is counted from now on
	// Reserve counts room for a payload that is about to be read; false: there
	// is none, and must was not set. Unreserve follows.
	Reserve(must bool) bool
	Unreserve()
	Release(p *record.Payload)
}

// Books count what became of the records of an input.
type Books interface {
	Accepted(input string, n int)
	Quarantined(input string, reason record.Reason, n int)
	Spooled(input string, n int)
	Unspooled(input string, n int)
}

// Metrics are told of requests as they end.
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
	Journal    Journal
	Spool      Spool
	Durable    func(*record.Payload) bool // it is to be in the spool before it is posted
	Quarantine Quarantine
	Sealer     Sealer
	Books      Books
	Metrics    Metrics
	Wake       func(record.Route) // the route's Credit grew
	Logger     *slog.Logger
}

// Sender is safe for concurrent use.
type Sender struct {
	o Options

	mu       sync.Mutex
	limiter  *rate.Limiter       // nil: no limit
	serve    func(*cluster)      // starts a dispatcher; nil before and after Run
	clusters map[string]*cluster // by URL
	lanes    map[record.Route]*lane
	items    int                     // payloads in hand: taken or out of the spool, not ended
	draining bool                    // nothing is taken out of the spool any more
	keeping  []toKeep                // on their way to the spool
	keepers  int                     // goroutines that bring them there
	onWay    map[record.BatchID]bool // what these have in hand
	wakes    []record.Route          // whose credit grew and whose readers are to be told
	changed  chan struct{}           // closed and replaced when a payload ends or a state changes
}

// largestPayload is more than any payload has bytes before gzip.
const largestPayload = 16 << 20

// New returns a sender. Run must be called.
func New(o Options) *Sender {
	s := &Sender{
		o:        o,
		clusters: make(map[string]*cluster),
		lanes:    make(map[record.Route]*lane),
		onWay:    make(map[record.BatchID]bool),
		changed:  make(chan struct{}),
	}
	s.limiter = newLimiter(o.Config)
	s.setClusters(o.Clusters)
	return s
}

// Run sends until ctx ends, then breaks off the requests under way. Keep must
// follow.
func (s *Sender) Run(ctx context.Context) {
	s.mu.Lock()
	for _, r := range s.o.Spool.Routes() {
		if s.clusters[r.Cluster] != nil {
			s.lane(r)
		}
	}
	var dispatchers sync.WaitGroup
	s.serve = func(c *cluster) {
		// Started here or by Reload, ended by ctx, awaited below.
		dispatchers.Go(func() { s.dispatch(ctx, c) })
	}
	for _, c := range s.clusters {
		s.serve(c)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.serve = nil
	s.mu.Unlock()
	dispatchers.Wait()
}

// Put takes a payload over. It never blocks; Credit bounds what is in hand.
func (s *Sender) Put(p *record.Payload) {
	durable := s.o.Durable(p)
	s.mu.Lock()
	l := s.lane(p.Route)
	s.items++
	it := &item{Payload: p}
	if durable && s.o.Spool.Health() == nil {
		s.keep(l, it, true)
	} else {
		l.queue = append(l.queue, it)
	}
	s.mu.Unlock()
	l.cluster.wake()
}

// Expect tells of a payload of a route that was put into the spool by others.
func (s *Sender) Expect(r record.Route) {
	s.mu.Lock()
	l := s.lane(r)
	s.mu.Unlock()
	l.cluster.wake()
}

// Credit says how many payloads of the route may be in hand, and whether the
// route is being served: two while it is not.
func (s *Sender) Credit(r record.Route) (payloads int, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lane(r)
	if l.blocked() || l.cluster.blocked() {
		return 2, false
	}
	return 2 * max(l.cluster.limit, 2), true
}

// lane finds or makes what is known of a route. The caller holds mu.
func (s *Sender) lane(r record.Route) *lane {
	l := s.lanes[r]
	if l == nil {
		c := s.clusters[r.Cluster]
		l = &lane{route: r, cluster: c, spool: s.o.Spool}
		l.pace = newPace(s.o.Config.Retry)
		s.lanes[r] = l
		c.lanes = append(c.lanes, l)
	}
	return l
}

// Serves reports whether payloads for the cluster URL can be taken.
func (s *Sender) Serves(url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clusters[url] != nil
}

// Drain returns when no payload is in hand, when all that are wait for a route or
// cluster that is down or held, or with the context's error. From its call on
// nothing is taken out of the spool.
func (s *Sender) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for {
		s.mu.Lock()
		changed, progress := s.changed, s.progress(0)
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
type Progress struct {
	Left    int  // payloads in hand, not ended
	Spooled int  // payloads in the spool for clusters that are served
	Stuck   bool // all of them wait for a route or cluster that is down or held
	Refused bool // a token or a route was refused, or there is no token
	Down    bool // another route with payloads does not accept
}

// Progress tells how far sending is.
func (s *Sender) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress(s.o.Config.Retry.Patience.D())
}

// progress takes a hold for stuck after patience. The caller holds mu.
func (s *Sender) progress(patience time.Duration) Progress {
	p := Progress{Left: s.items}
	moving := len(s.keeping)+s.keepers > 0
	now := time.Now()
	for _, l := range s.lanes {
		inHand, waiting := len(l.queue)+l.inflight, l.waiting()
		if inHand+waiting == 0 {
			continue
		}
		p.Spooled += waiting
		refused, down := l.verdict(now, patience)
		p.Refused = p.Refused || refused
		p.Down = p.Down || down
		moving = moving || !refused && !down && (inHand > 0 || !s.draining)
	}
	p.Stuck = p.Left+p.Spooled > 0 && !moving
	return p
}

// announce wakes whoever waits for progress. The caller holds mu.
func (s *Sender) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}
