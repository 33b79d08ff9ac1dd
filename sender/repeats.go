package sender

import (
	"slices"
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
// first few at once, and all that follow within a minute in one line. What happened on a route before
// is logged before, whatever it was.
type repeats struct {
	mu     sync.Mutex
	routes map[record.Route]*minute
}

// minute is a minute in which something happened on a route that may happen again and again.
type minute struct {
	timer *time.Timer
	all   []*repeat // what happened last is at the end
}

// repeat is one of the things that happen on a route, and what is still to be logged of it.
type repeat struct {
	what    string
	atOnce  int  // were logged at once
	more    bool // of it happened in this minute
	batches int
	records int
	last    func(batches, records int) // logs them
}

// add logs with write what happened to a batch of so many records, or has it logged with what else
// happens in the minute, if atOnce were logged at once already. write gets how many batches and
// records the line is about; it is called with mu held.
func (x *repeats) add(what string, r record.Route, atOnce, records int, write func(batches, records int)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := x.routes[r]
	if m == nil {
		m = &minute{}
		m.timer = time.AfterFunc(repeatEvery, func() { x.due(r, m) }) // stopped by flush
		x.routes[r] = m
	}
	f := m.happens(what)
	if f.atOnce < atOnce {
		f.atOnce++
		m.write()
		write(1, records)
		return
	}
	f.more, f.last = true, write
	f.batches++
	f.records += records
}

// happens returns the repeat of this name, as the one that happened last.
func (m *minute) happens(what string) *repeat {
	f := &repeat{what: what}
	if i := slices.IndexFunc(m.all, func(f *repeat) bool { return f.what == what }); i >= 0 {
		f = m.all[i]
		m.all = slices.Delete(m.all, i, i+1)
	}
	m.all = append(m.all, f)
	return f
}

// write logs what was not logged yet.
func (m *minute) write() {
	for _, f := range m.all {
		if f.batches > 0 {
			f.last(f.batches, f.records)
			f.batches, f.records = 0, 0
		}
	}
}

// due ends the minute of a route and logs the rest of what happened in it. If there was more than was
// logged at once, another minute begins, in which nothing of that kind is logged at once.
func (x *repeats) due(r record.Route, m *minute) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.routes[r] != m { // flushed meanwhile
		return
	}
	m.write()
	m.all = slices.DeleteFunc(m.all, func(f *repeat) bool { return !f.more })
	if len(m.all) == 0 {
		delete(x.routes, r)
		return
	}
	for _, f := range m.all {
		f.more = false
	}
	m.timer.Reset(repeatEvery)
}

// tell logs what was not logged yet of a route.
func (x *repeats) tell(r record.Route) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if m := x.routes[r]; m != nil {
		m.write()
	}
}

// flush logs what was not logged yet.
func (x *repeats) flush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.routes {
		m.timer.Stop()
		m.write()
	}
	clear(x.routes)
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
// are told of one route a few times a minute, and then together. The failures before a route is held are
// told before that, since it sends nothing from then on.
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
		if n.What == delivery.RouteHeld {
			s.repeats.tell(n.Route)
		}
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
