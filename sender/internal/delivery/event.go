package delivery

import (
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// Event is something that happened. Each type says who reports it.
type Event interface {
	// apply has the machine change its state and emit actions.
	apply(m *Machine)
}

// Events about payloads. The shell reports each exactly once for each action
// that asks for it.
type (
	// Take hands a payload over. Durable: it is to be in the spool before it is sent.
	Take struct {
		Data    *record.Payload
		Durable bool
	}
	// Fetched fills a ticket with the payload that the spool gave out. Stock is
	// what is left of the route there.
	Fetched struct {
		Ticket *Ticket
		Data   *record.Payload
		Frame  record.BatchID
		Stock  Stock
	}
	// NotFetched returns a ticket. NoMemory: there was no memory to read into;
	// else nothing could be read.
	NotFetched struct {
		Ticket   *Ticket
		NoMemory bool
		Stock    Stock
	}
	// Asked says that the request of a payload leaves now: the rate limit and the
	// journal have let it pass.
	Asked struct{ P *Payload }
	// Answered ends a request with the verdict of kusto.
	Answered struct {
		P      *Payload
		Answer kusto.Answer
	}
	// BrokenOff ends a request that the stop broke off, or never let begin; no
	// request is made any more. Unknown: the body was sent.
	BrokenOff struct {
		P       *Payload
		Unknown bool
	}
	// Spilled ends a Spill.
	Spilled struct {
		P      *Payload
		Result SpillResult
	}
	// Returned ends a Return.
	Returned struct{ P *Payload }
	// Ended ends an End.
	Ended struct{ P *Payload }
	// Divided ends a Divide: the payload has ended, and the halves are in hand in
	// the same place.
	Divided struct {
		P      *Payload
		Halves []*record.Payload
	}
	// NotDivided ends a Divide that failed.
	NotDivided struct {
		P   *Payload
		Why Indivisible
		Err error
	}
	// NotQuarantined ends a Quarantine that failed. One that succeeds is followed
	// by Quarantined.
	NotQuarantined struct {
		P   *Payload
		Err error
	}
	// Quarantined says that the records of a payload are durable in quarantine.
	Quarantined struct{ P *Payload }
)

// Events about everything else.
type (
	// Start lets requests be made.
	Start struct{}
	// Halt lets no more be made.
	Halt struct{}
	// Drain lets nothing more be taken out of the spool.
	Drain struct{}
	// Keep brings all that is queued to the spool, or back there. It follows Halt.
	Keep struct{}
	// Tick says that the time Alarm named has come.
	Tick struct{}
	// Restock says what the spool has for a route.
	Restock struct {
		Route record.Route
		Stock Stock
	}
	// SpoolIs answers CheckSpool.
	SpoolIs struct{ Condition Condition }
	// Configure puts settings and clusters in force. What is held is asked again.
	Configure struct {
		Settings Settings
		Clusters []Target
	}
)

// Stock is what the spool has for a route.
type Stock struct {
	Ready int       // payloads that are given out now
	Next  time.Time // when another will be ready; zero: none waits for its time
}

// SpillResult is what became of a payload on its way to the spool.
type SpillResult uint8

// The results of a Spill.
const (
	Kept     SpillResult = iota + 1 // durable
	NoRoom                          // surely not there: full, or off
	TooLarge                        // surely not there, now and later
	Doubtful                        // the write failed or did not end in time: it may be there
)

// Indivisible is why a payload was not divided.
type Indivisible uint8

// The reasons of NotDivided.
const (
	IsWhole   Indivisible = iota + 1 // its records cannot be told apart
	SpoolFull                        // the spool takes no halves now
	Failed                           // a fault of this program or machine
)

// Condition is whether the spool takes payloads.
type Condition uint8

// The conditions of the spool.
const (
	Healthy Condition = iota + 1
	Sick              // full, off, failing or stalled
)

// Target is a cluster to send to.
type Target struct{ Name, URL string }

// Settings are those of the configuration.
type Settings struct {
	Concurrency            int // most slots of a cluster, or Found
	Initial, Max, Patience time.Duration
}

// Found is the Concurrency of clusters that have as many slots as pay.
const Found = 0

// Action is what the shell has to do. Each type says which event reports it.
type Action interface{ action() }

// Actions on payloads.
type (
	// Request asks the service: Asked, then Answered or BrokenOff.
	Request struct{ P *Payload }
	// Fetch takes a payload out of the spool: Fetched or NotFetched. Must: also
	// where memory is short.
	Fetch struct {
		Ticket *Ticket
		Must   bool
	}
	// Spill writes a payload to the spool: Spilled. Stay: it stays in hand.
	// Else it rests there, and NotBefore is when it is next to be given out.
	Spill struct {
		P         *Payload
		Stay      bool
		NotBefore time.Time
	}
	// Return gives a payload back to the spool, which gives it out no sooner than
	// NotBefore: Returned.
	Return struct {
		P         *Payload
		NotBefore time.Time
	}
	// Divide halves a payload that was refused or is too large: Divided or NotDivided.
	Divide struct{ P *Payload }
	// Quarantine writes the records of a refused payload to quarantine:
	// Quarantined or NotQuarantined.
	Quarantine struct {
		P      *Payload
		Answer kusto.Answer
	}
	// End writes the end of a payload wherever it is known: Ended.
	End struct {
		P   *Payload
		How record.Outcome
	}
)

// Other actions; none of them is reported but CheckSpool.
type (
	// CheckSpool asks for the condition of the spool: SpoolIs.
	CheckSpool struct{}
	// Wake says that the credit of a route grew.
	Wake struct{ Route record.Route }
	// Notice is a line for the log.
	Notice struct {
		What    What
		Cluster string
		Route   record.Route // zero for a notice of a cluster
		Batch   *Batch       // nil for one of a route or cluster
		Answer  kusto.Answer
		Last    *kusto.Error // of the failures a notice of Down sums up
		Hold    Hold
		Elapsed time.Duration
		Count   int
	}
)

// Batch is a payload as it was when a notice was made.
type Batch struct {
	ID               record.BatchID
	Attempt, Records int
}

// What is what a notice says.
type What uint8

// The notices.
const (
	Retrying        What = iota + 1 // a request was not accepted
	FailingAlone                    // a payload fails while others of its route are accepted
	ClusterDown                     // nothing was accepted for patience
	RouteDown                       // nothing was accepted for patience
	RouteRecovered                  // the route recovered
	RouteHeld                       // the service refuses the route
	ClusterHeld                     // no valid token
	LongRetryAfter                  // more than MaxPause was asked for
	Searching                       // a payload is divided to find the records at fault
	SizeLearned                     // payloads are to be no larger than Count bytes before gzip
	UnknownAtStop                   // a request was broken off by the stop
	UnknownReplaced                 // a rebuilt payload of unknown outcome is made again under another id
)

func (e Take) apply(m *Machine)           { m.take(e) }
func (e Fetched) apply(m *Machine)        { m.fetched(e) }
func (e NotFetched) apply(m *Machine)     { m.notFetched(e) }
func (e Asked) apply(m *Machine)          { m.asked(e.P) }
func (e Answered) apply(m *Machine)       { m.answered(e.P, &e.Answer) }
func (e BrokenOff) apply(m *Machine)      { m.brokenOff(e.P, e.Unknown) }
func (e Spilled) apply(m *Machine)        { m.spilled(e.P, e.Result) }
func (e Returned) apply(m *Machine)       { m.returned(e.P) }
func (e Ended) apply(m *Machine)          { m.ended(e.P) }
func (e Divided) apply(m *Machine)        { m.divided(e.P, e.Halves) }
func (e NotDivided) apply(m *Machine)     { m.notDivided(e.P, e.Why, e.Err) }
func (e Quarantined) apply(m *Machine)    { m.quarantined(e.P) }
func (e NotQuarantined) apply(m *Machine) { m.notQuarantined(e.P, e.Err) }
func (e Restock) apply(m *Machine)        { m.restocked(e) }
func (e SpoolIs) apply(m *Machine)        { m.spoolIs(e.Condition) }
func (e Configure) apply(m *Machine)      { m.configure(e) }
func (Start) apply(m *Machine)            { m.start() }
func (Halt) apply(m *Machine)             { m.phase = halted }
func (Drain) apply(m *Machine)            { m.draining = true }
func (Keep) apply(m *Machine)             { m.keep() }
func (Tick) apply(*Machine)               {} // the pump that follows looks at what is due

func (Request) action()    {}
func (Fetch) action()      {}
func (Spill) action()      {}
func (Return) action()     {}
func (Divide) action()     {}
func (Quarantine) action() {}
func (End) action()        {}
func (CheckSpool) action() {}
func (Wake) action()       {}
func (Notice) action()     {}
