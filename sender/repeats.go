package sender

import (
	"sync"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/sender/internal/delivery"
)

const (
	// repeatEvery is how often the log tells again of what keeps happening on one route.
	repeatEvery = time.Minute
	// turnsAtOnce is how many failures and recoveries of one route are told at once in that
	// time: those of an outage are, those of a service that fails now and then are not.
	turnsAtOnce = 5
)

// repeats logs what can happen with each request, so that it would fill the log: of one route the
// first few at once, and all that follow within a minute in one line.
type repeats struct {
	mu  sync.Mutex
	all map[repeated]*repeat
}

// repeated names what happens again and again on a route.
type repeated struct {
	what  string
	route record.Route
}

// repeat is a minute in which something happened on a route, and what is to be logged when it is over.
type repeat struct {
	timer   *time.Timer
	atOnce  int // were logged at once in this minute
	batches int
	records int
	last    func(batches, records int) // logs them
}

// add logs with write what happened to a batch of so many records, or has it logged with what else
// happens in the minute, if atOnce were logged at once in it already. write gets how many batches and
// records the line is about; it is called with mu held.
func (x *repeats) add(what string, r record.Route, atOnce, records int, write func(batches, records int)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := repeated{what, r}
	f := x.all[key]
	if f == nil {
		f = &repeat{}
		f.timer = time.AfterFunc(repeatEvery, func() { x.due(key, f) }) // stopped by flush
		x.all[key] = f
	}
	if f.atOnce < atOnce {
		f.atOnce++
		write(1, records)
		return
	}
	f.batches++
	f.records += records
	f.last = write
}

// due ends the minute of something on a route. If more happened in it than was logged at once, it logs
// the rest, and another minute begins, in which nothing is logged at once.
func (x *repeats) due(key repeated, f *repeat) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.all[key] != f: // flushed meanwhile
	case f.batches == 0:
		delete(x.all, key)
	default:
		f.last(f.batches, f.records)
		f.batches, f.records = 0, 0
		f.timer.Reset(repeatEvery)
	}
}

// flush logs what was not logged yet.
func (x *repeats) flush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.all {
		if f.timer.Stop(); f.batches > 0 {
			f.last(f.batches, f.records)
		}
	}
	clear(x.all)
}

// logRefused logs that records of a route are in quarantine since the service refused them. Each
// record has a request of its own.
func (s *Sender) logRefused(r record.Route, records int, activity string, err *kusto.Error) {
	s.repeats.add("refused", r, 1, records, func(_, records int) {
		s.o.Logger.Warn("records were refused and are in quarantine", "database", r.Database, "table", r.Table,
			"records", records, "activity", activity, "err", err,
			"fix", "look at them: kusto-agent quarantine ls --reason refused")
	})
}

// logUpdatePolicy logs that the service stored a batch, and an update policy of its table failed.
func (s *Sender) logUpdatePolicy(d *record.Payload, ans *kusto.Answer) {
	r := d.Route
	s.repeats.add("update policy", r, 1, d.Records, func(batches, records int) {
		s.o.Logger.Warn("rows were stored but an update policy failed: the rows that it adds to its target table are missing", "database", r.Database,
			"table", r.Table, "batches", batches, "records", records, "err", ans.UpdatePolicy, "activity", ans.ActivityID,
			"fix", "look at the policy with .show table "+kusto.EntityName(r.Table)+" policy update; rows that the policy did not produce are missing in its target table")
	})
}

// logNotice writes a notice of the delivery machine to the log. Those that can come with each request
// are told of one route a few times a minute, and then together.
func (s *Sender) logNotice(n *delivery.Notice) {
	var what string
	var atOnce int
	switch n.What {
	case delivery.Retrying:
		what, atOnce = "retrying", turnsAtOnce
	case delivery.RouteRecovered:
		what, atOnce = "recovered", turnsAtOnce
	case delivery.Searching:
		what, atOnce = "searching", 1
	default:
		s.writeNotice(n, 1)
		return
	}
	told := *n // n is the caller's again
	records := 0
	if n.Batch != nil {
		records = n.Batch.Records
	}
	s.repeats.add(what, n.Route, atOnce, records, func(times, _ int) { s.writeNotice(&told, times) })
}
