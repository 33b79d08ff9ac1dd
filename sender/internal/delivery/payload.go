package delivery

import (
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// Stage is what is under way for a payload. The shell works on a payload in
// every stage but Queued and Refused; its next event is about that work.
type Stage uint8

// The stages of a payload. It leaves the machine when it has ended or rests in
// the spool.
const (
	Queued       Stage = iota + 1 // waits for its turn
	Refused                       // waits for room in quarantine
	Sending                       // has a slot and a request
	Bisecting                     // is being divided into halves, having been refused or being too large
	Quarantining                  // its records are being written to quarantine
	Spilling                      // is being written to the spool, to rest there
	Holding                       // is being written to the spool, and stays in hand
	Returning                     // is being given back to the spool
	Ending                        // its end is being written to the journal
)

// Place is where the bytes of a payload are.
type Place uint8

// The places of a payload in hand.
const (
	Memory    Place = iota + 1 // here alone
	Oversized                  // here alone, and the spool cannot take it
	Perhaps                    // here, and perhaps in the spool: a write failed or came late
	Spooled                    // in the spool too, under its own id
	Rebuilt                    // its frame is damaged; here under an id of its own, made again
)

// InSpool reports whether the spool has given the payload out and waits to hear of it.
func (p Place) InSpool() bool { return p == Spooled || p == Rebuilt }

// Payload is one payload in hand. The machine owns it but for Data, whose
// Attempt the shell counts before each request.
type Payload struct {
	Data  *record.Payload
	Place Place
	Frame record.BatchID // what the spool knows it by; zero unless Place.InSpool

	stage     Stage
	route     *route
	search    *search   // shared by all parts of one refused payload; nil: it is whole
	first     time.Time // begin of its first request in this run
	asked     time.Time // begin of its last request
	askedAt   uint64    // route.accepted at that time
	notBefore time.Time
	trials
	replayed bool          // it came out of the spool, not from a file
	watched  bool          // its request counts for the patience of route and cluster
	bound    bool          // its slot is one of those for suspects
	lent     bool          // it is one of route.safe
	broken   bool          // its last request was broken off after the body was sent
	refusal  *kusto.Answer // why it is to be divided or quarantined
	parts    Indivisible   // IsWhole: it cannot be divided
	asIs     bool          // it could not be divided before it is asked for
}

// trials is what became of the requests of a payload. A route remembers it while the payload is in the
// spool.
type trials struct {
	failures  int
	strikes   int    // failures that are its own: the route accepted others meanwhile
	passed    int    // how often it came out of the spool since, and no slot for suspects was free
	failedAt  uint64 // route.accepted when its last request failed
	uncertain bool   // the outcome of one of its requests is unknown
}

// search counts the requests made to isolate the records at fault in one payload.
type search struct {
	requests int
	told     bool // that it is for bad records: it may have begun with a payload that was too large
}

// fullRate is how many requests a search may make before it goes on with one
// request at a time.
const fullRate = 64

// suspect reports whether the payload has failed by its own fault, or belongs to a search for bad
// records that has made more than fullRate requests, so that it uses only the few slots for such
// payloads.
func (p *Payload) suspect() bool {
	return p.strikes > 0 || p.search != nil && p.search.requests > fullRate
}

// Ticket is a slot that is to be filled with the next payload of a route out of the
// spool.
type Ticket struct{ route *route }

// Route is the route whose payload is wanted.
func (t *Ticket) Route() record.Route { return t.route.name }

// batch is the payload for a notice: it may be asked for again before that is told.
func (p *Payload) batch() *Batch { return &Batch{p.Data.ID, p.Data.Attempt, p.Data.Records} }
