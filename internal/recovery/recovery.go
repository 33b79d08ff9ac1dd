package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kusto-agent/internal/record"
)

// What a Source says of a batch it cannot give. Any other error means: not now.
var (
	ErrGone          = errors.New("source is gone")
	ErrReshaped      = errors.New("input has other settings now")
	ErrNotConfigured = errors.New("its input is not configured")
)

// Journal is told how batches begin and end.
type Journal interface {
	Begin(p *record.Payload) error
	End(id record.BatchID, o record.Outcome) error
	Split(parent record.BatchID, children []*record.Payload) error
	// EndReplay is the end of a batch that is, or was, in the spool.
	EndReplay(id record.BatchID, o record.Outcome) error
}

// Frames is what the journal remembers of batches in the spool.
type Frames interface {
	Replay(id record.BatchID, attempt int) error
	Removed(ids []record.BatchID)
	// InSpool returns those of the batches that went to the spool and have not ended,
	// as they were begun.
	InSpool(want func(record.BatchID) bool) (map[record.BatchID]*record.Payload, error)
	// Sync returns nil once all that was told before is in the history that InSpool reads.
	Sync() error
}

// Ranges is what the journal remembers of files.
type Ranges interface {
	Covers(p *record.Payload) bool
	Skip(f record.File, span record.Span, mark record.Mark) error
}

// Spool keeps payloads.
type Spool interface {
	Put(p *record.Payload) error
	// Held calls fn with each payload that waits, and lets go of it where fn says no, or
	// over before of one that replaces no other. With ids it may pass over payloads whose
	// ranges are safe, which are sound and replace no other, and have none of these ids:
	// how many records of which input they have it returns. With nil it passes over none.
	// Lost are the records of those that it lets go of since it cannot read them, but for
	// those that replace another.
	Held(ids iter.Seq[record.BatchID], over func(id record.BatchID) bool, fn func(p *record.Payload, sound bool) bool) (passed, lost map[string]int, err error)
	// Which calls fn with those of the ids that wait, and maybe with others that do.
	Which(ids iter.Seq[record.BatchID], fn func(id record.BatchID)) error
	Attempted(id record.BatchID, attempt int)
	Segments() []uint64 // their numbers
	// NumberAbove has those that are made from now on get numbers above n.
	NumberAbove(n uint64)
}

// Quarantine keeps refused records. Put returns after they are durable.
type Quarantine interface {
	Put(recs []record.Rejected) error
}

// Books count records that enter other than by reading, where they are, and how they end.
type Books interface {
	Restored(input string, n int)
	Dropped(lot record.Lot, reason string)
	Quarantined(lot record.Lot, reason record.Reason)
	Joined(input string, n int)
	// What rests in the spool.
	Spooled(input string, n int)
	Unspooled(input string, n int)
}

// Source reads the files of batches. Its methods may take as long as a disk does.
type Source interface {
	// Shaped is nil where route and shaping of a batch are those of its inputs now,
	// else ErrReshaped or ErrNotConfigured. It does not look at files.
	Shaped(p *record.Payload) error
	// Read makes the body again, and Lens and the number of records in p. Same says
	// whether it has the checksum of p.
	Read(p *record.Payload) (body []byte, same bool, err error)
	// Anew reads the same ranges by the settings of now.
	Anew(p *record.Payload) (*Reading, error)
	// Divide parts a batch into what Read or Anew can give, and what is gone.
	Divide(p *record.Payload) (left, gone record.Payload, err error)
}

// Reading is what ranges hold by other settings than they were first read with. The
// bodies of Parts are not compressed.
type Reading struct {
	Parts   []*record.Payload
	Refused []record.Rejected
	Empty   []record.Extent // no part covers them
}

// Packer makes payloads of bodies and counts their memory.
type Packer interface {
	Fill(p *record.Payload, raw ...[]byte)
	Adopt(p *record.Payload)
	Reserve(must bool) bool
	Unreserve()
}

// Sender sends payloads.
type Sender interface {
	Put(p *record.Payload)
	Expect(r record.Route) // the spool has one more of this route
	Serves(cluster string) bool
}

// Stores are what a start needs, before anything is read or sent.
type Stores struct {
	Journal    Journal
	Frames     Frames
	Ranges     Ranges
	Spool      Spool
	Books      Books
	Quarantine Quarantine
	SpoolHas   func(segments []uint64) // has the journal know these; sorted
	Logger     *slog.Logger
	NewID      func() record.BatchID
	Retry      time.Duration // when what cannot be read now is tried again; 0: 10s
}

// Rooms are what Run needs besides.
type Rooms struct {
	Source Source
	Packer Packer
	Sender Sender
}

// Recovery is safe for concurrent use. Reconcile comes first, then Run once.
type Recovery struct {
	Stores
	Rooms

	notes sync.Mutex // held while the journal is told of segments: no list overtakes a newer one
	had   []uint64   // those that it is to go on to know; guarded by notes

	mu     sync.Mutex
	due    []*batch // to be looked at now, in order
	later  []*batch // to be looked at again, the first first
	losses []loss   // told and not looked up yet
	busy   bool     // something taken from these is at hand
	held   map[record.BatchID]bool
	copies map[record.BatchID]int // how often it was put into the spool here, or may have been: as many older frames of the same id may be there
	sent   map[record.BatchID]*debt
	ready  map[record.BatchID]*record.Payload // bodies for frames that were not readable before
	wake   chan struct{}                      // one token: there is more in due or losses
	looked chan struct{}                      // see Looked
	away   int                                // looks that have not come back; of Run
}

// batch is one that has to be read from its files. It belongs to Run once it is taken.
type batch struct {
	*record.Payload // without Body
	kind            Kind
	again           time.Time
	told            string    // the reason to wait that was logged last
	absent          bool      // that reason is that it has no input
	look            chan look // of a look that has not come back; nil: there is none
}

// loss is what the spool tells of payloads that are not there any more: their ids, and
// how many records of which input they had, and the route of one of them.
type loss struct {
	ids   []record.BatchID
	what  map[string]int
	route record.Route
	again time.Time
}

// debt is a payload of the spool whose parts are sent from memory.
type debt struct {
	id   record.BatchID
	left int // parts that have not ended
}

// New returns a Recovery for the stores of an agent. Without s.Retry it tries again after 10 seconds
// what cannot be read now. Nothing is read or sent before Reconcile and Run.
func New(s Stores) *Recovery {
	s.Retry = cmp.Or(s.Retry, 10*time.Second)
	return &Recovery{
		Stores: s, held: map[record.BatchID]bool{}, copies: map[record.BatchID]int{},
		sent: map[record.BatchID]*debt{}, ready: map[record.BatchID]*record.Payload{}, wake: make(chan struct{}, 1), looked: make(chan struct{}),
	}
}

// Lost takes over payloads that vanished from the spool: ids, as far as they are known, and in what
// the number of their records by input. Run looks for them in the journal. When Lost returns, the
// journal has an attempt for each id, so that the next start notices that they are missing; only then
// may the spool remove the evidence. It waits for the journal, but for no source file.
func (r *Recovery) Lost(ids []record.BatchID, what *record.Payload) {
	r.letReadyGo()
	by := map[string]int{}
	what.Inputs(func(input string, n int) { by[input] += n })
	for _, id := range ids {
		_ = r.Frames.Replay(id, 0)
	}
	r.mu.Lock()
	for _, id := range ids {
		r.held[id] = true
	}
	r.losses = append(r.losses, loss{ids: ids, what: by, route: what.Route})
	r.mu.Unlock()
	r.poke()
}

// Damaged takes over a payload whose frame (its copy in the spool) cannot be read; the spool may forget
// it. If recovery has its body in memory, p gets it and Damaged returns true. Otherwise p is queued to
// be read from its source files. Damaged does not wait for these.
func (r *Recovery) Damaged(p *record.Payload) (filled bool) {
	if own := r.takeReady(p.ID); own != nil {
		*p = *own
		return true
	}
	if len(p.Cover) == 0 {
		r.Lost([]record.BatchID{p.ID}, p)
		return false
	}
	own := *p
	own.Body, own.Lens = nil, nil
	_ = r.Frames.Replay(own.ID, own.Attempt) // so that the next start notices if its segment is gone
	r.add(&batch{Payload: &own, kind: OfSpool})
	return false
}

// letReadyGo drops all bodies that are kept in memory: some may be of payloads that
// vanished from the spool, and the ids of these need not be known. The others are read again from
// their files when they are needed.
func (r *Recovery) letReadyGo() {
	r.mu.Lock()
	ids := slices.Collect(maps.Keys(r.ready))
	r.mu.Unlock()
	for _, id := range ids {
		r.takeReady(id)
	}
}

// Dropped tells the recovery that the spool has dropped a payload, whose body need not be kept any
// more in memory.
func (r *Recovery) Dropped(id record.BatchID) { r.takeReady(id) }

// add queues a batch for Run, which reads it from its files, and wakes Run. The id of a payload of the
// spool is held from now on, so that the journal does not forget it (see Removed).
func (r *Recovery) add(b *batch) {
	r.mu.Lock()
	if b.kind != OfRun {
		r.held[b.ID] = true
	}
	r.due = append(r.due, b)
	r.mu.Unlock()
	r.poke()
}

// poke wakes Run. It does not block.
func (r *Recovery) poke() {
	select {
	case r.wake <- struct{}{}:
	default: // it has a token already
	}
}

// Removed makes the journal forget batches that the spool has removed, except those that
// are still to be read again and those of which the spool has another frame (stored copy).
func (r *Recovery) Removed(ids []record.BatchID) {
	r.mu.Lock()
	forget := make([]record.BatchID, 0, len(ids))
	for _, id := range ids {
		switch n := r.copies[id]; {
		case n > 1:
			r.copies[id] = n - 1
		case n == 1:
			delete(r.copies, id)
		case !r.held[id]:
			forget = append(forget, id)
		}
	}
	r.mu.Unlock()
	r.Frames.Removed(forget)
}

// Unwanted takes the ids of payloads whose write to the spool failed although a frame (stored copy) may
// be on disk. The writer goes on with such a payload, so the journal gets an entry that the frame is
// not to be sent. For a payload that is being read again here the frame is as good, and is counted as a
// copy.
func (r *Recovery) Unwanted(ids []record.BatchID) {
	for _, id := range ids {
		r.mu.Lock()
		held := r.held[id]
		if held {
			r.copies[id]++
		}
		r.mu.Unlock()
		if !held {
			_ = r.Journal.EndReplay(id, record.Replaced)
		}
	}
}

// Pending returns how many batches are to be read now, and how many wait for another try after one that
// failed. absent is how many of the latter have no configured input.
func (r *Recovery) Pending() (now, waiting, absent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now = len(r.due) + len(r.losses); r.busy {
		now++
	}
	for _, b := range r.later {
		if b.absent {
			absent++
		}
	}
	return now, len(r.later), absent
}

// Where describes the ranges of a batch for logs: file and offsets of at most eight of them, and how
// many more there are.
func Where(cover []record.Extent) string {
	const most = 8
	var all []string
	for _, x := range cover[:min(len(cover), most)] {
		all = append(all, x.File.String()+x.Span.String())
	}
	if more := len(cover) - most; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, " ")
}

// logOf returns a logger with the attributes of a batch.
func (r *Recovery) logOf(p *record.Payload) *slog.Logger {
	return r.Logger.With("batch", p.ID.String(), "database", p.Route.Database, "table", p.Route.Table,
		"ranges", Where(p.Cover), "records", p.Records, "attempt", p.Attempt)
}
