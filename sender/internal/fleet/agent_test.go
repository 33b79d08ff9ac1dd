package fleet

import (
	"encoding/binary"
	"slices"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/sender/internal/delivery"
)

// The settings of an agent, as they are where the configuration says nothing.
var settings = delivery.Settings{Concurrency: delivery.Found, Initial: 500 * time.Millisecond, Max: 30 * time.Second, Patience: 10 * time.Second}

const cluster = "https://cluster"

var table = record.Route{Cluster: cluster, Database: "d", Table: "t", Format: record.JSON}

// start is the time at which an outage begins.
var start = time.Unix(1_800_000_000, 0)

// agent is the machine of package delivery, with a shell around it that answers at once:
// its disk takes no time, and its spool is never full.
type agent struct {
	m     *delivery.Machine
	ask   func(request any)
	store func(number int)

	retryAfter time.Duration // that the service asks for when it throttles

	files []int   // made, and not read yet: there was no credit
	hand  int     // payloads that the machine has
	spool []frame // in the order of their numbers
	queue []delivery.Event
}

// frame is a payload that rests in the spool.
type frame struct {
	number, attempt int
	notBefore       time.Time
}

// newAgent returns a simulated agent that has started at the beginning of the outage and uses the
// scheduler of the real agent (delivery.Machine). It calls ask for each request, which the caller
// answers with answered, and store for each payload that it knows to be stored. retryAfter is what the
// service asks for when it throttles. The seed determines the jitter.
func newAgent(seed uint64, retryAfter time.Duration, ask func(any), store func(int)) *agent {
	a := &agent{m: delivery.New(settings, []delivery.Target{{Name: "c", URL: cluster}}, seed), ask: ask, store: store, retryAfter: retryAfter}
	a.apply(start, delivery.Start{})
	return a
}

// made adds a payload to the files of the agent, and hands it to the scheduler if that may have more
// payloads in hand. now counts from the start of the outage.
func (a *agent) made(now time.Duration, number int) {
	a.files = append(a.files, number)
	a.read(start.Add(now))
}

// read hands payloads of the files to the scheduler (a.m) as long as there is credit, which means that
// fewer payloads are in hand than it allows for the route.
func (a *agent) read(now time.Time) {
	for len(a.files) > 0 {
		if credit, _ := a.m.Credit(table); a.hand >= credit {
			return
		}
		number := a.files[0]
		a.files = a.files[1:]
		a.hand++
		a.apply(now, delivery.Take{Data: payload(number, 0)})
	}
}

// answered gives the scheduler the answer to a request, and then further payloads if it may have them.
// request is the *delivery.Payload that ask was called with; now counts from the start of the outage.
func (a *agent) answered(now time.Duration, request any, is answer) {
	p := request.(*delivery.Payload)
	at := start.Add(now)
	a.apply(at, delivery.Answered{P: p, Answer: a.verdict(is)})
	a.read(at)
}

// verdict translates an answer of the simulated service to the answer that the real client returns.
func (a *agent) verdict(is answer) kusto.Answer {
	switch is {
	case stored:
		return kusto.Answer{Verdict: kusto.Accepted, Status: 200}
	case throttled:
		return kusto.Answer{Verdict: kusto.Throttled, Status: 429, RetryAfter: a.retryAfter, Wrote: true, Err: &kusto.Error{Status: 429}}
	}
	return kusto.Answer{Verdict: kusto.NotSent, Err: &kusto.Error{}}
}

func (a *agent) tick(now time.Duration) {
	at := start.Add(now)
	a.apply(at, delivery.Tick{})
	a.read(at)
}

// alarm returns the time at which the scheduler (a.m) has to get a Tick, counted from the start of the
// outage; -1: at no time, unless another event comes first.
func (a *agent) alarm() time.Duration {
	if at := a.m.Alarm(); !at.IsZero() {
		return at.Sub(start)
	}
	return -1
}

// apply gives an event to the scheduler (a.m) and carries out the actions that it returns. These queue
// further events, which apply handles in the same way until none is left. A call from inside the loop
// only queues its event.
func (a *agent) apply(now time.Time, e delivery.Event) {
	a.queue = append(a.queue, e)
	if len(a.queue) > 1 { // the loop below sees it
		return
	}
	for len(a.queue) > 0 {
		for _, action := range slices.Clone(a.m.Apply(now, a.queue[0])) {
			a.carryOut(now, action)
		}
		a.queue = a.queue[1:]
	}
	a.queue = nil
}

func (a *agent) then(e delivery.Event) { a.queue = append(a.queue, e) }

// carryOut carries out one action of the scheduler at once and queues the event that reports it. A
// request is passed to ask, and is answered later. a.hand counts the payloads that the scheduler has.
func (a *agent) carryOut(now time.Time, action delivery.Action) {
	switch x := action.(type) {
	case delivery.Request:
		x.P.Data.Attempt++
		a.then(delivery.Asked(x))
		a.ask(x.P)
	case delivery.End: // the service has stored the payload
		a.hand--
		a.store(number(x.P.Data))
		a.then(delivery.Ended{P: x.P})
	case delivery.Spill: // the payload is written to the spool; with Stay, the scheduler keeps it too
		if !x.Stay {
			a.hand--
			a.rest(x.P.Data, x.NotBefore)
		}
		a.then(delivery.Spilled{P: x.P, Result: delivery.Kept})
	case delivery.Return: // the payload goes back to the spool
		a.hand--
		a.rest(x.P.Data, x.NotBefore)
		a.then(delivery.Returned{P: x.P})
	case delivery.Fetch: // the scheduler wants the first payload of the spool that may be sent now
		for i, f := range a.spool {
			if !now.Before(f.notBefore) {
				a.spool = slices.Delete(a.spool, i, i+1)
				a.hand++
				data := payload(f.number, f.attempt)
				a.then(delivery.Fetched{Ticket: x.Ticket, Data: data, Frame: data.ID, Stock: a.stock(now)})
				return
			}
		}
		a.then(delivery.NotFetched{Ticket: x.Ticket, Stock: a.stock(now)})
	case delivery.CheckSpool:
		a.then(delivery.SpoolIs{Condition: delivery.Healthy})
	case delivery.Wake, delivery.Notice: // credit has grown, or a log line; read runs after each event
	case delivery.Divide, delivery.Quarantine:
		panic("the service refuses nothing for what is in it")
	}
}

// rest adds a payload to the spool, which is sorted by number. The payload is not to be fetched before
// notBefore.
func (a *agent) rest(p *record.Payload, notBefore time.Time) {
	n := number(p)
	i, _ := slices.BinarySearchFunc(a.spool, n, func(f frame, n int) int { return f.number - n })
	a.spool = slices.Insert(a.spool, i, frame{n, p.Attempt, notBefore})
}

// stock returns how many payloads of the spool may be fetched at the time now (Ready), and when the
// next of the others may be (Next; zero if there is none).
func (a *agent) stock(now time.Time) (s delivery.Stock) {
	for _, f := range a.spool {
		switch {
		case !now.Before(f.notBefore):
			s.Ready++
		case s.Next.IsZero() || f.notBefore.Before(s.Next):
			s.Next = f.notBefore
		}
	}
	return s
}

// payload returns a payload of one record whose id encodes its number.
func payload(number, attempt int) *record.Payload {
	p := &record.Payload{Route: table, Records: 1, Attempt: attempt}
	binary.BigEndian.PutUint64(p.ID[:], uint64(number)+1)
	return p
}

func number(p *record.Payload) int { return int(binary.BigEndian.Uint64(p.ID[:])) - 1 }
